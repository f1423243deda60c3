"""Neutron in a few lines that refuses what the real one does for resources in use: trunks, groups, routers, ports,
VPNs.

Sources: neutron, `services.trunk.plugin`, `services.portforwarding.pf_plugin`, `db.securitygroups_db`, `db.l3_db`;
RBAC as in `db.rbac_db_mixin`; neutron-vpnaas, `db.vpn.vpn_db`. Its policies are the default ones with weft's: a
project may change its own resources, and a network's owner those on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud

Row = dict[str, Any]
_SHARED = "access_as_shared"
_PROTECTED = (
    "network:router_interface",
    "network:ha_router_replicated_interface",
    "network:router_gateway",
    "network:floatingip",
)
"""Owners of ports that Neutron doesn't delete while the device exists."""


@dataclass(slots=True)
class Neutron(TinyCloud):
    """Its rows are made by its methods, which return them.

    Attributes:
        refused: action on a row -> its answer.
    """

    refused: dict[str, Reply] = field(default_factory=dict[str, Reply])

    def make(self, collection: str, id_: str, project: str = PROJECT, **more: object) -> Row:
        row: Row = {"id": id_, "name": id_, "description": "", "project_id": project, **more}
        self.things.setdefault(collection, []).append(row)
        return row

    def port(self, id_: str, project: str = PROJECT, network: str = "net", **more: object) -> Row:
        plain: Row = {"network_id": network, "device_owner": "", "device_id": "", "security_groups": []}
        plain |= {"fixed_ips": [], "dns_name": "", "revision_number": 1}
        return self.make("ports", id_, project, **{**plain, **more})

    def trunk(self, id_: str, parent: str, *subports: str, project: str = PROJECT) -> Row:
        for port in self._rows("ports"):
            if port["id"] in subports:
                port |= {"device_owner": "trunk:subport", "device_id": id_}
        return self.make("trunks", id_, project, port_id=parent, sub_ports=[{"port_id": p} for p in subports])

    def share(self, id_: str, kind: str, thing: str, target: str) -> Row:
        of = {"object_type": kind, "object_id": thing, "target_tenant": target, "action": _SHARED}
        return self.make("rbac_policies", id_, **of)

    def vpn(self, service: str, subnet: str | None, group: str = "", project: str = PROJECT) -> None:
        """A VPN service on the router; if a group is named, with a connection from its endpoints on the subnet."""
        own = {"router_id": "router", "subnet_id": None if group else subnet}
        self.make("vpnservices", service, project, **own)
        if group:
            self.make("endpoint_groups", group, project, type="subnet", endpoints=[subnet, "elsewhere"])
            self.make("endpoint_groups", f"{group}-peers", project, type="cidr", endpoints=["10.9.0.0/24"])
        self.make(
            "ipsec_site_connections",
            f"{service}-connection",
            project,
            vpnservice_id=service,
            local_ep_group_id=group or None,
        )

    def answer(self, method: str, path: str, query: dict[str, list[str]], seer: str, body: Any) -> Reply:
        path = path.replace("/network/vpn/", "/network/", 1)
        parts = path.split("/")
        if parts[2:3] == ["floatingips"] and parts[4:5] == ["port_forwardings"]:
            return self._forwarding(method, path, parts[3], parts[5:])
        if parts[1] != "network" or method == "GET" or len(parts) < 4:
            return TinyCloud.answer(self, method, path, query, seer, body)
        self.asked.append(f"{method} {path}")
        collection, id_, *action = parts[2].replace("-", "_"), parts[3], *parts[4:]
        row = next((r for r in self._rows(collection) if r["id"] == id_), None)
        if row is None or not self._may(seer, row, method):
            return self.absent("network", id_)
        if why := self._why_not(method, collection, row, action):
            return Reply(409, {"NeutronError": {"type": why, "message": f"{id_} is in use", "detail": ""}})
        if action and action[0] in self.refused:
            return self.refused[action[0]]
        if method == "DELETE":
            self.things[collection].remove(row)
            return Reply(204)
        return self._changed(row, action, body)

    def _forwarding(self, method: str, path: str, address: str, id_: list[str]) -> Reply:
        self.asked.append(f"{method} {path}")
        row = next(r for r in self._rows("floatingips") if r["id"] == address)
        if method == "GET":
            return Reply(200, {"port_forwardings": [{"id": one} for one in row["forwardings"]]})
        row["forwardings"].remove(id_[0])
        row["router_id"] = row["router_id"] if row["forwardings"] else None
        return Reply(204)

    def _devices(self) -> list[Row]:
        return [*self._rows("routers"), *self._rows("floatingips")]

    def _rows(self, collection: str) -> list[Row]:
        return self.things.setdefault(collection, [])

    def _may(self, seer: str, row: Row, method: str) -> bool:
        on = next((n for n in self._rows("networks") if n["id"] == row.get("network_id")), None)
        owns = on is not None and on["project_id"] == seer and method == "DELETE"
        return row["project_id"] == seer or owns

    def _why_not(self, method: str, collection: str, row: Row, action: list[str]) -> str:
        ports, id_ = self._rows("ports"), row["id"]
        if action == ["remove_router_interface"] and row.get("routes"):
            return (
                "RouterInterfaceInUseByRoute"  # neutron, `extraroute_db._confirm_router_interface_not_in_use`
            )
        if collection == "floatingips" and row.get("forwardings") and method == "DELETE":
            return "FipInUseByPortForwarding"
        if method != "DELETE":
            return ""
        if collection == "ports":
            if any(t["port_id"] == id_ for t in self._rows("trunks")):
                return "PortInUseAsTrunkParent"
            if row["device_owner"] == "trunk:subport":
                return "PortInUseAsSubPort"
            if row["device_owner"] in _PROTECTED and any(
                r["id"] == row["device_id"] for r in self._devices()
            ):
                return "ServicePortInUse"
        if collection == "security_groups" and any(id_ in p["security_groups"] for p in ports):
            return "SecurityGroupInUse"
        if collection == "networks" and any(p["network_id"] == id_ for p in ports):
            return "NetworkInUse"
        if collection == "trunks" and any(p["id"] == row["port_id"] and p["device_id"] for p in ports):
            return "TrunkInUse"
        by = {"vpnservices": "vpnservice_id", "endpoint_groups": "local_ep_group_id"}.get(collection, "")
        if by and any(c[by] == id_ for c in self._rows("ipsec_site_connections")):
            return "VPNServiceInUse" if collection == "vpnservices" else "EndpointGroupInUse"
        if collection == "routers" and any(s["router_id"] == id_ for s in self._rows("vpnservices")):
            return "RouterInUse"
        if collection == "subnets" and any(id_ in g["endpoints"] for g in self._rows("endpoint_groups")):
            return "SubnetInUseByEndpointGroup"
        through = [f for f in self._rows("floatingips") if f.get("router_id") == id_]
        if collection == "routers" and through:
            return "RouterInUse"
        return ""

    def _changed(self, row: Row, action: list[str], body: Any) -> Reply:
        if action == ["remove_subports"]:
            gone = {s["port_id"] for s in body["sub_ports"]}
            row["sub_ports"] = [s for s in row["sub_ports"] if s["port_id"] not in gone]
            for port in self._rows("ports"):
                if port["id"] in gone:
                    port |= {"device_owner": "", "device_id": ""}
        elif action == ["remove_router_interface"]:
            ports = self._rows("ports")
            gone = body.get("port_id") or next(
                p["id"] for p in ports if any(f["subnet_id"] == body["subnet_id"] for f in p["fixed_ips"])
            )
            if any(p["id"] == gone and p.get("forged") for p in ports):
                return self.absent("network", gone)
            ports[:] = [p for p in ports if p["id"] != gone]
        else:
            (item, changes), *_ = body.items()
            row |= changes
            if item == "floatingip" and row["port_id"] is None and not row.get("forwardings"):
                row["router_id"] = None  # neutron, `l3_db._update_fip_assoc`
            return Reply(200, {item: row})
        return Reply(200, row)
