"""The agents' sections of `weft.toml`: the same settings as in their YAML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.config.agents import read_section, shown_section
from weft.config.tomltext import read_toml
from weft.fabricagent.config import AgentConfig, read_config
from weft.model.errors import InputError, InputErrors
from weft.probeagent.config import ProbeConfig
from weft.program import agents

FABRIC = """\
[fabric_agent]
name = "sm1"
site = "north"
listen = {host = "10.0.0.2", port = 8765}
tls = {ca = "ca.pem", certificate = "agent.pem", key = "agent.key"}

[fabric_agent.opensm]
partitions_file = "/etc/opensm/partitions.conf"
log_file = "/var/log/opensm.log"
pid_file = "opensm.pid"
"""
PROBE = """\
[probe_agent]
name = "probe1"
listen = {host = "10.0.0.2", port = 8765}
tls = {ca = "ca.pem", certificate = "agent.pem", key = "agent.key"}
adapters = {"gpu01/mlx5_0" = {interface = "bond0"}}
"""


def write(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "weft.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def faults(path: Path, environment: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        read_section(read_toml(path, "--config"), "fabric_agent", AgentConfig, environment or {})
    return [str(one).replace(f"{path.parent}/", "") for one in caught.value.errors]


def test_section_of_weft_toml_configures_an_agent(tmp_path: Path) -> None:
    """Paths are relative to the file."""
    config = read_config(write(tmp_path, FABRIC + PROBE))
    assert (config.name, config.listen.port, config.hca.sa_key) == ("sm1", 8765, 1)
    assert (config.tls.key, config.opensm.pid_file) == (tmp_path / "agent.key", tmp_path / "opensm.pid")
    file = read_toml(tmp_path / "weft.toml", "--config")
    probe = read_section(file, "probe_agent", ProbeConfig, {})
    assert probe.adapters["gpu01/mlx5_0"].interface == "bond0"


def test_all_errors_of_a_section_have_their_lines(tmp_path: Path) -> None:
    """Missing and unknown keys, types, ranges, rules about two keys, and misspelt sections."""
    text = FABRIC.replace('site = "north"', 'sight = "canary7"').replace("port = 8765", "port = 0")
    path = write(
        tmp_path, text + 'pid_command = ["a"]\n[serfe]\n[fabric_agent.hca]\nretries = "2 "\nport = "x"\n'
    )
    found = faults(path)
    assert [one.partition(": ")[0] for one in found] == [f"weft.toml:{n}" for n in (1, 3, 4, 7, 12, 15)]
    assert found[0].startswith("weft.toml:1: fabric_agent.site: missing: text: Name of the site")
    assert "fabric_agent.sight: an unknown key is not allowed: name, site, listen" in found[1]
    assert "exactly one of pid_file and pid_command" in found[3] and "the nearest is serve" in found[4]
    assert "canary7" not in str(found)


def test_misspelt_section_is_reported_with_the_missing_one(tmp_path: Path) -> None:
    """`[fabric-agent]` instead of `[fabric_agent]`."""
    found = faults(write(tmp_path, FABRIC.replace("fabric_agent", "fabric-agent")))
    assert "the nearest is fabric_agent" in found[1]
    assert found[0] == "weft.toml: [fabric_agent]: missing: the section with the agent's settings"


def test_m_key_is_read_from_weft_toml_a_file_or_a_credential(tmp_path: Path) -> None:
    """Refused in a file that others can read; never shown."""
    secret = tmp_path / "m_key"
    secret.write_text("0x1a2b\n")
    secret.chmod(0o600)
    for line, environment in (
        ("m_key = 0x1a2b", {}),
        ('m_key_file = "m_key"', {}),
        ("", {"CREDENTIALS_DIRECTORY": str(tmp_path)}),
    ):
        file = read_toml(write(tmp_path, f"{FABRIC}[fabric_agent.hca]\n{line}\n"), "--config")
        assert read_section(file, "fabric_agent", AgentConfig, environment).hca.m_key == 0x1A2B
        shown = {
            name: (value, source)
            for name, value, source in shown_section(file, "fabric_agent", AgentConfig, environment)
        }
        source = "credential m_key" if environment else f"{file.path}:12"
        assert shown["fabric_agent.hca.m_key"] == ("***", source)
        assert shown["fabric_agent.hca.sa_key"] == ("1", "default")
    public = write(tmp_path, f"{FABRIC}[fabric_agent.hca]\nm_key = 6699\n", 0o644)
    assert "without a secret, or a file that others can't read" in faults(public)[0]
    secret.write_text("canary7")
    named = write(tmp_path, f'{FABRIC}[fabric_agent.hca]\nm_key_file = "m_key"\n')
    assert "a whole number, such as 0x1a2b" in faults(named)[0] and "canary7" not in str(faults(named))
    both = write(tmp_path, f'{FABRIC}[fabric_agent.hca]\nm_key = 1\nm_key_file = "m_key"\n')
    assert "either m_key or m_key_file, not both" in faults(both)[0]


def test_missing_settings_file_of_an_agent_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2; WEFT_CONFIG names the agents' file too, and may have any suffix."""
    monkeypatch.setenv("WEFT_CONFIG", str(tmp_path / "nix"))
    for name in ("fabric-agent", "probe-agent"):
        assert agents([name]) == 2
        assert f"weft {name}: WEFT_CONFIG: '{tmp_path}/nix' is not allowed" in capsys.readouterr().err
    (tmp_path / "nix").write_text('[logs]\nlevel = "LOUD"\n[fabric_agent]\nname = 3\n')
    assert agents(["fabric-agent"]) == 2
    said = capsys.readouterr().err
    assert "nix:2: logs.level: 'LOUD'" in said and "nix:4: fabric_agent.name: 3" in said
    with pytest.raises(InputError):
        read_config(None)
