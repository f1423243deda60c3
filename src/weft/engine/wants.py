"""What is wanted of owners that have no order: a pure function of the site and of what the outside says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from weft.engine.ownerrecord import OwnerRecord
from weft.engine.world import World
from weft.model.owner import OwnerKind
from weft.model.resources import Graph
from weft.model.site import Site

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of one owner now.

    Attributes:
        adopted: key of a new resource -> id of what is there already and is taken in its place.
    """

    graph: Graph
    adopted: Mapping[str, str] = field(default_factory=dict[str, str])


def _none(seen: object) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Want(Generic[S]):
    """For one kind of owner.

    Attributes:
        look: reads what the graph depends on besides the site (a tenant's network: what Neutron says of it). Raises
            what the outside raises: then the rows stay as they are, since unknown is no change.
        graph: without I/O: equal arguments give equal graphs, and needs come before what needs them.
        adopted: what of it is there already, by what was looked at.
    """

    look: Callable[[OwnerRecord, World], S]
    graph: Callable[[OwnerRecord, Site, S], Graph]
    adopted: Callable[[S], Mapping[str, str]] = _none

    def __call__(self, owner: OwnerRecord, site: Site, world: World) -> Wanted:
        seen = self.look(owner, world)
        return Wanted(self.graph(owner, site, seen), self.adopted(seen))


Wants = Mapping[OwnerKind, Want[Any]]
