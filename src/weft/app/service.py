"""The verbs, for real: `weft.app.verbs.Verbs`."""

from __future__ import annotations

from weft.app.podverbs import PodVerbs
from weft.app.siteverbs import SiteVerbs
from weft.app.timeverbs import TimeVerbs
from weft.model.errors import WeftError
from weft.model.fabric import ManagerState
from weft.model.views import Health


class Service(PodVerbs, SiteVerbs, TimeVerbs):
    """Tenants' and operators' verbs over one store."""

    def health(self) -> Health:
        checks: dict[str, str] = {}
        try:
            self._store.ping()
            checks["database"] = "ok"
            self._store.site()
            checks["site"] = "ok"
            for name, fabric in sorted(self._keeper.world().fabrics.items()):
                up = any(m.state is ManagerState.MASTER for m in fabric.status().managers)
                checks[f"fabric {name}"] = "ok" if up else "unknown: no master subnet manager answers"
        except WeftError as error:
            checks["site" if "database" in checks else "database"] = str(error)
        checks |= {f"thread {name}": said for name, said in self._pulse.checks().items()}
        return Health(ready=all(v == "ok" for v in checks.values()), checks=checks)
