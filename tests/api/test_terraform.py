"""examples/terraform, validated and applied by Terraform itself to weft's API, with stand-ins for its providers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.doors import DoorsHouse, doors
from tests.helpers.paths import ROOT
from tests.helpers.terraform import Json, Terraform, terraform
from weft.app.verbs import Request
from weft.testing.callers import tokens
from weft.testing.keystone import FakeIdentity
from weft.testing.serving import served

__all__ = ["doors"]
EXAMPLE = ROOT / "examples" / "terraform" / "main.tf"


@pytest.fixture(scope="module")
def tool() -> Iterator[Terraform]:
    with terraform("terraform_http.py") as one:
        yield one


def changes(lines: list[Json]) -> tuple[int, int, int]:
    """How many resources were, or would be, added, changed and removed."""
    found = [line["changes"] for line in lines if line["type"] == "change_summary"][-1]
    return found["add"], found["change"], found["remove"]


def errors(lines: list[Json]) -> str:
    return _said(lines, "error")


def warnings(lines: list[Json]) -> str:
    return _said(lines, "warning")


def _said(lines: list[Json], severity: str) -> str:
    return " ".join(
        f"{line['diagnostic']['summary']} {line['diagnostic'].get('detail', '')}"
        for line in lines
        if line["type"] == "diagnostic" and line["diagnostic"]["severity"] == severity
    )


@pytest.mark.cloud
def test_example_orders_changes_and_releases_a_pod(
    tool: Terraform, doors: DoorsHouse, tmp_path: Path
) -> None:
    """Values that weft adds to the pod are no difference; Terraform shows what weft refuses as an error."""
    shutil.copy(EXAMPLE, tmp_path)

    def given(nodes: int, token: str = "a-member") -> Path:
        values = {"weft": url, "token": token, "nodes": nodes}
        (tmp_path / "terraform.tfvars.json").write_text(json.dumps(values))
        return tmp_path

    with served(doors.served(FakeIdentity(tokens()))) as url:
        assert tool.validate(given(2)) == []
        made = tool.apply(given(2))
        assert (changes(made), errors(made)) == ((1, 0, 0), "")
        outputs = [line["outputs"] for line in made if line["type"] == "outputs"][-1]
        pod = doors.store.pods.find("train", "id-of-team-a")
        assert outputs["pod"]["value"]["id"] == str(pod.id) and outputs["capacity"]["value"]["rows"]
        doors.finish("train")
        assert changes(tool.plan(given(2))) == (0, 0, 0)
        assert changes(tool.apply(given(3))) == (0, 1, 0)
        doors.finish("train")
        assert len(doors.store.pods.find("train", "id-of-team-a").nodes) == 3
        refused = errors(tool.apply(given(3000)))
        assert "unexpected response code '4" in refused and "nodes" in refused
        assert changes(tool.apply(given(3))) == (0, 0, 0), "what was refused isn't taken for done"
        assert "401" in errors(tool.plan(given(3, "nix")))
        assert warnings(tool.plan(given(3))) == ""
        doors.service.pods.release(Request(tokens()["a-member"], "127.0.0.1", "req-0"), "train")
        doors.finish("train")
        assert "-replace=restapi_object.pod" in warnings(tool.plan(given(3))), "a released pod still answers"
        again = tool.replace(given(3))
        assert (changes(again), errors(again)) == ((1, 0, 1), "")
        assert doors.finish("train").state == "READY"
        gone = tool.destroy(given(3))
        assert (changes(gone), errors(gone)) == ((0, 0, 1), "")
        assert doors.store.pods.find("train", "id-of-team-a").wanted == "absent"


@pytest.mark.cloud
def test_argument_that_the_provider_lacks_is_found(tool: Terraform, tmp_path: Path) -> None:
    """The stand-in's schema is checked."""
    (tmp_path / "main.tf").write_text(EXAMPLE.read_text().replace("force_new", "force_old"))
    assert "force_old" in json.dumps(tool.validate(tmp_path))
