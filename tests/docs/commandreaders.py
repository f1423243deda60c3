"""Whether a program accepts the words of a documented command, without running it."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cliff.commandmanager import CommandManager
from openstackclient import shell

from openvipu import server_main
from openvipu.clients import main as vipu_clients
from openvipu.sim import main as openvipu_sim
from tests.helpers.paths import ROOT
from weft.cli.main import build_parser

_SERVICES = (
    "accelerator_pod.v1",
    "common",
    "compute.v2",
    "identity.v3",
    "image.v2",
    "network.v2",
    "volume.v3",
)
"""Groups of `openstack`'s commands that the documentation uses."""
_CLOSED = ["--api-host", "127.0.0.1", "--api-port", "9"]
"""A port without a controller: the words are parsed before a request is sent."""


def _weft(words: Sequence[str], folder: Path) -> bool:
    return _accepted(build_parser(list(words)), words)


def _openstack(words: Sequence[str], folder: Path) -> bool:
    """By the parsers of OpenStack's client and its table of commands."""
    known = CommandManager("openstack.cli")
    for service in _SERVICES:
        known.add_command_group(f"openstack.{service}")
    _, rest = shell.OpenStackShell().parser.parse_known_args(list(words))
    try:
        made, name, arguments = known.find_command(rest)
    except ValueError:  # no such command
        return False
    app: Any = SimpleNamespace(NAME="openstack", client_manager=None, command_manager=known)
    return _accepted(made(app, None, cmd_name=name).get_parser(name), arguments)


def _vipu(run: Callable[[list[str]], int]) -> Callable[[Sequence[str], Path], bool]:
    def read(words: Sequence[str], folder: Path) -> bool:
        found = [str(folder / word) if (folder / word).is_file() else word for word in words]
        if "--wait" in found:
            found += ["--wait", "0"]
        try:
            return (
                run([*_CLOSED, *found]) == 1
            )  # the controller can't be reached; 2 would be bad words or a bad file
        except SystemExit:
            return False

    return read


def _make(words: Sequence[str], folder: Path) -> bool:
    return subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, check=False).returncode == 0


def _accepted(parser: argparse.ArgumentParser, words: Sequence[str]) -> bool:
    try:
        parser.parse_args(list(words))
    except SystemExit:
        return False
    return True


_READERS: Mapping[str, Callable[[Sequence[str], Path], Any]] = {
    "weft": _weft,
    "openstack": _openstack,
    "vipu": _vipu(vipu_clients.vipu),
    "vipu-admin": _vipu(vipu_clients.vipu_admin),
    "openvipu-server": lambda words, _: _accepted(server_main._parser(), words),  # pyright: ignore[reportPrivateUsage]
    "openvipu-sim": lambda words, _: _accepted(openvipu_sim._parser(), words),  # pyright: ignore[reportPrivateUsage]
    "make": _make,
}


def is_known(command: Sequence[str], folder: Path) -> bool:
    """Whether the command's program accepts its words; True for programs of others, which aren't checked.

    Args:
        command: its words; variables stand for numbers and names.
        folder: where the files are that the documentation shows.
    """
    command = ["1" if word.startswith("$") else word for word in command]
    read = _READERS.get(command[0])
    return read is None or bool(read(command[1:], folder))
