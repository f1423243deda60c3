"""Servers of bare metal straight through Ironic, without Nova: for clouds with `machines_by: ironic`.

A server is what Ironic calls an instance. weft's id of it is `instance@node`: the node's `instance_uuid`, which weft
chooses, and the node. One PATCH gives the machine to it: Ironic refuses it with 409 if the node has an instance by
then, whoever's. The same PATCH writes the mark into `instance_info`, by which a lost answer is found again. Then the
Neutron ports are attached, and the deployment is asked for; what was done is read before it is asked again. In between,
the server is there and has the difference `deployed`, which the loop repairs. Ironic's teardown takes all of that off.

Sources: Ironic's api-ref (nodes, VIFs, provision states), ironic 39 `conductor.manager.update_node`,
`_do_node_tear_down`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast
from uuid import uuid4

from weft.drivers.openstack.base import Call, Fence, Fields, KindDriver, Row, outcomes_of
from weft.drivers.openstack.console import (
    console_failure,
    console_hindrance,
    console_off,
    wait_for_console,
)
from weft.drivers.openstack.machine import (
    AT_REST,
    GONE,
    ON_ITS_WAY,
    alive_conductor,
    mark_of,
    progress,
    read_node,
    unfit,
)
from weft.drivers.openstack.networkdata import read_network_data
from weft.drivers.openstack.port import MACHINES
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.drivers.openstack.userdata import user_data
from weft.model.errors import NotYetError, PermanentError, TemporaryError, UnknownError
from weft.model.hostneeds import HostNeeds
from weft.model.mark import Mark
from weft.model.resources import Kind, Outcome, Resource, ServerSpec, Status

MARK, NAME = "weft", "display_name"
"""Keys in `instance_info`: weft's mark, and the server's name, where Nova's driver has it too."""
VIFS = "weft:vifs"
"""Field that `prepare` adds to a node: ids of the Neutron ports that are attached to it."""
ENDED_BY_DELETION = frozenset(
    {"active", "deploy failed", "error", "rescue", "rescue failed", "unrescue failed", "service failed"}
    | {"wait call-back", "deploy hold"}
)
"""States out of which Ironic's `deleted` leads (`ironic.common.states`)."""


class MetalServers(KindDriver):
    """See the module."""

    kind = Kind.SERVER
    updatable = frozenset({"mark", "deployed"})

    def serves(self, resource: Resource) -> bool:
        return isinstance(resource.spec, ServerSpec) and resource.spec.by == "ironic"

    def knows(self, thing_id: str) -> bool:
        return "@" in thing_id

    def project(self, call: Call) -> Project:
        return call.own

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[Row]:
        found = call.spread.map(lambda one: _row(read_node(call.own, _spec(one).host)), wanted)
        return [row for row in found if row is not None]

    def all_rows(self, own: Project) -> list[Row]:
        listed = own.baremetal.listing("list machines", "/v1/nodes", "nodes", {"detail": "true"})
        rows = map(_row, listed)
        return [row for row in rows if row is not None and row.mark is not None]

    def one_row(self, project: Project, thing_id: str) -> Row | None:
        """None only if Ironic has the node, with another instance or none."""
        node = read_node(project, thing_id.partition("@")[2])
        if node["provision_state"] == GONE:
            said = "its machine isn't in Ironic: it may still be running"
            raise UnknownError(f"read server {thing_id}", "Ironic", said)
        row = _row(node)
        return row if row is not None and row.id == thing_id else None

    def control(self, call: Call) -> str:
        return alive_conductor(call.own)

    def proof(self, call: Call, resource: Resource, told: str) -> str:
        node = read_node(call.own, _spec(resource).host)
        row = _row(node)
        if row is not None and row.mark == call.scope.mark(resource.key):
            said = "it is there again, and wasn't a moment ago"
            raise UnknownError(f"prove server {resource.name} absent", "Ironic", said)
        now = f"instance {instance_of(node)}" if row else "no instance"
        return f"its machine is {node['provision_state']}, with {now}; {self.control(call)}"

    def prepare(self, call: Call, rows: Sequence[Row]) -> Sequence[Row]:
        def one(row: Row) -> Row:
            if not _is_deployed(row.raw):
                return row
            return replace(row, raw={**row.raw, VIFS: frozenset(_vifs(call.own, row.raw["uuid"]))})

        return list(call.spread.map(one, rows))

    def wanted(self, call: Call, resource: Resource) -> Fields:
        ports = frozenset(call.ids.get(key, key) for key in _spec(resource).ports)
        return {"deployed": True, "status": "ACTIVE", "ports": ports}

    def seen(self, call: Call, row: Row) -> Fields:
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

    def status(self, row: Row) -> tuple[Status, str]:
        return progress(row)

    def facts(self, row: Row) -> dict[str, object]:
        node = row.raw
        return {
            "host": node["uuid"],
            "status": _status(node) if _is_deployed(node) else str(node["provision_state"]).upper(),
            "task": None if node["provision_state"] in AT_REST else node["provision_state"],
            "image": info_of(node).get("image_source"),
        }

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        def one(resource: Resource) -> str:
            node = self._take(call, resource)
            self._deploy(call, resource, node)
            return server_id(node)

        return outcomes_of(call, wanted, one)

    def repair(self, call: Call, resource: Resource, row: Row, fields: frozenset[str]) -> None:
        if "mark" in fields:
            change = {"op": "add", "path": f"/instance_info/{MARK}", "value": call.text(resource.key)}
            asked = f"mark server {resource.name}"
            still_has(call.own, asked, row.id, call.scope.fence)
            _patch(call.own, asked, row.raw["uuid"], [change])
        if "deployed" in fields:
            self._deploy(call, resource, row.raw)

    def remove(self, project: Project, row: Row, fence: Fence) -> None:
        """Ask Ironic to tear it down, which takes the instance, its ports and its mark off, and cleans the machine.

        Its console is switched off before; one that can't be makes the machine one that isn't clean.
        """
        asked = f"delete server {row.name}"
        node = still_has(project, asked, row.id, fence)
        state = str(node["provision_state"])
        if state == "deleting":
            return
        if state == "available":  # given to it, and never deployed
            self._give_up(project, asked, row.id, fence)
        elif state in ENDED_BY_DELETION:
            if console_hindrance(node) and console_failure(node) is None:
                refused = console_off(project, asked, node)
                if console_hindrance(still_has(project, asked, row.id, fence)) and refused is None:
                    raise NotYetError(asked, "Ironic", "its console is being switched off")
            _provision(project, asked, node["uuid"], {"target": "deleted"})
        elif progress(replace(row, raw=node))[0] is Status.BROKEN:
            then = "check it in Ironic; it is kept until Ironic has torn it down"
            raise TemporaryError(asked, "Ironic", f"its machine is {state}", then, alarming=True)
        else:
            raise NotYetError(asked, "Ironic", f"its machine is {state}")

    def _give_up(self, project: Project, asked: str, server: str, fence: Fence) -> None:
        machine = server.partition("@")[2]
        for vif in sorted(_vifs(project, machine)):
            still_has(project, asked, server, fence, "available")
            _detach(project, asked, machine, vif)
        gone = [
            {"op": "remove", "path": "/instance_uuid"},
            {"op": "replace", "path": "/instance_info", "value": {}},
        ]
        still_has(project, asked, server, fence, "available")
        _patch(project, asked, machine, gone)

    def _take(self, call: Call, resource: Resource) -> Json:
        """The node, with this server as its instance."""
        asked, spec = f"create server {resource.name}", _spec(resource)
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
        if why := unfit(node):
            if node["provision_state"] in ON_ITS_WAY:
                raise NotYetError(asked, "Ironic", why)
            raise TemporaryError(asked, "Ironic", why, alarming=node["provision_state"] not in AT_REST)
        info = _instance_info(call, resource, node)
        call.scope.fence()  # the readings took their time
        changes = [
            {"op": "add", "path": "/instance_uuid", "value": str(uuid4())},
            {"op": "add", "path": "/instance_info", "value": info},
        ]
        return _patch(call.own, asked, spec.host, changes)

    def _deploy(self, call: Call, resource: Resource, node: Json) -> None:
        """What is left to ask for."""
        if node["provision_state"] != "available":
            return
        asked, machine, own = f"create server {resource.name}", str(node["uuid"]), call.own
        wanted = [call.id_of(key) for key in _spec(resource).ports]
        attached = _vifs(own, machine)
        for vif in sorted(attached - set(wanted)):
            still_has(own, asked, server_id(node), call.scope.fence, "available")
            _detach(own, asked, machine, vif)  # of whoever had it before: it would be in their network
        if missing := [vif for vif in wanted if vif not in attached]:
            _attach(call, asked, node, missing)
        body = {"target": "active", "configdrive": _config_drive(call, resource, node, wanted)}
        node = still_has(own, asked, server_id(node), call.scope.fence, "available")
        if console_hindrance(node):
            wait_for_console(own, asked, node)
        _provision(own, asked, machine, body)


def _attach(call: Call, asked: str, node: Json, vifs: Sequence[str]) -> None:
    """Each Neutron port to the machine's port with its MAC address; one without such a port to any of its network's.

    Ironic would choose any port of the physical network, and give the Neutron port that one's address.
    """
    machine = str(node["uuid"])
    params = {"node": machine, "detail": "true"}
    listed = call.own.baremetal.listing(f"list ports of machine {machine}", "/v1/ports", "ports", params)
    by_mac = {str(port["address"]).lower(): str(port["uuid"]) for port in listed}
    for vif in vifs:
        call.scope.fence()
        use = {"device_id": node["instance_uuid"], "device_owner": MACHINES}
        changed = call.project.network.ask(asked, "PUT", f"/ports/{vif}", json={"port": use})
        port = call.project.network.part(asked, changed, "port", reading=False)
        pinned = by_mac.get(str(port.get("mac_address")).lower())
        still_has(call.own, asked, server_id(node), call.scope.fence, "available")
        body = {"id": vif, **({"port_uuid": pinned} if pinned else {})}
        answer = call.own.baremetal.ask(asked, "POST", f"/v1/nodes/{machine}/vifs", json=body, ok=(400, 409))
        if not answer.fine and vif not in _vifs(call.own, machine):
            raise _refused(call.own, asked, machine, f"port {vif} can't be attached: {answer.sentence()}")


def _detach(own: Project, asked: str, machine: str, vif: str) -> None:
    answer = own.baremetal.ask(asked, "DELETE", f"/v1/nodes/{machine}/vifs/{vif}", ok=(400, 404, 409))
    if not answer.fine and vif in _vifs(own, machine):
        raise _refused(own, asked, machine, f"port {vif} can't be detached: {answer.sentence()}")


def _vifs(own: Project, machine: str) -> frozenset[str]:
    """Ids of the Neutron ports that are attached."""
    asked, path = f"list the ports attached to machine {machine}", f"/v1/nodes/{machine}/vifs"
    rows = own.baremetal.rows(asked, own.baremetal.ask(asked, "GET", path), "vifs")
    return frozenset(str(row["id"]) for row in rows)


def _provision(own: Project, asked: str, machine: str, body: Json) -> None:
    """Ask for a state. Refused, it may have been asked for already: an answer was lost, or Ironic works on it."""
    path = f"/v1/nodes/{machine}/states/provision"
    answer = own.baremetal.ask(asked, "PUT", path, json=body, ok=(400, 409))
    if not answer.fine:
        raise _refused(own, asked, machine, answer.sentence())


def _refused(own: Project, asked: str, machine: str, why: str) -> TemporaryError:
    """`NotYetError` if Ironic works on it: it locks a node for moments, such as for its power state."""
    node = read_node(own, machine)
    if node["provision_state"] in ON_ITS_WAY or node.get("reservation"):
        said = f"its machine is {node['provision_state']}, and Ironic works on it"
        return NotYetError(asked, "Ironic", said)
    return TemporaryError(asked, "Ironic", why[:500], alarming=True)


def _patch(own: Project, asked: str, machine: str, changes: Sequence[Mapping[str, object]]) -> Json:
    """409: a conductor works on it, or somebody else's instance is on it by now."""
    answer = own.baremetal.ask(asked, "PATCH", f"/v1/nodes/{machine}", json=changes, ok=(409,))
    if not answer.fine:
        raise _refused(own, asked, machine, answer.sentence())
    if answer.body.get("uuid") != machine or not answer.body.get("provision_state"):
        raise TemporaryError(asked, "Ironic", f"an answer without this node: {answer.sentence()}"[:300])
    return dict(answer.body)


def _instance_info(call: Call, resource: Resource, node: Json) -> Json:
    """What Ironic deploys, as Nova's driver would write it. Root device and boot mode are in the node's properties.

    No project is named: by default Ironic makes that of `instance_info` the node's lessee, who may write its marks.
    """
    spec, asked = _spec(resource), f"create server {resource.name}"
    image = call.lookups.image(call.project, spec.image)
    if image is None:
        then = "create it, or order again with another"
        raise PermanentError(asked, "the cloud", f"the project has no image {spec.image}", then)
    info: Json = {
        MARK: call.text(resource.key),
        NAME: resource.name,
        "image_source": str(image["id"]),
    }
    capabilities: dict[str, str] = {}
    if firmware := image.get("hw_firmware_type"):
        capabilities["boot_mode"] = str(firmware)
    if image.get("os_secure_boot") == "required":
        capabilities["secure_boot"] = "true"
    if capabilities:
        info["capabilities"] = capabilities
    if traits := HostNeeds.of(image, {}).required:
        info["traits"] = sorted(traits)
    if image.get("kernel_id") and node.get("deploy_interface") != "ramdisk":
        info["root_gb"] = _root_gib(asked, node)
    return info


def _root_gib(asked: str, node: Json) -> int:
    """Size of the root partition, where the image is one: the disk, but for the config drive's partition."""
    try:
        return int(node["properties"]["local_gb"]) - 1
    except (KeyError, TypeError, ValueError):
        then = "set properties/local_gb of the node, or order a whole-disk image"
        said = "the image is a partition, and Ironic doesn't know the size of the machine's disk"
        raise PermanentError(asked, "Ironic", said, then) from None


def _config_drive(call: Call, resource: Resource, node: Json, vifs: Sequence[str]) -> Json:
    """Metadata, keys, user data and networks: there is no metadata service for it."""
    spec = _spec(resource)
    meta: Json = {"uuid": node["instance_uuid"], "name": resource.name, "hostname": resource.name}
    if spec.key_pair is not None:
        name = call.id_of(spec.key_pair)
        pair = call.own.compute.item(f"read key pair {name}", f"/os-keypairs/{name}", "keypair")
        meta["public_keys"] = {name: str(pair["public_key"])}
    drive: Json = {"meta_data": meta}
    if vifs:
        asked = f"read the networks of server {resource.name}"
        drive["network_data"] = read_network_data(call.project, asked, vifs)
    if (text := user_data(call, resource.name, spec)) is not None:
        drive["user_data"] = text
    return drive


def instance_of(node: Json) -> str | None:
    """Its `instance_uuid`; None: it has none, or Ironic doesn't have it. Raises `UnknownError`: Ironic doesn't say."""
    if node["provision_state"] == GONE:
        return None
    if "instance_uuid" not in node:
        said = f"an answer without instance_uuid ({', '.join(sorted(node))})"
        raise UnknownError(f"read what is on machine {node['uuid']}", "Ironic", said[:300])
    return node["instance_uuid"] or None


def still_has(own: Project, asked: str, server: str, fence: Fence, state: str | None = None) -> Json:
    """The machine of a server, read right before a change of it: Ironic's requests name the machine alone.

    Args:
        state: that it must be in, too.

    Raises `NotYetError`: it is in another state by now; `TemporaryError`: it is another's by now, or nobody's.
    """
    instance, _, machine = server.partition("@")
    node = read_node(own, machine)
    if instance_of(node) != instance:
        raise TemporaryError(asked, "Ironic", f"its machine {machine} has another instance by now, or none")
    if state is not None and node["provision_state"] != state:
        raise NotYetError(asked, "Ironic", f"its machine is {node['provision_state']} by now")
    fence()
    return node


def _row(node: Json) -> Row | None:
    """The server that is a machine's instance; None: it has none."""
    if instance_of(node) is None:
        return None
    info = info_of(node)
    text = info.get(MARK)
    return Row(
        id=server_id(node),
        name=str(info.get(NAME) or node.get("name") or node["uuid"]),
        mark=Mark.parse(text) if isinstance(text, str) else None,
        project_id=None,
        created=str(node.get("provision_updated_at") or ""),
        raw=node,
    )


def server_id(node: Json) -> str:
    """Of the server that is a machine's instance."""
    return f"{node['instance_uuid']}@{node['uuid']}"


def info_of(node: Json) -> Json:
    """Its `instance_info`."""
    info: object = node.get("instance_info")
    return cast(Json, info) if isinstance(info, dict) else {}


def _is_deployed(node: Json) -> bool:
    return node["provision_state"] == "active"


def _status(node: Json) -> str:
    """As Nova would call it."""
    return "ACTIVE" if node.get("power_state") == "power on" else "SHUTOFF"


def _spec(resource: Resource) -> ServerSpec:
    spec = resource.spec
    assert isinstance(spec, ServerSpec)
    return spec
