"""What `weft serve` and the agents import when they start."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.landing

_BRINGING_UP = (
    "pynetbox",
    "sushy",
    "weft.app.enroll",
    "weft.app.hardwarelists",
    "weft.app.inventories",
    "weft.app.siteexport",
    "weft.app.siteimport",
    "weft.drivers.netbox",
    "weft.drivers.redfish",
    "weft.planning.export",
    "weft.planning.hardware",
    "weftlab",
)
"""Modules for import and export of sites, and for the lab."""


def _imported(*modules: str) -> set[str]:
    """Names of all modules loaded in a process that imports these."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    return set(done.stdout.split())


def test_service_imports_no_code_for_site_import_and_export() -> None:
    """The API, the worker and the drivers of all kinds, in one process."""
    found = _imported(
        "weft.cli.main",
        "weft.cli.serve",
        "weft.api.server",
        "weft.app.wiring",
        "weft.app.workerprocess",
        "weft.drivers.switches",
        "weft.drivers.opensm",
        "weft.drivers.ufm",
    )
    assert "weft.engine.visit.reconciler" in found
    assert [m for m in found if m.startswith(_BRINGING_UP)] == []


def test_agents_import_no_libraries_of_the_service() -> None:
    """So that a subnet manager's host needs only what weft-pods-agents declares."""
    found = _imported("weft.program", "weft.fabricagent.cli", "weft.probeagent.cli")
    assert "weft.fabricagent.server" in found
    assert not found & {"anyio", "fastapi", "httpx", "keystoneauth1", "numpy", "openstack", "psycopg", "rich"}
