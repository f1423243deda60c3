"""Compares two orders of one pod by field: what changes, and what can't on an existing pod. Pure.

Closed by default: a field that isn't in the shape's `changeable` can't be changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from weft.model.change import FieldChange, Impossible
from weft.model.ids import span
from weft.model.localityorder import LEVELS
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.site import Site
from weft.planning.shapes.resolve import resolve_cloud, resolve_flavor, shape_of
from weft.planning.shapes.shape import AGAIN, Shape
from weft.planning.shapes.storagechange import impossible_storage

MEANINGLESS = frozenset({"name", "queue"})
"""Fields that are meaningless for an existing pod: its name, and whether it would have waited."""

_ON_CREATION = "set when servers are created"
_WHY: Mapping[str, str] = {
    "nodes.image": instead("{why}; {then}, or install on the servers", why=_ON_CREATION, then=AGAIN),
    "nodes.names": instead("servers keep the names with which they were created; {then}", then=AGAIN),
    "nodes.flavor": instead("{why}; {then}", why=_ON_CREATION, then=AGAIN),
    "nodes.accelerators": instead("{why}; {then}", why=_ON_CREATION, then=AGAIN),
    "access.key_pair": instead("{why}; add keys to ~/.ssh/authorized_keys on the servers", why=_ON_CREATION),
    "access.ssh_key": instead("{why}; add keys to ~/.ssh/authorized_keys on the servers", why=_ON_CREATION),
    "storage": instead("{why}; {then}", why=_ON_CREATION, then=AGAIN),
    "access.user_data": instead("cloud-init runs once, when a server is created; {then}", then=AGAIN),
    "locality.file": instead("cloud-init runs once, when a server is created; {then}", then=AGAIN),
    "network": instead("servers have addresses in it; {then}", then=AGAIN),
    "lease.start": instead("it has started"),
    "cloud": instead("servers don't move between clouds; {then}", then=AGAIN),
}
_OTHERWISE = instead("it can't be changed on an existing pod; {then}", then=AGAIN)


@dataclass(frozen=True, slots=True)
class OrderChange:
    """What is different.

    Attributes:
        order: the new order without what can't be changed.
    """

    order: Order
    fields: tuple[FieldChange, ...] = ()
    impossible: tuple[Impossible, ...] = ()


def order_change(plan: Plan, order: Order, site: Site) -> OrderChange:
    """Compares the order with the pod's. Omitted names are taken from the pod.

    Raises `InputError` for names that the site doesn't know.
    """
    before, after = _flat(_named(plan, plan.order, site)), _flat(_named(plan, order, site))
    may = shape_of(plan.order).changeable
    fields: list[FieldChange] = []
    impossible: list[Impossible] = []
    document = _named(plan, order, site)
    for path in sorted(before.keys() | after.keys()):
        was, becomes = before.get(path), after.get(path)
        if was == becomes or path in MEANINGLESS:
            continue
        if path == "storage" and path in may and (found := impossible_storage(plan, order, site)):
            impossible += found
            _put(document, path, was, path in before)
            continue
        if path in may:
            fields.append(FieldChange(field=path, was=_text(was), becomes=_text(becomes)))
            continue
        why = _why(path, shape_of(plan.order))
        impossible.append(Impossible(field=path, value=_text(becomes), was=_text(was), allowed=why))
        _put(document, path, was, path in before)
    return OrderChange(_order(document, order, impossible), tuple(fields), tuple(impossible))


def waiting_change(before: Order, after: Order) -> tuple[FieldChange, ...]:
    """The difference of a waiting order: any field can change."""
    old, new = _flat(before.model_dump(mode="json")), _flat(after.model_dump(mode="json"))
    return tuple(
        FieldChange(field=path, was=_text(old.get(path)), becomes=_text(new.get(path)))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path) and path not in MEANINGLESS
    )


_HARMLESS = (
    "access.",
    "network.",
    "nodes.names",
    "storage",
    "locality.preferred",
    "locality.preferences",
    "locality.file",
    "lease.start",
    "on_drain",
    "on_failure",
    "verify",
)
"""Fields that never ask for more than before, with any value. A later start is checked separately."""


def asks_no_more(before: Order, after: Order) -> bool:
    """Whether a waiting order may keep its position: it asks for no more nodes, no closer, and no longer."""
    fewer = after.nodes.count <= before.nodes.count and after.nodes.spare <= before.nodes.spare
    wider = LEVELS.index(after.locality.required) >= LEVELS.index(before.locality.required)
    compared = {"nodes.count", "nodes.spare", "locality.required", "lease.duration", "lease.end"}
    others = (c.field for c in waiting_change(before, after) if c.field not in compared)
    return fewer and wider and _no_longer(before, after) and all(f.startswith(_HARMLESS) for f in others)


def _no_longer(before: Order, after: Order) -> bool:
    old, new = before.lease, after.lease
    if (
        (old.start or new.start)
        and old.start != new.start
        and (not new.start or (old.start and new.start < old.start))
    ):
        return False
    if (old.duration, old.end) == (new.duration, new.end):
        return True
    if old.end is not None or new.end is not None:
        return old.duration is None and old.end is not None and new.end is not None and new.end <= old.end
    if new.duration is None:
        return False
    return old.duration is None or span(new.duration) <= span(old.duration)


def _order(document: dict[str, Any], order: Order, impossible: list[Impossible]) -> Order:
    """The order without impossible changes."""
    return Order.model_validate(document) if impossible else order


def _why(path: str, shape: Shape) -> str:
    """Why it can't be changed and what to do instead, by the longest part of the path with a sentence."""
    for field, why in shape.fixed.items():
        if path == field or path.startswith(f"{field}."):
            return why
    parts = path.split(".")
    known = (_WHY.get(".".join(parts[:n])) for n in range(len(parts), 0, -1))
    return next((w for w in known if w), _OTHERWISE)


def _named(plan: Plan, order: Order, site: Site) -> dict[str, Any]:
    """The order as a document, with equivalent names normalized."""
    document = order.model_dump(mode="json")
    cloud = plan.cloud if order.cloud is None else resolve_cloud(order, site)
    if order.cloud in (None, plan.cloud):
        document["cloud"] = plan.cloud
        if resolve_flavor(order, site.clouds[cloud], cloud) == plan.flavor:
            document["nodes"] |= {"flavor": plan.flavor, "accelerators": None}
    if order.fabric.name is None and plan.fabric in site.fabrics:
        document["fabric"]["name"] = plan.fabric
    if order.access.ssh_key is not None:  # its comment doesn't matter
        document["access"]["ssh_key"] = " ".join(order.access.ssh_key.split()[:2])
    document["access"]["ssh_from"] = sorted({str(n) for n in order.access.ssh_from})
    document["locality"]["apart_from"] = sorted(set(order.locality.apart_from))
    return document


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_leaves(document, ""))


def _leaves(document: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        path = above + name
        if isinstance(value, Mapping) and path in _PARTS:
            yield from _leaves(value, path + ".")  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield path, value


_PARTS = frozenset({"nodes", "fabric", "locality", "access", "network", "lease"})
"""Parts of an order whose fields are compared one by one; others as a whole."""


def _put(document: dict[str, Any], path: str, value: object, given: bool) -> None:
    """Set a field, or leave it out as it was before: at its default."""
    *parts, last = path.split(".")
    for part in parts:
        document = document[part]
    if given:
        document[last] = value
    else:
        del document[last]


def _text(value: object) -> str:
    """A field's value for people, in one line."""
    match value:
        case None | [] | "":
            return "none"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(_text(v) for v in value)  # pyright: ignore[reportUnknownVariableType]
        case dict():
            pairs: dict[str, object] = value  # pyright: ignore[reportUnknownVariableType]
            return " ".join(f"{k}={_text(v)}" for k, v in pairs.items() if v is not None)
        case _:
            text = " ".join(str(value).split())
            return text if len(text) <= 80 else text[:79] + "…"
