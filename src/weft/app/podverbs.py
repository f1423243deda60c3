"""The verbs of tenants: plan, order, show, release. Pure planning, the store, and a notification of the loop."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from uuid import UUID

from weft.app.desk import Desk
from weft.app.newpods import NewPods
from weft.app.verbs import Request
from weft.engine.rows.records import PodRecord
from weft.engine.rows.shownrecords import FoundPod
from weft.engine.watch.lookout import PodCallback
from weft.model.errors import ConflictError, InputError, WeftError
from weft.model.messages import orders, pods
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.ordernames import MOST_NAMES, OrderNames
from weft.model.pod import ENDED, PodState
from weft.model.receipt import SignedReceipt
from weft.model.views import FIRST_PAGE, EventView, PodSearch, PodSummary, PodView


class PodVerbs:
    """Verbs of tenants; see `weft.app.verbs`."""

    def __init__(self, desk: Desk, new: NewPods) -> None:
        self._desk, self._new = desk, new

    def order_names(self, request: Request) -> OrderNames:
        """Flavors that the site describes and images, of all clouds, as far as the project may use them; a cloud that
        can't be read has none."""
        project, record = self._desk.project(request, "pods:plan"), self._desk.store.site()
        found: tuple[set[str], set[str]] = set(), set()
        for name, facts in self._desk.keeper.world_of(record).clouds.items():
            with suppress(WeftError):
                names = facts.order_names(project)
                found[0].update(record.site.clouds[name].flavors.keys() & set(names.flavors))
                found[1].update(names.images)
        flavors, images = (tuple(sorted(one)[:MOST_NAMES]) for one in found)
        return OrderNames(flavors=flavors, images=images)

    def create(self, request: Request, order: Order, key: str = "") -> PodView:
        """Order a pod.

        Args:
            key: the caller's own name for this order, if it may send it again: repeated, the same pod is returned, also
                if it has been released since; see `weft.engine.rows.orderkeys`.
        """
        return self._desk.view(UUID(self.order(request, order, key)))

    def order(self, request: Request, order: Order, key: str = "") -> str:
        """As `create`, but returns only the pod's id, without reading the pod."""
        with self._desk.logged(request, "pod create", order.name):
            return self._new.order(request, order, key)

    def listed(self, request: Request, search: PodSearch = FIRST_PAGE) -> list[PodSummary]:
        """Live pods, and released ones of the last day, by name; no more than `search.limit`."""
        if search.all_projects:
            self._desk.policy.check("pods:list_all_projects", request.caller)
            return self._desk.store.pods.summaries(search, None)
        project = self._desk.project(request, "pods:list")
        if search.project not in (None, project):
            raise InputError("project", search.project, instead("must be omitted without all_projects"))
        return self._desk.store.pods.summaries(search, project)

    def show(self, request: Request, name: str) -> PodView:
        """A pod by its name or id. Raises `NotFoundError` and `ForbiddenError`."""
        return self._desk.view_of(
            self._desk.allowed(request, "pods:show", name, self._desk.store.pods.find_shown)
        )

    def find(self, request: Request, rule: str, name: str) -> FoundPod:
        """Identity and state of a pod, for a caller who may do this with it."""
        return self._desk.whose(request, rule, name)

    def watching(self, pod_id: UUID, seen: PodCallback) -> AbstractContextManager[None]:
        """See `Lookout.watching`. For a pod that was found for the caller in the same request."""
        return self._desk.lookout.watching(pod_id, seen)

    def events(
        self, request: Request, name: str, after: int = 0, newest: int | None = None
    ) -> list[EventView]:
        """Events with a sequence above `after`; with `newest` only the last so many."""
        return self._desk.store.records.events(
            self._desk.whose(request, "pods:events", name).id, after, newest
        )

    def release(self, request: Request, name: str, generation: int | None = None) -> PodView:
        """Begin a pod's release, and return the pod.

        Args:
            generation: `PreconditionError` unless the pod has this one.
        """
        return self._desk.view(UUID(self.begin_release(request, name, generation)))

    def begin_release(self, request: Request, name: str, generation: int | None = None) -> str:
        """As `release`, but returns only the pod's id, without reading the pod."""
        with self._desk.logged(request, "pod release", name):
            pod = self._desk.whose(request, "pods:release", name)
            said = pods.RELEASE_REQUESTED(user=request.caller.named_to(pod.project_id))
            self._desk.store.release(pod.id, said, generation)
            return str(pod.id)

    def retry(self, request: Request, name: str) -> PodView:
        """A FAILED pod resumes where it failed; the number of attempts starts again."""
        with self._desk.logged(request, "pod retry", name):
            found = self._desk.whose(request, "pods:retry", name)
            if (
                self._desk.store.retry(
                    found.id, pods.RETRY_REQUESTED(user=request.caller.named_to(found.project_id))
                )
                is None
            ):
                pod = self._desk.store.pods.find(str(found.id), None)
                leaving = pod.wanted == "absent" and pod.state not in ENDED
                state = "being released" if leaving else pod.state
                raise ConflictError(orders.NOT_FAILED(pod=pod.name, state=str(state)))
            return self._desk.view(found.id)

    def abandon(self, request: Request, name: str, reason: str) -> PodView:
        """End a release that can't finish; its receipt is never clean. `ConflictError` in other states."""
        with self._desk.logged(request, "pod abandon", name):
            pod = self._desk.whose(request, "pods:abandon", name)
            if not self._desk.store.abandon(pod.id, request.caller.named_to(pod.project_id), reason):
                raise ConflictError(_not_abandoned(self._desk.store.pods.find(str(pod.id), None)))
            return self._desk.view(pod.id)

    def receipt(self, request: Request, name: str) -> SignedReceipt:
        """Receipt of the last release, by name or id. `ConflictError` while there is none."""
        pod = self._desk.find(request, "pods:receipt", name)
        receipt = self._desk.store.records.receipt(pod.id)
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
