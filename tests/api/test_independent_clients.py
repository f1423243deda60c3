"""The API's description, as programs read it that know nothing of weft."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Client

from tests.helpers.doors import ORDER, DoorsHouse

AT_NIGHT = pytest.mark.nightly(
    reason="a client takes ten seconds to generate, the requests minutes; by day the description is compared"
)
PROGRAMS = Path(sys.executable).parent
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "ignored_auth",
    "ensure_resource_availability",
    "use_after_free",
)
"""Left out: whether valid data is accepted (names must exist in the site), and whether invalid data is refused (`0` is
read as false)."""


def run(folder: Path, program: str, *args: str | Path) -> str:
    """Output of a program of the environment, which must succeed."""
    command = [PROGRAMS / program, *args]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    return done.stdout


@pytest.fixture(scope="module")
def described(server: tuple[FastAPI, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The API's description, as the server publishes it."""
    path = tmp_path_factory.mktemp("description") / "openapi.json"
    path.write_text(json.dumps(server[0].openapi()))
    return path


@pytest.fixture(scope="module")
def generated(described: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Name of the package that openapi-python-client generates from the description, without a warning."""
    folder = tmp_path_factory.mktemp("client")
    config = folder / "config.json"
    config.write_text(json.dumps({"post_hooks": []}))
    name = "generated_client_of_weft"
    written = ("--path", described, "--output-path", folder / name)
    kind = ("--meta", "none", "--config", config, "--fail-on-warning")
    output = run(folder, "openapi-python-client", "generate", *written, *kind)
    assert "arning" not in output
    sys.path.insert(0, str(folder))
    yield name
    sys.path.remove(str(folder))
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


class Generated:
    """Calls operations of the generated client by their ids; answers are (status, typed body)."""

    def __init__(self, package: str, url: str, token: str) -> None:
        self._package = package
        client = importlib.import_module(f"{package}.client").AuthenticatedClient
        self._client = client(base_url=url, token=token, prefix="", auth_header_name="X-Auth-Token")
        self.models: Any = importlib.import_module(f"{package}.models")

    def __call__(self, operation: str, *args: object, **given: object) -> Any:
        module = importlib.import_module(f"{self._package}.api.pods.{operation}")
        return module.sync_detailed(*args, client=self._client, **given)


@pytest.fixture
def client(generated: str, api: Client, server: tuple[FastAPI, str]) -> Generated:
    return Generated(generated, server[1], "a-member")


@AT_NIGHT
def test_generated_client_orders_watches_and_releases_a_pod(client: Generated, doors: DoorsHouse) -> None:
    """Every answer has the type that the description declares."""
    models = client.models
    order = models.Order.from_dict(ORDER)
    made = client("create_pod", body=order, idempotency_key="4f2c").parsed
    assert isinstance(made, models.PodView)
    assert client("create_pod", body=order, idempotency_key="4f2c").parsed.id == made.id
    doors.finish("train")
    shown = client("show_pod", "train").parsed
    assert (type(shown), shown.state) == (models.PodView, "READY")
    assert [pod.name for pod in client("list_pods").parsed.pods] == ["train"]
    events = client("pod_events", "train").parsed.events
    assert {type(event) for event in events} == {models.EventView}
    plan = client("plan_pod", body=models.Order.from_dict({**ORDER, "name": "other"})).parsed
    assert isinstance(plan, models.Plan)
    assert client("release_pod", "train").status_code == 202
    doors.finish("train")
    assert client("pod_receipt", "train").parsed.receipt.clean is True


@AT_NIGHT
def test_generated_client_reads_problems(client: Generated) -> None:
    """With their code, and the field that is wrong."""
    absent = client("show_pod", "nothing")
    assert (absent.status_code, absent.parsed.code) == (404, "POD_NOT_FOUND")
    wrong = client.models.Order.from_dict({**ORDER, "lease": {"duration": "a while"}})
    refused = client("create_pod", body=wrong)
    assert (refused.status_code, refused.parsed.code) == (400, "INVALID_INPUT")
    assert [error.field for error in refused.parsed.errors] == ["lease.duration"]


STREAMS = ("--exclude-path", "/v1/pods/{name}/events", "--exclude-path", "/v1/events")


@AT_NIGHT
@pytest.mark.parametrize("token", ["operator", "a-member"])
def test_every_answer_is_as_described(
    described: Path, api: Client, doors: DoorsHouse, server: tuple[FastAPI, str], tmp_path: Path, token: str
) -> None:
    """Schemathesis sends valid and invalid requests to every operation but the event streams."""
    assert api.post("/v1/pods", json=ORDER).status_code == 202
    doors.finish("train")
    asked = ("--url", server[1], "-H", f"X-Auth-Token: {token}", *STREAMS)
    what = ("--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing", "--max-examples", "30")
    how = ("--seed", os.environ.get("WEFT_TESTS_SEED", "1"), "--continue-on-failure", "--no-color")
    output = run(tmp_path, "schemathesis", "run", described, *asked, *what, *how)
    operations = sum(len(methods) for methods in json.loads(described.read_text())["paths"].values())
    assert f"Tested: {operations - 2}" in output, "all but the event streams"


def test_arrays_of_the_description_say_what_they_hold(api: Client) -> None:
    """Generators leave out answers with arrays of unknown items."""
    bare = [
        where
        for where, schema in arrays("", api.get("/openapi.json").json())
        if not {"items", "prefixItems"} & set(schema)
    ]
    assert bare == []


def arrays(where: str, part: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every array of a description, with its path."""
    if isinstance(part, dict):
        if part.get("type") == "array":
            yield where, part
        for name, value in part.items():
            yield from arrays(f"{where}/{name}", value)
    elif isinstance(part, list):
        for number, value in enumerate(part):
            yield from arrays(f"{where}/{number}", value)
