"""Bare-metal machines in Ironic: claimed by a mark, freed only with the record of a cleaning. Nova deploys them
(`weft.drivers.openstack.nova`), or weft has Ironic do it (`weft.drivers.openstack.metal`). When a server is reported as
deleted, the cleaning of its machine has only just begun. So each machine is a resource of its own, which servers depend
on: it exists as long as it carries the pod's mark, and the mark is removed only from a machine whose cleaning was read.

Sources: Ironic's api-ref (nodes, node history from microversion 1.78), `ironic.common.states`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from weft.drivers.openstack.base import Call, Fence, KindDriver, ListedResource, outcomes_of
from weft.drivers.openstack.cleaning import Cleaning, ended_at, last_cleaning, set_back
from weft.drivers.openstack.console import console_hindrance, wait_for_console
from weft.drivers.openstack.firmware import firmware_differences, firmware_text
from weft.drivers.openstack.instances import patch_node
from weft.drivers.openstack.lookups import PLACEMENT_MICROVERSION
from weft.drivers.openstack.nodes import (
    GONE,
    MARK,
    alive_conductor,
    hindrance,
    mark_of,
    others_hindrance,
    progress,
    read_node,
    unfit,
)
from weft.drivers.openstack.raid import unlike_target
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import NotYetError, TemporaryError, UnknownError
from weft.model.messages import outside
from weft.model.resources import Kind, Observed, Outcome, Resource, Status
from weft.model.specs import MachineSpec


class Machines(KindDriver):
    """Bare-metal machines as resources of pods. A machine's id for weft is `node@owner`: in the next pod the same
    machine is another resource."""

    kind = Kind.MACHINE
    threads = "baremetal"
    updatable = frozenset({"mark"})
    by_own_project = True

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[ListedResource]:
        ids = [r.spec_as(MachineSpec).machine for r in wanted]
        found = call.spread.map(lambda one: read_node(call.own, one), ids)
        return [row for row in map(_row, found) if row.mark is not None]

    def all_rows(self, own: Project) -> list[ListedResource]:
        listed = own.baremetal.listing(
            outside.REQUEST(verb="list", what="machines"), "/v1/nodes", "nodes", {"detail": "true"}
        )
        return [row for row in map(_row, listed) if row.mark is not None]

    def one_row(self, project: Project, thing_id: str) -> ListedResource | None:
        """None only if the machine is free and clean. A missing mark doesn't prove that it was freed: others than weft
        can write `extra`, even members of a lessee.
        """
        machine, _, _ = thing_id.partition("@")
        row = _row(read_node(project, machine))
        if row.mark is not None and row.id == thing_id:
            return row
        if unfit(project, row.raw) is None and isinstance(_cleaned(project, row.raw), Cleaning):
            return None
        return replace(row, id=thing_id, mark=None)  # another owner's mark must not be removed

    def control(self, call: Call) -> str:
        return alive_conductor(call.own)

    def proof(self, call: Call, resource: Resource, text: str) -> str:
        """The proof that the machine isn't the pod's: its cleaning, if it was the pod's before."""
        machine = resource.spec_as(MachineSpec).machine
        mark = (row := _row(read_node(call.own, machine))).mark
        if mark is not None and (mark.site, mark.owner) == (call.scope.site, call.scope.owner):
            said = "it carries the mark that it didn't carry a moment ago"
            raise UnknownError(f"prove machine {resource.node} free", "Ironic", said)
        cleaned = _cleaned(call.own, row.raw)
        how = cleaned.text() if isinstance(cleaned, Cleaning) else cleaned
        state = f"{row.raw['provision_state']}, {'with another mark' if mark else 'without a mark'}"
        return f"{state}; {how}; {alive_conductor(call.own, row.raw)}"

    def status(self, row: ListedResource) -> tuple[Status, str]:
        """Maintenance, or an unknown power state, is temporary: wait, and replace nothing."""
        status, why = progress(row)
        if status is Status.SETTLED and (why := hindrance(row.raw) or ""):
            return Status.PENDING, why
        return status, why

    def observe(self, call: Call, resource: Resource, row: ListedResource) -> Observed:
        """What is observed of a machine. Meanwhile its only lessee may be the tenant, which Ironic makes the lessee by
        default."""
        seen = KindDriver.observe(self, call, resource, row)
        if seen.status is not Status.SETTLED:
            return seen
        why = others_hindrance(call.own, row.raw, lessee=call.scope.project_id)
        return replace(seen, status=Status.PENDING, reason=why) if why else seen

    def facts(self, row: ListedResource) -> dict[str, object]:
        raw = row.raw
        names = ("provision_state", "power_state", "maintenance", "maintenance_reason", "instance_uuid")
        return {"machine": raw["uuid"], **{name: raw.get(name) for name in names}}

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        def one(resource: Resource) -> str:
            machine, asked = resource.spec_as(MachineSpec).machine, f"claim machine {resource.node}"
            row = _row(read_node(call.own, machine))
            if row.mark is not None and row.mark == call.scope.mark(resource.key):
                return row.id
            if row.mark is not None:
                raise TemporaryError(asked, "Ironic", f"it carries the mark {row.mark.text()!r}")
            if why := unfit(call.own, row.raw):
                hindered = hindrance(row.raw) or console_hindrance(row.raw)
                alarming = bool(hindered or others_hindrance(call.own, row.raw))
                raise TemporaryError(asked, "Ironic", why, alarming=alarming)
            cleaned = _cleaned(call.own, row.raw)
            if isinstance(cleaned, str):
                then = "clean it (`openstack baremetal node manage`, `provide`)"
                raise TemporaryError(asked, "Ironic", cleaned, then, alarming=True)
            text = call.text(resource.key)
            call.own.cleanings.take(machine, ended_at(cleaned))
            call.scope.fence()  # the readings may have taken long
            change = {"op": "add", "path": f"/extra/{MARK}", "value": text}
            return _row(patch_node(call.own, asked, machine, [change])).id

        return outcomes_of(call, wanted, one)

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        change = {"op": "add", "path": f"/extra/{MARK}", "value": call.text(resource.key)}
        patch_node(call.own, f"mark machine {resource.node}", str(row.raw["uuid"]), [change])

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        """Remove the mark once the machine is proved clean.

        Raises `NotYetError` while it is deployed, deleted or cleaned; `TemporaryError` if a person must act.
        """
        machine, asked = str(row.raw["uuid"]), f"free machine {row.name}"
        status, why = progress(row)
        if status is Status.PENDING or (row.raw.get("instance_uuid") and status is Status.SETTLED):
            raise NotYetError(asked, "Ironic", why or f"it is {row.raw['provision_state']} still")
        if status is Status.SETTLED and console_hindrance(row.raw) and _row(row.raw).mark == row.mark:
            node = _still_marked(project, asked, row, fence)
            wait_for_console(project, asked, node)
        cleaned = unfit(project, row.raw) or _cleaned(project, row.raw)
        if isinstance(cleaned, str):
            raise TemporaryError(asked, "Ironic", cleaned, _what_to_do(row), alarming=True)
        if row.mark is None:
            return
        _still_marked(project, asked, row, fence)
        patch_node(project, asked, machine, [{"op": "remove", "path": f"/extra/{MARK}"}])


def _what_to_do(row: ListedResource) -> str:
    """What an operator must do about a machine that can't be freed."""
    if row.raw.get("provision_state") == "error":
        return (
            "Ironic couldn't tear it down, so its system may run on: mend its BMC or switch it off, then "
            f"`openstack baremetal node undeploy {row.raw['uuid']}`; it is kept until a cleaning has completed"
        )
    return "check it in Ironic; it is kept until a cleaning has completed"


def _still_marked(own: Project, asked: str, row: ListedResource, fence: Fence) -> Json:
    """The node, if its mark and instance are unchanged. Reading took time: another worker may have freed it, and the
    next pod may have it."""
    node = read_node(own, str(row.raw["uuid"]))
    if _row(node).mark != row.mark or node.get("instance_uuid"):
        raise TemporaryError(asked, "Ironic", "its mark or its instance has changed meanwhile")
    fence()
    return node


def machine_states(own: Project, machines: Collection[str], site: str) -> Mapping[str, str]:
    """Machine -> `up`, or why it can't be booted. A machine of one of this site's pods is up in any state."""
    listed = own.baremetal.listing(
        outside.REQUEST(verb="list", what="machines"), "/v1/nodes", "nodes", {"detail": "true"}
    )
    by_id = {node.get("uuid"): node for node in listed}
    return {machine: _state(own, by_id.get(machine), site) for machine in machines}


def _state(own: Project, node: Json | None, site: str) -> str:
    if node is None:
        return GONE
    try:
        mark = mark_of(node)
        if mark is None:
            return unfit(own, node) or "up"
    except (KeyError, TypeError, AttributeError, UnknownError) as error:
        # An error of one node doesn't affect the others.
        return f"Ironic lists it in another shape ({type(error).__name__}: {error})"
    if mark.site != site:
        return f"marked as site {mark.site}'s"
    return "in maintenance" if node.get("maintenance") else "up"


def unoffered(own: Project, machine: str) -> str | None:
    """Why Nova's scheduler would find no valid host on a machine that is free in Ironic; None if it would find one.
    nova-compute updates Placement periodically (`[DEFAULT] update_resources_interval`, a minute by default): until
    then, a machine that was just enrolled or cleaned is missing, or is reserved.
    """
    asked, path = f"read what Nova offers of machine {machine}", f"/resource_providers/{machine}/inventories"
    headers = {"OpenStack-API-Version": f"placement {PLACEMENT_MICROVERSION}"}
    answer = own.placement.ask(asked, "GET", path, headers=headers, ok=(404,))
    if answer.status == 404:
        if machine not in answer.text:
            raise own.placement.error(asked, answer, reading=True)
        return "Placement doesn't have it yet"
    offered: Mapping[str, Json] = own.placement.part(asked, answer, "inventories")
    try:
        free = any(int(one["total"]) > int(one["reserved"]) for one in offered.values())
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UnknownError(
            asked, "Placement", f"an answer without amounts: {answer.sentence()}"[:300]
        ) from None
    return None if free else "Placement doesn't have it as free yet"


def _cleaned(own: Project, node: Json) -> Cleaning | str:
    """How a machine was cleaned, or why it doesn't count as clean. Args: node: as it was read before."""
    machine = str(node["uuid"])
    asked, path = f"read how machine {machine} was cleaned", f"/v1/nodes/{machine}/history"
    answer = own.baremetal.ask(asked, "GET", path, params={"detail": "true"})
    if answer.body.get("next"):
        # The newest events are on the last page: an incomplete history proves nothing.
        raise UnknownError(asked, "Ironic", "its history has several pages: raise [api]max_limit")
    history = own.baremetal.rows(asked, answer, "history")
    demands = own.cleaning
    found = last_cleaning(history, node, own.cleanings.watched(machine), demands.steps)
    if isinstance(found, str):
        return found
    if why := set_back(found, own.cleanings.taken(machine)):
        return why
    if wrong := firmware_differences(own, machine, demands):
        return f"it was cleaned, but isn't as the site demands: {'; '.join(wrong)}"[:500]
    if arrays := unlike_target(node):
        return f"it was cleaned, but its RAID isn't the one that Ironic was to make: {arrays}"[:500]
    return replace(found, checked=firmware_text(demands))


def _row(node: Json) -> ListedResource:
    mark = mark_of(node)
    return ListedResource(
        id=f"{node['uuid']}@{mark.owner.id if mark and mark.owner else ''}",
        name=str(node.get("name") or node["uuid"]),
        mark=mark,
        project_id=None,
        created=str(node.get("created_at") or ""),
        raw=node,
    )
