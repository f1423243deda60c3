"""Replaces nodes that fail, and drained ones at their time, for pods whose order asks for it (`on_failure: replace`);
releases pods that end at a drain's time (`on_drain: release`).
Decision: docs/decisions/failed-nodes-are-replaced.md.

The verb is that of `weft pod replace`, with weft as the user. Unknown is never failed: right before it, the cloud is
asked again, and what it doesn't answer begins nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

from weft.app.desk import Desk
from weft.app.generations import Generations, NextGeneration
from weft.app.nodeverbs import NodeVerbs
from weft.app.orderdesk import Orders
from weft.app.replaceverbs import ReplaceVerbs, Unasked
from weft.app.verbs import Request
from weft.engine.base.database import Database, Tx
from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.engine.base.world import World
from weft.engine.nodes.adapterwatch import read_adapters
from weft.engine.nodes.drains import end_pods_on_drains, say_drains_due
from weft.engine.nodes.failures import (
    RESET_LASTS,
    Failure,
    adapters_failing,
    check_failing,
    check_limits,
    check_standing,
    claim_failure,
    note_not_replaced,
    note_own_replacement,
    note_reset,
    refresh_failures,
    time_since_reset,
)
from weft.engine.proof.seen import seen_of
from weft.engine.queue.changes import check_confirmed
from weft.engine.rows.holds import BY_WEFT
from weft.engine.rows.records import PodRecord, ResourceRecord
from weft.model.change import PodChange, Replacement
from weft.model.errors import ConflictError, InputError, NotFoundError, PermanentError, WeftError
from weft.model.ids import span
from weft.model.messages import orders, outside, repairs
from weft.model.messages.message import Message
from weft.model.resources import Kind, Observed, Status
from weft.model.site import Site
from weft.planning.shapes.resolve import shape_of
from weft.ports.cloud import Caller
from weft.ports.fences import Fence
from weft.ports.servers import Action

log = logging.getLogger(__name__)

EVERY = 15.0
"""Seconds between turns."""
LIMIT = 900.0
"""Seconds without a turn after which the thread counts as stuck."""
MOST = 16
"""Attempts in one turn; the others are made in the next ones."""


class Replacer:
    """Replaces one node. No policy is asked: the order is the permission, the site's limits bound it."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._servers = desk, NodeVerbs(desk)
        orders = Orders(desk)
        self._replacements = ReplaceVerbs(desk, orders, Generations(desk, orders))

    @property
    def site(self) -> Site:
        """The active one."""
        return self._desk.store.site().site

    def replace_failed(self, failure: Failure) -> PodChange:
        """Put another node in the place of one that fails.

        Raises `WeftError` if it doesn't fail any more, that isn't known, or nothing can take its place now; nothing is
        changed then.
        """
        pod, request = self._desk.store.pods.find(str(failure.pod_id), None), _as_weft()
        unasked = self._unasked(failure)
        with self._desk.store.database.transaction() as tx:
            check_confirmed(tx, pod)
            unasked.check(tx, pod)
        asked = Replacement(node=self._check_seen(request, pod, failure), hold=not failure.sound)
        done = self._replacements.make(
            request, pod, asked, pod.project_id if failure.by_tenant else None, unasked
        )
        self._desk.log(
            request, "pod replace", f"{pod.name} {failure.node}", f"done: {failure.cause}", counted=False
        )
        return done

    def _unasked(self, failure: Failure) -> Unasked:
        def check(tx: Tx, pod: PodRecord) -> None:
            check_standing(tx, pod)
            check_failing(tx, failure, self.site)
            shared = shape_of(pod.order).shares_nodes
            check_limits(tx, self.site, pod.project_id, failure.by_tenant, shared)

        def also(tx: Tx, found: NextGeneration) -> None:
            change = found.change
            by = dict.fromkeys((*change.nodes_added, *change.spares_used))
            note_own_replacement(tx, failure, change.generation, list(by))

        return Unasked(failure.cause, check, also)

    def _check_seen(self, request: Request, pod: PodRecord, failure: Failure) -> str:
        """Raise unless the cloud shows the failure now, and says that all servers of the pod are there: what its
        tenant deletes stays deleted. A server in an error is reset first, once.

        Returns what is to be replaced: the node, or the one server in an error of several on a shared node.
        """
        record, plan = self._desk.store.site(), pod.plan
        world = self._desk.keeper.world_of(record)
        facts, node = world.clouds.get(plan.cloud), record.site.node_by_name.get(failure.node)
        if facts is None or node is None:
            raise ConflictError(
                orders.NODE_NOT_IN_SITE(node=failure.node, pod=pod.name, site=record.site.name)
            )
        if failure.kind == "host" and facts.hosts().get(node.nova_host, "").partition(":")[0] != "down":
            raise ConflictError(repairs.HOST_NOT_DOWN())
        servers = [r for r in self._desk.store.pods.resources(pod.id) if r.wanted and r.kind is Kind.SERVER]
        ids = {r.key: r.outside_id for r in servers if r.outside_id is not None}
        driver = world.driver(plan.cloud)
        seen = seen_of(driver.find(pod.scope, [r.resource for r in servers], ids), servers)
        if any(one.unread is not None for one in seen.values()):
            raise ConflictError(repairs.SERVERS_UNKNOWN())
        # One without an id wasn't created yet: the place of another node is still being taken.
        if gone := sorted(r.resource.name for r in servers if r.key in ids and _is_deleted(seen[r.key])):
            raise ConflictError(repairs.SERVERS_DELETED(servers=gone))
        if failure.kind == "adapter":
            _check_adapters(
                record.site, world, adapters_failing(self._desk.store.database, failure, record.site)
            )
        mine = sorted((r for r in servers if r.resource.node == failure.node), key=_in_state_since)
        off = any(seen[r.key].status is not Status.SETTLED or seen[r.key].differences for r in mine)
        if failure.kind == "adapter" and off:
            raise ConflictError(repairs.SERVER_NOT_RUNNING())
        if failure.kind != "server":
            return failure.node
        broken = next((r for r in mine if seen[r.key].status is Status.BROKEN), None)
        if broken is None:
            raise ConflictError(repairs.SERVER_NOT_BROKEN())
        since_reset = time_since_reset(self._desk.store.database, seen[broken.key].id)
        if since_reset is None:
            self._reset(request, pod, broken, seen[broken.key].id)
        if since_reset is None or since_reset < min(span(self.site.repair.server_broken), RESET_LASTS):
            raise ConflictError(repairs.SERVER_RESET())
        return failure.node if len(mine) == 1 else broken.resource.name

    def _reset(self, request: Request, pod: PodRecord, server: ResourceRecord, server_id: str) -> None:
        """Power a server off and on. Raises `TemporaryError` without an answer, and `ConflictError` if it must not be
        requested now; a refusal by the cloud counts as tried, and as done long ago."""
        self._servers.note(request, pod, server, Action.RESET)
        allowed, refused = True, False

        def may(fence: Fence) -> None:
            nonlocal allowed
            allowed = False
            fence()
            allowed = True

        try:
            with self._desk.store.pods.acting(pod, server) as fence:
                self._servers.cloud(pod).act(pod.project_id, server_id, Action.RESET, lambda: may(fence))
        except (ConflictError, PermanentError):
            if not allowed:
                raise
            refused = True
        note_reset(self._desk.store.database, server_id, refused)
        self._desk.log(request, "pod reset", f"{pod.name} {server.resource.node}", "done", counted=False)


class NodeRepairs(Periodic):
    """Any number may run: the database decides who tries to replace a node."""

    def __init__(self, replacer: Replacer, database: Database, pulse: Pulse | None = None) -> None:
        self._replacer, self._database = replacer, database
        super().__init__(
            "repairs", self.tend, pulse, LIMIT, every=EVERY, first=EVERY, again=EVERY, defect=2 * EVERY
        )

    def tend(self) -> None:
        """Release pods for drains, as their orders say, and try to replace each node that is due, some of many.

        A restored database may not know that a drain was ended: then, and in clouds whose note can't be read, no pod is
        released, as at the end of a lease.
        """
        unread = self._database.gate.unread()  # first: what is read a moment later, and is behind, counts
        if not self._database.gate.is_behind():
            for pod in end_pods_on_drains(self._database, unread):
                log.warning("pod %s is released for the drain of its nodes, as its order says", pod)
        if (closed := self._database.gate.closed()) is not None:
            log.warning("nodes that fail aren't replaced: %s", closed)
            return
        say_drains_due(self._database)
        refresh_failures(self._database, self._replacer.site)
        for _ in range(MOST):
            failure = None if self.stopped.is_set() else claim_failure(self._database)
            if failure is None:
                return
            self._try(failure)

    def _try(self, failure: Failure) -> None:
        try:
            done = self._replacer.replace_failed(failure)
        except NotFoundError:
            return  # the pod is gone
        except WeftError as error:
            log.warning("node %s of pod %s isn't replaced: %s", failure.node, failure.pod_id, error)
            note_not_replaced(self._database, failure, _why(error))
            return
        by = (*done.nodes_added, *done.spares_used)
        log.warning(
            "node %s of pod %s is replaced by %s: %s", failure.node, failure.pod_id, by, failure.cause
        )


def _check_adapters(site: Site, world: World, adapters: Sequence[tuple[str, str]]) -> None:
    """Raise `ConflictError` unless a fabric still doesn't show one of these adapters, asked now.

    Args:
        adapters: fabric and port of those that are the cause: others of the node may be down for other reasons.
    """
    unknown = False
    for fabric in sorted({fabric for fabric, _ in adapters}):
        try:
            reading = read_adapters(site, fabric, world.fabrics[fabric])
        except (WeftError, KeyError):
            unknown = True
            continue
        mine = {port for of, port in adapters if of == fabric}
        if not mine.isdisjoint(one.port for one in reading.unseen):
            return
        unknown = unknown or not (reading.seen is None or mine <= reading.seen)
    raise ConflictError(repairs.FABRIC_UNKNOWN() if unknown else repairs.ADAPTER_SHOWN())


def _in_state_since(server: ResourceRecord) -> datetime:
    return server.since or datetime.max.replace(tzinfo=UTC)


_DELETED = frozenset({outside.BEING_DELETED.name, outside.SOFT_DELETED.name})
"""Reasons of servers that their cloud still has."""


def _is_deleted(seen: Observed) -> bool:
    """Whether a server is gone, or someone has deleted it and it isn't gone yet."""
    return not seen.there or (isinstance(seen.reason, Message) and seen.reason.code in _DELETED)


def _why(error: WeftError) -> str:
    """The reason that is reported for a replacement that wasn't made."""
    if isinstance(error, InputError):  # such as an image that is gone
        return repairs.ORDER_NOT_SERVED(field=error.field, allowed=error.allowed)
    return error.message


def _as_weft() -> Request:
    """A request by weft itself; it has no role, and no policy is asked."""
    never = datetime.max.replace(tzinfo=UTC)
    caller = Caller(BY_WEFT, BY_WEFT, None, None, frozenset(), never, itself=True)
    return Request(caller, "", f"req-{uuid4()}")
