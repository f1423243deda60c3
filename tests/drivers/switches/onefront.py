"""One leaf behind a simulated vendor's interface, with weft's session to it. Without Open vSwitch: no frames."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from weft.drivers.switches import EthernetFabric, open_fabric, turn
from weft.drivers.switches.switch import SwitchSession
from weft.drivers.switches.vlans import KEEP, PARK, Batch, PortEdit
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricKind, Mode
from weft.model.resources import Resource
from weft.model.specs import SegmentSpec
from weft.ports.ledger import NoLedger
from weftlab.site import FABRIC
from weftlab.switches import leaf_spine
from weftlab.switches.front import Front
from weftlab.switches.fronts import Fronts
from weftlab.switches.plan import Speaks
from weftlab.switches.site import ethernet_site

VLAN, OTHER = 0x101, 0x102
CONFIRM = 0.6
MAKES = {"eos": "commit", "nvue": '"apply"', "sonic": "^PATCH"}
"""The request that makes a change."""
SAVES = {"eos": "copy running-config", "nvue": '"save"', "sonic": "sonic-config-mgmt:copy"}


class One:
    """One leaf of a kind of interface, with three hosts."""

    def __init__(self, folder: Path, speaks: Speaks) -> None:
        plan = leaf_spine(speaks, leaves=1, spines=1, hosts_each=3)
        self.fronts = Fronts(folder, plan, None)
        self.site = ethernet_site(plan, self.fronts.urls, self.fronts.ca, self.fronts.credentials)
        self._drivers: list[EthernetFabric] = []
        self.fabric = self.another()
        self.front: Front = self.fronts.by_name["leaf1"]
        self.session = session_of(self.fabric)
        self.ports = [plan.by_name["leaf1"].port(n) for n in (1, 2, 3)]

    def another(self) -> EthernetFabric:
        """The driver of another process of this host."""
        driver = open_fabric(self.site, FABRIC, NoLedger(), confirm=CONFIRM)
        self._drivers.append(driver)
        return driver

    def put(self, port: int, number: int) -> None:
        batch = Batch({number: "weft-name"}, frozenset(), {self.ports[port]: PortEdit(number)})
        self.session.change(lambda state: batch)

    def untagged(self, port: int) -> int | None:
        return self.session.read().ports[self.ports[port]].untagged

    def waiting(self) -> int:
        """Changes of the leaf that wait for another one of the same process."""
        lines = self.fabric._sessions.lines  # pyright: ignore[reportPrivateUsage]
        return lines["leaf1"].waiting

    def close(self) -> None:
        for driver in self._drivers:
            driver.close()
        self.fronts.close()


@contextmanager
def one_of(folder: Path, speaks: Speaks) -> Iterator[One]:
    one = One(folder, speaks)
    try:
        yield one
    finally:
        one.close()


def session_of(fabric: EthernetFabric) -> SwitchSession:
    session = fabric.session("leaf1")
    assert isinstance(session, SwitchSession)
    return session


def dying(one: One, monkeypatch: pytest.MonkeyPatch) -> SwitchSession:
    """Another process's session, which is killed right after it sent its change to the switch."""
    session = session_of(one.another())
    real = session._send  # pyright: ignore[reportPrivateUsage]

    def killed(*given: object) -> float:
        real(*given)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "_send", killed)
    monkeypatch.setattr(turn.Turn, "ends", lambda _: None)
    return session


def ordered(
    one: One, *ports: int, mode: Mode = Mode.ACCESS, number: int = VLAN
) -> tuple[SegmentSpec, Resource]:
    """A pod's segment with these ports of the leaf: its spec and resource."""
    members = tuple(Membership(port=f"leaf1/{one.ports[p]}", mode=mode) for p in ports)
    spec = SegmentSpec(number=number, fabric_type=FabricKind.ETHERNET, members=members)
    return spec, Resource(key="partition", name="weft-x", where=FABRIC, spec=spec)


def results(fabric: EthernetFabric, spec: SegmentSpec) -> set[str]:
    """The results of a receipt's items."""
    return {item.result for item in fabric.clean(spec, fabric.snapshot()).items}


def change_every_way(one: One) -> None:
    """Put ports in a VLAN, make one a trunk, park them, make and delete VLANs; each change is read back."""
    first, second = one.ports[0], one.ports[1]
    batches = (
        Batch({VLAN: "", OTHER: ""}, frozenset(), {first: PortEdit(VLAN), second: PortEdit(OTHER)}),
        Batch({}, frozenset(), {second: PortEdit(PARK, frozenset({VLAN, OTHER}), trunk=True)}),
        Batch({}, frozenset({OTHER}), {second: PortEdit(KEEP, remove=frozenset({VLAN, OTHER}), trunk=True)}),
        Batch({}, frozenset({VLAN}), {first: PortEdit(PARK)}),
    )
    for batch in batches:
        assert batch.done(one.session.change(lambda state, batch=batch: batch))
