"""Whether this database has made the last claims: one that was restored from a dump doesn't know of all of them.

Each claim of nodes counts. Before anything is made outside for it the count is noted in the cloud, where a restore of
the database doesn't reach. A database that is behind the note, or whose life isn't the note's, places nothing until an
operator has looked at the audit and accepted it.
"""

from __future__ import annotations

from weft.engine.database import Database, Row
from weft.model.errors import ConflictError
from weft.ports.witness import Witness, Witnesses

RESTORED = (
    "weft's database is not the one that placed the last pods (it was restored from a dump, or is new): nothing is "
    "placed until an operator has reviewed and accepted the findings of `weft audit` (weft audit --accept)"
)


def check_epoch(database: Database, facts: Witnesses, site: str, cloud: str) -> None:
    """Raise `ConflictError` for a database that doesn't know of all claims; `UnknownError` if it can't be told."""
    note = facts.witness(site)  # first: what is noted was counted before
    row = _epoch(database, cloud)
    if note is not None and (row is None or row["life"] != note.life or row["number"] < note.number):
        raise ConflictError(RESTORED)


def note_epoch(database: Database, facts: Witnesses, site: str, cloud: str) -> None:
    """Note how far the database has come. Raises like `check_epoch`, and what a change may raise."""
    note, row = facts.witness(site), _epoch(database, cloud)
    if row is None:
        return  # what was claimed before claims were counted
    if note is not None and (row["life"] != note.life or row["number"] < note.number):
        raise ConflictError(RESTORED)
    if note is None or note.number < row["number"]:
        facts.testify(site, Witness(row["life"], row["number"]))


def accept_epoch(database: Database, facts: Witnesses, site: str, cloud: str) -> None:
    """An operator has looked: from now on this database's count is the one that holds."""
    note = facts.witness(site)
    row = _epoch(database, cloud)
    if note is None or (row and row["life"] == note.life and row["number"] >= note.number):
        return
    with database.transaction() as tx:
        new = tx.row("new_epoch", cloud=cloud, number=note.number + 1)
    assert new is not None
    facts.testify(site, Witness(new["life"], new["number"]))


def _epoch(database: Database, cloud: str) -> Row | None:
    with database.statement() as tx:
        return tx.row("epoch", cloud=cloud)
