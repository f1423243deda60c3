"""`weft pod ssh`: the command line that it becomes, and what it says if something is missing."""

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
from weft.cli.podrecord import login
from weft.cli.podssh import ssh_words
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
        (["weft-1-server-gpu02"], ["ubuntu@203.0.113.7"]),
        (["--", "nvidia-smi", "-L"], ["ubuntu@203.0.113.7", "nvidia-smi", "-L"]),
        (["gpu02", "-l", "root", "--", "a", "--", "b"], ["root@203.0.113.7", "a", "--", "b"]),
        (["-i", "key", "--command", "uptime -p"], ["-i", "key", "ubuntu@203.0.113.7", "uptime -p"]),
    ],
)
def test_ssh_is_called_with_user_address_and_command(words: list[str], becomes: list[str]) -> None:
    assert _words(_pod(), *words) == ["ssh", *becomes]


@pytest.mark.parametrize(
    ("pod", "words", "says"),
    [
        (_pod(servers=[]), (), "pod train is BOOTING and has no server with an address yet: servers boot"),
        (_pod(), ("gpu09",), "pod train has no server 'gpu09' with an address: it has gpu01, gpu02"),
        (_pod("tiny"), (), "--user: missing: the login user of image 'tiny'"),
        (_pod(floating_ip="first"), (), "no SSH key in the order"),
        (_pod(), ("-l=-oProxyCommand=x",), "--user: '-oProxyCommand=x' is not allowed"),
        (_pod(servers=[{**SERVERS[0], "management_address": "-oProxyCommand=x"}]), (), "is no address"),
    ],
)
def test_what_ssh_lacks_is_reported(pod: dict[str, Any], words: tuple[str, ...], says: str) -> None:
    with pytest.raises(WeftError, match=says):
        _words(pod, *words)


def test_ssh_runs_with_the_pods_user_and_address(desk: Desk) -> None:
    """A real process, an `ssh` of the test's own in PATH: arguments and exit code go through."""
    desk.weft("pod", "create", "-f", desk.pod_file(access={"ssh_key": KEY}))
    desk.house.finish("train")
    address = desk.weft("pod", "show", "train", "--json").json["servers"][0]["management_address"]
    program = desk.folder / "ssh"
    program.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    program.chmod(0o755)
    words = ["--os-cloud", "a-member", "pod", "ssh", "train", "gpu01", "-l", "root", "--", "uptime", "-p"]
    done = subprocess.run(
        [sys.executable, "-m", "weft.cli.main", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{desk.folder}:{os.environ['PATH']}"},
    )
    assert (done.returncode, done.stdout) == (7, f"root@{address} uptime -p\n"), done.stderr
