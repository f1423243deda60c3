"""The owner of an external object: by its id first, by its mark only if no id is known.

Tenants can write marks. So a mark only counts if it says what weft itself would have written: a pod and a key that the
database knows, of that kind, in that place, in that pod's project. If the row's own id is known, or it was never
requested, nothing else can be weft's: only a lost answer leaves a resource that no row knows. In that case the resource
was created by weft's user (where the service reports the user) or has the name that weft gives (where it doesn't), and
appeared while that request could take effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from weft.engine.base.database import Row, Tx
from weft.engine.proof.departure import CLOCKS
from weft.engine.rows.records import RowState
from weft.model.ids import uuid_of
from weft.model.kindrow import Home
from weft.model.owner import Owner
from weft.model.resources import Marked
from weft.model.spaces import SEGMENT

LANDS = timedelta(days=1)
"""How long after its owner's release a request may take effect that was never answered, or that was sent by a worker
that had been suspended."""


class Claim(Enum):
    """Kinds of resources with weft's mark, by whose they are."""

    OWNED = "owned"
    """It belongs to a live pod, also while it is created or deleted: the loop takes care of it."""
    LEFT = "left"
    """It belongs to a RELEASED pod: weft's own, and the receipt said that it was gone."""
    SECOND = "second"
    """A live pod has another one under this key: the result of a lost answer."""
    UNKNOWN_POD = "unknown pod"
    """The database doesn't know the pod: a stray, or the database was restored from an older dump."""
    COPIED = "copied"
    """The mark says what weft would not have written there: someone else wrote it."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """What is known of a resource.

    Attributes:
        owner: its owner, or the one that its mark names.
        name: the owner's name, if the database knows it.
        why: the end of a sentence, for people.
        by_mark: no row has its id.
    """

    claim: Claim
    owner: Owner | None
    name: str | None
    why: str
    by_mark: bool = False


class Owners:
    """Answers from one reading of the database; `read` must come after the resources were listed."""

    def __init__(
        self,
        rows: Iterable[Row],
        owners: Iterable[Row],
        held: Iterable[Row],
        adopted: Iterable[Row],
        listed_at: datetime,
        accepted: datetime | None = None,
    ) -> None:
        self._by_id: dict[tuple[str, str], list[Row]] = {}
        self._by_key: dict[tuple[Owner, str], Row] = {}
        self._owners = {_owner(o): o for o in owners}
        self._held = {(r["space"], r["number"]) for r in held}
        self._adopted = {(r["place"], r["outside_id"]): r for r in adopted}
        self._listed_at, self._accepted = listed_at, accepted
        self._with_rows: set[Owner] = set()
        self._there: dict[tuple[Owner, str, str], list[Row]] = {}
        for row in rows:
            self._with_rows.add(_owner_of(row))
            self._by_key[_owner_of(row), row["key"]] = row
            self._there.setdefault((_owner_of(row), row["kind"], row["place"]), []).append(row)
            if row["outside_id"]:
                self._by_id.setdefault((row["kind"], row["outside_id"]), []).append(row)

    @classmethod
    def read(cls, tx: Tx, things: Sequence[Marked], listed_at: datetime) -> Owners:
        """Read the database.

        Args:
            listed_at: a moment before the listing began, which may still show what was released after it.
        """
        named = sorted({i for t in things if t.owner and (i := uuid_of(t.owner.id))}, key=str)
        ids = sorted({t.id for t in things})
        rows = tx.rows("owners_of", ids=ids, owners=named)
        owners, held = tx.rows("known_owners", owners=named), tx.rows("number_holds")
        row = tx.row("accepted")  # a restored database
        at: datetime | None = row["at"] if row else None
        return cls(rows, owners, held, tx.rows("things_to_adopt", ids=ids), listed_at, at)

    def of(self, thing: Marked) -> Ownership:
        """Which owner an object belongs to, and why; none if neither its id nor its mark names one."""
        if (row := self._adopted.get((thing.where, thing.id))) is not None:
            # Its mark, and its former owner, no longer count; the first visit of its owner rewrites the mark.
            why = f"{_named(row)} adopts it as {row['key']}"
            return Ownership(Claim.OWNED, _owner_of(row), row["name"], why)
        if thing.kind.row.home is Home.FABRIC:
            return self._of_segment(thing)
        if thing.kind.row.home is Home.MACHINES:
            return self._of_machine(thing)
        known = self._by_id.get((thing.kind, thing.id))
        if known:
            # A name that is an id (a key pair's) may have been used twice: a live owner comes first.
            row = min(known, key=lambda r: r["owner_state"] == "RELEASED")
            return self._of_row(row, "its id is known as that of")
        marked = self._owners.get(thing.owner) if thing.owner else None
        if thing.owner is None or marked is None:
            return self._unknown(thing)
        row = self._by_key.get((thing.owner, str(thing.facts.get("key"))))
        wrong = "has nothing of that key" if row is None else _unlike(row, thing)
        if self._is_forgotten(thing.owner):
            why = f"it carries the mark of {_named(marked)}, which {_released(marked)}: its rows are no longer kept"
            return Ownership(Claim.COPIED, thing.owner, marked["name"], why)
        former = row is not None and thing.id in {f["id"] for f in row["former"]}
        if row is not None and not wrong and not former:
            wrong = _never_made(row, thing)
        if row is None or wrong:
            why = f"it carries the mark of {_named(marked)}, which {wrong}: weft did not write it there"
            return Ownership(Claim.COPIED, thing.owner, marked["name"], why)
        if row["owner_state"] != "RELEASED" and row["outside_id"] and row["state"] == RowState.SETTLED:
            why = f"it carries the mark of {row['key']} of {_named(row)}, whose own is {row['outside_id']}"
            return Ownership(Claim.SECOND, thing.owner, row["name"], why)
        return replace(self._of_row(row, "it carries the mark of"), by_mark=True)

    def _of_segment(self, thing: Marked) -> Ownership:
        """Pods have a number in turn: the fabric's mark says whose it was, the holds say whose it is now."""
        had = [r for r in self._by_id.get((thing.kind, thing.id), []) if r["place"] == thing.where]
        if thing.owner is not None:
            mine = [r for r in had if _owner_of(r) == thing.owner] or self._of_pod(thing)
            return self._of_row(mine[0], "it carries the mark of") if mine else self._unknown(thing)
        if (SEGMENT + thing.where, thing.facts.get("number")) in self._held:
            return Ownership(Claim.OWNED, None, None, "a pod holds its number")
        if not had:
            why = "no segment explains it, and the database knows no pod that had it"
            return Ownership(Claim.UNKNOWN_POD, None, None, why)
        last = max(had, key=lambda r: (r["owner_state"] != "RELEASED", r["released_at"]))
        released = last["released_at"]
        if last["owner_state"] == "RELEASED" and (others := _others_in(last, thing)):
            why = f"{_named(last)} had it, which {_released(last)}, and never these members: {', '.join(others[:3])}"
            return Ownership(Claim.UNKNOWN_POD, None, None, why)
        if self._accepted is not None and released is not None and released < self._accepted:
            # It may have been assigned since to a pod that the database doesn't know.
            why = f"{_named(last)} had it, which {_released(last)}, before the restored database was accepted"
            return Ownership(Claim.UNKNOWN_POD, None, None, why)
        return self._of_row(last, "no segment explains it; it was last")

    def _is_forgotten(self, owner: Owner) -> bool:
        """Whether it was released so long ago that its rows were removed (`weft.engine.watch.retention`)."""
        known = self._owners.get(owner)
        return known is not None and known["state"] == "RELEASED" and owner not in self._with_rows

    def _of_machine(self, thing: Marked) -> Ownership:
        """Its id is the machine's, which many pods have in turn: the binding says whose it is."""
        mine = [r for r in self._of_pod(thing) if r["key"].rpartition("/")[2] == thing.id]
        return self._of_row(mine[0], "it is bound to a controller as") if mine else self._unknown(thing)

    def _of_pod(self, thing: Marked) -> list[Row]:
        """Rows of the owner named by the mark that may describe this resource, those with its id first."""
        rows = self._there.get((thing.owner, thing.kind, thing.where), []) if thing.owner else []
        fitting = [r for r in rows if r["outside_id"] == thing.id or not r["outside_id"]]
        return sorted(fitting, key=lambda r: r["outside_id"] != thing.id)

    def _unknown(self, thing: Marked) -> Ownership:
        """Ownership by the mark of a segment or a machine, which only weft writes."""
        known = self._owners.get(thing.owner) if thing.owner else None
        if known is not None and thing.owner is not None and self._is_forgotten(thing.owner):
            why = f"it carries the mark of {_named(known)}, which {_released(known)}"
            return Ownership(Claim.LEFT, thing.owner, known["name"], why)
        if known is not None:
            why = f"it carries the mark of {_named(known)}, which never had it"
            return Ownership(Claim.COPIED, thing.owner, known["name"], why)
        why = f"it carries the mark of {thing.owner}, which the database doesn't know"
        return Ownership(Claim.UNKNOWN_POD, thing.owner, None, why)

    def _of_row(self, row: Row, how: str) -> Ownership:
        owner, name = _owner_of(row), row["name"]
        text = f"{how} {row['key']} of {_named(row)}"
        if row["owner_state"] != "RELEASED" or row["released_at"] >= self._listed_at:
            return Ownership(Claim.OWNED, owner, name, text)
        why = f"{text}, which {_released(row)}"
        return Ownership(Claim.LEFT, owner, name, why)


def _others_in(row: Row, thing: Marked) -> list[str]:
    """Members of an unmarked segment that the row never had, so that it isn't a remain of the row's owner."""
    had: set[str] = set()
    for member in row["members"] or ():
        had |= {member} if isinstance(member, str) else {member["port"], *member.get("behind", ())}
    found = thing.facts.get("members")
    return sorted(set(map(str, found)) - had) if isinstance(found, Sequence) else []


def _unlike(row: Row, thing: Marked) -> str:
    """How the row that a mark names differs from the resource with the mark; empty: it may be the one."""
    if row["kind"] != thing.kind:
        return f"has a {row['kind']} of that key"
    if row["place"] != thing.where:
        return f"has it in {row['place']}"
    if row["owner"] == "tenant" and thing.project_id not in (None, row["project_id"]):
        return "is another project's"
    return ""


def _never_made(row: Row, thing: Marked) -> str:
    """Why weft can't have created a resource whose id its row doesn't have; empty: it can."""
    released, answered = row["owner_state"] == "RELEASED", bool(row["outside_id"])
    if row["started_at"] is None:
        return "" if not released else "never asked for it"
    if answered and released and row["late_until"] is None and thing.ours is not True:
        return f"had {row['outside_id']} as its {row['key']}"
    if not answered and not released:
        return ""  # under construction: its loop finds it
    if thing.ours is False:
        return "never had it: another user made it"
    if thing.ours is None and thing.project_id is not None and thing.name != row["called"]:
        return f"names its {row['key']} {row['called']}"
    ends = _lands(row)
    late = ends is not None and thing.created is not None and thing.created > ends + CLOCKS
    if late or (thing.created is not None and thing.created < row["started_at"] - CLOCKS):
        return f"asked for its {row['key']} at another time"
    return ""


def _lands(row: Row) -> datetime | None:
    """Until when an unanswered request for it may take effect; None: without an end yet.

    A second request that weft doesn't know of (a proxy, or the client, sent the answered one twice) counts no longer
    than the resource itself was seen.
    """
    released, late = row["owner_state"] == "RELEASED", row["late_until"]
    if released and (late is not None or not row["outside_id"]):
        return row["released_at"] + LANDS
    seen: datetime | None = row["finished_at"]
    return max(seen, late) if seen is not None and late is not None else seen


def _owner(row: Row) -> Owner:
    """The owner in a row of `known_owners`."""
    return Owner(row["kind"], str(row["id"]))


def _owner_of(row: Row) -> Owner:
    """The owner in a row of `owners_of`."""
    return Owner(row["owner_kind"], str(row["owner_id"]))


def _released(row: Row) -> str:
    return f"was released at {row['released_at']:%Y-%m-%dT%H:%M:%SZ}"


def _named(row: Row) -> str:
    """An owner for people, from either kind of row."""
    return f"{row.get('owner_kind') or row['kind']} {row['name']}"
