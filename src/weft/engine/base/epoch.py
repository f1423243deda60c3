"""Whether this database knows everything that weft has done: one that was restored from a dump, or a standby that was
promoted without the last transactions, doesn't.

Claims, changes of orders, requested releases and quarantines are counted. The count is noted in the cloud, which a
restore of the database doesn't revert: for a claim and a release before anything is changed outside for it, for a
quarantine before it is written. Each note has a name of its own, which the database writes down before: a database that
doesn't have the name, or is behind the number, changes nothing outside until an operator has reviewed and accepted the
audit (`weft.engine.base.gate`). Nor does one that `weft restore` has filled, whatever the clouds remember.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.engine.base.database import Database
from weft.model.errors import ConflictError
from weft.ports.witness import Witness, Witnesses

RESTORED = (
    "weft's database is not the one that placed or released the last pods (it was restored from a dump, is a standby "
    "that lacks transactions, or is new): nothing is placed, changed or released until an operator has reviewed and "
    "accepted the findings of `weft audit` (weft audit --accept)"
)


def is_behind(
    database: Database,
    note: Witness | None,
    cloud: str,
    afresh: bool = True,
    again: Callable[[], Witness | None] | None = None,
) -> bool:
    """Whether the cloud remembers more than the database has, or an operator must accept a restored one.

    Args:
        note: what the cloud remembers, read before this.
        again: reads it once more if its name is unknown: meanwhile another process may have written the next one, and
            the database forgets names that are over.
        afresh: False: a name counts that this process has seen before in the database, on the same server.
    """
    return _standing(database, note, cloud, afresh, again)[0]


def _standing(
    database: Database,
    note: Witness | None,
    cloud: str,
    afresh: bool = True,
    again: Callable[[], Witness | None] | None = None,
) -> tuple[bool, int | None]:
    """As `is_behind`, with the database's count if it was read."""
    if note is None:
        return database.row("is_restored") is not None, None
    with database.statement() as tx:
        key = ("mark", cloud, note.life)
        if not afresh and key in tx.kept:
            return False, None
        row = tx.row("epoch_and_mark", cloud=cloud, mark=note.life)
        assert row is not None, "it always has one row"
        if row["known"]:
            tx.kept[key] = True
            return afresh and row["number"] < note.number, row["number"]
    newer = again() if again is not None else None
    if newer is None or newer.life == note.life:
        return True, row["number"]
    return _standing(database, newer, cloud, afresh)


def was_behind(database: Database, cloud: str) -> bool:
    """Whether some process has found it behind, and none has found otherwise since."""
    return database.row("was_behind", cloud=cloud) is not None


def note_behind(database: Database, cloud: str, behind: bool) -> None:
    """Record the result, for when the cloud can't be read."""
    if behind != was_behind(database, cloud):
        database.run("found_behind" if behind else "not_behind", cloud=cloud)


def check_epoch(database: Database, facts: Witnesses, site: str, cloud: str) -> None:
    """Raise `ConflictError` if the database doesn't know all claims; `UnknownError` if that can't be determined."""
    _check(database, facts, site, facts.witness(site), cloud)


def _check(
    database: Database, facts: Witnesses, site: str, note: Witness | None, cloud: str, afresh: bool = True
) -> int | None:
    """The database's count if it was read. Raises like `check_epoch`."""
    behind, count = _standing(database, note, cloud, afresh, again=lambda: facts.witness(site))
    if behind:
        database.gate.found_behind(cloud)
        raise ConflictError(RESTORED)
    return count


def note_epoch(
    database: Database, facts: Witnesses, site: str, cloud: str, claims: int | None = None
) -> Witness | None:
    """Note the database's count; returns what the cloud remembers now. Raises like `check_epoch`, and like a change.

    Args:
        claims: a count read after the claim that must be known; a note with at least that count is enough.
    """
    note = facts.witness(site)
    known = note is not None and claims is not None and note.number >= claims
    count = _check(database, facts, site, note, cloud, afresh=not known)
    if known:
        return note
    if count is None:
        count = counts(database).get(cloud)
    if count is None or (note is not None and note.number >= count):
        return note  # a count of None: the claim is older than the counting
    return _write(database, facts, site, cloud, note)


def _write(database: Database, facts: Witnesses, site: str, cloud: str, note: Witness | None) -> Witness:
    row = database.row("new_mark", cloud=cloud, noted=note.number if note else 0)
    assert row is not None, "something was counted there"
    new = Witness(row["mark"], row["number"])
    facts.testify(site, new)
    return new


def count_end(database: Database) -> None:
    """Count a quarantine that is about to be written."""
    database.row("count_end")


def accept_database(database: Database, clouds: Mapping[str, Witnesses], site: str) -> None:
    """Accept the database for an operator: from now on its count is valid, and what waits is due again."""
    for cloud, facts in sorted(clouds.items()):
        _accept(database, facts, site, cloud)
    with database.transaction() as tx:
        if tx.row("is_restored") is not None:
            tx.run("forget_node_tests", at=tx.now())
        tx.run("restored_is_accepted")
    database.gate.forget()
    with database.transaction() as tx:
        tx.run("touch_queue", at=tx.now())
        tx.run("touch_owners")


def _accept(database: Database, facts: Witnesses, site: str, cloud: str) -> None:
    note = facts.witness(site)
    if note is None or not is_behind(database, note, cloud, again=lambda: facts.witness(site)):
        return
    with database.transaction() as tx:
        tx.row("new_epoch", cloud=cloud, number=note.number + 1, at=tx.now())
        tx.run("not_behind", cloud=cloud)
        tx.run("forget_node_tests", at=tx.now())
    _write(database, facts, site, cloud, note)


def counts(database: Database) -> dict[str, int]:
    """Cloud -> the database's count there."""
    return {row["cloud"]: row["number"] for row in database.rows("epochs")}
