"""Bare-metal servers through Ironic alone, without Nova: for clouds with `machines_by: ironic`.

A server is an instance in Ironic's terms. weft's id of it is `instance@node`: the node's `instance_uuid`,
which weft chooses, and the node. One PATCH assigns the machine: Ironic refuses it with 409 if the node has
any instance by then. The same PATCH writes the mark into `instance_info`, by which the server is found if the
answer was lost. Then the Neutron ports are attached, and the deployment is requested; each step reads what
was done before it is repeated. Until then, the server exists with the difference `deployed`, which the loop
repairs. Ironic's teardown undoes all of it.

Sources: Ironic's api-ref (nodes, VIFs, provision states), ironic 39 `conductor.manager.update_node`,
`_do_node_tear_down`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from weft.drivers.openstack.base import Call, Fence, Fields, KindDriver, ListedResource, outcomes_of
from weft.drivers.openstack.console import (
    console_failure,
    console_hindrance,
    console_off,
    wait_for_console,
)
from weft.drivers.openstack.given import (
    MARK,
    NAME,
    config_drive,
    image_of,
    instance_info,
    unchecked,
)
from weft.drivers.openstack.instances import (
    attached,
    detach,
    info_of,
    instance_of,
    patch_node,
    provision,
    refused,
    server_id,
    still_has,
)
from weft.drivers.openstack.nodes import (
    AT_REST,
    GONE,
    ON_ITS_WAY,
    alive_conductor,
    mark_of,
    progress,
    read_node,
    unfit,
)
from weft.drivers.openstack.port import MACHINES
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import NotYetError, TemporaryError, UnknownError
from weft.model.mark import Mark
from weft.model.messages import outside
from weft.model.resources import Kind, Outcome, Resource, Status
from weft.model.specs import ServerSpec

VIFS = "weft:vifs"
"""Field that `prepare` adds to a node: ids of the Neutron ports that are attached to it."""
ENDED_BY_DELETION = frozenset(
    {"active", "deploy failed", "error", "rescue", "rescue failed", "unrescue failed", "service failed"}
    | {"wait call-back", "rescue wait", "service wait"}
)
"""States in which Ironic accepts the target `deleted` (ironic 39, `ironic.common.state_machine`)."""


class MetalServers(KindDriver):
    """Servers that Ironic deploys without Nova."""

    kind = Kind.SERVER
    threads = "baremetal"
    updatable = frozenset({"mark", "deployed"})
    by_own_project = True

    def serves(self, resource: Resource) -> bool:
        return isinstance(resource.spec, ServerSpec) and resource.spec.by == "ironic"

    def knows(self, thing_id: str) -> bool:
        return "@" in thing_id

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[ListedResource]:
        found = call.spread.map(lambda one: _row(read_node(call.own, one.spec_as(ServerSpec).host)), wanted)
        return [row for row in found if row is not None]

    def all_rows(self, own: Project) -> list[ListedResource]:
        listed = own.baremetal.listing(
            outside.REQUEST(verb="list", what="machines"), "/v1/nodes", "nodes", {"detail": "true"}
        )
        rows = map(_row, listed)
        return [row for row in rows if row is not None and row.mark is not None]

    def one_row(self, project: Project, thing_id: str) -> ListedResource | None:
        """The server's machine; None only if Ironic has the node with another instance or none."""
        node = read_node(project, thing_id.partition("@")[2])
        if node["provision_state"] == GONE:
            said = "its machine isn't in Ironic: it may still be running"
            raise UnknownError(f"read server {thing_id}", "Ironic", said)
        row = _row(node)
        return row if row is not None and row.id == thing_id else None

    def control(self, call: Call) -> str:
        return alive_conductor(call.own)

    def proof(self, call: Call, resource: Resource, text: str) -> str:
        node = read_node(call.own, resource.spec_as(ServerSpec).host)
        row = _row(node)
        if row is not None and row.mark == call.scope.mark(resource.key):
            said = "it is there again, and wasn't a moment ago"
            raise UnknownError(f"prove server {resource.name} absent", "Ironic", said)
        now = f"instance {instance_of(node)}" if row else "no instance"
        return f"its machine is {node['provision_state']}, with {now}; {alive_conductor(call.own, node)}"

    def prepare(self, call: Call, rows: Sequence[ListedResource]) -> Sequence[ListedResource]:
        def one(row: ListedResource) -> ListedResource:
            if not _is_deployed(row.raw):
                return row
            return replace(row, raw={**row.raw, VIFS: frozenset(attached(call.own, row.raw["uuid"]))})

        return list(call.spread.map(one, rows))

    def wanted(self, call: Call, resource: Resource) -> Fields:
        ports = frozenset(call.ids.get(key, key) for key in resource.spec_as(ServerSpec).ports)
        return {"deployed": True, "status": "ACTIVE", "ports": ports}

    def seen(self, call: Call, row: ListedResource) -> Fields:
        node = row.raw
        if self.status(row)[0] is not Status.SETTLED:
            return {}  # in progress, or broken with a reason: nothing to compare
        if not _is_deployed(node):
            return {"deployed": False}
        fields: dict[str, object] = {"deployed": True}
        if node.get("power_state"):
            fields["status"] = _status(node)
        if VIFS in node:
            fields["ports"] = node[VIFS]
        return fields

    def status(self, row: ListedResource) -> tuple[Status, str]:
        where, why = progress(row)
        if where is Status.SETTLED and (other := unchecked(info_of(row.raw))):
            return Status.BROKEN, f"Ironic boots what weft didn't check: {other}"
        return where, why

    def facts(self, row: ListedResource) -> dict[str, object]:
        node = row.raw
        return {
            "host": node["uuid"],
            "status": _status(node) if _is_deployed(node) else str(node["provision_state"]).upper(),
            "task": None if node["provision_state"] in AT_REST else node["provision_state"],
            "image": image_of(info_of(node)),
        }

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        def one(resource: Resource) -> str:
            node = self._take(call, resource)
            self._deploy(call, resource, node)
            return server_id(node)

        return outcomes_of(call, wanted, one)

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        if "mark" in fields:
            change = {"op": "add", "path": f"/instance_info/{MARK}", "value": call.text(resource.key)}
            asked = f"mark server {resource.name}"
            still_has(call.own, asked, row.id, call.scope.fence)
            patch_node(call.own, asked, row.raw["uuid"], [change])
        if "deployed" in fields:
            self._deploy(call, resource, row.raw)

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        """Ask Ironic to tear it down, which removes the instance, its ports and its mark, and cleans the
        machine. Its console is switched off first; if that fails, the machine doesn't count as clean.
        """
        asked = outside.REQUEST(verb="delete", what=f"server {row.name}")
        node = still_has(project, asked, row.id, fence)
        state = str(node["provision_state"])
        if state == "deleting":
            return
        if state == "available":  # assigned, but never deployed
            self._give_up(project, asked, row.id, fence)
        elif state in ENDED_BY_DELETION:
            if console_hindrance(node) and console_failure(node) is None:
                refused = console_off(project, asked, node)
                if console_hindrance(still_has(project, asked, row.id, fence)) and refused is None:
                    raise NotYetError(asked, "Ironic", "its console is being switched off")
            provision(project, asked, node["uuid"], {"target": "deleted"})
        elif progress(replace(row, raw=node))[0] is Status.BROKEN:
            then = "check it in Ironic; it is kept until Ironic has torn it down"
            raise TemporaryError(asked, "Ironic", f"its machine is {state}", then, alarming=True)
        else:
            raise NotYetError(asked, "Ironic", f"its machine is {state}")

    def _give_up(self, project: Project, asked: str, server: str, fence: Fence) -> None:
        machine = server.partition("@")[2]
        for vif in sorted(attached(project, machine)):
            still_has(project, asked, server, fence, "available")
            detach(project, asked, machine, vif)
        gone = [
            {"op": "remove", "path": "/instance_uuid"},
            {"op": "replace", "path": "/instance_info", "value": {}},
        ]
        still_has(project, asked, server, fence, "available")
        patch_node(project, asked, machine, gone)

    def _take(self, call: Call, resource: Resource) -> Json:
        """Assign the node to this server; returns the node with the server as its instance."""
        asked, spec = (
            outside.REQUEST(verb="create", what=f"server {resource.name}"),
            resource.spec_as(ServerSpec),
        )
        node = read_node(call.own, spec.host)
        taker = mark_of(node)
        if taker is None or (taker.site, taker.owner) != (call.scope.site, call.scope.owner):
            raise TemporaryError(asked, "Ironic", "its machine doesn't carry this pod's mark")
        if (row := _row(node)) is not None and row.mark == call.scope.mark(resource.key):
            return node
        if (
            node["provision_state"] == "available"
            and not node.get("instance_uuid")
            and console_hindrance(node)
        ):
            call.scope.fence()
            wait_for_console(call.own, asked, node)
        if why := unfit(call.own, node):
            if node["provision_state"] in ON_ITS_WAY:
                raise NotYetError(asked, "Ironic", why)
            raise TemporaryError(asked, "Ironic", why, alarming=node["provision_state"] not in AT_REST)
        info = instance_info(call, resource, node)
        call.scope.fence()  # the readings took their time
        changes = [
            {"op": "add", "path": "/instance_uuid", "value": str(uuid4())},
            {"op": "add", "path": "/instance_info", "value": info},
        ]
        return patch_node(call.own, asked, spec.host, changes)

    def _deploy(self, call: Call, resource: Resource, node: Json) -> None:
        """Request what is still missing of the deployment."""
        if node["provision_state"] != "available":
            return
        asked, machine, own = (
            outside.REQUEST(verb="create", what=f"server {resource.name}"),
            str(node["uuid"]),
            call.own,
        )
        wanted = [call.id_of(key) for key in resource.spec_as(ServerSpec).ports]
        there = attached(own, machine)
        for vif in sorted(there - set(wanted)):
            still_has(own, asked, server_id(node), call.scope.fence, "available")
            detach(
                own, asked, machine, vif
            )  # left by the previous server: it would connect this one to that network
        if missing := [vif for vif in wanted if vif not in there]:
            _attach(call, asked, node, missing)
        body = {"target": "active", "configdrive": config_drive(call, resource, node, wanted)}
        node = still_has(own, asked, server_id(node), call.scope.fence, "available")
        if console_hindrance(node):
            wait_for_console(own, asked, node)
        provision(own, asked, machine, body)


def _attach(call: Call, asked: str, node: Json, vifs: Sequence[str]) -> None:
    """Attach each Neutron port to the machine's port with its MAC address, or to any port of its physical
    network. Ironic would choose any port of the physical network, and give the Neutron port that one's
    address. So Neutron ports with a matching port come first, before it is used for another.
    """
    machine = str(node["uuid"])
    listed = call.own.baremetal.listing(
        f"list ports of machine {machine}",
        "/v1/ports",
        "ports",
        {"detail": "true"},
        only={"node": machine},
        shown={"node": "node_uuid"},
    )
    by_mac = {str(port["address"]).lower(): str(port["uuid"]) for port in listed}
    pins: dict[str, str | None] = {}
    for vif in vifs:
        call.scope.fence()
        use = {"device_id": node["instance_uuid"], "device_owner": MACHINES}
        changed = call.project.network.ask(asked, "PUT", f"/ports/{vif}", json={"port": use})
        port = call.project.network.part(asked, changed, "port", reading=False)
        pins[vif] = by_mac.get(str(port.get("mac_address")).lower())
    for vif, pinned in sorted(pins.items(), key=lambda one: one[1] is None):
        still_has(call.own, asked, server_id(node), call.scope.fence, "available")
        body = {"id": vif, **({"port_uuid": pinned} if pinned else {})}
        answer = call.own.baremetal.ask(asked, "POST", f"/v1/nodes/{machine}/vifs", json=body, ok=(400, 409))
        if not answer.fine and vif not in attached(call.own, machine):
            raise refused(call.own, asked, machine, f"port {vif} can't be attached: {answer.sentence()}")


def _row(node: Json) -> ListedResource | None:
    """The server that is a machine's instance; None if the machine has none."""
    if instance_of(node) is None:
        return None
    info = info_of(node)
    text = info.get(MARK)
    return ListedResource(
        id=server_id(node),
        name=str(info.get(NAME) or node.get("name") or node["uuid"]),
        mark=Mark.parse(text) if isinstance(text, str) else None,
        project_id=None,
        created=str(node.get("provision_updated_at") or ""),
        raw=node,
    )


def _is_deployed(node: Json) -> bool:
    return node["provision_state"] == "active"


def _status(node: Json) -> str:
    """The server's status in Nova's terms."""
    return "ACTIVE" if node.get("power_state") == "power on" else "SHUTOFF"
