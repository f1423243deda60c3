"""Links of pods on Ethernet: possible paths by the cabling, what switches' counters say, and no accusation."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.fabric.test_ethernet_life import EthernetHouse
from tests.engine.fabric.test_open_trunks import linked
from tests.engine.house import policy
from tests.engine.timehouse import make
from weft.app.redact import redacted
from weft.app.tenanttext import HIDDEN
from weft.drivers.switches.counters import TimedAnswer
from weft.drivers.switches.possible import LATELY, SwitchRates
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.model.errors import InputError
from weft.model.pod import PodState
from weft.model.portcounters import PortCounters
from weft.model.views import DrainRequest
from weft.testing.ethernet import FakeEthernet

GB = 10**9


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[EthernetHouse]:
    house = EthernetHouse(database, database_url)
    house.site = linked(house.site)
    house.fake = FakeEthernet(house.site, "ib0", linked=True)
    house.world = replace(
        house.world, resources={**house.world.resources, "ib0": house.fake}, fabrics={"ib0": house.fake}
    )
    house.store.activate_site(house.site, "test")
    yield house
    house.close()


class Counters:
    """Counters of all ports. Each reading adds `growth` to them and takes a second."""

    def __init__(self, house: EthernetHouse, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ends = {n: house.fake.cabling.ports(n) for n in house.fake.cabling.switches}
        self.growth: dict[tuple[str, str], dict[str, int]] = {}
        self.silent: set[str] = set()
        self.readings, self.now = 0, 0.0
        rates = SwitchRates(self.read, lambda: self.now, self.go_on)
        monkeypatch.setattr(house.fake, "_rates", rates)

    def go_on(self, seconds: float) -> None:
        self.now += seconds

    def read(self) -> dict[str, TimedAnswer]:
        self.readings += 1
        zero = {"transmit_bytes": 0, "receive_bytes": 0, "pfc_receive": 0, "pfc_transmit": 0, "ecn_marked": 0}
        return {
            switch: (
                self.now,
                "it doesn't answer"
                if switch in self.silent
                else [
                    PortCounters(
                        port,
                        **{n: self.readings * self.growth.get((switch, port), {}).get(n, 0) for n in zero},
                    )
                    for port in ports
                ],
            )
            for switch, ports in self.ends.items()
        }


@pytest.fixture
def counters(house: EthernetHouse, monkeypatch: pytest.MonkeyPatch) -> Counters:
    return Counters(house, monkeypatch)


@pytest.fixture
def pods(house: EthernetHouse) -> tuple[PodRecord, PodRecord]:
    """Two pods on the same two leaves."""

    def on(name: str, nodes: set[str]) -> PodRecord:
        others = {n.name for n in house.site.nodes if n.role == "compute"} - nodes
        for node in sorted(others):
            house.service.nodes.drain(house.operator, DrainRequest(target=node))
        pod = house.run(house.order(make(name, len(nodes))), PodState.READY)
        for node in sorted(others):
            house.service.nodes.undrain(house.operator, node)
        return pod

    return on("victim", {"gpu01", "gpu05"}), on("noisy", {"gpu02", "gpu06"})


def test_links_of_ethernet_pods_are_possible_links_without_a_cause(
    house: EthernetHouse, pods: tuple[PodRecord, PodRecord], counters: Counters
) -> None:
    """Both pods may use every uplink of both leaves. What a pod's adapters send is known, and by which uplink isn't."""
    victim, _ = pods
    own = house.site.node_by_name["gpu02"].hcas_on("ib0")[0]
    switch, _, port = own.port_id.partition("/")
    counters.growth[switch, port] = {"receive_bytes": 4 * GB, "pfc_transmit": 6}
    found = house.service.fabrics.pod_links(house.operator, str(victim.id))
    uplinks = {(k.a, k.b) for k in (house.site.fabrics["ib0"].manager.switching or pytest.fail("none")).links}
    mine = {end for pair in uplinks for end in pair if end.partition("/")[0] in ("leaf01", "leaf02")}
    sending = {
        f"{k.sender}/{k.sender_port_name}"
        for k in found.links
        if k.sender_level == "leaf" and k.receiver_level == "other"
    }
    assert (
        sending == mine
        and not found.exact
        and found.equal_paths
        and found.lost == found.unseen == 0
        and found.shared_with == 1
    )
    answer = house.service.fabrics.who_disturbs(house.operator, str(victim.id))
    (other,) = answer.others
    assert (other.name, other.cause_of, other.congested_links, other.sent_gbps) == ("noisy", 0, 0, None)
    assert answer.congested == () and answer.unknown_links == answer.links > 0
    assert "hash of each flow" in " ".join(answer.reading.notes)
    cable = house.service.fabrics.show_link(house.operator, f"{switch}:{port}")
    up = next(k for k in cable.links if k.sender == "gpu02/mlx5_0")
    assert (up.sent_gbps, up.pauses, [p.name for p in up.pods]) == (16.0, 3.0, ["noisy"])
    assert up.receiver == switch and up.receiver_port_name == port and up.congested is None
    end = min(mine)
    shared = house.service.fabrics.show_link(house.operator, end.replace("/", ":"))
    assert all({p.name for p in k.pods} == {"victim", "noisy"} for k in shared.links)
    assert all(p.sent_gbps is None for k in shared.links for p in k.pods), (
        "which uplink carries it isn't known"
    )
    with pytest.raises(InputError):
        house.service.fabrics.show_link(house.operator, f"{switch}:Ethernet99")


def test_tenant_sees_no_port_and_no_switch_above_leaves(
    house: EthernetHouse, pods: tuple[PodRecord, PodRecord], counters: Counters
) -> None:
    verbs: Any = redacted(house.service, policy())
    found = verbs.fabrics.pod_links(house.request(), "victim")
    text = found.model_dump_json()
    assert "spine" not in text and "Ethernet" not in text and "noisy" not in text and found.reading is None
    assert {k.sender for k in found.links} >= {HIDDEN, "leaf01"} and not found.exact


def test_rate_needs_two_recent_readings(house: EthernetHouse, counters: Counters) -> None:
    """An old one is forgotten; a silent switch's ports aren't known, and a counter that was reset isn't a rate."""
    port = sorted(counters.ends["leaf01"])[0]
    counters.growth["leaf01", port] = {"transmit_bytes": 2 * GB, "ecn_marked": 4}
    routes = house.fake.routes(0).routes
    end = next(e for e, name in routes.port_names.items() if (routes.names[e[0]], name) == ("leaf01", port))
    found = house.fake.rates(20)
    assert (found.seconds, found.ports[end].sent, found.ports[end].marked) == ((2.0,), 1.0 * GB, 2.0)
    assert found.ports[end].waiting is None and found.unread == 0 and counters.readings == 2
    counters.now += 10
    assert house.fake.rates(20).age == 10 and counters.readings == 2
    counters.now += 20
    assert house.fake.rates(20).seconds == (30.0,) and counters.readings == 3
    counters.now += LATELY + 1
    counters.silent = {"leaf02"}
    later = house.fake.rates(20)
    assert later.seconds == (2.0,) and counters.readings == 5 and later.unread > 0
    assert all(rate.sent is None for e, rate in later.ports.items() if routes.names.get(e[0]) == "leaf02")
    counters.growth["leaf01", port] = {"transmit_bytes": 1}
    counters.now += 30
    assert house.fake.rates(20).ports[end].sent is None
