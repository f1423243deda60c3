"""Serial consoles that Ironic serves itself, without Nova's proxy and its tokens.

Anyone who knows a console's URL can read and type. A teardown stops it, but while the node has
`console_enabled` Ironic starts it again at the end of the next deployment, for the next tenant. So it is switched off
before a machine is freed, and a machine whose console is on is neither free nor clean.

Source: ironic 39, `conductor.manager.set_console_mode`, `conductor.deployments._start_console_in_deploy`.
"""

from __future__ import annotations

from typing import NoReturn

from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import NotYetError, TemporaryError

REFUSED = (400, 404, 409, 501)
"""Statuses of Ironic's answer if this machine can't switch its console, or can't now."""
BY_HAND = "switch it off (`openstack baremetal node console disable`)"
_FAILED = "disabling the console"


def console_hindrance(node: Json) -> str | None:
    """Why a machine can't be assigned: someone may have its console open. None if the console is off."""
    return f"its console is on: {BY_HAND}" if node.get("console_enabled") else None


def console_failure(node: Json) -> str | None:
    """Ironic's reason why the console couldn't be stopped when it was last asked to."""
    error = str(node.get("last_error"))
    return error[:500] if _FAILED in error else None


def console_off(own: Project, asked: str, node: Json) -> str | None:
    """Ask Ironic to switch a console off, which it does later. Returns None, or why it can't be switched off.

    Raises `NotYetError`: Ironic works on the node.
    """
    path = f"/v1/nodes/{node['uuid']}/states/console"
    answer = own.baremetal.ask(asked, "PUT", path, json={"enabled": False}, ok=REFUSED)
    if answer.status == 409:
        raise NotYetError(
            asked, "Ironic", f"its console can't be switched off now: {answer.sentence()}"[:500]
        )
    return None if answer.fine else f"its console can't be switched off: {answer.sentence()}"[:500]


def wait_for_console(own: Project, asked: str, node: Json) -> NoReturn:
    """Have the console switched off, and wait for that; an operator is asked for help if Ironic can't."""
    if why := console_off(own, asked, node) or console_failure(node):
        raise TemporaryError(asked, "Ironic", why, BY_HAND, alarming=True)
    raise NotYetError(asked, "Ironic", "its console is being switched off")
