"""The verbs of tenants about the servers of their pods: reboot, rescue, and consoles."""

from __future__ import annotations

from weft.app.desk import DeskVerbs
from weft.app.verbs import Request
from weft.engine.rows.records import PodRecord, ResourceRecord
from weft.model.errors import ConflictError, NotFoundError
from weft.model.messages import orders, pods
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.specs import ServerSpec
from weft.model.views import ActionView, ConsoleView
from weft.ports.cloud import CloudFacts
from weft.ports.servers import Action

IN_USE = frozenset({PodState.READY, PodState.DEGRADED})


class NodeVerbs(DeskVerbs):
    """See `weft.app.verbs`. weft asks the cloud in the tenant's project; later visits observe the result."""

    def act_on_server(self, request: Request, name: str, server: str, action: Action) -> ActionView:
        """Request the action; the pod may be DEGRADED meanwhile.

        Args:
            server: name of its node, or its own name where a pod has several on one node.
        """
        with self._desk.logged(request, f"pod {action}", f"{name} {server}"):
            pod = self._desk.find(request, "pods:operate", name)
            record = self._server(pod, server)
            cloud = self.cloud(pod)
            self.note(request, pod, record, action)
            with self._desk.store.pods.acting(pod, record) as fence:
                password = cloud.act(pod.project_id, str(record.outside_id), action, fence)
            return ActionView(
                server=record.resource.name, node=record.resource.node, action=action, password=password
            )

    def console(self, request: Request, name: str, server: str) -> ConsoleView:
        """A console of a server; its URL is the only credential it needs."""
        with self._desk.logged(request, "pod console", f"{name} {server}"):
            pod = self._desk.find(request, "pods:console", name)
            record = self._server(pod, server)
            spec = record.resource.spec
            serial, cloud = isinstance(spec, ServerSpec) and spec.bare_metal, self.cloud(pod)
            self.note(request, pod, record, "console")
            with self._desk.store.pods.acting(pod, record) as fence:
                return cloud.console(pod.project_id, str(record.outside_id), serial, fence)

    def note(self, request: Request, pod: PodRecord, record: ResourceRecord, what: str) -> None:
        """Record an event before the request, whose answer may be lost: the tenant sees operators' actions too."""
        who, node = request.caller.named_to(pod.project_id), record.resource.node
        if what == "console":
            text = pods.CONSOLE_REQUESTED(node=node, user=who)
        else:
            text = pods.ACTION_REQUESTED(action=what, node=node, user=who)
        self._desk.store.pods.note_event(pod.id, "action", text, record.key)

    def cloud(self, pod: PodRecord) -> CloudFacts:
        """The driver of the pod's cloud. Raises `ConflictError` if the active site doesn't have that cloud."""
        cloud = pod.plan.cloud
        if (found := self._desk.keeper.world().clouds.get(cloud)) is None:
            raise ConflictError(f"pod {pod.name} is in cloud {cloud}, which the active site doesn't have")
        return found

    def _server(self, pod: PodRecord, given: str) -> ResourceRecord:
        if pod.wanted == "absent" or pod.state not in IN_USE:
            state = "being released" if pod.wanted == "absent" else pod.state
            raise ConflictError(orders.NOT_IN_USE(pod=pod.name, state=str(state)))
        # Tenants have no access to servers that belong to the site, such as an IPU pod's controller.
        rows = (r for r in self._desk.store.pods.resources(pod.id) if r.resource.owner == "tenant")
        servers = [r for r in rows if r.kind is Kind.SERVER and r.wanted]
        found = [r for r in servers if given in (r.resource.name, r.resource.node)]
        if not found:
            nodes = sorted({r.resource.node for r in servers if r.resource.node})[:50] or ["none"]
            raise NotFoundError(orders.SERVER_NOT_FOUND(pod=pod.name, server=given, nodes=nodes))
        if len(found) > 1:
            names = ", ".join(sorted(r.resource.name for r in found))
            raise ConflictError(orders.SEVERAL_SERVERS(pod=pod.name, node=given, names=names))
        if found[0].outside_id is None:
            raise ConflictError(
                orders.SERVER_NOT_THERE(pod=pod.name, node=given, why=found[0].reason or "not made yet")
            )
        return found[0]
