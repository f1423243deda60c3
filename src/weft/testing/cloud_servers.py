"""The fake cloud: actions on servers that tenants request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from weft.model.errors import ConflictError
from weft.model.messages import orders
from weft.model.resources import Kind
from weft.model.views import ConsoleView
from weft.ports.fences import Fence
from weft.ports.servers import Action
from weft.testing.cloud_existing import FakeExisting
from weft.testing.cloud_state import Thing

RESCUE = "RESCUE"
"""State of a rescued server in Nova: it stays on its host, and isn't at rest until its tenant ends the rescue."""


class FakeServers(FakeExisting):
    """`ServerActions`; `acts` records what was requested."""

    def act(self, project_id: str, server: str, action: Action, fence: Fence) -> str | None:
        fence()
        self._call("act", Kind.SERVER)
        thing, rescue = self._its(project_id, server), action is Action.RESCUE
        rescued = thing.stuck == RESCUE
        if (rescued and action is not Action.UNRESCUE) or (not rescued and action is Action.UNRESCUE):
            raise ConflictError(
                orders.CLOUD_REFUSES(what=f"{action} server {server}", why="409 it is in another state")
            )
        self.acts.append((server, action))
        thing.stuck = RESCUE if rescue else ""
        return "s3cret" if rescue else None

    def console(self, project_id: str, server: str, serial: bool, fence: Fence) -> ConsoleView:
        fence()
        self._call("console", Kind.SERVER)
        kind = "serial" if serial else "novnc"
        mine = self._its(project_id, server)
        return ConsoleView(type=kind, url=f"https://cloud.example/{kind}?token={mine.id}")

    def servers_named(self, project_id: str, names: Collection[str]) -> frozenset[str]:
        self._call("facts", None)
        mine = {t.name.lower() for t in self.servers if t.project_id == project_id}
        return frozenset(mine & set(names))

    def built(self, since: datetime, awaited: Callable[[], Collection[str]]) -> Collection[str]:
        """All servers that aren't being built: the fake doesn't record when one changed."""
        self._call("built", Kind.SERVER)
        now = self.clock.monotonic()
        with self._lock:
            return [
                t.id for t in self.servers if t.broken or t.gone_at or (now >= t.ready_at and not t.stuck)
            ]

    def made_by(self, project_id: str, servers: Collection[str]) -> Mapping[str, datetime]:
        self._call("made_by", None)
        mine = (t for t in self.servers if t.id in servers and t.project_id == project_id)
        return {t.id: t.created for t in mine if t.created is not None}

    def _its(self, project_id: str, server: str) -> Thing:
        for thing in self.servers:
            if (thing.id, thing.project_id) == (server, project_id):
                return thing
        raise ConflictError(
            orders.CLOUD_REFUSES(what=f"open a console of server {server}", why="404 no such server")
        )
