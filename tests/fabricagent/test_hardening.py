"""OpenSM's settings that isolation depends on, read from its options file, and certificates that end soon."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.drivers.opensm.rigs import FABRIC
from tests.fabricagent.test_agent import write_config
from weft.app.livecheck import certificate_notes
from weft.fabricagent.agent import Agent
from weft.fabricagent.config import read_config
from weft.fabricagent.options import of_the_process, read_options
from weft.fabricagent.tls import AUTHORITY_DAYS, DAYS, make_certificates
from weft.generate.certificates import expiry_problems
from weft.model.errors import UnknownError
from weft.planning.fabric.hardening import RULES, Rule, weaknesses
from weft.testing.fabric import FakeFabric
from weftlab.layout import Layout
from weftlab.site import make_site, settings

HARDENED = """\
# by hand
m_key 0x1f2e3d4c5b6a7988
m_key_protection_level 2
m_key_per_port TRUE
sm_key 0x771d2fe77f553d47
allowed_sm_guids 0x0002c90300f00001,0x0002c90300f00011
sm_priority 15
sa_key 0x9a8b7c6d5e4f3021
sa_enhanced_trust_model TRUE
no_partition_enforcement FALSE
part_enforce both
allow_both_pkeys FALSE
console off
cc_key_enable 2
vs_key_enable 2
n2n_key_enable 2
"""
UPSTREAM_LACKS = {"m_key", "m_key_protection_level", "sm_key", "sm_priority", "sa_key"}
VENDORS = {r.setting for r in RULES if r.vendor}


def _lacking(path: Path) -> set[str]:
    return {w.setting for w in weaknesses("ib0", "sm1", read_options(path, path.parent / "p").options)}


@pytest.mark.fabric
def test_real_options_file_lacks_hardening(tmp_path: Path) -> None:
    """In the file with defaults that OpenSM writes, all keys are missing; safe defaults aren't reported."""
    path = tmp_path / "opensm.conf"
    subprocess.run(["opensm", "-c", str(path)], capture_output=True, timeout=60, check=False)
    assert "m_key_protection_level 0" in path.read_text()
    assert _lacking(path) == UPSTREAM_LACKS | VENDORS


def test_hardened_file_has_no_problems(tmp_path: Path) -> None:
    """Values of secrets aren't reported."""
    path = tmp_path / "opensm.conf"
    path.write_text(HARDENED)
    assert _lacking(path) == set()
    options = read_options(path, tmp_path / "partitions.conf")
    assert options.options["sa_key"] == "(set)" and options.problems == ()
    for secret in ("1f2e3d4c5b6a7988", "771d2fe77f553d47", "9a8b7c6d5e4f3021"):
        assert secret not in options.model_dump_json()


@pytest.mark.parametrize("rule", RULES, ids=[r.setting for r in RULES])
def test_missing_setting_is_reported(tmp_path: Path, rule: Rule) -> None:
    """Missing or switched off, it is named with what that allows; well-known keys count as missing."""
    setting = rule.setting
    bad = {
        "sm_key": "0x0000000000000001",
        "sa_key": "1",
        "m_key": "0",
        "part_enforce": "out",
        "console": "socket",
    }
    value = bad.get(setting, "TRUE" if "FALSE" in rule.wanted else "0")
    lines = [line for line in HARDENED.splitlines() if not line.startswith(setting + " ")]
    path = tmp_path / "opensm.conf"
    path.write_text("\n".join([*lines, f"{setting} {value}"]) + "\n")
    [found] = weaknesses("ib0", "sm1", read_options(path, tmp_path / "p").options)
    assert found.setting == setting and len(found.allows) > 20 and found.wanted


@pytest.mark.parametrize(
    ("line", "lacking"),
    [
        ("no_partition_enforcement FALSE # never", set[str]()),
        ('part_enforce "both"', set()),
        ("sm_priority\t0xf", set()),
        ("sm_priority 017", set()),
        ("m_key 771d2fe77f553d47", {"m_key"}),
        ("m_key 00000001", {"m_key"}),
        ("sa_key 01 # mine", {"sa_key"}),
        ("m_key_protection_level 2 3", {"m_key_protection_level"}),
        ("m_key_per_port true", {"m_key_per_port"}),
        ("m_key_per_port True", {"m_key_per_port"}),
        ("allow_both_pkeys\tTRUE", {"allow_both_pkeys"}),
        ("console\tsocket", {"console"}),
        ("console loopback # by hand", {"console"}),
    ],
)
def test_settings_are_judged_as_opensm_reads_them(tmp_path: Path, line: str, lacking: set[str]) -> None:
    """An insecure value must not pass, nor a secure one be reported."""
    path, name = tmp_path / "opensm.conf", line.split()[0]
    others = [one for one in HARDENED.splitlines() if not one.startswith(name + " ")]
    path.write_text("\n".join([*others, line, ""]))
    assert _lacking(path) == lacking


def _process(folder: Path, *arguments: str, started: float = 0.0) -> Path:
    """A process's directory of /proc, on a host booted at 1000 s; `started` is in seconds."""
    process = folder / "proc" / "77"
    process.mkdir(parents=True)
    (process / "cmdline").write_bytes("\0".join(["/usr/sbin/opensm", *arguments, ""]).encode())
    ticks = int((started - 1000.0) * os.sysconf("SC_CLK_TCK"))
    (process / "stat").write_text(f"77 (open sm) S {'0 ' * 18}{ticks} 0\n")
    (process.parent / "stat").write_text("cpu 1\nbtime 1000\n")
    (process / "cwd").symlink_to(folder)
    return process


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-F", "opensm.conf", "-B", "-f", "stdout", "-p", "15"], ""),
        (["--config", "opensm.conf", "-console-port", "1"], ""),
        (["-Fother.conf"], "was started with other.conf"),
        (["-F", "opensm.conf", "-W"], "has -W"),
        (["-F", "opensm.conf", "-BN"], "has -BN"),
        (["-F", "opensm.conf", "-k", "0x1"], "has -k"),
        (["-F", "opensm.conf", "-allow_both"], "has -allow_both"),
        (["-F", "opensm.conf", "--part=off", "-q", "socket"], "has --part=off, -q"),
        (["-F", "opensm.conf", "-Pother"], "has -Pother"),
    ],
)
def test_command_line_options_are_compared(tmp_path: Path, arguments: list[str], said: str) -> None:
    """Another options file, or an option on the command line that overrides it."""
    path = tmp_path / "opensm.conf"
    path.write_text(HARDENED)
    os.utime(path, (2000.0, 2000.0))
    found = of_the_process(_process(tmp_path, *arguments, started=3000.0), path)
    assert (len(found) == 1 and said in found[0]) if said else found == ()


def test_options_changed_after_the_start_are_reported(tmp_path: Path) -> None:
    """OpenSM reads some settings only at its start; a missing process is a problem too."""
    path = tmp_path / "opensm.conf"
    path.write_text(HARDENED)
    os.utime(path, (4000.0, 4000.0))
    [found] = of_the_process(_process(tmp_path, "-F", "opensm.conf", started=3000.0), path)
    assert "only after a restart" in found
    assert "can't be read" in of_the_process(tmp_path / "none", path)[0]


def test_other_partitions_file_in_the_options_is_reported(tmp_path: Path) -> None:
    """OpenSM would never read what weft writes; a link to the same file is fine."""
    path = tmp_path / "opensm.conf"
    path.write_text("partition_config_file /etc/other.conf\n")
    [problem] = read_options(path, tmp_path / "partitions.conf").problems
    assert "/etc/other.conf" in problem
    (tmp_path / "link.conf").symlink_to(tmp_path / "partitions.conf")
    path.write_text(f"partition_config_file {tmp_path / 'link.conf'}\n")
    assert read_options(path, tmp_path / "partitions.conf").problems == ()


def test_unreadable_options_are_unknown(tmp_path: Path) -> None:
    """A missing file doesn't mean the defaults."""
    with pytest.raises(UnknownError, match="options_file"):
        read_options(tmp_path / "none", tmp_path / "p")


def test_options_of_a_fake_manager_are_checked_like_real_ones() -> None:
    """A manager that doesn't answer is named, and not judged by another's settings."""
    layout = Layout(Path("/nowhere"), Path("/nowhere"), 23000)
    fabric = FakeFabric(make_site(settings(nodes=8, leaves=2, hcas=1), layout), FABRIC)
    fabric.manager("sm2").reachable = False
    found = fabric.live_check()
    assert found.managers == 2 and len(found.problems) == 1
    assert found.problems[0].startswith("the settings of sm2 can't be read: ")
    assert {w.manager for w in found.weaknesses} <= {"sm1"}


# -- certificates -----------------------------------------------------------------------------------------------------


def test_certificates_are_short_lived_by_default(tmp_path: Path) -> None:
    """A quarter of a year; the authority lasts longer and signs the next ones."""
    make_certificates(tmp_path, {"sm1": ["127.0.0.1"]})
    now = datetime.now(UTC)
    pem = (tmp_path / "agent-sm1.pem").read_bytes()
    assert expiry_problems(pem, "c", now) == []
    assert expiry_problems((tmp_path / "ca.pem").read_bytes(), "ca", now) == []
    assert "expired" in expiry_problems(pem, "c", now + timedelta(days=DAYS, minutes=1))[0]


@pytest.mark.parametrize(
    ("file", "days", "said"),
    [
        ("agent-sm1.pem", DAYS * 2 / 3 - 1, ""),
        ("agent-sm1.pem", DAYS * 2 / 3 + 1, "expires"),
        ("agent-sm1.pem", -1, "clock"),
        ("ca.pem", AUTHORITY_DAYS - 91, ""),
        ("ca.pem", AUTHORITY_DAYS - 89, "expires"),
    ],
)
def test_certificate_in_its_last_third_is_reported(tmp_path: Path, file: str, days: float, said: str) -> None:
    """At most 90 days before its end; a clock that was set back is reported, too."""
    make_certificates(tmp_path, {"sm1": ["127.0.0.1"]})
    found = expiry_problems((tmp_path / file).read_bytes(), file, datetime.now(UTC) + timedelta(days=days))
    assert (said in found[0] and file in found[0]) if said else found == []


def test_invalid_certificate_is_reported() -> None:
    """The status has a problem instead of failing."""
    assert "can't be read" in expiry_problems(b"junk", "x.pem", datetime.now(UTC))[0]


def test_status_and_site_check_warn_in_time(tmp_path: Path) -> None:
    """The agent checks its own certificate, weft its own, and `site check` those of the site's fabrics."""
    path = write_config(tmp_path)
    make_certificates(tmp_path / "tls", {"sm1": ["127.0.0.1"]}, days=1, renew=True)
    agent = Agent(read_config(path))
    assert not any(
        "certificate" in p for p in agent.status().every_problem
    )  # made a moment ago, so two thirds of its day are left
    make_certificates(tmp_path / "tls", {"sm1": ["127.0.0.1"]}, days=0, renew=True)
    assert any("agent-sm1.pem expired" in p for p in agent.status().own_problems)
    agent.close()
    site = make_site(settings(nodes=8, leaves=2, hcas=1), Layout(Path("/nowhere"), Path("/nowhere"), 23000))
    assert certificate_notes(site) == ()
    manager = site.fabrics[FABRIC].manager.model_copy(update={"certificate": str(tmp_path / "tls/weft.pem")})
    fabric = site.fabrics[FABRIC].model_copy(update={"manager": manager})
    [note] = certificate_notes(site.model_copy(update={"fabrics": {FABRIC: fabric}}))
    assert "weft.pem expired" in note


def test_agent_reports_a_key_of_another_certificate(tmp_path: Path) -> None:
    """Its server uses the old pair until it is restarted."""
    path = write_config(tmp_path)
    agent = Agent(read_config(path))
    assert agent.status().own_problems == ()
    (tmp_path / "tls" / "agent-sm1.key").write_bytes((tmp_path / "tls" / "weft.key").read_bytes())
    assert any("those from before stay in use" in p for p in agent.status().own_problems)
    agent.close()
