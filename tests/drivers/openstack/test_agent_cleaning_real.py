"""Cleanings by Ironic's agent on a real Ironic: what its history has, and what weft saw of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.drivers.openstack.agentstand import Agent, Stand, agent_stand
from tests.drivers.openstack.fakehardware import clouds_file, enrolled, hardware
from tests.drivers.openstack.real_ironic import PATIENCE, RealIronic, real_ironic
from tests.drivers.openstack.tinycloud import PROJECT, tiny_cloud
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.drivers.openstack.cleaning import MEMBERS, UNSEEN
from weft.drivers.openstack.enrollment import Enrollment
from weft.drivers.openstack.metalfacts import POWER
from weft.drivers.openstack.raid import array_differences, target_of
from weft.model.enrollment import LogicalDisk
from weft.model.owner import Owner
from weft.model.resources import Resource, Status
from weft.model.specs import MachineSpec
from weft.planning.watching import follow
from weft.ports.cleanings import NoCleanings, WatchedCleaning
from weft.ports.resources import Scope
from weft.ports.servers import Action

pytestmark = pytest.mark.cloud
SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)
CONFIG = {
    **hardware("direct", raid="agent"),
    "deploy": {"delete_configuration_priority": 90, "create_configuration_priority": 3},
    "agent": {"require_tls": False},
    "service_catalog": {"auth_type": "none", "endpoint_override": "http://127.0.0.1"},
}
ERASE = {"step": "erase_devices", "priority": 10, "interface": "deploy", "abortable": True}
VERIFY = {"step": "verify_erased", "priority": 5, "interface": "deploy", "abortable": True}
DELETE = {"step": "delete_configuration", "priority": 0, "interface": "raid", "abortable": True}
WIPE = {"step": "erase_devices_metadata", "priority": 0, "interface": "deploy", "abortable": True}
CREATE = {"step": "create_configuration", "priority": 0, "interface": "raid", "abortable": True}
BURN = {"step": "burnin_memory", "priority": 5, "interface": "deploy", "abortable": True}


class Watching(NoCleanings):
    """weft's looks, five seconds apart on a clock of their own, so that this machine's speed doesn't matter."""

    def __init__(self) -> None:
        self.known: WatchedCleaning | None = None
        self._at = datetime(2026, 11, 22, 21, tzinfo=UTC)

    def watched(self, machine: str) -> WatchedCleaning | None:
        return self.known

    def look(self, facts: OpenStackFacts, node: str) -> None:
        self._at += timedelta(seconds=5)
        self.known = follow(self.known, facts.seen_machines()[node], self._at, self._at)


@dataclass(frozen=True)
class Rig:
    ironic: RealIronic
    stand: Stand
    facts: OpenStackFacts
    enrollment: Enrollment
    watching: Watching
    driver: OpenStackDriver
    blind: OpenStackDriver
    """A driver that has watched no cleaning."""
    machine: Resource

    def look(self) -> None:
        self.watching.look(self.facts, self.ironic.node)

    def provide(self) -> None:
        self.ironic.ask("PUT", f"nodes/{self.ironic.node}/states/provision", {"target": "provide"})

    def until(self, agent: Agent, over: Callable[[], bool], looking: bool = True) -> None:
        """Send heartbeats, and look between them, until this happened."""
        end = time.monotonic() + PATIENCE
        while not over():
            assert time.monotonic() < end, self.ironic.ask("GET", f"nodes/{self.ironic.node}")
            agent.heartbeat()
            if looking:
                self.look()
            time.sleep(0.2)

    def is_in(self, *states: str) -> bool:
        node = self.ironic.ask("GET", f"nodes/{self.ironic.node}")
        return node["provision_state"] in states and not node["reservation"]

    def boots(self, *steps: dict[str, Any]) -> Agent:
        """Boot an agent once the machine waits for it and weft saw that."""
        self.ironic.await_state("clean wait")
        self.look()
        return self.stand.boot(*steps)

    def again(self) -> None:
        """Have it cleaned once more, as after an operator's repair."""
        self.ironic.provision("manage", "manageable")
        self.ironic.ask("DELETE", f"nodes/{self.ironic.node}/maintenance")
        self.provide()

    def clean(self, *steps: dict[str, Any], then: str = "available", made: object = None) -> None:
        """Clean it to the end, step by step.

        Args:
            then: provision state at the end.
            made: arrays that the agent reports.
        """
        agent = self.boots(*steps)
        for step in steps:
            self.until(agent, lambda step=step: agent.runs == step["step"] and self.is_in("clean wait"))
            self.look()
            agent.finish(result=made if step is CREATE else None)
        self.until(agent, lambda: self.is_in(then))
        self.look()

    def events(self) -> list[str]:
        events = self.ironic.ask("GET", f"nodes/{self.ironic.node}/history?detail=true")["history"]
        return [str(event["event_type"]) for event in events]

    def refusal(self, driver: OpenStackDriver) -> str:
        """The error with which the machine isn't claimed."""
        outcome = driver.create(SCOPE, [self.machine], {})[self.machine.key]
        assert outcome.error is not None, outcome.id
        return str(outcome.error)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("ironic")
    with real_ironic(folder, CONFIG) as ironic, tiny_cloud() as (_, text):
        file = clouds_file(folder, text, ironic)
        watching = Watching()
        seeing, unseeing = Sessions("weft", [file], cleanings=watching), Sessions("weft", [file])
        driver = OpenStackDriver("lab", seeing, machines=True)
        blind = OpenStackDriver("lab", unseeing, machines=True)
        spec = MachineSpec(machine=ironic.node)
        machine = Resource(key="machine/bm01", name="weft-00000000-machine-bm01", where="lab", spec=spec)
        facts = OpenStackFacts(seeing, machines=[ironic.node], site="lab")
        with agent_stand(ironic.url, ironic.node) as stand:
            enrolled(ironic)
            yield Rig(ironic, stand, facts, Enrollment(seeing), watching, driver, blind, machine)
        for each in (driver, blind, seeing, unseeing):
            each.close()


def test_machine_cleaned_by_the_agent_is_claimed_and_freed(rig: Rig) -> None:
    """Ironic's history has only the end of the cleaning."""
    rig.provide()
    rig.clean(ERASE, VERIFY)
    assert rig.events() == ["automated_cleaning_end"]
    assert UNSEEN in rig.refusal(rig.blind)
    outcome = rig.driver.create(SCOPE, [rig.machine], {})[rig.machine.key]
    assert outcome.id is not None, outcome.error
    ids = {rig.machine.key: outcome.id}
    assert rig.driver.delete(SCOPE, [rig.machine], ids)[rig.machine.key].error is None
    seen = rig.driver.find(SCOPE, [rig.machine], ids)[rig.machine.key]
    assert f": deploy.erase_devices, deploy.verify_erased; disks erased; {MEMBERS}; steps seen" in seen.reason


def test_late_reset_does_not_disturb_a_cleaning(rig: Rig) -> None:
    """Its answer was lost: Ironic refuses it during the cleaning, and later it resets a machine that is clean."""
    ids = {rig.machine.key: rig.driver.create(SCOPE, [rig.machine], {})[rig.machine.key].id or ""}
    power = f"nodes/{rig.ironic.node}/states/power"
    rig.again()
    agent = rig.boots(ERASE)
    rig.until(agent, lambda: agent.runs == "erase_devices" and rig.is_in("clean wait"))
    for target in POWER.values():
        with pytest.raises(AssertionError, match=r": 400 .*clean wait"):
            rig.ironic.ask("PUT", power, {"target": target})
    assert agent.runs == "erase_devices" and rig.is_in("clean wait")
    agent.finish()
    rig.until(agent, lambda: rig.is_in("available"))
    rig.look()
    rig.ironic.ask("PUT", power, {"target": POWER[Action.RESET]})
    rig.ironic.await_state("available")
    assert rig.driver.delete(SCOPE, [rig.machine], ids)[rig.machine.key].error is None
    seen = rig.driver.find(SCOPE, [rig.machine], ids)[rig.machine.key]
    assert seen.status is Status.ABSENT and "deploy.erase_devices; disks erased" in seen.reason


def test_failed_step_does_not_count_for_the_next_cleaning(rig: Rig) -> None:
    """The next cleaning is without the step and succeeds."""
    rig.again()
    agent = rig.boots(ERASE)
    rig.until(agent, lambda: agent.runs == "erase_devices" and rig.is_in("clean wait"))
    rig.look()
    assert rig.watching.known is not None and rig.watching.known.plan == ("deploy.erase_devices",)
    agent.finish("disk sda")
    rig.until(agent, lambda: rig.is_in("clean failed"), looking=False)
    assert rig.events()[-1] == "cleaning", "the history has an error and no end"
    rig.again()
    rig.clean(BURN)
    assert "no step that erases disks (steps: deploy.burnin_memory)" in rig.refusal(rig.driver)
    assert UNSEEN in rig.refusal(rig.blind)


def test_steps_of_an_aborted_cleaning_do_not_count_for_the_next_one(rig: Rig) -> None:
    """It leaves no event, and weft didn't look between its steps and the next agent, which has no steps."""
    rig.again()
    agent = rig.boots(ERASE)
    rig.until(agent, lambda: agent.runs == "erase_devices" and rig.is_in("clean wait"))
    rig.look()
    before = rig.events()
    rig.ironic.provision("abort", "clean failed")
    assert rig.events() == before
    rig.again()
    rig.clean()
    said = rig.refusal(rig.driver)
    assert UNSEEN in said or "no step that erases disks (steps: none)" in said
    rig.again()
    rig.clean(ERASE)
    outcome = rig.driver.create(SCOPE, [rig.machine], {})[rig.machine.key]
    assert outcome.id is not None, outcome.error


@pytest.mark.nightly(reason="by day on a fake Ironic; cleaning by the real one has other steps")
def test_arrays_are_created_manually_and_by_each_cleaning(rig: Rig) -> None:
    """As by `weft site enroll`, and in a cloud that deletes them first. A machine with other arrays is neither
    claimed nor freed.
    """
    rig.ironic.ask("PATCH", f"nodes/{rig.ironic.node}", [{"op": "add", "path": "/extra", "value": {}}])
    if not rig.is_in("manageable"):
        rig.ironic.provision("manage", "manageable")
    target = target_of((LogicalDisk(level="1", size_gib=200), LogicalDisk(level="0")))
    rig.enrollment.set_target_raid(rig.ironic.node, target)
    rig.enrollment.move(rig.ironic.node, "clean")
    rig.clean(DELETE, WIPE, CREATE, then="manageable", made=target)
    node = rig.enrollment.node(rig.ironic.node)
    assert node is not None and array_differences(target, node) == ()
    assert node["properties"]["capabilities"] == "raid_level:1"
    rig.provide()
    rig.clean(DELETE, ERASE, CREATE, made={"logical_disks": target["logical_disks"][:1]})
    assert "it has 1 arrays, and should have 2" in rig.refusal(rig.driver)
    rig.again()
    rig.clean(DELETE, ERASE, CREATE, made=target)
    outcome = rig.driver.create(SCOPE, [rig.machine], {})[rig.machine.key]
    assert outcome.id is not None, outcome.error
    ids = {rig.machine.key: outcome.id}
    assert rig.driver.delete(SCOPE, [rig.machine], ids)[rig.machine.key].error is None
    proof = rig.driver.find(SCOPE, [rig.machine], ids)[rig.machine.key].reason
    steps = "raid.delete_configuration, deploy.erase_devices, raid.create_configuration"
    assert f": {steps}; disks erased; steps seen by weft from" in proof
