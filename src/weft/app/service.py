"""The verbs, for real: policy, pure planning, the store, and a nudge to the loop. Nothing is remembered here."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from weft.app.policy import Policy
from weft.app.show import node_views, pod_view, site_view
from weft.app.sitefile import load_site
from weft.app.verbs import Request
from weft.app.worldkeeper import WorldKeeper
from weft.engine.audit import Auditor
from weft.engine.database import Listener
from weft.engine.records import PodRecord
from weft.engine.store import Capacity, Store, read_capacity
from weft.engine.world import World
from weft.model.errors import ConflictError, InputError, NotFoundError, RefusedError, WeftError
from weft.model.fabric import ManagerState
from weft.model.order import Order
from weft.model.placement import Refusal
from weft.model.plan import Plan
from weft.model.receipt import SignedReceipt
from weft.model.site import Site
from weft.model.views import (
    AuditLogEntry,
    AuditReport,
    EventView,
    FabricComparison,
    Health,
    NodeView,
    PodSummary,
    PodView,
    SiteView,
)
from weft.planning.fabricdiff import fabric_differences, take_in
from weft.planning.plan import NOT_ORDERED, make_plan, resolve_cloud, resolve_flavor
from weft.ports.clock import Clock
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


class Service:
    """See `weft.app.verbs.Verbs`."""

    def __init__(
        self, store: Store, keeper: WorldKeeper, policy: Policy, clock: Clock, listener: Listener
    ) -> None:
        self._store, self._keeper, self._policy = store, keeper, policy
        self._clock, self._listener = clock, listener

    # -- pods ---------------------------------------------------------------------------------------------------

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

    # -- operators ----------------------------------------------------------------------------------------------

    def audit(self, request: Request, repair: bool = False) -> AuditReport:
        if not repair:
            self._policy.check("audit:check", request.caller)
            return self._auditor().check()
        with self._logged(request, "audit repair", "everything"):
            self._policy.check("audit:repair", request.caller)
            return self._auditor().repair()

    def audit_log(self, request: Request, after: int = 0, limit: int = 1000) -> list[AuditLogEntry]:
        self._policy.check("audit_log:list", request.caller)
        return self._store.audit_log(after, min(max(limit, 1), 10_000))

    def apply_site(self, request: Request, document: dict[str, object]) -> SiteView:
        with self._logged(request, "site apply", str(document.get("name", ""))[:63]):
            self._policy.check("site:apply", request.caller)
            site = load_site(document)
            self._check_holds(site)
            record = self._store.apply_site(site, request.caller.user_name)
            return site_view(record)

    def show_site(self, request: Request) -> SiteView:
        self._policy.check("site:show", request.caller)
        record = self._store.site()
        world = self._keeper.world()
        return site_view(record, tuple(world.fabrics[name].status() for name in sorted(world.fabrics)))

    def compare_fabric(self, request: Request, fabric: str | None = None) -> FabricComparison:
        self._policy.check("site:show", request.caller)
        record = self._store.site()
        name = self._fabric_name(record.site, fabric)
        observed = self._keeper.world().fabric(name).topology()
        differences = fabric_differences(record.site, name, observed)
        return FabricComparison(
            fabric=name,
            generation=record.generation,
            discovered_nodes=len(observed.nodes),
            discovered_cables=len(observed.links),
            differences=differences,
        )

    def take_in_cables(self, request: Request, fabric: str | None = None) -> SiteView:
        with self._logged(request, "site take in cables", fabric or "the only fabric"):
            self._policy.check("site:apply", request.caller)
            site = self._store.site().site
            name = self._fabric_name(site, fabric)
            links = take_in(site, name, self._keeper.world().fabric(name).topology())
            # Read as any site file is: what was discovered must make a good site too.
            changed = load_site(site.model_copy(update={"links": links}).model_dump(mode="json"))
            return site_view(self._store.apply_site(changed, request.caller.user_name))

    def nodes(self, request: Request) -> list[NodeView]:
        self._policy.check("nodes:list", request.caller)
        return node_views(self._store.site().site, self._store.capacity())

    def quarantine_node(self, request: Request, node: str, reason: str) -> NodeView:
        with self._logged(request, "node quarantine", node):
            self._policy.check("nodes:quarantine", request.caller)
            self._known_node(node)
            self._store.quarantine(node, reason)
        return self._node(node)

    def clear_node(self, request: Request, node: str) -> NodeView:
        with self._logged(request, "node clear", node):
            self._policy.check("nodes:quarantine", request.caller)
            self._known_node(node)
            if not self._store.clear_quarantine(node):
                raise ConflictError(f"node {node} is not in quarantine")
        return self._node(node)

    def health(self) -> Health:
        checks: dict[str, str] = {}
        try:
            self._store.counts()
            checks["database"] = "ok"
            self._store.site()
            checks["site"] = "ok"
            for name, fabric in sorted(self._keeper.world().fabrics.items()):
                up = any(m.state is ManagerState.MASTER for m in fabric.status().managers)
                checks[f"fabric {name}"] = "ok" if up else "unknown: no master subnet manager answers"
        except WeftError as error:
            checks["site" if "database" in checks else "database"] = str(error)
        return Health(ready=all(v == "ok" for v in checks.values()), checks=checks)

    def _auditor(self) -> Auditor:
        return Auditor(self._store, self._keeper.world(), self._store.site().site, self._clock)

    # -- helpers ------------------------------------------------------------------------------------------------

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

    def _check_holds(self, site: Site) -> None:
        """A site may not lose what live pods stand on."""
        for node, row in sorted(self._store.capacity().holds.items()):
            if node not in site.node_by_name:
                raise ConflictError(
                    f"nodes: {node} is missing, and pod {row['pod']} holds it: release the pod first"
                )
        for pod in self._store.live_pods():
            for kind, name, known in (
                ("fabrics", pod.plan.fabric, site.fabrics),
                ("clouds", pod.plan.cloud, site.clouds),
            ):
                if name not in known:
                    raise ConflictError(
                        f"{kind}: {name} is missing, and pod {pod.name} lives there: release it first"
                    )

    @staticmethod
    def _fabric_name(site: Site, fabric: str | None) -> str:
        """The fabric, or the only one. Raises `InputError`."""
        names = sorted(site.fabrics)
        if fabric is None and len(names) == 1:
            return names[0]
        if fabric is None or fabric not in site.fabrics:
            raise InputError("fabric", fabric, f"fabrics of site {site.name}: {', '.join(names)}")
        return fabric

    def _known_node(self, node: str) -> None:
        if node not in self._store.site().site.node_by_name:
            raise NotFoundError(f"the site has no node {node!r}")

    def _node(self, node: str) -> NodeView:
        views = node_views(self._store.site().site, self._store.capacity())
        return next(v for v in views if v.name == node)

    def _view(self, pod: PodRecord) -> PodView:
        return pod_view(pod, self._store.resources(pod.id), self._store.receipt(pod.id) is not None)

    @contextmanager
    def _logged(self, request: Request, action: str, subject: str) -> Generator[None]:
        """Who did what, when, from where, and with what outcome; a refusal is logged too."""
        outcome = "done"
        try:
            yield
        except WeftError as error:
            outcome = f"{type(error).__name__}: {error}"
            raise
        except Exception as error:
            outcome = f"defect: {type(error).__name__}"
            raise
        finally:
            self._store.log(
                user_name=request.caller.user_name,
                project_id=request.caller.project_id,
                action=action,
                subject=subject,
                address=request.address,
                request_id=request.request_id,
                outcome=outcome[:500],
            )
