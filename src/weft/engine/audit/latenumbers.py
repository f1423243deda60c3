"""Numbers of abandoned owners: returned once what used them is proved to be gone."""

from __future__ import annotations

from itertools import chain

from weft.engine.base.unreadable import UnreadableError
from weft.engine.base.world import World
from weft.engine.proof.readback import unfree
from weft.engine.proof.release import ReleaseReader
from weft.engine.rows.events import announce
from weft.engine.rows.released import released_owners_with_numbers, released_pods_with_numbers
from weft.engine.store.store import Store
from weft.model.messages import pods
from weft.model.site import Site
from weft.ports.clock import Clock


def free_numbers(store: Store, world: World, site: Site, clock: Clock) -> list[str]:
    """Return numbers whose quarantined nodes an operator has cleared: what runs on such a node may still use them.

    Returns what couldn't be read.
    """
    unread: list[str] = []
    database = store.database
    unclear = {row["pod_id"] for row in database.rows("pods_in_quarantine")}
    for owner in chain(released_pods_with_numbers(database), released_owners_with_numbers(database)):
        if owner.id in unclear:
            continue
        rows = database.rows("numbers_of", owner_id=owner.id)
        numbers = {(r["space"], r["number"]) for r in rows}
        try:
            resources = store.pods.resources(owner.id)
        except UnreadableError as error:  # its numbers stay held; others are still checked
            unread.append(str(error))
            continue
        now = clock.now()
        read = ReleaseReader(owner, resources, world, site, clock, now, numbers=numbers).read()
        unread += [f"{i.plane} {i.subject}: {i.seen}" for i in read.items if i.result == "unknown"]
        free = numbers - unfree(read, numbers)
        if not free:
            continue
        database.gate.check()
        with database.transaction() as tx:
            for space, number in sorted(free):
                tx.run("give_back_number", space=space, number=number, owner_id=owner.id)
            names = ", ".join(f"{space} {number}" for space, number in sorted(free))
            announce(tx, owner.id, "release", pods.NUMBERS_SEEN_FREE(numbers=names))
            tx.run("touch_queue", at=tx.now())
    return unread
