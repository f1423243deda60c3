"""All steps: importing this registers them."""

from __future__ import annotations

from weftacceptance import (
    breakfix,
    filters,
    fleet,
    guests,
    hardening,
    identity,
    images,
    netsteps,
    pods,
    servers,
    telemetry,
)
from weftacceptance.steps import STEPS

MODULES = (breakfix, filters, fleet, guests, hardening, identity, images, netsteps, pods, servers, telemetry)

__all__ = ["MODULES", "STEPS"]
