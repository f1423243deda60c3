"""Nodes of pods that fail, what came of it, and the site's limits on replacing them without a request.

What fails follows from what was observed (`weft.engine.nodes.hostwatch`) or reported, each time: a host that is up
again fails no longer, and neither does one that wasn't read for a while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database, Tx
from weft.engine.base.documents import message_json, message_text
from weft.engine.nodes.failingchecks import failing_checks
from weft.engine.nodes.hostwatch import GAP
from weft.engine.rows.events import announce, insert_event
from weft.engine.rows.records import PodRecord
from weft.model.errors import ConflictError
from weft.model.ids import span
from weft.model.messages import nodes, repairs
from weft.model.messages.message import Code, Message
from weft.model.pod import Aspect, Phase, is_true
from weft.model.site import Site

HELD = timedelta(minutes=5)
"""How long a failure is left to the turn that handles it, which may have died."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(minutes=10)
"""Pauses between two attempts; each is twice as long as the one before."""
HOUR = timedelta(hours=1)
RESET_LASTS = timedelta(hours=1)
"""Longest time that a server gets to run again after its reset: as long as one in an error, but not longer."""
KEPT = timedelta(days=1)
"""How long replacements are remembered for the limits: one that is stuck counts for so long."""

_CAUSES: Mapping[str, Code] = {
    "host": nodes.HOST_DOWN,
    "server": repairs.SERVER_BROKEN,
    "adapter": repairs.ADAPTER_GONE,
    "check": repairs.CHECK_FAILED,
    "report": repairs.REPORTED_BY_PROJECT,
    "drain": repairs.DRAINED_BY_THEN,
}
"""Kind -> code of its message, which has the time since when."""
_BY_TENANTS = frozenset({"server", "adapter", "check", "report"})
"""Kinds that a project can bring about: its limit of replaced nodes counts."""
_NEWS = frozenset({"server", "adapter"})
"""Kinds whose events are written here; those of others are written where they are observed or done."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A node of a pod that fails, or is to be emptied.

    Attributes:
        what: which check failed, if that is its kind.
        tried: attempts to replace it, including the one under way.
        why: of the last attempt: why it wasn't replaced; empty: there was none.
    """

    pod_id: UUID
    node: str
    kind: str
    since: datetime
    what: str
    tried: int
    why: str

    @property
    def cause(self) -> Message:
        """Why the node counts as failed."""
        return cause_of(self.kind, self.since, self.what)

    @property
    def by_tenant(self) -> bool:
        """Whether the pod's project can bring it about."""
        return self.kind in _BY_TENANTS

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong with the node: it need not be accepted after its replacement."""
        return self.kind == "drain"

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Failure:
        """From a row."""
        why = message_text(row["why"])
        return cls(row["pod_id"], row["node"], row["kind"], row["since"], row["what"], row["tried"], why)


def cause_of(kind: str, since: datetime, what: str = "") -> Message:
    """The message about a kind of failure. Args: what: which check failed, if that is its kind."""
    return _CAUSES[kind](since=since, **({"check": what} if kind == "check" else {}))


def refresh_failures(database: Database, site: Site) -> None:
    """Write which nodes of pods fail now, with an event of the pod and an entry in the node's history for new ones."""
    with database.transaction() as tx:
        tx.run("lock_failures")
        now = tx.now()
        for row in tx.rows("refresh_failures", at=now, **_values(tx, site)):
            if row["new"] and row["kind"] in _NEWS:
                _report(tx, row["pod_id"], row["node"], cause_of(row["kind"], row["since"], row["what"]))
        tx.run("forget_own_replacements", before=now - KEPT)


def _values(tx: Tx, site: Site) -> dict[str, Any]:
    """Parameters that separate failures from what doesn't last, or isn't known."""
    limits = site.repair
    return {
        "checks": Jsonb(failing_checks(tx, site)),
        "gap": GAP,
        "server_broken": span(limits.server_broken),
        "adapter_gone": span(limits.adapter_gone),
    }


def _report(tx: Tx, pod_id: UUID, node: str, cause: Message) -> None:
    said = repairs.NODE_FAILS(node=node, cause=cause)
    announce(tx, pod_id, "node", said)
    if cause.code == repairs.ADAPTER_GONE.name:  # a broken server's entry is written with its row
        tx.run("note_failure", pod_id=pod_id, node=node, at=tx.now(), message=message_json(cause))


def claim_failure(database: Database) -> Failure | None:
    """A failure that is due, claimed for `HELD`; None if there is none."""
    with database.transaction() as tx:
        row = tx.row("claim_failure", at=tx.now(), until=tx.now() + HELD)
    return None if row is None else Failure.of(row)


def note_not_replaced(database: Database, failure: Failure, why: str) -> None:
    """Write why a node wasn't replaced, with an event of its pod if that is news, and when it is tried again."""
    pause = min(FIRST_PAUSE * 2 ** min(failure.tried - 1, 10), LONGEST_PAUSE)
    with database.transaction() as tx:
        now = tx.now()
        where = {"pod_id": failure.pod_id, "node": failure.node}
        known = tx.row("note_not_replaced", next_at=now + pause, why=message_json(why), **where)
        if known is None or _code(failure.why) == _code(why):
            return
        said = repairs.REPLACEMENT_WAITS(node=failure.node, cause=failure.cause, why=why)
        announce(tx, failure.pod_id, "alarm", said)


def _code(why: str) -> str:
    return why.code if isinstance(why, Message) and why.code else why


def check_standing(tx: Tx, pod: PodRecord) -> None:
    """Raise `ConflictError` unless a pod is in a state in which weft changes it without a request: it serves, isn't
    being changed by others, and its lease continues."""
    if pod.wanted == "absent" or pod.phase is not Phase.SERVING or is_true(pod.conditions, Aspect.FAILED):
        raise ConflictError(repairs.POD_NOT_SERVING(state=str(pod.state)))
    # Of several nodes that fail, each is replaced while the places of earlier ones are still being taken.
    own = tx.row("is_own_replacement", pod_id=pod.id, generation=pod.generation)
    if pod.changed_at is not None and own is None:
        raise ConflictError(repairs.POD_IS_CHANGED())
    if pod.lease_end is not None and pod.lease_end <= tx.now():
        raise ConflictError(repairs.LEASE_IS_OVER(end=pod.lease_end))


def check_limits(tx: Tx, site: Site, project: str, by_tenant: bool, shared: bool) -> None:
    """Raise `ConflictError` if weft has replaced, or is replacing, as many nodes as the site allows without a request.

    In the transaction that writes the next one, under the lock of claims: no other one comes between.

    Args:
        by_tenant: the project can bring the failure about: half of the site's limits is left to others.
        shared: its node is: it isn't held afterwards, so that the limit of nodes that aren't accepted bounds nothing.
    """
    limits = site.repair
    if limits.at_once == 0 or limits.per_hour == 0:
        raise ConflictError(repairs.REPLACES_NOTHING())
    since, half = tx.now() - HOUR, (limits.at_once + 1) // 2
    times = {"since": since, "kept": tx.now() - KEPT}
    (row,) = tx.rows("count_own_replacements", most_stuck=half, project_id=project, **times)
    if row["under_way"] >= limits.at_once:
        raise ConflictError(repairs.TOO_MANY_UNDER_WAY(number=row["under_way"], most=limits.at_once))
    if row["in_an_hour"] >= limits.per_hour:
        raise ConflictError(repairs.TOO_MANY_IN_AN_HOUR(number=row["in_an_hour"], most=limits.per_hour))
    shares = ((row["projects_under_way"], limits.at_once), (row["projects_in_an_hour"], limits.per_hour))
    for number, most in shares if by_tenant else ():
        if number >= (most + 1) // 2:
            raise ConflictError(repairs.TOO_MANY_OF_PROJECT(number=number, most=(most + 1) // 2))
    if by_tenant and shared and (number := row["projects_on_shared"]) >= limits.unaccepted:
        raise ConflictError(repairs.TOO_MANY_IN_A_DAY(number=number, most=limits.unaccepted))


def check_failing(tx: Tx, failure: Failure, site: Site) -> None:
    """Raise `ConflictError` unless it still fails in the same way, and its pod's order asks for a replacement."""
    row = tx.row("failing_now", at=tx.now(), pod_id=failure.pod_id, node=failure.node, **_values(tx, site))
    if row is None or (row["kind"], row["since"], row["what"]) != (failure.kind, failure.since, failure.what):
        raise ConflictError(repairs.NO_LONGER_FAILS(node=failure.node))


def adapters_failing(database: Database, failure: Failure, site: Site) -> list[tuple[str, str]]:
    """Fabric and port of each adapter that is the cause of a failure now."""
    with database.statement() as tx:
        where = {"pod_id": failure.pod_id, "node": failure.node, "at": tx.now(), "gap": GAP}
        rows = tx.rows("adapters_failing", adapter_gone=span(site.repair.adapter_gone), **where)
    return [(row["fabric"], row["port"]) for row in rows]


def nodes_without_adapters(database: Database) -> dict[str, str]:
    """Node -> which adapter its fabric didn't show when it was last read, within an hour: such a node takes no other
    one's place, also before that counts as a failure."""
    with database.statement() as tx:
        rows = tx.rows("nodes_without_adapters", after=tx.now() - HOUR)
    return {r["node"]: f"adapter {r['name']} isn't shown by fabric {r['fabric']}" for r in rows}


def time_since_reset(database: Database, server: str) -> timedelta | None:
    """How long ago weft reset a server, by its id; None: not within a day."""
    with database.transaction() as tx:
        row = tx.row("own_reset", server=server, after=tx.now() - KEPT)
        return None if row is None else tx.now() - row["at"]


def note_reset(database: Database, server: str, refused: bool) -> None:
    """Remember that weft has reset a server. Args: refused: its cloud didn't: there is nothing to wait for."""
    with database.transaction() as tx:
        at = tx.now() - RESET_LASTS if refused else tx.now()
        tx.run("note_own_reset", server=server, at=at, before=tx.now() - KEPT)


def note_own_replacement(tx: Tx, failure: Failure, generation: int, by: Sequence[str]) -> None:
    """Remember a replacement for the limits, with an event of its pod; in the transaction of the change.

    Args: by: the nodes that get its servers, a whole one alone. Only older versions count by the first of them.
    """
    now, pod = tx.now(), failure.pod_id
    tx.run(
        "note_own_replacement", pod_id=pod, node=failure.node, generation=generation, by_node=by[0], at=now
    )
    more = {"more": list(by[1:])} if by[1:] else {}
    said = repairs.REPLACED_BY_ITSELF(node=failure.node, by=by[0], cause=failure.cause, **more)
    insert_event(tx, pod, "repair", said)


def failures_said(rows: Sequence[Mapping[str, Any]]) -> list[Message]:
    """What people read of a pod's nodes that fail; rows of `node_failure`, by node."""
    found: list[Message] = []
    for row in sorted(rows, key=lambda r: r["node"]):
        node, cause, why = (
            row["node"],
            cause_of(row["kind"], row["since"], row["what"]),
            message_text(row["why"]),
        )
        if not row["replaces"]:
            found.append(repairs.NODE_FAILS(node=node, cause=cause))
        elif why:
            found.append(repairs.REPLACEMENT_WAITS(node=node, cause=cause, why=why))
        else:
            found.append(repairs.REPLACEMENT_DUE(node=node, cause=cause))
    return found
