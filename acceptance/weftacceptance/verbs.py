"""All steps: importing this module registers them."""

from __future__ import annotations

from weftacceptance import (
    audits,
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
    storage,
    telemetry,
    tenants,
    transport,
    watching,
)
from weftacceptance.steps import STEPS

MODULES = (
    audits,
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
    storage,
    telemetry,
    tenants,
    transport,
    watching,
)

__all__ = ["MODULES", "STEPS"]
