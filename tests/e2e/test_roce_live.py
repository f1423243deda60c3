"""Pods on Ethernet switches of several vendors: real frames, from order to receipt, beside the InfiniBand fabric."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import pytest

from tests.e2e.people import People, Person, assert_clean, connection
from weftlab.lab import Lab
from weftlab.switches.hosts import Reach
from weftlab.switches.labsite import FABRIC, PHYSICAL_NETWORK, host_name, lab_ovs
from weftlab.switches.probe import Probe

pytestmark = pytest.mark.cloud

POD = """\
name: {name}
nodes: {{count: {count}, flavor: a100x8, image: tiny}}
"""
MTU = 9000
PARTS = """\
name: {name}
nodes: {{count: {count}, accelerators: {{type: a100, count: 2}}, image: tiny, sharing: shared}}
fabric: {{hcas: shared}}
"""


@pytest.fixture
def probe(lab: Lab) -> Iterator[Probe]:
    with contextlib.closing(Probe.of(lab)) as made:
        yield made


def ordered(person: Person, name: str, count: int) -> dict[str, str]:
    """Address on the RDMA network -> namespace of the adapter, of a pod of so many nodes that is READY."""
    (person.folder / f"{name}.yaml").write_text(POD.format(name=name, count=count))
    made = person.weft("pod", "create", "-f", f"{name}.yaml", "--wait", timeout=400)
    assert made.code == 0, made.err
    servers = person.weft("pod", "show", name, "--json").json["servers"]
    return {
        address: host_name(s["node"], f"mlx5_{n}")
        for s in servers
        for n, address in enumerate(s["rdma_addresses"])
    }


def pairs(from_: Mapping[str, str], to: Mapping[str, str]) -> set[tuple[str, str]]:
    return {(space, address) for space in from_.values() for address in to if to[address] != space}


def test_two_tenants_on_one_fabric_reach_only_their_own_servers(
    lab: Lab, people: People, probe: Probe
) -> None:
    """Members by ping; strangers never, in either direction, with addresses taken by root, forged tags and floods;
    drift is reported; nothing is left on any port."""
    mine, others, operator = people("team-a"), people("team-b"), people("operator")
    train, serve = ordered(mine, "train", 2), ordered(others, "serve", 1)
    reach = Reach(lab_ovs(lab.layout))
    inside = pairs(train, train)
    assert len(train) == 4 and reach.awaited(inside) == inside
    assert reach.awaited(inside, size=MTU) == inside, "packets of the network's whole MTU, in one piece"
    assert reach.answered(inside, size=MTU + 1) == set(), "the adapters have the network's MTU"
    numbers = {who.cloud: segment(who, name) for who, name in ((mine, "train"), (others, "serve"))}
    for from_, to, own, theirs in (
        (train, serve, numbers["team-a"], numbers["team-b"]),
        (serve, train, numbers["team-b"], numbers["team-a"]),
    ):
        rogue = {space: f"10.128.255.{n}/9" for n, space in enumerate(from_.values(), 1)}
        with reach.taken(rogue):
            assert reach.answered(pairs(from_, to)) == set()
        sender, *rest = from_.values()
        assert probe.honest(sender, [*rest, *to.values()], by=rest) == set(rest)
        assert probe.forged(sender, to.values(), [theirs], own=[own]) == set()
        assert probe.flooded(sender, to.values()) == set()

    shown = mine.weft("pod", "show", "train", "--json").json
    # weft has tried the same itself, before it called the pod READY.
    first, verified = [e for e in events(operator, shown["id"]) if "hear each other" in e]
    assert "before servers are there: 4 adapters of roce that hear each other" in first
    assert "4 adapters of roce that hear each other" in verified
    assert "4 others of roce that hear none of them" in verified
    assert "0 pings on roce without an answer" in verified and "; but " not in verified
    number, mark = numbers["team-a"], f"weft-{shown['id'][:8]}-"
    networks = connection(lab, "operator").network.networks()
    [network] = [n for n in networks if n.name == f"{mark}network-rdma"]
    assert (network.provider_physical_network, network.provider_segmentation_id) == (PHYSICAL_NETWORK, number)
    assert network.mtu == lab.site.fabrics[FABRIC].network_mtu == MTU
    placed = {n["node"] for n in shown["placed"]}
    hcas = [(n, h) for n in lab.site.nodes if n.name in placed for h in n.hcas_on(FABRIC)]
    assert probe.members(number) == {host_name(n.name, h.name) for n, h in hcas}
    assert_clean(operator)

    assert mine.weft("pod", "release", "train", "--wait").code == 0
    receipt = mine.weft("pod", "receipt", "train", "--json")
    (mine.folder / "receipt.json").write_text(receipt.out)
    assert mine.verify("receipt.json").code == 0
    [frames] = [i for i in receipt.json["receipt"]["items"] if i["plane"] == "frames"]
    assert (frames["result"], frames.get("unread", [])) == ("clean", [])
    assert frames["subject"] == f"4 former members of VLAN {number}, 4 others"
    assert probe.carried(number) == set()
    with reach.taken({space: f"{address}/24" for address, space in train.items()}):
        assert reach.answered(inside) == set()
    assert reach.awaited(pairs(serve, serve)) == pairs(serve, serve)
    assert others.weft("pod", "release", "serve", "--wait").code == 0
    assert_clean(operator)


def events(person: Person, pod: str) -> list[str]:
    """Messages of the pod's events."""
    return [e["message"] for e in person.weft("pod", "events", pod, "--json").json]


def segment(person: Person, name: str) -> int:
    return int(person.weft("pod", "show", name, "--json").json["segment"])


@pytest.mark.nightly(
    reason="by day root sends frames on a host that pods share, and pods share one on real Nova"
)
def test_shared_host_keeps_vlans_of_two_tenants_apart(people: People, probe: Probe) -> None:
    """Its port is a trunk of exactly both VLANs. As root on it: each tag reaches its pod; forged ones, none and a flood
    reach no one else; and after a release its tag reaches no one."""
    first, second, operator = people("team-a"), people("team-b"), people("operator")
    for who, name, count in ((first, "many", 5), (second, "one", 1)):
        (who.folder / f"{name}.yaml").write_text(PARTS.format(name=name, count=count))
        made = who.weft("pod", "create", "-f", f"{name}.yaml", "--wait", timeout=400)
        assert made.code == 0, made.err
    many, one = segment(first, "many"), segment(second, "one")
    trunks = probe.trunks()
    assert {n for numbers in trunks.values() for n in numbers} == {many, one}
    shared, *_ = sorted(name for name, numbers in trunks.items() if numbers == {many, one})
    rest = probe.members(many) - {shared}
    assert rest and len({name.partition("-")[0] for name in rest | {shared}}) == 2, "on two hosts"
    strangers = probe.hosts.by_name.keys() - rest - {shared}
    assert_clean(operator)
    assert probe.honest(shared, {*rest, *strangers}, by=rest, tag=many) == rest
    assert probe.forged(shared, {*rest, *strangers}, [many + 7], own=()) == set()
    assert probe.forged(shared, strangers, [many + 7], own=[many, one]) == set()
    assert probe.honest(shared, {*rest, *strangers}, by=()) == set(), "without a tag it belongs to no pod"
    assert probe.flooded(shared, strangers, tag=many) == set()
    assert first.weft("pod", "release", "many", "--wait").code == 0
    assert first.weft("pod", "receipt", "many", "--json").json["receipt"]["clean"]
    assert probe.carried(many) == set()
    assert probe.honest(shared, {*rest, *strangers}, by=(), tag=many) == set()
    assert second.weft("pod", "release", "one", "--wait").code == 0
    assert_clean(operator)
