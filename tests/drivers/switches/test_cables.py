"""Cables that an Ethernet fabric's switches report by LLDP, against the site. Without Open vSwitch: no frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from weft.app.livecheck import check_live
from weft.drivers.switches import EthernetFabric, open_fabric
from weft.drivers.switches.looks import HeardNeighbours
from weft.model.errors import UnknownError
from weft.model.site import Site, Switching
from weft.planning.fabric.qos import SwitchQos
from weft.planning.fabric.topology import natural
from weft.planning.site.neighbours import LldpNeighbour, Names, neighbour
from weft.ports.ledger import NoLedger
from weftlab.site import FABRIC
from weftlab.switches import leaf_spine
from weftlab.switches.fronts import Fronts
from weftlab.switches.plan import Speaks
from weftlab.switches.site import ethernet_site

MIXED: Mapping[str, Speaks] = {"leaf1": "eos", "leaf2": "nvue", "spine1": "sonic", "spine2": "ovs"}


class Cabled:
    """Two leaves that are an MLAG pair with a bonded host, two spines, and their LLDP neighbours."""

    def __init__(self, folder: Path, speaks: Mapping[str, Speaks] | Speaks) -> None:
        self.plan = leaf_spine(speaks, hosts_each=2, mlag=True)
        self.fronts = Fronts(folder, self.plan, None)
        self.site: Site = ethernet_site(self.plan, self.fronts.urls, self.fronts.ca, self.fronts.credentials)
        self.driver: EthernetFabric = open_fabric(self.site, FABRIC, NoLedger(), confirm=0.6)

    def heard(self) -> HeardNeighbours:
        return self.driver.heard()

    def reported(self) -> list[str]:
        return [f"{d.kind}: {d.what}" for d in self.heard().differences]

    def port(self, switch: str, number: int) -> str:
        return self.plan.by_name[switch].link(number)

    def hears(
        self, switch: str, number: int, change: Callable[[dict[str, tuple[str, str]], str], object]
    ) -> None:
        change(self.fronts.by_name[switch].heard, self.port(switch, number))

    def close(self) -> None:
        self.driver.close()
        self.fronts.close()


def also(
    cabled: Cabled, monkeypatch: pytest.MonkeyPatch, switch: str, lag: str, links: tuple[str, ...]
) -> None:
    """Let the switch say that an aggregation consists of these links."""
    session = cabled.driver.session(switch)
    reported = session.qos()
    assert isinstance(reported, SwitchQos)
    other = SwitchQos(reported.ports, {**reported.members, lag: links})
    monkeypatch.setattr(session, "qos", lambda: other)


def switching(site: Site) -> Switching:
    found = site.fabrics[FABRIC].manager.switching
    assert found is not None
    return found


@pytest.fixture(params=["eos", "nvue", "sonic", "mixed"])
def cabled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cabled]:
    made = Cabled(tmp_path, MIXED if request.param == "mixed" else request.param)
    yield made
    made.close()


def test_described_cables_have_no_differences(cabled: Cabled) -> None:
    """Links, the peer link, hosts, and both ends of a bond, which is an aggregation in the site and a port in LLDP."""
    found = cabled.heard()
    assert found.differences == () and found.problems == ()
    silent = [n for n in found.notes if "Open vSwitch" in n]
    assert len(silent) == ("spine2" in cabled.plan.by_name and cabled.plan.by_name["spine2"].speaks == "ovs")
    assert check_live(cabled.site).differences == ()


def test_swapped_hosts_and_links_are_named_on_both_ports(cabled: Cabled) -> None:
    one, two = cabled.port("leaf1", 1), cabled.port("leaf1", 2)
    heard = cabled.fronts.by_name["leaf1"].heard
    heard[one], heard[two] = heard[two], heard[one]
    first, second = (h.mac for h in cabled.plan.hosts[:2])
    assert cabled.reported() == [
        f"moved cable: host2/{second} is on port {one} of leaf1, where the site has host1/mlx5_0",
        f"moved cable: host1/{first} is on port {two} of leaf1, where the site has host2/mlx5_0",
    ]


def test_moved_and_unplugged_links_are_reported(cabled: Cabled) -> None:
    up = cabled.port("leaf1", 4)  # to spine1
    cabled.hears("leaf1", 4, lambda heard, port: heard.update({port: ("spine1", "elsewhere")}))
    [moved] = cabled.reported()
    assert moved.startswith(
        f"moved cable: spine1/elsewhere is on port {up} of leaf1, where the site has spine1/"
    )
    cabled.hears("leaf1", 4, lambda heard, port: heard.pop(port))
    [missing] = cabled.reported()
    assert missing.startswith("missing cable: spine1/") and missing.endswith(
        f"isn't seen on port {up} of leaf1"
    )
    live = check_live(cabled.site)
    assert not live.good and len(live.differences) == 1


def test_silent_host_is_noted_and_misplaced_host_is_named(
    cabled: Cabled,
) -> None:
    cabled.hears("leaf1", 1, lambda heard, port: heard.pop(port))
    found = cabled.heard()
    assert found.differences == ()
    assert any("no LLDP neighbour on 1 host ports of leaf1" in n for n in found.notes)
    cabled.hears("leaf1", 8, lambda heard, port: heard.update({port: ("host1", "eth0")}))
    unknown = f"host1/eth0 is on port {cabled.port('leaf1', 8)} of leaf1, where the site has no cable"
    # NVUE is asked only about the ports that the site names
    nvue = cabled.plan.by_name["leaf1"].speaks == "nvue"
    assert cabled.reported() == ([] if nvue else [f"unknown cable: {unknown}"])


def test_neighbours_names_with_a_domain_match_the_site(cabled: Cabled) -> None:
    for front in cabled.fronts.by_name.values():
        front.heard = {p: (f"{device}.dc.example", far) for p, (device, far) in front.heard.items()}
    assert cabled.reported() == []


def test_switch_with_unknown_aggregations_is_not_compared(
    cabled: Cabled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them links of `bonded` would be strangers and its bond missing."""

    def silent(self: object) -> SwitchQos | str:
        raise UnknownError("read the settings for RoCE", "switch leaf1", "no answer")

    monkeypatch.setattr(type(cabled.driver.session("leaf1")), "qos", silent)
    found = cabled.heard()
    assert found.differences == ()
    assert any(
        p == "LLDP neighbours of leaf1 can't be compared: its aggregations are not known: no answer"
        for p in found.problems
    )


def test_each_link_of_an_aggregation_is_compared(cabled: Cabled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two links the last is right, and the first is on another host's port."""
    wrong, right = cabled.port("leaf1", 8), cabled.port("leaf1", 3)
    lag = cabled.plan.by_name["leaf1"].port(3)
    also(cabled, monkeypatch, "leaf1", lag, (wrong, right))
    cabled.hears("leaf1", 8, lambda heard, port: heard.update({port: ("host1", "eth0")}))
    assert cabled.reported() == [
        f"moved cable: host1/eth0 is on port {wrong} of leaf1, where the site has bonded/mlx5_0"
    ]
    cabled.hears("leaf1", 8, lambda heard, port: heard.update({port: ("bonded.dc.example", "eth0")}))
    assert cabled.reported() == []


def test_adapter_firmware_sending_lldp_is_not_a_stranger(cabled: Cabled) -> None:
    """If one of two neighbours on the port is the expected host."""
    port = cabled.port("leaf1", 1)
    session = cabled.driver.session("leaf1")
    said = [LldpNeighbour(port, "mlx-firmware", "p0"), LldpNeighbour(port, "host1", "eth0")]
    for neighbours in (said, said[::-1]):
        session.neighbours = lambda ports, heard=neighbours: heard  # type: ignore[method-assign]
        assert not [d for d in cabled.heard().differences if d.subject == f"leaf1/{port}"]
    session.neighbours = lambda ports: said[:1]  # type: ignore[method-assign]
    assert [d.kind for d in cabled.heard().differences if d.subject == f"leaf1/{port}"] == ["moved cable"]


def test_aggregation_without_links_is_noted(cabled: Cabled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which cables belong to it isn't known, so none is missing."""
    site, switch = cabled.site, "leaf1"
    lag = next(k.a.partition("/")[2] for k in switching(site).links if k.peer)
    also(cabled, monkeypatch, switch, lag, ())
    cabled.hears(switch, int(cabled.plan.cables[-1].a.number), lambda heard, port: heard.pop(port))
    found = cabled.heard()
    assert found.differences == ()
    assert f"cables of {switch}/{lag} were not compared: no port is in the aggregation" in found.notes


def test_names_match_with_or_without_domain_in_any_case() -> None:
    names = Names(["gpu1", "gpu1.bmc", "tor.row1", "tor.row2", "leaf1.dc.example"])
    for said, found in {
        "gpu1": "gpu1",
        "GPU1.dc.example": "gpu1",
        "gpu1.bmc.dc.example": "gpu1.bmc",
        "leaf1": "leaf1.dc.example",
        "LEAF1.DC": "leaf1.dc.example",
        "tor": "tor",
        "unknown.dc.example": "unknown.dc.example",
    }.items():
        assert names.find(said) == found, said
    assert names.may_be("tor.row1", "tor") and not names.may_be("gpu1", "gpu1.bmc")
    assert not names.may_be("gpu1", "gpu10") and not names.may_be("gpu1", "gp")


def test_unreachable_switch_is_a_problem_and_reports_no_cables(cabled: Cabled) -> None:
    cabled.fronts.by_name["leaf1"].faults.down = True
    found = cabled.heard()
    assert found.differences == () and any("neighbours of leaf1 can't be read" in p for p in found.problems)


def test_neighbours_text_is_reduced_to_one_line() -> None:
    """A tenant on bare metal may send control characters, or numbers that break sorting."""
    said = LldpNeighbour("Ethernet1", "gpu1\x1b[2J\n", "²" + "9" * 5000)
    assert said.device == "gpu1?[2J?" and len(said.port) == 255
    in_order = sorted([said.port, "9" * 5000, "gpu10", "gpu9"], key=natural)
    assert [name for name in in_order if name.startswith("gpu")] == ["gpu9", "gpu10"]


def test_mac_address_port_ids_match_in_every_notation() -> None:
    for said in ("b8:59:9f:12:34:56", "b859.9f12.3456", "B8-59-9F-12-34-56"):
        assert neighbour("Ethernet1", "gpu01", said).mac == "b8:59:9f:12:34:56"
    for said in ("Ethernet49", "swp1s0", "deadbeef0000", "Ethernet1/1"):
        assert neighbour("Ethernet1", "spine1", said).mac is None
