"""The verbs of tenants: plan, order, show, release. Pure planning, the store, and a notification of the loop."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from uuid import UUID, uuid4

from weft.app.orderdesk import OrderDesk
from weft.app.policyrules import CHANGES
from weft.app.verbs import Request
from weft.engine.base.epoch import check_epoch
from weft.engine.queue.claim import claim_now
from weft.engine.queue.waiting import order_waiting
from weft.engine.rows.orderkeys import OrderKey, OrderKeys
from weft.engine.rows.records import PodRecord
from weft.engine.rows.shownrecords import FoundPod
from weft.engine.store.signing import Signer
from weft.engine.watch.lookout import PodCallback
from weft.model.errors import ConflictError, InputError
from weft.model.messages import orders, pods
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.pod import ENDED, PodState
from weft.model.receipt import ReceiptKey, SignedReceipt
from weft.model.views import FIRST_PAGE, EventView, PodSearch, PodSummary, PodView
from weft.planning.shapes.plan import NOT_ORDERED


class PodVerbs(OrderDesk):
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

    def allowed(self, request: Request, rules: Sequence[str], project: str | None = None) -> tuple[str, ...]:
        """Those of the rules that the policy lets the caller do. Only asks: nothing is logged, and nothing decided.

        Args:
            project: id of the project that it is about; None: the site.
        """
        return tuple(rule for rule in rules if self._policy.allows(rule, request.caller, project))

    def _plan_new(self, request: Request, order: Order) -> Plan:
        project = self._project(request, "pods:plan")
        self._check_exclusive(request, project, order)
        given, asked = self._gather(project, order)
        asked = self._checked(request.caller, asked, given)
        window = self._window(order, given.site)
        plan = self._plan(NOT_ORDERED, asked, given, self._store.capacity(), window)
        if window.start <= window.now:
            given.check_quotas(project, plan)
        return plan

    def create_pod(self, request: Request, order: Order, key: str = "") -> PodView:
        """Order a pod.

        Args:
            key: the caller's own name for this order, if it may send it again: repeated, the same pod is returned, also
                if it has been released since; see `weft.engine.rows.orderkeys`.
        """
        return self._view(UUID(self.order_pod(request, order, key)))

    def order_pod(self, request: Request, order: Order, key: str = "") -> str:
        """As `create_pod`, but returns only the pod's id, without reading the pod."""
        with self._logged(request, "pod create", order.name):
            return self._create(request, order, key)

    def _create(self, request: Request, order: Order, key: str = "") -> str:
        """The id of a new pod, or of the one that the key stands for."""
        project = self._project(request, "pods:create")
        self._check_exclusive(request, project, order)
        if not key:
            return self._place(request, project, order, str(uuid4()))
        keys = OrderKeys(self._store.database)
        pod_id = keys.pod_of(OrderKey(project, request.caller.user_id, key), order)
        if keys.is_made(pod_id, order.name):
            return str(pod_id)
        try:
            return self._place(request, project, order, str(pod_id))
        except ConflictError:  # perhaps with itself, sent twice at once
            if not keys.is_made(pod_id, order.name):
                raise
            return str(pod_id)

    def _place(self, request: Request, project: str, order: Order, pod_id: str) -> str:
        """Claim nodes and numbers in one transaction; for a later start book nodes; if queued, only store the order."""
        return self._by_active_site(lambda: self._write_order(request, project, order, pod_id), order.name)

    def _write_order(self, request: Request, project: str, order: Order, pod_id: str) -> str:
        """Raises `SiteChangedError` if another site became active meanwhile; then nothing is written."""
        given, asked = self._gather(project, order)
        asked = self._checked(request.caller, asked, given)
        by = request.caller.user_name
        if order.queue:
            given.check_possible(pod_id, asked)
        else:
            cloud = given.world.clouds[asked.cloud]
            check_epoch(self._store.database, cloud, given.site.name, asked.cloud)
        window = self._window(order, given.site)
        if order.queue or window.start > window.now:
            order_waiting(self._store, given, pod_id, by, asked, window)
        else:
            claim_now(self._store, given, pod_id, by, asked, window)
        return pod_id

    def list_pods(self, request: Request, search: PodSearch = FIRST_PAGE) -> list[PodSummary]:
        """Live pods, and released ones of the last day, by name; no more than `search.limit`."""
        if search.all_projects:
            self._policy.check("pods:list_all_projects", request.caller)
            return self._store.pods.summaries(search, None)
        project = self._project(request, "pods:list")
        if search.project not in (None, project):
            raise InputError("project", search.project, instead("must be omitted without all_projects"))
        return self._store.pods.summaries(search, project)

    def show_pod(self, request: Request, name: str) -> PodView:
        return self._view_of(self._allowed(request, "pods:show", name, self._store.pods.find_shown))

    def find_pod(self, request: Request, rule: str, name: str) -> FoundPod:
        """Identity and state of a pod, for a caller who may do this with it."""
        return self._whose(request, rule, name)

    def watching(self, pod_id: UUID, seen: PodCallback) -> AbstractContextManager[None]:
        """See `Lookout.watching`. For a pod that was found for the caller in the same request."""
        return self._lookout.watching(pod_id, seen)

    def pod_events(
        self, request: Request, name: str, after: int = 0, newest: int | None = None
    ) -> list[EventView]:
        """Events with a sequence above `after`; with `newest` only the last so many."""
        return self._store.records.events(self._whose(request, "pods:events", name).id, after, newest)

    def release_pod(self, request: Request, name: str, generation: int | None = None) -> PodView:
        """Args: generation: `PreconditionError` unless the pod has this one."""
        return self._view(UUID(self.begin_release(request, name, generation)))

    def begin_release(self, request: Request, name: str, generation: int | None = None) -> str:
        """As `release_pod`, but returns only the pod's id, without reading the pod."""
        with self._logged(request, "pod release", name):
            pod = self._whose(request, "pods:release", name)
            said = pods.RELEASE_REQUESTED(user=request.caller.named_to(pod.project_id))
            self._store.release(pod.id, said, generation)
            return str(pod.id)

    def retry_pod(self, request: Request, name: str) -> PodView:
        """A FAILED pod resumes where it failed; the number of attempts starts again."""
        with self._logged(request, "pod retry", name):
            found = self._whose(request, "pods:retry", name)
            if (
                self._store.retry(
                    found.id, pods.RETRY_REQUESTED(user=request.caller.named_to(found.project_id))
                )
                is None
            ):
                pod = self._store.pods.find(str(found.id), None)
                leaving = pod.wanted == "absent" and pod.state not in ENDED
                state = "being released" if leaving else pod.state
                raise ConflictError(orders.NOT_FAILED(pod=pod.name, state=str(state)))
            return self._view(found.id)

    def abandon_pod(self, request: Request, name: str, reason: str) -> PodView:
        """End a release that can't finish; its receipt is never clean. `ConflictError` in other states."""
        with self._logged(request, "pod abandon", name):
            pod = self._whose(request, "pods:abandon", name)
            if not self._store.abandon(pod.id, request.caller.named_to(pod.project_id), reason):
                raise ConflictError(_not_abandoned(self._store.pods.find(str(pod.id), None)))
            return self._view(pod.id)

    def receipt_key(self, request: Request) -> ReceiptKey:
        """The public key that this site's receipts are signed with, for every user of the service."""
        self._policy.check("receipts:key", request.caller, request.caller.project_id)
        return Signer(self._store).key()

    def pod_receipt(self, request: Request, name: str) -> SignedReceipt:
        """Receipt of the last release, by name or id. `ConflictError` while there is none."""
        pod = self._find(request, "pods:receipt", name)
        receipt = self._store.records.receipt(pod.id)
        if receipt is None:
            code = orders.NO_RECEIPT_EVER if pod.state is PodState.RELEASED else orders.NO_RECEIPT_YET
            raise ConflictError(code(pod=pod.name, state=str(pod.state)))
        return receipt


def _not_abandoned(pod: PodRecord) -> str:
    """Why a pod can't be abandoned now."""
    if pod.state in ENDED:
        return f"pod {pod.name} is {pod.state}: there is nothing to abandon"
    if pod.abandoned is not None:
        return f"pod {pod.name}: {pod.abandoned.by} has already requested this, and it is in progress"
    if pod.wanted == "absent":
        return f"pod {pod.name} is {pod.state}: its release is about to begin, and may finish on its own"
    return (
        f"pod {pod.name} is {pod.state}: release it first; only a release that can't finish can be abandoned"
    )
