"""The program `weft` with only the agents' distribution."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft import __version__
from weft.program import agents


def test_command_of_weft_pods_names_its_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one line, rather than argparse's list of choices."""
    assert agents(["pod", "list"]) == 2
    error = capsys.readouterr().err
    assert error == "weft pod: not among fabric-agent, probe-agent: install weft-pods for it\n"


def test_version_and_help_need_no_other_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Both agents are in the help; without a command there is an error with the help."""
    assert agents(["--version"]) == 0 and capsys.readouterr().out == f"weft {__version__}\n"
    assert agents(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "fabric-agent" in shown and "probe-agent" in shown and "weft-pods" in shown
    assert agents([]) == 2 and "fabric-agent" in capsys.readouterr().err


@pytest.mark.parametrize("agent", ["fabric-agent", "probe-agent"])
def test_missing_settings_of_an_agent_give_one_line(
    agent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The agent's own error and exit code."""
    assert agents([agent, "--config", str(tmp_path / "none.yaml")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"weft {agent}: ") and str(tmp_path / "none.yaml") in error
    assert error.count("\n") == 1
