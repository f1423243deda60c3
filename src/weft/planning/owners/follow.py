"""How an owner's rows follow the graph that is wanted of it now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.model.resources import Graph, Resource


@dataclass(frozen=True, slots=True)
class Known:
    """One row.

    Attributes:
        wanted: whether the newest generation wants it.
        nowhere: nothing of it is outside: it was never asked for, or was seen gone.
    """

    resource: Resource
    wanted: bool
    nowhere: bool


@dataclass(frozen=True, slots=True)
class Follow:
    """What is to be written, by the rows' keys.

    Attributes:
        added: have no row yet.
        again: have a row that wasn't wanted for a while.
        changed: stay, and are wanted otherwise.
        removed: are not wanted any more, or must go before they can be wanted otherwise.
        going: the same, of before: there still, though wanted no more.
        later: of the graph, what comes only after something is gone.
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


def follow(rows: Mapping[str, Known], graph: Graph) -> Follow:
    """The difference between an owner's rows and the graph that is wanted of it now; nothing: they agree.

    What differs in more than its kind changes in place (`Row.in_place`) is taken away first, with all that needs it. It
    is wanted again by the call that comes after it was seen gone; until then it and what needs it are in no generation.
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
