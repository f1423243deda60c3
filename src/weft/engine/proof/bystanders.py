"""Servers on a pod's node that aren't the pod's, and can't share anything with it on the fabric.

Nova gives a whole adapter to one server at a time. So an adapter bound to a port of the pod's own server, on the
server's own host, is the pod's alone, and stays in its segment whatever else is on the host. The evidence is written
only by the cloud's own services: the host of a port's binding, its PCI address, Placement's allocations.

Decision: docs/decisions/what-is-on-a-node.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.engine.rows.records import ResourceRecord
from weft.model.errors import WeftError
from weft.model.site import Node
from weft.model.specs import ServerSpec
from weft.planning.fabric.functions import adapter_at
from weft.ports.cloud import CloudFacts
from weft.ports.occupants import Occupant, OnHost
from weft.ports.tenantnetworks import TenantPort

_NO_ADAPTER = "normal"
"""The only type of port for which a server has no device of its host (Neutron's `binding:vnic_type`)."""


@dataclass(frozen=True, slots=True)
class Beside:
    """A node with a pod's own server on it, and others.

    Attributes:
        others: occupants that aren't the pod's.
        servers: rows of the pod's servers that belong there.
        own: ids of those of them that Nova shows there.
    """

    node: Node
    others: Sequence[Occupant]
    servers: Sequence[ResourceRecord]
    own: frozenset[str]


def beside(
    node: Node, seen: OnHost, servers: Sequence[ResourceRecord], own: Iterable[Collection[str]]
) -> Beside:
    """The node with its other occupants. `own`: per server, ids that are the pod's own."""
    ids = frozenset(id_ for one in own for id_ in one)
    there = frozenset(o.id for o in seen.occupants if o.nova and o.id in ids)
    return Beside(node, [o for o in seen.occupants if o.id not in ids], servers, there)


def kept_adapters(
    facts: CloudFacts,
    project_id: str,
    fabric: str,
    found: Sequence[Beside],
    records: Mapping[str, ResourceRecord],
) -> dict[str, frozenset[str]]:
    """Node -> ids of its ports on the fabric that stay members, since only the pod's own server has them.

    Leaves out nodes on which something else has, or may have, an adapter, or where that can't be read.

    Args:
        project_id: the pod's.
        found: nodes of one cloud; a node keeps nothing if Nova doesn't show the pod's server there.
    """
    found = [one for one in found if one.own and all(o.devices == () for o in one.others)]
    ports = _ports_at(facts, project_id, [one.node.nova_host for one in found])
    kept: dict[str, frozenset[str]] = {}
    for one in found:
        there = [p for p in ports if p.host == one.node.nova_host and p.vnic_type != _NO_ADAPTER]
        own = _own_ports(one, records)
        mine = [p for p in there if p.id in own and p.server in one.own]
        if all(p in mine or _is_of_another(p, one.node, fabric) for p in there):
            slots = {p.pci_slot.lower() for p in mine}
            hcas = one.node.hcas_on(fabric)
            kept[one.node.name] = frozenset(h.port_id for h in hcas if h.pci.lower() in slots)
    return kept


def without_adapters(
    facts: CloudFacts, project_id: str, hosts: Mapping[str, Collection[Occupant]]
) -> frozenset[str]:
    """Ids of servers that Nova shows on those of these hosts on which no port has an adapter."""
    plain = {h: {o.id for o in others if o.nova and o.devices == ()} for h, others in hosts.items()}
    asked = [host for host, ids in plain.items() if ids]
    try:
        ports = facts.ports_at(project_id, hosts=asked) if asked else ()
    except WeftError:
        return frozenset()
    passed = {p.host for p in ports if p.vnic_type != _NO_ADAPTER}
    return frozenset(id_ for host in asked if host not in passed for id_ in plain[host])


def _is_of_another(port: TenantPort, node: Node, fabric: str) -> bool:
    """Whether a port's device is known, and is neither an adapter of this fabric nor a function of one."""
    slot = port.pci_slot.lower()
    name = adapter_at(node, slot) if slot else None
    return any(h.fabric != fabric for h in node.hcas if h.pci.lower() == slot or h.name == name)


def _own_ports(one: Beside, records: Mapping[str, ResourceRecord]) -> frozenset[str]:
    """Ids of its servers' ports."""
    specs = [s.resource.spec for s in one.servers]
    keys = (key for spec in specs if isinstance(spec, ServerSpec) for key in spec.ports)
    return frozenset(id_ for key in keys if key in records and (id_ := records[key].outside_id))


def _ports_at(facts: CloudFacts, project_id: str, hosts: Sequence[str]) -> Sequence[TenantPort]:
    """Ports on these hosts; empty if they can't be read, since no adapter is kept without its port."""
    try:
        return facts.ports_at(project_id, hosts=hosts) if hosts else ()
    except WeftError:
        return ()
