"""Generations of the site: each a document whose long tables are parts, stored once for all generations that use them.

Uploads for a site that isn't active yet are also stored here: for a day, and within limits.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database, Row, Tx
from weft.engine.base.documents import is_changed, read, stamped, writes
from weft.engine.base.unreadable import READING, UnreadableError, unreadable
from weft.engine.rows.acceptance import follow_site
from weft.model.errors import ConflictError, NotFoundError, PreconditionError
from weft.model.messages import orders
from weft.model.site import Site
from weft.model.versions import FIELD, FIRST
from weft.planning.site.kinds import Kind, kinds_changed
from weft.planning.site.lean import Shared, lean
from weft.planning.site.parts import ROWS, Cut, Rows, cut, named, rows_of

log = logging.getLogger(__name__)

KEPT_FOR = timedelta(days=1)
"""How long a part that no generation uses is kept after it was last sent or asked about."""
MOST_LOOSE = 50_000
MOST_LOOSE_BYTES = 512 << 20
"""Most parts, and most bytes of parts, that may wait for a generation to use them."""
_PRUNED_AT_ONCE = 1000
_READ_AT_ONCE = 16
_Parts = dict[str, tuple[str, Rows]]


@dataclass(frozen=True)
class SiteRecord:
    """The active site."""

    generation: int
    site: Site
    activated_at: datetime
    activated_by: str

    @property
    def stamp(self) -> tuple[int, datetime]:
        """Equal only for the same document: after a restore of an older dump, a generation's number may be reused."""
        return self.generation, self.activated_at

    @cached_property
    def cut(self) -> Cut:
        """The site as it is stored, sent and shown."""
        return cut(self.site)


class Sites:
    """Reads and writes generations of the site and their parts over one `Database`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loading = threading.Lock()
        self._record: SiteRecord | None = None
        self._parts: _Parts = {}

    def current(self) -> SiteRecord:
        """The active site. Raises `NotFoundError` before the first `weft site activate`.

        For a new generation only the parts that the last one didn't have are read.
        """
        newest_row = self._database.row("current_site_generation")
        known = self._record
        if newest_row and known and _stamp(newest_row) == known.stamp:
            return known
        with self._loading, self._database.transaction() as tx:
            row = tx.row("current_site")
            if row is None:
                raise NotFoundError(orders.NO_SITE())
            if self._record is None or self._record.stamp != _stamp(row):
                self._record = self._load(tx, row)
            return self._record

    def apply(
        self,
        site: Site,
        by: str,
        base: int | None = None,
        check: Callable[[Tx, Site], None] | None = None,
    ) -> SiteRecord:
        """Activate a new generation; live pods keep the plan they were built with.

        Args:
            base: the generation that it is based on, 0 if there was none; None: whichever is active.
            check: raises what forbids it. No claim is made between the check and the new generation: claims hold the
                same lock, and detect by `Capacity.site` that the site they were planned with is no longer active.

        Raises `PreconditionError` if another one was activated meanwhile.
        """
        made = cut(site, self._parts)
        with self._database.placing() as tx:
            tx.run("lock_site")
            row = tx.row("current_site_generation")
            now = row["generation"] if row else 0
            if base is not None and base != now:
                raise PreconditionError(
                    f"generation {now} of the site is active, but the change is based on {base}: check it with `weft "
                    "site show`, update the file, and apply again"
                )
            if check is not None:
                check(tx, site)
            before = self._before(tx, row)
            # Parts have this version's shape: while the site is written in another one, all of it is in the document.
            whole = site.model_dump(mode="json") if is_changed(Site, writes()) else made.document
            document = Jsonb(stamped(Site, whole))
            row = tx.row("insert_site", name=site.name, document=document, at=tx.now(), by=by)
            assert row is not None
            generation: int = row["generation"]
            _name(tx, made, generation)
            if before is not None:
                _keep_kinds(tx, kinds_changed(before, site))
            if before is not None or not now:  # one that can't be read has no effect
                follow_site(tx, before, site)
            tx.run("touch_queue", at=tx.now())
        with self._loading:
            self._parts = {**self._parts, **made.parts.rows}
        record = self.current()
        if record.generation == generation:
            vars(record).setdefault("cut", made)  # of an equal site
        return record

    def _before(self, tx: Tx, newest_row: Row | None) -> Site | None:
        """The site of the active generation; None: there is none, or it can't be read."""
        if newest_row is None:
            return None
        with self._loading:
            known = self._record
            if known is not None and known.stamp == _stamp(newest_row):
                return known.site
            row = tx.row("current_site")
            assert row is not None, "the table is locked"
            try:
                return self._load(tx, row).site
            except UnreadableError as error:
                log.warning("hours of nodes count by the new site: %s", error)
                return None

    # -- parts --------------------------------------------------------------------------------------------------

    def missing(self, digests: Sequence[str]) -> list[str]:
        """Which of these parts aren't stored; the others are kept for `KEPT_FOR` from now."""
        self.prune()
        with self._database.transaction() as tx:
            rows = tx.rows("touch_site_parts", digests=list(digests), at=tx.now())
        there = {row["digest"] for row in rows}
        return [digest for digest in dict.fromkeys(digests) if digest not in there]

    def add(self, digest: str, body: bytes) -> None:
        """Keep a part for a generation that will use it. Raises `ConflictError` if too much waits already."""
        with self._database.transaction() as tx:
            waiting = tx.row("count_loose_parts")
            assert waiting is not None
            if waiting["parts"] >= MOST_LOOSE or waiting["bytes"] + len(body) > MOST_LOOSE_BYTES:
                raise ConflictError(
                    f"no space: {waiting['parts']} parts of sites that were never applied are stored; apply their "
                    "site, or wait: parts expire a day after they were last sent or asked about"
                )
            tx.run("insert_site_part", **_part(digest, body), generation=None, at=tx.now())

    def known(self, table: str, digest: str) -> Rows | None:
        """The rows of a part, if the active site has it in this table."""
        of, rows = self._parts.get(digest, ("", ()))
        return rows if of == table else None

    def weigh(self, digests: Collection[str]) -> tuple[int, int]:
        """How many of these parts are stored, and their bytes."""
        row = self._database.row("site_part_sizes", digests=list(digests))
        assert row is not None
        return row["parts"], row["bytes"]

    def bodies(self, digests: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Parts in this order, a few at a time; those that aren't stored are left out."""
        for some in _few(digests):
            with self._database.transaction() as tx:
                found = _bodies(tx, some)
            yield from ((digest, found[digest]) for digest in some if digest in found)

    def prune(self) -> int:
        """Remove some parts that no generation uses, or that weren't used within `KEPT_FOR`; returns how many."""
        with self._database.transaction() as tx:
            return tx.run("prune_site_parts", before=tx.now() - KEPT_FOR, limit=_PRUNED_AT_ONCE)

    # -- reading ------------------------------------------------------------------------------------------------

    def _load(self, tx: Tx, row: Row) -> SiteRecord:
        document: Mapping[str, Any] = row["document"]
        try:
            if not is_changed(Site, document.get(FIELD, FIRST)):
                site = self._compose(tx, document)
            else:  # rows of another version are upgraded within the whole document
                self._parts, site = {}, read(Site, _whole(tx, document))
        except READING as error:
            raise unreadable(f"generation {row['generation']} of the site", error) from error
        return SiteRecord(row["generation"], site, row["activated_at"], row["activated_by"])

    def _compose(self, tx: Tx, document: Mapping[str, Any]) -> Site:
        """The site; rows of known parts are reused, and equal values in the others are shared."""
        parts: _Parts = {}
        tables: dict[str, Rows] = {}
        shared: Shared = {}
        for table in ROWS:
            digests = named(document, table)
            if digests is None:
                continue
            fresh = [digest for digest in digests if self.known(table, digest) is None]
            found = {digest: rows for digest in digests if (rows := self.known(table, digest)) is not None}
            for some in _few(fresh):
                for digest, body in _bodies(tx, some).items():
                    found[digest] = rows_of(table, body)
                    lean(found[digest], shared)
            parts |= {digest: (table, found[digest]) for digest in digests}
            tables[table] = tuple(row for digest in digests for row in found[digest])
        head = {name: value for name, value in document.items() if name not in tables}
        site = read(Site, head)
        self._parts = parts
        return site.model_copy(update=tables)


def _stamp(row: Row) -> tuple[int, datetime]:
    return row["generation"], row["activated_at"]


def _whole(tx: Tx, document: Mapping[str, Any]) -> dict[str, Any]:
    """A document with the rows of its parts in it, as they are stored."""
    whole = dict(document)
    for table in ROWS:
        digests = named(document, table)
        if digests is not None:
            found = _bodies(tx, digests)
            whole[table] = [row for digest in digests for row in json.loads(found[digest])]
    return whole


def _name(tx: Tx, made: Cut, generation: int) -> None:
    """Bind the parts to the generation; those that aren't stored are written."""
    rows = tx.rows("name_site_parts", digests=list(made.parts), generation=generation)
    there = {row["digest"] for row in rows}
    for digest in sorted(made.parts.keys() - there):
        tx.run("insert_site_part", **_part(digest, made.parts[digest]), generation=generation, at=tx.now())


def _keep_kinds(tx: Tx, kinds: Mapping[str, Kind]) -> None:
    """Keep the accelerators that these nodes had, for the hours that were counted with them."""
    if not kinds:
        return
    given = {
        "nodes": list(kinds),
        "types": [type_ for type_, _ in kinds.values()],
        "counts": [count for _, count in kinds.values()],
    }
    tx.run("split_use", **given)
    tx.run("describe_use", **given)


def _few(digests: Sequence[str]) -> Iterator[Sequence[str]]:
    return (digests[i : i + _READ_AT_ONCE] for i in range(0, len(digests), _READ_AT_ONCE))


def _part(digest: str, body: bytes) -> dict[str, object]:
    return {"digest": digest, "body": body, "size": len(body)}


def _bodies(tx: Tx, digests: Collection[str]) -> dict[str, bytes]:
    rows = tx.rows("site_parts", digests=list(digests))
    return {row["digest"]: bytes(row["body"]) for row in rows}
