"""The live view of --wait on a real terminal (a pty), and its counts."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

from tests.helpers.desk import Desk
from weft.cli.follow import KindProgress, by_kind


def test_progress_is_live_on_a_terminal(desk: Desk) -> None:
    """Kinds of resources with how many are done, the state, and at the end the pod."""
    master, slave = pty.openpty()
    words = [
        sys.executable,
        "-m",
        "weft.cli.main",
        "--os-cloud",
        "a-member",
        "pod",
        "create",
        "-f",
        desk.pod_file(),
        "--wait",
    ]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    with desk.house.working():
        process = subprocess.Popen(
            words, stdout=slave, stderr=slave, stdin=subprocess.DEVNULL, env=environment
        )
        os.close(slave)
        shown = b""
        try:
            while chunk := os.read(master, 65536):
                shown += chunk
        except OSError:  # Linux reports the closed other end so
            pass
    os.close(master)
    assert process.wait(60) == 0
    text = shown.decode()
    assert "\x1b[" in text
    assert "segment" in text
    assert "1/1" in text
    assert "READY" in text
    (server, _) = desk.weft("pod", "show", "train", "--json").json["servers"]
    assert server["management_address"] in text


def test_progress_counts_kinds_and_names_resources_in_trouble() -> None:
    """Done of total, and up to three resources in progress, with reasons."""

    def row(kind: str, name: str, state: str, reason: str = "") -> dict[str, str]:
        return {"kind": kind, "name": name, "state": state, "reason": reason}

    rows = [
        row("port", "p1", "settled"),
        row("server", "s1", "settled"),
        row("server", "s2", "pending", "BUILD"),
        row("server", "s3", "wanted"),
        row("port", "p2", "broken", "no host"),
        *(row("server", f"x{n}", "creating") for n in range(4)),
    ]
    assert by_kind(rows, "settled") == [
        KindProgress("port", 1, 2, "p2 broken (no host)"),
        KindProgress("server", 1, 7, "s2 pending (BUILD), x0 creating, x1 creating and 2 more"),
    ]
    assert by_kind([], "settled") == []
