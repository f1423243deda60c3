"""The driver of machines against a real Ironic, whose history and states it relies on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.drivers.openstack.real_ironic import RealIronic, real_ironic
from tests.drivers.openstack.tinycloud import PROJECT, tiny_cloud
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.model.errors import NotYetError, TemporaryError, WeftError
from weft.model.owner import Owner
from weft.model.resources import MachineSpec, Observed, Resource, Status
from weft.ports.resources import Scope

pytestmark = pytest.mark.cloud
SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)


@dataclass(frozen=True)
class Rig:
    ironic: RealIronic
    driver: OpenStackDriver
    facts: OpenStackFacts
    machine: Resource

    def take(self) -> str:
        outcome = self.driver.create(SCOPE, [self.machine], {})[self.machine.key]
        assert outcome.id is not None, outcome.error
        return outcome.id

    def see(self, taken: str) -> Observed:
        return self.driver.find(SCOPE, [self.machine], {self.machine.key: taken})[self.machine.key]

    def give_back(self, taken: str) -> WeftError | None:
        return self.driver.delete(SCOPE, [self.machine], {self.machine.key: taken})[self.machine.key].error


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("ironic")
    with real_ironic(folder) as ironic, tiny_cloud() as (_, text):
        file = folder / "clouds.yaml"
        own = [line for line in text.splitlines() if "baremetal_endpoint" not in line]
        file.write_text("\n".join([*own, f"    baremetal_endpoint_override: {ironic.url}"]) + "\n")
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions, machines=True)
        spec = MachineSpec(machine=ironic.node)
        machine = Resource(key="machine/bm01", name="weft-00000000-machine-bm01", where="lab", spec=spec)
        yield Rig(ironic, driver, OpenStackFacts(sessions, machines=[ironic.node]), machine)
        driver.close()
        sessions.close()


def test_from_taking_it_to_the_record_of_its_cleaning(rig: Rig) -> None:
    taken = rig.take()
    assert rig.take() == taken
    assert rig.see(taken).status is Status.SETTLED
    rig.ironic.deploy()
    assert {f.name for f in rig.ironic.disk.iterdir()} == {"image", "config-drive"}
    seen = rig.see(taken)
    assert (seen.status, seen.differences, seen.facts["provision_state"]) == (Status.SETTLED, (), "active")
    assert isinstance(rig.give_back(taken), NotYetError)
    rig.ironic.provision("deleted", "available")
    assert list(rig.ironic.disk.iterdir()) == []
    assert rig.give_back(taken) is None
    proof = rig.see(taken)
    assert proof.status is Status.ABSENT
    assert "deploy.erase_devices, deploy.verify_erased; disks erased" in proof.reason


def test_a_cleaning_that_fails_keeps_the_machine_until_one_has_ended_well(rig: Rig) -> None:
    taken = rig.take()
    rig.ironic.deploy()
    (rig.ironic.disk / "broken").touch()
    rig.ironic.provision("deleted", "clean failed")
    seen = rig.see(taken)
    assert seen.status is Status.BROKEN and "the disk can't be written" in seen.reason
    error = rig.give_back(taken)
    assert isinstance(error, TemporaryError) and not isinstance(error, NotYetError)
    assert rig.facts.hosts()[rig.ironic.node] != "up"
    (rig.ironic.disk / "broken").unlink()
    rig.ironic.provision("manage", "manageable")
    rig.ironic.ask("DELETE", f"nodes/{rig.ironic.node}/maintenance")
    assert rig.give_back(taken) is not None
    rig.ironic.provision("provide", "available")
    assert rig.give_back(taken) is None
    assert rig.see(taken).status is Status.ABSENT


def test_a_skipped_cleaning_is_none(rig: Rig) -> None:
    taken = rig.take()
    rig.ironic.ask(
        "PATCH",
        f"nodes/{rig.ironic.node}",
        [{"op": "replace", "path": "/automated_clean", "value": False}],
    )
    rig.ironic.deploy()
    rig.ironic.provision("deleted", "available")
    error = rig.give_back(taken)
    assert isinstance(error, TemporaryError) and "not cleaned since" in str(error)
    assert rig.see(taken).there
    rig.ironic.ask(
        "PATCH", f"nodes/{rig.ironic.node}", [{"op": "replace", "path": "/automated_clean", "value": True}]
    )
    rig.ironic.provision("manage", "manageable")
    rig.ironic.provision("provide", "available")
    assert rig.give_back(taken) is None


def test_a_machine_that_ironic_does_not_know_is_said_by_name(rig: Rig) -> None:
    """Ironic's 404 names the node."""
    spec = MachineSpec(machine="00000000-0000-4000-8000-000000000000")
    stranger = rig.machine.model_copy(update={"spec": spec})
    error = rig.driver.create(SCOPE, [stranger], {})[stranger.key].error
    assert error is not None and "not in Ironic" in str(error)
