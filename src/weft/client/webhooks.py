"""Webhooks of a project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.client.asking import listed, matching, part
from weft.client.transport import Json, Transport


@dataclass(frozen=True, slots=True)
class Webhooks:
    """See `weft.client.client.Client`."""

    weft: Transport

    def list(self, all_projects: bool = False) -> list[Json]:
        """Webhooks of the project or of all, whether they are delivered, and why not."""
        every = "true" if all_projects else None
        return listed(self.weft.ask, "/v1/webhooks", "webhooks", all_projects=every)

    def show(self, name: str) -> Json:
        """A webhook, by name or id."""
        return self.weft.ask("GET", f"/v1/webhooks/{part('name', name)}")

    def make(self, name: str, url: str, events: Sequence[str] = ()) -> Json:
        """Create a webhook; the answer has its `secret`, which is shown only once."""
        return self.weft.ask("POST", "/v1/webhooks", {"name": name, "url": url, "events": list(events)})

    def delete(self, name: str, revision: int | None = None) -> Json:
        """Delete a webhook; returns it as it was. Args: revision: only if it has this one."""
        return self.weft.ask("DELETE", f"/v1/webhooks/{part('name', name)}", headers=matching(revision))

    def act(self, name: str, act: str, revision: int | None = None) -> Json:
        """Rotate (a new `secret`), enable, or test (`delivered`, or the `reason`). Args: revision: as `delete`."""
        path = f"/v1/webhooks/{part('name', name)}/{act}"
        return self.weft.ask("POST", path, {}, headers=matching(revision))
