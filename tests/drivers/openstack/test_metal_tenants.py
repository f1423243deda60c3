"""Tenants' actions on machines that Ironic deploys without Nova: power, rescue, consoles."""

from __future__ import annotations

from typing import Any

import pytest

from tests.drivers.openstack.metalrig import AT, MACHINE, SCOPE, STEPS, Rig
from tests.drivers.openstack.metalrig import house as house
from tests.drivers.openstack.metalrig import rig as rig
from tests.drivers.openstack.tinycloud import PROJECT, Reply
from tests.drivers.openstack.tinyironic import NODE
from weft.app import tenanttext
from weft.model.errors import ConflictError, NotYetError, TemporaryError
from weft.ports.fences import unfenced
from weft.ports.servers import Action


def test_actions_reach_a_machine_only_while_it_has_the_tenants_server(rig: Rig) -> None:
    server = rig.running()
    assert rig.facts.act(PROJECT, server, Action.REBOOT, unfenced) is None
    assert f"PUT {AT}/states/power" in rig.ironic.asked
    rig.ironic.torn_down(NODE)
    rig.ironic.asked.clear()
    for action in Action:
        with pytest.raises(ConflictError, match="another instance or none") as refused:
            rig.facts.act(PROJECT, server, action, unfenced)
        text = tenanttext.conflict(refused.value.message)
        assert text.startswith(f"the cloud refuses to {action} server {server.split('@')[0]} now"), text
    with pytest.raises(ConflictError, match="another instance or none") as refused:
        rig.facts.console(PROJECT, server, serial=True, fence=unfenced)
    assert NODE not in tenanttext.conflict(refused.value.message), "the error doesn't name the machine"
    assert rig.changes() == []


def test_rescue_password_is_shown_once(rig: Rig) -> None:
    server = rig.running()
    rig.ironic.lies = [(STEPS["the deployment"], Reply(202))]
    first, second = (rig.facts.act(PROJECT, server, Action.RESCUE, unfenced) for _ in range(2))
    assert first and second and first != second and len(first) >= 20


@pytest.mark.parametrize(
    ("reply", "url"),
    [
        (
            {"console_enabled": True, "console_info": {"type": "shellinabox", "url": "http://c:1"}},
            "http://c:1",
        ),
        ({"console_enabled": False, "console_info": None}, None),
    ],
)
def test_console_is_served_by_ironic(rig: Rig, reply: dict[str, Any], url: str | None) -> None:
    server = rig.running()
    rig.ironic.lies = [
        (f"GET {AT}/states/console", Reply(200, reply)),
        (f"PUT {AT}/states/console", Reply(202)),
    ]
    if url is None:
        with pytest.raises(ConflictError, match="is starting it"):
            rig.facts.console(PROJECT, server, serial=True, fence=unfenced)
    else:
        assert rig.facts.console(PROJECT, server, serial=True, fence=unfenced).url == url


NOT_ITS_OWN = [
    "deploying",
    "wait call-back",
    "rescuing",
    "rescue wait",
    "servicing",
    "clean wait",
    "deploy failed",
]


@pytest.mark.parametrize("state", NOT_ITS_OWN)
def test_console_and_power_are_refused_while_another_system_runs(rig: Rig, state: str) -> None:
    """At the boot loader of Ironic's agent a tenant would be root in the network where machines are deployed, and
    switching off during a firmware update would break the machine.
    """
    server = rig.running()
    rig.node["provision_state"] = state
    rig.ironic.asked.clear()
    for ask in (
        lambda: rig.facts.console(PROJECT, server, serial=True, fence=unfenced),
        lambda: rig.facts.act(PROJECT, server, Action.RESET, unfenced),
        lambda: rig.facts.act(PROJECT, server, Action.REBOOT, unfenced),
    ):
        with pytest.raises(ConflictError, match=f"its machine is {state}"):
            ask()
    assert rig.changes() == [] and rig.node["console_enabled"] is False


def test_console_opened_during_another_deployment_is_closed_and_not_shown(rig: Rig) -> None:
    server = rig.running()
    rig.ironic.asides = [
        (f"PUT {AT}/states/console", lambda: rig.node.update(provision_state="wait call-back"))
    ]
    with pytest.raises(ConflictError, match="its machine is wait call-back"):
        rig.facts.console(PROJECT, server, serial=True, fence=unfenced)
    assert rig.node["console_enabled"] is False


def test_rescue_starts_with_the_console_off(rig: Rig) -> None:
    server = rig.running()
    assert rig.facts.console(PROJECT, server, serial=True, fence=unfenced).url
    with pytest.raises(ConflictError, match="console is being switched off: ask again"):
        rig.facts.act(PROJECT, server, Action.RESCUE, unfenced)
    assert (rig.node["provision_state"], rig.node["console_enabled"]) == ("active", False)
    rig.ironic.lies = [(STEPS["the deployment"], Reply(202))]
    assert rig.facts.act(PROJECT, server, Action.RESCUE, unfenced)
    rig.node["provision_state"] = "rescue"
    assert rig.facts.console(PROJECT, server, serial=True, fence=unfenced).url
    assert rig.facts.act(PROJECT, server, Action.RESET, unfenced) is None


def test_console_is_switched_off_before_deletion(rig: Rig) -> None:
    """Ironic would start it for the next server on the machine, under the URL that this tenant knows."""
    server = rig.running()
    assert rig.facts.console(PROJECT, server, serial=True, fence=unfenced).url == "tcp://10.0.0.9:8023"
    rig.ironic.asked.clear()
    assert rig.delete(server) is None
    assert rig.changes() == [f"PUT {AT}/states/console", STEPS["the deployment"]]
    assert rig.node["console_enabled"] is False


def test_console_that_is_being_switched_off_is_waited_for(rig: Rig) -> None:
    server = rig.running()
    rig.node["console_enabled"] = True
    rig.ironic.lies = [(f"PUT {AT}/states/console", Reply(202))]
    assert isinstance(rig.delete(server), NotYetError)
    rig.ironic.lies = [(f"PUT {AT}/states/console", Reply(409, {"error_message": "Node is locked"}))]
    assert isinstance(rig.delete(server), NotYetError)
    assert rig.node["provision_state"] == "active"


def test_console_stuck_on_delays_no_teardown_but_keeps_the_machine(rig: Rig) -> None:
    server = rig.running()
    rig.node["console_enabled"], rig.ironic.stuck = True, True
    assert isinstance(rig.delete(server), NotYetError)
    assert rig.delete(server) is None and rig.node["provision_state"] == "deleting"
    rig.ironic.torn_down(NODE)
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    rig.node["power_state"] = "power off"
    error = rig.free()
    assert isinstance(error, TemporaryError) and error.alarming and "disabling the console" in str(error)
    assert rig.node["extra"] != {}
    rig.ironic.stuck = False
    assert rig.free() is not None, "the recorded failure is reported while it asks again"
    assert rig.free() is None and rig.node["extra"] == {}


def test_late_console_request_is_undone_before_the_next_server(rig: Rig) -> None:
    rig.claim()
    rig.node["console_enabled"] = True
    assert isinstance(rig.create().error, NotYetError)
    assert (rig.node["console_enabled"], rig.node["instance_uuid"]) == (False, None)

    def late() -> None:
        rig.node["console_enabled"] = True

    rig.ironic.asides = [(STEPS["the first port"], late)]
    assert isinstance(rig.create().error, NotYetError)
    assert (rig.node["console_enabled"], rig.node["provision_state"]) == (False, "available")
    assert rig.create().error is None and rig.node["provision_state"] == "deploying"


def test_machine_with_an_open_console_is_not_free(rig: Rig) -> None:
    rig.node["console_enabled"] = True
    assert "its console is on" in rig.facts.hosts()[NODE]
    error = rig.driver.create(SCOPE, [MACHINE], {})[MACHINE.key].error
    assert isinstance(error, TemporaryError) and error.alarming and "its console is on" in str(error)
    assert rig.changes() == [], "a machine without an instance is not switched off"


def test_console_of_the_next_tenants_machine_is_not_shown(rig: Rig) -> None:
    server = rig.running()
    theirs = "77777777-0000-4000-8000-000000000000"
    rig.ironic.asides = [(f"GET {AT}/states/console", lambda: rig.node.update(instance_uuid=theirs))]
    with pytest.raises(ConflictError, match="another instance"):
        rig.facts.console(PROJECT, server, serial=True, fence=unfenced)
    assert rig.node["console_enabled"] is False


def test_console_switched_on_during_a_handover_is_switched_off(rig: Rig) -> None:
    """Its URL may be the one that the first tenant knows."""
    server = rig.running()
    theirs = "77777777-0000-4000-8000-000000000000"
    rig.ironic.asides = [(f"PUT {AT}/states/console", lambda: rig.node.update(instance_uuid=theirs))]
    with pytest.raises(ConflictError, match="another instance"):
        rig.facts.console(PROJECT, server, serial=True, fence=unfenced)
    assert rig.node["console_enabled"] is False
