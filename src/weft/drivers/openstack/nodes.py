"""Nodes of Ironic: how one is read, and what its states mean, with Nova or without.

Source: `ironic.common.states`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import cast

from weft.drivers.openstack.base import ListedResource
from weft.drivers.openstack.cleaning import internal_info, steps_here
from weft.drivers.openstack.console import console_hindrance
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import UnknownError
from weft.model.mark import Mark
from weft.model.messages import outside
from weft.model.resources import Status
from weft.ports.occupants import SeenMachine

MARK = "weft"
"""Key of the mark in a node's `extra`."""
GONE = "not in Ironic"
"""Provision state of a machine that Ironic doesn't know."""
AT_REST = frozenset({"available", "active"})
ON_ITS_WAY = frozenset(
    {
        "deploying",
        "wait call-back",
        "deploy hold",
        "deleting",
        "cleaning",
        "clean wait",
        "clean hold",
        "servicing",
        "service wait",
        "service hold",
        "rescue",  # until its tenant ends it
        "rescuing",
        "rescue wait",
        "unrescuing",
        "verifying",
    }
)
"""All other states require a person's attention."""


def read_node(own: Project, machine: str) -> Json:
    """The node in Ironic; one that Ironic doesn't know has the state `GONE`, which proves nothing."""
    asked = f"read machine {machine}"
    answer = own.baremetal.ask(asked, "GET", f"/v1/nodes/{machine}", ok=(404,))
    if answer.status == 404:
        if machine not in answer.message and machine not in answer.text:
            raise own.baremetal.error(asked, answer, reading=True)
        return {"uuid": machine, "name": machine, "provision_state": GONE, "extra": {}}
    if answer.body.get("uuid") != machine or not answer.body.get("provision_state"):
        raise UnknownError(
            asked, "Ironic", outside.ODD_ANSWER(what="an answer without this node", answer=answer.sentence())
        )
    return dict(answer.body)


def alive_conductor(own: Project, node: Json | None = None) -> str:
    """The name of a conductor that is alive: without one, Ironic's data about machines is outdated. Raises
    `UnknownError`.

    Args:
        node: the conductor must be in this node's group, since no other one acts on it.
    """
    asked = "list Ironic's conductors"
    rows = own.baremetal.listing(asked, "/v1/conductors", "conductors")
    group = None if node is None else node.get("conductor_group") or ""
    able = [row for row in rows if group is None or (row.get("conductor_group") or "") == group]
    alive = sorted(str(row.get("hostname")) for row in able if row.get("alive") is True)
    if not alive:
        where = f" in the node's conductor group {group}" if group else ""
        raise own.baremetal.unseen(asked, f"Ironic shows none that is alive{where}")
    return f"conductor {alive[0]} is alive"


def mark_of(node: Json) -> Mark | None:
    """The mark of the machine's owner."""
    extra: object = node.get("extra")
    text = cast(Json, extra).get(MARK) if isinstance(extra, dict) else None
    return Mark.parse(text) if isinstance(text, str) else None


def unfit(own: Project, node: Json) -> str | None:
    """Why a machine can't be assigned in its current state; None if it is free, as far as the node says.
    Raises `UnknownError` if fields are missing.
    """
    state = str(node["provision_state"])
    if state == "available" and (missing := _FREE - node.keys()):
        said = f"an answer without {', '.join(sorted(missing))}"
        raise UnknownError(f"read whether machine {node['uuid']} is free", "Ironic", said)
    if state != "available" and not node.get("maintenance"):
        return f"it is in state {state}: {node.get('last_error') or 'Ironic names no error'}"
    if node.get("instance_uuid") and not node.get("maintenance"):
        return f"it has instance {node['instance_uuid']}"
    return hindrance(node) or console_hindrance(node) or others_hindrance(own, node)


_FREE = frozenset({"instance_uuid", "maintenance", "console_enabled", "owner", "lessee"})
"""Fields that must be present: without them a node would look free."""
OWNER_MAY = "whose members may rescue it, have its console and write its BMC's address, whichever pod has it"
LESSEE_MAY = "whose members may switch it off, and its managers rescue it, whichever pod has it"


def others_hindrance(own: Project, node: Json, lessee: str = "") -> str | None:
    """Why a machine can't be assigned: another project may act on it by Ironic's default policy. None if only
    operators' own projects may.

    Args:
        lessee: id of a project that may be its lessee.
    """
    for field, is_its, may, fine in (
        ("owner", "is owned by", OWNER_MAY, ""),
        ("lessee", "is leased to", LESSEE_MAY, lessee),
    ):
        project = node.get(field)
        if not project or project in own.cleaning.owners or project == fine:
            continue
        if project != own.baremetal.signed_in_project():
            then = (
                f"`openstack baremetal node unset --{field}`, or list operators' projects in machine_owners"
            )
            return f"it {is_its} project {project}, {may}: {then}"
    return None


def hindrance(node: Json) -> str | None:
    """Why a machine can't be used now, whatever its provision state; None if it can."""
    if node.get("maintenance"):
        return f"it is in maintenance: {node.get('maintenance_reason') or node.get('fault') or 'no reason given'}"
    return None if node.get("power_state") else "its power state is unknown"


def progress(row: ListedResource) -> tuple[Status, str]:
    """Status of a machine by Ironic's sequence of states, and the reason."""
    raw, state = row.raw, str(row.raw["provision_state"])
    if state == GONE:
        return Status.BROKEN, f"Ironic doesn't know node {raw['uuid']}: nothing says that it was cleaned"
    if state in ON_ITS_WAY:
        return Status.PENDING, outside.STATE_OF_CLOUD(state=state)
    if state not in AT_REST:
        return Status.BROKEN, f"{state}: {raw.get('last_error') or 'Ironic names no error'}"
    return Status.SETTLED, ""


def node_in_ironic(own: Project, machine: str) -> Json:
    """The node of a machine. Raises `UnknownError`, also if Ironic doesn't have it."""
    node = read_node(own, machine)
    if node["provision_state"] == GONE:
        # The same answer as for a user that may not see it any more: the server may still run.
        raise UnknownError(f"read what is done with machine {machine}", "Ironic", "it is not in Ironic")
    return node


def seen_machines(own: Project, machines: Collection[str]) -> Mapping[str, SeenMachine]:
    """All of these machines, from one listing. Raises `UnknownError`."""
    listed = own.baremetal.listing("list the state of machines", "/v1/nodes", "nodes", {"fields": _LOOK})
    found = {str(node.get("uuid")): node for node in listed}
    return {machine: _whose(own, _seen(found.get(machine)), found.get(machine)) for machine in machines}


NEWEST = 100
"""Number of machines in one answer, those whose state changed last; if more change within a second, the full
listing has them."""


def newest_machines(own: Project) -> Mapping[str, Json]:
    """Machines with an instance whose state changed last, with the fields that show what is done with them.
    Raises `UnknownError`. A machine without an instance runs nothing of a pod's, and may never have changed:
    PostgreSQL sorts those first, MySQL last.
    """
    asked = "list the machines that changed last"
    order = {"sort_key": "provision_updated_at", "sort_dir": "desc", "limit": str(NEWEST)}
    fields = "uuid,provision_state,provision_updated_at,instance_uuid"
    params = {"associated": "true", "fields": fields, **order}
    nodes = own.baremetal.rows(asked, own.baremetal.ask(asked, "GET", "/v1/nodes", params=params), "nodes")
    return {str(node.get("uuid")): node for node in nodes}


def changed_machines(own: Project, machines: Collection[str]) -> Mapping[str, SeenMachine]:
    """See `Occupants.changed_machines`. Raises `UnknownError`."""
    found = newest_machines(own).items()
    return {one: _use(node) for one, node in found if one in machines}


_LOOK = "uuid,provision_state,target_provision_state,provision_updated_at,driver_internal_info,owner,lessee"


def _seen(node: Json | None) -> SeenMachine:
    if node is None or not node.get("provision_state"):
        return SeenMachine(
            use="Ironic doesn't list it" if node is None else "Ironic lists it without a state"
        )
    info = internal_info(node)
    return SeenMachine(
        use=use_of_node(node),
        state=str(node["provision_state"]),
        changed=str(node.get("provision_updated_at") or ""),
        automated=node.get("target_provision_state") == "available",
        plan=steps_here(info.get("clean_steps")),
        agent=str(info.get("agent_cached_clean_steps_refreshed") or ""),
    )


def _whose(own: Project, seen: SeenMachine, node: Json | None) -> SeenMachine:
    others = others_hindrance(own, node) if node is not None else None
    return replace(seen, others=others) if others else seen


def _use(node: Json) -> SeenMachine:
    """A machine's use, from the fields of a short answer."""
    if not node.get("provision_state"):
        return _seen(node)
    return SeenMachine(use=use_of_node(node), state=str(node["provision_state"]))


def use_of_node(node: Json) -> str:
    """What Ironic does with a machine, such as `deploying`, during which its server doesn't run; empty if
    nothing. A tenant's rebuild of its server is a deployment, too, and weft isn't asked about it.
    """
    state = node.get("provision_state")
    return "" if state in AT_REST else f"Ironic has it in state {state}"
