"""Ports and floating IPs."""

from __future__ import annotations

from collections.abc import Sequence

from weft.drivers.openstack.base import Call, Fields, Row
from weft.drivers.openstack.neutron import IDS_IN_A_URL, NeutronKind
from weft.drivers.openstack.session import Json, Params, Project
from weft.model.resources import FloatingIPSpec, Kind, PortSpec, Resource, Status

WHOLE_ADAPTER_VIFS = ("hostdev_physical", "ib_hostdev")
"""What Neutron's drivers bind a `direct-physical` port as (sriovnicswitch; networking-mlnx)."""
NOT_BOUND = ("unbound", "binding_failed")


class Ports(NeutronKind):
    """Ports are made unbound; Neutron binds them on the server's host when Nova boots it."""

    kind = Kind.PORT
    mendable = frozenset({"mark", "security_groups"})
    collection, item = "ports", "port"
    fields = (
        "network_id",
        "fixed_ips",
        "mac_address",
        "status",
        "device_id",
        "device_owner",
        "security_groups",
        "port_security_enabled",
        "binding:vnic_type",
        "binding:vif_type",
        "binding:host_id",
        "binding:profile",
        "binding:vif_details",
    )

    def narrowed(self, call: Call, wanted: Sequence[Resource]) -> Params:
        """Only ports on the pod's networks, which nobody else has ports on: the project may have thousands."""
        networks = sorted({r.spec.network for r in wanted if isinstance(r.spec, PortSpec)})
        known = [call.ids[key] for key in networks if key in call.ids]
        return {"network_id": known} if known and len(known) == len(networks) else {}

    def all_rows(self, own: Project) -> list[Row]:
        """Marked ports are on marked networks: weft makes them nowhere else."""
        networks = own.network.listing(
            "list networks", "/networks", "networks", {"fields": ("id", "description")}
        )
        ids = [n["id"] for n in networks if (n.get("description") or "").startswith("weft site=")]
        rows: list[Row] = []
        for start in range(0, len(ids), IDS_IN_A_URL):
            rows.extend(self._listed(own, {"network_id": ids[start : start + IDS_IN_A_URL]}))
        return [row for row in rows if row.mark is not None]

    def body(self, call: Call, resource: Resource) -> Json:
        spec = resource.spec
        assert isinstance(spec, PortSpec)
        body: Json = {
            "network_id": call.id_of(spec.network),
            "fixed_ips": [{"subnet_id": call.id_of(spec.subnet), "ip_address": spec.address}],
            "binding:vnic_type": spec.vnic_type,
            "security_groups": [call.id_of(key) for key in spec.security_groups],
        }
        if not spec.security_groups:
            # A passed-through adapter can't be filtered: Neutron must not pretend that it is.
            body["port_security_enabled"] = False
        return body

    def changes(self, call: Call, resource: Resource, fields: frozenset[str]) -> Json:
        spec = resource.spec
        assert isinstance(spec, PortSpec)
        if "security_groups" not in fields:
            return {}
        body: Json = {"security_groups": [call.id_of(key) for key in spec.security_groups]}
        body["port_security_enabled"] = bool(spec.security_groups)
        return body

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = resource.spec
        assert isinstance(spec, PortSpec)
        fields: dict[str, object] = {
            "network": call.ids.get(spec.network, spec.network),
            "subnet": call.ids.get(spec.subnet, spec.subnet),
            "address": (spec.address,),
            "vnic_type": spec.vnic_type,
            "security_groups": frozenset(call.ids.get(key, key) for key in spec.security_groups)
            or "no port security",
            "host": spec.host,
        }
        if spec.vnic_type == "direct-physical":
            fields["vif"] = "whole adapter"
        return fields

    def seen(self, call: Call, row: Row) -> Fields:
        raw, vif = row.raw, str(row.raw.get("binding:vif_type") or "unbound")
        fixed: list[dict[str, str]] = raw["fixed_ips"]
        secured = raw.get("port_security_enabled", True)
        fields: dict[str, object] = {
            "network": raw["network_id"],
            "subnet": ", ".join(sorted({f["subnet_id"] for f in fixed})),
            "address": tuple(f["ip_address"] for f in fixed),
            "vnic_type": raw.get("binding:vnic_type"),
            "security_groups": frozenset(raw["security_groups"]) if secured else "no port security",
        }
        if raw.get("device_id") and (vif not in NOT_BOUND or raw["status"] == "ACTIVE"):
            # Before its server boots, a port has no host, and that is as it should be. An active one always has:
            # if we aren't shown it, that is a difference and not a reason to look away.
            fields["host"] = raw.get("binding:host_id")
            fields["vif"] = "whole adapter" if vif in WHOLE_ADAPTER_VIFS else vif
        return fields

    def status(self, row: Row) -> tuple[Status, str]:
        raw = row.raw
        if raw.get("binding:vif_type") == "binding_failed":
            return Status.BROKEN, f"Neutron could not bind it on {raw.get('binding:host_id')}: binding_failed"
        if raw.get("device_id") and raw["status"] != "ACTIVE":
            return Status.PENDING, f"{raw['status']} on {raw.get('binding:host_id') or 'no host yet'}"
        return Status.SETTLED, ""

    def facts(self, row: Row) -> dict[str, object]:
        raw = row.raw
        profile: dict[str, object] = raw.get("binding:profile") or {}
        details: dict[str, object] = raw.get("binding:vif_details") or {}
        return {
            "address": next((f["ip_address"] for f in raw["fixed_ips"]), None),
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
    """Floating IPs have no name in Neutron: the mark in the description is all they bear."""

    kind = Kind.FLOATING_IP
    mendable = frozenset({"mark", "port"})
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

    def body(self, call: Call, resource: Resource) -> Json:
        spec = resource.spec
        assert isinstance(spec, FloatingIPSpec)
        return {
            "floating_network_id": self._external(call, spec),
            "port_id": call.id_of(spec.port),
        }

    def changes(self, call: Call, resource: Resource, fields: frozenset[str]) -> Json:
        spec = resource.spec
        assert isinstance(spec, FloatingIPSpec)
        return {"port_id": call.id_of(spec.port)} if "port" in fields else {}

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = resource.spec
        assert isinstance(spec, FloatingIPSpec)
        return {
            "external_network": self._external(call, spec),
            "port": call.ids.get(spec.port, spec.port),
        }

    def seen(self, call: Call, row: Row) -> Fields:
        return {"external_network": row.raw["floating_network_id"], "port": row.raw.get("port_id")}

    def status(self, row: Row) -> tuple[Status, str]:
        if row.raw.get("status") == "ERROR":
            return Status.BROKEN, "Neutron's layer 3 agent reports ERROR"
        return Status.SETTLED, ""

    def facts(self, row: Row) -> dict[str, object]:
        return {"address": row.raw["floating_ip_address"], "status": row.raw.get("status")}

    def _full_body(self, call: Call, resource: Resource) -> Json:
        return {"description": call.text(resource.key), **self.body(call, resource)}

    def _external(self, call: Call, spec: FloatingIPSpec) -> str:
        lookups = call.lookups
        return lookups.id_of(lookups.external_network, call.project, spec.external_network)
