"""What can be ordered, and what is reserved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.client.asking import listed, matching, part, with_query
from weft.client.transport import Json, Transport


@dataclass(frozen=True, slots=True)
class Capacity:
    """See `weft.client.client.Client`."""

    weft: Transport

    def show(
        self, accelerator: str | None = None, level: str | None = None, duration: str | None = None
    ) -> Json:
        """What can be ordered now, by locality level and accelerator, and when more will be available.

        Args:
            accelerator: only nodes with accelerators of this type; ipu: IPUs.
            level: only sizes within one domain of it: nvlink_domain, leaf, block, hall, building, site.
            duration: how long an order must be able to run, such as 24h.
        """
        path = with_query("/v1/capacity", accelerator=accelerator, level=level, duration=duration)
        return self.weft.ask("GET", path)

    def history(self, since: str | None = None, until: str | None = None, points: int | None = None) -> Json:
        """Nodes by state over time; for operators.

        Args:
            since: ISO 8601 with time zone, as `until`; None: a week before it.
            until: None: now.
            points: at most so many moments.
        """
        return self.weft.ask(
            "GET", with_query("/v1/capacity/history", since=since, until=until, points=points)
        )

    def reservations(self) -> list[Json]:
        """All reservations."""
        return listed(self.weft.ask, "/v1/reservations", "reservations")

    def reserve(self, reservation: Mapping[str, Any]) -> Json:
        """Set nodes aside for a project; for operators."""
        return self.weft.ask("POST", "/v1/reservations", reservation)

    def reservation(self, name: str) -> Json:
        """One reservation, by its name."""
        return self.weft.ask("GET", f"/v1/reservations/{part('name', name)}")

    def end_reservation(self, name: str, revision: int | None = None) -> Json:
        """End a reservation; for operators. Args: revision: only if it has this one."""
        path = f"/v1/reservations/{part('name', name)}"
        return self.weft.ask("DELETE", path, headers=matching(revision))
