"""A site with a manager whose driver isn't installed: only requests to that manager fail."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.paths import EXAMPLES
from weft.app.drivers import MACHINE_DRIVERS, MachineDriverRow, missing_extras, open_fabrics, open_machines
from weft.app.sitefile import load_site
from weft.cli.main import main
from weft.model.errors import PermanentError
from weft.model.kindrow import Home
from weft.model.kinds import kinds_at
from weft.model.site import Site
from weft.ports.ledger import NoLedger
from weft.ports.machines import MachineDriver
from weft.ports.resources import HandoverTest


def _not_there(*given: Any) -> MachineDriver:
    raise ModuleNotFoundError("No module named 'grpc'", name="grpc")


@pytest.fixture
def driver(caplog: pytest.LogCaptureFixture) -> MachineDriver:
    """Driver of the IPU-POD of an example site, in an environment without gRPC."""
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
def test_missing_driver_fails_each_call_with_advice(call: str, driver: MachineDriver) -> None:
    """It reports nothing as present or absent; each error says what to install."""
    with pytest.raises(PermanentError, match=r"No module named 'grpc'; pip install 'weft-pods\[vipu\]'"):
        CALLS[call](driver)


def test_missing_driver_still_owns_its_kinds(driver: MachineDriver) -> None:
    """So that rows of its kinds are unknown, rather than of no driver."""
    assert driver.kinds == kinds_at(Home.MACHINES) and isinstance(driver, HandoverTest)


def test_missing_extra_of_a_manager_gives_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """`site check` names the IPU-POD, the module and the command to install it; a site without IPU-PODs gets no
    sentence."""
    monkeypatch.setitem(sys.modules, "grpc", None)
    ipus = load_site(EXAMPLES / "sites/ipupod64/site.yaml")
    [name] = ipus.ipu_pods
    assert missing_extras(ipus) == (f"V-IPU {name}: no module grpc: pip install 'weft-pods[vipu]'",)
    assert missing_extras(load_site(EXAMPLES / "sites/small/site.yaml")) == ()


def test_site_check_notes_missing_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It isn't an error: the site is valid, and another host may have the extra."""
    monkeypatch.setitem(sys.modules, "grpc", None)
    assert main(["site", "check", str(EXAMPLES / "sites/ipupod64/site.yaml")]) == 0
    assert "no module grpc: pip install 'weft-pods[vipu]'" in capsys.readouterr().out


def _generic_site() -> Site:
    """The Ethernet example, with one switch configured by networking-generic-switch."""
    document = load_site(EXAMPLES / "sites/roce/site.yaml").model_dump(mode="json")
    [fabric] = document["fabrics"].values()
    access = fabric["manager"]["switching"]["switches"][0]
    access |= {"interface": "generic", "device_type": "netmiko_juniper", "url": "ssh://192.0.2.1"}
    return Site.model_validate(document)


def test_missing_extra_of_a_fabric_is_reported_at_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Opening the drivers logs it once for the fabric, and still opens them all."""
    monkeypatch.setitem(sys.modules, "networking_generic_switch", None)
    site = _generic_site()
    with caplog.at_level(logging.ERROR):
        opened = open_fabrics(site, lambda _: NoLedger())
    [name] = opened
    sentence = f"fabric {name}: no module networking_generic_switch: pip install 'weft-pods[generic-switch]'"
    assert missing_extras(site) == (sentence,)
    assert [r.getMessage() for r in caplog.records] == [
        f"{sentence}; what needs it fails, everything else is served"
    ]
