"""How a site is cut into parts, and how a document that names parts is read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from weft.app.sitefile import load_site
from weft.model.base import Document
from weft.model.errors import ConflictError, InputError, InputErrors
from weft.model.site import Site
from weft.planning.site.check import canonical
from weft.planning.site.lean import lean
from weft.planning.site.parts import LARGEST, USUAL, cut, rows_of
from weftlab.layout import Layout
from weftlab.site import make_site, settings


@cache
def site(nodes: int = 800) -> Site:
    chosen = settings(nodes=nodes)
    return canonical(make_site(chosen, Layout(Path("/nowhere"), Path("/nowhere"), chosen.ports)))


class Sent:
    """Parts that were sent, and a record of those that were read."""

    def __init__(self, *bodies: bytes) -> None:
        self.parts = {sha256(body).hexdigest(): body for body in bodies}
        self.read: list[str] = []
        self.rows: dict[tuple[str, str], tuple[Document, ...]] = {}

    def known(self, table: str, digest: str) -> tuple[Document, ...] | None:
        return self.rows.get((table, digest))

    def weigh(self, digests: Collection[str]) -> tuple[int, int]:
        found = [self.parts[digest] for digest in digests if digest in self.parts]
        return len(found), sum(map(len, found))

    def bodies(self, digests: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for digest in digests:
            if digest in self.parts:
                self.read.append(digest)
                yield digest, self.parts[digest]


def with_parts(large: Site) -> tuple[dict[str, Any], Sent]:
    made = cut(large)
    return json.loads(json.dumps(made.document)), Sent(*made.parts.values())


def test_small_site_is_sent_in_one_document() -> None:
    """If it fits one request it isn't cut."""
    made = cut(site(16))
    assert not made.parts and Site.model_validate(made.document) == site(16)


def test_parts_are_named_by_digest_and_rebuild_the_site() -> None:
    """Each fits one request; with the head they are the site."""
    made = cut(site())
    assert all(sha256(body).hexdigest() == digest for digest, body in made.parts.items())
    assert len(made.parts) > 2 and max(map(len, made.parts.values())) <= LARGEST
    nodes = [
        row for digest in made.document["nodes"]["parts"] for row in rows_of("nodes", made.parts[digest])
    ]
    assert tuple(nodes) == site().nodes
    assert cut(Site.model_validate(site().model_dump(mode="json"))).document == made.document


@pytest.mark.parametrize("place", [0, 1, 400, 803])
def test_one_change_affects_one_or_two_parts(place: int) -> None:
    """A node added or changed near the start doesn't change the parts after it."""
    before, nodes = cut(site()), list(site().nodes)
    changed = [*nodes[:place], nodes[place].model_copy(update={"maintenance": "fan"}), *nodes[place + 1 :]]
    more = [*nodes[:place], nodes[place].model_copy(update={"name": "new"}), *nodes[place:]]
    for rows in (changed, more, nodes[:place] + nodes[place + 1 :]):
        after = cut(site().model_copy(update={"nodes": tuple(rows)}))
        assert 1 <= len(after.parts.keys() - before.parts.keys()) <= 2


def test_rows_without_boundary_are_cut_at_maximum_size() -> None:
    """The contents may have no place to cut."""
    same = site().nodes[0].model_copy(update={"host": "h" * 100})
    made = cut(site().model_copy(update={"nodes": (same,) * 3000}))
    assert max(len(made.parts[digest]) for digest in made.document["nodes"]["parts"]) <= LARGEST
    assert LARGEST > 2 * USUAL


def test_document_of_parts_reads_like_the_whole() -> None:
    """Rows that are known already aren't read again."""
    document, sent = with_parts(site())
    assert load_site(document, parts=sent) == load_site(site().model_dump(mode="json"))
    made = cut(site())
    sent.rows = {(table, digest): rows for digest, (table, rows) in made.parts.rows.items()}
    sent.read.clear()
    assert load_site(document, parts=sent) == site() and sent.read == []


def test_errors_in_parts_have_the_number_of_their_row() -> None:
    """The row's number in the whole table. Errors of the head are reported too, and further ones are counted."""
    document, sent = with_parts(site())
    parts = document["nodes"]["parts"]
    rows = [json.loads(sent.parts[digest]) for digest in parts]
    *_, near, far = (
        n for n, part in enumerate(rows) if len(part) > 3
    )  # the rows' text determines where the table is cut
    rows[near][0]["role"] = "boss"
    del rows[near][2]["name"]
    gpu = next(i for i, row in enumerate(rows[far]) if row["hcas"])
    rows[far][gpu]["hcas"][0]["guid"] = "x"
    first, second = (sum(map(len, rows[:n])) for n in (near, far))
    bodies = [json.dumps(part).encode() for part in rows]
    document["nodes"] = {"parts": [sha256(body).hexdigest() for body in bodies]}
    document["clouds"] = {}
    with pytest.raises(InputErrors) as caught:
        load_site(document, parts=Sent(*sent.parts.values(), *bodies))
    assert [e.field for e in caught.value.errors] == [
        "clouds",
        f"nodes[{first}].role",
        f"nodes[{first + 2}].name",
        f"nodes[{second + gpu}].hcas[0].guid",
    ]
    bomb = b"[" + b",".join([b"{}"] * 1000) + b"]"
    document["nodes"] = {"parts": [sha256(bomb).hexdigest()]}
    with pytest.raises(InputErrors) as caught:
        load_site(document, parts=Sent(*sent.parts.values(), bomb))
    assert len(caught.value.errors) <= 201 and caught.value.more >= 799


def test_whole_site_errors_are_the_same_with_parts() -> None:
    """Two nodes with the same name in different parts."""
    document, sent = with_parts(site())
    parts = document["nodes"]["parts"]
    last = json.loads(sent.parts[parts[-1]])
    last[-1]["name"] = site().nodes[0].name
    body = json.dumps(last).encode()
    document["nodes"]["parts"] = [*parts[:-1], sha256(body).hexdigest()]
    with pytest.raises(InputErrors, match=r"nodes\[803\].name: .* must be unique"):
        load_site(document, parts=Sent(*sent.parts.values(), body))


def test_null_in_a_part_is_the_fields_default() -> None:
    """As in a whole document."""
    document, sent = with_parts(site())
    rows = json.loads(sent.parts[document["nodes"]["parts"][0]])
    for row in rows:
        row["role"] = None if row["role"] == "compute" else row["role"]
    body = json.dumps(rows).encode()
    document["nodes"]["parts"][0] = sha256(body).hexdigest()
    assert load_site(document, parts=Sent(*sent.parts.values(), body)) == site()


def test_tables_of_adapters_may_be_in_parts() -> None:
    """As every table may."""
    document = site(16).model_dump(mode="json")
    rows = [{**hca, "node": node["name"]} for node in document["nodes"] for hca in node.pop("hcas")]
    body = json.dumps(rows).encode()
    document["hcas"] = {"parts": [sha256(body).hexdigest()]}
    assert load_site(document, parts=Sent(body)) == site(16)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"parts": []},
        {"parts": "x"},
        {"parts": ["x"]},
        {"parts": ["A" * 64]},
        {"parts": ["a" * 64], "csv": "f"},
    ],
)
def test_invalid_part_lists_are_refused(value: dict[str, object]) -> None:
    """One sentence with the place."""
    with pytest.raises(InputErrors) as caught:
        load_site({**site(16).model_dump(mode="json"), "nodes": value}, parts=Sent())
    assert caught.value.field.startswith("nodes")


def test_part_named_twice_is_refused_before_it_is_read() -> None:
    """Ten thousand times the same part would make a site of gigabytes."""
    document, sent = with_parts(site())
    document["nodes"]["parts"] *= 2
    with pytest.raises(InputError, match="each part once"):
        load_site(document, parts=sent)
    assert sent.read == []


def test_missing_part_is_reported() -> None:
    """Never sent, or removed between the check and the reading."""
    document, sent = with_parts(site())
    gone = document["nodes"]["parts"][-1]
    body = sent.parts.pop(gone)
    with pytest.raises(ConflictError, match="1 of the document's parts are not stored"):
        load_site(document, parts=sent)
    assert sent.read == []
    sent.parts[gone] = body
    sent.weigh = lambda digests: (sent.parts.pop(gone) and len(digests), 0)  # type: ignore[method-assign]
    with pytest.raises(ConflictError, match="are not stored"):
        load_site(document, parts=sent)


def test_rows_with_shared_values_equal_the_originals() -> None:
    """Sharing equal values changes no row, also not rows in use."""
    whole = Site.model_validate(site(40).model_dump(mode="json"))
    lean(whole.nodes, {})
    assert whole == site(40) and whole.model_dump_json() == site(40).model_dump_json()
    assert len({id(n.accelerators) for n in whole.nodes if n.accelerators}) == len(
        {n.accelerators for n in whole.nodes if n.accelerators}
    )
    copy = whole.nodes[0].model_copy(update={"maintenance": "fan"})
    assert whole.nodes[0].maintenance is None and copy.maintenance == "fan"
