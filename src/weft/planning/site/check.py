"""Checks across a whole site that no single row allows. Pure; the reader adds file and line.

Every problem is a path in the `Site`, the value there, and what is allowed, as the end of a sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from weft.model.errors import InputError
from weft.model.fabrictypes import FabricKind
from weft.model.site import BOOTABLE, Link, Node, Site, SiteNetwork, Switch
from weft.planning.fabric.topology import NO_BLOCK, NO_FABRIC, Topology, natural
from weft.planning.shapes.ipu.check import check_ipus, ipu_hints
from weft.planning.site.bonds import check_bonds
from weft.planning.site.cables import check_cables
from weft.planning.site.deployment import check_deployments
from weft.planning.site.fabrictypes import check_fabric_types
from weft.planning.site.hardware import check_hardware
from weft.planning.site.hostchecks import check_host_checks
from weft.planning.site.machines import check_machines, machine_hints
from weft.planning.site.monitoring import check_monitoring
from weft.planning.site.networks import check_networks, reached_from_outside
from weft.planning.site.nodeparts import check_parts_of_nodes
from weft.planning.site.novathings import check_nova_things
from weft.planning.site.nvlink import check_nvlink, check_rails
from weft.planning.site.ownports import check_own_ports
from weft.planning.site.ranges import check_ranges
from weft.planning.site.switching import check_switching
from weft.planning.site.traffic import check_traffic
from weft.planning.site.wrongvalues import UniqueValues, WrongValue, casefold, known

NO_RAID = "raid.delete_configuration"
"""Ironic's cleaning step that deletes arrays."""
RESERVED_HCA = "management"
"""The pod's management port of a node is `port/<node>/management`: an adapter can't have that name."""


def check_site(site: Site, links_needed: bool = True, adopting: Collection[str] = ()) -> list[WrongValue]:
    """Everything that is wrong, table by table.

    Args:
        links_needed: False: adapters without a cable are accepted (the cabling is about to be adopted).
        adopting: fabrics of which more cables are about to be adopted: they needn't be connected yet.
    """
    return [
        *_clouds(site),
        *check_ranges(site),
        *_agents(site),
        *check_fabric_types(site),
        *check_switching(site),
        *check_traffic(site),
        *check_bonds(site),
        *_racks_and_switches(site),
        *_halls(site),
        *_dedicated(site),
        *_nodes(site),
        *_adapters(site),
        *check_parts_of_nodes(site),
        *check_cables(site, links_needed, adopting),
        *check_nvlink(site),
        *check_rails(site),
        *_flavors(site),
        *check_machines(site),
        *check_ipus(site),
        *check_networks(site),
        *check_hardware(site),
        *check_own_ports(site),
        *check_nova_things(site),
        *check_deployments(site),
        *check_host_checks(site),
        *check_monitoring(site),
    ]


def hints(site: Site) -> tuple[str, ...]:
    """Hints that aren't errors, one sentence each."""
    found: list[str] = []
    for name, fabric in sorted(site.fabrics.items()):
        if fabric.type is FabricKind.ETHERNET:
            if fabric.manager.switching is None:
                found.append(
                    f"fabric {name} has no manager.switching: weft can plan on it, but can't configure its switches"
                )
            elif fabric.is_neutrons:
                found.append(
                    f"fabric {name}: Neutron's ML2 driver sets the VLANs on its switches; weft only reads them"
                )
        elif fabric.type is FabricKind.OMNIPATH:
            found.append(
                f"fabric {name} is Omni-Path: bare metal only, and weft doesn't keep pods apart on it"
            )
        elif fabric.manager.driver == "ufm":
            if not fabric.manager.agents:
                found.append(f"fabric {name} has no agents: partitions are proved by UFM's own answers only")
        elif not fabric.manager.agents:
            found.append(f"fabric {name} has no agents: weft can plan on it, but can't configure it")
    bare = [n.name for n in site.nodes if n.role == "compute" and not n.hcas]
    if bare:
        found.append(
            f"{len(bare)} compute nodes have no adapters and can only be ordered with `fabric: none`: "
            f"{', '.join(bare[:3])}{' …' if len(bare) > 3 else ''}"
        )
    sizes = Counter(n.nvlink_domain for n in site.nodes if n.nvlink_domain is not None)
    found += [f"NVLink domain {name} has a single node" for name, n in sorted(sizes.items()) if n == 1]
    for switch in site.switches:
        topology = Topology.of(site, switch.fabric) if switch.project is not None else None
        if topology and switch.name not in topology.rails:
            found.append(
                f"leaf {switch.name} is dedicated to project {switch.project}, but no node is connected to it: no "
                "effect"
            )
    found += ipu_hints(site)
    found += machine_hints(site)
    found += reached_from_outside(site)
    for name, cloud in sorted(site.clouds.items()):
        if not cloud.flavors:
            found.append(f"cloud {name} has no flavors: nothing can be ordered there")
    return tuple(found)


def canonical(site: Site) -> Site:
    """The same site with rows in natural order (gpu2 before gpu10): the order of rows in files doesn't matter.

    Adapters of a node by name, accelerators by PCI address; that is also the order of a server's devices.
    """
    nodes = tuple(_canonical_node(n) for n in sorted(site.nodes, key=lambda n: natural(n.name)))
    return site.model_copy(
        update={
            "clouds": dict(sorted(site.clouds.items())),
            "fabrics": dict(sorted(site.fabrics.items())),
            "racks": tuple(sorted(site.racks, key=lambda r: natural(r.name))),
            "switches": tuple(sorted(site.switches, key=lambda s: natural(s.name))),
            "links": canonical_links(site.links),
            "nodes": nodes,
            "ipu_pods": dict(sorted(site.ipu_pods.items())),
            "ipu_machines": tuple(sorted(site.ipu_machines, key=lambda m: (natural(m.ipu_pod), m.position))),
            "networks": {name: _canonical_network(net) for name, net in sorted(site.networks.items())},
            "devices": tuple(sorted(site.devices, key=lambda d: natural(d.name))),
            "interfaces": tuple(sorted(site.interfaces, key=lambda i: (natural(i.device), natural(i.name)))),
        }
    )


def _canonical_node(node: Node) -> Node:
    """The node itself if its devices are in order: copying takes longer than checking."""
    hcas = tuple(sorted(node.hcas, key=lambda h: natural(h.name)))
    accelerators = tuple(sorted(node.accelerators, key=lambda a: a.pci))
    if hcas == node.hcas and accelerators == node.accelerators:
        return node
    return node.model_copy(update={"hcas": hcas, "accelerators": accelerators})


def _canonical_network(network: SiteNetwork) -> SiteNetwork:
    projects = tuple(sorted(set(network.shared_with)))
    return network.model_copy(
        update={"subnets": dict(sorted(network.subnets.items())), "shared_with": projects}
    )


def canonical_links(links: Collection[Link]) -> tuple[Link, ...]:
    """Cables with their ends in natural order, sorted."""
    turned = map(_canonical_link, links)
    return tuple(sorted(turned, key=lambda k: (natural(k.a), k.a_port, natural(k.b), k.b_port)))


def _canonical_link(link: Link) -> Link:
    if (natural(link.a), link.a_port) <= (natural(link.b), link.b_port):
        return link
    return link.model_copy(update={"a": link.b, "a_port": link.b_port, "b": link.a, "b_port": link.a_port})


def _clouds(site: Site) -> Iterator[WrongValue]:
    for name in site.fabrics:
        if name == NO_FABRIC:
            yield (
                ("fabrics", name),
                name,
                f"another name: `fabric: {NO_FABRIC}` orders a pod without a fabric",
            )
        if name in site.clouds:
            yield ("fabrics", name), name, "a fabric and a cloud can't have the same name"
    if len(site.clouds) > 1:
        for i, node in enumerate(site.nodes):
            if node.role in BOOTABLE and node.cloud is None:
                yield ("nodes", i, "cloud"), None, "required if the site has several clouds"


def _agents(site: Site) -> Iterator[WrongValue]:
    names, hosts, urls = (
        UniqueValues("an agent's name"),
        UniqueValues("an agent's node"),
        UniqueValues("an agent's address"),
    )
    for fabric, one in site.fabrics.items():
        for i, agent in enumerate(one.manager.agents):
            path = ("fabrics", fabric, "manager", "agents", i)
            owner = f"agent {agent.name} of fabric {fabric}"
            yield from names.check(agent.name, owner, (*path, "name"))
            yield from urls.check(agent.url, owner, (*path, "url"))
            if agent.node is None:
                continue
            yield from hosts.check(agent.node, owner, (*path, "node"))
            managers = [n.name for n in site.nodes if n.role == "subnet-manager" and n.hcas_on(fabric)]
            what = f"nodes with role subnet-manager and an adapter on fabric {fabric}"
            yield from known((*path, "node"), agent.node, managers, what)


def _racks_and_switches(site: Site) -> Iterator[WrongValue]:
    racks = {r.name for r in site.racks}
    names = UniqueValues("a rack's name", casefold)
    for i, rack in enumerate(site.racks):
        yield from names.check(rack.name, f"rack {rack.name}", ("racks", i, "name"))
    names = UniqueValues("a name of a switch or node", casefold)
    guids = UniqueValues("a node GUID")
    for i, switch in enumerate(site.switches):
        path = ("switches", i)
        yield from names.check(switch.name, f"switch {switch.name}", (*path, "name"))
        yield from known((*path, "fabric"), switch.fabric, site.fabrics, "fabrics of the site")
        yield from known((*path, "rack"), switch.rack, racks, "racks of the site")
        if switch.guid is not None:
            yield from guids.check(switch.guid, f"switch {switch.name}", (*path, "guid"))
    for i, node in enumerate(site.nodes):
        yield from names.check(node.name, f"node {node.name}", ("nodes", i, "name"))


def _halls(site: Site) -> Iterator[WrongValue]:
    """A block is in one hall and a hall in one building; leaves decide, since nodes connect to them."""
    hall_of: dict[tuple[str, str], str | None] = {}
    building_of: dict[tuple[str, str], str | None] = {}
    for i, switch in enumerate(site.switches):
        if switch.level != "leaf":
            continue
        block = switch.block or NO_BLOCK
        first = hall_of.setdefault((switch.fabric, block), switch.hall)
        if first != switch.hall:
            yield ("switches", i, "hall"), switch.hall, f"{first}, like other leaves of block {block}"
        hall = switch.hall or NO_BLOCK
        other = building_of.setdefault((switch.fabric, hall), switch.building)
        if other != switch.building:
            yield ("switches", i, "building"), switch.building, f"{other}, like other leaves of hall {hall}"


def _dedicated(site: Site) -> Iterator[WrongValue]:
    """Only leaves can be dedicated to a project, and all rails of a group of nodes to the same one."""
    wanted = [(i, s) for i, s in enumerate(site.switches) if s.project is not None]
    for i, switch in wanted:
        if switch.level != "leaf":
            path = ("switches", i, "project")
            yield (
                path,
                switch.project,
                f"only for leaf switches; {switch.name} is a {switch.level}",
            )
    for fabric in sorted({s.fabric for _, s in wanted} & site.fabrics.keys()):
        try:
            rails = Topology.of(site, fabric).rails
        except InputError:
            continue  # a block in two halls, which is reported separately
        first: dict[str, Switch] = {}
        for i, switch in wanted:
            if switch.level != "leaf" or switch.fabric != fabric:
                continue
            other = first.setdefault(rails.get(switch.name, switch.name), switch)
            if other.project != switch.project:
                allowed = f"{other.project}, like {other.name}: the same nodes are connected to both"
                yield ("switches", i, "project"), switch.project, allowed


def _nodes(site: Site) -> Iterator[WrongValue]:
    racks = {r.name for r in site.racks}
    hosts: dict[str | None, UniqueValues] = {}
    for i, node in enumerate(site.nodes):
        yield from known(("nodes", i, "rack"), node.rack, racks, "racks of the site")
        yield from known(("nodes", i, "cloud"), node.cloud, site.clouds, "clouds of the site")
        if node.cloud is not None:
            seen = hosts.setdefault(node.cloud, UniqueValues(f"a host of cloud {node.cloud}", casefold))
            field = "machine" if node.machine else "host" if node.host else "name"
            yield from seen.check(node.nova_host, f"node {node.name}", ("nodes", i, field))


def _adapters(site: Site) -> Iterator[WrongValue]:
    guids, ports, macs = (
        UniqueValues("a node GUID"),
        UniqueValues("a port GUID"),
        UniqueValues("a MAC address"),
    )
    resources = UniqueValues("node and adapter, joined by '-',")
    for switch in site.switches:
        if switch.guid is not None:
            guids.first.setdefault(switch.guid, f"switch {switch.name}")
    for i, node in enumerate(site.nodes):
        yield from _inside_node(node, ("nodes", i))
        for j, hca in enumerate(node.hcas):
            path, owner = ("nodes", i, "hcas", j), f"{node.name}/{hca.name}"
            yield from known((*path, "fabric"), hca.fabric, site.fabrics, "fabrics of the site")
            yield from guids.check(hca.guid, owner, (*path, "guid"))
            yield from ports.check(hca.port_guid, owner, (*path, "port_guid"))
            if hca.mac is not None:
                yield from macs.check(hca.mac, owner, (*path, "mac"))
            if hca.name in {h.name for h in node.hcas[:j]}:
                continue
            # Neutron port names are made of both: a-b/c and a/b-c would collide.
            yield from resources.check(f"{node.name}-{hca.name}", owner, (*path, "name"))


def _inside_node(node: Node, path: tuple[str | int, ...]) -> Iterator[WrongValue]:
    names, pci = (
        UniqueValues(f"an adapter's name in node {node.name}"),
        UniqueValues(f"a PCI address in node {node.name}"),
    )
    for j, hca in enumerate(node.hcas):
        inner = (*path, "hcas", j)
        if hca.name == RESERVED_HCA:
            yield (*inner, "name"), hca.name, "another name: this one is reserved for the management port"
        yield from names.check(hca.name, f"{node.name}/{hca.name}", (*inner, "name"))
        yield from pci.check(hca.pci, f"{node.name}/{hca.name}", (*inner, "pci"))
    for j, accelerator in enumerate(node.accelerators):
        inner = (*path, "accelerators", j)
        yield from pci.check(accelerator.pci, f"{accelerator.type} of {node.name}", (*inner, "pci"))


def _flavors(site: Site) -> Iterator[WrongValue]:
    most: dict[tuple[str | None, str], int] = {}
    for node in site.nodes:
        if node.role != "compute":
            continue
        types = [a.type for a in node.accelerators]
        for kind in set(types):
            key = (node.cloud, kind)
            most[key] = max(most.get(key, 0), types.count(kind))
    for name, cloud in site.clouds.items():
        for flavor, one in cloud.flavors.items():
            # Otherwise member disks of a tenant's array are neither erased nor usable by the next tenant.
            if one.bare_metal and one.nvme > 1 and NO_RAID not in cloud.cleaning_steps:
                allowed = (
                    f"at most 1, or {NO_RAID} in cleaning_steps: pods stripe several drives of a machine"
                )
                yield ("clouds", name, "flavors", flavor, "nvme"), one.nvme, allowed
            wanted = one.accelerators
            if wanted is not None and most.get((name, wanted.type), 0) < wanted.count:
                has = ", ".join(
                    f"{n} x {kind}" for (c, kind), n in sorted(most.items(), key=str) if c == name
                )
                path = ("clouds", name, "flavors", flavor, "accelerators")
                yield (
                    path,
                    f"{wanted.count} x {wanted.type}",
                    (f"no node of cloud {name} has that many; the most on one node: {has or 'none'}"),
                )
