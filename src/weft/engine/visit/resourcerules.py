"""What is wanted of owners without an order: a pure function of the site and of what was read outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from weft.engine.base.world import World
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.model.owner import OwnerKind
from weft.model.resources import Graph
from weft.model.site import Site

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class DesiredResources:
    """What is wanted of one owner now.

    Attributes:
        adopted: key of a new resource -> id of an existing one that is used instead.
    """

    graph: Graph
    adopted: Mapping[str, str] = field(default_factory=dict[str, str])


def _none(seen: object) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class ResourceRule(Generic[S]):
    """What is wanted of one kind of owner.

    look: reads what the graph depends on besides the site (for a tenant's network: what Neutron says of it). Raises
        the error of the outside: then the rows stay as they are, since unknown is no change.
    graph: without I/O: equal arguments give equal graphs, and needs come before their dependents.
    adopted: what exists already, by what was read.
    """

    look: Callable[[OwnerRecord, World], S]
    graph: Callable[[OwnerRecord, Site, S], Graph]
    adopted: Callable[[S], Mapping[str, str]] = _none

    def __call__(self, owner: OwnerRecord, site: Site, world: World) -> DesiredResources:
        seen = self.look(owner, world)
        return DesiredResources(self.graph(owner, site, seen), self.adopted(seen))


ResourceRules = Mapping[OwnerKind, ResourceRule[Any]]
