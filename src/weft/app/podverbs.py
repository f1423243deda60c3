"""The verbs of tenants: plan, order, show, release. Pure planning, the store, and a notification of the loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TypeVar
from uuid import UUID, uuid4

from weft.app.desk import Desk, project_id
from weft.app.policy import CHANGES
from weft.app.show import pod_view
from weft.app.verbs import Request
from weft.engine.agenda import window_of
from weft.engine.capacity import Capacity, read_capacity, seconds_of
from weft.engine.claim import claim_now
from weft.engine.epoch import check_epoch
from weft.engine.gather import PlanningInput, Window, gather, refused
from weft.engine.lookout import Seen
from weft.engine.records import FoundPod, PodRecord
from weft.engine.waiting import check_later, check_waiting, insert_waiting
from weft.model.errors import ConflictError, InputError, NotFoundError
from weft.model.ids import span
from weft.model.order import Order
from weft.model.placement import Part, Refusal
from weft.model.plan import Plan
from weft.model.pod import ENDED, PodState
from weft.model.problems import Shown
from weft.model.receipt import SignedReceipt
from weft.model.site import Site
from weft.model.views import FIRST_PAGE, EventView, PodSearch, PodSummary, PodView
from weft.planning.queue.advice import when_at_most
from weft.planning.queue.book import when
from weft.planning.queue.extension import why_not_longer
from weft.planning.shapes.plan import NOT_ORDERED, parts_of, takes
from weft.planning.shapes.resolve import resolve, resolve_cloud, resolve_flavor
from weft.planning.shapes.shape import Needs
from weft.ports.cloud import Caller, CloudFacts

_Pod = TypeVar("_Pod", PodRecord, FoundPod)


class PodVerbs(Desk):
    """Of tenants; see `weft.app.verbs`."""

    def may(self, request: Request, rule: str, pod: str | None = None) -> None:
        """Raise what a verb with this rule would raise for a caller without permission, before anything is read.

        A refused change is logged; the verb itself checks again.

        Args:
            pod: name or id of the pod that it is about; None: the caller's own project, or the site.
        """
        caller = request.caller
        with self._refusals(request, rule, pod or "") if rule in CHANGES else nullcontext():
            if pod is not None:
                self._whose(request, rule, pod)
            else:
                self._policy.check(rule, caller, caller.project_id)

    def is_known_to_be_allowed(self, request: Request, rule: str) -> bool:
        """Whether `may` certainly lets the caller do this in its own project; never blocks."""
        return self._policy.remembers(rule, request.caller, request.caller.project_id) is True

    def _plan_new(self, request: Request, order: Order) -> Plan:
        project = self._project(request, "pods:plan")
        self._check_exclusive(request, project, order)
        given = self._gather(project, order)
        order = self._checked(request.caller, project, order, given)
        window = self._window(order)
        plan = self._plan(NOT_ORDERED, project, order, given, self._store.capacity(), window)
        if window.start <= window.now:
            given.check_quotas(project, plan)
        return plan

    def create_pod(self, request: Request, order: Order) -> PodView:
        with self._logged(request, "pod create", order.name):
            return self._create(request, order)

    def _create(self, request: Request, order: Order) -> PodView:
        """Now: claim nodes and numbers in one transaction; later: book nodes; queued: only store the order."""
        project = self._project(request, "pods:create")
        self._check_exclusive(request, project, order)
        given = self._gather(project, order)
        order = self._checked(request.caller, project, order, given)
        pod_id = str(uuid4())
        if order.queue:
            given.check_possible(pod_id, project, order)
            self._enqueue(request, project, order, given, pod_id)
        else:
            self._place(request, project, order, given, pod_id)
        return self._view(UUID(pod_id))

    def _place(self, request: Request, project: str, order: Order, given: PlanningInput, pod_id: str) -> None:
        """Nodes now, or booked for the requested start. Raises `RefusedError`."""
        cloud = resolve_cloud(order, given.site)
        check_epoch(self._store.database, given.world.clouds[cloud], given.site.name, cloud)
        window = self._window(order)
        if window.start > window.now:
            with self._store.database.transaction() as tx:
                tx.row("lock_capacity")
                check_waiting(tx, project, given.site)
                capacity = read_capacity(tx)
                plan = self._plan(pod_id, project, order, given, capacity, window)
                by = request.caller.user_name
                insert_waiting(
                    self._store, tx, pod_id, project, by, order, window, takes(plan), parts_of(plan)
                )
            return
        claim_now(self._store, given, pod_id, project, request.caller.user_name, order, window)

    def _enqueue(
        self, request: Request, project: str, order: Order, given: PlanningInput, pod_id: str
    ) -> None:
        """Into the queue; a requested start is booked at once if possible."""
        window = self._window(order)
        with self._store.database.transaction() as tx:
            tx.row("lock_capacity")
            check_waiting(tx, project, given.site)
            nodes, parts = list[str](), tuple[tuple[str, Part], ...]()
            if window.start > window.now:
                found = given.plan(pod_id, project, order, read_capacity(tx), window)
                nodes, parts = (takes(found), parts_of(found)) if isinstance(found, Plan) else ([], ())
            insert_waiting(
                self._store, tx, pod_id, project, request.caller.user_name, order, window, nodes, parts
            )

    def list_pods(self, request: Request, search: PodSearch = FIRST_PAGE) -> list[PodSummary]:
        """Live pods, and released ones of the last day, by name; no more than `search.limit`."""
        if search.all_projects:
            self._policy.check("pods:list_all_projects", request.caller)
            return self._store.summaries(search, None)
        return self._store.summaries(search, self._project(request, "pods:list"))

    def show_pod(self, request: Request, name: str) -> PodView:
        return self._view(self._whose(request, "pods:show", name).id)

    def find_pod(self, request: Request, rule: str, name: str) -> FoundPod:
        """Which pod it is and how far, for a caller who may do this with it."""
        return self._whose(request, rule, name)

    def watching(self, pod_id: UUID, seen: Seen) -> AbstractContextManager[None]:
        """See `Lookout.watching`. For a pod that was found for the caller in the same request."""
        return self._lookout.watching(pod_id, seen)

    def pod_events(self, request: Request, name: str, after: int = 0) -> list[EventView]:
        """Events with a sequence above `after`."""
        return self._store.events(self._whose(request, "pods:events", name).id, after)

    def release_pod(self, request: Request, name: str) -> PodView:
        with self._logged(request, "pod release", name):
            pod = self._whose(request, "pods:release", name)
            self._store.release(pod.id, f"release requested by {request.caller.user_name}")
            return self._view(pod.id)

    def retry_pod(self, request: Request, name: str) -> PodView:
        """A FAILED pod resumes where it failed; the number of attempts starts again."""
        with self._logged(request, "pod retry", name):
            found = self._whose(request, "pods:retry", name)
            if self._store.retry(found.id, f"retry requested by {request.caller.user_name}") is None:
                pod = self._store.find_pod(str(found.id), None)
                leaving = pod.wanted == "absent" and pod.state not in ENDED
                state = "being released" if leaving else pod.state
                raise ConflictError(f"pod {pod.name} is {state}: only a FAILED pod can be retried")
            return self._view(found.id)

    def abandon_pod(self, request: Request, name: str, reason: str) -> PodView:
        """End a release that can't finish; its receipt is never clean. `ConflictError` in other states."""
        with self._logged(request, "pod abandon", name):
            pod = self._whose(request, "pods:abandon", name)
            if not self._store.abandon(pod.id, request.caller.user_name, reason):
                raise ConflictError(_not_abandoned(self._store.find_pod(str(pod.id), None)))
            return self._view(pod.id)

    def pod_receipt(self, request: Request, name: str) -> SignedReceipt:
        pod = self._find(request, "pods:receipt", name)
        receipt = self._store.receipt(pod.id)
        if receipt is None:
            why = "nothing was ever claimed" if pod.state is PodState.RELEASED else "not RELEASED yet"
            raise ConflictError(f"pod {pod.name} is {pod.state}: there is no receipt: {why}")
        return receipt

    def _project(self, request: Request, rule: str) -> str:
        """The caller's own project, where it may do this."""
        project = request.caller.project_id
        if project is None:
            scope = "the system" if request.caller.system else "no project"
            raise InputError("scope", Shown(scope), "a token for a project, since pods belong to projects")
        self._policy.check(rule, request.caller, project)
        return project

    def _find(self, request: Request, rule: str, name: str) -> PodRecord:
        """A pod that the caller may see and is allowed to do this with; one that it may not see doesn't exist."""
        return self._allowed(request, rule, name, self._store.find_pod)

    def _whose(self, request: Request, rule: str, name: str) -> FoundPod:
        """`_find` for those who need no more than which pod it is."""
        return self._allowed(request, rule, name, self._store.which_pod)

    def _allowed(
        self, request: Request, rule: str, name: str, find: Callable[[str, str | None], _Pod]
    ) -> _Pod:
        caller = request.caller
        everywhere = self._policy.allows("pods:list_all_projects", caller)
        pod: _Pod | None = None
        if caller.project_id is not None:
            try:
                pod = find(name, caller.project_id)
            except NotFoundError:
                if not everywhere:
                    raise
        if pod is None:
            pod = find(name, None)
        if not self._policy.allows("pods:show", caller, pod.project_id):
            raise NotFoundError(f"there is no pod {name!r} in this project")
        self._policy.check(rule, caller, pod.project_id)
        return pod

    def _check_exclusive(self, request: Request, project: str, order: Order) -> None:
        """Keeping others off leaves needs a separate rule; so does planning it, since the plan reveals where others
        are.
        """
        if order.locality.exclusive or order.locality.apart_from:
            self._policy.check("pods:create_exclusive", request.caller, project)

    def _gather(self, project: str, order: Order) -> PlanningInput:
        site = self._store.site().site
        cloud = resolve_cloud(order, site)
        needs = Needs.of([resolve(order, project, site)])
        given = gather(site, self._keeper.world(), cloud, needs)
        if error := given.boot_error(project, order):
            raise error
        return given

    def _checked(
        self, caller: Caller, project: str, order: Order, given: PlanningInput, before: Order | None = None
    ) -> Order:
        """The order with its key pair resolved and projects by id, after the cloud confirmed the names in it."""
        cloud = resolve_cloud(order, given.site)
        facts = given.world.clouds[cloud]
        flavor = resolve_flavor(order, given.site.clouds[cloud], cloud)
        shares = order.nodes.sharing == "shared"
        facts.check_order(
            project, order, flavor, given.site.clouds[cloud].flavors[flavor] if shares else None
        )
        return self._resolved(caller, order, facts, before)

    def _resolved(
        self, caller: Caller, order: Order, facts: CloudFacts, before: Order | None = None
    ) -> Order:
        """The order with its key pair resolved and projects by id.

        Args:
            before: the pod's current order. A key pair that it names too isn't looked up again: key pairs belong to
                users, and another member of the project has none of that name.
        """
        # Names of projects are looked up for operators only, and an unknown id is accepted silently: otherwise callers
        # could find out which projects exist.
        if order.locality.apart_from and self._policy.is_operator(caller):
            known = facts.projects()
            ids = [project_id(one, known, "locality.apart_from") for one in order.locality.apart_from]
            apart = tuple(dict.fromkeys(ids))
            locality = order.locality.model_copy(update={"apart_from": apart})
            order = order.model_copy(update={"locality": locality})
        if order.access.key_pair is None:
            return order
        key = before.access.ssh_key if before else None
        note = f"key pair {order.access.key_pair}"
        if key is None or key.split(" ", 2)[2:] != [note]:
            key = facts.public_key(caller.user_id, order.access.key_pair)
        # Its comment says which one it was, which the order doesn't say any more.
        noted = " ".join((*key.split()[:2], note))
        access = order.access.model_copy(update={"key_pair": None, "ssh_key": noted})
        return order.model_copy(update={"access": access})

    def _plan(
        self,
        pod_id: str,
        project: str,
        order: Order,
        given: PlanningInput,
        capacity: Capacity,
        window: Window,
    ) -> Plan:
        plan = given.plan(pod_id, project, order, capacity, window)
        if isinstance(plan, Refusal):
            raise refused(plan)
        return plan

    def _window(self, order: Order) -> Window:
        """Start and end. Raises `InputError` for a lease that would end before it begins."""
        now = self._clock.now()
        lease = order.lease
        if lease.end is not None and lease.end <= now:
            raise InputError("lease.end", lease.end.isoformat(), "a time in the future")
        start = max(lease.start, now) if lease.start is not None else now
        window = window_of(order, now.timestamp(), start.timestamp())
        field, given = ("lease.duration", lease.duration) if lease.duration else ("lease.end", lease.end)
        check_longest(field, given, window.end, window.now, self._store.site().site)
        return window

    def _view(self, pod_id: UUID) -> PodView:
        shown = self._store.pod_to_show(pod_id)
        placed = shown.pod.placed
        return pod_view(shown, placed.site if placed else self._store.site().site.name)


def check_longest(field: str, given: object, end: float, now: float, site: Site) -> None:
    """Raise `InputError` for a lease that ends later than the site allows."""
    longest = site.leases.longest
    if longest is not None and end > now + span(longest).total_seconds():
        last = when_at_most(now + span(longest).total_seconds())
        value = given.isoformat() if isinstance(given, datetime) else given
        raise InputError(
            field, value, f"an end, {last} at the latest: leases may end at most {longest} from now"
        )


def check_extension(pod: PodRecord, until: datetime | None, capacity: Capacity, site: Site) -> None:
    """Raise `InputError` or `ConflictError` unless the lease may end then; None: no end."""
    if pod.state in ENDED or pod.placed is None:
        raise ConflictError(f"pod {pod.name} is {pod.state}: it can no longer be extended")
    if until is not None:
        check_later(pod.name, seconds_of(pod.lease_end), until)
    book, later = capacity.book(), seconds_of(until)
    lease = next((k for k in book.leases if k.name == str(pod.id)), None)
    why = why_not_longer(site, pod.placed.fabric, book, lease, later) if lease else None
    if why is not None:
        raise ConflictError(f"pod {pod.name} can't be extended to {when(later)}: {why}")


def _not_abandoned(pod: PodRecord) -> str:
    """Why a pod can't be abandoned now."""
    if pod.state in ENDED:
        return f"pod {pod.name} is {pod.state}: there is nothing to abandon"
    if pod.abandoned is not None:
        return f"pod {pod.name}: {pod.abandoned.by} has asked for it already; its loop is at it"
    if pod.wanted == "absent":
        return f"pod {pod.name} is {pod.state}: its release begins in a moment, and may come to its end by itself"
    return (
        f"pod {pod.name} is {pod.state}: release it first; only a release that doesn't end can be abandoned"
    )
