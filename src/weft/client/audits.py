"""The audit of everything outside, and the log of what callers did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from weft.client.transport import Json, Transport


@dataclass(frozen=True, slots=True)
class Audits:
    """See `weft.client.client.Client`."""

    weft: Transport

    def run(
        self, repair: bool = False, unknown_pods: Sequence[str] = (), findings: Sequence[str] | None = None
    ) -> Json:
        """Looks at everything outside: give it time. Args: findings: repair only these, by `key`; None: all."""
        if repair:
            body: dict[str, Any] = {"repair": True}
            if unknown_pods:
                body["unknown_pods"] = list(unknown_pods)
            if findings is not None:  # weft refuses an empty list
                body["findings"] = list(findings)
            return self.weft.ask("POST", "/v1/audit", body, extra_time=1800)
        return self.weft.ask("GET", "/v1/audit", extra_time=600)

    def accept_database(self) -> Json:
        """Looks at everything outside, as `run` does."""
        return self.weft.ask("POST", "/v1/audit/accept", extra_time=600)

    def log(self, **search: Any) -> list[Json]:
        """Newest first. Args: the fields of `weft.model.views.AuditLogSearch`; None is left out."""
        query = urlencode({k: v for k, v in search.items() if v is not None})
        return self.weft.ask("GET", "/v1/audit-log" + (f"?{query}" if query else ""))["entries"]
