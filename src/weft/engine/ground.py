"""What an order is planned on: the site, what cloud and fabric say now, and what the database says of now and later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from weft.engine.capacity import Capacity
from weft.engine.occupancy import look_before_claim, not_free, on_nodes, whole_nodes
from weft.engine.world import World
from weft.model.errors import InputError, RefusedError, UnknownError, WeftError
from weft.model.order import Order
from weft.model.placement import FullPort, Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.model.site import Site
from weft.planning.fabric.portkeys import PortKeys, crowded
from weft.planning.queue.advice import advise, over_limit
from weft.planning.queue.lines import timeline, wanted
from weft.planning.shapes.numbers import physical_networks, with_segments
from weft.planning.shapes.plan import (
    boot_key,
    fabrics_of,
    make_plan,
    resolve_cloud,
    resolve_fabric,
    resolve_flavor,
)
from weft.ports.occupants import OnHost


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when an order wants its nodes, in POSIX time.

    Attributes:
        start: `now`, or later.
        end: `FOREVER` if the lease has none.
        until: the end where it is a moment and not a duration: a later start doesn't move it.
        pod: whose promise doesn't stand in its own way.
    """

    now: float
    start: float
    end: float
    until: float
    pod: str = ""


@dataclass(frozen=True, slots=True)
class Ground:
    """See the module's docstring.

    Attributes:
        down: node -> why Nova can't boot on it; IPU-Machine -> why it can't be given to anybody.
        pkeys: fabric -> P_Keys that any of its managers is told of, somebody else's inside weft's range included.
        segments: physical network -> VLANs of the cloud's networks on it, anybody's.
        silent: fabric -> why it can't be asked: no order can be placed on it now, others can.
        boots: what is booted (`PlacementRequest.boot`) -> node -> why Nova would not boot it there; or why that isn't
            known. What was not asked about isn't here.
        on_nodes: node -> what the cloud lists on its host, where that is anything or isn't known. A little old.
        ports: host ports that may have no entry left for a further P_Key, and how many entries their tables have.
    """

    site: Site
    world: World
    down: dict[str, str]
    pkeys: dict[str, frozenset[int]]
    on_nodes: Mapping[str, OnHost] = field(default_factory=dict[str, OnHost])
    ports: tuple[tuple[PortKeys, int], ...] = ()
    boots: Mapping[str, Mapping[str, str] | WeftError] = field(
        default_factory=dict[str, Mapping[str, str] | WeftError]
    )
    silent: Mapping[str, WeftError] = field(default_factory=dict[str, WeftError])
    segments: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])

    def boot_error(self, project: str, order: Order) -> WeftError | None:
        """Why its fabric can't be asked, or why it isn't known on which hosts Nova would boot it; None: all is known.

        Raises `InputError` for names that the site doesn't know.
        """
        if order.ipus is not None:
            return None
        cloud = resolve_cloud(order, self.site)
        flavor = resolve_flavor(order, self.site.clouds[cloud], cloud)
        if silence := self.silent.get(_fabric(order, self.site, cloud)):
            return silence
        known = self.boots.get(boot_key(cloud, project, order.nodes.image, flavor))
        if known is None:
            return UnknownError(
                "look for hosts", f"cloud {cloud}", "it was not asked yet what the image needs"
            )
        return known if isinstance(known, WeftError) else None

    def health(self, capacity: Capacity) -> Occupancy:
        """What is out of order now."""
        return health(self.site, [self], capacity)

    def plan(
        self, pod_id: str, project: str, order: Order, capacity: Capacity, window: Window
    ) -> Plan | Refusal:
        """The order in this window, clear of everything that is promised or set aside; or why not.

        Raises `InputError` for names that the site doesn't know.
        """
        book, health = capacity.book(), self.health(capacity)
        occupancy = book.occupancy(health, project, window.now, window.start, window.end, window.pod)
        used = with_segments(self.site, capacity.used, self.pkeys, self.segments)
        made = self._make(pod_id, project, order, occupancy, used)
        if isinstance(made, Plan):
            limit = self.site.queue.projects.get(project)
            refused = over_limit(limit, book, project, order, window.start, window.end, window.pod)
            return refused or made
        if order.ipus is None and not made.explanation.filters:  # not a matter of nodes
            return made
        where, ask = wanted(order, project, self.site)
        line = timeline(book, self.site, where, health, window.now)
        line.cancel(window.pod)
        return advise(made, line, ask, book, window.start, window.end, window.until, window.now)

    def without_occupied(self, plan: Plan) -> Ground | None:
        """Look at the hosts of a plan's nodes, now. None: nothing is on them; else the ground without those nodes.

        Raises `UnknownError` if it can't be told of any of them.
        """
        facts = self.world.clouds[plan.cloud]
        reasons = look_before_claim(facts, self.site, plan.cloud, plan.placement.held)
        return replace(self, down={**self.down, **reasons}) if reasons else None

    def check_possible(self, pod_id: str, project: str, order: Order) -> None:
        """Raise `RefusedError` for an order that would not fit even if nobody else were there."""
        made = self._make(pod_id, project, order, Occupancy(), UsedNumbers())
        limit = self.site.queue.projects.get(project)
        if isinstance(made, Plan):
            made = over_limit(limit, Capacity({}, {}, UsedNumbers()).book(), project, order, 0, 1)
        if made is not None:
            raise refused(made)

    def check_quotas(self, project: str, plan: Plan) -> None:
        """Raise `RefusedError` if the cloud's quotas don't have room for everything that the plan makes."""
        rows = self.world.clouds[plan.cloud].exceeded_quotas(project, plan.graph, plan.flavor)
        if rows:
            said = "; ".join(f"{r.resource}: {r.used} used + {r.wanted} wanted > {r.limit}" for r in rows)
            quotas = [
                {"resource": r.resource, "limit": r.limit, "used": r.used, "wanted": r.wanted} for r in rows
            ]
            raise RefusedError(f"the project's quotas would be exceeded: {said}", {"quotas": quotas})

    def _make(
        self, pod_id: str, project: str, order: Order, occupancy: Occupancy, used: UsedNumbers
    ) -> Plan | Refusal:
        can = {name: fabric.capabilities for name, fabric in self.world.fabrics.items()}
        return make_plan(pod_id, project, order, self.site, occupancy, used, can)


def refused(refusal: Refusal) -> RefusedError:
    return RefusedError(refusal.reason, refusal.model_dump(mode="json"))


def look_around(
    site: Site, world: World, cloud: str, machines: bool = False, orders: Iterable[tuple[str, Order]] = ()
) -> Ground:
    """Ask a cloud, and the fabrics of the orders (without any: all of the cloud's), how they are.

    Raises `UnknownError` if the cloud can't be asked; a fabric that can't is in `Ground.silent`.

    Args:
        machines: ask the cloud's IPU-Machines too.
        orders: (project, order) that it is for: what they boot may need something of the hosts.
    """
    down = down_nodes(site, world, cloud)
    for name, reader in world.machines.items() if machines else ():
        if site.ipu_pods[name].cloud == cloud:
            down.update(reader.unfit())
    pkeys: dict[str, frozenset[int]] = {}
    ports: list[tuple[PortKeys, int]] = []
    silent: dict[str, WeftError] = {}
    orders = list(orders)
    for name in _fabrics(site, cloud, orders):
        try:
            fabric = world.fabric(name)
            files = fabric.files()
            suspects = crowded(site, name, files.in_force)
            entries = fabric.entries([p.guid for p in suspects]) if suspects else {}
        except WeftError as error:
            silent[name] = error
            continue
        pkeys[name] = files.pkeys
        ports += [(p, entries[p.guid]) for p in suspects if p.guid in entries]
    there = on_nodes(whole_nodes(site, cloud), world.clouds[cloud].servers_on_hosts())
    boots = _boots(site, world, cloud, orders)
    segments = world.clouds[cloud].segments(physical_networks(site, cloud))
    return Ground(site, world, down, pkeys, there, tuple(ports), boots, silent, segments)


def _fabrics(site: Site, cloud: str, orders: Iterable[tuple[str, Order]]) -> list[str]:
    """Fabrics that have to be asked: a silent one of nobody's order must not cost the others their time."""
    found = {name for _, order in orders if order.ipus is None and (name := _fabric(order, site, cloud))}
    return sorted(found) if orders else list(fabrics_of(site, cloud, None))


def _fabric(order: Order, site: Site, cloud: str) -> str:
    """The order's fabric; empty if it wants none, or names none that there is: planning says so."""
    try:
        flavor = site.clouds[cloud].flavors[resolve_flavor(order, site.clouds[cloud], cloud)]
        return resolve_fabric(order, site, cloud, flavor.accelerators) if order.fabric.rdma else ""
    except InputError:
        return ""


def _boots(
    site: Site, world: World, cloud: str, orders: Iterable[tuple[str, Order]]
) -> dict[str, Mapping[str, str] | WeftError]:
    """See `Ground.boots`. One project's image that can't be asked about stands in the way of its own orders only."""
    found: dict[str, Mapping[str, str] | WeftError] = {}
    for project, order in orders:
        try:
            flavor = resolve_flavor(order, site.clouds[cloud], cloud)
        except InputError:  # it names what the site doesn't have any more: planning says so
            continue
        key = boot_key(cloud, project, order.nodes.image, flavor)
        if key in found or order.ipus is not None:
            continue
        try:
            hosts = world.clouds[cloud].unfit(project, order.nodes.image, flavor)
        except WeftError as error:
            found[key] = error
            continue
        found[key] = {
            n.name: hosts[n.nova_host] for n in site.nodes if n.cloud == cloud and n.nova_host in hosts
        }
    return found


def health(site: Site, grounds: Iterable[Ground], capacity: Capacity) -> Occupancy:
    """What is out of order now, on all these grounds."""
    down: dict[str, str] = {}
    full: dict[int, FullPort] = {}
    unfit: dict[str, Mapping[str, str]] = {}
    for ground in grounds:
        down |= {
            n.name: "no fabric that it is on can be asked: what is free there is unknown"
            for n in site.nodes
            if ground.silent and n.hcas and {h.fabric for h in n.hcas} <= ground.silent.keys()
        }
        down |= not_free(ground.on_nodes, capacity.holds, capacity.gone)
        down |= ground.down
        unfit |= {boot: nodes for boot, nodes in ground.boots.items() if nodes and isinstance(nodes, Mapping)}
        for port, entries in ground.ports:
            if found := port.full(entries, capacity.used.pkeys.get(port.fabric, ())):
                full[port.guid] = found
    return capacity.health(site, down).model_copy(update={"full_ports": tuple(full.values()), "unfit": unfit})


def down_nodes(site: Site, world: World, cloud: str) -> dict[str, str]:
    """Node -> why Nova can't boot on it. Raises `UnknownError` if the cloud can't be asked."""
    hosts = world.clouds[cloud].hosts()
    return {
        n.name: f"Nova host {n.nova_host} is {hosts.get(n.nova_host, 'not known to the cloud')}"
        for n in site.nodes
        if n.cloud == cloud and hosts.get(n.nova_host) != "up"
    }
