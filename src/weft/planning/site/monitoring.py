"""Targets for Prometheus: exporters of hosts and of pods' servers, with what they are labeled by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from weft.model.ids import format_guid
from weft.model.site import BOOTABLE, METRICS_PORT, Exporter, Interface, Node, Site, SubnetRole
from weft.planning.fabric.topology import NO_FABRIC, Topology, natural
from weft.planning.kept import kept
from weft.planning.shapes.ipu.graph import CONTROLLER_GATEWAY
from weft.planning.site.wrongvalues import WrongValue, known

BMCS, CONTROLLERS = "weft-bmcs", "weft-vipu"
"""Jobs of BMCs, and of V-IPU's controllers and IPU-Machines."""
EXPORTER_PORT = 2112
"""Port of a V-IPU agent's exporter, on the IPU-Machine's gateway (docs/openvipu.md)."""
ADDRESS_OF_CONTROLLERS = CONTROLLER_GATEWAY
"""Key of the port by which a pod's controller is reached."""
MOST_TARGETS = 50_000
"""Most targets of one job; further ones are left out, and counted."""
META = "__meta_weft_"
"""Prefix of the labels of targets: Prometheus drops them unless its configuration keeps them."""
_ROLES: tuple[SubnetRole, ...] = ("management", "infrastructure", "internal-api", "provisioning")
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ServingServer:
    """A server of a pod that serves.

    Attributes:
        pod_id, pod, project: the pod's id and name, and its project's id.
        address: where operators reach it: its floating IP, or its address on the management network; None: none is
            known.
        accelerators: whether it has any.
    """

    pod_id: str
    pod: str
    project: str
    server: str
    node: str
    address: str | None
    accelerators: bool = True


@dataclass(frozen=True, slots=True)
class Targets:
    """Targets of one job.

    Attributes:
        groups: address and port -> labels, in a stable order.
        left_out: name -> why it isn't a target.
    """

    groups: tuple[tuple[str, Labels], ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class HeldNode:
    """A node that a pod holds. Attributes: pod_id, pod, project: the pod's id and name, and its project's id."""

    node: str
    pod: str
    pod_id: str
    project: str
    spare: bool


@dataclass(frozen=True, slots=True)
class Info:
    """Series whose value is 1, to be joined with others by their labels. Attributes: what: for people."""

    name: str
    what: str
    labels: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def check_monitoring(site: Site) -> Iterator[WrongValue]:
    """The networks on which exporters listen are networks of the site."""
    yield from known(
        ("monitoring", "network"), site.monitoring.network, site.networks, "networks of the site file"
    )


def host_targets(site: Site, exporter: Exporter) -> Targets:
    """An exporter on hosts. Machines of tenants (bare metal) have none of the operator's."""
    groups: list[tuple[str, Labels]] = []
    left_out: dict[str, str] = {}
    addresses = _addresses(site)
    for node in sorted(site.nodes, key=lambda n: natural(n.name)):
        if exporter.accelerators and not node.accelerators:
            continue
        if node.machine is not None:
            continue
        if (address := addresses.get(node.name)) is None:
            left_out[node.name] = "the site has no address of it for exporters"
            continue
        groups.append((f"{address}:{exporter.port}", host_labels(site, node)))
    return _bounded(groups, left_out)


def pod_targets(site: Site, exporter: Exporter, servers: Sequence[ServingServer]) -> Targets:
    """An exporter on pods' servers."""
    groups: list[tuple[str, Labels]] = []
    left_out: dict[str, str] = {}
    for one in servers:
        if exporter.accelerators and not one.accelerators:
            continue
        if one.address is None:
            left_out[f"{one.project}/{one.server}"] = "its address isn't known"
            continue
        node = site.node_by_name.get(one.node)
        labels = {
            **(host_labels(site, node) if node else {}),
            f"{META}node": one.node,
            f"{META}pod": one.pod,
            f"{META}pod_id": one.pod_id,
            f"{META}project": one.project,
            f"{META}server": one.server,
        }
        groups.append((f"{one.address}:{exporter.port}", labels))
    return _bounded(groups, left_out)


def bmc_targets(site: Site) -> Targets:
    """BMCs of hosts and machines: their interfaces on networks with a subnet of role `bmc`, and IPU-Machines'."""
    groups: list[tuple[str, Labels]] = []
    seen: set[str] = set()
    for interface in site.interfaces:
        if interface.device in seen:
            continue
        node = site.node_by_name.get(interface.device)
        if node is None or _role(site, interface) != "bmc":
            continue
        seen.add(interface.device)
        groups.append((str(interface.address), host_labels(site, node)))
    for machine in site.ipu_machines:
        labels = {f"{META}node": machine.name, f"{META}rack": machine.rack or "", f"{META}site": site.name}
        groups.append((str(machine.bmc_address), labels))
    unread = {
        n.name: "the site has no address of its BMC"
        for n in site.nodes
        if n.role in BOOTABLE and n.name not in seen
    }
    return _bounded(groups, unread)


def controller_targets(site: Site, controllers: Sequence[ServingServer]) -> Targets:
    """V-IPU controllers of pods, and the exporters of IPU-Machines' agents, on the gateways' networks."""
    groups: list[tuple[str, Labels]] = []
    for machine in site.ipu_machines:
        labels = {f"{META}site": site.name, f"{META}node": machine.name, f"{META}rack": machine.rack or ""}
        groups.append((f"{machine.gw_address}:{EXPORTER_PORT}", labels))
    left_out: dict[str, str] = {}
    for one in controllers:
        if one.address is None:
            left_out[f"{one.project}/{one.pod}"] = "its controller's address isn't known"
            continue
        labels = {
            f"{META}site": site.name,
            f"{META}pod": one.pod,
            f"{META}pod_id": one.pod_id,
            f"{META}project": one.project,
        }
        groups.append((f"{one.address}:{METRICS_PORT}", labels))
    return _bounded(groups, left_out)


def host_labels(site: Site, node: Node) -> Labels:
    """Where a host is: bounded by the site."""
    location = _leaves(site).get(node.name)
    only = next(iter(site.clouds)) if len(site.clouds) == 1 else ""
    return {
        f"{META}site": site.name,
        f"{META}node": node.name,
        f"{META}role": node.role,
        f"{META}rack": node.rack or "",
        f"{META}leaf": location or "",
        f"{META}cloud": node.cloud or only,
        f"{META}machine_type": node.machine_type,
    }


@kept
def _leaves(site: Site) -> Mapping[str, str]:
    locations = Topology.of(site, NO_FABRIC).locations
    return {
        name: location.leaf for name, location in locations.items() if location.leaf in site.switch_by_name
    }


@kept
def _addresses(site: Site) -> Mapping[str, str]:
    """Host -> the address on which its exporters listen."""
    ranks: dict[str, list[tuple[int, int, str]]] = {}
    for position, interface in enumerate(site.interfaces):
        if interface.device not in site.node_by_name:
            continue
        role = _role(site, interface)
        if site.monitoring.network is not None:
            if interface.network != site.monitoring.network or role == "bmc":
                continue
            rank = 0
        elif role in _ROLES:
            rank = _ROLES.index(role)
        else:
            continue
        ranks.setdefault(interface.device, []).append((rank, position, str(interface.address)))
    return {device: min(found)[2] for device, found in ranks.items()}


def infos(site: Site, held: Sequence[HeldNode]) -> tuple[Info, ...]:
    """Where hosts are, which pods hold them, and where adapters are cabled. Bounded by the site."""
    leaves = _leaves(site)
    nodes = [(n.name, n.rack or "", leaves.get(n.name, ""), n.role, n.machine_type) for n in site.nodes]
    pods = [(h.node, h.pod, h.pod_id, h.project, "true" if h.spare else "false") for h in held]
    ends = _ends(site)
    return (
        Info(
            "weft_node_info",
            "Where a host is.",
            ("node", "rack", "leaf", "role", "machine_type"),
            tuple(nodes),
        ),
        Info(
            "weft_pod_node_info",
            "Nodes that pods hold; a shared one once for each pod.",
            ("node", "pod", "pod_id", "project", "spare"),
            tuple(pods),
        ),
        Info(
            "weft_adapter_info",
            "Adapters and the switch ports that they are cabled to, by the site; GUIDs as fabric agents write them.",
            ("fabric", "node", "adapter", "guid", "port", "switch", "switch_port", "switch_guid"),
            tuple(labels for node in site.nodes for labels in _adapters(site, node, ends)),
        ),
    )


End = tuple[str, str, str]
"""An adapter's port, and switch and port at the other end of its cable."""


def _adapters(site: Site, node: Node, ends: Mapping[str, End]) -> Iterator[tuple[str, ...]]:
    for hca in node.hcas:
        port, switch, switch_port = ends.get(f"{node.name}/{hca.name}", ("1", "", ""))
        if hca.switch_port is not None:
            switch, _, switch_port = hca.switch_port.partition("/")
        behind = site.switch_by_name.get(switch)
        guid = "" if behind is None or behind.guid is None else format_guid(behind.guid)
        yield hca.fabric, node.name, hca.name, format_guid(hca.guid), port, switch, switch_port, guid


@kept
def _ends(site: Site) -> Mapping[str, End]:
    found: dict[str, End] = {}
    for link in site.links:
        for a, a_port, b, b_port in (
            (link.a, link.a_port, link.b, link.b_port),
            (link.b, link.b_port, link.a, link.a_port),
        ):
            if "/" in a and "/" not in b:
                found[a] = str(a_port), b, str(b_port)
    return found


def _role(site: Site, interface: Interface) -> SubnetRole | None:
    """Role of the subnet that an interface's address is in."""
    network = site.networks.get(interface.network)
    subnets = network.subnets.values() if network else ()
    return next((s.role for s in subnets if interface.address in s.addresses), None)


def _bounded(groups: list[tuple[str, Labels]], left_out: dict[str, str]) -> Targets:
    for _, labels in groups[MOST_TARGETS:]:
        left_out[labels.get(f"{META}server") or labels.get(f"{META}node") or labels[f"{META}pod"]] = (
            f"more than {MOST_TARGETS} targets"
        )
    return Targets(tuple(groups[:MOST_TARGETS]), left_out)
