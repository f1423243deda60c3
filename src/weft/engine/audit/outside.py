"""External state, read before the database, so that nothing new can be mistaken for an orphan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from weft.engine.base.world import World
from weft.model.errors import WeftError
from weft.model.fabric import FabricStatus, Snapshot
from weft.model.resources import Marked
from weft.ports.clock import Clock
from weft.ports.resources import PartlyListedError


@dataclass(frozen=True, slots=True)
class OutsideFabric:
    """One fabric: its managers' configuration and its ports' membership, read as one, and its managers' status."""

    snapshot: Snapshot
    status: FabricStatus


@dataclass(frozen=True, slots=True)
class Outside:
    """Everything that carries weft's mark, and the fabrics; what can't be read is replaced by the error.

    Attributes:
        began_at: a moment before the first query.
        marked: cloud, fabric or manager of machines -> things.
        wires: by the fabrics' names.
    """

    began_at: datetime
    marked: Mapping[str, Sequence[Marked] | WeftError]
    wires: Mapping[str, OutsideFabric | WeftError]

    def things(self) -> list[Marked]:
        """Everything that could be listed."""
        return [t for found in self.marked.values() for t in _listed(found)]


def _listed(found: Sequence[Marked] | WeftError) -> Sequence[Marked]:
    if isinstance(found, PartlyListedError):
        return found.found
    return () if isinstance(found, WeftError) else found


def look_outside(world: World, site: str, clock: Clock) -> Outside:
    """Read everything; what can't be read is recorded, not raised."""
    began_at = clock.now()
    marked = {where: _marked(world, where, site) for where in sorted(world.resources)}
    return Outside(began_at, marked, {name: _wire(world, name) for name in sorted(world.fabrics)})


def _marked(world: World, where: str, site: str) -> Sequence[Marked] | WeftError:
    try:
        return world.resources[where].marked(site, ())
    except WeftError as error:
        return error


def _wire(world: World, name: str) -> OutsideFabric | WeftError:
    fabric = world.fabrics[name]
    try:
        return OutsideFabric(fabric.snapshot(), fabric.status())
    except WeftError as error:
        return error
