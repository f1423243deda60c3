"""A large site through the API: parts are sent once, generations share them; and errors on the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any

import httpx
import psycopg
import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from tests.engine.house import House, small_site
from tests.engine.timehouse import HandClock
from tests.helpers.statements import on_statements
from weft.api.app import create_app
from weft.app.worldkeeper import WorldKeeper
from weft.client import Client
from weft.engine.base import documents
from weft.engine.base.database import Database
from weft.engine.base.unreadable import UnreadableError
from weft.engine.rows import siteparts
from weft.engine.store.store import Store
from weft.model.errors import ConflictError, InputError, NotFoundError
from weft.model.order import Order
from weft.model.site import Node, Site
from weft.model.versions import Step
from weft.planning.site.check import canonical
from weft.planning.site.parts import Cut, cut
from weft.testing.callers import by, tokens
from weft.testing.keystone import FakeIdentity
from weft.testing.serving import served


def large(extra: int = 1500, **first: object) -> Site:
    """The small site with many service hosts. Args: first: values of the first of them."""
    site = small_site()
    more = [Node(name=f"host{n}", role="service", labels=("spare", f"batch{n // 7}")) for n in range(extra)]
    more[0] = more[0].model_copy(update=first)
    return canonical(site.model_copy(update={"nodes": (*site.nodes, *more)}))


class Counting:
    """Counts requests and their bytes by method and kind."""

    def __init__(self, app: Any) -> None:
        self.app, self.sent = app, list[list[Any]]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        entry = [scope["method"], scope["path"], 0]
        self.sent.append(entry)

        async def counted() -> Any:
            message = await receive()
            entry[2] += len(message.get("body", b""))
            return message

        await self.app(scope, counted, send)

    def take(self) -> list[tuple[str, str, int]]:
        found, self.sent = self.sent, []
        return [(method, path, size) for method, path, size in found]


@pytest.fixture
def door(house: House) -> Iterator[tuple[Counting, str]]:
    counting = Counting(create_app(house.service, FakeIdentity(tokens())))
    with served(counting) as url:
        yield counting, url


def client(url: str, who: str = "operator") -> Client:
    return Client(Session(auth=Token(url, by(who)["X-Auth-Token"])), url)


def applied(house: House, made: Cut, base: int | None = None) -> int:
    for digest in house.service.site.missing_parts(house.operator, list(made.parts)).missing:
        house.service.site.send_part(house.operator, digest, made.parts[digest])
    return house.service.site.activate(house.operator, dict(made.document), base).generation


def later(house: House, **span: float) -> HandClock:
    """The database's time, from now on moved by hand; at first by this."""
    clock = HandClock()
    clock.seconds = house.database.now().timestamp()
    clock.forward(**span)
    house.database.clock = clock.now
    return clock


def rows(house: House, query: str) -> list[Any]:
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        return connection.execute(query).fetchall()  # type: ignore[arg-type]


def test_only_changed_parts_are_sent(house: House, door: tuple[Counting, str]) -> None:
    """At first everything; for a change of one node one part; for no change no part."""
    counting, url = door
    api = client(url)
    made = cut(large())
    assert len(made.parts) >= 2
    api.site.activate(made.document, api.site.generation(), made.parts)
    sent = [path.rpartition("/")[2] for method, path, _ in counting.take() if method == "PUT"]
    assert sorted(sent) == sorted([*made.parts, "site"])
    assert house.store.site().site == large()
    changed = cut(large(maintenance="fan"))
    view = api.site.activate(changed.document, 2, changed.parts)
    assert view["generation"] == 3
    puts = [path for method, path, _ in counting.take() if method == "PUT"]
    assert len(puts) in (2, 3) and len(changed.parts.keys() - made.parts.keys()) == len(puts) - 1
    api.site.activate(changed.document, 3, changed.parts)
    assert [(method, path) for method, path, _ in counting.take()] == [
        ("POST", "/v1/site/parts/missing"),
        ("PUT", "/v1/site"),
    ]
    assert house.store.site().site == large(maintenance="fan")


def test_small_site_is_activated_by_one_request(house: House, door: tuple[Counting, str]) -> None:
    """No query and no upload comes before it."""
    counting, url = door
    made = cut(house.site)
    client(url).site.activate(made.document, 1, made.parts)
    assert [(method, path) for method, path, _ in counting.take()] == [("PUT", "/v1/site")]


def test_whole_document_is_still_available(house: House, door: tuple[Counting, str]) -> None:
    """The answer names the parts, and each can be asked for."""
    api = client(door[1])
    house.store.activate_site(large(), "test")
    assert "parts" in api.site.show()["document"]["nodes"]
    assert Site.model_validate(api.site.whole()["document"]) == large()
    with pytest.raises(NotFoundError, match="no such part"):
        api.site.weft.ask("GET", f"/v1/site/parts/{'0' * 64}")


@pytest.mark.parametrize("who", ["a-member", "a-admin", "system-reader", "roleless"])
def test_missing_right_prevents_reading(door: tuple[Counting, str], who: str) -> None:
    """Neither a part, a query nor a document."""
    counting, url = door
    body = b"[" + b'{"name":"x"},' * 20_000 + b"{}]"
    headers = {**by(who), "Content-Type": "application/json"}
    with httpx.Client(base_url=url, headers=headers, trust_env=False) as api:
        assert api.put(f"/v1/site/parts/{sha256(body).hexdigest()}", content=body).status_code == 403
        assert api.post("/v1/site/parts/missing", content=body).status_code == 403
        if who != "system-reader":
            assert api.get(f"/v1/site/parts/{'0' * 64}").status_code == 403
    assert all(size == 0 for _, _, size in counting.take())


BODIES = {
    "not a list": (b'{"a":1}', 400),
    "not objects": (b"[1]", 400),
    "not JSON": (b"[{]", 400),
    "not UTF-8": (b'[{"a":"\xff"}]', 400),
    "a name twice": (b'[{"a":1,"a":2}]', 400),
    "a NUL": (b'[{"a":"\\u0000"}]', 400),
    "no number": (b'[{"a":NaN}]', 400),
    "deep": (b'[{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}]", 400),
    "too long": (b'[{"a":"' + b"x" * (512 << 10) + b'"}]', 413),
    "too many values": (b"[" + b"{}," * 150_000 + b"{}]", 413),
}


@pytest.mark.parametrize("name", BODIES)
def test_invalid_part_is_not_stored(house: House, door: tuple[Counting, str], name: str) -> None:
    """Bad bodies under their correct digest; and a good one under another's."""
    body, status = BODIES[name]
    headers = {**by("operator"), "Content-Type": "application/json"}
    with httpx.Client(base_url=door[1], headers=headers, trust_env=False) as api:
        assert api.put(f"/v1/site/parts/{sha256(body).hexdigest()}", content=body).status_code == status
        good = b'[{"name":"x"}]'
        digest = sha256(good).hexdigest()
        for wrong in ("0" * 64, digest.upper(), digest[:-1], "..%2f" + digest, "x"):
            assert api.put(f"/v1/site/parts/{wrong}", content=good).status_code in (400, 404), wrong
        assert (
            api.put(
                f"/v1/site/parts/{digest}", content=good, headers={"Content-Type": "text/csv"}
            ).status_code
            == 415
        )
    assert rows(house, "SELECT * FROM site_part") == []


def test_document_with_missing_parts_is_refused(house: House) -> None:
    """409, and the active site stays; after the parts were sent the same document is taken."""
    made = cut(large())
    with pytest.raises(ConflictError, match=f"{len(made.parts)} of the document's parts are not stored"):
        house.service.site.activate(house.operator, dict(made.document))
    assert house.store.site().generation == 1
    assert applied(house, made) == 2


def test_pruned_parts_are_sent_again(house: House) -> None:
    """Parts that were sent and left for more than a day are gone, unless they were asked about meanwhile."""
    clock = later(house)
    made = cut(large())
    first, *others = made.parts
    for digest in (first, *others):
        house.service.site.send_part(house.operator, digest, made.parts[digest])
    clock.forward(hours=23)
    assert house.store.sites.missing([first]) == []
    clock.forward(hours=2)
    assert house.store.sites.missing(list(made.parts)) == others
    with pytest.raises(ConflictError, match="are not stored"):
        house.service.site.activate(house.operator, dict(made.document))
    assert applied(house, made) == 2


def test_parts_live_as_long_as_their_generations(house: House) -> None:
    """A part is stored once; it is removed when no kept generation uses it, but not while it is new."""
    old, new = cut(large()), cut(large(maintenance="fan"))
    applied(house, old)
    applied(house, new)
    stored = {row[0] for row in rows(house, "SELECT digest FROM site_part")}
    assert stored == old.parts.keys() | new.parts.keys()
    later(house, days=2)
    assert house.store.sites.prune() == 0
    rows(house, "DELETE FROM site WHERE generation < 3 RETURNING 1")
    assert house.store.sites.prune() == len(old.parts.keys() - new.parts.keys())
    assert {row[0] for row in rows(house, "SELECT digest FROM site_part")} == new.parts.keys()
    assert Store(house.database).site().site == large(maintenance="fan")


def test_returning_to_an_older_site_keeps_its_parts(house: House) -> None:
    """Parts of generations 2 and 4 stay when 2 and 3 are removed."""
    old, new = cut(large()), cut(large(maintenance="fan"))
    for made in (old, new, old):
        applied(house, made)
    later(house, days=2)
    rows(house, "DELETE FROM site WHERE generation < 4 RETURNING 1")
    house.store.sites.prune()
    assert {row[0] for row in rows(house, "SELECT digest FROM site_part")} == old.parts.keys()


def test_other_process_reads_only_changed_parts(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other rows are the same objects as before."""
    applied(house, cut(large()))
    other = Store(house.database)
    before = other.site().site
    read: list[str] = []
    parse = siteparts.rows_of
    monkeypatch.setattr(siteparts, "rows_of", lambda table, body: read.append(table) or parse(table, body))
    new = cut(large(maintenance="fan"))
    applied(house, new)
    after = other.site().site
    assert after == large(maintenance="fan") and 1 <= len(read) <= 2
    assert after.nodes[-1] is before.nodes[-1]


def test_number_of_a_generation_used_again_is_read_again(house: House) -> None:
    """An older dump was restored, and another site activated: the number is the same, the document is another."""
    applied(house, cut(large()))
    before, keeper = house.store.site(), WorldKeeper(house.store, lambda _: replace(house.world))
    world = keeper.world()
    rows(house, "DELETE FROM site WHERE generation = 2 RETURNING 1")
    rows(house, "SELECT setval(pg_get_serial_sequence('site', 'generation'), 1)")
    later(house, days=1)
    Store(house.database).activate_site(large(maintenance="fan"), "test")
    after = house.store.site()
    assert after.generation == before.generation and after.site == large(maintenance="fan") != before.site
    assert keeper.world() is not world and keeper.world() is keeper.world()


def test_worker_visits_with_the_other_site_once_a_number_is_used_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker keeps drivers and site from visit to visit."""
    pod, read, site = house.ready(), list[Site](), WorldKeeper.site
    monkeypatch.setattr(WorldKeeper, "site", lambda keeper: read.append(found := site(keeper)) or found)
    house.worker = house.new_worker("other")

    def visit() -> None:
        house.store.wake(pod.id)
        house.worker.run_once()

    house.store.activate_site(large(10), "test")
    visit()
    visit()
    assert read == [large(10)]
    rows(house, "DELETE FROM site WHERE generation = 2 RETURNING 1")
    rows(house, "SELECT setval(pg_get_serial_sequence('site', 'generation'), 1)")
    later(house, days=1)
    Store(house.database).activate_site(large(11), "test")
    visit()
    assert read[1:] == [large(11)]


def test_generation_without_its_part_is_unreadable(house: House) -> None:
    """A row was deleted: weft doesn't go on with the rest."""
    applied(house, cut(large()))
    rows(house, "DELETE FROM site_part WHERE digest = (SELECT min(digest) FROM site_part) RETURNING 1")
    with pytest.raises(UnreadableError, match="generation 2 of the site"):
        Store(house.database).site()


def test_unfinished_uploads_are_bounded(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the bound no part is accepted until waiting ones are a day old; parts of a stored site don't count."""
    applied(house, cut(large()))
    monkeypatch.setattr(siteparts, "MOST_LOOSE", 2)
    for n in range(2):
        body = b'[{"name":"x%d"}]' % n
        house.service.site.send_part(house.operator, sha256(body).hexdigest(), body)
    body = b'[{"name":"last"}]'
    digest = sha256(body).hexdigest()
    with pytest.raises(ConflictError, match="no space: 2 parts"):
        house.service.site.send_part(house.operator, digest, body)
    assert (
        "ConflictError" in rows(house, "SELECT outcome FROM audit_log ORDER BY sequence DESC LIMIT 1")[0][0]
    )
    later(house, days=2)
    assert house.store.sites.missing([digest]) == [digest]
    assert house.service.site.send_part(house.operator, digest, body).bytes == len(body)
    monkeypatch.setattr(siteparts, "MOST_LOOSE_BYTES", len(body))
    with pytest.raises(ConflictError, match="no space"):
        house.service.site.send_part(house.operator, sha256(body + b" ").hexdigest(), body + b" ")


def test_second_of_two_concurrent_applies_is_refused(house: House, database_url: str) -> None:
    """Both send the same parts and more; one is active, the other is refused, and no part of either is lost."""
    sites = [cut(large(maintenance=f"fan {n}")) for n in range(4)]
    databases = [Database(database_url) for _ in sites]
    outcomes: list[object] = []
    start = threading.Barrier(len(sites))

    def one(number: int) -> None:
        store, made = Store(databases[number]), sites[number]
        start.wait()
        for digest in store.sites.missing(list(made.parts)):
            store.sites.add(digest, made.parts[digest])
        try:
            outcomes.append(
                store.activate_site(large(maintenance=f"fan {number}"), f"{number}", 1).generation
            )
        except ConflictError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(len(sites))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(str(o) for o in outcomes if isinstance(o, int)) == ["2"] and len(outcomes) == 4
    winner = int(house.store.site().activated_by)
    assert house.store.site().site == large(maintenance=f"fan {winner}")
    for made in sites:
        assert house.store.sites.missing(list(made.parts)) == []
    for one_database in databases:
        one_database.close()


def test_killed_apply_leaves_nothing(house: House) -> None:
    """While the parts are bound to the generation: neither is stored, and the next try works as the first."""
    made = cut(large())
    half = list(made.parts)[: len(made.parts) // 2]
    for digest in half:
        house.service.site.send_part(house.operator, digest, made.parts[digest])

    def die(name: str, _: object) -> None:
        if name == "name_site_parts":
            raise KeyboardInterrupt

    with on_statements(house.database) as database:
        database.after = die
        with pytest.raises(KeyboardInterrupt):
            Store(database).activate_site(large(), "test")
    assert Store(house.database).site().generation == 1
    assert house.service.site.missing_parts(house.operator, list(made.parts)).missing == tuple(
        d for d in made.parts if d not in half
    )
    assert applied(house, made) > 1 and Store(house.database).site().site == large()


def test_older_document_in_one_piece_is_read(house: House) -> None:
    """A row from before parts: the whole site in its document, however long."""
    whole = large().model_dump_json()
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO site (name, document, activated_at, activated_by) VALUES ('lab', %s, now(), 'old')",
            [whole],
        )
    assert house.store.site().site == large()
    assert applied(house, cut(large())) == 3


def test_older_document_with_parts_is_read(house: House) -> None:
    """Its rows are upgraded with the whole document, and the next generation has today's version."""
    applied(house, cut(large()))
    rows(house, "UPDATE site SET document = document - 'version' WHERE generation = 2 RETURNING 1")
    store = Store(house.database)
    assert store.site().site == large()
    store.activate_site(large(maintenance="fan"), "test")
    assert Store(house.database).site().site == large(maintenance="fan")


def test_site_is_stored_in_canonical_form(house: House) -> None:
    """Rows in any order, and other cuts: the canonical site is stored, with the usual digests of its parts."""
    made = cut(large())
    turned = made.document | {"nodes": [n.model_dump(mode="json") for n in reversed(large().nodes)]}
    house.service.site.activate(house.operator, turned)
    assert house.service.site.missing_parts(house.operator, list(made.parts)).missing == ()
    assert house.service.site.show(house.operator).document == made.document


def test_parts_of_a_refused_site_stay_for_the_next_try(house: House) -> None:
    """The errors are those of the document; only what is corrected is sent again."""
    made = cut(large(name="host1"))
    with pytest.raises(InputError, match="must be unique"):
        applied(house, made)
    assert house.store.site().generation == 1
    right = cut(large())
    assert len(house.service.site.missing_parts(house.operator, list(right.parts)).missing) <= 2


def test_site_is_whole_while_its_shape_is_an_earlier_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The previous version reads rows as it knows them; parts have this version's shape, and their digests."""

    def renamed(site: dict[str, Any], old: str, new: str) -> dict[str, Any]:
        nodes = [{new if f == old else f: value for f, value in row.items()} for row in site["nodes"]]
        return {**site, "nodes": nodes}

    step = Step(
        "nodes are named, not called",
        {Site: lambda site: renamed(site, "called", "name")},
        {Site: lambda site: renamed(site, "name", "called")},
    )
    steps = (*documents.STEPS, step)
    monkeypatch.setattr(documents, "STEPS", steps)
    monkeypatch.setattr(documents.read, "__defaults__", (steps,))
    site = large()
    try:
        documents.write_version(documents.latest() - 1)
        house.store.activate_site(site, "test")
        stored = stored_site(house)
        assert stored["version"] == documents.latest() - 1 and stored["nodes"][0]["called"]
        assert Store(house.database).site().site == site
        documents.write_version(documents.latest())
        house.store.activate_site(site, "test")
        assert stored_site(house)["nodes"].keys() == {"parts"}
        assert Store(house.database).site().site == site
    finally:
        documents.write_version(documents.EARLIEST)


def test_parts_of_a_site_are_read_alone_if_its_shape_is_the_same(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new version of other documents doesn't make each change of a large site as slow as the first one."""
    house.store.activate_site(large(), "test")
    steps = (*documents.STEPS, Step("orders only", {Order: dict}, {Order: dict}))
    monkeypatch.setattr(documents, "STEPS", steps)
    monkeypatch.setattr(documents.read, "__defaults__", (steps,))
    monkeypatch.setattr(siteparts, "_whole", lambda *_: pytest.fail("all of it is read"))
    assert Store(house.database).site().site == canonical(large())


def stored_site(house: House) -> dict[str, Any]:
    """The active site as it is stored."""
    with psycopg.connect(house.database.url) as connection:
        row = connection.execute("SELECT document FROM site ORDER BY generation DESC LIMIT 1").fetchone()
    assert row is not None
    return row[0]
