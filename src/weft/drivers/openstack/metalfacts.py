"""Machines that Ironic deploys without Nova: what is on them, and how their servers ended.

Source: Ironic's api-ref (nodes, node states); ironic 39, `conductor.manager._do_node_tear_down`: teardown
removes the instance from a node before cleaning begins.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from weft.drivers.openstack.console import REFUSED, console_hindrance, console_off
from weft.drivers.openstack.errors import check_done
from weft.drivers.openstack.given import NAME
from weft.drivers.openstack.instances import info_of, instance_of, server_id
from weft.drivers.openstack.nodes import (
    GONE,
    ON_ITS_WAY,
    alive_conductor,
    newest_machines,
    read_node,
    use_of_node,
)
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import ConflictError, NotYetError, OutsideError, TemporaryError
from weft.model.hostneeds import HostNeeds
from weft.model.ids import moment_of
from weft.model.messages import orders, outside
from weft.model.views import ConsoleView
from weft.ports.fences import Fence
from weft.ports.occupants import Ended, Ending, Occupant, OnHost
from weft.ports.servers import Action

ITS_OWN = frozenset({"active", "rescue"})
"""States in which a machine runs its tenant's system. In others Ironic controls its power, too: switching it
off while firmware is written could make it unbootable for good."""
POWER = {Action.REBOOT: "soft rebooting", Action.RESET: "rebooting"}


def on_machine(own: Project, machine: str) -> OnHost:
    """What is on a machine now. Raises `UnknownError`."""
    node = read_node(own, machine)
    if node["provision_state"] == GONE:
        return OnHost(unknown="it is not in Ironic", by="Ironic")
    alive_conductor(own, node)
    return _seen(node)


def on_machines(own: Project, machines: Collection[str]) -> Mapping[str, OnHost]:
    """What is on several machines now, by one listing; machines that Ironic doesn't list are missing. A node of
    unexpected shape is unknown, without effect on the others.
    """
    params = {"fields": "uuid,provision_state,instance_uuid,instance_info"}
    listed = own.baremetal.listing("list what is on machines", "/v1/nodes", "nodes", params)
    return {str(node["uuid"]): _seen_or_unknown(node) for node in listed if node.get("uuid") in machines}


def how_it_ended(own: Project, server: str) -> Ending:
    """How a server of `weft.drivers.openstack.metal` ended. Raises `UnknownError`."""
    instance, _, machine = server.partition("@")
    node = read_node(own, machine)
    state, now = str(node["provision_state"]), instance_of(node)
    if state == GONE:
        return Ending(Ended.UNKNOWN, f"machine {machine} is not in Ironic", by="Ironic")
    if now == instance:
        return Ending(Ended.NOT_DESTROYED, f"it is on machine {machine} still, which is {state}", by="Ironic")
    if now is not None:
        said = (
            f"machine {machine} is {state} with instance {now}: nothing says that it was torn down in between"
        )
        return Ending(Ended.UNKNOWN, said, by="Ironic")
    if state in _BY_HAND:
        said = f"machine {machine} is {state}: a person had it since, and nothing says that it was torn down"
        return Ending(Ended.UNKNOWN, said, by="Ironic")
    if state not in _TORN_DOWN:
        said = f"machine {machine} is {state} without an instance: it was never torn down"
        return Ending(Ended.NOT_DESTROYED, said, by="Ironic")
    said = f"machine {machine} was taken from it: it is {state}, with no instance"
    return Ending(Ended.DESTROYED, said, moment_of(str(node.get("provision_updated_at"))), by="Ironic")


def confirmed(own: Project, server: str, machine: str, found: Ending) -> Ending:
    """How a server of Nova's on a machine ended, as far as Ironic confirms it. Raises `UnknownError`.

    Nova records a termination as a success as soon as Ironic's node has no instance, and Ironic takes the instance off
    also when it couldn't switch the machine off (`_do_node_tear_down`, state `error`): the guest runs on.

    Args:
        found: by Nova's record.
    """
    if found.how is not Ended.DESTROYED:
        return found
    node = read_node(own, machine)
    state, now = str(node["provision_state"]), instance_of(node)
    if now is not None and now != server:
        return found  # Nova deploys on machines that were torn down alone
    if now is None and state in _TORN_DOWN:
        return found
    said = f"{found.text}; but machine {machine} is {state} in Ironic, {node.get('power_state') or 'power unknown'}"
    if state == GONE or (now is None and state in _BY_HAND):
        return Ending(Ended.UNKNOWN, f"{said}: nothing says that it was torn down", hosts=(machine,))
    return Ending(Ended.NOT_DESTROYED, f"{said}: it was not torn down", hosts=(machine,))


_BY_HAND = frozenset(
    {"enroll", "verifying", "manageable", "inspecting", "inspect wait", "inspect failed", "adopting"}
)
"""States that a person has brought a node into; also those of a node that was deleted and enrolled again while its
server ran."""
_TORN_DOWN = frozenset({"cleaning", "clean wait", "clean hold", "clean failed", "available"})
"""States that a node reaches only after a teardown. In all others something of an instance may run, if its id
was removed by hand."""


def unfit_machines(own: Project, machines: Collection[str], needs: HostNeeds) -> Mapping[str, str]:
    """Machine -> what an image needs that it lacks."""
    listed = own.baremetal.listing("list machines", "/v1/nodes", "nodes", {"detail": "true"})
    reasons = {node["uuid"]: _lacks(node, needs) for node in listed if node.get("uuid") in machines}
    return {machine: why for machine, why in reasons.items() if why}


def _lacks(node: Json, needs: HostNeeds) -> str | None:
    try:
        return needs.lacks(
            node.get("traits") or (), str((node.get("properties") or {}).get("cpu_arch") or "")
        )
    except (TypeError, AttributeError) as error:  # an error of one node doesn't affect the others
        return f"Ironic lists it in another shape ({type(error).__name__}: {error})"


def booted(own: Project, servers: Collection[str], since: datetime) -> frozenset[str]:
    """Those of these servers whose machines changed since then and on which Ironic does nothing any more. Called each
    second, so it doesn't list all machines in use, but those that changed last, and then the machines of the servers
    that aren't among them.
    """
    newest = newest_machines(own) if servers else {}
    return frozenset(server for server in servers if _is_over(own, server, newest, since))


def _is_over(own: Project, server: str, newest: Mapping[str, Json], since: datetime) -> bool:
    instance, _, machine = server.partition("@")
    listed = newest.get(machine, {})
    node = listed if listed.get("provision_state") else read_node(own, machine)
    changed = moment_of(str(node.get("provision_updated_at")))
    given = (
        instance_of(node) == instance and node["provision_state"] != "available"
    )  # else it isn't deployed yet
    return given and node["provision_state"] not in ON_ITS_WAY and changed is not None and changed >= since


def act_on_machine(own: Project, server: str, action: Action, fence: Fence) -> str | None:
    """See `Servers.act`. Requests name only the machine, whatever instance it has by then."""
    instance, _, machine = server.partition("@")
    asked, path = f"{action} server {instance}", f"/v1/nodes/{machine}/states"
    node = _must_have(own, asked, machine, instance)
    if action in POWER:
        _must_be_its_own(asked, node)
        _change(own, asked, f"{path}/power", {"target": POWER[action]}, fence)
        return None
    if action is Action.UNRESCUE:
        _change(own, asked, f"{path}/provision", {"target": "unrescue"}, fence)
        return None
    if console_hindrance(node):
        raise ConflictError(orders.CLOUD_REFUSES(what=asked, why=_without_console(own, asked, node)))
    password = secrets.token_urlsafe(16)
    _change(own, asked, f"{path}/provision", {"target": "rescue", "rescue_password": password}, fence)
    return password


def console_of_machine(own: Project, server: str, fence: Fence) -> ConsoleView:
    """The console of the server's machine, if Ironic has one with a URL. Raises `ConflictError`, also while it is being
    started. Refused while Ironic's agent, or an operator's system, runs on the machine: access to its boot loader or a
    login there would give access to the network in which all machines are deployed.
    """
    instance, _, machine = server.partition("@")
    asked, path = f"open a console of server {instance}", f"/v1/nodes/{machine}/states/console"
    _must_be_its_own(asked, _must_have(own, asked, machine, instance))
    found = _console(own, asked, path)
    if switched_on := found is None:
        _must_be_its_own(asked, _must_have(own, asked, machine, instance))
        _change(own, asked, path, {"enabled": True}, fence)
        found = _console(own, asked, path)
    node = read_node(own, machine)  # it may be the next tenant's by now, at a URL that this tenant may know
    is_its = instance_of(node) == instance
    if (is_its and node["provision_state"] not in ITS_OWN) or (switched_on and not is_its):
        _without_console(own, asked, node)
    _must_be_its_own(asked, _its(asked, node, instance))
    if found is None:
        raise ConflictError(orders.CLOUD_REFUSES(what=asked, why="Ironic is starting it: ask again"))
    return found


def _console(own: Project, asked: str, path: str) -> ConsoleView | None:
    answer = own.baremetal.ask(asked, "GET", path, ok=REFUSED)
    check_done(asked, answer)
    info: Any = answer.body.get("console_info")
    if not answer.body.get("console_enabled") or not isinstance(info, dict):
        return None
    view: Mapping[str, object] = info  # pyright: ignore[reportUnknownVariableType] - a body's part
    if not isinstance(view.get("url"), str):
        raise TemporaryError(
            asked, "Ironic", outside.ODD_ANSWER(what="a console without a URL", answer=answer.sentence())
        )
    return ConsoleView(type=str(view.get("type") or "serial"), url=str(view["url"]))


def _must_have(own: Project, asked: str, machine: str, instance: str) -> Json:
    """The node, if it still has the instance: never switch off another tenant's machine."""
    return _its(asked, read_node(own, machine), instance)


def _its(asked: str, node: Json, instance: str) -> Json:
    if instance_of(node) != instance:
        raise ConflictError(
            orders.CLOUD_REFUSES(what=asked, why=f"its machine {node['uuid']} has another instance or none")
        )
    return node


def _must_be_its_own(asked: str, node: Json) -> None:
    if node["provision_state"] not in ITS_OWN:
        raise ConflictError(orders.CLOUD_REFUSES(what=asked, why=f"its machine is {node['provision_state']}"))


def _without_console(own: Project, asked: str, node: Json) -> str:
    """Ask for the machine's console to be switched off; returns the result in words."""
    try:
        return console_off(own, asked, node) or "its console is being switched off: ask again"
    except NotYetError as error:
        return error.answer


def _change(own: Project, asked: str, path: str, body: Json, fence: Fence) -> None:
    fence()
    check_done(asked, own.baremetal.ask(asked, "PUT", path, json=body, ok=REFUSED))


def _seen(node: Json) -> OnHost:
    busy = use_of_node(node)
    if instance_of(node) is None:
        return OnHost(busy=busy, by="Ironic")
    one = Occupant(server_id(node), str(info_of(node).get(NAME) or ""), ironic=True)
    return OnHost((one,), busy=busy, by="Ironic")


def _seen_or_unknown(node: Json) -> OnHost:
    try:
        return _seen(node)
    except OutsideError as error:
        return OnHost(unknown=str(error), by="Ironic")
    except KeyError as error:
        return OnHost(unknown=f"Ironic lists it without {error}", by="Ironic")
