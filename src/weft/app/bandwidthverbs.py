"""The verbs about bandwidth tests: their plans, what was measured, and certificates of it.

A pod's project tests its own servers, and what it reports is shown as its word: it changes nothing of any node.
Operators test nodes, and the site may want that before a node is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256

from weft.app.desk import DeskVerbs
from weft.app.explain import validate
from weft.app.linkverbs import ROUTES_AGE
from weft.app.topologyverbs import topology_of
from weft.app.verbs import Request
from weft.app.yamltext import Positions
from weft.engine.nodes.nodetests import AHEAD, record_bandwidth
from weft.engine.store.bandwidth import certificate_of_node, certificate_of_pod, store_certificate
from weft.engine.store.signing import Signer
from weft.model.bandwidth import (
    BandwidthCertificate,
    BandwidthDocument,
    BandwidthPlan,
    SignedCertificate,
)
from weft.model.errors import ConflictError, InputError, NotFoundError, WeftError
from weft.model.fabric import PortErrors
from weft.model.ids import span
from weft.model.messages import bandwidth as messages
from weft.model.messages import maintenance
from weft.model.site import Site
from weft.planning.bandwidth.bothends import by_the_site, ends_of_cause, errors_at, part_of
from weft.planning.bandwidth.candidates import LinksOf
from weft.planning.bandwidth.certify import AtTheEnds, certify
from weft.planning.bandwidth.expected import Planned
from weft.planning.bandwidth.planned import common_fabric, links_of_pairs, plan_document, plan_nodes
from weft.planning.bandwidth.values import SlowCause
from weft.planning.fabric.linkmap import LinkMap
from weft.planning.fabric.podtopology import PodTopology
from weft.planning.shapes.resolve import shape_of
from weft.ports.fabric import FollowsRoutes

MOST_NAMED = 10
"""Nodes that a refusal names."""


class BandwidthVerbs(DeskVerbs):
    """See `weft.app.verbs`."""

    def pod_plan(self, request: Request, name: str) -> BandwidthPlan:
        """What `weft-check bandwidth` needs to test a pod's servers.

        Raises `ConflictError` for a pod that has none in force, has parts of nodes, or fewer than two with adapters.
        """
        pod, site, floor = self._pod(request, "pods:bandwidth", name)
        planned, _ = _of_pod(pod, site)
        return plan_document(planned, pod.type, pod.segment, f"{pod.id} {pod.generation}", floor)

    def report_pod(self, request: Request, name: str, given: dict[str, object]) -> SignedCertificate:
        """Certify what a pod's servers measured. Raises as `pod_plan`, and `InputErrors` for the document."""
        document = validate(BandwidthDocument, given, Positions())
        with self._desk.logged(request, "pod report-bandwidth", name):
            pod, site, floor = self._pod(request, "pods:report_bandwidth", name)
            planned, named = _of_pod(pod, site)
            _check_names(document, planned)
            found = self._desk.whose(request, "pods:report_bandwidth", name)
            links_of = self._links_of(site, pod.fabric, planned, named, hidden=True)
            user = request.caller.named_to(found.project_id)

            def make(id_: str, at: datetime, last: BandwidthCertificate | None) -> BandwidthCertificate:
                said = self._said(id_, at, user, site) | {
                    "pod_id": pod.id,
                    "pod": pod.pod,
                    "project_id": found.project_id,
                    "measured_in": "the pod's servers",
                }
                return certify(document, planned, said, links_of, previous=last, floor=floor)

            sign = Signer(self._desk.store).certificate
            hosts = [named[node.name] for node in planned.nodes]
            return store_certificate(self._desk.store.database, sign, make, pod_id=found.id, hosts=hosts)

    def show_pod(self, request: Request, name: str) -> SignedCertificate:
        """The newest certificate of a pod, also of one that ended. Raises `NotFoundError`."""
        pod = self._desk.whose(request, "pods:bandwidth", name)
        signed = certificate_of_pod(self._desk.store.database, pod.id)
        if signed is None:
            raise NotFoundError(messages.BANDWIDTH_NOT_REPORTED(name=name))
        return signed

    def nodes_plan(self, request: Request, nodes: Sequence[str]) -> BandwidthPlan:
        """What `weft-check bandwidth` needs to test nodes, which operators log in to. Raises `ConflictError`."""
        self._desk.policy.check("nodes:bandwidth", request.caller)
        record = self._desk.store.site()
        planned = _of_nodes(record.site, nodes)[0]
        if held := sorted(set(nodes) & self._desk.store.capacity().held):
            raise ConflictError(messages.BANDWIDTH_NODES_HELD(nodes=held[:MOST_NAMED]))
        seed = sha256(" ".join(sorted(nodes)).encode()).hexdigest()[:16]
        return plan_document(planned, "", None, seed)

    def report_nodes(self, request: Request, given: dict[str, object]) -> SignedCertificate:
        """Certify what operators measured on nodes; each node's history gets an entry. Raises as the plan, and
        `InputErrors`."""
        document = validate(BandwidthDocument, given, Positions())
        with self._desk.logged(request, "node report-bandwidth", " ".join(document.nodes)):
            self._desk.policy.check("nodes:report_bandwidth", request.caller)
            site = self._desk.store.site().site
            planned, fabric, named = _of_nodes(site, document.nodes)
            _check_names(document, planned)
            links_of = self._links_of(site, fabric, planned, named)
            errors, complete = self._port_errors(site, fabric)
            user = request.caller.user_name

            def errors_of(cause: SlowCause) -> AtTheEnds:
                ends = ends_of_cause(cause, planned, named)
                return AtTheEnds(errors_at(ends, errors), part_of(cause, ends, errors, complete))

            def make(id_: str, at: datetime, last: BandwidthCertificate | None) -> BandwidthCertificate:
                if document.ended > at + AHEAD:
                    raise InputError("ended", document.ended.isoformat(), "a time that has passed")
                said = self._said(id_, at, user, site) | {"measured_in": "nodes, by operators"}
                return certify(document, planned, said, links_of, errors_of, last)

            signed = store_certificate(
                self._desk.store.database,
                Signer(self._desk.store).certificate,
                make,
                nodes=[node.name for node in planned.nodes],
                kept=span(site.retention.node_history),
                by=user,
            )
            found = signed.certificate
            results = {node.name: node.result for node in found.nodes}
            record_bandwidth(self._desk.store.database, site, results, found.began, user)
            return signed

    def show_node(self, request: Request, node: str) -> SignedCertificate:
        """The newest certificate that operators reported of a node. Raises `NotFoundError`."""
        self._desk.policy.check("nodes:bandwidth", request.caller)
        signed = certificate_of_node(self._desk.store.database, node)
        if signed is None:
            if node not in self._desk.store.site().site.node_by_name:
                raise NotFoundError(maintenance.NODE_UNKNOWN(node=node))
            raise NotFoundError(messages.BANDWIDTH_NOT_REPORTED(name=node))
        return signed

    def _pod(self, request: Request, rule: str, name: str) -> tuple[PodTopology, Site, float | None]:
        """The pod, the site, and the floor that its order wants."""
        shown, record = (
            self._desk.allowed(request, rule, name, self._desk.store.pods.find_shown),
            self._desk.store.site(),
        )
        pod = topology_of(shown, record)
        plan = shown.pod.placed
        if plan is not None and shape_of(plan.order).shares_nodes:
            raise ConflictError(messages.BANDWIDTH_OF_PARTS(pod=pod.pod))
        return pod, record.site, None if plan is None else plan.order.verify_floor

    def _said(self, id_: str, at: datetime, user: str, site: Site) -> dict[str, object]:
        record = self._desk.store.site()
        return {
            "id": id_,
            "site": site.name,
            "site_generation": record.generation,
            "reported_at": at,
            "reported_by": user,
        }

    def _links_of(
        self, site: Site, fabric: str, planned: Planned, named: Mapping[str, str], hidden: bool = False
    ) -> LinksOf | None:
        """The cables on the path of each pair, for the search for causes; None: paths can't be read, or a pair has
        several, so that no cable between switches is a candidate."""
        try:
            driver = self._desk.keeper.world().fabric(fabric)
            if not isinstance(driver, FollowsRoutes):
                return None
            return links_of_pairs(
                LinkMap(site, fabric, driver.routes(ROUTES_AGE).routes), planned, named, hidden
            )
        except WeftError:
            return None

    def _port_errors(self, site: Site, fabric: str) -> tuple[tuple[PortErrors, ...], bool]:
        """Ports with errors, as far as the fabric's manager says, and whether all others are known to have none."""
        try:
            status = self._desk.keeper.world().fabric(fabric).status()
        except WeftError:
            return (), False
        found = status.port_errors or ()
        complete = status.unread_ports == 0 and status.bad_ports == sum(bool(one.over) for one in found)
        return by_the_site(site, fabric, found), complete


def _of_pod(pod: PodTopology, site: Site) -> tuple[Planned, dict[str, str]]:
    """The servers in force, and server -> node."""
    named = {server.name: server.node for server in pod.servers}
    if not pod.fabric or pod.fabric not in site.fabrics:
        raise ConflictError(messages.BANDWIDTH_TOO_FEW(number=0))
    planned = plan_nodes(site, pod.fabric, named)
    if len(planned.nodes) < 2:
        raise ConflictError(messages.BANDWIDTH_TOO_FEW(number=len(planned.nodes)))
    return planned, named


def _of_nodes(site: Site, nodes: Sequence[str]) -> tuple[Planned, str, dict[str, str]]:
    """The nodes with their common fabric."""
    for node in nodes:
        if node not in site.node_by_name:
            raise NotFoundError(maintenance.NODE_UNKNOWN(node=node))
    named = {node: node for node in nodes}
    if len(named) < 2:
        raise ConflictError(messages.BANDWIDTH_TOO_FEW(number=len(named)))
    fabric = common_fabric(site, named)
    if fabric is None:
        raise ConflictError(messages.BANDWIDTH_FABRICS_DIFFER())
    return plan_nodes(site, fabric, named), fabric, named


def _check_names(document: BandwidthDocument, planned: Planned) -> None:
    """Raise if the document has a node twice, or one that isn't planned."""
    there = {node.name for node in planned.nodes}
    for name in document.nodes:
        if name not in there:
            raise ConflictError(messages.BANDWIDTH_OTHER_NODES(name=name[:100]))
    if len(set(document.nodes)) != len(document.nodes):
        raise InputError("nodes", "a name twice", "each node once")
    for row in (*document.pairs, *document.together):
        if max(row[:2]) >= len(document.nodes):
            raise InputError("pairs", str(list(row[:3])), "positions in nodes")
