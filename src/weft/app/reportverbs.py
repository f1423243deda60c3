"""The verbs about reports of nodes: tenants report, operators list and clear."""

from __future__ import annotations

from weft.app.desk import DeskVerbs
from weft.app.show import report_view
from weft.app.verbs import Request
from weft.engine.nodes.reports import clear_reports, report_node
from weft.engine.rows.records import PodRecord
from weft.model.errors import ConflictError, NotFoundError
from weft.model.messages import nodes, orders
from weft.model.placement import by_server
from weft.model.pod import ENDED
from weft.model.views import ReportView
from weft.planning.shapes.gpu.reassign import called
from weft.planning.shapes.graph import servers_by_name


class ReportVerbs(DeskVerbs):
    """See `weft.app.verbs`."""

    def report_node(self, request: Request, name: str, node: str, reason: str) -> ReportView:
        """Report a node of a pod as faulty: no further order of the project gets it until an operator clears it.

        The pod keeps it, unless its order has `on_failure: replace`, and other projects get it as before.

        Args:
            node: name of the node, or of the server on it.

        Raises `NotFoundError` if the pod has no such node, else as `weft.engine.nodes.reports.report_node`.
        """
        with self._desk.logged(request, "pod report", f"{name} {node}"):
            pod = self._desk.find(request, "pods:report", name)
            if pod.state in ENDED:
                raise ConflictError(orders.ORDER_AGAIN(pod=pod.name, state=str(pod.state)))
            if pod.placed is None:
                raise ConflictError(orders.NO_NODES_YET(pod=pod.name, why=pod.reason))
            most = self._desk.store.site().site.repair.reports
            found, by = self._meant(pod, node), request.caller.named_to(pod.project_id)
            return report_view(report_node(self._desk.store.database, found, pod, reason, by, most))

    def _meant(self, pod: PodRecord, given: str) -> str:
        """Name of the pod's node that is meant by its own name or that of its server; the pod may be leaving it."""
        holds = self._desk.store.capacity().holds
        if given in holds and holds[given].pod.id == pod.id:
            return given
        placement = pod.plan.placement
        there = by_server((*placement.nodes, *placement.spares))
        servers = called(pod.plan, there, [given], "node").get(given, frozenset())
        if found := {there[server].node for server in servers}:
            return found.pop()
        # A Poplar server's key in the graph is its host's name; hosts of weft's own servers aren't tenants' to report.
        keys = servers_by_name(pod.plan.graph)
        if (host := keys.get(given, given)) in keys.values() and f"host/{host}" in pod.plan.allotment.numbers:
            return host
        raise NotFoundError(nodes.NOT_OF_POD(node=given, pod=pod.name))

    def reports(self, request: Request) -> list[ReportView]:
        """All reports that aren't cleared, by node; also of nodes that left the site."""
        self._desk.policy.check("nodes:list", request.caller)
        stops = self._desk.store.capacity().stops
        return [report_view(row) for _, one in sorted(stops.items()) for row in one.reports]

    def clear_report(self, request: Request, node: str, project: str | None = None) -> list[ReportView]:
        """End the reports of a node: the project's, by id, or all. Raises `ConflictError` if there is none."""
        with self._desk.logged(request, "node clear-report", f"{node}: {project}" if project else node):
            self._desk.policy.check("nodes:clear_report", request.caller)
            ended = clear_reports(self._desk.store.database, node, project, request.caller.user_name)
        return [report_view(row) for row in ended]
