"""People who type `weft`, each with a profile in the lab's clouds.yaml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openstack
import openstack.connection
import pytest

from weftlab.lab import Lab

POD = """\
name: {name}
nodes: {{count: {count}, spare: {spare}, flavor: gpu8, image: tiny}}
access: {{ssh_from: [10.0.0.0/8], floating_ip: {floating}}}
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a profile in the lab's clouds.yaml, typing commands."""

    lab: Lab
    cloud: str
    folder: Path

    def weft(self, *words: str, timeout: float = 240.0, **env: str) -> Answer:
        """Run `weft …` as a process of its own."""
        known = {k: v for k, v in os.environ.items() if not k.startswith("OS_")}
        try:
            done = subprocess.run(
                [sys.executable, "-m", "weft.cli.main", *words],
                env={
                    **known,
                    "OS_CLIENT_CONFIG_FILE": str(self.lab.clouds_yaml),
                    "OS_CLOUD": self.cloud,
                    **env,
                },
                cwd=self.folder,
                capture_output=True,
                timeout=timeout,
                text=True,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            said = b"".join(s for s in (late.stdout, late.stderr) if isinstance(s, bytes)).decode(
                errors="replace"
            )
            pytest.fail(
                f"weft {' '.join(words)}: not done after {timeout:.0f} s; it last said:\n{said[-3000:]}"
            )
        assert "Traceback" not in done.stderr, done.stderr
        return Answer(done.returncode, done.stdout, done.stderr)

    def order(
        self, name: str, count: int = 2, *words: str, floating: str = "none", spare: int = 0, more: str = ""
    ) -> Answer:
        """`weft pod create`; a floating IP brings a router with it. `more`: further lines of the pod file."""
        file = self.folder / f"{name}.yaml"
        file.write_text(POD.format(name=name, count=count, floating=floating, spare=spare) + more)
        return self.weft("pod", "create", "-f", str(file), *words)


People = Callable[[str], Person]
"""Somebody by the name of a profile: what the fixture `people` gives."""


def connection(lab: Lab, cloud: str) -> openstack.connection.Connection:
    config = openstack.config.OpenStackConfig(config_files=[str(lab.clouds_yaml)])
    return openstack.connection.Connection(config=config.get_one(cloud))
