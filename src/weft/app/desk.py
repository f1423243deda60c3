"""What every verb needs: the components, the audit log around each change, the caller's project and pods."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from weft.app.policy import Policy
from weft.app.show import pod_view
from weft.app.verbs import Request
from weft.app.worldkeeper import WorldKeeper
from weft.engine.base.listener import Listener
from weft.engine.base.pulse import Pulse
from weft.engine.rows.records import PodRecord
from weft.engine.rows.shownrecords import FoundPod, ShownPod
from weft.engine.store.store import Store
from weft.engine.watch.eventlookout import EventLookout
from weft.engine.watch.lookout import Lookout
from weft.model.errors import InputError, NotFoundError, WeftError
from weft.model.errortable import Shown
from weft.model.messages import orders
from weft.model.messages.orders import instead
from weft.model.views import PodView
from weft.ports.clock import Clock

_Pod = TypeVar("_Pod", PodRecord, FoundPod, ShownPod)


def project_id(given: str, known: Mapping[str, str], field: str) -> str:
    """Id of a project by its id or name. Raises `InputError` if it is unknown.

    Args:
        known: id -> name of the projects that weft serves.
    """
    ids = [given] if given in known else sorted(id_ for id_, name in known.items() if name == given)
    if len(ids) != 1:
        allowed = "the id of one: several projects have this name" if ids else "projects that weft serves"
        raise InputError(field, given, allowed)
    return ids[0]


class Desk:
    """What all parts of the service share: components, the audit log around each change, and who may see which pod."""

    def __init__(
        self,
        store: Store,
        keeper: WorldKeeper,
        policy: Policy,
        clock: Clock,
        listener: Listener,
        pulse: Pulse | None = None,
    ) -> None:
        self.store, self.keeper, self.policy = store, keeper, policy
        self.clock, self.pulse = clock, pulse or Pulse()
        self.lookout = Lookout(store.database, listener, self.pulse)
        self.event_lookout = EventLookout(store.database, listener, self.pulse)

    @contextmanager
    def logged(self, request: Request, action: str, subject: str) -> Generator[None]:
        """Log who did what, when, from where, with what result; refusals are logged, too."""
        with self.refusals(request, action, subject):
            yield
        self.log(request, action, subject, "done", counted=False)

    @contextmanager
    def refusals(self, request: Request, action: str, subject: str) -> Generator[None]:
        """Log only refusals, as `logged` does."""
        try:
            yield
        except WeftError as error:
            counted = not self.policy.is_operator(request.caller)
            self.log(request, action, subject, f"{type(error).__name__}: {error}", counted)
            raise
        except Exception as error:
            self.log(request, action, subject, f"defect: {type(error).__name__}", counted=False)
            raise

    def log(self, request: Request, action: str, subject: str, outcome: str, counted: bool) -> None:
        """Add an entry to the audit log; `counted`: requests alike may share a row."""
        caller = request.caller
        self.store.records.log(
            user_id=caller.user_id,
            user_name=caller.user_name,
            user_domain_id=caller.user_domain_id,
            project_id=caller.project_id,
            project_domain_id=caller.project_domain_id,
            action=action,
            subject=subject[:255],
            address=request.address,
            user_agent=request.user_agent,
            request_id=request.request_id,
            outcome=outcome[:500],
            counted=counted,
        )

    def project(self, request: Request, rule: str) -> str:
        """The caller's own project. Raises `ForbiddenError` unless the caller may do this there."""
        project = request.caller.project_id
        if project is None:
            scope = "the system" if request.caller.system else "no project"
            raise InputError(
                "scope", Shown(scope), instead("a token for a project, since pods belong to projects")
            )
        self.policy.check(rule, request.caller, project)
        return project

    def find(self, request: Request, rule: str, name: str) -> PodRecord:
        """A pod that the caller may see and is allowed to do this with; one that it may not see doesn't exist."""
        return self.allowed(request, rule, name, self.store.pods.find)

    def whose(self, request: Request, rule: str, name: str) -> FoundPod:
        """Identity and state of a pod, found as by `find`."""
        return self.allowed(request, rule, name, self.store.pods.which)

    def allowed(
        self, request: Request, rule: str, name: str, find: Callable[[str, str | None], _Pod]
    ) -> _Pod:
        """The pod of a name or id, if the rule allows the caller to; others' pods raise `NotFoundError`."""
        caller = request.caller
        everywhere = self.policy.allows("pods:list_all_projects", caller)
        pod: _Pod | None = None
        if caller.project_id is not None:
            try:
                pod = find(name, caller.project_id)
            except NotFoundError:
                if not everywhere:
                    raise
        elif not everywhere:
            # Don't look it up: the count would reveal other projects' pods.
            raise NotFoundError(orders.POD_NOT_FOUND(pod=name))
        if pod is None:
            pod = find(name, None)
        if not self.policy.allows("pods:show", caller, pod.project_id):
            raise NotFoundError(orders.POD_NOT_FOUND(pod=name))
        self.policy.check(rule, caller, pod.project_id)
        return pod

    def view(self, pod_id: UUID) -> PodView:
        """A pod as people see it. Raises `NotFoundError`."""
        return self.view_of(self.store.pods.to_show(pod_id))

    def view_of(self, shown: ShownPod) -> PodView:
        """A row as people see it, without checks that the site ignores."""
        placed = shown.pod.placed
        if shown.checks:
            policy = self.store.site().site.checks
            counted = tuple(row for row in shown.checks if policy.action(row["code"]) != "ignore")
            shown = replace(shown, checks=counted)
        return pod_view(shown, placed.site if placed else self.store.site().site.name)


class DeskVerbs:
    """Verbs that need nothing but the desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
