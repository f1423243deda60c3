"""A pod held by a worker. Every write goes through the fence: the token is checked in the same transaction."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import NamedTuple, NoReturn

from psycopg.types.json import Jsonb

from weft.engine.database import Database, Row, Tx
from weft.engine.documents import written
from weft.engine.epoch import note_epoch
from weft.engine.postgres import FIRST
from weft.engine.records import Change, PodRecord, ResourceRecord, StaleNumber, Taken
from weft.engine.world import World
from weft.model.fabric import Membership
from weft.model.pod import (
    DECIDES,
    Aspect,
    Cause,
    Condition,
    Phase,
    PodState,
    Truth,
    changed,
    check_transition,
    find,
    summary,
    why,
)
from weft.model.receipt import ReceiptItem, SignedReceipt
from weft.model.resources import Resource
from weft.model.site import Site
from weft.ports.witness import Witnesses

log = logging.getLogger(__name__)

HOLD_SECONDS = 30.0
"""How long a pod stays with a worker without a heartbeat."""
LATE_SECONDS = 200.0
"""How long after its hold a lost worker's last request may still be under way: the drivers' timeout for one answer
(180 s) and a margin. Each is preceded by a look whether the hold lasts."""

_NOW = FIRST
"""Since when a condition lasts that is about to be written: the database says what time it is then."""


class News(NamedTuple):
    """What there is to say of one aspect of a pod."""

    aspect: Aspect
    status: Truth
    cause: Cause
    message: str = ""


Event = tuple[str, str, str | None]
"""Type, message, and the key of the resource that it is about."""


class LostError(Exception):
    """Another worker has the pod now, or the hold expired: stop immediately, write nothing."""


Ports = Mapping[str, tuple[Membership, ...]]
"""Key of a segment -> ports that are, or were, in it."""


class ChangedError(LostError):
    """The pod has a newer generation than this visit works on: stop immediately, write nothing, start again."""


class Held:
    """One pod, held by this worker under a token.

    A lease is not a fence: a suspended worker may still believe in it. So each write locks the pod's row and checks the
    token first; an older holder gets `LostError` and nothing is written.

    Attributes:
        leave: set when the worker should release the pod at the next step.
        at: the database's time at the last write or reading of resources.
        world, site: what a visit works with; the same from its beginning to its end.
    """

    world: World
    site: Site

    def __init__(self, database: Database, pod: PodRecord, leave: threading.Event | None = None) -> None:
        self._database = database
        self.leave = leave or threading.Event()
        self.at = pod.since
        self.pod = pod
        self.phase, self.conditions = pod.phase, pod.conditions
        self.reason = pod.reason
        self.since = pod.since
        self.wanted = pod.wanted
        self._woken = pod.woken
        self.lost = threading.Event()
        self._records: dict[str, ResourceRecord] = {}
        self._read = False

    @contextmanager
    def write(self, capacity: bool = False) -> Generator[Tx]:
        """A fenced transaction; also detects whether the desired state has changed.

        Args:
            capacity: numbers are claimed in it: one at a time, and that lock is taken before the pod's.
        """
        if self.lost.is_set():
            raise LostError
        self._read = False  # whatever is written here is read again
        with self._database.transaction() as tx:
            if capacity:
                tx.row("lock_capacity")
            row = tx.row("check_token", id=self.pod.id, token=self.pod.token, at=tx.given)
            if row is None:
                self.lost.set()
                raise LostError
            if row["generation"] != self.pod.generation:
                raise ChangedError
            self.wanted, self.at = row["wanted"], tx.begin_at(row["at"])
            yield tx

    def _fenced(self, name: str, **values: object) -> Row:
        """A write that is one statement with the fence in it; its row. Learns what `write` does."""
        if self.lost.is_set():
            raise LostError
        pod = self.pod
        with self._database.statement() as tx:
            row = tx.row(name, id=pod.id, token=pod.token, generation=pod.generation, at=tx.given, **values)
        if row is None:
            self._refused()
        self.wanted, self.at = row["wanted"], row["at"]
        return row

    def _refused(self) -> NoReturn:
        with self._database.statement() as tx:
            row = tx.row("is_held", id=self.pod.id, token=self.pod.token)
        if row is not None and row["generation"] != self.pod.generation:
            raise ChangedError
        self.lost.set()
        raise LostError

    def check(self) -> None:
        """Right before anything is changed outside: raise `LostError` unless the pod is still this worker's."""
        if self.lost.is_set():
            raise LostError
        with self._database.statement() as tx:
            row = tx.row("is_held", id=self.pod.id, token=self.pod.token)
        if row is None or row["generation"] != self.pod.generation:
            self._refused()

    def late(self) -> float:
        """Seconds until nothing that an earlier holder asked for can still come to be; 0: it can't any more."""
        if self.pod.late_until is None:
            return 0.0
        with self._database.statement() as tx:
            row = tx.row("late_for", id=self.pod.id)
        return max(0.0, float(row["seconds"])) if row else 0.0

    def extend(self) -> None:
        """Sign of life; called by the worker's heartbeat."""
        with self._database.statement() as tx:
            row = tx.row("extend_lease", id=self.pod.id, token=self.pod.token, hold=HOLD_SECONDS)
        if row is None:
            self.lost.set()
        else:
            self.wanted = row["wanted"]

    def records(self) -> dict[str, ResourceRecord]:
        """Key -> resource, read once a visit, and as this visit has written it since.

        Nobody else writes them: a change makes another generation of the pod, which the fence refuses.
        """
        if not self._read:
            fresh = {r.key: r for r in self.read_resources()}
            self._records.clear()
            self._records.update(fresh)
            self._read = True
        return self._records

    def resources(self) -> list[ResourceRecord]:
        return list(self.records().values())

    def read_resources(self) -> list[ResourceRecord]:
        """What the database has now."""
        with self._database.statement() as tx:
            rows = tx.rows("resources_of", owner_id=self.pod.id, at=tx.given)
        self.at = rows[0]["at"] if rows else self.at
        return [ResourceRecord.of(row) for row in rows]

    def change(self, changes: Iterable[Change], events: Iterable[Event] = ()) -> None:
        """Write resources and events together."""
        changes, told = list(changes), _told(events)
        if not changes and not told:
            return
        rows = [
            {
                "key": c.key,
                "state": c.state,
                "outside_id": c.outside_id,
                "reason": c.reason,
                "differences": [d.model_dump(mode="json") for d in c.differences],
                "facts": dict(c.facts or {}),
                "attempts": c.attempts,
                "asked": c.asked,
            }
            for c in changes
        ]
        row = self._fenced("write_held", changes=Jsonb(rows), events=Jsonb(told))
        records = self.records()
        for change in changes:
            records[change.key] = records[change.key].after(change, row["at"])

    def say(self, kind: str, message: str, key: str | None = None) -> None:
        """Write an event."""
        self.change((), [(kind, message, key)])

    @property
    def state(self) -> PodState:
        return summary(self.phase, self.conditions)

    def set(
        self,
        *news: News,
        phase: Phase | None = None,
        without: Collection[Aspect] = (),
        events: Iterable[Event] = (),
    ) -> None:
        """Change the pod's phase and conditions, and write events; what is no news writes nothing."""
        told = list(events)
        dropped = any(find(self.conditions, a) for a in without)
        if dropped or told or any(self._is_news(n) for n in news) or phase not in (None, self.phase):
            self._set("set_held", news, phase or self.phase, without, told)

    def explain(self, message: str, cause: Cause = Cause.TRIED_AGAIN) -> None:
        """Say why the pod doesn't get on from where it is; one that was READY isn't known to be so any more."""
        aspect = Aspect.READY if self.state is PodState.FAILED else DECIDES[self.state]
        known = find(self.conditions, aspect)
        status = "unknown" if self.state is PodState.READY else known.status if known else "false"
        self.set(News(aspect, status, cause, message))

    def _is_news(self, news: News) -> bool:
        known = find(self.conditions, news.aspect)
        return known is None or (known.status, known.reason, known.message) != news[1:]

    def _set(
        self,
        statement: str,
        news: Iterable[News],
        phase: Phase,
        without: Collection[Aspect] = (),
        events: Iterable[Event] = (),
        **values: object,
    ) -> None:
        check_transition(self.phase, phase)
        before = (self.state, self.reason)
        conditions = changed(
            self.conditions,
            *(
                Condition(type=n.aspect, status=n.status, reason=n.cause, message=n.message, since=_NOW)
                for n in news
            ),
            without=without,
        )
        state, reason = summary(phase, conditions), why(phase, conditions)
        told = list(events)
        if (state, reason) != before:
            told.append(("state", f"{state}: {reason}" if reason else str(state), None))
        stored = [
            c.model_dump(mode="json") | ({"since": None} if c.since == _NOW else {}) for c in conditions
        ]
        row = self._fenced(
            statement,
            phase=phase,
            conditions=Jsonb(stored),
            state=state,
            reason=reason,
            events=Jsonb(_told(told)),
            **values,
        )
        at = row["at"]
        self.since = self.since if state is before[0] else at
        self.conditions = tuple(
            c.model_copy(update={"since": at}) if c.since == _NOW else c for c in conditions
        )
        self.phase, self.reason = phase, reason

    def alarm(self, message: str) -> None:
        """Say, once in a state, that a person must look: it lasts too long, or can't go on by itself."""
        with self.write() as tx:
            if tx.run("set_alarmed", id=self.pod.id):
                self._events(tx, [("alarm", message, None)])

    def repaired(self) -> None:
        """What an operator asked to repair was repaired, or tried."""
        with self.write() as tx:
            tx.run("repaired_owner", id=self.pod.id)

    def quarantine(self, nodes: dict[str, str]) -> None:
        """Keep nodes back: node -> reason."""
        with self.write() as tx:
            for node, reason in nodes.items():
                if tx.run("quarantine", node=node, reason=reason, at=tx.now(), pod_id=self.pod.id):
                    self._events(tx, [("quarantine", f"{node}: {reason}", None)])

    def number_taken(self, taken: Taken) -> None:
        """Write down that a number is somebody else's: it is replaced once nothing of the pod is left outside."""
        with self.write() as tx:
            tx.run("number_taken", id=self.pod.id, taken=Jsonb(asdict(taken)))
        self.pod = replace(self.pod, taken=taken)

    def note_epoch(self, facts: Witnesses) -> None:
        """Before anything is made outside for the pod, the cloud knows that its nodes were claimed."""
        note_epoch(self._database, facts, self.pod.plan.site, self.pod.plan.cloud)

    def withhold(self, nodes: dict[str, str], partition: Resource | None) -> None:
        """Write down why which nodes' adapters are out of the partition (an empty reason: they are in), and it anew."""
        row = self._fenced(
            "watch_held",
            nodes=Jsonb([{"node": n, "reason": r} for n, r in nodes.items()]),
            key=partition and partition.key,
            document=partition and written(partition),
        )
        for node in row["news"]:
            log.warning("pod %s (%s): node %s: %s", self.pod.name, self.pod.id, node, nodes[node])
        if partition is not None:
            self._read = False

    def withheld(self) -> frozenset[str]:
        """Nodes whose adapters are out of the partition."""
        with self._database.statement() as tx:
            return frozenset(r["node"] for r in tx.rows("nodes_withheld", pod_id=self.pod.id))

    def quarantined(self) -> frozenset[str]:
        """Names of all nodes in quarantine."""
        with self._database.statement() as tx:
            return frozenset(row["node"] for row in tx.rows("quarantines"))

    def give_back_nodes(self, nodes: Iterable[str]) -> None:
        """Give single nodes back early: only those that were read back clean."""
        with self.write() as tx:
            for node in nodes:
                if tx.run("give_back_node", node=node, pod_id=self.pod.id):
                    tx.run("touch_queue", at=tx.now())
                    self._events(tx, [("release", f"{node} was read back clean and is free", None)])

    def leaving(self) -> dict[str, Ports]:
        """Node that the pod holds still and doesn't want any more -> its ports that were in the pod's segments."""
        if self.pod.generation == 1:
            return {}  # only a change leaves nodes
        with self._database.statement() as tx:
            rows = tx.rows("nodes_leaving", pod_id=self.pod.id)
        return {
            row["node"]: {key: tuple(map(Membership.model_validate, ms)) for key, ms in row["ports"].items()}
            for row in rows
        }

    def give_back_read(self, nodes: Collection[str], items: Sequence[ReceiptItem]) -> None:
        """Give nodes back that the pod doesn't want any more; what was read of them is part of its receipt."""
        with self.write() as tx:
            now = tx.now()
            gone = [n for n in sorted(nodes) if tx.run("give_back_node", node=n, pod_id=self.pod.id)]
            if not gone:
                return
            read = Jsonb([i.model_dump(mode="json") for i in items])
            tx.run("insert_given_back", pod_id=self.pod.id, nodes=gone, at=now, items=read)
            tx.run("touch_queue", at=now)
            self._events(tx, [("release", f"{n} was read back clean and is free", None) for n in gone])

    def given_back(self) -> tuple[tuple[str, ...], tuple[ReceiptItem, ...]]:
        """Nodes that were given back before the end, the first one first, and what was read of them then."""
        if self.pod.generation == 1:
            return (), ()
        with self._database.statement() as tx:
            rows = tx.rows("given_back", pod_id=self.pod.id)
        items = (ReceiptItem.model_validate(i) for r in rows for i in r["items"])
        return tuple(n for r in rows for n in r["nodes"]), tuple(items)

    def change_done(self) -> None:
        """Everything was seen to be as the newest generation wants it."""
        if self.pod.ready_generation == self.pod.generation and self.pod.changed_at is None:
            return
        with self.write() as tx:
            tx.run("change_done", id=self.pod.id, at=tx.now())
            if self.pod.generation > 1:
                self._events(tx, [("change", f"generation {self.pod.generation} is applied", None)])
        generation, at = self.pod.generation, self.at
        self.pod = replace(self.pod, ready_generation=generation, changed_at=None, ready_at=at)

    def nodes(self) -> frozenset[str]:
        """Nodes that the pod still holds: single ones may have been given back."""
        with self._database.statement() as tx:
            return frozenset(r["node"] for r in tx.rows("nodes_of", pod_id=self.pod.id))

    def numbers(self) -> dict[str, int]:
        """Space -> number that the pod holds."""
        with self._database.statement() as tx:
            return {r["space"]: r["number"] for r in tx.rows("numbers_of", owner_id=self.pod.id)}

    def keep_stale_numbers(self, stale: Iterable[StaleNumber]) -> None:
        """Numbers that no other pod may be given, though this one's segment is gone: `weft.engine.fabrickeeper` frees
        them.
        """
        with self.write() as tx:
            for key in stale:
                tx.run(
                    "hold_stale_number",
                    fabric=key.fabric,
                    manager=key.manager,
                    number=key.number,
                    owner_id=self.pod.id,
                    reason=key.reason,
                )
                text = f"segment {self.pod.plan.allotment.segment} stays held: {key.manager}: {key.reason}"
                self._events(tx, [("release", text, None)])

    def released(self, receipt: SignedReceipt, kept: Iterable[str] = (), reason: str = "") -> None:
        """The end: receipt, capacity and state in one statement. Capacity comes back here and not before.

        Args:
            kept: spaces whose numbers stay held.
            reason: why it ended otherwise than it should.
        """
        cause = Cause.ABANDONED if reason else Cause.DONE
        clean = News(Aspect.CLEAN, "false" if reason else "true", cause, reason)
        signed = ("receipt", "receipt signed", None)
        values = {"receipt": written(receipt), "kept": list(kept)}
        self._set("release_held", [clean], Phase.RELEASED, (), [signed], **values)

    def give_up(self, delay: float, failures: int = 0) -> None:
        """Let go; look again after `delay` seconds, or at once if somebody woke the pod meanwhile."""
        with self._database.statement() as tx:
            tx.run(
                "give_up_owner",
                id=self.pod.id,
                token=self.pod.token,
                failures=failures,
                woken=self._woken,
                delay=delay,
            )

    def _events(self, tx: Tx, events: Iterable[Event]) -> None:
        rows = [
            {"owner_id": self.pod.id, "at": tx.now(), "type": kind, "message": message, "key": key}
            for kind, message, key in events
        ]
        if rows:
            tx.many("insert_event", rows)
            tx.run("notify", owner_id=str(self.pod.id))


def _told(events: Iterable[Event]) -> list[dict[str, str | None]]:
    return [{"type": kind, "message": message, "key": key} for kind, message, key in events]
