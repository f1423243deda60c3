"""Checks of each fabric against its type: numbers, manager, and how adapters identify their ports. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.fabrictypes import FabricKind
from weft.model.site import FabricManager, Site
from weft.planning.site.wrongvalues import UniqueValues, WrongValue, same_port


def check_fabric_types(site: Site) -> Iterator[WrongValue]:
    """Everything that doesn't match the type of its fabric."""
    for name, fabric in site.fabrics.items():
        if fabric.manager.driver not in fabric.words.drivers:
            allowed = f"{' or '.join(fabric.words.drivers)} on a fabric of type {fabric.type}"
            yield ("fabrics", name, "manager", "driver"), fabric.manager.driver, allowed
        yield from _ufm(name, fabric.manager)
        if fabric.tenant_networks and fabric.type is not FabricKind.INFINIBAND:
            allowed = "false: only InfiniBand fabrics serve tenants' own networks"
            yield ("fabrics", name, "tenant_networks"), True, allowed
        if fabric.leave_tenant_networks and (fabric.tenant_networks or fabric.manager.driver != "ufm"):
            allowed = (
                "false: weft serves them"
                if fabric.tenant_networks
                else "false: only UFM keeps running without weft"
            )
            yield ("fabrics", name, "leave_tenant_networks"), True, allowed
        if fabric.qos is not None and fabric.type is not FabricKind.ETHERNET:
            allowed = f"must be omitted: fabric {name} is of type {fabric.type}"
            yield ("fabrics", name, "qos"), "settings for RoCE", allowed
        if fabric.qos is not None and fabric.mtu is not None and fabric.mtu > fabric.qos.mtu:
            allowed = f"at most {fabric.qos.mtu}, the MTU that qos wants of adapters and switches"
            yield ("fabrics", name, "mtu"), fabric.mtu, allowed
        if fabric.segments.last > fabric.words.last:
            allowed = f"at most {fabric.words.last}: a {fabric.words.word} of a fabric of type {fabric.type}"
            yield ("fabrics", name, "segments", "last"), fabric.segments.last, allowed
    yield from _switch_ports(site)
    yield from _omni_path(site)


def _omni_path(site: Site) -> Iterator[WrongValue]:
    """Omni-Path adapters have no virtual functions."""
    for i, node in enumerate(site.nodes):
        for j, hca in enumerate(node.hcas):
            fabric = site.fabrics.get(hca.fabric)
            if fabric is not None and fabric.type is FabricKind.OMNIPATH and hca.vfs:
                allowed = "0: Omni-Path adapters have no virtual functions (SR-IOV)"
                yield ("nodes", i, "hcas", j, "vfs"), hca.vfs, allowed


def _ufm(name: str, manager: FabricManager) -> Iterator[WrongValue]:
    """Settings that only a UFM has, and those that it requires."""
    path = ("fabrics", name, "manager")
    if manager.driver != "ufm":
        if manager.addresses:
            yield (
                (*path, "addresses"),
                manager.addresses[0],
                "nothing: only a manager of driver ufm has addresses",
            )
        if manager.credentials is not None:
            yield (
                (*path, "credentials"),
                manager.credentials,
                "nothing: only a manager of driver ufm has credentials",
            )
        return
    if not manager.addresses:
        yield (*path, "addresses"), None, "the address of UFM's REST API, such as [https://ufm.example]"
    taken = UniqueValues("an address")
    for i, address in enumerate(manager.addresses):
        yield from taken.check(address.casefold(), f"fabric {name}", (*path, "addresses", i))
    if manager.authentication == "certificate":
        for field in ("certificate", "key"):
            if getattr(manager, field) is None:
                yield (*path, field), None, "a PEM file: authentication is certificate"
        if manager.credentials is not None:
            yield (*path, "credentials"), manager.credentials, "nothing: authentication is certificate"
    if (manager.certificate is None) != (manager.key is None):
        yield (*path, "key"), manager.key, "certificate and key together, or neither"


def _switch_ports(site: Site) -> Iterator[WrongValue]:
    leaves = {(link.b, link.a) for link in site.links} | {(link.a, link.b) for link in site.links}
    cabled = {end for end, _ in leaves}
    taken = UniqueValues("a switch's port", same_port)
    for i, node in enumerate(site.nodes):
        for j, hca in enumerate(node.hcas):
            path, fabric = ("nodes", i, "hcas", j, "switch_port"), site.fabrics.get(hca.fabric)
            if fabric is None:
                continue  # reported elsewhere
            given, end = hca.switch_port, f"{node.name}/{hca.name}"
            if fabric.type is not FabricKind.ETHERNET:
                if given is not None:
                    allowed = f"must be omitted: on fabric {hca.fabric} ({fabric.type}) ports are identified by GUID"
                    yield path, given, allowed
                continue
            if given is None:
                yield path, None, "the switch port that it is cabled to, such as leaf01/Ethernet7"
                continue
            yield from taken.check(given, end, path)
            name = given.partition("/")[0]
            switch = site.switch_by_name.get(name)
            if switch is None or switch.fabric != hca.fabric:
                yield path, given, f"a port of a switch of fabric {hca.fabric}"
            elif switch.level != "leaf":
                yield path, given, f"a port of a leaf: {name} is a {switch.level}"
            elif end in cabled and (end, name) not in leaves:
                yield path, given, "a port of the switch that it is cabled to in the table links"
