"""In-memory `Verbs` and `Identity` for the tests of doors: real policy, real visibility, no loop, no outside."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from weft.app.policy import Policy
from weft.app.verbs import Request
from weft.generate.receipts import sign
from weft.model.change import Impossible, PodChange
from weft.model.errors import (
    ConflictError,
    InputError,
    InputErrors,
    NotFoundError,
    UnauthenticatedError,
    WeftError,
)
from weft.model.fabric import FabricStatus
from weft.model.ids import is_uuid
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.pod import PodState
from weft.model.receipt import SignedReceipt
from weft.model.siteparts import MissingParts, StoredPart
from weft.model.views import (
    FIRST_PAGE,
    Applied,
    AuditLogEntry,
    AuditLogSearch,
    AuditReport,
    EventView,
    FabricComparison,
    Health,
    NodeView,
    PodSearch,
    PodSummary,
    PodView,
    SiteView,
)
from weft.planning.shapes.orderdiff import WHYS, waiting_change
from weft.ports.cloud import Caller
from weft.testing import examples
from weft.testing.timeverbs import FakeTime

_FORWARD = (PodState.PLACED, PodState.WIRING, PodState.BOOTING, PodState.VERIFYING, PodState.READY)


class FakeIdentity:
    """Tokens are whatever `tokens` says; one whose caller is expired is refused, as Keystone does."""

    def __init__(self, tokens: dict[str, Caller] | None = None) -> None:
        self.tokens = dict(tokens or {})
        self.error: WeftError | None = None

    def check(self, token: str) -> Caller:
        if self.error:
            raise self.error
        caller = self.tokens.get(token)
        if caller is None or caller.expires_at <= datetime.now(UTC):
            raise UnauthenticatedError("the token is not valid, or not any more: sign in again")
        return caller


@dataclass
class _Pod:
    view: PodView
    events: list[EventView] = field(default_factory=list)


class FakeVerbs(FakeTime):
    """Pods go one state further each time somebody asks for their events, so that nothing needs to sleep.

    Attributes:
        fail_with: raised by every verb but `health`, once policy has let the caller through.
        fail_pods: names of pods that end in FAILED instead of READY.
        stuck: pods stay where they are; events then wait.
        full: an order with `queue` waits; `promote` lets it go on.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__()
        self.policy = policy or Policy()
        self.key = Ed25519PrivateKey.generate()
        self.fail_with: Exception | None = None
        self.fail_pods: set[str] = set()
        self.stuck = False
        self.full = False
        self.ready = True
        self.findings = examples.findings()
        self.fabrics: tuple[FabricStatus, ...] = ()
        self.differences = examples.differences()
        self.log: list[AuditLogEntry] = []
        self.quarantined: dict[str, str] = {}
        self.site: dict[str, object] | None = None
        self.parts: dict[str, bytes] = {}
        self._pods: list[_Pod] = []
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._sequence = 0
        self._generation = 0

    def may(self, request: Request, rule: str, pod: str | None = None) -> None:
        if pod is not None:
            self._find(request, rule, pod)
        else:
            self.policy.check(rule, request.caller, request.caller.project_id)

    # -- pods

    def plan_pod(self, request: Request, order: Order, remove: Sequence[str] = ()) -> Plan:
        project = self._may(request, "pods:plan", _project(request))
        found, there = examples.plan(order, project), self._there(project, order.name)
        if there is None:
            return found
        change = _change(there.view, order)
        return found.model_copy(update={"generation": change.generation, "change": change})

    def apply_pod(
        self,
        request: Request,
        name: str,
        order: Order,
        remove: Sequence[str] = (),
        generation: int | None = None,
    ) -> Applied:
        if is_uuid(name) and name != order.name:
            pod = self._find(request, "pods:change", name)
        else:
            pod = self._there(self._may(request, "pods:create", _project(request)), name)
        if order.name != (pod.view.name if pod else name):
            raise InputError("name", order.name, "the name that the order is applied to")
        if pod is None:
            return Applied(outcome="created", pod=self.create_pod(request, order))
        with self._lock:
            if generation not in (None, pod.view.generation):
                raise ConflictError(
                    f"pod {pod.view.name} was changed to generation {pod.view.generation} in the meantime: check it "
                    "with `weft pod show`, and apply again"
                )
            change = _change(pod.view, order)
            if change.impossible:
                raise InputErrors([InputError(i.field, i.value, i.allowed) for i in change.impossible])
            if not change.nothing:
                count = order.nodes.count
                update = {"order": order, "generation": change.generation, "nodes": count}
                pod.view = pod.view.model_copy(update=update)
                self._event(
                    pod, "change", f"generation {change.generation} by {request.caller.user_name}: changed"
                )
                self._write(request, "pods:change", pod.view.name)
        return Applied(outcome="unchanged" if change.nothing else "changed", change=change, pod=pod.view)

    def create_pod(self, request: Request, order: Order) -> PodView:
        project = self._may(request, "pods:create", _project(request))
        if order.locality.exclusive or order.locality.apart_from:
            self._may(request, "pods:create_exclusive", project)
        with self._lock:
            if any(p.view.name == order.name and p.view.project_id == project for p in self._live()):
                raise ConflictError(
                    f"name: pod {order.name!r} already exists; release it first or use another name"
                )
            pod = _Pod(examples.pod(str(uuid.uuid4()), order, project, request.caller.user_name))
            if self.full and order.queue:
                pod.view = examples.waiting(pod.view)
            self._pods.append(pod)
            self._event(pod, "state", f"PENDING: {pod.view.reason or 'ordered'}")
            self._write(request, "pods:create", order.name)
            return pod.view

    def list_pods(self, request: Request, search: PodSearch = FIRST_PAGE) -> list[PodSummary]:
        if search.all_projects:
            self._may(request, "pods:list_all_projects", None)
            project = search.project
        else:
            project = self._may(request, "pods:list", _project(request))
        with self._lock:
            shown = [p.view for p in self._pods if project is None or p.view.project_id == project]
        fields = PodSummary.model_fields
        found = [
            PodSummary(**{k: v for k, v in pod if k in fields})
            for pod in sorted(shown, key=lambda p: (p.name, p.id))
            if search.state in (None, pod.state)
            and search.name in (None, pod.name)
            and (search.node is None or search.node in {n.node for n in pod.placed})
            and (search.marker is None or f"{pod.name}:{pod.id}" > search.marker)
        ]
        return found[: search.limit]

    def show_pod(self, request: Request, name: str) -> PodView:
        return self._find(request, "pods:show", name).view

    def pod_events(self, request: Request, name: str, after: int = 0, wait: float = 0.0) -> list[EventView]:
        pod = self._find(request, "pods:events", name)
        with self._changed:
            self._advance(pod)
            if not (found := [e for e in pod.events if e.sequence > after]):
                self._changed.wait(wait)
                found = [e for e in pod.events if e.sequence > after]
            return found

    def _there(self, project: str, name: str) -> _Pod | None:
        """The project's live pod of this name."""
        found = [p for p in self._live() if p.view.name == name and p.view.project_id == project]
        return found[0] if found else None

    def release_pod(self, request: Request, name: str) -> PodView:
        pod = self._find(request, "pods:release", name)
        with self._lock:
            if pod.view.position is not None:
                self._move(pod, PodState.RELEASED, "nothing was claimed yet")
                pod.view = pod.view.model_copy(update={"position": None, "has_receipt": False})
            elif pod.view.state not in (PodState.RELEASING, PodState.RELEASED):
                self._move(pod, PodState.RELEASING, "release requested")
            self._write(request, "pods:release", pod.view.name)
            return pod.view

    def extend_pod(self, request: Request, name: str, until: datetime) -> PodView:
        pod = self._find(request, "pods:extend", name)
        with self._lock:
            if pod.view.lease_end is None:
                raise ConflictError(f"pod {pod.view.name} has no end to extend")
            pod.view = pod.view.model_copy(update={"lease_end": until})
            self._event(pod, "lease", f"extended until {until.isoformat()}")
            return pod.view

    def retry_pod(self, request: Request, name: str) -> PodView:
        pod = self._find(request, "pods:retry", name)
        with self._lock:
            if pod.view.state is not PodState.FAILED:
                state = pod.view.state
                raise ConflictError(f"pod {pod.view.name} is {state}: only a FAILED pod can be retried")
            self.fail_pods.discard(pod.view.name)
            self._move(pod, PodState.WIRING, "retry requested")
            return pod.view

    def abandon_pod(self, request: Request, name: str, reason: str) -> PodView:
        pod = self._find(request, "pods:abandon", name)
        with self._lock:
            if pod.view.state is not PodState.RELEASING:
                raise ConflictError(f"pod {pod.view.name} is {pod.view.state}: release it first")
            self._event(pod, "release", f"abandon requested: {reason}")
            self._write(request, "pods:abandon", pod.view.name)
            return pod.view

    def pod_receipt(self, request: Request, name: str) -> SignedReceipt:
        pod = self._find(request, "pods:receipt", name).view
        if pod.state is not PodState.RELEASED:
            raise ConflictError(f"pod {pod.name} is {pod.state}: there is no receipt: not RELEASED yet")
        return sign(examples.receipt(pod), self.key)

    # -- the operator's

    def audit(self, request: Request, repair: bool = False, unknown_pods: Sequence[str] = ()) -> AuditReport:
        self._may(request, "audit:repair" if repair else "audit:check", None)
        if repair:
            self._write(request, "audit:repair", ", ".join(unknown_pods) or "site")
            self.findings = tuple(f.model_copy(update={"repaired": True}) for f in self.findings)
        return AuditReport(
            at=examples.NOW, site="example", checked={"server": 4, "port": 8}, findings=self.findings
        )

    def accept_database(self, request: Request) -> AuditReport:
        self._may(request, "audit:repair", None)
        self._write(request, "audit:accept", "the database")
        return self.audit(request)

    def audit_log(self, request: Request, search: AuditLogSearch) -> list[AuditLogEntry]:
        self._may(request, "audit_log:list", None)
        asked = search.action
        found = [e for e in self.log if e.sequence > search.after and asked in (None, e.action)]
        return found[::-1][: search.limit]

    def apply_site(self, request: Request, document: dict[str, object], base: int | None = None) -> SiteView:
        self._may(request, "site:apply", None)
        if base not in (None, self._generation):
            raise ConflictError(f"generation {self._generation} of the site is in force, not {base}")
        if not isinstance(document.get("name"), str):
            raise InputError("name", document.get("name"), "the name of the site")
        included = [
            value["parts"] for value in document.values() if isinstance(value, dict) and "parts" in value
        ]
        if any(digest not in self.parts for digests in included for digest in digests):
            raise ConflictError("parts: some of those that the document names are not here")
        self.site = document
        self._generation += 1
        self._write(request, "site:apply", str(document["name"]))
        return self.show_site(request)

    def missing_parts(self, request: Request, digests: Sequence[str]) -> MissingParts:
        self._may(request, "site:apply", None)
        return MissingParts(missing=tuple(d for d in digests if d not in self.parts))

    def send_part(self, request: Request, digest: str, body: bytes) -> StoredPart:
        self._may(request, "site:apply", None)
        if sha256(body).hexdigest() != digest:
            raise InputError(
                "digest", digest, "the SHA-256 of the body in hexadecimal digits, a-f and not A-F"
            )
        self.parts[digest] = body
        return StoredPart(digest=digest, bytes=len(body))

    def site_part(self, request: Request, digest: str) -> bytes:
        self._may(request, "site:show", None)
        if digest not in self.parts:
            raise NotFoundError("the active site has no such part; another one may have become active")
        return self.parts[digest]

    def show_site(self, request: Request) -> SiteView:
        self._may(request, "site:show", None)
        if self.site is None:
            raise NotFoundError("no site was applied yet: do it with `weft site apply`")
        view = examples.site_view(self.site, self._generation, request.caller.user_name)
        return view.model_copy(update={"fabrics": self.fabrics})

    def compare_fabric(self, request: Request, fabric: str | None = None) -> FabricComparison:
        self._may(request, "site:show", None)
        if fabric not in (None, "ib"):
            raise InputError("fabric", fabric, "fabrics of site example: ib")
        return FabricComparison(
            fabric="ib", generation=1, discovered_nodes=6, discovered_cables=8, differences=self.differences
        )

    def adopt_cabling(self, request: Request, fabric: str | None = None) -> SiteView:
        self._may(request, "site:apply", None)
        self.differences = ()
        self._write(request, "site:adopt-cabling", fabric or "")
        return self.apply_site(request, self.site or {"name": "example"})

    def nodes(self, request: Request) -> list[NodeView]:
        self._may(request, "nodes:list", None)
        return [self._node(name) for name in examples.NODES]

    def quarantine_node(self, request: Request, node: str, reason: str) -> NodeView:
        self._may(request, "nodes:quarantine", None)
        view = self._node(node)
        self.quarantined[node] = reason
        self._write(request, "nodes:quarantine", node)
        return view.model_copy(update={"state": "quarantined", "reason": reason})

    def clear_node(self, request: Request, node: str) -> NodeView:
        self._may(request, "nodes:quarantine", None)
        if self._node(node).state != "quarantined":
            raise ConflictError(f"node {node} is not in quarantine")
        del self.quarantined[node]
        self._write(request, "nodes:clear", node)
        return self._node(node)

    def health(self) -> Health:
        return Health(ready=self.ready, checks={"database": "ok" if self.ready else "does not answer"})

    # -- for tests

    def finish(self, name: str) -> None:
        """Bring a pod to the end of its way: READY, or RELEASED if it is being released."""
        pod = next(p for p in self._pods if p.view.name == name)
        with self._lock:
            while self._advance(pod):
                pass

    def add_many(self, project_id: str, count: int) -> None:
        """So many READY pods."""
        for number in range(count):
            order = examples.order(f"pod-{number:04}")
            view = examples.pod(str(uuid.uuid4()), order, project_id, "somebody")
            self._pods.append(_Pod(view.model_copy(update={"state": PodState.READY})))

    def promote(self, name: str) -> None:
        """A pod that waits has its nodes now."""
        pod = next(p for p in self._pods if p.view.name == name)
        pod.view = pod.view.model_copy(update={"position": None, "expected_start": None})

    # -- inside

    def check(self, request: Request, rule: str) -> None:
        self._may(request, rule, request.caller.project_id if rule == "capacity:show" else None)

    def _may(self, request: Request, rule: str, project: str | None) -> str:
        self.policy.check(rule, request.caller, project)
        if self.fail_with is not None:
            raise self.fail_with
        return project or ""

    def _live(self) -> list[_Pod]:
        return [p for p in self._pods if p.view.state is not PodState.RELEASED]

    def _find(self, request: Request, rule: str, name: str) -> _Pod:
        if self.fail_with is not None:
            raise self.fail_with
        if "\0" in name:
            raise ValueError("a database would fail: the door must refuse NUL")
        with self._lock:
            pods = [p for p in [*self._live(), *reversed(self._pods)] if name in (p.view.name, p.view.id)]
        seen: Callable[[_Pod], bool] = lambda p: self.policy.allows(  # noqa: E731
            "pods:show", request.caller, p.view.project_id
        )
        mine = [p for p in pods if seen(p)]
        own = [p for p in mine if p.view.project_id == request.caller.project_id]
        if not mine:
            raise NotFoundError(f"there is no pod {name!r} in this project")
        pod = (own or mine)[0]
        self.policy.check(rule, request.caller, pod.view.project_id)
        return pod

    def _advance(self, pod: _Pod) -> bool:
        state = pod.view.state
        if (
            self.stuck
            or pod.view.position is not None
            or state in (PodState.READY, PodState.FAILED, PodState.RELEASED)
        ):
            return False
        if state is PodState.RELEASING:
            self._move(pod, PodState.RELEASED, "every plane read back clean, receipt signed")
            return True
        at = -1 if state is PodState.PENDING else _FORWARD.index(state)
        target = _FORWARD[at + 1]
        if pod.view.name in self.fail_pods and target is PodState.BOOTING:
            self._move(
                pod,
                PodState.FAILED,
                "create weft-00000000-server-gpu01 (nova at http://nova.example:8774): No valid host was found on "
                "cn-17; check the reason, then release the pod",
            )
        else:
            self._move(pod, target, "")
        return True

    def _move(self, pod: _Pod, state: PodState, reason: str) -> None:
        resources = examples.resources(state)
        phase, conditions = examples.how(state, datetime.now(UTC), reason)
        pod.view = pod.view.model_copy(
            update={
                "phase": phase,
                "conditions": conditions,
                "state": state,
                "reason": reason,
                "since": datetime.now(UTC),
                "resources": resources,
                "has_receipt": state is PodState.RELEASED,
            }
        )
        self._event(pod, "state", f"{state}: {reason}" if reason else state)

    def _event(self, pod: _Pod, kind: str, message: str) -> None:
        with self._changed:
            self._sequence += 1
            pod.events.append(
                EventView(sequence=self._sequence, at=datetime.now(UTC), type=kind, message=message)
            )
            self._changed.notify_all()

    def _node(self, name: str) -> NodeView:
        if name not in examples.NODES:
            raise NotFoundError(f"there is no node {name} in the site")
        reason = self.quarantined.get(name, "")
        state = "quarantined" if reason else "free"
        return NodeView(name=name, rack="r1", leaf="leaf1", state=state, reason=reason)

    def _write(self, request: Request, action: str, subject: str) -> None:
        self.log.append(examples.log_entry(len(self.log) + 1, request, action, subject))


def _project(request: Request) -> str | None:
    return request.caller.project_id


def _change(view: PodView, order: Order) -> PodChange:
    """The difference of a pod's order; its image is what can't be changed here."""
    fields = waiting_change(view.order, order)
    fixed = [
        Impossible(field=f.field, value=f.becomes, was=f.was, allowed=sorted(WHYS)[0])
        for f in fields
        if f.field == "nodes.image"
    ]
    other = tuple(f for f in fields if f.field != "nodes.image")
    return PodChange(generation=view.generation + bool(fields), fields=other, impossible=tuple(fixed))
