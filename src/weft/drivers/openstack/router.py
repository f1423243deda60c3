"""Routers: a gateway to the external network, and an interface on each subnet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.drivers.openstack.base import Call, Fence, Fields, ListedResource
from weft.drivers.openstack.neutron import NeutronKind
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import TemporaryError
from weft.model.messages import outside
from weft.model.resources import Kind, Observed, Resource, Status
from weft.model.specs import RouterSpec
from weft.model.uses import ROUTER_INTERFACES

EXTERNAL = "weft:external"
"""Field that `observe` adds to a router's row: its external network by the name in the spec, if that network has it."""
INTERFACES = "weft:interfaces"
"""Field that `prepare` adds to a router's row: its interfaces' subnets. The ports are Neutron's, without a mark."""


class Routers(NeutronKind):
    """Legacy, distributed and highly available routers."""

    kind = Kind.ROUTER
    updatable = frozenset({"mark", "external_network", "subnets", "nat"})
    collection, item = "routers", "router"
    bulk = False
    fields = ("status", "external_gateway_info")

    def body(self, call: Call, resource: Resource) -> Json:
        return {"external_gateway_info": {"network_id": self._external(call, resource)}}

    def created(self, call: Call, resource: Resource, raw: Json) -> None:
        spec = resource.spec_as(RouterSpec)
        for subnet in spec.subnets:
            self._attach(call.project, raw["id"], resource.name, call.id_of(subnet))

    def changes(self, call: Call, resource: Resource, fields: frozenset[str]) -> Json:
        body = self.body(call, resource) if fields & {"external_network", "nat"} else {}
        if "nat" in fields:
            # By default only administrators may set it, to either value.
            body["external_gateway_info"]["enable_snat"] = True
        return body

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        super().repair(call, resource, row, fields)
        if "subnets" not in fields:
            return
        there = frozenset(self._interfaces(call.project, row.id))
        spec = resource.spec_as(RouterSpec)
        should = frozenset(call.id_of(key) for key in spec.subnets)
        for subnet in sorted(should - there):
            self._attach(call.project, row.id, row.name, subnet)
        for subnet in sorted(there - should):
            self._detach(call.project, row, subnet)

    def prepare(self, call: Call, rows: Sequence[ListedResource]) -> Sequence[ListedResource]:
        return [
            replace(row, raw={**row.raw, INTERFACES: frozenset(self._interfaces(call.project, row.id))})
            for row in rows
        ]

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = resource.spec_as(RouterSpec)
        return {
            "external_network": self._own_external(call, resource) or spec.external_network,
            "subnets": frozenset(call.ids.get(key, key) for key in spec.subnets),
            # For a pod's router it is the cloud's default, or its tenant's choice.
            **({"nat": True} if call.scope.owner.kind == "site" else {}),
        }

    def seen(self, call: Call, row: ListedResource) -> Fields:
        outside: Json = row.raw.get("external_gateway_info") or {}
        return {
            "external_network": row.raw[EXTERNAL],
            "subnets": row.raw[INTERFACES],
            # A cloud without the extension has no routers without NAT.
            **({"nat": bool(outside.get("enable_snat", True))} if outside else {}),
        }

    def observe(self, call: Call, resource: Resource, row: ListedResource) -> Observed:
        network: str | None = (row.raw.get("external_gateway_info") or {}).get("network_id")
        if network is not None and self._own_external(call, resource) is None:
            name = resource.spec_as(RouterSpec).external_network
            network = call.lookups.external_name(call.project, name, network)
        return super().observe(call, resource, replace(row, raw={**row.raw, EXTERNAL: network}))

    def status(self, row: ListedResource) -> tuple[Status, str]:
        if row.raw.get("status") == "ERROR":
            return Status.BROKEN, "Neutron reports ERROR"
        return Status.SETTLED, ""

    def facts(self, row: ListedResource) -> dict[str, object]:
        gateway: dict[str, list[dict[str, str]]] = row.raw.get("external_gateway_info") or {}
        addresses = [f["ip_address"] for f in gateway.get("external_fixed_ips", [])]
        return {"external_address": next(iter(addresses), None), "status": row.raw.get("status")}

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        for subnet in self._interfaces(project, row.id):
            self._detach(project, row, subnet, ends=True)
        super().remove(project, row, fence)

    def _interfaces(self, project: Project, router_id: str) -> list[str]:
        ports = project.network.listing(
            f"list interfaces of router {router_id}",
            "/ports",
            "ports",
            {"fields": ("device_owner", "fixed_ips")},
            only={"device_id": router_id},
        )
        owned = [p for p in ports if p["device_owner"] in ROUTER_INTERFACES]
        return sorted({f["subnet_id"] for p in owned for f in p["fixed_ips"]})

    def _attach(self, project: Project, router_id: str, name: str, subnet: str) -> None:
        asked, path = f"add interface of router {name} on subnet {subnet}", f"/routers/{router_id}"
        project.network.ask(asked, "PUT", f"{path}/add_router_interface", json={"subnet_id": subnet})

    def _detach(self, project: Project, row: ListedResource, subnet: str, ends: bool = False) -> None:
        """Remove an interface. Neutron refuses that while floating IPs, also those of others, or a route use it.

        Args:
            ends: the router will be deleted, and its extra routes with it: any member of its project may have set some.
        """
        asked = f"remove interface of router {row.name} on subnet {subnet}"
        path, body = f"/routers/{row.id}", {"subnet_id": subnet}
        change = f"{path}/remove_router_interface"
        answer = project.network.ask(asked, "PUT", change, json=body, ok=(404, 409))
        if ends and answer.error_type == "RouterInterfaceInUseByRoute":
            cleared = f"remove extra routes of router {row.name}"
            project.network.ask(cleared, "PUT", path, json={"router": {"routes": []}}, ok=(404,))
            answer = project.network.ask(asked, "PUT", change, json=body, ok=(404, 409))
        if answer.status == 409:
            error = project.network.error(outside.REQUEST(verb="delete", what=f"router {row.name}"), answer)
            raise self._in_use(project, row, error) if isinstance(error, TemporaryError) else error

    @staticmethod
    def _own_external(call: Call, resource: Resource) -> str | None:
        """Id of the external network, if it is in the same graph: other networks may have its name."""
        key = f"network/{resource.spec_as(RouterSpec).external_network}"
        return call.id_of(key) if key in resource.needs else None

    def _external(self, call: Call, resource: Resource) -> str:
        lookups, own = call.lookups, self._own_external(call, resource)
        name = resource.spec_as(RouterSpec).external_network
        return own or lookups.id_of(lookups.external_network, call.project, name)
