"""How long a caller waits for one answer from outside, and who the caller is; set where the caller is known, respected
by the drivers.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_PATIENCE: ContextVar[tuple[float | None, str]] = ContextVar("weft_patience", default=(None, ""))


def patience() -> float | None:
    """Seconds at most for the answer to a read; None: the driver's own limit."""
    return _PATIENCE.get()[0]


def impatient() -> str:
    """The caller whose patience limits reads: a project, or an address; empty: weft itself."""
    seconds, who = _PATIENCE.get()
    return "" if seconds is None else who


@contextmanager
def waiting_at_most(seconds: float | None, who: str = "") -> Generator[None]:
    """Each read within this context is limited to this many seconds; None: the driver's own limit.

    Args:
        who: as `impatient` returns it.
    """
    token = _PATIENCE.set((seconds, who))
    try:
        yield
    finally:
        _PATIENCE.reset(token)
