"""Which adapters, and virtual functions of adapters, belong in the segments of networks that tenants created. Pure.

The cloud binds ports without waiting for the fabric, and a port's owner wrote many of its fields. So only fields that
the cloud's own services write put an adapter into a segment: host, type of binding, PCI address. A DHCP client-id,
which the owner may change, only selects among the adapters of that host; a MAC address only names a function that isn't
anyone else's. A port in another segment of weft's range stays out until it has left that one.

Sources: networking-mlnx 21 (the GUID is the client-id's last eight bytes for bare metal, else the MAC address with two
zero bytes in the middle), Neutron's `portbindings` (types of binding).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.model.fabric import Capabilities, Membership
from weft.model.ids import format_guid
from weft.model.mark import outside_name
from weft.model.messages import networks
from weft.model.ranges import Range
from weft.model.resources import Graph, Resource
from weft.model.site import Hca, Node, Site
from weft.model.specs import SegmentSpec
from weft.planning.fabric.functions import adapter_at, guid_of, mac_of
from weft.planning.kept import kept
from weft.ports.tenantnetworks import TenantNetwork, TenantPort

_BOUND: Mapping[str, frozenset[str]] = {
    "direct": frozenset({"hw_veb", "ib_hostdev"}),
    "direct-physical": frozenset({"hostdev_physical", "ib_hostdev"}),
    "baremetal": frozenset({"other"}),
}
"""Type of port that has an adapter or a function -> types of binding that count as bound."""
_NO_ADDRESS = networks.NO_ADDRESS()
"""Neutron binds such ports with drivers of connectivity `l2` alone; networking-mlnx's isn't one."""
_MAC = re.compile("[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
SEGMENT = "segment"
"""Key of a network's only resource."""
OTHERS = "its adapter is bound in another network, too"


@dataclass(frozen=True, slots=True)
class KnownPorts:
    """What is otherwise known of the fabric's ports, by their ids.

    Attributes:
        granted: network -> ports that are already desired in its segment.
        numbers: port -> numbers of weft's range that it was read to be in.
        unread: port -> why it could not be read.
        elsewhere: own port of a function -> where it is, other than where it belongs.
        silent: why no port of the fabric could be read; empty: ports could be read.
        whole: nodes that a pod has whole; `shared`: nodes of which pods have parts.
    """

    granted: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    numbers: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    unread: Mapping[str, str] = field(default_factory=dict[str, str])
    silent: str = ""
    whole: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    elsewhere: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class PlannedPort:
    """A network's port that has, or will have, an adapter or a function.

    Attributes:
        member: its membership in the network's segment; None: it must not be a member, for the reason in `why`.
        waits: it becomes a member as soon as `why` no longer holds.
        node: the site's node that it is bound to; empty: none yet.
    """

    port: TenantPort
    member: Membership | None = None
    why: str = ""
    node: str = ""
    waits: bool = False


Planned = Mapping[str, tuple[PlannedPort, ...]]
"""Id of each network -> its ports that count here, sorted by id."""


def plan_ports(
    site: Site,
    cloud: str,
    fabric: str,
    can: Capabilities,
    networks: Sequence[TenantNetwork],
    around: KnownPorts,
) -> Planned:
    """The exact members of every network's segment, and why the others aren't.

    Args:
        networks: of one cloud, on the fabric's physical network.
    """
    nodes = {n.nova_host: n for n in site.nodes if _is_in(n, cloud, site)}
    own = _Resolver(site, fabric, can, nodes, around)
    mine = site.fabrics[fabric].segments
    planned = {
        n.id: tuple(own.resolve(p) if n.number in mine else _out_of_range(p, n.number, mine) for p in _of(n))
        for n in networks
    }
    planned = _without_twins(planned, around)
    number = {n.id: n.number for n in networks}
    return {
        network: tuple(sorted((_admitted(p, network, number[network], around) for p in ports), key=_by_id))
        for network, ports in planned.items()
    }


def members_of(ports: Iterable[PlannedPort]) -> tuple[Membership, ...]:
    """The members of a network's segment, each once, sorted."""
    found = {p.member.port: p.member for p in ports if p.member is not None}
    return tuple(found[port] for port in sorted(found))


def segment_graph(
    owner_id: str, site: Site, fabric: str, number: int, members: tuple[Membership, ...]
) -> Graph:
    """All that weft creates for a network: its segment, which holds the number also while it has no members.

    Nothing for a number that isn't in weft's range.
    """
    if number not in site.fabrics[fabric].segments:
        return Graph(resources=())
    spec = SegmentSpec(number=number, fabric_type=site.fabrics[fabric].type, members=members)
    name = outside_name(owner_id, SEGMENT)
    return Graph(resources=(Resource(key=SEGMENT, name=name, where=fabric, owner="site", spec=spec),))


def _by_id(planned: PlannedPort) -> str:
    return planned.port.id


def _is_in(node: Node, cloud: str, site: Site) -> bool:
    return node.cloud == cloud or (node.cloud is None and len(site.clouds) == 1)


@dataclass(frozen=True, slots=True)
class _Resolver:
    """Finds the adapter or function of a port, by the port and the site alone."""

    site: Site
    fabric: str
    can: Capabilities
    nodes: Mapping[str, Node]
    around: KnownPorts

    def resolve(self, port: TenantPort) -> PlannedPort:
        if why := _unbound(port):
            return PlannedPort(port, why=why)
        node = self.nodes.get(port.host)
        if node is None:
            return PlannedPort(port, why=f"host {port.host} is no node of the site")
        if not node.hcas_on(self.fabric):
            return PlannedPort(port, None, f"node {node.name} has no adapter on {self.fabric}", node.name)
        find = {"direct": self._function, "direct-physical": self._adapter, "baremetal": self._bare_metal}
        found = find[port.vnic_type](port, node)
        if isinstance(found, str):
            return PlannedPort(port, None, found, node.name)
        if node.name in self.around.whole or (not found.behind and node.name in self.around.shared):
            return PlannedPort(port, None, f"node {node.name} is a pod's", node.name)
        return PlannedPort(port, found, "", node.name)

    def _adapter(self, port: TenantPort, node: Node) -> Membership | str:
        """Neutron gives some bound PFs a random MAC address: only host and PCI address say which adapter it is."""
        if not port.pci_slot:
            return networks.NO_PCI_DEVICE()
        slot = port.pci_slot.lower()
        hca = next((h for h in node.hcas_on(self.fabric) if h.pci == slot), None)
        if hca is None:
            return f"node {node.name} has no adapter on {self.fabric} at PCI address {port.pci_slot}"
        return Membership(port=hca.port_id)

    def _bare_metal(self, port: TenantPort, node: Node) -> Membership | str:
        if not port.client_ids:
            return networks.NO_CLIENT_ID()
        guids = {guid_of_client_id(text) for text in port.client_ids}
        guid = next(iter(guids))
        if len(guids) > 1:
            return networks.CLIENT_IDS_DIFFER()
        if guid is None:
            return f"client-id {port.client_ids[0]!r} isn't that of an InfiniBand adapter"
        hca = next((h for h in node.hcas_on(self.fabric) if h.port_guid == guid), None)
        if hca is None:
            where = f"node {node.name} on {self.fabric}"
            return f"its client-id names {format_guid(guid)}, which isn't an adapter of {where}"
        return Membership(port=hca.port_id)

    def _function(self, port: TenantPort, node: Node) -> Membership | str:
        if not self.can.virtual_functions:
            return self.can.why_no_virtual_functions
        if not _is_mac(port.mac):
            return f"MAC address {port.mac!r} is not six bytes, of which the function's GUID is made"
        guid = guid_of(port.mac)
        if guid in _guids(self.site) or port.mac.lower() in _functions(self.site):
            return f"MAC address {port.mac} makes GUID {format_guid(guid)}, which is the site's own"
        behind: tuple[Hca, ...] = node.hcas_on(self.fabric)
        if port.pci_slot and (name := adapter_at(node, port.pci_slot.lower())):
            behind = tuple(h for h in behind if h.name == name)
            if not behind:
                return f"its function is of adapter {name} of node {node.name}, which is not on {self.fabric}"
        return Membership(port=format_guid(guid), behind=tuple(h.port_id for h in behind))


def _of(network: TenantNetwork) -> Iterable[TenantPort]:
    """A network's ports that can have an adapter or a function."""
    return (p for p in network.ports if p.vnic_type in _BOUND)


def _out_of_range(port: TenantPort, number: int, mine: Range) -> PlannedPort:
    why = networks.VLAN_OUT_OF_RANGE(number=number, first=mine.first, last=mine.last)
    return PlannedPort(port, why=why)


def _unbound(port: TenantPort) -> str:
    """Why the cloud doesn't report a device for the port; empty: it does."""
    if port.vif_type == "binding_failed":
        return networks.BINDING_FAILED() if port.has_address else _NO_ADDRESS
    if not port.host or port.vif_type in ("", "unbound"):
        return networks.PORT_UNBOUND()
    if port.vif_type not in _BOUND[port.vnic_type]:
        allowed = " or ".join(sorted(_BOUND[port.vnic_type]))
        return f"it is bound as {port.vif_type}; a {port.vnic_type} port counts as {allowed}"
    return ""


def _without_twins(planned: Planned, around: KnownPorts) -> dict[str, tuple[PlannedPort, ...]]:
    """The plan where no network gets a port that is bound in two; an adapter stays in the network whose segment
    already has it.

    Two functions with one GUID are distinct, and a manager that knows GUIDs would add both: neither network keeps them.
    """
    networks: dict[str, set[str]] = {}
    for network, ports in planned.items():
        for member in members_of(ports):
            networks.setdefault(member.port, set()).add(network)
    functions = {m.port for ports in planned.values() for m in members_of(ports) if m.behind}
    keeps: dict[str, str] = {}
    for port, several in networks.items():
        if len(several) > 1:
            has = [n for n in several if port in around.granted.get(n, ()) and port not in functions]
            keeps[port] = has[0] if len(has) == 1 else ""

    def out(network: str, one: PlannedPort) -> bool:
        return one.member is not None and keeps.get(one.member.port, network) != network

    return {
        network: tuple(replace(p, member=None, why=OTHERS) if out(network, p) else p for p in ports)
        for network, ports in planned.items()
    }


def _admitted(planned: PlannedPort, network: str, number: int, around: KnownPorts) -> PlannedPort:
    """A new member is admitted once it is in no other segment of weft's range; an existing one stays."""
    member = planned.member
    if member is not None and member.behind and (why := around.elsewhere.get(member.port)):
        return replace(planned, member=None, why=networks.FUNCTION_NOT_ALONE(why=why))
    if member is None or member.port in around.granted.get(network, ()):
        return planned
    physical = not member.behind
    why = around.silent or (around.unread.get(member.port, "") if physical else "")
    if not why and around.numbers.get(member.port, frozenset()) - {number}:
        why = networks.IN_ANOTHER_PARTITION()
    return replace(planned, member=None, why=why, waits=True) if why else planned


def guid_of_client_id(text: str) -> int | None:
    """The port GUID in a DHCP client-id of InfiniBand: the last eight of at least nine bytes; None: it has none.

    In use are `ff:` with 20 bytes (Ironic) and `20:` with 9 (networking-mlnx).
    """
    try:
        raw = bytes.fromhex(text.strip().replace(":", ""))
    except ValueError:
        return None
    return int.from_bytes(raw[-8:], "big") or None if len(raw) > 8 else None


def _is_mac(text: str) -> bool:
    return _MAC.fullmatch(text) is not None


@kept
def _guids(site: Site) -> frozenset[int]:
    """GUIDs of all adapters and their ports."""
    return frozenset(guid for n in site.nodes for h in n.hcas for guid in (h.guid, h.port_guid))


@kept
def _functions(site: Site) -> frozenset[str]:
    """MAC addresses that weft reserves for pods' functions."""
    return frozenset(mac_of(h, i) for n in site.nodes for h in n.hcas for i in range(h.vfs))
