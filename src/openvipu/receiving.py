"""Limits calls whose request hasn't arrived yet: each holds a thread, and its caller isn't authenticated.

gRPC gives a call to a thread when its headers have arrived. A client that then sends no request would hold the thread
without a limit.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

PATIENCE = 10.0
"""Seconds until a request must be there."""

GRACE = 0.5
"""Seconds that a call has in any case: an honest client sends the request with the headers."""


@dataclass(frozen=True, slots=True)
class _Call:
    host: str
    context: Any
    ends: float


class ReceivingCalls:
    """Cancels the oldest of too many calls, once they have had the time that an honest client needs.

    Three of eight threads of a server may wait for requests, two of them for those of one host: the others are free.
    """

    def __init__(self, threads: int = 128, patience: float = PATIENCE) -> None:
        self._places, self._share = max(1, 3 * threads // 8), max(1, threads // 4)
        self._patience = patience
        self._lock = threading.Lock()
        self._calls: OrderedDict[int, _Call] = OrderedDict()
        self._timer: threading.Timer | None = None

    @contextmanager
    def place(self, context: Any) -> Generator[None]:
        """Context in which the request of this call is awaited."""
        call = _Call(context.peer().rpartition(":")[0], context, time.monotonic() + self._patience)
        with self._lock:
            self._calls[id(context)] = call
            if self._timer is None:
                self._look_later()
        try:
            yield
        finally:
            with self._lock:
                self._calls.pop(id(context), None)

    def _too_much(self, now: float) -> list[_Call]:
        """Calls past their limit, and after `GRACE` those beyond a host's share or all places; the newest have them."""
        found: list[_Call] = []
        hosts: Counter[str] = Counter()
        for call in reversed(self._calls.values()):
            hosts[call.host] += 1
            crowded = hosts[call.host] > self._share or hosts.total() > self._places
            if call.ends < now or (crowded and call.ends - self._patience + GRACE < now):
                found.append(call)
        return found

    def _look_later(self) -> None:
        self._timer = threading.Timer(min(GRACE, self._patience) / 2, self._look)
        self._timer.daemon = True
        self._timer.start()

    def _look(self) -> None:
        """Cancel calls that take too long or are too many, until none is left."""
        now = time.monotonic()
        with self._lock:
            late = self._too_much(now)
            for call in late:
                del self._calls[id(call.context)]
            self._timer = None
            if self._calls:
                self._look_later()
        for call in late:
            call.context.cancel()
