"""The systemd units of `examples/systemd`: valid, hardened, and with commands that weft has."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.paths import EXAMPLES, ROOT
from weft.cli.main import build_parser
from weftcheck.cli import EXIT, parser
from weftcheck.result import Status

CHECK = EXAMPLES / "systemd" / "weft-check.service"
UNITS = sorted({*(EXAMPLES / "systemd").glob("*.service")} - {CHECK})
MOST_EXPOSED = {"weft-serve": 20, "weft-worker": 20, "weft-fabric-agent": 30, "weft-probe-agent": 30}
"""Highest exposure level in tenths (systemd-analyze security); the agents run as root with one or two capabilities."""


def settings(unit: Path) -> dict[str, str]:
    """The last value of each key."""
    rows = [line.partition("=") for line in unit.read_text().splitlines() if "=" in line and line[0] != "#"]
    return {key: value for key, _, value in rows}


def test_each_process_has_a_unit() -> None:
    """Named after its command."""
    assert {unit.stem for unit in UNITS} == MOST_EXPOSED.keys()


@pytest.mark.parametrize("unit", UNITS, ids=lambda p: p.stem)
def test_unit_starts_a_command_of_weft(unit: Path) -> None:
    """As weft's user, or as root with few capabilities; restarted after any end, also if the address isn't up
    yet at boot."""
    found = settings(unit)
    program, *words = found["ExecStart"].split()
    assert program == "/opt/weft/bin/weft" and words == [unit.stem.removeprefix("weft-")]
    assert build_parser(words).parse_args(words).run is not None
    assert found["Restart"] == "always" and found["NoNewPrivileges"] == "yes"
    if "agent" in unit.stem:
        assert "User" not in found and "CAP_SYS_ADMIN" not in found["CapabilityBoundingSet"]
    else:
        assert (found["User"], found["CapabilityBoundingSet"]) == ("weft", "")
        assert found["StateDirectoryMode"] == "0700"


@pytest.mark.parametrize("unit", UNITS, ids=lambda p: p.stem)
def test_unit_is_valid_and_hardened(unit: Path, tmp_path: Path) -> None:
    """According to systemd itself, offline: every key is known, and the exposure level is low."""
    judge(unit, tmp_path, MOST_EXPOSED[unit.stem])


def test_host_checks_run_and_report_by_a_timer(tmp_path: Path) -> None:
    """weft-check accepts the arguments; the unit fails if the report fails, not if a check does."""
    found = settings(CHECK)
    program, *words = found["ExecStart"].split()
    assert program == "/opt/weft/bin/weft-check"
    assert parser().parse_args(words).report == "${WEFT_CHECK_URL}"
    assert (found["Type"], found["SuccessExitStatus"]) == (
        "oneshot",
        f"{EXIT[Status.FAILED]} {EXIT[Status.UNKNOWN]}",
    )
    timer = CHECK.with_suffix(".timer")
    assert {"OnBootSec", "OnUnitInactiveSec"} <= settings(timer).keys()
    judge(CHECK, tmp_path, 55)
    shutil.copy(timer, tmp_path)
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / timer.name],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert timer.name not in verified.stderr, verified.stderr


def test_unit_of_openvipus_agent_is_valid(tmp_path: Path) -> None:
    """Its options are known; its exposure level is that of root without capabilities."""
    unit = EXAMPLES / "openvipu" / "openvipu-agent.service"
    words = settings(unit)["ExecStart"].split()
    done = subprocess.run(
        [Path(sys.executable).parent / "openvipu-agent", "--help"], capture_output=True, text=True, check=True
    )
    assert all(word in done.stdout for word in words[1:] if word.startswith("--"))
    judge(unit, tmp_path, 50)


def judge(unit: Path, folder: Path, most: int) -> None:
    """Runs systemd's own checks offline: every key is known, and the exposure level, in tenths, is at most `most`."""
    subprocess.run([ROOT / "tools/packages.sh", "systemd"], check=True, timeout=900)
    copy = folder / unit.name
    program = settings(unit)["ExecStart"].split()[0]
    copy.write_text(unit.read_text().replace(program, sys.executable))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert unit.name not in verified.stderr, verified.stderr
    limit = f"--threshold={most}"
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", limit, copy],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert judged.returncode == 0, judged.stdout[-3000:] + judged.stderr
