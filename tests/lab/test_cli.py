"""`weft lab` on the command line."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from weft.cli.main import main
from weftlab.layout import free_ports
from weftlab.processes import look


@dataclass(frozen=True)
class Typed:
    """Exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


Lab = Callable[..., Typed]


@pytest.fixture
def weft_lab(capsys: pytest.CaptureFixture[str]) -> Lab:
    """Runs `weft lab …` in this process, because importing everything takes longer than the commands."""

    def typed(*words: str) -> Typed:
        code = main(["lab", *words])
        said = capsys.readouterr()
        return Typed(code, said.out, said.err)

    return typed


def program(*words: str, module: str = "weft.cli.main") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, "lab", *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("module", ["weft.cli.main", "weftlab"])
def test_lab_is_started_by_two_programs(tmp_path: Path, module: str) -> None:
    """`weft lab` and `python -m weftlab`, each as a process."""
    done = program("status", "--state", str(tmp_path / "none"), module=module)
    assert (done.returncode, done.stdout) == (1, f"no lab in {tmp_path / 'none'}\n"), done.stderr


def test_missing_lab_is_reported(tmp_path: Path, weft_lab: Lab) -> None:
    """status is 1, down is 0, env says what to do; no folder is created."""
    state = ["--state", str(tmp_path / "none")]
    status = weft_lab("status", *state)
    assert (status.returncode, status.stdout) == (1, f"no lab in {tmp_path / 'none'}\n")
    assert json.loads(weft_lab("status", "--json", *state).stdout)["services"] == []
    down = weft_lab("down", *state)
    assert (down.returncode, down.stdout) == (0, f"no lab in {tmp_path / 'none'}\n")
    env = weft_lab("env", *state)
    assert (env.returncode, env.stderr.strip()) == (
        2,
        f"weft lab: no lab in {tmp_path / 'none'}: `weft lab up` starts one",
    )
    for words in (["lie", "html200"], ["lies"], ["truth"]):
        lie = weft_lab(*words, *state)
        assert (
            lie.returncode == 2 and "`weft lab up --liar` puts one between weft and OpenStack" in lie.stderr
        )
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--nodes", "0"], "--nodes 0 is not allowed: 1 or more"),
        (["--computes", "99"], "--computes 99 is not allowed: 1 to the number of nodes, 16"),
        (["--ports", "80"], "--ports 80 is not allowed"),
        (["--without", "novva"], "--without novva is not allowed: one of"),
        (["--liar", "--only", "fabric"], "--liar is not allowed with --only fabric"),
    ],
)
def test_wrong_option_gives_one_sentence(
    tmp_path: Path, weft_lab: Lab, words: list[str], sentence: str
) -> None:
    """Exit code 2 with the option, its value and what is allowed; nothing is started or left."""
    done = weft_lab("up", "--state", str(tmp_path / "s"), *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "s").exists()


@pytest.mark.fabric
def test_used_port_prevents_the_start(tmp_path: Path) -> None:
    """The sentence names the port and the service that needs it; the program that uses it isn't disturbed."""
    base = free_ports()
    with socket.create_server(("127.0.0.1", base + 20)):
        done = program("up", "--only", "fabric", "--state", str(tmp_path / "s"), "--ports", str(base))
    assert done.returncode == 2
    assert f"{base + 20} (agent-sm1)" in done.stderr


@pytest.mark.fabric
@pytest.mark.nightly(reason="a minute; by day the whole lab and single fabrics are started and ended")
def test_fabric_alone_starts_and_stops(tmp_path: Path) -> None:
    """Up twice, status, down twice; afterwards there is neither a process nor the folder."""
    state = tmp_path / "fabric"
    words = ["--state", str(state)]
    up = ["up", "--only", "fabric", "--nodes", "4", "--ports", str(free_ports()), *words]
    first = program(*up)
    assert first.returncode == 0, first.stdout + first.stderr
    try:
        second = program(*up)
        said = f"the lab in {state} is up already\n"
        assert (second.returncode, second.stdout) == (0, said), second.stderr
        shown = program("status", "--json", *words)
        assert shown.returncode == 0, shown.stdout
        services = json.loads(shown.stdout)["services"]
        assert [s["name"] for s in services if s["up"]] == [
            "ibsim",
            "opensm-sm1",
            "agent-sm1",
            "opensm-sm2",
            "agent-sm2",
        ]
        pids = [s["pid"] for s in services]
    finally:
        down = program("down", *words)
    assert (down.returncode, down.stdout) == (0, f"the lab in {state} is down\n")
    assert not [pid for pid in pids if (p := look(pid)) is not None and p.alive]
    assert program("down", *words).returncode == 0
    assert not state.exists()
