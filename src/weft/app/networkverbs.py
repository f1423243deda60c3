"""The verbs about networks that tenants created in Neutron: show them, and abandon a release that can't finish."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from weft.app.desk import DeskVerbs
from weft.app.verbs import Request
from weft.engine.rows.tenantviews import TenantViews
from weft.model.errors import ConflictError, NotFoundError
from weft.model.pod import PodState
from weft.model.receipt import SignedReceipt
from weft.model.views import FIRST_NETWORKS, EventView, NetworkSearch, NetworkSummary, NetworkView


class NetworkVerbs(DeskVerbs):
    """See `weft.app.verbs`."""

    def list(self, request: Request, search: NetworkSearch = FIRST_NETWORKS) -> Sequence[NetworkSummary]:
        """Networks that the caller may see, by id; no more than `search.limit`."""
        if search.all_projects:
            self._desk.policy.check("networks:list_all_projects", request.caller)
            return self._networks().summaries(search, None)
        return self._networks().summaries(search, self._desk.project(request, "networks:list"))

    def show(self, request: Request, name: str) -> NetworkView:
        """A network by name or id, among those the caller may see. Raises `NotFoundError`."""
        return self._network(request, name)[1]

    def events(self, request: Request, name: str, after: int = 0) -> Sequence[EventView]:
        """Events of a network with a sequence above `after`."""
        return self._desk.store.records.events(self._network(request, name)[0], after)

    def abandon(self, request: Request, name: str, reason: str) -> NetworkView:
        """End a release that can't finish; its receipt is never clean. `ConflictError` in other states."""
        with self._desk.logged(request, "network abandon", name):
            owner, found = self._network(request, name)
            self._desk.policy.check("networks:abandon", request.caller, found.project_id)
            if not self._desk.store.abandon(owner, request.caller.named_to(found.project_id), reason):
                raise ConflictError(_not_abandoned(self._network(request, name)[1]))
            return self._network(request, name)[1]

    def receipt(self, request: Request, name: str) -> SignedReceipt:
        """Receipt of a network's last release, for operators, as it names nodes. `ConflictError` if there is none."""
        self._desk.policy.check("networks:receipt", request.caller)
        owner = self._networks().find_released(name)
        receipt = self._desk.store.records.receipt(owner) if owner else None
        if receipt is None:
            found = self._network(request, name)[1]
            raise ConflictError(
                f"network {found.name} is {found.state}: there is no receipt before its release"
            )
        return receipt

    def _network(self, request: Request, name: str) -> tuple[UUID, NetworkView]:
        """A network by name or id. Raises `NotFoundError` also for one that the caller may not see."""
        caller = request.caller
        everywhere = self._desk.policy.allows("networks:list_all_projects", caller)
        found = self._networks().find(name, None if everywhere else caller.project_id or "")
        if not self._desk.policy.allows("networks:show", caller, found[1].project_id):
            raise NotFoundError(f"weft serves no network {name!r} in this project")
        return found

    def _networks(self) -> TenantViews:
        return TenantViews(self._desk.store.database, self._desk.store.site().site)


def _not_abandoned(network: NetworkView) -> str:
    """Why a network can't be abandoned now."""
    about = f"network {network.name} is {network.state}"
    if network.state is PodState.RELEASING:
        return f"{about}: its end has been requested already, and is in progress"
    return f"{about}: only a release that can't finish can be abandoned; it begins when Neutron deletes the network"
