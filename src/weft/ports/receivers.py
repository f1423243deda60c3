"""What weft requires of a sender of webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from weft.model.site import WebhookPolicy


class UndeliveredError(Exception):
    """Nothing answered, or nothing may be sent there; `args[0]` is the message."""


class Receivers(Protocol):
    """Sends to the URLs that tenants gave."""

    def post(self, url: str, headers: Mapping[str, str], body: bytes, policy: WebhookPolicy) -> int:
        """The status of the answer, of which nothing else is read. Raises `UndeliveredError`."""
        ...
