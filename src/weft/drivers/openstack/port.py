"""Ports and floating IPs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.drivers.openstack.base import Call, Fence, Fields, ListedResource
from weft.drivers.openstack.filters import Filters
from weft.drivers.openstack.forwardings import end_forwardings
from weft.drivers.openstack.neutron import NeutronKind
from weft.drivers.openstack.onnetworks import PORT, ports_on
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.drivers.openstack.uses import ID, NEUTRONS, free_port
from weft.model.errors import PermanentError, WeftError
from weft.model.messages import outside
from weft.model.resources import Kind, Observed, Resource, Status
from weft.model.specs import FloatingIPSpec, PortSpec
from weft.model.uses import ROUTER_INTERFACES
from weft.ports.listings import SharedListings

WHOLE_ADAPTER_VIFS = ("hostdev_physical", "ib_hostdev")
"""What Neutron's drivers bind a `direct-physical` port as (sriovnicswitch; networking-mlnx)."""
VIRTUAL_FUNCTION_VIFS = ("hw_veb", "ib_hostdev")
"""What Neutron's drivers bind a `direct` port as: networking-mlnx has one name for both, and Nova goes by the vnic
type."""
OFFLOADED_VIF = "ovs"
"""What Neutron's drivers bind a `direct` port as if its virtual function is behind its NIC's embedded switch."""
NOT_BOUND = ("unbound", "binding_failed")
MACHINES = "baremetal:none"
"""`device_owner` of a machine's port, as Ironic sets it, too: Neutron lets no project delete such a port."""
EXTERNAL = "weft:external"
"""Field that `observe` adds to a floating IP's row: its external network by the name in the spec, if it has that."""
REACH = "weft:reach"
"""Field that `prepare` adds to a port on a network of the site: whether the tenant's project sees it."""
MANY = 20
"""Number of ports from which the ports of each network are listed separately."""

_VIFS = {"direct-physical": "whole adapter", "direct": "virtual function"}
_VIF_WORDS = {
    "direct": {
        **dict.fromkeys(WHOLE_ADAPTER_VIFS, "whole adapter"),
        **dict.fromkeys((*VIRTUAL_FUNCTION_VIFS, OFFLOADED_VIF), "virtual function"),
    },
    "": {
        **dict.fromkeys(VIRTUAL_FUNCTION_VIFS, "virtual function"),
        **dict.fromkeys(WHOLE_ADAPTER_VIFS, "whole adapter"),
    },
}
"""vnic type -> what the bound port is, by its VIF; the empty key is for all other types."""


def _network_id(call: Call, key: str, site_network: str | None) -> str | None:
    """Id of the network, the pod's or the site's; None: not known yet."""
    if site_network is None:
        return call.ids.get(key)
    return call.lookups.id_of(call.lookups.site_network, call.own, site_network)


class Ports(NeutronKind):
    """Ports are created unbound; Neutron binds them on the server's host when Nova boots it."""

    kind = Kind.PORT
    updatable = frozenset({"mark", "security_groups", "address_pairs", "dns_name"})
    collection, item = "ports", "port"
    fields = PORT

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[ListedResource]:
        """List many ports network by network, in parallel: Neutron spends more time on each port than on each
        request, and its API has several processes."""
        by_network: dict[tuple[str, str | None], list[Resource]] = {}
        for resource in wanted:
            assert isinstance(resource.spec, PortSpec)
            by_network.setdefault((resource.spec.network, resource.spec.site_network), []).append(resource)
        if call.scope.listings is not None:
            return self._shared(call, by_network, call.scope.listings)
        if len(wanted) < MANY or len(by_network) == 1 or not self.narrowed(call, wanted):
            return super().rows(call, wanted)
        found = call.spread.map(lambda batch: super(Ports, self).rows(call, batch), by_network.values())
        return [row for rows in found for row in rows]

    def _shared(
        self,
        call: Call,
        by_network: Mapping[tuple[str, str | None], Sequence[Resource]],
        listings: SharedListings,
    ) -> list[ListedResource]:
        """As `rows`, with the ports on the owner's networks as others list them now; on a network of the site there may
        be thousands of others."""
        networks = {call.ids.get(key, "") for key, of_site in by_network if of_site is None}
        if "" in networks:
            return super().rows(call, [r for batch in by_network.values() for r in batch])
        there = ports_on(call.project, networks, listings, call.spread.map)
        found = [self.row(raw) for raw in there if raw["project_id"] == call.scope.project_id]
        rest = [r for (_, of_site), batch in by_network.items() if of_site is not None for r in batch]
        return [*found, *(super().rows(call, rest) if rest else ())]

    def narrowed(self, call: Call, wanted: Sequence[Resource]) -> Filters:
        """Filter that selects ports on the pod's networks: the project may have thousands of others."""
        specs = [r.spec for r in wanted if isinstance(r.spec, PortSpec)]
        networks = sorted({(s.network, s.site_network) for s in specs}, key=str)
        known = [_network_id(call, network, own) for network, own in networks]
        return {"network_id": [n for n in known if n]} if known and all(known) else {}

    def prepare(self, call: Call, rows: Sequence[ListedResource]) -> Sequence[ListedResource]:
        """Look up networks that aren't the pod's from the tenant's project."""
        if call.scope.owner.kind == "site":
            return rows  # not a tenant's port
        ours = set(call.ids.values())
        foreign = sorted({row.raw["network_id"] for row in rows} - ours)
        if call.project is call.tenant or not foreign:
            return rows
        asked = f"check from project {call.tenant.project_id} for networks that it must not see"
        only, params = {"id": foreign}, {"fields": ("id",)}
        seen = {
            n["id"] for n in call.tenant.network.listing(asked, "/networks", "networks", params, only=only)
        }
        reach = {True: f"project {call.tenant.project_id} sees the network", False: "none"}
        return [
            replace(row, raw={**row.raw, REACH: reach[network in seen]}) if network in foreign else row
            for row, network in ((row, row.raw["network_id"]) for row in rows)
        ]

    def all_rows(self, own: Project) -> list[ListedResource]:
        """Marked ports are on marked networks, on the service user's networks, or belong to it: weft creates
        them nowhere else."""
        networks = own.network.listing(
            outside.REQUEST(verb="list", what="networks"),
            "/networks",
            "networks",
            {"fields": ("id", "description", "project_id")},
        )
        mine = own.network.signed_in_project()
        ids = [
            n["id"]
            for n in networks
            if (n.get("description") or "").startswith("weft site=") or n.get("project_id") == mine
        ]
        rows: list[ListedResource] = self._listed(own, {"project_id": mine})
        rows.extend(self._listed(own, {"network_id": ids}))
        return [row for row in {row.id: row for row in rows}.values() if row.mark is not None]

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        """A port with a device that keeps Neutron from deleting it is taken from it first: a machine deployed without
        Nova, which nothing else detaches, and what a member of its project wrote there."""
        asked = f"free port {row.name}"
        owner, device = row.raw.get("device_owner") or "", row.raw.get("device_id") or ""
        if owner in ROUTER_INTERFACES and ID.fullmatch(device):
            path = f"/routers/{device}/remove_router_interface"
            project.network.ask(asked, "PUT", path, json={"port_id": row.id}, ok=(404, 409))
            fence()
        if owner == MACHINES or owner.startswith(NEUTRONS):
            free_port(project, asked, row.id)
            fence()
        super().remove(project, row, fence)

    def body(self, call: Call, resource: Resource) -> Json:
        spec = resource.spec_as(PortSpec)
        fixed = {"ip_address": spec.address} if spec.address else {}
        if spec.site_network is None:
            fixed["subnet_id"] = call.id_of(spec.subnet)
            network = call.id_of(spec.network)
        else:
            known = call.lookups
            find = known.site_network if resource.owner == "site" else known.tenants_network
            network = known.id_of(find, call.own, spec.site_network)
        body: Json = {
            "network_id": network,
            **({"fixed_ips": [fixed]} if fixed else {}),
            "binding:vnic_type": spec.vnic_type,
            "security_groups": [call.id_of(key) for key in spec.security_groups],
        }
        if not spec.security_groups:
            # A passed-through adapter can't be filtered: Neutron must not report that it is.
            body["port_security_enabled"] = False
        if spec.mac is not None:
            body["mac_address"] = spec.mac
        if spec.dns_name is not None:
            body["dns_name"] = spec.dns_name
        if spec.switchdev:
            # Without it, the SR-IOV driver would bind the port (Neutron, "Open vSwitch hardware offloading").
            body["binding:profile"] = {"capabilities": ["switchdev"]}
        return body

    def changes(self, call: Call, resource: Resource, fields: frozenset[str]) -> Json:
        spec = resource.spec_as(PortSpec)
        body: Json = {}
        if "security_groups" in fields:
            body["security_groups"] = [call.id_of(key) for key in spec.security_groups]
            body["port_security_enabled"] = bool(spec.security_groups)
        if "address_pairs" in fields:
            body["allowed_address_pairs"] = []
        if "dns_name" in fields:
            body["dns_name"] = spec.dns_name
        return body

    def dropped(self, resource: Resource, raw: Json) -> WeftError | None:
        """The error for a host name that Neutron accepted and dropped, as it does unless a DNS domain is configured."""
        spec = resource.spec_as(PortSpec)
        if spec.dns_name is None or raw.get("dns_name") == spec.dns_name:
            return None
        return PermanentError(
            f"give port {resource.name} the host name {spec.dns_name}",
            "network",
            f"Neutron accepted it and kept {raw.get('dns_name') or 'none'}",
            "set dns_domain in neutron.conf to the cloud's own domain (not openstacklocal), and an extension driver "
            "such as dns_domain_ports in ml2_conf.ini",
        )

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = resource.spec_as(PortSpec)
        fields: dict[str, object] = {
            "network": _network_id(call, spec.network, spec.site_network) or spec.network,
            "vnic_type": spec.vnic_type,
            # Other addresses it may send from, as its owner sets them; 0.0.0.0/0 means any.
            "address_pairs": frozenset[str](),
            "security_groups": frozenset(call.ids.get(key, key) for key in spec.security_groups)
            or "no port security",
            "host": spec.host,
        }
        if spec.address:
            fields["address"] = (spec.address,)
        if spec.site_network is None:
            fields["subnet"] = call.ids.get(spec.subnet, spec.subnet)
        else:
            fields["tenant_reach"] = "none"
        if spec.mac is not None:
            fields["mac"] = spec.mac
        if spec.dns_name is not None:
            fields["dns_name"] = spec.dns_name
        if spec.vnic_type in _VIFS:
            fields["vif"] = _VIFS[spec.vnic_type]
        return fields

    def seen(self, call: Call, row: ListedResource) -> Fields:
        raw, vif = row.raw, str(row.raw.get("binding:vif_type") or "unbound")
        fixed: list[dict[str, str]] = raw["fixed_ips"]
        secured = raw.get("port_security_enabled", True)
        fields: dict[str, object] = {
            "network": raw["network_id"],
            "subnet": ", ".join(sorted({f["subnet_id"] for f in fixed})),
            "address": tuple(f["ip_address"] for f in fixed),
            "vnic_type": raw.get("binding:vnic_type"),
            "address_pairs": frozenset(p["ip_address"] for p in raw.get("allowed_address_pairs") or ()),
            "security_groups": frozenset(raw["security_groups"]) if secured else "no port security",
            "mac": raw["mac_address"],
            "dns_name": raw.get("dns_name") or None,
        }
        if REACH in raw:
            fields["tenant_reach"] = raw[REACH]
        if raw.get("device_id") and (vif not in NOT_BOUND or raw["status"] == "ACTIVE"):
            # Before its server boots, a port has no host, as expected. An active one always does:
            # if it isn't shown, that is a difference, not a reason to ignore it.
            fields["host"] = raw.get("binding:host_id")
            words = _VIF_WORDS.get(str(raw.get("binding:vnic_type")), _VIF_WORDS[""])
            fields["vif"] = words.get(vif, vif)
        return fields

    def status(self, row: ListedResource) -> tuple[Status, str]:
        raw = row.raw
        if raw.get("binding:vif_type") == "binding_failed":
            return Status.BROKEN, f"Neutron could not bind it on {raw.get('binding:host_id')}: binding_failed"
        if raw.get("device_id") and raw["status"] != "ACTIVE":
            return Status.PENDING, outside.STATE_OF_CLOUD(
                state=raw["status"], host=raw.get("binding:host_id") or "no host yet"
            )
        return Status.SETTLED, ""

    def facts(self, row: ListedResource) -> dict[str, object]:
        raw = row.raw
        profile: dict[str, object] = raw.get("binding:profile") or {}
        details: dict[str, object] = raw.get("binding:vif_details") or {}
        return {
            "address": next((f["ip_address"] for f in raw["fixed_ips"]), None),
            "network": raw["network_id"],
            "mac": raw["mac_address"],
            "status": raw["status"],
            "device_id": raw.get("device_id", ""),
            "vif_type": raw.get("binding:vif_type"),
            "bound_host": raw.get("binding:host_id", ""),
            "pci_slot": profile.get("pci_slot"),
            "physical_network": profile.get("physical_network"),
            "segment": details.get("vlan"),
        }


class FloatingIPs(NeutronKind):
    """Floating IPs have no name in Neutron: their only identification is the mark in the description."""

    kind = Kind.FLOATING_IP
    updatable = frozenset({"mark", "port"})
    collection, item = "floatingips", "floatingip"
    bulk = False
    fields = (
        "floating_network_id",
        "floating_ip_address",
        "port_id",
        "status",
        "router_id",
        "fixed_ip_address",
    )

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        if "port" in fields and row.raw.get("port_id") is None and row.raw.get("router_id"):
            end_forwardings(call.project, row.id)  # without a port, only forwardings give it a router
        super().repair(call, resource, row, fields)

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        asked, path = outside.REQUEST(verb="delete", what=f"{self.item} {row.name}"), f"{self.path}/{row.id}"
        if project.network.ask(asked, "DELETE", path, ok=(404, 409)).status == 409:
            end_forwardings(project, row.id)
            fence()
            super().remove(project, row, fence)

    def body(self, call: Call, resource: Resource) -> Json:
        spec = resource.spec_as(FloatingIPSpec)
        return {
            "floating_network_id": self._external(call, spec),
            "port_id": call.id_of(spec.port),
        }

    def changes(self, call: Call, resource: Resource, fields: frozenset[str]) -> Json:
        spec = resource.spec_as(FloatingIPSpec)
        return {"port_id": call.id_of(spec.port)} if "port" in fields else {}

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = resource.spec_as(FloatingIPSpec)
        return {
            "external_network": spec.external_network,
            "port": call.ids.get(spec.port, spec.port),
        }

    def seen(self, call: Call, row: ListedResource) -> Fields:
        return {"external_network": row.raw[EXTERNAL], "port": row.raw.get("port_id")}

    def observe(self, call: Call, resource: Resource, row: ListedResource) -> Observed:
        spec = resource.spec_as(FloatingIPSpec)
        network = call.lookups.external_name(
            call.project, spec.external_network, row.raw["floating_network_id"]
        )
        return super().observe(call, resource, replace(row, raw={**row.raw, EXTERNAL: network}))

    def status(self, row: ListedResource) -> tuple[Status, str]:
        if row.raw.get("status") == "ERROR":
            return Status.BROKEN, "Neutron's layer 3 agent reports ERROR"
        return Status.SETTLED, ""

    def facts(self, row: ListedResource) -> dict[str, object]:
        return {"address": row.raw["floating_ip_address"], "status": row.raw.get("status")}

    def _full_body(self, call: Call, resource: Resource) -> Json:
        return {"description": call.text(resource.key), **self.body(call, resource)}

    def _external(self, call: Call, spec: FloatingIPSpec) -> str:
        lookups = call.lookups
        return lookups.id_of(lookups.external_network, call.project, spec.external_network)
