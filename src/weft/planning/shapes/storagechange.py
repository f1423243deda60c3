"""Which changes of a running pod's storage are possible, checked before anything is touched. Pure.

Shares and volumes come and go while servers run: their access rules and attachments are outside of the guests. What
cloud-init does only when a server is created can't change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.model.change import Impossible
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.site import Site
from weft.model.specs import PortSpec, ServerSpec
from weft.model.storageorder import StorageOrder
from weft.planning.shapes.storage import check_storage

_IN_GUEST = instead("cloud-init sets it up when a server is created; change it on the servers")
_MADE = instead("a share or volume stays as created; add another under a new name, copy, and remove this one")
_NO_PORT = instead("a server has no port on the storage network; release the pod and order it again")
_IN_PLACE = frozenset({"keep"})


def impossible_storage(plan: Plan, order: Order, site: Site) -> tuple[Impossible, ...]:
    """Everything that can't change. Raises `InputError` for what the site doesn't have."""
    check_storage(order, plan.cloud, site.clouds[plan.cloud], site.clouds[plan.cloud].flavors[plan.flavor])
    return tuple(_impossible(plan, order, site))


def _impossible(plan: Plan, order: Order, site: Site) -> Iterator[Impossible]:
    before, after = _by_name(plan.order), _by_name(order)
    numbers = {key: n for n, key in enumerate(after)}
    for key in before.keys() | after.keys():
        was, becomes = before.get(key), after.get(key)
        field = f"storage.{numbers[key]}" if becomes else "storage"
        if was is None or becomes is None:
            entry = was or becomes
            assert entry is not None
            if entry.kind in ("export", "scratch"):
                yield _not(field, becomes, was, _IN_GUEST)
            elif becomes is not None and entry.kind == "share" and not _reach(plan, site):
                yield _not(field, becomes, was, _NO_PORT)
            continue
        for name in type(was).model_fields:
            old, new = getattr(was, name), getattr(becomes, name)
            if old != new and name not in _IN_PLACE:
                why = _IN_GUEST if name in ("mount", "read_only") else _MADE
                yield Impossible(field=f"{field}.{name}", value=_text(new), was=_text(old), allowed=why)


def _by_name(order: Order) -> Mapping[tuple[str, str], StorageOrder]:
    return {(e.kind, e.name): e for e in order.storage}


def _reach(plan: Plan, site: Site) -> bool:
    """Whether all servers have a port to mount the site's shares by: those created while the order had no share lack
    it."""
    network, resources = site.clouds[plan.cloud].storage.network, plan.graph.resources
    on_it = {r.key for r in resources if isinstance(r.spec, PortSpec) and r.spec.site_network == network}
    servers = [r.spec for r in resources if isinstance(r.spec, ServerSpec)]
    return network is None or not any(on_it.isdisjoint(s.ports) for s in servers)


def _not(field: str, becomes: StorageOrder | None, was: StorageOrder | None, why: str) -> Impossible:
    return Impossible(field=field, value=_entry(becomes), was=_entry(was), allowed=why)


def _entry(entry: StorageOrder | None) -> str:
    return f"{entry.kind} {entry.name}" if entry else "none"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    return {True: "yes", False: "no", None: "none"}[value] if isinstance(value, bool | None) else str(value)
