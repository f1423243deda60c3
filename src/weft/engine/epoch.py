"""Whether this database knows all claims: one that was restored from a dump doesn't.

Claims of nodes are counted. Before anything is created for one, the count is noted in the cloud, which a restore of the
database doesn't revert. A database that is behind the note, or has a different life, places nothing until an operator
has reviewed and accepted the audit.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.engine.database import Database, Row
from weft.model.errors import ConflictError
from weft.ports.witness import Witness, Witnesses

RESTORED = (
    "weft's database is not the one that placed the last pods (it was restored from a dump, or is new): nothing is "
    "placed until an operator has reviewed and accepted the findings of `weft audit` (weft audit --accept)"
)


def check_epoch(database: Database, facts: Witnesses, site: str, cloud: str) -> None:
    """Raise `ConflictError` if the database doesn't know all claims; `UnknownError` if that can't be determined."""
    note = facts.witness(site)  # first: the note is always behind the count
    row = _epoch(database, cloud)
    if note is not None and (row is None or row["life"] != note.life or row["number"] < note.number):
        raise ConflictError(RESTORED)


def note_epoch(
    database: Database, facts: Witnesses, site: str, cloud: str, claims: Witness | None = None
) -> None:
    """Note the database's count. Raises like `check_epoch`, and what a change may raise.

    Args:
        claims: a count that was read since the claim that is to be known; if the note says the same, it is known.
    """
    note = facts.witness(site)
    if claims is not None and note == claims:
        return
    row = _epoch(database, cloud)
    if row is None:
        return  # claims from before they were counted
    if note is not None and (row["life"] != note.life or row["number"] < note.number):
        raise ConflictError(RESTORED)
    if note is None or note.number < row["number"]:
        facts.testify(site, Witness(row["life"], row["number"]))


def accept_database(database: Database, clouds: Mapping[str, Witnesses], site: str) -> None:
    """An operator has accepted: from now on this database's count is valid, and what waits is looked at again."""
    for cloud, facts in sorted(clouds.items()):
        _accept(database, facts, site, cloud)
    with database.transaction() as tx:
        tx.run("touch_queue", at=tx.now())


def _accept(database: Database, facts: Witnesses, site: str, cloud: str) -> None:
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
