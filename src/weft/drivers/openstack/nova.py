"""Servers and key pairs."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace

from weft.drivers.openstack.base import Call, Fence, Fields, KindDriver, ListedResource, ours, outcomes_of
from weft.drivers.openstack.changeable import goes_by_properties, is_changeable, not_settled
from weft.drivers.openstack.errors import known
from weft.drivers.openstack.machine import unoffered
from weft.drivers.openstack.nodes import read_node
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.drivers.openstack.userdata import user_data
from weft.model.errors import NotYetError, UnknownError
from weft.model.mark import Mark, owner_tag
from weft.model.messages import outside
from weft.model.owner import Owner
from weft.model.resources import Kind, Outcome, Resource, Status
from weft.model.specs import KeyPairSpec, ServerSpec

PENDING = frozenset(
    {
        "BUILD",
        "REBUILD",
        "REBOOT",
        "HARD_REBOOT",
        "PASSWORD",
        "MIGRATING",
        "RESIZE",
        "VERIFY_RESIZE",
        "RESCUE",
    }
)
AT_REST = frozenset(
    {
        "ACTIVE",
        "SHUTOFF",
        "PAUSED",
        "SUSPENDED",
        "SHELVED",
        "SHELVED_OFFLOADED",
        "ERROR",
        "DELETED",
        "SOFT_DELETED",
    }
)
"""The other statuses in Nova's api-ref, except UNKNOWN. Any other word says nothing about the server yet."""
SOFT_DELETED = "SOFT_DELETED"
"""First state of a deleted server with [DEFAULT] reclaim_instance_interval. No listing shows it."""
LEAVING = frozenset({"DELETED", SOFT_DELETED})
PORTS = "weft:ports"
"""Field that `prepare` adds to a server's row: ids of the ports that Neutron says are the server's."""


class Servers(KindDriver):
    """Servers on a requested host: Nova's scheduler still checks and claims it (microversion 2.74)."""

    kind = Kind.SERVER
    threads = "compute"
    updatable = frozenset({"mark"})

    def serves(self, resource: Resource) -> bool:
        return isinstance(resource.spec, ServerSpec) and resource.spec.by == "nova"

    def knows(self, thing_id: str) -> bool:
        return "@" not in thing_id  # those are Ironic's (`weft.drivers.openstack.metal`)

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[ListedResource]:
        # Tags only narrow the listing, and a tenant can remove them: if an id isn't known, all are listed.
        narrowed = {"tags": owner_tag(call.scope.owner)} if all(r.key in call.ids for r in wanted) else {}
        rows, mine = self._listed(call.project, narrowed), frozenset(call.ids.values())
        # Other users may have copied the mark: weft's own servers belong to its user, or are known by their
        # ids.
        by = {str(r.raw["user_id"]) for r in rows if r.mark and r.id not in mine and "user_id" in r.raw}
        others = by - {call.project.compute.signed_in_user()} if by else by
        return [
            replace(r, mark=None) if r.id not in mine and r.raw.get("user_id") in others else r for r in rows
        ]

    def all_rows(self, own: Project) -> list[ListedResource]:
        rows = self._listed(own, {"all_tenants": "1", "tags": "weft"})
        return [row for row in rows if row.mark is not None]

    def one_row(self, project: Project, thing_id: str) -> ListedResource | None:
        asked, path = f"read server {thing_id}", f"/servers/{thing_id}"
        raw = project.compute.item_or_absent(asked, path, "server", thing_id)
        return None if raw is None else _server_row(raw)

    def control(self, call: Call) -> str:
        return compute_control(call.project)

    def prepare(self, call: Call, rows: Sequence[ListedResource]) -> Sequence[ListedResource]:
        """Add their ports, once all are stable: during builds each read slows down the cloud."""
        if any(self.status(row)[0] is Status.PENDING for row in rows):
            return rows
        held: dict[str, set[str]] = {row.id: set() for row in rows}
        for port in call.project.network.listing(
            "list ports of servers",
            "/ports",
            "ports",
            {"fields": ("id", "device_id")},
            only={"project_id": call.scope.project_id},
        ):
            if port["device_id"] in held:
                held[port["device_id"]].add(port["id"])
        return [replace(row, raw={**row.raw, PORTS: frozenset(held[row.id])}) for row in rows]

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = resource.spec_as(ServerSpec)
        return {
            "status": "ACTIVE",
            "hypervisor" if spec.bare_metal else "host": spec.host,
            "flavor": spec.flavor,
            "ports": frozenset(call.ids.get(key, key) for key in spec.ports),
        }

    def seen(self, call: Call, row: ListedResource) -> Fields:
        raw = row.raw
        if self.status(row)[0] is not Status.SETTLED:
            return {}  # in progress, or broken with a reason: nothing to compare
        flavor = raw["flavor"]
        fields: dict[str, object] = {
            "status": raw["status"],
            "host": raw.get("OS-EXT-SRV-ATTR:host"),
            "hypervisor": raw.get("OS-EXT-SRV-ATTR:hypervisor_hostname"),
            "flavor": flavor.get("original_name") or flavor.get("id"),
        }
        if PORTS in raw:
            fields["ports"] = raw[PORTS]
        return fields

    def status(self, row: ListedResource) -> tuple[Status, str]:
        status, task = row.raw["status"], row.raw.get("OS-EXT-STS:task_state")
        if status == "ERROR":
            fault = (row.raw.get("fault") or {}).get("message") or "ERROR without a fault"
            return Status.BROKEN, outside.SERVER_FAULT(text=fault, known=known(fault))
        if status == SOFT_DELETED and not task:
            return Status.BROKEN, outside.SOFT_DELETED()
        if status in LEAVING or task in ("deleting", "soft-deleting"):
            return Status.PENDING, outside.BEING_DELETED()
        if status in PENDING or status not in AT_REST or task:
            return Status.PENDING, outside.STATE_OF_CLOUD(state=status, task=task)
        return Status.SETTLED, ""

    def facts(self, row: ListedResource) -> dict[str, object]:
        raw = row.raw
        host = "OS-EXT-SRV-ATTR:host"
        return {
            **({"host": raw[host]} if host in raw else {}),  # a hidden host doesn't mean that there is none
            "status": raw["status"],
            "flavor": raw["flavor"].get("original_name"),
            "created_at": raw.get("created"),
            "launched_at": raw.get("OS-SRV-USG:launched_at"),
            "task": raw.get("OS-EXT-STS:task_state"),
        }

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        def one(resource: Resource) -> str:
            asked = outside.REQUEST(verb="create", what=f"server {resource.name}")
            body = {"server": self._body(call, resource)}
            if _is_bare(resource):
                _check_machine(call, asked, resource)
            answer = call.project.compute.ask(asked, "POST", "/servers", json=body, ok=(400, 409))
            if answer.fine:
                return str(call.project.compute.part(asked, answer, "server", reading=False)["id"])
            # Its ports are in use already, perhaps by a server whose creation had no answer.
            there = ours(self.rows(call, [resource]), call.scope, [resource], call.ids)
            if resource.key in there:
                return there[resource.key][0].id
            raise call.project.compute.error(asked, answer)

        return outcomes_of(call, wanted, one)

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        body = {"server": {"description": call.text(resource.key)}}
        asked, path = outside.REQUEST(verb="update", what=f"server {resource.name}"), f"/servers/{row.id}"
        call.project.compute.ask(asked, "PUT", path, json=body)
        asked, tags = outside.REQUEST(verb="tag", what=f"server {resource.name}"), _tags(call.scope.owner)
        call.project.compute.ask(asked, "PUT", f"{path}/tags", json={"tags": tags})

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        if row.raw.get("locked"):
            # A tenant's lock refuses every deletion, and would keep the node beyond the lease.
            unlock_server(project, row.id)
        if row.raw["status"] == SOFT_DELETED:
            _act(project, row.id, "forceDelete")
        else:
            asked = outside.REQUEST(verb="delete", what=f"server {row.name}")
            project.compute.ask(asked, "DELETE", f"/servers/{row.id}", ok=(404,))

    def _listed(self, project: Project, filters: dict[str, str]) -> list[ListedResource]:
        asked = outside.REQUEST(verb="list", what="servers")
        rows = project.compute.listing(asked, "/servers/detail", "servers", filters)
        return [_server_row(raw) for raw in rows]

    def _body(self, call: Call, resource: Resource) -> Json:
        spec = resource.spec_as(ServerSpec)
        lookups = call.lookups
        body: Json = {
            "name": resource.name,
            "description": call.text(resource.key),
            "tags": _tags(call.scope.owner),
            "imageRef": lookups.id_of(lookups.image, call.project, spec.image),
            "flavorRef": lookups.id_of(lookups.flavor, call.project, spec.flavor),
            "hypervisor_hostname" if spec.bare_metal else "host": spec.host,
            "networks": [{"port": call.id_of(key)} for key in spec.ports],
            # RDMA networks have no DHCP: the guest reads its addresses from the config drive's network_data.json.
            "config_drive": True,
        }
        if spec.key_pair is not None:
            body["key_name"] = call.id_of(spec.key_pair)
        if (text := user_data(call, resource.name, spec)) is not None:
            body["user_data"] = base64.b64encode(text.encode()).decode()
        return body


def unlock_server(project: Project, server: str) -> None:
    """Remove a server's lock, which blocks changes of it; no error if there is no lock, or no server."""
    _act(project, server, "unlock")


def _act(project: Project, server: str, action: str) -> None:
    asked, path = f"{action} server {server}", f"/servers/{server}/action"
    project.compute.ask(asked, "POST", path, json={action: None}, ok=(404,))


class KeyPairs(KindDriver):
    """Key pairs of the service user; the mark is the comment of the public key, so the guest shows it too.

    A key pair's id is its name, and it belongs to a user and to no project.
    """

    kind = Kind.KEY_PAIR
    threads = "compute"
    updatable = frozenset[str]()
    by_own_project = True

    def control(self, call: Call) -> str:
        return compute_control(call.own)

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[ListedResource]:
        rows = [self.one_row(call.own, resource.name) for resource in wanted]
        return [row for row in rows if row is not None]

    def all_rows(self, own: Project) -> list[ListedResource]:
        asked = outside.REQUEST(verb="list", what="key pairs")
        listed = own.compute.listing(asked, "/os-keypairs", "keypairs")
        return [row for row in (_key_row(k["keypair"]) for k in listed) if row.mark is not None]

    def one_row(self, project: Project, thing_id: str) -> ListedResource | None:
        asked, path = f"read key pair {thing_id}", f"/os-keypairs/{thing_id}"
        raw = project.compute.item_or_absent(asked, path, "keypair", thing_id, shown="name")
        return None if raw is None else _key_row(raw)

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = resource.spec_as(KeyPairSpec)
        return {"public_key": _without_comment(spec.public_key)}

    def seen(self, call: Call, row: ListedResource) -> Fields:
        return {"public_key": _without_comment(row.raw["public_key"])}

    def facts(self, row: ListedResource) -> dict[str, object]:
        return {"fingerprint": row.raw.get("fingerprint")}

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        def one(resource: Resource) -> str:
            spec = resource.spec_as(KeyPairSpec)
            text = f"{_without_comment(spec.public_key)} {call.text(resource.key)}"
            asked = outside.REQUEST(verb="create", what=f"key pair {resource.name}")
            body = {"keypair": {"name": resource.name, "type": "ssh", "public_key": text}}
            answer = call.own.compute.ask(asked, "POST", "/os-keypairs", json=body, ok=(409,))
            if not answer.fine and not ours(self.rows(call, [resource]), call.scope, [resource], {}):
                raise call.own.compute.error(asked, answer)
            return resource.name

        return outcomes_of(call, wanted, one)

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        asked = outside.REQUEST(verb="delete", what=f"key pair {row.name}")
        project.compute.ask(asked, "DELETE", f"/os-keypairs/{row.name}", ok=(404,))


def _check_machine(call: Call, asked: str, resource: Resource) -> None:
    """Check that Nova can deploy the machine. Raises `NotYetError` if Nova doesn't have the machine yet;
    `PermanentError` if it would boot an unchecked image."""
    spec = resource.spec_as(ServerSpec)
    if why := unoffered(call.own, spec.host):
        raise NotYetError(asked, "Nova", why)
    interface = goes_by_properties(read_node(call.own, spec.host))
    image = call.lookups.image(call.project, spec.image) if interface else None
    if image is not None and is_changeable(image, call.own, call.scope.project_id):
        raise not_settled(asked, interface, spec.image)


def _is_bare(resource: Resource) -> bool:
    return isinstance(resource.spec, ServerSpec) and resource.spec.bare_metal


def compute_control(project: Project) -> str:
    """Nova's compute services: weft's user sees them with each of its tokens, and a cloud has at least one."""
    asked, only = "list compute services", {"binary": "nova-compute"}
    services = project.compute.listing(asked, "/os-services", "services", only=only)
    if not services:
        raise project.compute.unseen(asked, "Nova shows none, and there must be some")
    return f"{len(services)} compute services were seen with it"


def _server_row(raw: Json) -> ListedResource:
    if "name" not in raw:
        # Microversion 2.69: for a server in a cell that doesn't answer, only what the API database has is shown.
        seen = f"only its id is shown (status {raw.get('status')}): its cell doesn't answer"
        raise UnknownError(f"read server {raw.get('id')}", "compute", seen)
    return ListedResource(
        id=raw["id"],
        name=raw["name"],
        mark=Mark.parse(raw.get("description") or ""),
        project_id=raw["tenant_id"],
        created=raw["created"],
        raw=raw,
    )


def _key_row(raw: Json) -> ListedResource:
    comment = " ".join(raw["public_key"].split()[2:])
    return ListedResource(
        id=raw["name"],
        name=raw["name"],
        mark=Mark.parse(comment),
        project_id=None,
        created=raw.get("created_at") or "",
        raw=raw,
    )


def _without_comment(public_key: str) -> str:
    return " ".join(public_key.split()[:2])


def _tags(owner: Owner) -> list[str]:
    """Tags, used only to narrow listings: the mark is the description. (Nova's tags hold 60 characters: no
    site names.)"""
    return ["weft", owner_tag(owner)]
