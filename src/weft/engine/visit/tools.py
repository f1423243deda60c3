"""What every visit works with, and what it ends with."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from weft.engine.hold.settings import LoopSettings
from weft.model.receipt import Receipt, SignedReceipt
from weft.ports.clock import Clock


@dataclass(frozen=True, slots=True)
class NextVisit:
    """When the owner is due again.

    Attributes:
        delay: seconds.
        failures: how many visits in a row made no progress; decides the next back-off.
    """

    delay: float
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Tools:
    """What every visit works with; one set per process.

    Attributes:
        pool: a few threads, shared by all visits, for requests that can go at the same time.
    """

    sign: Callable[[Receipt], SignedReceipt]
    clock: Clock
    settings: LoopSettings
    pool: Executor
