"""The verbs about the events of all pods of a project, or of all projects."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from weft.app.desk import DeskVerbs
from weft.app.verbs import Request
from weft.engine.watch.eventlookout import Watch
from weft.engine.watch.eventstream import EventStream, Position
from weft.model.errors import InputError
from weft.model.messages.orders import instead
from weft.model.views import EventPage, EventSearch


class EventVerbs(DeskVerbs):
    """See `weft.app.verbs`."""

    def page(self, request: Request, search: EventSearch) -> EventPage:
        """Events after a position, or the newest. `ConflictError` if it is from before the database was restored."""
        project, after = self._read_events(request, search)
        stream = EventStream(self._desk.store.database)
        if search.newest is not None:
            return stream.newest(project, min(search.newest, search.limit))
        return stream.page(project, after, search.limit)

    def may_read(self, request: Request, search: EventSearch) -> None:
        """Raise what `page` would raise for a caller without permission, and for an invalid search."""
        self._read_events(request, search)

    def _read_events(self, request: Request, search: EventSearch) -> tuple[str | None, Position | None]:
        project = self._project_of_events(request, search)
        if search.newest is not None and search.after is not None:
            raise InputError("newest", search.newest, instead("must be omitted with after"))
        return project, Position.read(search.after) if search.after else None

    def watching(
        self, request: Request, search: EventSearch, position: str, seen: Callable[[], None]
    ) -> AbstractContextManager[None]:
        """See `EventLookout.watching`; for a position that `page` has returned."""
        project = self._project_of_events(request, search)
        return self._desk.event_lookout.watching(Watch(project, Position.read(position), seen))

    def _project_of_events(self, request: Request, search: EventSearch) -> str | None:
        if search.all_projects:
            self._desk.policy.check("events:list_all_projects", request.caller)
            return search.project
        project = self._desk.project(request, "events:list")
        if search.project not in (None, project):
            raise InputError("project", search.project, instead("must be omitted without all_projects"))
        return project
