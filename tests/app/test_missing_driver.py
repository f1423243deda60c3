"""A site with a manager whose driver isn't installed: only what needs it fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.paths import EXAMPLES
from weft.app.drivers import MACHINE_DRIVERS, MachineDriverRow, open_machines
from weft.app.sitefile import load_site
from weft.model.errors import PermanentError
from weft.model.kindrow import Home
from weft.model.kinds import kinds_at
from weft.ports.machines import MachineDriver
from weft.ports.resources import Acceptance


def _not_there(*given: Any) -> MachineDriver:
    raise ModuleNotFoundError("No module named 'grpc'", name="grpc")


@pytest.fixture
def driver(caplog: pytest.LogCaptureFixture) -> MachineDriver:
    """Of the IPU-POD of an example's site, in an environment without gRPC."""
    site = load_site(EXAMPLES / "sites/ipupod64/site.yaml")
    row = MACHINE_DRIVERS["V-IPU"]
    with caplog.at_level(logging.ERROR):
        opened = open_machines(site, {}, {"V-IPU": MachineDriverRow(row.names, _not_there, row.extra)})  # type: ignore[arg-type]
    assert "vipu" in caplog.text and opened.keys() == set(site.ipu_pods)
    return next(iter(opened.values()))


CALLS: dict[str, Callable[[Any], Any]] = {
    "unfit": lambda d: d.unfit(),
    "find": lambda d: d.find(None, (), {}),
    "create": lambda d: d.create(None, (), {}),
    "update": lambda d: d.update(None, (), {}),
    "delete": lambda d: d.delete(None, (), {}),
    "marked": lambda d: d.marked("north", ()),
    "remove_marked": lambda d: d.remove_marked(()),
    "prove": lambda d: d.prove(None, ()),
    "clear_proof": lambda d: d.clear_proof(None, ()),
}


@pytest.mark.parametrize("call", CALLS)
def test_driver_that_is_not_installed_answers_nothing(call: str, driver: MachineDriver) -> None:
    """Neither that something is there nor that it is absent: each call says what to install."""
    with pytest.raises(PermanentError, match=r"No module named 'grpc'; install weft\[vipu\]"):
        CALLS[call](driver)


def test_driver_that_is_not_installed_stands_for_its_kinds(driver: MachineDriver) -> None:
    """So that rows of such kinds are asked of it, and are unknown, rather than of none."""
    assert driver.kinds == kinds_at(Home.MACHINES) and isinstance(driver, Acceptance)
