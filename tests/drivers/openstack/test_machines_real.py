"""The driver of machines against a real Ironic, on whose history and states it relies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.drivers.openstack.real_ironic import PATIENCE, RealIronic, list_of, real_ironic
from tests.drivers.openstack.tinycloud import PROJECT, tiny_cloud
from weft.app.enroll import Enroller, read_input
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.drivers.openstack.cleaning import Demands
from weft.drivers.openstack.enrollment import Enrollment
from weft.model.enrollment import Inspected
from weft.model.errors import NotYetError, TemporaryError, WeftError
from weft.model.owner import Owner
from weft.model.resources import Observed, Resource, Status
from weft.model.specs import MachineSpec
from weft.ports.resources import Scope
from weftlab.site import make_site, settings

pytestmark = pytest.mark.cloud
SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)


@dataclass(frozen=True)
class Rig:
    ironic: RealIronic
    driver: OpenStackDriver
    facts: OpenStackFacts
    machine: Resource
    enrollment: Enrollment
    stricter: OpenStackDriver
    """A driver with a site that demands another version of the BIOS."""
    jealous: OpenStackDriver
    """A driver with a site that demands the firmware of the enrolment."""

    def enroll(self, again: bool = False, dry: bool = False) -> Inspected:
        given = read_input(self.ironic.layout.site_path, list_of(self.ironic))
        (seen,) = Enroller(given, self.enrollment, again, dry, lambda line: None).run(PATIENCE).machines
        return seen

    def claim(self) -> str:
        outcome = self.driver.create(SCOPE, [self.machine], {})[self.machine.key]
        assert outcome.id is not None, outcome.error
        return outcome.id

    def see(self, claimed: str) -> Observed:
        return self.driver.find(SCOPE, [self.machine], {self.machine.key: claimed})[self.machine.key]

    def free(self, claimed: str) -> WeftError | None:
        return self.driver.delete(SCOPE, [self.machine], {self.machine.key: claimed})[self.machine.key].error


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("ironic")
    with real_ironic(folder) as ironic, tiny_cloud() as (_, text):
        file = folder / "clouds.yaml"
        own = [line for line in text.splitlines() if "baremetal_endpoint" not in line]
        file.write_text("\n".join([*own, f"    baremetal_endpoint_override: {ironic.url}"]) + "\n")
        demands = Demands.of(make_site(settings(metal=1), ironic.layout).clouds["lab"])
        sessions = Sessions("weft", [file], cleaning=demands)
        driver = OpenStackDriver("lab", sessions, machines=True)
        spec = MachineSpec(machine=ironic.node)
        machine = Resource(key="machine/bm01", name="weft-00000000-machine-bm01", where="lab", spec=spec)
        facts = OpenStackFacts(sessions, machines=[ironic.node], site="lab")
        other = Sessions("weft", [file], cleaning=Demands(firmware={"bios": frozenset({"2.15.0"})}))
        stricter = OpenStackDriver("lab", other, machines=True)
        same = Sessions("weft", [file], cleaning=Demands(unchanged=True))
        jealous = OpenStackDriver("lab", same, machines=True)
        yield Rig(ironic, driver, facts, machine, Enrollment(sessions), stricter, jealous)
        for each in (driver, stricter, jealous, sessions, other, same):
            each.close()


@pytest.fixture(scope="module")
def enrolled(rig: Rig) -> None:
    """Enroll its machine, so that pods can have it, whichever tests ran before."""
    assert rig.enroll().state == "available"


def test_machine_unlike_the_site_is_not_fully_enrolled(rig: Rig) -> None:
    """From a wrong GUID, corrected in the site, to an available machine; repeating it changes nothing."""
    assert rig.enroll(dry=True).differences == ("Ironic doesn't have it",)
    found = rig.ironic.layout.data / "inspections" / f"{rig.ironic.node}.json"
    right = found.read_text()
    found.write_text(
        right.replace("0002c903005", "0002c90300f").replace("00:02:c9:03:00:50", "00:02:c9:03:00:f0")
    )
    seen = rig.enroll()
    assert seen.state == "manageable" and "has port GUID 0x0002c90300f0" in " ".join(seen.differences)
    made = ("enrolled", "port 02:00:00:00:b0:01", "port 00:02:c9:50:00:01", "manage", "inspect")
    assert seen.made == made
    found.write_text(right)
    assert rig.enroll().state == "manageable", "it was not read again yet"
    seen = rig.enroll(again=True)
    assert (seen.state, seen.made, seen.differences) == ("available", ("inspect", "provide"), ())
    before = rig.ironic.ask("GET", f"nodes/{rig.ironic.node}")
    assert rig.enroll(again=True).made == ()
    assert rig.ironic.ask("GET", f"nodes/{rig.ironic.node}") == before
    assert before["driver_info"]["redfish_password"] == "******"
    ports = rig.ironic.ask("GET", "ports?detail=true")["ports"]
    ids = {p["address"]: p["extra"].get("client-id") for p in ports}
    assert ids["00:02:c9:50:00:01"] == "ff:00:00:00:00:00:02:00:00:02:c9:00:00:02:c9:03:00:50:00:01"


@pytest.mark.usefixtures("enrolled")
def test_machine_is_claimed_used_cleaned_and_recorded(rig: Rig) -> None:
    claimed = rig.claim()
    assert rig.claim() == claimed
    assert rig.see(claimed).status is Status.SETTLED
    rig.ironic.deploy()
    assert {f.name for f in rig.ironic.disk.iterdir()} == {"image", "config-drive"}
    seen = rig.see(claimed)
    assert (seen.status, seen.differences, seen.facts["provision_state"]) == (Status.SETTLED, (), "active")
    assert isinstance(rig.free(claimed), NotYetError)
    rig.ironic.provision("deleted", "available")
    assert list(rig.ironic.disk.iterdir()) == []
    assert rig.free(claimed) is None
    proof = rig.see(claimed)
    assert proof.status is Status.ABSENT
    assert "deploy.erase_devices, deploy.verify_erased; disks erased" in proof.reason


@pytest.mark.usefixtures("enrolled")
@pytest.mark.nightly(reason="a minute each; by day on a fake Ironic")
def test_failed_cleaning_keeps_the_machine_until_one_succeeds(rig: Rig) -> None:
    claimed = rig.claim()
    rig.ironic.deploy()
    (rig.ironic.disk / "broken").touch()
    rig.ironic.provision("deleted", "clean failed")
    seen = rig.see(claimed)
    assert seen.status is Status.BROKEN and "the disk can't be written" in seen.reason
    error = rig.free(claimed)
    assert isinstance(error, TemporaryError) and not isinstance(error, NotYetError)
    assert rig.facts.hosts()[rig.ironic.node] != "up"
    (rig.ironic.disk / "broken").unlink()
    rig.ironic.provision("manage", "manageable")
    rig.ironic.ask("DELETE", f"nodes/{rig.ironic.node}/maintenance")
    assert rig.free(claimed) is not None
    rig.ironic.provision("provide", "available")
    assert rig.free(claimed) is None
    assert rig.see(claimed).status is Status.ABSENT


@pytest.mark.usefixtures("enrolled")
@pytest.mark.nightly(reason="a minute each; by day on a fake Ironic")
def test_changed_bios_keeps_the_machine_until_it_is_restored(rig: Rig) -> None:
    """Ironic reads it from the BMC at the end of the cleaning, which changes no setting."""
    claimed = rig.claim()
    rig.ironic.deploy()
    rig.ironic.set_bios(SecureBootStatus="Disabled")
    rig.ironic.provision("deleted", "available")
    error = rig.free(claimed)
    assert isinstance(error, TemporaryError) and not isinstance(error, NotYetError) and error.alarming
    assert "BIOS setting SecureBootStatus is Disabled; the site has Enabled" in str(error)
    assert rig.see(claimed).there
    rig.ironic.set_bios(SecureBootStatus="Enabled")
    assert rig.free(claimed) is not None, "it was not read again yet"
    rig.ironic.provision("manage", "manageable")
    rig.ironic.provision("provide", "available")
    refused = rig.stricter.delete(SCOPE, [rig.machine], {rig.machine.key: claimed})[rig.machine.key].error
    assert "firmware of bios is 2.14.1; the site allows 2.15.0" in str(refused)
    assert rig.free(claimed) is None
    proof = rig.see(claimed).reason
    assert "firmware of bios and 3 BIOS settings as the site lists them" in proof


@pytest.mark.usefixtures("enrolled")
@pytest.mark.nightly(reason="a minute each; by day on a fake Ironic")
def test_skipped_cleaning_does_not_count_and_flashed_firmware_is_found(rig: Rig) -> None:
    """Ironic reads versions from the BMC at the end of each cleaning, and keeps those of the enrolment."""
    claimed = rig.claim()
    rig.ironic.ask(
        "PATCH",
        f"nodes/{rig.ironic.node}",
        [{"op": "replace", "path": "/automated_clean", "value": False}],
    )
    rig.ironic.deploy()
    rig.ironic.provision("deleted", "available")
    error = rig.free(claimed)
    assert isinstance(error, TemporaryError) and "not cleaned since" in str(error)
    assert rig.see(claimed).there
    rig.ironic.ask(
        "PATCH", f"nodes/{rig.ironic.node}", [{"op": "replace", "path": "/automated_clean", "value": True}]
    )
    rig.ironic.flash()
    rig.ironic.provision("manage", "manageable")
    rig.ironic.provision("provide", "available")
    assert "firmware of bios is 2.15.1; the site allows 2.14.1" in str(rig.free(claimed))
    refused = rig.jealous.delete(SCOPE, [rig.machine], {rig.machine.key: claimed})[rig.machine.key].error
    assert "firmware of bios is 2.15.1; it was 2.14.1 at the enrolment" in str(refused)
    assert rig.see(claimed).there


def test_machine_unknown_to_ironic_is_named(rig: Rig) -> None:
    """Ironic's 404 names the node."""
    spec = MachineSpec(machine="00000000-0000-4000-8000-000000000000")
    stranger = rig.machine.model_copy(update={"spec": spec})
    error = rig.driver.create(SCOPE, [stranger], {})[stranger.key].error
    assert error is not None and "not in Ironic" in str(error)
