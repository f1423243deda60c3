"""An IPU pod on switches with real frames: its RNICs and Poplar server reach only each other until its release.

The machines' RNICs and the Poplar server's adapter are hosts of a running Open vSwitch, behind each vendor's
interface.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from tests.drivers.switches.probed import Beside
from tests.drivers.switches.rigs import CONFIRM, RealSwitches
from tests.engine.ipuhouse import POD, IpuHouse
from weft.drivers.probes import FrameProber
from weft.drivers.switches import EthernetFabric, open_fabric
from weft.engine.base.database import Database
from weft.engine.rows.ledger import FabricLedger
from weft.generate.receipts import verify
from weft.model.fabrictypes import Mode
from weft.model.pod import PodState
from weft.model.site import Site, Traffic
from weft.model.specs import SegmentSpec
from weft.planning.site.check import check_site
from weft.probeagent.agent import ProbeAgent as Agent
from weft.probeagent.config import ProbeConfig
from weftlab.site import FABRIC as RIGS_FABRIC

pytestmark = [pytest.mark.fabric]

FABRIC = "roce"
RNICS, SERVER, STRANGERS = ("host1", "host2", "host5", "host6"), "host3", ("host4", "host7")


def cabled(site: Site, rig: RealSwitches) -> Site:
    """The lab's IPU-POD on the rig's leaves: two machines on each, its Poplar server on the first."""
    document = site.model_dump(mode="json")
    own = rig.site.model_dump(mode="json")
    data = document["ipu_pods"][POD]["data"]
    document["fabrics"][FABRIC] = {
        **own["fabrics"][RIGS_FABRIC],
        "physical_network": data.pop("physical_network"),
        "segments": own["fabrics"][RIGS_FABRIC]["segments"],
    }
    data.pop("segments")
    data["fabric"] = FABRIC
    document["fabrics"][FABRIC]["manager"]["switching"]["bundles"] = []
    document["switches"] += [{**s, "fabric": FABRIC, "rack": None} for s in own["switches"]]
    for machine, host in zip(document["ipu_machines"], RNICS, strict=True):
        switch, _, port = rig.port(host).partition("/")
        number = rig.hosts.by_name[host].ends[0].number
        machine |= {"rnic_switch": switch, "rnic_port": number, "rnic_switch_port": port}
        machine["rnic_mac"] = rig.hosts.by_name[host].mac
    guid = "0x00000000feed0001"
    adapter = {"name": "mlx5_0", "fabric": FABRIC, "guid": guid, "port_guid": guid, "pci": "0000:c5:00.0"}
    for node in document["nodes"]:
        if node["role"] == "poplar":
            node["hcas"] = [{**adapter, "switch_port": rig.port(SERVER)}]
    return Site.model_validate(document)


class Switched:
    """A house whose IPU-POD is on the rig's switches."""

    def __init__(self, database: Database, url: str, rig: RealSwitches) -> None:
        self.rig, self.house = rig, IpuHouse(database, url)
        self.house.site = cabled(self.house.site, rig)
        assert check_site(self.house.site) == []
        ledger = FabricLedger(database, FABRIC, self.house.site.fabrics[FABRIC].words)
        self.fabric: EthernetFabric = open_fabric(self.house.site, FABRIC, ledger, CONFIRM)
        self.house.world.resources[FABRIC] = self.fabric  # type: ignore[index]
        self.house.world.fabrics[FABRIC] = self.fabric  # type: ignore[index]
        self.house.store.activate_site(self.house.site, "test")

    def close(self) -> None:
        self.house.close()
        self.fabric.close()


@pytest.fixture(params=["ovs", "mixed"])
def switched(
    request: pytest.FixtureRequest,
    database: Database,
    database_url: str,
    switch_rigs: Callable[[str], RealSwitches],
) -> Generator[Switched]:
    made = Switched(database, database_url, switch_rigs(request.param))
    yield made
    made.close()


def test_ipu_machines_reach_only_each_other_until_release(switched: Switched) -> None:
    house, hosts = switched.house, switched.rig.hosts
    pod = house.booted()
    [segment] = [r.spec for r in pod.plan.graph.resources if isinstance(r.spec, SegmentSpec)]
    modes = {m.port: m.mode for m in segment.members}
    assert modes.pop(switched.rig.port(SERVER)) is Mode.TRUNK and set(modes.values()) == {Mode.ACCESS}
    inside = {(RNICS[0], RNICS[1]), (RNICS[0], RNICS[2]), (RNICS[3], RNICS[1])}
    across = {(a, b) for a in (RNICS[0], RNICS[2]) for b in STRANGERS} | {(STRANGERS[0], RNICS[0])}
    hosts.await_reach(inside, seconds=40)
    assert not hosts.reached(across)
    assert house.service.audits.run(house.operator).findings == ()
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and verify(signed.model_dump(mode="json")).valid and signed.receipt.clean
    assert not hosts.reached(inside | across)
    assert segment.number not in switched.fabric.snapshot().ports_in


@pytest.fixture
def asking(
    database: Database, database_url: str, switch_rigs: Callable[[str], RealSwitches]
) -> Generator[Switched]:
    """A probe agent is beside the Poplar server's adapter, and RNICs have their addresses."""
    made = Switched(database, database_url, switch_rigs("mixed"))
    site, ovs = made.house.site, made.rig.lab.ovs
    [node] = [n.name for n in site.nodes if n.hcas_on(FABRIC)]
    traffic = Traffic.model_validate(
        {
            "agents": [{"name": "near", "url": "https://near.example", "nodes": [node]}],
            **{"ca": "ca.pem", "certificate": "weft.pem", "key": "weft.key", "seconds": 1.0},
        }
    )
    settings = {
        "name": "near",
        "listen": {"host": "127.0.0.1", "port": 1},
        "tls": {"ca": "ca.pem", "certificate": "a.pem", "key": "a.key"},
        "adapters": {f"{node}/mlx5_0": {"interface": "eth0", "namespace": ovs.space(SERVER)}},
    }
    agent = Beside("near", Agent(ProbeConfig.model_validate(settings)))
    made.house.world.probers[FABRIC] = FrameProber(site, FABRIC, traffic, [agent])  # type: ignore[index]
    taken = [(host, f"{m.rnic_address}/32") for host, m in zip(RNICS, site.ipu_machines, strict=True)]
    for host, address in taken:
        ovs.inside(host, ["ip", "address", "add", address, "dev", "eth0"])
    try:
        yield made
    finally:
        for host, address in taken:
            ovs.inside(host, ["ip", "address", "del", address, "dev", "eth0"])
        made.close()


def test_machines_answer_arp_before_ready_and_not_after_release(asking: Switched) -> None:
    """They have no agent: a machine that answers the Poplar server's ARP is reached in both directions."""
    house = asking.house
    pod = house.booted()
    verified = " / ".join(e.message for e in house.store.records.events(pod.id, 0) if e.type == "verified")
    assert "4 adapters of roce without an agent that answer" in verified and "frames of" not in verified
    assert (
        "whether others on roce hear members was not tested: no probe agent is beside any other" in verified
    )
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean
    [item] = [i for i in signed.receipt.items if i.plane == "frames"]
    assert item.result == "clean" and item.subject.endswith("0 others, 4 without an agent")
    assert "answered none" in item.seen and any("whether others hear" in u for u in item.unread)


def test_silent_machine_is_reported(asking: Switched) -> None:
    """An answer from another MAC address isn't the machine's."""
    house, ovs = asking.house, asking.rig.lab.ovs
    first, second = house.site.ipu_machines[:2]
    ovs.inside(RNICS[0], ["ip", "address", "del", f"{first.rnic_address}/32", "dev", "eth0"])
    ovs.inside(RNICS[1], ["ip", "address", "add", f"{first.rnic_address}/32", "dev", "eth0"])
    try:
        pod = house.booted()
    finally:
        ovs.inside(RNICS[1], ["ip", "address", "del", f"{first.rnic_address}/32", "dev", "eth0"])
        ovs.inside(RNICS[0], ["ip", "address", "add", f"{first.rnic_address}/32", "dev", "eth0"])
    verified = " / ".join(e.message for e in house.store.records.events(pod.id, 0) if e.type == "verified")
    assert f"frames of {first.name}/rnic on roce were not tested" in verified
    assert "it answers no member's ARP request" in verified and f"{second.name}/rnic" not in verified
