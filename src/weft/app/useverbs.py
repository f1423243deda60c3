"""The verb about hours of nodes and accelerators."""

from __future__ import annotations

from datetime import timedelta

from weft.app.desk import DeskVerbs
from weft.app.verbs import Request
from weft.engine.book.use import Period, use_of
from weft.model.errors import InputError
from weft.model.messages.orders import instead
from weft.model.views import UseReport, UseSearch

LONGEST = timedelta(days=1100)


class UseVerbs(DeskVerbs):
    """See `weft.app.verbs`."""

    def use(self, request: Request, search: UseSearch) -> UseReport:
        """Hours in a period, of the caller's project, or of all (operators)."""
        if search.all_projects:
            self._desk.policy.check("use:show_all_projects", request.caller)
            project = search.project
        else:
            project = self._desk.project(request, "use:show")
            if search.project not in (None, project):
                raise InputError("project", search.project, instead("must be omitted without all_projects"))
        now = self._desk.store.database.now()
        period = Period(search.since, search.until or now, now)
        if period.until <= period.since:
            raise InputError("since", search.since, instead("must be before the end of the period"))
        if period.until - period.since > LONGEST:
            raise InputError("since", search.since, instead("must be at most 1100 days before the end"))
        site = self._desk.store.site().site
        rows = use_of(
            self._desk.store.database, site, self._desk.store.capacity(), period, project, search.by
        )
        return UseReport(
            since=period.since, until=period.until, at=now, kept=site.retention.use, rows=tuple(rows)
        )
