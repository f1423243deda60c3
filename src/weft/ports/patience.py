"""How long a caller waits for one answer from outside; set where the caller is known, heeded by the drivers."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_PATIENCE: ContextVar[float | None] = ContextVar("weft_patience", default=None)


def patience() -> float | None:
    """Seconds at most for the answer to a read; None: the driver's own limit."""
    return _PATIENCE.get()


@contextmanager
def waiting_at_most(seconds: float | None) -> Generator[None]:
    """Each read within this context has so many seconds; None: the driver's own limit."""
    token = _PATIENCE.set(seconds)
    try:
        yield
    finally:
        _PATIENCE.reset(token)
