"""Which servers have booted; what tenants have done with theirs: reboot, rescue, and consoles.

The latter in the server's own project, as weft's user. Source: Nova's api-ref, "List Servers Detailed", "Servers - run
an action", "Create Console".
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from weft.drivers.openstack.errors import Answer
from weft.drivers.openstack.metalfacts import act_on_machine, booted, console_of_machine
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Sessions
from weft.model.errors import ConflictError, TemporaryError
from weft.model.views import ConsoleView
from weft.ports.servers import Action

BODIES: dict[Action, Json] = {
    Action.REBOOT: {"reboot": {"type": "SOFT"}},
    Action.RESET: {"reboot": {"type": "HARD"}},
    Action.RESCUE: {"rescue": None},
    Action.UNRESCUE: {"unrescue": None},
}
REFUSED = (400, 404, 409, 501)
"""Statuses with which Nova says that this server can't, or can't now."""


class OpenStackServers:
    """`Servers`. Thread-safe.

    Args:
        by_ironic: machines of which Nova knows nothing (`weft.drivers.openstack.metalfacts`).
    """

    def __init__(self, sessions: Sessions, by_ironic: Collection[str] = ()) -> None:
        self._sessions, self._by_ironic = sessions, frozenset(by_ironic)

    def act(self, project_id: str, server: str, action: Action) -> str | None:
        if "@" in server:
            return act_on_machine(self._sessions.own(), server, action)
        asked, compute = f"{action} server {server}", self._sessions.project(project_id).compute
        path = f"/servers/{server}/action"
        answer = compute.ask(asked, "POST", path, json=BODIES[action], ok=REFUSED)
        _check(asked, answer)
        password = answer.body.get("adminPass")
        return str(password) if action is Action.RESCUE and password else None

    def console(self, project_id: str, server: str, serial: bool) -> ConsoleView:
        if "@" in server:
            return console_of_machine(self._sessions.own(), server)
        asked, compute = f"open a console of server {server}", self._sessions.project(project_id).compute
        kind = {"protocol": "serial", "type": "serial"} if serial else {"protocol": "vnc", "type": "novnc"}
        path = f"/servers/{server}/remote-consoles"
        answer = compute.ask(asked, "POST", path, json={"remote_console": kind}, ok=REFUSED)
        _check(asked, answer)
        found = compute.part(asked, answer, "remote_console", reading=False)
        if not isinstance(found.get("url"), str):
            raise TemporaryError(asked, "Nova", f"a console without a URL: {answer.sentence()}"[:300])
        return ConsoleView(type=kind["type"], url=found["url"])

    def built(self, since: datetime) -> Collection[str]:
        params = {"all_tenants": "1", "tags": "weft", "changes-since": since.isoformat()}
        compute = self._sessions.own().compute
        rows = compute.listing("list servers that changed", "/servers/detail", "servers", params)
        found = frozenset(str(row.get("id")) for row in rows if row.get("status") != "BUILD")
        if not self._by_ironic:
            return found
        return found | frozenset(booted(self._sessions.own(), self._by_ironic, since))


def _check(asked: str, answer: Answer) -> None:
    if not answer.fine:
        raise ConflictError(f"the cloud refuses to {asked} now: {answer.sentence()}")
