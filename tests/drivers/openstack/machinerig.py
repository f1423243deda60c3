"""A fake Ironic API with one machine, which is claimed and freed; Nova or another user deploys it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, tiny_cloud
from tests.drivers.openstack.tinyironic import NODE, TinyIronic, deployed
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.drivers.openstack.cleaning import Demands
from weft.model.errors import WeftError
from weft.model.owner import Owner
from weft.model.resources import Observed, Resource
from weft.model.specs import MachineSpec
from weft.ports.cleanings import Cleanings, LastClaim, NoCleanings
from weft.ports.resources import Scope

SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)
OTHER = replace(SCOPE, owner=Owner.pod("99999999-1111-2222-3333-444444444444"))
MACHINE = Resource(
    key="machine/bm01", name="weft-00000000-machine-bm01", where="lab", spec=MachineSpec(machine=NODE)
)


@dataclass(frozen=True)
class Rig:
    ironic: TinyIronic
    driver: OpenStackDriver
    facts: OpenStackFacts

    @property
    def node(self) -> dict[str, object]:
        return self.ironic.nodes[NODE]

    def claim(self, scope: Scope = SCOPE) -> str:
        outcome = self.driver.create(scope, [MACHINE], {})[MACHINE.key]
        if outcome.error is not None:
            raise outcome.error
        assert outcome.id is not None
        return outcome.id

    def see(self, claimed: str, scope: Scope = SCOPE) -> Observed:
        return self.driver.find(scope, [MACHINE], {MACHINE.key: claimed} if claimed else {})[MACHINE.key]

    def free(self, claimed: str, scope: Scope = SCOPE) -> WeftError | None:
        return self.driver.delete(scope, [MACHINE], {MACHINE.key: claimed})[MACHINE.key].error

    def see_mark(self) -> bool:
        return bool(self.node["extra"])

    def use(self) -> None:
        """Nova deploys a server on it."""
        at = "2026-11-22T20:00:01+00:00"
        self.node.update(
            provision_state="active", instance_uuid="srv-1", power_state="power on", provision_updated_at=at
        )
        self.ironic.history[NODE] += deployed()

    def empty(self, state: str = "available") -> None:
        """Nova deletes the server."""
        self.node.update(provision_state=state, instance_uuid=None)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tiny_cloud(TinyIronic) as (cloud, text):
        assert isinstance(cloud, TinyIronic)
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions, machines=True)
        yield Rig(cloud, driver, OpenStackFacts(sessions, machines=[NODE], site="lab"))
        driver.close()
        sessions.close()


@pytest.fixture
def rig(house: Rig) -> Rig:
    house.ironic.reset()
    return house


class Remembered(NoCleanings):
    """The cleaning by which the machine was claimed, as in weft's database (`weft.engine.nodes.cleanings`)."""

    def __init__(self) -> None:
        self.last: LastClaim | None = None

    def taken(self, machine: str) -> LastClaim | None:
        return self.last

    def take(self, machine: str, ended: datetime) -> None:
        if self.last is None or self.last.ended < ended:
            self.last = LastClaim(ended, False)

    def use(self) -> None:
        """A look showed it in use."""
        assert self.last is not None
        self.last = LastClaim(self.last.ended, True)


@contextmanager
def strictly(rig: Rig, folder: Path, demands: Demands, cleanings: Cleanings | None = None) -> Generator[Rig]:
    """The same Ironic, with a site that has demands."""
    with tiny_cloud(TinyIronic) as (ironic, text):
        assert isinstance(ironic, TinyIronic)
        ironic.nodes, ironic.history = rig.ironic.nodes, rig.ironic.history
        (folder / "clouds.yaml").write_text(text)
        sessions = Sessions("weft", [folder / "clouds.yaml"], cleaning=demands, cleanings=cleanings)
        driver = OpenStackDriver("lab", sessions, machines=True)
        yield Rig(ironic, driver, OpenStackFacts(sessions, machines=[NODE], site="lab"))
        driver.close()
        sessions.close()
