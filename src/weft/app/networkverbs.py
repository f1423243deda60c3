"""The verbs about networks that tenants created in Neutron: they only show."""

from __future__ import annotations

from uuid import UUID

from weft.app.orderdesk import OrderDesk
from weft.app.verbs import Request
from weft.engine.tenantviews import TenantViews
from weft.model.errors import NotFoundError
from weft.model.views import FIRST_NETWORKS, EventView, NetworkSearch, NetworkSummary, NetworkView


class NetworkVerbs(OrderDesk):
    """See `weft.app.verbs`."""

    def list_networks(self, request: Request, search: NetworkSearch = FIRST_NETWORKS) -> list[NetworkSummary]:
        """By id; no more than `search.limit`."""
        if search.all_projects:
            self._policy.check("networks:list_all_projects", request.caller)
            return self._networks().summaries(search, None)
        return self._networks().summaries(search, self._project(request, "networks:list"))

    def show_network(self, request: Request, name: str) -> NetworkView:
        return self._network(request, name)[1]

    def network_events(self, request: Request, name: str, after: int = 0) -> list[EventView]:
        """Events with a sequence above `after`."""
        return self._store.events(self._network(request, name)[0], after)

    def _network(self, request: Request, name: str) -> tuple[UUID, NetworkView]:
        """One that the caller may see: others don't exist."""
        caller = request.caller
        everywhere = self._policy.allows("networks:list_all_projects", caller)
        found = self._networks().find(name, None if everywhere else caller.project_id or "")
        if not self._policy.allows("networks:show", caller, found[1].project_id):
            raise NotFoundError(f"weft serves no network {name!r} in this project")
        return found

    def _networks(self) -> TenantViews:
        return TenantViews(self._store.database, self._store.site().site)
