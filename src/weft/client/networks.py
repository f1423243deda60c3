"""Networks that tenants created in Neutron."""

from __future__ import annotations

from dataclasses import dataclass

from weft.client.asking import PAGE, events, listed, part
from weft.client.transport import Json, Transport


@dataclass(frozen=True, slots=True)
class Networks:
    """See `weft.client.client.Client`."""

    weft: Transport

    def list(self, all_projects: bool = False) -> list[Json]:
        """All of them, page after page."""
        given = "true" if all_projects else None
        return listed(self.weft.ask, "/v1/networks", "networks", limit=PAGE, all_projects=given)

    def show(self, name: str) -> Json:
        """A tenant's own network by name or id."""
        return self.weft.ask("GET", f"/v1/networks/{part('network', name)}")

    def events(self, name: str, after: int = 0) -> list[Json]:
        return events(self.weft, f"/v1/networks/{part('network', name)}", {"after": after})

    def abandon(self, name: str, reason: str) -> Json:
        return self.weft.ask("POST", f"/v1/networks/{part('network', name)}/abandon", {"reason": reason})

    def receipt(self, name: str) -> Json:
        return self.weft.ask("GET", f"/v1/networks/{part('network', name)}/receipt")
