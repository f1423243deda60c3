"""The plan of an order of IPUs, or a refusal with an explanation. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network

from weft.model.errors import ConflictError, InputError
from weft.model.ipuorder import IpusOrder
from weft.model.localityorder import LocalityOrder
from weft.model.messages import orders, placement
from weft.model.messages.orders import instead
from weft.model.offer import ReleaseOffer, offered
from weft.model.order import FabricOrder, Order
from weft.model.placement import Explanation, Occupancy, Placement, Refusal
from weft.model.plan import Allotment, Plan, UsedNumbers
from weft.model.resources import Graph, Resource
from weft.model.site import IpuPod, Site
from weft.model.specs import NetworkSpec, PortSpec, ServerSpec, SubnetSpec, VipuClusterSpec
from weft.planning.fabric.datanetwork import data_vlans
from weft.planning.fabric.segments import check_given, exhausted, management_size, management_vlan
from weft.planning.fabric.subnets import NO_SUBNETS, cut
from weft.planning.place.slots import HOST, is_slot, slot
from weft.planning.shapes.ipu.graph import CLUSTER, CONTROLLER, IpuParts, ipu_graph
from weft.planning.shapes.ipu.room import Host, Picked, free_slots, hosts_of, most_room
from weft.planning.shapes.ipu.run import choose_run
from weft.planning.shapes.shape import Elsewhere, Resolved

POPLAR_SERVERS = 16
"""Maximum per pod: this many addresses are kept for them (`weft.planning.shapes.ipu.check.KEPT`)."""
CONTROLLER_ADDRESSES_FROM = 1
"""The block's first address is its network's."""


def make_ipu_plan(
    pod_id: str, resolved: Resolved, wanted: IpusOrder, occupancy: Occupancy, used: UsedNumbers
) -> Plan | Refusal:
    """Plan an order of IPUs; arguments and result are those of `weft.planning.shapes.plan.make_plan`."""
    order, site, cloud, flavor = resolved.order, resolved.site, resolved.cloud, resolved.flavor
    chosen = _choose(wanted, order.nodes.count, site, cloud, occupancy)
    if isinstance(chosen, Refusal):
        return chosen
    picked, placement = chosen
    run, name = picked.run, picked.run.row.ipu_pod
    parts = IpuParts(
        name,
        run.machines,
        run.whole_ring,
        tuple(h.node for h in picked.poplars),
        picked.controller.node,
    )
    places = {f"{HOST}{h.node.name}": h.free[0] for h in (*picked.poplars, picked.controller)}
    allotment = allot_ipus(site, cloud, order, parts, used, places)
    if isinstance(allotment, Refusal):
        return allotment
    graph = ipu_graph(pod_id, order, parts, allotment, site, cloud, flavor)
    check_reach(graph, site, name)
    return Plan(
        pod_id=pod_id,
        project=resolved.project,
        site=site.name,
        order=order,
        cloud=cloud,
        fabric=name,
        flavor=flavor,
        placement=placement,
        allotment=allotment,
        graph=graph,
    )


def place_ipus(
    plan: Plan, order: Order, wanted: IpusOrder, site: Site, occupancy: Occupancy, lost: Collection[str]
) -> Elsewhere | Refusal:
    """The whole pod placed again, its own machines and slots free: a V-IPU cluster is created as a whole."""
    own = {*plan.placement.held, *(f"{s}/{n}" for s, n in plan.allotment.numbers.items() if is_slot(s))}
    busy = {node: pod for node, pod in occupancy.busy.items() if node not in own}
    occupancy = occupancy.model_copy(update={"busy": busy})
    chosen = _choose(wanted, order.nodes.count, site, plan.cloud, occupancy)
    if isinstance(chosen, Refusal):
        return chosen
    picked, placement = chosen
    slots = tuple(slot(h.node.name, h.free[0]) for h in (*picked.poplars, picked.controller))
    there = set(plan.placement.held)
    moves = tuple(n for n in plan.placement.held if n not in placement.held and n not in lost)
    return Elsewhere(placement, tuple(n for n in placement.nodes if n.node not in there), slots, moves=moves)


def check_ipu_order(order: Order, wanted: IpusOrder, site: Site, cloud: str) -> None:
    """Raise `InputError` for an invalid order."""
    own = sorted(n for n, p in site.ipu_pods.items() if p.cloud == cloud)
    if wanted.ipu_pod is not None and wanted.ipu_pod not in own:
        raise InputError(
            "ipus.ipu_pod",
            wanted.ipu_pod,
            instead("IPU-PODs of cloud {cloud}: {known}", cloud=cloud, known=", ".join(own) or "none"),
        )
    if not own:
        raise InputError("ipus", wanted.count, instead("cloud {cloud} has no IPU-POD", cloud=cloud))
    if order.nodes.count > POPLAR_SERVERS:
        raise InputError(
            "nodes.count",
            order.nodes.count,
            instead("at most {poplar_servers} Poplar servers", poplar_servers=POPLAR_SERVERS),
        )
    if order.nodes.kind != "virtual":
        raise InputError(
            "nodes.kind", order.nodes.kind, instead("virtual or omitted: Poplar servers are virtual machines")
        )
    if order.nodes.sharing != "dedicated":
        raise InputError(
            "nodes.sharing", order.nodes.sharing, instead("dedicated or omitted: IPUs are assigned whole")
        )
    if order.nodes.spare:
        raise InputError(
            "nodes.spare", order.nodes.spare, instead("0 or omitted: orders of IPUs have no spares")
        )
    if order.fabric != FabricOrder():
        raise InputError(
            "fabric", "given", instead("must be omitted: IPU pods use the IPU-POD's own data network")
        )
    if order.locality != LocalityOrder():
        raise InputError(
            "locality", "given", instead("must be omitted: IPUs are always adjacent in one IPU-POD")
        )
    if order.network.rdma is not None:
        allowed = instead("must be omitted: the data network uses the IPU-POD's subnet")
        raise InputError("network.rdma", str(order.network.rdma), allowed)
    check_given(order.network, order.nodes.count + 1, 0)
    given = order.network.management
    for name in own if given is not None else ():
        for what, block in closed_blocks(site.ipu_pods[name]):
            if given is not None and given.overlaps(block):
                allowed = f"must not overlap the {what} network {block} of IPU-POD {name}"
                raise InputError("network.management", str(given), allowed)


def closed_blocks(pod: IpuPod) -> tuple[tuple[str, IPv4Network], ...]:
    """Networks that no tenant may reach, with their addresses."""
    return (("IPU-Gateway", pod.gateway.addresses), ("BMC", pod.bmc.addresses))


def _choose(
    wanted: IpusOrder, servers: int, site: Site, cloud: str, occupancy: Occupancy
) -> tuple[Picked, Placement] | Refusal:
    """The best run of an IPU-POD that also has capacity for the servers, by `weft.planning.shapes.ipu.room.pick`."""
    hosts: dict[str, tuple[tuple[Host, ...], Host]] = {}
    lacking: dict[str, Refusal] = {}
    for name in sorted(n for n, p in site.ipu_pods.items() if p.cloud == cloud):
        poplars = choose_hosts("poplar", name, servers, site, cloud, occupancy)
        controllers = choose_hosts("controller", name, 1, site, cloud, occupancy)
        if isinstance(poplars, Refusal):
            lacking[name] = poplars
        elif isinstance(controllers, Refusal):
            lacking[name] = controllers
        else:
            hosts[name] = poplars, controllers[0]
    full = {name: refusal.reason for name, refusal in lacking.items()}
    chosen = choose_run(wanted.machines, cloud, wanted.ipu_pod, site, occupancy, full)
    if not isinstance(chosen, Refusal):
        run, placement = chosen
        picked = Picked(run, *hosts[run.row.ipu_pod])
        return picked, _with_hosts(placement, picked)
    anywhere = choose_run(wanted.machines, cloud, wanted.ipu_pod, site, occupancy)
    return anywhere if isinstance(anywhere, Refusal) else lacking[anywhere[0].row.ipu_pod]


def choose_hosts(
    role: str, ipu_pod: str, count: int, site: Site, cloud: str, occupancy: Occupancy
) -> tuple[Host, ...] | Refusal:
    """This many different hosts of that role: those with the most free capacity, then by name."""
    what = {"poplar": "Poplar servers", "controller": "nodes for V-IPU controllers"}[role]
    there = [n for n in hosts_of(site, role, cloud) if n.ipu_pod in (None, ipu_pod)]
    taken = occupancy.busy.keys() | occupancy.reserved.keys()
    hosts = [free_slots(n, taken) for n in there]
    checked = [(h, _unfit(h, occupancy)) for h in hosts]
    fit = [h for h, why in checked if why is None]
    if found := most_room(fit, ipu_pod, count):
        return found
    why = "; ".join(f"{h.node.name}: {reason}" for h, reason in checked if reason is not None)
    place = f"IPU-POD {ipu_pod}"
    reason = placement.TOO_FEW_HOSTS(place=place, there=len(fit), what=what, needed=count, why=why)
    fits = (offered("nodes.count", count, len(fit)),) if fit and role == "poplar" else ()
    later = (ReleaseOffer(),) if any(not h.free for h in hosts) else ()
    return Refusal(
        reason=reason,
        explanation=Explanation(considered=len(there), chosen=reason),
        would_fit=(*fits, *later),
    )


def _unfit(host: Host, occupancy: Occupancy) -> str | None:
    node = host.node
    known = node.maintenance or occupancy.out_of_service(node.name)
    return known or (None if host.free else f"all its {node.servers} slots are taken")


def allot_ipus(
    site: Site, cloud: str, order: Order, parts: IpuParts, used: UsedNumbers, places: Mapping[str, int]
) -> Allotment | Refusal:
    """VLANs, subnets and the controller's address; `places` on shared hosts are chosen."""
    pod, management = site.ipu_pods[parts.ipu_pod], site.clouds[cloud].management
    data, numbers = data_vlans(site, parts.ipu_pod), dict(places)
    controllers = range(CONTROLLER_ADDRESSES_FROM, pod.gateway.controllers.num_addresses - 1)
    controller = f"controller/{parts.ipu_pod}"
    ranges: tuple[tuple[str, Sequence[int], Collection[int], str], ...] = (
        (data.space, data.allowed.numbers(), data.taken(used), "VLANs of its data network"),
        (
            controller,
            controllers,
            used.spaces.get(controller, ()),
            "addresses for V-IPU controllers",
        ),
    )
    for space, numbered, taken_there, what in ranges:
        free = next((n for n in numbered if n not in taken_there), None)
        if free is None:
            return exhausted(placement.NUMBERS_EXHAUSTED(place=f"IPU-POD {parts.ipu_pod}", what=what))
        numbers[space] = free
    vlan = management_vlan(management, cloud, used)
    if vlan is None:
        return exhausted(placement.NUMBERS_EXHAUSTED(place=f"cloud {cloud}", what="its management VLANs"))
    taken = used.management_cidrs.get(cloud, NO_SUBNETS)
    size = management_size(len(parts.poplars) + 1)
    cidr = order.network.management or cut(management.addresses, management.prefix, size, taken)
    if cidr is None:
        return exhausted(
            placement.SUBNETS_EXHAUSTED(
                place=f"cloud {cloud}", field=f"management.addresses {management.addresses}"
            )
        )
    numbers |= vlan
    return Allotment(rdma_cidr=str(pod.data.addresses), management_cidr=str(cidr), numbers=numbers)


def check_reach(graph: Graph, site: Site, ipu_pod: str) -> None:
    """Check that nothing of the tenant is connected to the gateways' or BMCs' network.

    Raises ValueError: the checks of site and order exclude this; a programming error.
    """
    found = [*_reaching(graph, site.ipu_pods[ipu_pod])]
    if found:
        raise ValueError(f"a tenant would reach one of the site's own networks: {'; '.join(found)}")


def _reaching(graph: Graph, pod: IpuPod) -> Iterator[str]:
    closed = {(n.physical_network, n.vlan) for n in (pod.gateway, pod.bmc)}
    for r in graph.resources:
        match r.spec:
            case PortSpec(site_network=str() as network) if r.owner == "tenant":
                yield f"{r.key} is on {network}"
            case NetworkSpec(physical_network=network, segment=segment) if (network, segment) in closed:
                yield f"{r.key} is VLAN {segment} on {network}"
            case SubnetSpec(cidr=cidr):
                for what, block in closed_blocks(pod):
                    if IPv4Network(cidr).overlaps(block):
                        yield f"{r.key} {cidr} overlaps the {what} network {block}"
            case _:
                pass


def _with_hosts(placement: Placement, picked: Picked) -> Placement:
    """The placement with the hosts in its explanation."""
    servers = ", ".join(h.node.name for h in picked.poplars)
    text = (
        f"{placement.explanation.chosen}; Poplar server on {servers}, "
        f"V-IPU controller on {picked.controller.node.name}: the hosts with the most free capacity"
    )
    explanation = placement.explanation.model_copy(update={"chosen": text})
    return placement.model_copy(update={"explanation": explanation})


def parts_of(plan: Plan, site: Site) -> IpuParts:
    """The parts of a plan's pod. Raises `ConflictError` if the site no longer has some of them."""
    machines = {m.name: m for m in site.ipu_machines}
    graph = plan.graph.by_key()
    cluster = graph[CLUSTER].spec
    assert isinstance(cluster, VipuClusterSpec)
    hosts = {n.nova_host: n for n in site.nodes if n.cloud == plan.cloud}
    poplars = [r for r in plan.graph.resources if isinstance(r.spec, ServerSpec) and r.key != CONTROLLER]
    # In the order of their addresses, as they were chosen.
    poplars.sort(key=lambda r: IPv4Address(_address(graph[f"port/{r.key.split('/')[1]}/management"])))
    servers = [r.spec.host for r in (*poplars, graph[CONTROLLER]) if isinstance(r.spec, ServerSpec)]
    gone = [n.node for n in plan.placement.nodes if n.node not in machines] + [
        h for h in servers if h not in hosts
    ]
    if gone:
        raise ConflictError(orders.NODE_NOT_IN_SITE(node=gone[0], pod=plan.order.name, site=site.name))
    *poplar, controller = (hosts[h] for h in servers)
    run = tuple(machines[n.node] for n in plan.placement.nodes)
    return IpuParts(plan.fabric, run, cluster.topology == "torus", tuple(poplar), controller)


def _address(port: Resource) -> str:
    assert isinstance(port.spec, PortSpec)
    return port.spec.address
