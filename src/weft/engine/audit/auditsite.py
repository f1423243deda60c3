"""The audit of the site's own networks: ports with the host name of the site's hardware, and ports where no tenant may
be. Findings are reported and not removed: they belong to others.

Neutron lets two ports have one name, so anyone with a port on a shared network may name it after the filer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.engine.audit.findings import Findings, about
from weft.engine.base.world import World
from weft.engine.proof.othersports import at_rest, seen_on
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import ResourceRecord
from weft.model.errors import WeftError
from weft.model.kinds import Kind
from weft.model.site import LEGS, Site
from weft.model.specs import NetworkSpec, PortSpec, SubnetSpec
from weft.ports.existing import NamedPort, host_name


def audit_site(
    owner: OwnerRecord, records: Sequence[ResourceRecord], world: World, site: Site, found: Findings
) -> None:
    """Add findings about ports on the networks of one site's owner."""
    for cloud in sorted({r.resource.where for r in records} & world.clouds.keys()):
        mine = [r for r in records if r.resource.where == cloud and r.outside_id]
        records_of = {r.key: r for r in mine}
        networks = {str(r.outside_id): r for r in mine if r.kind.row.network}
        specs = [(r, r.resource.spec) for r in mine]
        # On any of the site's networks: a host on two of them asks the name server of either.
        names = _names(site, cloud) | {
            s.dns_name: r.key for r, s in specs if isinstance(s, PortSpec) and s.dns_name
        }
        own = {r.outside_id for r in mine}
        gateways = {
            (records_of[spec.network].outside_id, spec.gateway_address)
            for _, spec in specs
            if isinstance(spec, SubnetSpec) and spec.network in records_of
        }
        try:
            ports = seen_on(world, cloud, list(networks), at_rest(mine, Kind.PORT))
        except WeftError as error:
            found.add("unknown", "port", cloud, owner.name, str(error), **about(owner.owner, owner.name))
            continue
        found.checked[f"ports on the site's networks in {cloud}"] = len(ports)
        for port in ports:
            if port.id in own:
                continue
            network = networks[port.network]
            what = (
                _named(port, names.get(host_name(port.dns_name)))
                or _gateway(port, network, gateways)
                or _stranger(port, network)
            )
            if what:
                said = "nothing: it isn't weft's; ask its project, or remove it by hand"
                whose = about(owner.owner, owner.name)
                found.add("foreign", Kind.PORT, cloud, port.id, what, id=port.id, repair=said, **whose)


def _names(site: Site, cloud: str) -> dict[str | None, str]:
    """Host names of IPU-Machines of this cloud -> key of the port; an RNIC's name belongs to its pod on the data
    network."""
    return {
        m.host_name(leg): f"port/{m.name}/{leg}"
        for m in site.ipu_machines
        if site.ipu_pods[m.ipu_pod].cloud == cloud
        for leg in LEGS
    }


def _named(port: NamedPort, mine: str | None) -> str:
    if mine is None:
        return ""
    return (
        f"project {port.project_id} has given it the host name {port.dns_name}, which is that of {mine}: which "
        "of them it resolves to is undefined"
    )


def _gateway(
    port: NamedPort, network: ResourceRecord, gateways: Collection[tuple[str | None, str | None]]
) -> str:
    """Why a port is a finding, or empty: a project may give its router the gateway's address on a shared network."""
    taken = sorted(a for a in port.addresses if (port.network, a) in gateways)
    if port.own or not taken:
        return ""
    return (
        f"project {port.project_id} has the gateway's address {taken[0]} on network {network.resource.name}: what is "
        "sent to the gateway may reach its router instead"
    )


def _stranger(port: NamedPort, network: ResourceRecord) -> str:
    """Why a port is a finding, or empty: it, or its router, is on a network that isn't shared with its project."""
    spec = network.resource.spec_as(NetworkSpec)
    if port.own or not port.project_id:
        return ""
    if spec.external or port.project_id in spec.shared_with:
        return ""
    where = network.resource.name
    return f"a port of project {port.project_id} on network {where}, which the site doesn't share with it"
