"""How an owner's rows follow its desired graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.model.resources import Graph, Resource


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """What is known of a resource from its row.

    Attributes:
        wanted: whether the newest generation includes it.
        nowhere: nothing of it exists outside: it was never requested, or was seen gone.
    """

    resource: Resource
    wanted: bool
    nowhere: bool


@dataclass(frozen=True, slots=True)
class Follow:
    """The changes to write, by key.

    Attributes:
        added: have no row yet.
        again: have a row that earlier generations had dropped.
        changed: stay, with a different spec.
        removed: are no longer wanted, or must be removed before they can be recreated differently.
        going: were removed by earlier changes and still exist.
        later: resources of the graph that must wait until something else is gone.
    """

    added: tuple[Resource, ...] = ()
    again: tuple[Resource, ...] = ()
    changed: tuple[Resource, ...] = ()
    removed: tuple[str, ...] = ()
    going: tuple[str, ...] = ()
    later: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Whether there is something to write."""
        return bool(self.added or self.again or self.changed or self.removed)


def follow(rows: Mapping[str, ResourceRow], graph: Graph) -> Follow:
    """The difference between an owner's rows and its desired graph; empty: they agree.

    A resource that differs in a field that can't change in place (`KindRow.in_place`) is removed first, with all that
    needs it. A later call adds them again, once they were seen gone; until then they are in no generation.
    """
    added: list[Resource] = []
    again: list[Resource] = []
    changed: list[Resource] = []
    removed = sorted(rows.keys() - graph.by_key().keys())
    removed = [key for key in removed if rows[key].wanted]
    out: set[str] = set()
    for resource in graph.resources:  # needs first
        key, row = resource.key, rows.get(resource.key)
        same = row is None or row.nowhere or _in_place(row.resource, resource)
        if not same or out.intersection(resource.needs):
            out.add(key)
            removed += [key] if row is not None and row.wanted else []
        elif row is None:
            added.append(resource)
        elif not row.wanted:
            again.append(resource)
        elif row.resource != resource:
            changed.append(resource)
    wanted = graph.by_key().keys() - out
    going = [key for key, row in sorted(rows.items()) if not (row.wanted or row.nowhere or key in wanted)]
    return Follow(tuple(added), tuple(again), tuple(changed), tuple(removed), tuple(going), frozenset(out))


def _in_place(was: Resource, now: Resource) -> bool:
    """Whether one can become the other without being recreated."""
    if was.kind is not now.kind:
        return False
    fields = {name: getattr(now.spec, name) for name in was.kind.row.in_place}
    return was.model_copy(update={"needs": now.needs, "spec": was.spec.model_copy(update=fields)}) == now
