"""A reader that stops early, such as `head -1`, doesn't change the exit code of a command that found something
wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Desk
from tests.cli.test_receipt_command import signed as signed
from tests.helpers import forks
from tests.helpers.paths import SMALL

pytestmark = pytest.mark.landing

STRANGER = """switchguid=0x2c90300100001(2c90300100001)
Switch\t64 "S-0002c90300100001"\t\t# "stranger" enhanced port 0 lid 1 lmc 0
"""


def _piped(*words: str) -> tuple[int | None, str]:
    """Exit code and stderr of a command whose stdout is a pipe that is closed already."""
    err = Path("said.err")
    code = forks.run("weft", words, os.environ, Path.cwd(), None, err, timeout=120)
    return code, err.read_text()


def test_process_into_a_closed_pipe_keeps_exit_code_1(tmp_path: Path) -> None:
    """A whole interpreter, which flushes stdout once more at its end; the other tests fork."""
    (tmp_path / "fabric.txt").write_text(STRANGER)
    words = ["site", "check", str(SMALL / "site.yaml"), "--fabric", str(tmp_path / "fabric.txt")]
    script = f"set -o pipefail; {{ sleep 0.1; {sys.executable} -m weft.cli.main {' '.join(words)}; }} | true"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_differences_are_exit_code_1_into_a_closed_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fabric.txt").write_text(STRANGER)
    site = str(SMALL / "site.yaml")
    assert _piped("site", "check", site, "--fabric", str(tmp_path / "fabric.txt"), *more) == (1, "")
    assert _piped("site", "check", site, *more) == (0, "")


def test_receipt_of_an_unknown_signer_is_exit_code_1_into_a_closed_pipe(
    desk: Desk, signed: dict[str, Any]
) -> None:
    """A script that reads only the first line must not take it for verified."""
    assert _piped("receipt", "verify", "r.json") == (1, "")
    assert _piped("receipt", "verify", "r.json", "--key", "weft.pub") == (0, "")


def test_refused_plan_is_exit_code_1_into_a_closed_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of what would fit is cut off."""
    monkeypatch.chdir(tmp_path)
    order = {"name": "train", "nodes": {"count": 900, "flavor": "h100.8", "image": "tiny"}}
    (tmp_path / "pod.yaml").write_text(json.dumps(order))
    words = ("pod", "plan", "-f", str(tmp_path / "pod.yaml"), "--offline", "--site", str(SMALL / "site.yaml"))
    assert _piped(*words) == (1, "")


def test_findings_of_an_audit_are_exit_code_1_into_a_closed_pipe(desk: Desk) -> None:
    """Stderr isn't compared: it may have the sentence, or not."""
    desk.weft("pod", "create", "-f", desk.pod_file())
    desk.house.orphan(desk.house.finish("train"))
    assert _piped("--os-cloud", "operator", "audit")[0] == 1
