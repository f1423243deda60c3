"""People who type `weft`, each with a profile in the lab's clouds.yaml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import openstack
import openstack.connection
import pytest

from tests.helpers import forks, waiting
from weftlab.lab import Lab

T = TypeVar("T")
PATIENCE = 600.0
"""Seconds that something is waited for: far more than the slowest machine needs."""
POD = """\
name: {name}
nodes: {{count: {count}, spare: {spare}, flavor: gpu8, image: tiny}}
access: {{ssh_from: [10.0.0.0/8], floating_ip: {floating}}}
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def _program(
    words: Sequence[str], env: Mapping[str, str], cwd: Path, out: Path, err: Path, timeout: float
) -> int | None:
    command = [sys.executable, "-m", "weft.cli.main", *words]
    with out.open("wb") as said, err.open("wb") as errors:
        try:
            return subprocess.run(
                command, env=env, cwd=cwd, stdout=said, stderr=errors, timeout=timeout, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return None


@dataclass(frozen=True, slots=True)
class Person:
    """A user with a profile in the lab's clouds.yaml, typing commands.

    Attributes:
        program: each command is the program itself, as from a shell, and not a fork of one that is loaded already.
    """

    lab: Lab
    cloud: str
    folder: Path
    program: bool = False

    def weft(self, *words: str, timeout: float = 240.0, **env: str) -> Answer:
        """Run `weft …` as a process of its own."""
        known = {k: v for k, v in os.environ.items() if not k.startswith("OS_")}
        whole = {**known, "OS_CLIENT_CONFIG_FILE": str(self.lab.clouds_yaml), "OS_CLOUD": self.cloud, **env}
        with tempfile.TemporaryDirectory(prefix="weft-typed-") as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            if self.program:
                code = _program(words, whole, self.folder, out, err, timeout)
            else:
                code = forks.run("weft", words, whole, self.folder, out, err, timeout)
            stdout, stderr = (f.read_text() if f.exists() else "" for f in (out, err))
        if code is None:
            pytest.fail(
                f"weft {' '.join(words)}: not done after {timeout:.0f} s; it last said:\n{(stdout + stderr)[-3000:]}"
            )
        assert "Traceback" not in stderr, stderr
        return Answer(code, stdout, stderr)

    def verify(self, receipt: str) -> Answer:
        """`weft receipt verify`, by the key that the service gives."""
        (self.folder / "weft.pub").write_text(self.weft("receipt", "key").out)
        return self.weft("receipt", "verify", receipt, "--key", "weft.pub")

    def order(
        self, name: str, count: int = 2, *words: str, floating: str = "none", spare: int = 0, more: str = ""
    ) -> Answer:
        """`weft pod create`; a floating IP brings a router with it. `more`: further lines of the pod file."""
        file = self.folder / f"{name}.yaml"
        file.write_text(POD.format(name=name, count=count, floating=floating, spare=spare) + more)
        return self.weft("pod", "create", "-f", str(file), *words)


def servers_of(cloud: openstack.connection.Connection, pod_id: str, everywhere: bool = True) -> list[Any]:
    """Nova's servers of a pod, by weft's mark: their names are the tenant's.

    Args:
        everywhere: of all projects, as the caller may see them; else of its own.
    """
    listed = cloud.compute.servers(**({"all_projects": True} if everywhere else {}))
    return [s for s in listed if f" pod={pod_id} " in (s.description or "")]


def wait_for(look: Callable[[], T], seconds: float = PATIENCE, pause: float = 1.0) -> T:
    """Wait until `look` gives something true, and return that; each call costs the lab's services processor time."""
    return waiting.wait_for(look, seconds=seconds, pause=pause)


def assert_clean(operator: Person) -> None:
    """An audit finds nothing; else the test says what."""
    answer = operator.weft("audit")
    assert answer.code == 0, answer.out + answer.err


People = Callable[[str], Person]
"""Name of a profile -> its user: the type of the fixture `people`."""


def connection(lab: Lab, cloud: str) -> openstack.connection.Connection:
    config = openstack.config.OpenStackConfig(config_files=[str(lab.clouds_yaml)])
    return openstack.connection.Connection(config=config.get_one(cloud))
