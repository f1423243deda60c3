"""All verbs: everything that the API offers. What holds for each of them is in `weft.app.verbs`."""

from __future__ import annotations

from weft.app.bandwidthverbs import BandwidthVerbs
from weft.app.certificateverbs import CertificateVerbs
from weft.app.checkverbs import CheckVerbs
from weft.app.drainverbs import DrainVerbs
from weft.app.eventverbs import EventVerbs
from weft.app.healthverbs import HealthVerbs
from weft.app.impactverbs import ImpactVerbs
from weft.app.linkverbs import LinkVerbs
from weft.app.maintenanceverbs import MaintenanceVerbs
from weft.app.mapverbs import MapVerbs
from weft.app.monitoringverbs import MonitoringVerbs
from weft.app.networkverbs import NetworkVerbs
from weft.app.nodeverbs import NodeVerbs
from weft.app.replaceverbs import ReplaceVerbs
from weft.app.reportverbs import ReportVerbs
from weft.app.searchverbs import SearchVerbs
from weft.app.siteresources import SiteResourceVerbs
from weft.app.siteverbs import SiteVerbs
from weft.app.timeverbs import TimeVerbs
from weft.app.useverbs import UseVerbs
from weft.app.webhookverbs import WebhookVerbs
from weft.engine.store.counts import WORKER_SECONDS
from weft.model.errors import WeftError
from weft.model.messages import health
from weft.model.views import Health
from weft.ports.fabric import FabricDriver


class Service(
    ReplaceVerbs,
    ReportVerbs,
    EventVerbs,
    UseVerbs,
    HealthVerbs,
    WebhookVerbs,
    NodeVerbs,
    NetworkVerbs,
    SearchVerbs,
    MapVerbs,
    SiteVerbs,
    MaintenanceVerbs,
    DrainVerbs,
    CheckVerbs,
    CertificateVerbs,
    ImpactVerbs,
    LinkVerbs,
    MonitoringVerbs,
    SiteResourceVerbs,
    TimeVerbs,
    BandwidthVerbs,
):
    """Tenants' and operators' verbs over one store."""

    def health(self) -> Health:
        checks: dict[str, str] = {}
        try:
            self._store.ping()
            checks["database"] = health.OK()
            self._store.site()
            checks["site"] = health.OK()
            fabrics = {n: _fabric(f) for n, f in sorted(self._keeper.world().fabrics.items())}
            # Not a reason to be unready: an operator accepts a restored database through this service.
            gate = {"changes outside": self._store.database.gate.says(), "workers": self._workers_say()}
        except WeftError as error:
            checks["site" if "database" in checks else "database"] = str(error)
            fabrics, gate = {}, {}
        threads = {**self._pulse.checks(), **(self._worker() if self._worker else {})}
        checks |= {f"thread {name}": said for name, said in threads.items()}
        # An unreachable fabric stops its own orders; it must not make the service unavailable to all others.
        some = not fabrics or any(said.startswith("ok") for said in fabrics.values())
        ready = some and all(said == "ok" for said in checks.values())
        more = {f"fabric {n}": said for n, said in fabrics.items()} | gate
        return Health(ready=ready, checks=checks | more)

    def _workers_say(self) -> str:
        """Not a reason to be unready either: without workers the API still shows, plans and accepts orders."""
        if self._store.count_workers():
            return health.OK()
        return f"none gave a sign of life for {WORKER_SECONDS:.0f} s: nothing is built, released or looked at"


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
