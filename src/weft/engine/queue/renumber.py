"""Another number for a pod whose own turned out to be in use by someone who ignores weft's ranges."""

from __future__ import annotations

from weft.engine.base.documents import written
from weft.engine.base.world import World
from weft.engine.book.capacity import read_capacity
from weft.engine.hold.heldpod import HeldPod
from weft.engine.rows.ownerrecord import TakenNumber
from weft.model.errors import PermanentError
from weft.model.messages import pods
from weft.model.site import Site
from weft.model.spaces import SEGMENT
from weft.planning.shapes.numbers import physical_networks, renumbered, with_segments


def renumber(held: HeldPod, taken: TakenNumber, world: World, site: Site) -> None:
    """Replace the taken number in the plan of a pod whose resources were all seen absent.

    Raises `PermanentError` if no number is left, and the errors of the cloud and the fabric if they can't be asked.
    """
    plan = held.whole_plan()
    spaces = (s.removeprefix(SEGMENT) for s in plan.allotment.numbers if s.startswith(SEGMENT))
    configured = {f: world.fabric(f).usage().numbers for f in spaces if f in site.fabrics}
    vlans = world.clouds[plan.cloud].segments(physical_networks(site, plan.cloud))
    with held.notes.write(capacity=True) as tx:
        used = with_segments(site, read_capacity(tx).used, configured, vlans)
        new = renumbered(plan, taken.key, site, used)
        if new is None:
            raise PermanentError(
                taken.asked, taken.of, taken.answer, "no other number in weft's range is free"
            )
        for resource in new.graph.resources:
            document = written(resource)
            values = {"owner_id": held.pod.id, "key": resource.key, "document": document}
            if not tx.run("renumber_resource", forgets=resource.kind.row.data, **values):
                raise AssertionError(f"{resource.key} was not seen to be absent before it was renumbered")
        before, after = plan.allotment.numbers, new.allotment.numbers
        for space in before.keys() | after.keys():
            if before.get(space) != after.get(space):
                tx.run("give_back_number", space=space, number=before.get(space), owner_id=held.pod.id)
                tx.run("hold_number", space=space, number=after[space], owner_id=held.pod.id)
                message = pods.NUMBER_TAKEN(space=space, number=before.get(space), now=after[space])
                held.fence.insert_events(tx, [("repair", message, taken.key)])
        tx.run("renumber_pod", id=held.pod.id, plan=written(new))
