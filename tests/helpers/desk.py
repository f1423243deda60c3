"""A user's environment for tests of the command line: a folder with clouds.yaml and pod files, and `weft` to run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from tests.helpers.doors import ORDER, DoorsHouse
from weft.cli.main import main
from weft.testing.keystone import FakeKeystone

USERS = ("a-member", "a-reader", "b-member", "operator", "system-reader")


@dataclass
class Run:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Capture(Protocol):
    """pytest's capsys, as far as it is used."""

    def readouterr(self) -> Any: ...


class Environment(Protocol):
    """pytest's monkeypatch, as far as it is used for variables and streams of this process."""

    def setenv(self, name: str, value: str) -> None: ...

    def delenv(self, name: str, raising: bool = True) -> None: ...


@dataclass
class Desk:
    """See the module's docstring."""

    folder: Path
    house: DoorsHouse
    keystone: FakeKeystone
    url: str
    capture: Capture
    environment: Environment
    clouds: dict[str, Any] = field(default_factory=dict)

    def weft(self, *words: str, cloud: str | None = "a-member") -> Run:
        """Runs `weft` in this process, signed in as `cloud`."""
        self.capture.readouterr()
        given = ("--os-cloud", cloud) if cloud else ()
        code = main([*given, *words])
        out, err = self.capture.readouterr()
        return Run(code, out, err)

    def pod_file(self, name: str = "train", **changes: Any) -> str:
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**ORDER, "name": name, **changes}))
        return str(path)

    def write_clouds(self) -> None:
        (self.folder / "clouds.yaml").write_text(yaml.safe_dump({"clouds": self.clouds}))


def sign_in(url: str, name: str) -> dict[str, str]:
    return {
        "auth_url": f"{url}/v3",
        "username": name,
        "password": "secret",
        "project_name": "any",
        "user_domain_id": "default",
        "project_domain_id": "default",
    }
