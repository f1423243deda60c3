"""Whole bandwidth tests: over nodes that print perftest's tables, and by the program over a stand-in for `ssh`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.weftcheck.textfabric import Speed, TextSession, plan_of
from weftcheck import bandwidthplan
from weftcheck.bandwidth import Test as Run
from weftcheck.bandwidth import summary
from weftcheck.bandwidthplan import PlanError
from weftcheck.cli import main
from weftcheck.found import ports
from weftcheck.remote import Session

NAMES = [f"n{i}" for i in range(64)]


def _sound(sender: str, receiver: str, rail: int) -> float:
    return 396.0


def _run(
    names: list[str], speed: Speed, rails: int = 2, lost: Sequence[str] = (), **more: object
) -> tuple[Run, Any]:
    plan = bandwidthplan.parse(json.dumps(plan_of(names, rails, **more)).encode())
    there = [TextSession(name, speed, rails) for name in names]
    for one in there:
        one.refused = "NO_LOGIN" if one.name in lost else None
    run = Run(plan, cast(list[Session], there), time.monotonic() + 600, lambda text: None)
    run.run()
    return run, there


@pytest.mark.parametrize(
    "count", [32, pytest.param(64, marks=pytest.mark.nightly(reason="32,256 pairs: 16 s of processor"))]
)
def test_nodes_with_8_rails_are_measured_and_a_slow_adapter_is_measured_again(count: int) -> None:
    run, there = _run(NAMES[:count], lambda a, b, r: 200.0 if r == 3 and "n5" in (a, b) else 396.0, rails=8)
    assert len(run.pairs) == count * (count - 1) * 8
    slow = {way for way, one in run.pairs.items() if isinstance(one, list) and max(one) < 380}
    assert slow == {w for w in run.pairs if 5 in w[:2] and w[2] == 3}
    assert {len(run.pairs[w]) for w in slow} == {3}
    assert all(len(run.pairs[w]) == 1 for w in run.pairs if w not in slow and 5 not in w[:2])
    assert len(run.together) == count * 8
    assert max(one.most_at_once for one in there) == 1  # a node sends to one other at a time


def test_pair_with_one_slow_run_is_not_slow() -> None:
    said: set[tuple[str, str, int]] = set()

    def hiccup(*way: Any) -> float:
        first = way not in said
        said.add(way)
        return 100.0 if first and way == ("n1", "n2", 0) else 396.0

    run, _ = _run(NAMES[:6], hiccup)
    assert run.pairs[(1, 2, 0)] == [100.0, 396.0, 396.0]
    assert summary(run.plan, run)[1] == 0


def test_beyond_64_nodes_only_suspects_are_measured_with_all_others() -> None:
    names = [f"n{i}" for i in range(90)]
    run, _ = _run(names, lambda a, b, r: 200.0 if "n5" in (a, b) else 396.0, rails=1)
    partners = {node: len({w[1] for w in run.pairs if w[0] == node}) for node in range(90)}
    assert partners[5] == 89
    assert all(20 <= partners[n] <= 31 for n in partners if n != 5)


def test_perftest_gets_device_and_pkey_index_of_the_pods_partition() -> None:
    _, there = _run(NAMES[:2], _sound)
    clients = [s for s in there[0].scripts if s.rstrip().endswith("wait") and " n1 <" in s]
    assert "ib_write_bw -d mlx5_1 -i 1 -F --report_gbits -s 1048576 -D 2 -p" in clients[0]
    assert clients[0].count("--pkey_index 3") == 2


def test_pairs_are_not_run_without_the_pods_partition() -> None:
    run, _ = _run(NAMES[:2], _sound, pkey="0x8222")
    assert set(map(str, run.pairs.values())) == {"NO_PKEY"}


def test_node_without_login_loses_only_its_own_pairs() -> None:
    run, _ = _run(NAMES[:4], _sound, lost=["n2"])
    assert {str(one) for way, one in run.pairs.items() if 2 in way[:2]} == {"NO_LOGIN"}
    assert all(isinstance(one, list) for way, one in run.pairs.items() if 2 not in way[:2])
    assert summary(run.plan, run)[1] == 3


def test_failed_runs_are_not_counted_as_slow() -> None:
    run, _ = _run(NAMES[:3], lambda a, b, r: "Couldn't connect to n9:1" if b == "n2" else 396.0)
    assert run.pairs[(0, 2, 0)] == "NO_PEER"
    lines, code = summary(run.plan, run)
    assert code == 3 and lines[0] == "8 pairs measured, 0 slow, 4 not run"


def test_pairs_after_the_limit_are_not_tried() -> None:
    plan = bandwidthplan.parse(json.dumps(plan_of(NAMES[:3], 1)).encode())
    there = cast(list[Session], [TextSession(n, _sound, 1) for n in NAMES[:3]])
    run = Run(plan, there, time.monotonic() - 1, lambda text: None)
    run.run()
    assert set(map(str, run.pairs.values())) == {"NOT_TRIED"} and len(run.pairs) == 6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "the plan: version: '2': allowed is 1"),
        ({"nodes": []}, "nodes: 0 nodes; allowed are 2 to 512"),
        ({"nodes": 5}, "the plan: nodes: allowed is a list of up to 512"),
        ({"pkey": "1"}, "the plan: pkey: '1': allowed is a P_Key such as 0x8101"),
        ({"share": 2}, "the plan: share: '2': allowed is 0.01 to 1"),
        ({"seconds": True}, "the plan: seconds: 'True': allowed is 1 to 60"),
        (
            {"nodes": [{"name": "a", "adapters": []}] * 2},
            "nodes[1].name: 'a': allowed is a name that no other node has",
        ),
        (
            {"nodes": [{"name": "-oProxyCommand=x"}]},
            "nodes[0]: name: '-oProxyCommand=x': allowed is a node's name",
        ),
        (
            {"nodes": [{"name": "a", "address": "a b", "adapters": []}]},
            "nodes[0]: address: 'a b': allowed is an IP address or a name",
        ),
        (
            {"nodes": [{"name": "a", "adapters": [{"rail": 0}]}]},
            "nodes[0].adapters[0]: needs rail, and guid, mac or device",
        ),
        (
            {"nodes": [{"name": "a", "adapters": [{"rail": 0, "device": "x;reboot"}]}]},
            "nodes[0].adapters[0]: device: 'x;reboot': allowed is a device's name",
        ),
    ],
)
def test_wrong_plan_is_refused(change: dict[str, object], said: str, tmp_path: Path, capsys: Any) -> None:
    value = {**plan_of(NAMES[:2], 1), **change}
    with pytest.raises(PlanError) as error:
        bandwidthplan.parse(json.dumps(value).encode())
    assert str(error.value) == said
    (tmp_path / "plan").write_text(json.dumps(value))
    assert main(["bandwidth", str(tmp_path / "plan")]) == 2
    assert capsys.readouterr().err == f"weft-check: {said}\n"


@pytest.mark.parametrize("data", [b"", b"[", b"[]", b"\xff", b"1", b"null"])
def test_text_without_a_plan_is_refused(data: bytes) -> None:
    with pytest.raises(PlanError):
        bandwidthplan.parse(data)


@pytest.mark.parametrize(
    "line",
    [
        "device x \u00b2",
        "device x " + "9" * 5000,
        "gid \u00b2 fe80 -",
        "pkey \u00b2 0x8001",
        "gid " + "9" * 5000 + " f f",
    ],
)
def test_invalid_line_of_a_node_is_ignored(line: str) -> None:
    found = ports(f"device mlx5_0 1\nstate 4: ACTIVE\n{line}\nend")
    assert found is not None
    assert [(p.device, p.number, p.pkeys, p.gids) for p in found] == [("mlx5_0", 1, {}, [])]


_SSH = """#!/bin/sh
while [ "$1" != -- ]; do case "$*" in *"-O exit"*) exit 0;; esac; shift; done; shift
[ "$1" = n9 ] && exit 255
h=$1; shift; export NODE="$h" PATH="{bin}:$PATH"
exec sh -c "$(printf '%s' "$*" | sed 's#/run/lock#{root}/'$h'#')"
"""
_TOOL = """#!/bin/sh
for last; do :; done
case "$last" in n[0-9]*) ;; *) sleep 0.3; exit 0;; esac
printf ' #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\\n'
printf ' 65536      200              0.11               300.5   \\t\\t   0.000191\\n'
"""


@pytest.fixture
def rig(tmp_path: Path) -> Path:
    """A folder with a stand-in for `ssh`, which runs commands here, and nodes n1, n2."""
    (tmp_path / "bin").mkdir()
    for name, text in (("ssh", _SSH), ("ucx_perftest", _TOOL)):
        path = tmp_path / "bin" / name
        path.write_text(text.format(bin=tmp_path / "bin", root=tmp_path) if name == "ssh" else text)
        path.chmod(0o755)
    for node in ("n1", "n2"):
        (tmp_path / node).mkdir()
    return tmp_path


def _plan_file(folder: Path, names: Sequence[str]) -> Path:
    plan = plan_of(list(names), 1, program="ucx", seconds=1)
    for node in cast(list[dict[str, Any]], plan["nodes"]):
        node["adapters"] = [{"rail": 0, "device": "eth0", "gbps": 100}]
    (folder / "plan.json").write_text(json.dumps(plan))
    return folder / "plan.json"


def test_program_over_ssh_reports_each_pair_and_nodes_without_login(
    rig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["bandwidth", str(_plan_file(rig, ["n1", "n2", "n9"])), "--ssh", str(rig / "bin" / "ssh")])
    found = json.loads(capsys.readouterr().out)
    assert code == 3
    assert {tuple(p[:2]): p[3] for p in found["pairs"]} == {
        **{(0, 1): "NOT_UNDERSTOOD", (1, 0): "NOT_UNDERSTOOD"},  # perftest's table isn't UCX's
        **dict.fromkeys(((0, 2), (2, 0), (1, 2), (2, 1)), "NO_LOGIN"),
    }


def test_second_concurrent_test_on_a_node_is_refused_as_busy(rig: Path) -> None:
    plan = bandwidthplan.parse(_plan_file(rig, ["n1", "n2"]).read_bytes())
    first, second = (Session(plan.nodes[0], [str(rig / "bin" / "ssh")], str(rig)) for _ in "12")
    assert first.hold() is None
    assert second.hold() == "BUSY" and second.lost
    first.close()
    assert second.hold() is None
    second.close()


def test_script_that_hangs_is_ended(rig: Path) -> None:
    plan = bandwidthplan.parse(_plan_file(rig, ["n1", "n2"]).read_bytes())
    session = Session(plan.nodes[0], [str(rig / "bin" / "ssh")], str(rig))
    assert session.run("echo a; exec sleep 100", 0.5) == (None, "a\n")


def test_node_without_flock_is_reported_as_no_program(rig: Path) -> None:
    """Without `flock` it isn't known whether another test runs there, so the reason is NO_PROGRAM and not BUSY."""
    lock = rig / "bin" / "flock"
    lock.write_text("#!/bin/sh\nexit 127\n")
    lock.chmod(0o755)
    plan = bandwidthplan.parse(_plan_file(rig, ["n1", "n2"]).read_bytes())
    session = Session(plan.nodes[0], [str(rig / "bin" / "ssh")], str(rig))
    assert session.hold() == "NO_PROGRAM" and session.lost
