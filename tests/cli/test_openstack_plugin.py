"""The real `openstack` client with weft's plugin, against a real API server and a small fake Keystone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from tests.helpers.desk import Desk
from tests.helpers.paths import ROOT
from weft.osc.tree import pod_commands

pytestmark = pytest.mark.landing

_CACHE = tempfile.gettempdir()
"""stevedore caches entry points there; with a new home for each test every command would scan for them."""


def _openstack(*words: str, cloud: str = "a-member") -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("openstack"))
    return subprocess.run(
        [program, "--os-cloud", cloud, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "XDG_CACHE_HOME": _CACHE},
    )


def test_openstack_client_orders_lists_and_shows_pods(desk: Desk) -> None:
    """With its session and catalog; its list has the data of `weft pod list`, and refusals are reported."""
    made = _openstack(
        "pod", "create", "-f", desk.pod_file(), "--format", "value", "-c", "name", "-c", "state"
    )
    assert (made.returncode, made.stdout) == (0, "train\nPLACED\n"), made.stderr
    names = _openstack("pod", "list", "-f", "value", "-c", "name")
    assert (names.returncode, names.stdout) == (0, "train\n"), names.stderr
    assert names.stdout == desk.weft("pod", "list", "-f", "value", "-c", "name").out
    shown = json.loads(_openstack("pod", "show", "train", "--events", "-f", "json").stdout)
    assert shown == desk.weft("pod", "show", "train", "--events", "-f", "json").json
    missing = _openstack("pod", "delete", "nix")
    assert (missing.returncode, missing.stderr) == (1, "there is no pod 'nix' in this project\n")


def test_every_pod_command_is_an_entry_point() -> None:
    """Each loads, and its class has the description of weft's command."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    named = points["openstack.accelerator_pod.v1"]
    commands = {"_".join(path): recorded for path, recorded in pod_commands().items()}
    assert set(named) == set(commands)
    for name, place in named.items():
        module, _, class_ = place.partition(":")
        assert getattr(import_module(module), class_).__doc__ == commands[name].description
