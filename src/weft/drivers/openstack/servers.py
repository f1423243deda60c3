"""Which servers have booted; and tenants' actions: reboot, rescue, and consoles. Actions use the server's own
project, as weft's user. Source: Nova's api-ref, "List Servers Detailed", "Servers - run an action", "Create
Console".
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from itertools import takewhile

from weft.drivers.openstack.errors import DeniedError, check_done
from weft.drivers.openstack.metalfacts import act_on_machine, booted, console_of_machine
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Sessions
from weft.model.errors import OutsideError, TemporaryError
from weft.model.messages import outside
from weft.model.views import ConsoleView
from weft.ports.fences import Fence
from weft.ports.servers import Action

BODIES: dict[Action, Json] = {
    Action.REBOOT: {"reboot": {"type": "SOFT"}},
    Action.RESET: {"reboot": {"type": "HARD"}},
    Action.RESCUE: {"rescue": None},
    Action.UNRESCUE: {"unrescue": None},
}
DETAILED = 3600.0
"""Seconds for which details are listed once Nova has denied ids: weft's roles may be extended meanwhile."""
REFUSED = (400, 404, 409, 501)
"""Statuses of Nova's answer if a server can't do what was asked, or can't now."""


class OpenStackServers:
    """`ServerActions`. Thread-safe.

    Args:
        without_nova: the cloud has machines of which Nova knows nothing (`weft.drivers.openstack.metalfacts`).
    """

    def __init__(self, sessions: Sessions, without_nova: bool = False) -> None:
        self._sessions, self._without_nova = sessions, without_nova
        self._detailed_until = -math.inf

    def act(self, project_id: str, server: str, action: Action, fence: Fence) -> str | None:
        if "@" in server:
            return act_on_machine(self._sessions.own(), server, action, fence)
        asked, compute = f"{action} server {server}", self._sessions.project(project_id).compute
        path = f"/servers/{server}/action"
        fence()
        answer = compute.ask(asked, "POST", path, json=BODIES[action], ok=REFUSED)
        check_done(asked, answer)
        password = answer.body.get("adminPass")
        return str(password) if action is Action.RESCUE and password else None

    def console(self, project_id: str, server: str, serial: bool, fence: Fence) -> ConsoleView:
        if "@" in server:
            return console_of_machine(self._sessions.own(), server, fence)
        asked, compute = f"open a console of server {server}", self._sessions.project(project_id).compute
        kind = {"protocol": "serial", "type": "serial"} if serial else {"protocol": "vnc", "type": "novnc"}
        path = f"/servers/{server}/remote-consoles"
        fence()
        answer = compute.ask(asked, "POST", path, json={"remote_console": kind}, ok=REFUSED)
        check_done(asked, answer)
        found = compute.part(asked, answer, "remote_console", reading=False)
        if not isinstance(found.get("url"), str):
            raise TemporaryError(
                asked, "Nova", outside.ODD_ANSWER(what="a console without a URL", answer=answer.sentence())
            )
        return ConsoleView(type=kind["type"], url=found["url"])

    def servers_named(self, project_id: str, names: Collection[str]) -> frozenset[str]:
        """See `ServerActions.servers_named`. Servers deployed by Ironic without Nova aren't found: only weft knows
        their names."""
        if not names:
            return frozenset()
        # Nova's filter is a regular expression; host names have no special characters.
        params = {"name": f"^{_beginning(min(names), max(names))}"}
        compute = self._sessions.project(project_id).compute
        rows = compute.listing("list servers by name", "/servers", "servers", params)
        return frozenset(str(row.get("name")).lower() for row in rows) & frozenset(names)

    def built(self, since: datetime, awaited: Callable[[], Collection[str]]) -> Collection[str]:
        """See `ServerActions.built`. If one of Nova and Ironic doesn't answer, the answer of the other one is used."""
        machines = [one for one in awaited() if "@" in one] if self._without_nova else []
        found, errors = set[str](), list[OutsideError]()
        for ask in (self._built_by_nova, partial(booted, self._sessions.own(), machines)):
            try:
                found |= ask(since)
            except OutsideError as error:
                errors.append(error)
        if errors and not found:
            raise errors[0]
        return found

    def _built_by_nova(self, since: datetime) -> frozenset[str]:
        """Servers that Nova has built. Only ids are listed where weft's roles allow that: for details of servers Nova
        asks Neutron each time, and its API is busy with requests of servers just then. One that its tenant deletes
        while it boots is read by its pod's visit.
        """
        params = {"all_tenants": "1", "tags": "weft", "changes-since": since.isoformat(), "status": _BUILT}
        compute, asked = self._sessions.own().compute, "list servers that changed"
        if time.monotonic() >= self._detailed_until:
            try:
                return _ids(compute.listing(asked, "/servers", "servers", params))
            except DeniedError:
                self._detailed_until = time.monotonic() + DETAILED  # roles as before 30 November 2026
        return _ids(compute.listing(asked, "/servers/detail", "servers", params))


def _ids(rows: Sequence[Json]) -> frozenset[str]:
    return frozenset(str(row.get("id")) for row in rows)


_BUILT = ["ACTIVE", "ERROR", "SHUTOFF", "PAUSED", "SUSPENDED", "SHELVED", "SHELVED_OFFLOADED", "RESCUE"]
"""States of servers after BUILD, as the API names them; Nova allows several in one request."""


def _beginning(one: str, other: str) -> str:
    """The common prefix of two texts; that of the first and the last of a sorted list is common to all."""
    same = (a == b for a, b in zip(one, other, strict=False))
    return "".join(a for a, _ in zip(one, takewhile(bool, same), strict=False))
