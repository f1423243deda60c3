"""Port: sends webhooks to the URLs that tenants gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from weft.model.site import WebhookPolicy


class UndeliveredError(Exception):
    """Nothing answered, or nothing may be sent there; `args[0]` is the message."""


class Receivers(Protocol):
    """Sends webhooks."""

    def post(self, url: str, headers: Mapping[str, str], body: bytes, policy: WebhookPolicy) -> int:
        """Send a body; returns the status of the answer, whose other parts aren't read. Raises `UndeliveredError`."""
        ...
