"""All verbs, in parts that are named as those of `weft.client`. What holds for each of them is in `weft.app.verbs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.app.auditverbs import AuditVerbs
from weft.app.bandwidthverbs import BandwidthVerbs
from weft.app.changeverbs import ChangeVerbs
from weft.app.checkverbs import CheckVerbs
from weft.app.desk import Desk
from weft.app.drainverbs import DrainVerbs
from weft.app.eventverbs import EventVerbs
from weft.app.fabricverbs import FabricVerbs
from weft.app.generations import Generations
from weft.app.healthverbs import HealthVerbs
from weft.app.impactverbs import ImpactVerbs
from weft.app.linkverbs import LinkVerbs
from weft.app.maintenanceverbs import MaintenanceVerbs
from weft.app.mapverbs import MapVerbs
from weft.app.monitoringverbs import MonitoringVerbs
from weft.app.networkverbs import NetworkVerbs
from weft.app.newpods import NewPods
from weft.app.nodeverbs import NodeVerbs
from weft.app.orderdesk import Orders
from weft.app.permissions import Permissions
from weft.app.podverbs import PodVerbs
from weft.app.replaceverbs import ReplaceVerbs
from weft.app.reportverbs import ReportVerbs
from weft.app.searchverbs import SearchVerbs
from weft.app.siteresources import SiteResourceVerbs
from weft.app.siteverbs import SiteVerbs
from weft.app.timeverbs import TimeVerbs
from weft.app.topologyverbs import TopologyVerbs
from weft.app.useverbs import UseVerbs
from weft.app.verbs import Request
from weft.app.webhookverbs import WebhookVerbs
from weft.engine.store.counts import WORKER_SECONDS
from weft.engine.store.signing import Signer
from weft.model.errors import WeftError
from weft.model.messages import health, nodehealth
from weft.model.receipt import ReceiptKey
from weft.model.views import Health
from weft.ports.fabric import FabricDriver


class Pods:
    """Verbs about pods, from several classes."""

    def __init__(self, desk: Desk, healths: HealthVerbs, reports: ReportVerbs) -> None:
        orders = Orders(desk)
        new, generations = NewPods(desk, orders), Generations(desk, orders)
        pods = PodVerbs(desk, new)
        self.create, self.order, self.order_names = pods.create, pods.order, pods.order_names
        self.list, self.show, self.find = pods.listed, pods.show, pods.find
        self.events, self.watching = pods.events, pods.watching
        self.release, self.begin_release, self.receipt = pods.release, pods.begin_release, pods.receipt
        self.retry, self.abandon = pods.retry, pods.abandon
        changes = ChangeVerbs(desk, orders, new, generations)
        self.plan, self.apply, self.may_apply = changes.plan, changes.apply, changes.may_apply
        self.extend = changes.extend
        replacements = ReplaceVerbs(desk, orders, generations)
        self.plan_replacement = replacements.plan_replacement
        self.replace_node = replacements.replace_node
        self.report_node = reports.report_node
        servers = NodeVerbs(desk)
        self.act_on_server, self.console = servers.act_on_server, servers.console
        self.health = healths.of_pod
        self.map = MapVerbs(desk).map
        self.topology = TopologyVerbs(desk).topology


class Nodes:
    """Verbs about nodes, from several classes."""

    def __init__(self, desk: Desk, healths: HealthVerbs, reports: ReportVerbs) -> None:
        nodes = MaintenanceVerbs(desk)
        self.list, self.page, self.show, self.history = nodes.listed, nodes.page, nodes.show, nodes.history
        self.marks, self.marks_and_views = nodes.marks, nodes.marks_and_views
        self.quarantine, self.clear = nodes.quarantine, nodes.clear
        self.hold, self.accept, self.holds = nodes.hold, nodes.accept, nodes.holds
        self.health, self.healths = healths.of_node, healths.of_nodes
        self.health_values, self.health_page = healths.values, healths.page
        self.part_history = healths.part_history
        self.reports, self.clear_report = reports.reports, reports.clear_report
        drains = DrainVerbs(desk)
        self.drain, self.undrain = drains.drain, drains.undrain
        self.drains, self.overdue_drains = drains.drains, drains.overdue_drains


class Fabrics:
    """Verbs about fabrics, from several classes."""

    def __init__(self, desk: Desk) -> None:
        fabrics = FabricVerbs(desk)
        self.readings, self.leaves = fabrics.readings, fabrics.leaves
        self.compare, self.adopt_cabling = fabrics.compare, fabrics.adopt_cabling
        links = LinkVerbs(desk)
        self.show_link, self.pod_links = links.show_link, links.pod_links
        self.who_disturbs, self.node_loads = links.who_disturbs, links.node_loads


class Site:
    """Verbs about the site, from several classes."""

    def __init__(self, desk: Desk, healths: HealthVerbs) -> None:
        site = SiteVerbs(desk)
        self.show, self.activate = site.show, site.activate
        self.certificates = site.certificates
        self.part, self.missing_parts, self.send_part = site.part, site.missing_parts, site.send_part
        own = SiteResourceVerbs(desk)
        self.plan, self.apply, self.resources, self.events = own.plan, own.apply, own.resources, own.events
        self.destroy, self.abandon, self.receipt = own.destroy, own.abandon, own.receipt
        self.health = healths.of_site
        self.impact = ImpactVerbs(desk).impact


class Service:
    """Tenants' and operators' verbs over one store.

    Args:
        worker: state of the worker process, for /readyz.
    """

    def __init__(self, desk: Desk, worker: Callable[[], Mapping[str, str]] | None = None) -> None:
        self._desk, self._worker = desk, worker
        healths, reports = HealthVerbs(desk), ReportVerbs(desk)
        self.permissions = Permissions(desk)
        self.pods = Pods(desk, healths, reports)
        self.nodes = Nodes(desk, healths, reports)
        self.checks = CheckVerbs(desk)
        self.fabrics = Fabrics(desk)
        self.bandwidth = BandwidthVerbs(desk)
        self.capacity = TimeVerbs(desk)
        self.site = Site(desk, healths)
        self.networks = NetworkVerbs(desk)
        self.events = EventVerbs(desk)
        self.webhooks = WebhookVerbs(desk)
        self.audits = AuditVerbs(desk)
        self.monitoring = MonitoringVerbs(desk)
        self.search = SearchVerbs(desk).search
        self.use = UseVerbs(desk).use

    def receipt_key(self, request: Request) -> ReceiptKey:
        """The public key that this site's receipts are signed with, for every user of the service."""
        self._desk.policy.check("receipts:key", request.caller, request.caller.project_id)
        return Signer(self._desk.store).key()

    def health(self) -> Health:
        """State of the database, site, fabrics, gate and threads, for `/readyz`. Raises nothing."""
        checks: dict[str, str] = {}
        try:
            self._desk.store.ping()
            checks["database"] = health.OK()
            self._desk.store.site()
            checks["site"] = health.OK()
            fabrics = {n: _fabric(f) for n, f in sorted(self._desk.keeper.world().fabrics.items())}
            # Not a reason to be unready: an operator accepts a restored database through this service.
            gate = {"changes outside": self._desk.store.database.gate.says(), "workers": self._workers_say()}
        except WeftError as error:
            checks["site" if "database" in checks else "database"] = str(error)
            fabrics, gate = {}, {}
        threads = {**self._desk.pulse.checks(), **(self._worker() if self._worker else {})}
        checks |= {f"thread {name}": said for name, said in threads.items()}
        # An unreachable fabric stops its own orders; it must not make the service unavailable to all others.
        some = not fabrics or any(map(health.is_well, fabrics.values()))
        ready = some and all(said == "ok" for said in checks.values())
        more = {f"fabric {n}": said for n, said in fabrics.items()} | gate
        return Health(ready=ready, checks=checks | more)

    def _workers_say(self) -> str:
        """Whether workers run. Without any, the service is still ready: the API shows, plans and accepts orders."""
        if self._desk.store.count_workers():
            return health.OK()
        return nodehealth.NO_WORKERS(seconds=round(WORKER_SECONDS))


def _fabric(fabric: FabricDriver) -> str:
    """State of a fabric's managers, in a form that anyone may read."""
    try:
        managers = fabric.configured()
    except WeftError:
        return health.MANAGER_SILENT()
    behind = len(managers.unread)
    if not behind:
        return health.OK()
    return health.MANAGERS_SILENT(silent=behind, all=behind + len(managers.read))
