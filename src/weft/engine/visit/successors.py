"""Nodes that take over the place of others: server name, addresses and volumes.

Neutron frees an address as soon as a port's row is gone, and Nova deletes a server's row although its host is down: the
server may go on with its addresses all the same. So nothing is requested for a successor before its predecessor's node
was read back clean. One that isn't within the limit of a release is quarantined, and the successor gets a number of its
own, unless the number is also that of volumes: then it waits for an operator (`weft node clear`). A bare-metal
machine's place is free earlier: once its guest ended and its ports are gone, while it is being cleaned.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from weft.engine.base.documents import written
from weft.engine.hold.heldpod import HeldPod
from weft.engine.proof.departure import ENDED
from weft.engine.proof.seen import seen_of
from weft.engine.rows.records import Change, ResourceRecord, RowState
from weft.model.errors import ConflictError, InputError, TemporaryError, WeftError
from weft.model.messages import pods
from weft.model.placement import Refusal
from weft.model.resources import Resource
from weft.planning.shapes.gpu.replacing import successors, with_new_number
from weft.planning.shapes.resolve import shape_of

log = logging.getLogger(__name__)


class PlaceAwaitedError(TemporaryError):
    """Only successors are left to be created, and their places aren't free yet."""


def waiting_successors(held: HeldPod) -> dict[str, str]:
    """Node for which nothing may be requested yet -> node whose place it takes over.

    An operator's word that nothing runs on that node counts, but only once the cloud has none of its resources either.
    """
    leaving = held.nodes.leaving()
    if not leaving or not successors(held.pod.plan, leaving):
        return {}
    there = {r.resource.node for r in held.resources() if not r.wanted and not r.is_nowhere}
    # A place may have had several nodes: clearing one doesn't clear the others.
    return successors(held.pod.plan, leaving.keys() - (held.nodes.cleared() - there) - _off(held))


def only_cleaned(records: Collection[ResourceRecord]) -> bool:
    """Whether all that is left of these resources of one node is a machine that is being cleaned."""
    left = [r for r in records if not r.is_nowhere]
    return bool(left) and all(r.kind.row.cleaned for r in left)


def _off(held: HeldPod) -> frozenset[str]:
    """Leaving machines that are still cleaned, and on which nothing of the pod runs any more, as was read back."""
    on: dict[str, list[ResourceRecord]] = {}
    for record in held.resources():
        if not record.wanted and record.resource.node:
            on.setdefault(record.resource.node, []).append(record)
    return frozenset(
        node
        for node, mine in on.items()
        if only_cleaned(mine)
        and all(ENDED in r.facts for r in mine if r.kind.row.on_host and r.started_at is not None)
    )


def give_own_numbers(held: HeldPod, late: Collection[str]) -> None:
    """Give successors of nodes that aren't clean in time other numbers: quarantined ones, and cleared ones that have
    something of the old server in the cloud. One that must wait, or has no address, continues waiting.

    Args:
        late: nodes whose time is over.
    """
    if any(entry.kind == "volume" for entry in held.pod.order.storage):
        return  # a volume is the number's, and may be written by the old server
    waiting = waiting_successors(held)
    unclean = (
        (held.quarantine.nodes() | held.nodes.cleared()).intersection(late) if waiting else frozenset[str]()
    )
    for by, node in sorted(waiting.items()):
        if node in unclean:
            _renumber(held, by, node)


def _renumber(held: HeldPod, by: str, node: str) -> None:
    mine = [r for r in held.resources() if r.resource.node == by and r.wanted]
    begun = [r for r in mine if r.state not in (RowState.WANTED, RowState.ABSENT)]
    if begun and not _never_made(held, begun):
        return  # an operator let it have the place, and then something of the old server came back
    plan = held.whole_plan()
    numbers = with_new_number(plan, by, held.nodes.leaving())
    if isinstance(numbers, Refusal):
        return
    try:
        made = shape_of(plan.order).graph(plan.model_copy(update={"allotment": numbers}), held.site)
    except (
        ConflictError,
        InputError,
    ) as error:  # of the site by now: as every change of the pod, this waits for it
        log.warning("pod %s (%s): %s gets no number of its own: %s", plan.order.name, held.pod.id, by, error)
        return
    new = {r.key: r for r in made.resources if r.node == by}
    graph = plan.graph.model_copy(
        update={"resources": tuple(_readdressed(r, new) for r in plan.graph.resources)}
    )
    plan = plan.model_copy(update={"allotment": numbers, "graph": graph})
    with held.notes.write() as tx:
        for resource in (r for r in graph.resources if r.node == by):
            values = {"owner_id": held.pod.id, "key": resource.key, "document": written(resource)}
            if tx.row("renumber_node", **values) is None:
                raise AssertionError(f"{resource.key} was requested before its predecessor was clean")
        tx.run("replan_pod", id=held.pod.id, plan=written(plan))
        number = numbers.hosts[by]
        held.fence.insert_events(tx, [("repair", pods.PLACE_NOT_FREE(node=node, by=by, number=number), None)])
    held.fence.forget()


def _never_made(held: HeldPod, records: Collection[ResourceRecord]) -> bool:
    """Whether none of these exists, which a worker that lost its hold may have requested without a note of it, and none
    can come to be any more; they are noted as never requested."""
    if any(r.state is not RowState.CREATING or r.outside_id for r in records) or held.notes.late() > 0:
        return False
    for where, kind in sorted({(r.resource.where, r.kind) for r in records}):
        batch = [r for r in records if (r.resource.where, r.kind) == (where, kind)]
        try:
            with held.lane.outside():
                found = held.world.driver(where).find(held.owner.scope, [r.resource for r in batch], {})
            seen = seen_of(found, batch)
        except WeftError as error:
            log.warning("pod %s: whether %s was made isn't known: %s", held.pod.id, batch[0].key, error)
            return False
        if any(one.unread is not None or one.there for one in seen.values()):
            return False
    held.note(Change(r.key, RowState.WANTED, attempts=r.attempts) for r in records)
    return True


def _readdressed(resource: Resource, new: dict[str, Resource]) -> Resource:
    """The resource with the name and specification that follow from its new number; its needs stay as they are."""
    made = new.get(resource.key)
    return resource if made is None else resource.model_copy(update={"name": made.name, "spec": made.spec})
