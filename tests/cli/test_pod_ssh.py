"""`weft pod ssh`: the ssh command line it makes, and its errors."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.cli.test_output import KEY, SERVERS
from tests.helpers.desk import Desk
from weft.cli.main import build_parser
from weft.cli.podssh import ssh_words
from weft.generate.login import login
from weft.model.errors import WeftError


def _parsed(*words: str) -> argparse.Namespace:
    given = ["pod", "ssh", *words]
    return build_parser(given).parse_args(given)


def _words(pod: dict[str, Any], *words: str) -> list[str]:
    args = _parsed("train", *words)
    return ssh_words(pod, login(pod, args.node), args)


def _pod(image: str = "ubuntu-24.04", servers: Any = SERVERS, **access: str) -> dict[str, Any]:
    order = {"nodes": {"image": image}, "access": access or {"key_pair": "k"}}
    return {"name": "train", "state": "BOOTING", "reason": "servers boot", "order": order, "servers": servers}


@pytest.mark.parametrize(
    ("words", "becomes"),
    [
        ([], ["ubuntu@203.0.113.7"]),
        (["gpu01"], ["-J", "ubuntu@203.0.113.7", "ubuntu@10.0.0.5"]),
        (["train-1"], ["ubuntu@203.0.113.7"]),
        (["--", "nvidia-smi", "-L"], ["ubuntu@203.0.113.7", "nvidia-smi", "-L"]),
        (["gpu02", "-l", "root", "--", "a", "--", "b"], ["root@203.0.113.7", "a", "--", "b"]),
        (["-i", "key", "--command", "uptime -p"], ["-i", "key", "ubuntu@203.0.113.7", "uptime -p"]),
        (
            ["train-0", "-i", "my key%"],
            [
                *("-i", "my key%", "-o"),
                "ProxyCommand=ssh -i 'my key%%' -W '[%h]:%p' ubuntu@203.0.113.7",
                "ubuntu@10.0.0.5",
            ],
        ),
    ],
)
def test_ssh_is_called_with_user_address_and_command(words: list[str], becomes: list[str]) -> None:
    assert _words(_pod(), *words) == ["ssh", *becomes]


@pytest.mark.parametrize(
    ("pod", "words", "says"),
    [
        (_pod(servers=[]), (), "pod train is BOOTING and has no server with an address yet: servers boot"),
        (
            _pod(),
            ("gpu09",),
            "pod train has no server 'gpu09' with an address: it has train-0 on gpu01, train-1 on gpu02",
        ),
        (_pod("tiny"), (), "--user: missing: the login user of image 'tiny'"),
        (_pod(floating_ip="first"), (), "no SSH key in the order"),
        (_pod(), ("-l=-oProxyCommand=x",), "--user: '-oProxyCommand=x' is not allowed"),
        (_pod(servers=[{**SERVERS[0], "management_address": "-oProxyCommand=x"}]), (), "is no address"),
    ],
)
def test_missing_part_of_a_login_is_reported(pod: dict[str, Any], words: tuple[str, ...], says: str) -> None:
    with pytest.raises(WeftError, match=says):
        _words(pod, *words)


def test_argument_of_pod_ssh_is_a_server_before_a_node() -> None:
    """A pattern may give a server the name of another server's node."""
    servers = [{**SERVERS[0], "name": "gpu02"}, {**SERVERS[1], "name": "gpu01"}]
    assert _words(_pod(servers=servers), "gpu01") == ["ssh", "ubuntu@203.0.113.7"]


def test_ssh_runs_with_the_pods_user_and_address(desk: Desk) -> None:
    """With an `ssh` of the test in PATH: arguments and exit code are passed on."""
    desk.weft("pod", "create", "-f", desk.pod_file(access={"ssh_key": KEY}))
    desk.house.finish("train")
    address = desk.weft("pod", "show", "train", "--json").json["servers"][0]["management_address"]
    program = desk.folder / "ssh"
    program.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{desk.folder}:{os.environ['PATH']}"}
    for named in (["train", "train-0"], ["train-0"]):
        words = ["--os-cloud", "a-member", "pod", "ssh", *named, "-l", "root", "--", "uptime", "-p"]
        done = subprocess.run(
            [sys.executable, "-m", "weft.cli.main", *words],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        assert (done.returncode, done.stdout) == (7, f"root@{address} uptime -p\n"), done.stderr
    unknown = desk.weft("pod", "ssh", "train-7")
    assert unknown.code == 2 and "there is no pod 'train-7'" in unknown.err


def test_server_name_of_several_pods_is_refused(desk: Desk) -> None:
    """Patterns may give servers of two pods the same name: the plan warns, and `pod ssh` needs the pod's name."""
    nodes = {"count": 2, "flavor": "gpu8", "image": "tiny", "names": "node{index}"}
    desk.weft("pod", "create", "-f", desk.pod_file("first", nodes=nodes))
    desk.house.finish("first")
    planned = desk.weft("pod", "plan", "-f", desk.pod_file("second", nodes=nodes))
    assert (
        planned.code == 0 and "the project has servers of these names already: node0, node1;" in planned.out
    )
    desk.weft("pod", "create", "-f", desk.pod_file("second", nodes=nodes))
    desk.house.finish("second")
    several = desk.weft("pod", "ssh", "node0")
    assert several.code == 2 and "pods first, second have servers of that name" in several.err
    rows = desk.weft("pod", "list", "--server", "node1", "-f", "value", "-c", "name").out
    assert rows == "first\nsecond\n"
    grown = desk.weft("pod", "plan", "-f", desk.pod_file("second", nodes={**nodes, "count": 3}))
    assert "node2" in grown.out and "names already" not in grown.out


def test_server_list_can_be_written_as_a_host_file(desk: Desk) -> None:
    desk.weft("pod", "create", "-f", desk.pod_file())
    assert desk.weft("pod", "servers", "train", "-f", "value", "-c", "name").out == "train-0\ntrain-1\n"
    shown = desk.weft("pod", "show", "train", "--json").json["servers"]
    lines = desk.weft("pod", "servers", "train", "-f", "value", "-c", "name", "-c", "management_address").out
    assert lines == "".join(f"{s['name']} {s['management_address']}\n" for s in shown)
