"""A real `ucx_perftest` over TCP between network namespaces, one of which sends slowly: the report names it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.planning.bandwidth.certify import outcomes_of
from weft.planning.bandwidth.judge import judge
from weft.planning.bandwidth.values import Result, SlowCauseKind, Subject
from weftcheck.cli import main

pytestmark = pytest.mark.fabric  # root, iproute2, ucx-utils
COUNT, SLOW = 3, 1
_SSH = """#!/bin/sh
while [ "$1" != -- ]; do case "$*" in *"-O exit"*) exit 0;; esac; shift; done; shift
h=$1; shift; mkdir -p "{folder}/lock-$h"
exec ip netns exec "$h" sh -c "mount --bind '{folder}/lock-$h' /run/lock; $*"
"""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def names() -> Iterator[list[str]]:
    """Namespaces on one bridge; a shaper limits what the slow one sends to 40 Mb/s."""
    tag = f"wb{os.getpid() % 100000}"
    made = [f"{tag}n{i}" for i in range(COUNT)]
    try:
        _ip("link", "add", tag, "type", "bridge")
        _ip("link", "set", tag, "up")
        for i, name in enumerate(made):
            _ip("netns", "add", name)
            _ip(
                "link",
                "add",
                f"{tag}p{i}",
                "master",
                tag,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                name,
            )
            _ip("link", "set", f"{tag}p{i}", "up")
            _ip("-n", name, "addr", "add", f"10.98.7.{i + 1}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        shaper = ["tc", "-n", made[SLOW], "qdisc", "add", "dev", "eth0", "root", "tbf"]
        subprocess.run([*shaper, "rate", "40mbit", "burst", "32k", "latency", "100ms"], check=True)
        yield made
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", tag], check=False, capture_output=True)


@pytest.mark.nightly(reason="15 s of processor; by day by programs that print the same texts")
def test_slow_sender_is_named(names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(_SSH.format(folder=tmp_path))
    ssh.chmod(0o755)
    nodes = [
        {
            "name": name,
            "inside": f"10.98.7.{i + 1}",
            "adapters": [{"rail": 0, "device": "eth0", "gbps": 0.16}],
        }
        for i, name in enumerate(names)
    ]
    plan = {"version": 1, "program": "ucx", "size": 16384, "seconds": 1, "share": 0.5, "nodes": nodes}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    code = main(["bandwidth", str(tmp_path / "plan.json"), "--ssh", str(ssh)])
    printed = capsys.readouterr()
    assert code == 1, printed.err
    document = json.loads(printed.out)
    outcomes = outcomes_of(tuple(document["nodes"]), tuple(map(tuple, document["pairs"])))
    assert len(outcomes) == COUNT * (COUNT - 1)
    found = judge(outcomes, lambda pair: 0.08)
    assert found.result is Result.FAILED and found.not_run == {}
    assert [cause.subject for cause in found.causes] == [Subject(SlowCauseKind.SENDER, names[SLOW], 0)], (
        document
    )
