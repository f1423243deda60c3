"""The input for planning an order: the site, the current state of cloud and fabric, and what the database says of the
present and the future."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from weft.engine.base.world import World
from weft.engine.book.capacity import Capacity
from weft.engine.book.occupancy import Sharing, look_before_claim, not_free, on_nodes, whole_hosts
from weft.engine.rows.basis import check_active
from weft.engine.rows.siteparts import SiteRecord
from weft.model.change import Replacement
from weft.model.errors import RefusedError, UnknownError, WeftError
from weft.model.fabric import TightPort
from weft.model.messages import placement
from weft.model.order import Order
from weft.model.placement import Explanation, FullPort, Occupancy, QuotaExcess, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.model.resources import NOTHING, Graph
from weft.model.site import Site
from weft.planning.fabric.portkeys import full as full_port
from weft.planning.kept import kept
from weft.planning.place.calendar import FOREVER
from weft.planning.place.sharing import Terms
from weft.planning.queue.book import Book
from weft.planning.shapes.change import make_change
from weft.planning.shapes.limits import ending, over_limit
from weft.planning.shapes.numbers import physical_networks, with_segments
from weft.planning.shapes.plan import plan_of
from weft.planning.shapes.resolve import as_placed, resolve
from weft.planning.shapes.shape import LineAsked, Needs, Resolved
from weft.ports.occupants import OnHost


@dataclass(frozen=True, slots=True)
class Window:
    """The time in which an order needs its nodes, in POSIX time.

    Attributes:
        start: `now`, or later.
        end: `FOREVER` if the lease has none.
        until: the end if it is absolute: a later start doesn't move it.
        pod: its own booking is ignored.
        came: when the order was submitted; open bookings of later orders don't bind it.
    """

    now: float
    start: float
    end: float
    until: float
    pod: str = ""
    came: float = FOREVER


@dataclass(frozen=True, slots=True)
class PlanningInput:
    """See the module's docstring.

    Attributes:
        down: node -> why Nova can't boot on it; machine -> why it can't be assigned.
        configured: fabric -> numbers that any of its managers has, including foreign ones within weft's range.
        segments: physical network -> VLANs of all networks of the cloud on it.
        silent: fabric -> why it is unreachable: no order can be placed on it now, others can.
        boots: what is booted (`PlacementRequest.boot`) -> node -> why Nova would not boot it there; or why that isn't
            known. Only contains what was queried.
        on_nodes: node -> what the cloud lists on its host, if anything or unknown. May be slightly stale.
        ports: host ports that may have no entry left for another segment.
        generation: of the site; what is decided by it is written only while it is active (`check_site`).
    """

    site: Site
    world: World
    down: dict[str, str]
    configured: dict[str, frozenset[int]]
    on_nodes: Mapping[str, OnHost] = field(default_factory=dict[str, OnHost])
    ports: tuple[TightPort, ...] = ()
    boots: Mapping[str, Mapping[str, str] | WeftError] = field(
        default_factory=dict[str, Mapping[str, str] | WeftError]
    )
    silent: Mapping[str, WeftError] = field(default_factory=dict[str, WeftError])
    segments: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    generation: int = 0

    def check_site(self, capacity: Capacity) -> None:
        """Raise `SiteChangedError` unless the site was still active when this capacity was read. Under `lock_capacity`
        it stays active until the transaction ends, since activating another one takes that lock."""
        check_active(self.generation, capacity.site)

    def boot_error(self, order: Resolved) -> WeftError | None:
        """Why its fabric is unreachable, or why the hosts on which Nova would boot it are unknown; None: all is
        known."""
        if silent := [self.silent[f] for f in order.fabrics if f in self.silent]:
            return silent[0]
        known = self.boots.get(order.boots) if order.boots else {}
        if known is None:
            return UnknownError(
                "look for hosts", f"cloud {order.cloud}", "the requirements of the image are not known yet"
            )
        return known if isinstance(known, WeftError) else None

    def health(self, capacity: Capacity, project: str) -> Occupancy:
        """What is out of order now for orders of a project."""
        return health(self.site, [self], capacity, project)

    def plan(self, pod_id: str, order: Resolved, capacity: Capacity, window: Window) -> Plan | Refusal:
        """The plan of an order in this window, avoiding everything booked or reserved; or why there is none.

        Raises `InputError` for what the site doesn't offer.
        """
        book, health = capacity.book(), self.health(capacity, order.project)
        at = window.now, window.start, window.end
        asks = terms_of(order.order, order.project)
        occupancy = book.occupancy(health, order.project, *at, window.pod, window.came, asks)
        used = with_segments(self.site, capacity.used, self.configured, self.segments)
        made = self._make(pod_id, order, occupancy, used)
        if isinstance(made, Plan):
            over = over_limit(order, made.placement.held, book, window.start, window.end, window.pod)
            return over or ending(made.graph, capacity.ending) or made
        if not order.shape.is_full(made):
            return made
        line = order.shape.line(LineAsked(book, self.site, order.where.name, health, window.now))
        return line.advise(made, order, window.pod, window.start, window.end, window.until)

    def change(
        self,
        plan: Plan,
        order: Order,
        capacity: Capacity,
        window: Window,
        remove: Collection[str] = (),
        replaces: Replacement | None = None,
    ) -> Plan | Refusal:
        """The next generation of an active plan; or why it is impossible.

        Args:
            window: from now to the end of the changed lease, with the pod's own id.
            remove, replaces: as for `make_change`.

        Raises `InputError` and `ConflictError` as `make_change`.
        """
        book = capacity.book()
        occupancy = book.occupancy(
            self.health(capacity, plan.project),
            plan.project,
            window.now,
            window.start,
            window.end,
            window.pod,
        )
        leaving = _leaving(plan, capacity, window.pod)
        made = make_change(plan, order, self.site, occupancy, leaving, remove, replaces)
        if isinstance(made, Refusal):
            return made
        over = None
        if made.change is None or made.change.nodes_added:
            resolved = resolve(as_placed(order, plan), plan.project, self.site)
            # What a replacement leaves isn't the project's wish: it continues for all nodes that fail together.
            still = () if replaces else _left(capacity, window.pod)
            held = made.placement.held
            over = over_limit(resolved, held, book, window.start, window.end, window.pod, still)
        return over or ending(made.graph, capacity.ending) or made

    def without_occupied(
        self,
        plan: Plan,
        servers_on: Callable[[Collection[str]], Mapping[str, Sharing]],
        nodes: Collection[str] | None = None,
        wait: bool = True,
    ) -> PlanningInput | None:
        """Check the hosts of a plan's nodes, now. None: nothing is on them; otherwise the input without those nodes.

        Args:
            servers_on: of nodes, servers of pods with parts of them.
            nodes: nodes of the plan to check; None: all.
            wait: see `look_before_claim`.

        Raises `UnknownError` if that is unknown for all of them.
        """
        facts, looked_at = self.world.clouds[plan.cloud], plan.placement.held if nodes is None else nodes
        reasons = look_before_claim(facts, self.site, plan.cloud, looked_at, servers_on, wait)
        return replace(self, down={**self.down, **reasons}) if reasons else None

    def check_possible(self, pod_id: str, order: Resolved) -> None:
        """Raise `RefusedError` for an order that would not fit even on an empty site."""
        made = self._make(pod_id, order, Occupancy(), UsedNumbers())
        if isinstance(made, Plan):
            made = over_limit(order, made.placement.held, Book(), 0, 1)
        if made is not None:
            raise refused(made)

    def check_quotas(self, project: str, plan: Plan, freed: Graph = NOTHING) -> None:
        """Raise `RefusedError` if the plan exceeds the cloud's quotas. Args: freed: what is gone before."""
        rows = self.world.clouds[plan.cloud].exceeded_quotas(project, plan.graph, plan.flavor, freed)
        if rows:
            said = [
                placement.QUOTA_ROW(resource=r.resource, used=r.used, wanted=r.wanted, limit=r.limit)
                for r in rows
            ]
            quotas = tuple(
                QuotaExcess(resource=r.resource, limit=r.limit, used=r.used, wanted=r.wanted) for r in rows
            )
            reason = placement.QUOTAS_EXCEEDED(rows=said)
            raise refused(Refusal(reason=reason, explanation=Explanation(considered=0), quotas=quotas))

    def _make(self, pod_id: str, order: Resolved, occupancy: Occupancy, used: UsedNumbers) -> Plan | Refusal:
        can = {name: fabric.capabilities for name, fabric in self.world.fabrics.items()}
        return plan_of(pod_id, order, occupancy, used, can)


def _leaving(plan: Plan, capacity: Capacity, pod: str) -> list[str]:
    """Nodes, and servers on shared nodes, that a pod is leaving and still holds."""
    numbers = {part.server for part in capacity.parts if part.leaving and str(part.pod_id) == pod}
    return [
        *_left(capacity, pod),
        *(server for server, number in plan.server_numbers.items() if number in numbers),
    ]


def _left(capacity: Capacity, pod: str) -> Iterator[str]:
    """Whole nodes that a pod is leaving and still holds."""
    return (node for node, hold in capacity.holds.items() if hold.leaving and str(hold.pod.id) == pod)


def refused(refusal: Refusal) -> RefusedError:
    """The error that carries a refusal."""
    return RefusedError(refusal.reason, refusal=refusal)


def gather(record: SiteRecord, world: World, cloud: str, needs: Needs) -> PlanningInput:
    """Query a cloud, and the managers of fabrics and accelerators that are needed there, for their state.

    Raises `UnknownError` if the cloud or a manager of accelerators is unreachable; unreachable fabrics are in `silent`.
    """
    site = record.site
    down = down_nodes(site, world, cloud)
    for name in sorted(needs.managers & world.machines.keys()):
        down.update(world.machines[name].unfit())
    configured: dict[str, frozenset[int]] = {}
    ports: list[TightPort] = []
    silent: dict[str, WeftError] = {}
    for name in sorted(needs.fabrics):
        if name in site.fabrics and not site.fabrics[name].words.segments:
            continue  # its segments need no manager
        try:
            usage = world.fabric(name).usage()
        except WeftError as error:
            silent[name] = error
            continue
        configured[name] = usage.numbers
        ports += usage.tight
    there = on_nodes(whole_hosts(site, cloud), world.clouds[cloud].servers_on_hosts())
    boots = _boots(site, world, cloud, needs.boots)
    segments = world.clouds[cloud].segments(physical_networks(site, cloud))
    return PlanningInput(
        site, world, down, configured, there, tuple(ports), boots, silent, segments, record.generation
    )


def _boots(
    site: Site, world: World, cloud: str, orders: Iterable[Resolved]
) -> dict[str, Mapping[str, str] | WeftError]:
    """See `PlanningInput.boots`. An image whose requirements are unknown only blocks its own orders."""
    found: dict[str, Mapping[str, str] | WeftError] = {}
    for order in orders:
        if order.boots in found:
            continue
        try:
            hosts = world.clouds[cloud].unfit(order.project, order.order.nodes.image, order.flavor)
        except WeftError as error:
            found[order.boots] = error
            continue
        found[order.boots] = {
            name: hosts[host]
            for name, host in (hosts_of(site, cloud).items() if hosts else ())
            if host in hosts
        }
    return found


def health(site: Site, inputs: Iterable[PlanningInput], capacity: Capacity, project: str = "") -> Occupancy:
    """What is out of order now, across all these inputs. Args: project: without what it reported; empty: for all."""
    down: dict[str, str] = {}
    held = capacity.book().leases.busy
    full: dict[tuple[str, str], FullPort] = {}
    unfit: dict[str, Mapping[str, str]] = {}
    for given in inputs:
        down |= {
            n.name: "none of the fabrics that it is on can be queried"
            for n in (site.nodes if given.silent else ())
            if n.hcas and {h.fabric for h in n.hcas} <= given.silent.keys()
        }
        down |= not_free(site, given.on_nodes, held, capacity.gone)
        down |= given.down
        unfit |= {boot: nodes for boot, nodes in given.boots.items() if nodes and isinstance(nodes, Mapping)}
        for port in given.ports:
            words = site.fabrics[port.fabric].words
            if found := full_port(port, words, capacity.used.segments.get(port.fabric, ())):
                full[port.fabric, port.port] = found
    reported = capacity.reported.get(project, {})
    more = {"full_ports": tuple(full.values()), "unfit": unfit, "reported": reported}
    return capacity.health(site, down).model_copy(update=more)


def down_nodes(site: Site, world: World, cloud: str) -> dict[str, str]:
    """Node -> why Nova can't boot on it. Raises `UnknownError` if the cloud is unreachable."""
    hosts = world.clouds[cloud].hosts()
    nodes = hosts_of(site, cloud)
    # Nearly always all are up, which a comparison of sets shows faster than a loop.
    bad = set(host_names(site, cloud).difference(hosts))
    if set(hosts.values()) != {"up"}:
        bad |= {host for host, state in hosts.items() if state != "up"}
    if not bad:
        return {}
    return {
        name: f"Nova host {host} is {hosts.get(host, 'not known to the cloud')}"
        for name, host in nodes.items()
        if host in bad
    }


def terms_of(order: Order, project: str) -> Terms:
    """The order's constraints on its leaves."""
    apart = frozenset(order.locality.apart_from)
    return Terms(project, apart, order.locality.exclusive, order.fabric.bisection_gbps)


@kept
def hosts_of(site: Site, cloud: str) -> Mapping[str, str]:
    """Node -> Nova host, of all nodes of a cloud."""
    return {n.name: n.nova_host for n in site.nodes if n.cloud == cloud}


@kept
def host_names(site: Site, cloud: str) -> frozenset[str]:
    """Nova host names of all nodes of a cloud."""
    return frozenset(hosts_of(site, cloud).values())
