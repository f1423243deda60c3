"""An upgrade from the previous landed state: its processes and this version's work on one database, and back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from tests.helpers.archives import unpack
from tests.helpers.paths import ROOT
from tests.upgrade.versions import NODES, Tree, Version, again, this_tree

pytestmark = pytest.mark.landing

PREVIOUS = ROOT / "tests" / "upgrade" / "previous.txt"
"""The commit that this version is upgraded from; each release moves it forward."""
PARTS = {
    "count": 1,
    "sharing": "shared",
    "accelerators": {"type": "h100", "count": 1},
    "image": "tiny",
}
"""With `on_failure: replace` the previous version refuses them: it leaves such a pod to this one."""
LEFT = ((503, "urn:weft:problem:newer"), (502, "urn:weft:problem:permanent"))
"""What it answers about such a pod: once a session of its process began beside the newer version, and before."""
_FIELDS = """
import json, sys
from weft.model.base import Document
from weft.engine.base.documents import STORED
def known(kind, found):
    if kind.__name__ in found:
        return
    fields = {n: bool(f.exclude or f.exclude_if) for n, f in kind.model_fields.items()}
    found[kind.__name__] = fields
    todo = [f.annotation for f in kind.model_fields.values()]
    while todo:
        one = todo.pop()
        if isinstance(one, type) and issubclass(one, Document):
            known(one, found)
        todo += [*getattr(one, "__args__", ())]
        todo += [getattr(one, "__value__")] if hasattr(one, "__value__") else []
found = {}
for kind in STORED:
    known(kind, found)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """The files of that commit. A clone without its history fails here: it proves nothing."""
    commit, folder = PREVIOUS.read_text().split()[0], tmp_path_factory.mktemp("previous")
    archive = folder / "previous.tar"
    made = subprocess.run(
        ["git", "archive", "-o", archive, commit, "src", "lab", "tests/upgrade", "tests/helpers"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert made.returncode == 0, (
        f"commit {commit} isn't in this clone (git fetch --unshallow): {made.stderr.decode()}"
    )
    unpack(archive, folder)
    return Tree("previous", folder, folder / "src")


@pytest.fixture
def url(postgres: str) -> Generator[str]:
    """An empty database, which the previous version makes its tables in."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE weft_previous")
        yield postgres.replace("/postgres?", "/weft_previous?")
        connection.execute("DROP DATABASE weft_previous WITH (FORCE)")


def test_new_fields_of_stored_documents_are_left_out_at_their_default(previous: Tree) -> None:
    """The previous version refuses fields that it doesn't know: declare new ones with `weft.model.base.added`."""
    before, now = (fields_of(tree) for tree in (previous, this_tree()))
    wrong = [
        f"{kind}.{name}"
        for kind, fields in now.items()
        if kind in before
        for name, left_out in fields.items()
        if name not in before[kind] and not left_out
    ]
    assert wrong == []
    assert len(before) > 30, "the documents inside them were found"


def fields_of(tree: Tree) -> dict[str, dict[str, bool]]:
    words = [sys.executable, "-W", "ignore", "-c", _FIELDS]
    said = subprocess.run(words, env=tree.environment, cwd=tree.root, capture_output=True, check=True)
    return json.loads(said.stdout)


def test_previous_version_works_beside_this_one_and_alone_again(
    previous: Tree, tmp_path: Path, url: str
) -> None:
    """Its database, which this version migrates while it works."""
    old = Version(previous, url, tmp_path)
    new = Version(this_tree(), url, tmp_path)
    try:
        old.activate()
        old_server, old_worker = old.start("server").started(), old.start("worker").started()
        old_server.order("before")
        new_server, new_worker = new.start("server").started(), new.start("worker").started()
        new_server.order("of-new")
        old_server.order("of-old")
        for server, pod in ((old_server, "of-new"), (new_server, "of-old"), (new_server, "before")):
            server.is_in(pod, "READY")
            body = {"name": pod, "nodes": {**NODES, "count": 2}, "fabric": "none"}
            answer = again(lambda s=server, p=pod, b=body: s.ask("PUT", f"/v1/pods/{p}", b))
            assert answer.status_code in (200, 202), answer.text
        new_server.order("parts", nodes=PARTS, on_failure="replace")
        new_server.is_in("parts", "READY")
        left = old_server.ask("GET", "/v1/pods/parts")
        assert (left.status_code, left.json()["type"]) in LEFT, left.text
        old_server.order("beside")
        old_server.is_in("beside", "READY")
        for pod in ("parts", "beside"):
            new_server.release(pod)
            new_server.is_in(pod, "RELEASED")
        old_worker.dies(url)
        new_server.release("before")
        new_server.is_in("before", "RELEASED")
        old.start("worker").started()
        new_worker.dies(url)
        new_server.stop()
        for pod in ("of-new", "of-old"):
            old_server.release(pod)
            old_server.is_in(pod, "RELEASED")
        old_server.order("again")
        old_server.is_in("again", "READY")
    finally:
        old.close()
        new.close()
