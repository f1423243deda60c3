"""The verbs of tenants: plan, order, look, release. Pure planning, the store, and a nudge to the loop."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from weft.app.desk import Desk
from weft.app.show import pod_view
from weft.app.verbs import Request
from weft.engine.records import PodRecord
from weft.engine.store import Capacity, read_capacity
from weft.engine.world import World
from weft.model.errors import ConflictError, InputError, NotFoundError, RefusedError
from weft.model.order import Order
from weft.model.placement import Refusal
from weft.model.plan import Plan
from weft.model.receipt import SignedReceipt
from weft.model.site import Site
from weft.model.views import EventView, PodSummary, PodView
from weft.planning.plan import NOT_ORDERED, make_plan, resolve_cloud, resolve_flavor
from weft.ports.cloud import Caller

LONGEST_WAIT = 30.0
"""Seconds that a request for events may wait at most."""


@dataclass(frozen=True, slots=True)
class _Ground:
    """What an order is planned on: the site, and what cloud and fabric say now.

    Attributes:
        down: node -> why Nova can't boot on it.
        pkeys: fabric -> P_Keys that are configured there, somebody else's inside weft's range included.
    """

    site: Site
    world: World
    down: dict[str, str]
    pkeys: dict[str, frozenset[int]]


class PodVerbs(Desk):
    """See `weft.app.verbs.Verbs`."""

    def plan_pod(self, request: Request, order: Order) -> Plan:
        project = self._project(request, "pods:plan")
        ground = self._ground(order)
        order = self._checked(request.caller, project, order, ground)
        plan = self._plan(NOT_ORDERED, project, order, ground, self._store.capacity())
        self._check_quotas(project, plan, ground.world)
        return plan

    def create_pod(self, request: Request, order: Order) -> PodView:
        """Plan, check quotas, claim nodes and numbers and write all rows in one transaction; the loop does the rest."""
        with self._logged(request, "pod create", order.name):
            project = self._project(request, "pods:create")
            ground = self._ground(order)
            order = self._checked(request.caller, project, order, ground)
            self._check_lease(order)
            pod_id = str(uuid4())
            self._check_quotas(
                project, self._plan(pod_id, project, order, ground, self._store.capacity()), ground.world
            )
            with self._store.database.transaction() as tx:
                tx.row("lock_capacity")
                plan = self._plan(pod_id, project, order, ground, read_capacity(tx))
                self._store.insert_pod(tx, plan, project, request.caller.user_name)
            return self._view(self._store.find_pod(pod_id, project))

    def list_pods(self, request: Request, all_projects: bool = False) -> list[PodSummary]:
        if all_projects:
            self._policy.check("pods:list_all_projects", request.caller)
            return self._store.summaries(None)
        return self._store.summaries(self._project(request, "pods:list"))

    def show_pod(self, request: Request, name: str) -> PodView:
        return self._view(self._find(request, "pods:show", name))

    def pod_events(self, request: Request, name: str, after: int = 0, wait: float = 0.0) -> list[EventView]:
        pod = self._find(request, "pods:events", name)
        deadline = self._clock.monotonic() + min(max(wait, 0.0), LONGEST_WAIT)
        while True:
            mark = self._listener.mark()
            events = self._store.events(pod.id, after)
            left = deadline - self._clock.monotonic()
            if events or left <= 0:
                return events
            self._listener.wait(mark, left)

    def release_pod(self, request: Request, name: str) -> PodView:
        with self._logged(request, "pod release", name):
            pod = self._find(request, "pods:release", name)
            self._store.release(pod.id, f"release asked by {request.caller.user_name}")
            return self._view(self._store.find_pod(str(pod.id), pod.project_id))

    def pod_receipt(self, request: Request, name: str) -> SignedReceipt:
        pod = self._find(request, "pods:receipt", name)
        receipt = self._store.receipt(pod.id)
        if receipt is None:
            raise ConflictError(f"pod {pod.name} is {pod.state}: there is a receipt only once it is RELEASED")
        return receipt

    def _project(self, request: Request, rule: str) -> str:
        """The caller's own project, where it may do this."""
        project = request.caller.project_id
        if project is None:
            raise InputError("scope", "system", "a token for a project, since pods belong to projects")
        self._policy.check(rule, request.caller, project)
        return project

    def _find(self, request: Request, rule: str, name: str) -> PodRecord:
        """A pod that the caller may see, and may do this with; what it may not see isn't there."""
        caller = request.caller
        everywhere = self._policy.allows("pods:list_all_projects", caller)
        pod: PodRecord | None = None
        if caller.project_id is not None:
            try:
                pod = self._store.find_pod(name, caller.project_id)
            except NotFoundError:
                if not everywhere:
                    raise
        if pod is None:
            pod = self._store.find_pod(name, None)
        if not self._policy.allows("pods:show", caller, pod.project_id):
            raise NotFoundError(f"there is no pod {name!r} in this project")
        self._policy.check(rule, caller, pod.project_id)
        return pod

    def _ground(self, order: Order) -> _Ground:
        site, world = self._store.site().site, self._keeper.world()
        cloud = resolve_cloud(order, site)
        hosts = world.clouds[cloud].hosts()
        down = {
            n.name: f"Nova host {n.nova_host} is {hosts.get(n.nova_host, 'not known to the cloud')}"
            for n in site.nodes
            if n.cloud == cloud and hosts.get(n.nova_host) != "up"
        }
        pkeys = {name: frozenset(fabric.partitions()) for name, fabric in world.fabrics.items()}
        return _Ground(site, world, down, pkeys)

    def _checked(self, caller: Caller, project: str, order: Order, ground: _Ground) -> Order:
        """The order with its key pair read, after the cloud confirmed the names in it."""
        cloud = resolve_cloud(order, ground.site)
        facts = ground.world.clouds[cloud]
        facts.check_order(project, order, resolve_flavor(order, ground.site.clouds[cloud], cloud))
        if order.access.key_pair is None:
            return order
        key = facts.public_key(caller.user_id, order.access.key_pair)
        access = order.access.model_copy(update={"key_pair": None, "ssh_key": key})
        return order.model_copy(update={"access": access})

    def _plan(self, pod_id: str, project: str, order: Order, ground: _Ground, capacity: Capacity) -> Plan:
        can = {name: fabric.capabilities for name, fabric in ground.world.fabrics.items()}
        occupancy = capacity.occupancy().model_copy(update={"down": ground.down})
        pkeys = {f: capacity.used.pkeys.get(f, frozenset()) | there for f, there in ground.pkeys.items()}
        used = capacity.used.model_copy(update={"pkeys": pkeys})
        plan = make_plan(pod_id, project, order, ground.site, occupancy, used, can)
        if isinstance(plan, Refusal):
            raise RefusedError(plan.reason, plan.model_dump(mode="json"))
        return plan

    def _check_quotas(self, project: str, plan: Plan, world: World) -> None:
        rows = world.clouds[plan.cloud].exceeded_quotas(project, plan.graph, plan.flavor)
        if rows:
            said = "; ".join(f"{r.resource}: {r.used} used + {r.wanted} wanted > {r.limit}" for r in rows)
            quotas = [
                {"resource": r.resource, "limit": r.limit, "used": r.used, "wanted": r.wanted} for r in rows
            ]
            raise RefusedError(f"the project's quotas would be exceeded: {said}", {"quotas": quotas})

    def _check_lease(self, order: Order) -> None:
        if order.lease.end is not None and order.lease.end <= self._clock.now():
            raise InputError("lease.end", order.lease.end.isoformat(), "a time in the future")

    def _view(self, pod: PodRecord) -> PodView:
        return pod_view(pod, self._store.resources(pod.id), self._store.receipt(pod.id) is not None)
