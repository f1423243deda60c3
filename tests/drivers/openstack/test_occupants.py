"""What Placement has allocated to servers on a host."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.drivers.openstack.tinycloud import Reply, TinyCloud, tiny_cloud
from weft.drivers.openstack import OpenStackFacts, Sessions, consumers
from weft.drivers.openstack.consumers import ROUND
from weft.model.errors import UnknownError
from weft.ports.patience import waiting_at_most


@pytest.fixture
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TinyCloud, Sessions]]:
    with tiny_cloud() as (cloud, text):
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        yield cloud, sessions
        sessions.close()


@pytest.fixture
def sessions(tiny: tuple[TinyCloud, Sessions]) -> Sessions:
    return tiny[1]


@pytest.fixture
def cloud(tiny: tuple[TinyCloud, Sessions]) -> tuple[TinyCloud, OpenStackFacts]:
    return tiny[0], OpenStackFacts(tiny[1])


def test_allocation_classes_show_whether_it_may_be_a_device(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    """CPUs, memory, disk and bandwidth aren't devices; a class of the site's own, or an allocation without a class,
    may be, also on a device's own provider.
    """
    tiny, facts = cloud
    row: dict[str, object] = {
        "id": "root-9",
        "hypervisor_hostname": "gpu09",
        "hypervisor_type": "QEMU",
        "state": "up",
    }
    row |= {
        "service": {"host": "gpu09"},
        "servers": [{"uuid": s, "name": s} for s in ("small", "soft-deleted")],
    }
    plain = {"resources": {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1, "NET_BW_EGR_KILOBIT_PER_SEC": 5}}
    of = "GET /placement/resource_providers"
    tiny.lies = [
        ("GET /compute/os-hypervisors/detail", Reply(200, {"hypervisors": [row]})),
        ("GET /compute/os-hypervisors/root-9", Reply(200, {"hypervisor": row})),
        (f"{of}/root-9/allocations", Reply(200, {"allocations": {"small": plain, "gpu": plain, "odd": {}}})),
        (f"{of}/pci-9/allocations", Reply(200, {"allocations": {"gpu": {"resources": {"CUSTOM_PCI_1": 1}}}})),
    ]
    tiny.children = {"root-9": ["pci-9"]}
    seen = facts.on_hosts(["gpu09"])["gpu09"]
    assert {o.id: (o.nova, o.devices) for o in seen.occupants} == {
        "small": (True, ()),
        "soft-deleted": (True, ()),
        "gpu": (False, ("CUSTOM_PCI_1",)),
        "odd": (False, ("unknown",)),
    }


def test_listing_continues_after_a_callers_time_limit(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    """A large cloud's takes longer than a tenant's request may; the next caller gets it."""
    tiny, facts = cloud
    path, go_on = "GET /compute/os-hypervisors/detail", threading.Event()

    class Slow(Reply):
        def content(self) -> bytes:
            go_on.wait(30)
            return super().content()

    tiny.lies = [(path, Slow(200, {"hypervisors": []}))]
    with waiting_at_most(0.05), pytest.raises(UnknownError, match="the listing goes on"):
        facts.servers_on_hosts()
    go_on.set()
    assert facts.servers_on_hosts() == {}
    assert tiny.asked.count(path) == 1


def test_failed_listing_is_reported_to_waiting_callers(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    tiny, facts = cloud
    tiny.lies = [("GET /compute/os-hypervisors/detail", Reply(200, {"hypervisors": None}))]
    with pytest.raises(UnknownError):
        facts.servers_on_hosts()


OF = "GET /placement/resource_providers"


def hosts(tiny: TinyCloud, count: int) -> list[str]:
    """Hosts on which Nova lists nothing, each with a provider in Placement."""
    names = [f"gpu{n:03}" for n in range(count)]
    rows = [
        {
            "id": f"of-{n}",
            "hypervisor_hostname": n,
            "hypervisor_type": "QEMU",
            "state": "up",
            "service": {"host": n},
        }
        for n in names
    ]
    tiny.lies += [
        ("GET /compute/os-hypervisors/detail", Reply(200, {"hypervisors": rows})),
        (f"{OF}/of-.*/allocations", Reply(200, {"allocations": {}})),
    ]
    return names


def next_listing(facts: OpenStackFacts) -> dict[str, list[str]]:
    """Consumers on each host, by a listing that begins now."""
    facts._listed = None
    return {host: [o.id for o in one.occupants] for host, one in facts.servers_on_hosts().items()}


def test_leaked_allocation_is_in_the_listing_of_hosts(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    """A host without servers isn't empty while Placement has an allocation on it or on one of its devices."""
    tiny, facts = cloud
    plain = {"allocations": {"leak": {"resources": {"VCPU": 1}}}}
    tiny.children = {"of-gpu001": ["pci-1"]}
    tiny.lies = [
        (f"{OF}/of-gpu000/allocations", Reply(200, plain)),
        (f"{OF}/pci-1/allocations", Reply(200, plain)),
    ]
    names = hosts(tiny, 3)
    assert next_listing(facts) == {names[0]: ["leak"], names[1]: ["leak"], names[2]: []}


def test_allocations_of_many_hosts_are_read_in_bounded_rounds(
    cloud: tuple[TinyCloud, OpenStackFacts],
) -> None:
    """Each listing sends as many requests as a round has: first for hosts with an allocation, then for the others in
    turn, until all were read.
    """
    tiny, facts = cloud
    names = hosts(tiny, ROUND)
    last = f"{OF}/of-{names[-1]}/allocations"
    tiny.lies.insert(0, (last, Reply(200, {"allocations": {"leak": {"resources": {"VCPU": 1}}}})))
    assert next_listing(facts)[names[-1]] == []
    assert sum(line.startswith(OF) for line in tiny.asked) <= ROUND + 2
    assert next_listing(facts)[names[-1]] == ["leak"]
    tiny.asked.clear()
    del tiny.lies[0]
    assert next_listing(facts)[names[-1]] == [], "a host with an allocation is read again first"


def test_fully_reserved_inventory_is_withheld(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    """Of the host or of one of its devices. A partly reserved one isn't, and Nova itself reserves machines."""
    tiny, facts = cloud
    tiny.children = {"of-gpu001": ["pci-1"]}
    tiny.lies = [(f"{OF}/pci-1/allocations", Reply(200, {"allocations": {}}))]
    names = hosts(tiny, 4)
    tiny.lies[-2][1].body["hypervisors"][3]["hypervisor_type"] = "ironic"  # type: ignore[index]
    tiny.reserved = {
        "of-gpu000": {"VCPU": 8, "MEMORY_MB": 7},
        "pci-1": {"CUSTOM_GPU": 8},
        "of-gpu002": {"MEMORY_MB": 7},
        "of-gpu003": {"CUSTOM_METAL": 8},
    }
    next_listing(facts)
    next_listing(facts)
    said = {host: one.withheld for host, one in facts.servers_on_hosts().items()}
    assert said == {
        names[0]: "Placement has reserved 8 of 8 VCPU of of-gpu000",
        names[1]: "Placement has reserved 8 of 8 CUSTOM_GPU of pci-1",
        names[2]: "",
        names[3]: "",
    }
    row = {**tiny.lies[-2][1].body["hypervisors"][1], "servers": []}  # type: ignore[index]
    tiny.lies.append(("GET /compute/os-hypervisors/of-gpu001", Reply(200, {"hypervisor": row})))
    assert facts.on_hosts([names[1]])[names[1]].withheld == said[names[1]]


@pytest.mark.parametrize("reply", [Reply(403, {}), Reply(200, {"inventories": {"VCPU": {}}}), Reply(200, {})])
def test_unreadable_inventory_withholds_nothing(
    cloud: tuple[TinyCloud, OpenStackFacts], reply: Reply
) -> None:
    """What is on the host is known, and if there is no room Nova says so."""
    tiny, facts = cloud
    (name,) = hosts(tiny, 1)
    tiny.lies.append((f"{OF}/of-gpu000/inventories", reply))
    next_listing(facts)
    assert next_listing(facts) == {name: []}
    one = facts.servers_on_hosts()[name]
    assert (one.withheld, one.unknown) == ("", "")
    assert sum("inventories" in line for line in tiny.asked) == 1, "it isn't asked again at once"


def test_host_with_unreadable_allocations_is_unknown(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    """Also hosts about which a silent Placement wasn't asked."""
    tiny, facts = cloud
    tiny.lies = [(f"{OF}/of-gpu000/allocations", Reply(500, {}))]
    hosts(tiny, 40)
    facts._listed = None
    found = facts.servers_on_hosts()
    assert found["gpu000"].unknown and found["gpu039"].unknown and not found["gpu001"].unknown


def test_many_hosts_of_a_cloud_are_read_in_one_listing(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    """Nova's, for all projects. Few of many hosts are asked about one by one; without an answer all are unknown."""
    tiny, facts = cloud
    tiny.lies = [
        (f"GET /compute/os-hypervisors/of-{n}", Reply(200, {"hypervisor": {**ROW, "id": f"of-{n}"} | on(n)}))
        for n in ("gpu000", "gpu001", "gpu002", "gpu003")
    ]
    names = hosts(tiny, 12)
    (listing,) = (reply for path, reply in tiny.lies if path.endswith("/detail"))
    listing.body["hypervisors"][1]["servers"] = [{"uuid": "s1", "name": "one"}]  # type: ignore[index]
    own = "GET /compute/os-hypervisors/of-gpu00"
    one_by_one = facts.on_hosts(names[:3])
    assert sum(line.startswith(own) for line in tiny.asked) == 3 and not any(
        seen.unknown for seen in one_by_one.values()
    )
    before = len(tiny.asked)
    together = facts.on_hosts(names[:4])
    asked = tiny.asked[before:]
    assert sum("os-hypervisors" in line for line in asked) == 1
    assert [o.id for o in together["gpu001"].occupants] == ["s1"] and not together["gpu000"].occupants
    listing.status = 503
    assert all(seen.unknown for seen in facts.on_hosts(names[:4]).values())


ROW: dict[str, object] = {"hypervisor_type": "QEMU", "state": "up"}


def on(host: str) -> dict[str, object]:
    return {"hypervisor_hostname": host, "service": {"host": host}}


def listed(tiny: TinyCloud, count: int) -> list[str]:
    """Hosts with a device each that Placement lists at once; nothing is used."""
    names = hosts(tiny, count)
    tiny.children = {f"of-{n}": [f"pci-{n}"] for n in names}
    tiny.lies.append((f"{OF}/pci-.*/allocations", Reply(200, {"allocations": {}})))
    tiny.trees = {f"of-{n}": {f"of-{n}": 3, f"pci-{n}": 1} for n in names}
    tiny.used = {p: {"VCPU": 0} for tree in tiny.trees.values() for p in tree}
    return names


def in_placement(tiny: TinyCloud) -> list[str]:
    """Requests to Placement since the last call."""
    asked = [line.removeprefix("GET /placement") for line in tiny.asked if " /placement/" in line]
    tiny.asked.clear()
    return asked


LISTINGS = ["/resource_providers", "/allocation_candidates"]


def run(tiny: TinyCloud, host: str, server: str, writes: int = 1) -> None:
    """Put a server on a host, in Nova and in Placement. `writes`: to its provider since the last one."""
    (nova,) = (reply for path, reply in tiny.lies if path.endswith("/detail"))
    (row,) = (r for r in nova.body["hypervisors"] if r["id"] == f"of-{host}")  # type: ignore[index]
    row["servers"] = [{"uuid": server, "name": server}]
    row = {"allocations": {server: {"resources": {"VCPU": 1}}}}
    tiny.lies.insert(0, (f"{OF}/of-{host}/allocations", Reply(200, row)))
    tiny.trees[f"of-{host}"][f"of-{host}"] += writes
    tiny.used[f"of-{host}"]["VCPU"] += 1


def test_unused_hosts_are_read_in_two_listings(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    """The next time in one, as long as nothing was written to any of them."""
    tiny, facts = cloud
    names = listed(tiny, 8)
    tiny.reserved = {"pci-gpu003": {"VCPU": 8}}
    seen = facts.on_hosts(names)
    assert not any(one.occupants or one.unknown for one in seen.values())
    assert [h for h, one in seen.items() if one.withheld] == ["gpu003"]
    inventories = [f"/resource_providers/{p}/inventories" for p in ("of-gpu003", "pci-gpu003")]
    assert in_placement(tiny) == [*LISTINGS, *inventories]
    assert facts.on_hosts(names) == seen
    assert in_placement(tiny) == LISTINGS[:1]


def hide_in_listing(tiny: TinyCloud) -> None:
    del tiny.trees["of-gpu002"]


def hide_child(tiny: TinyCloud) -> None:
    """Hide one of a host's devices in Placement."""
    del tiny.used["pci-gpu002"]


def use_child(tiny: TinyCloud) -> None:
    tiny.used["pci-gpu002"]["CUSTOM_GPU"] = 1


def hide_inventories(tiny: TinyCloud) -> None:
    """Hide what a host's providers have, and so what is used."""
    tiny.used |= {"of-gpu002": {}, "pci-gpu002": {}}


@pytest.mark.parametrize("change", [hide_in_listing, hide_child, hide_inventories, use_child])
def test_host_without_proof_in_a_listing_is_asked_about_by_itself(
    cloud: tuple[TinyCloud, OpenStackFacts], change: Callable[[TinyCloud], None]
) -> None:
    tiny, facts = cloud
    names = listed(tiny, 8)
    change(tiny)
    leak = {"allocations": {"leak": {"resources": {"CUSTOM_GPU": 1}}}}
    tiny.lies.insert(0, (f"{OF}/pci-gpu002/allocations", Reply(200, leak)))
    seen = facts.on_hosts(names)
    assert {h: [o.id for o in one.occupants] for h, one in seen.items() if one.occupants} == {
        "gpu002": ["leak"]
    }
    asked = {line.split("/")[2] for line in in_placement(tiny) if line.endswith("/allocations")}
    assert asked == {"of-gpu002", "pci-gpu002"}


@pytest.mark.parametrize("listing", LISTINGS)
@pytest.mark.parametrize(
    "reply",
    [
        Reply(403, {}),
        Reply(500, {}),
        Reply(200, {}),
        Reply(200, {"resource_providers": [{"uuid": "of-gpu000"}], "provider_summaries": {"of-gpu000": {}}}),
        Reply(200, {"resource_providers": [], "provider_summaries": {}}),
        Reply(200, "<html>"),
    ],
)
def test_hosts_are_asked_about_one_by_one_if_a_listing_cannot_be_read(
    cloud: tuple[TinyCloud, OpenStackFacts], listing: str, reply: Reply
) -> None:
    tiny, facts = cloud
    names = listed(tiny, 8)
    run(tiny, "gpu004", "theirs")
    tiny.whole[f"/placement{listing}"] = reply
    seen = facts.on_hosts(names)
    assert not any(one.unknown for one in seen.values())
    assert {h: [o.id for o in one.occupants] for h, one in seen.items() if one.occupants} == {
        "gpu004": ["theirs"]
    }
    assert sum(line.endswith("/allocations") for line in in_placement(tiny)) == 16


def test_host_is_read_again_once_an_allocation_was_written(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    """Afterwards not, while Nova shows the server there: a second server changes the generation, but one that is
    removed from Placement alone doesn't.
    """
    tiny, facts = cloud
    names = listed(tiny, 8)
    facts.on_hosts(names)
    for host in names[:2]:
        run(tiny, host, f"s-{host}", writes=2)
    in_placement(tiny)
    seen = facts.on_hosts(names)
    assert [o.placement for h in names[:2] for o in seen[h].occupants] == [True, True]
    first, *asked = in_placement(tiny)
    assert first == LISTINGS[0] and sorted(asked) == sorted(
        f"/resource_providers/{p}-{h}/allocations" for h in names[:2] for p in ("of", "pci")
    )
    assert facts.on_hosts(names) == seen
    assert in_placement(tiny) == LISTINGS[:1]
    tiny.trees["of-gpu001"]["pci-gpu001"] += 1
    leak = {"allocations": {"leak": {"resources": {"CUSTOM_GPU": 1}}}}
    tiny.lies.insert(0, (f"{OF}/pci-gpu001/allocations", Reply(200, leak)))
    assert {o.id for o in facts.on_hosts(names)["gpu001"].occupants} == {"s-gpu001", "leak"}


def test_one_write_of_one_new_server_is_its_allocation(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    """Nova writes it in a request of its own, before the server boots: no host is asked about by itself."""
    tiny, facts = cloud
    names = listed(tiny, 8)
    facts.on_hosts(names)
    for host in names:
        run(tiny, host, f"s-{host}")
    in_placement(tiny)
    seen = facts.on_hosts(names)
    found = {h: [(o.id, o.nova, o.placement, o.devices) for o in seen[h].occupants] for h in names}
    assert found == {h: [(f"s-{h}", True, True, ())] for h in names}
    assert in_placement(tiny) == LISTINGS[:1]
    assert facts.on_hosts(names) == seen
    assert in_placement(tiny) == LISTINGS[:1]


def write_twice(tiny: TinyCloud) -> None:
    tiny.trees["of-gpu002"]["of-gpu002"] += 1


def write_device(tiny: TinyCloud) -> None:
    tiny.trees["of-gpu002"]["pci-gpu002"] += 1


def write_device_alone(tiny: TinyCloud) -> None:
    tiny.trees["of-gpu002"] |= {"of-gpu002": 3, "pci-gpu002": 2}


def add_device(tiny: TinyCloud) -> None:
    tiny.trees["of-gpu002"]["pci-more"] = 0
    tiny.lies.append((f"{OF}/pci-more/allocations", Reply(200, {"allocations": {}})))


def show_two(tiny: TinyCloud) -> None:
    (nova,) = (reply for path, reply in tiny.lies if path.endswith("/detail"))
    nova.body["hypervisors"][2]["servers"].append({"uuid": "theirs", "name": "theirs"})  # type: ignore[index]


def show_none(tiny: TinyCloud) -> None:
    (nova,) = (reply for path, reply in tiny.lies if path.endswith("/detail"))
    nova.body["hypervisors"][2]["servers"] = []  # type: ignore[index]


def outdate(_: TinyCloud) -> None:
    consumers.SAME = -1.0


CHANGES = [write_twice, write_device, write_device_alone, add_device, show_two, show_none, outdate]


@pytest.mark.parametrize("change", CHANGES)
def test_allocations_are_read_unless_one_write_is_one_new_servers(
    cloud: tuple[TinyCloud, OpenStackFacts],
    change: Callable[[TinyCloud], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second write may be another consumer's, one of a device's provider takes devices, and of two servers, or none,
    it isn't known whose it is."""
    tiny, facts = cloud
    names = listed(tiny, 8)
    facts.on_hosts(names)
    monkeypatch.setattr(consumers, "SAME", consumers.SAME)
    run(tiny, "gpu002", "ours")
    leak = {"allocations": {"ours": {"resources": {"VCPU": 1}}, "leak": {"resources": {"VCPU": 1}}}}
    tiny.lies.insert(0, (f"{OF}/of-gpu002/allocations", Reply(200, leak)))
    change(tiny)
    assert {"ours", "leak"} <= {o.id for o in facts.on_hosts(names)["gpu002"].occupants}


def test_server_that_was_there_before_the_write_does_not_own_it(
    cloud: tuple[TinyCloud, OpenStackFacts],
) -> None:
    """Nova showed it without an allocation: what was written may be anyone's."""
    tiny, facts = cloud
    names = listed(tiny, 8)
    (nova,) = (reply for path, reply in tiny.lies if path.endswith("/detail"))
    nova.body["hypervisors"][2]["servers"] = [{"uuid": "ours", "name": "ours"}]  # type: ignore[index]
    facts.on_hosts(names)
    leak = {"allocations": {"leak": {"resources": {"VCPU": 1}}}}
    tiny.lies.insert(0, (f"{OF}/of-gpu002/allocations", Reply(200, leak)))
    tiny.trees["of-gpu002"]["of-gpu002"] += 1
    assert {o.id for o in facts.on_hosts(names)["gpu002"].occupants} == {"ours", "leak"}


def test_host_with_devices_of_its_own_is_read_once_a_server_is_there(
    cloud: tuple[TinyCloud, OpenStackFacts],
) -> None:
    """A device that isn't a provider of its own, such as a GPU's share: the generation doesn't say what was taken."""
    tiny, facts = cloud
    names = listed(tiny, 8)
    tiny.used["of-gpu002"]["CUSTOM_GPU"] = 0
    facts.on_hosts(names)
    run(tiny, "gpu002", "ours")
    given = {"allocations": {"ours": {"resources": {"VCPU": 1, "CUSTOM_GPU": 1}}}}
    tiny.lies.insert(0, (f"{OF}/of-gpu002/allocations", Reply(200, given)))
    assert [o.devices for o in facts.on_hosts(names)["gpu002"].occupants] == [("CUSTOM_GPU",)]


def test_allocation_of_a_server_that_left_is_read_again(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    """Removing it changes no generation."""
    tiny, facts = cloud
    names = listed(tiny, 8)
    run(tiny, "gpu001", "ours")
    facts.on_hosts(names)
    (nova,) = (reply for path, reply in tiny.lies if path.endswith("/detail"))
    nova.body["hypervisors"][1]["servers"] = []  # type: ignore[index]
    (one,) = facts.on_hosts(names)["gpu001"].occupants
    assert (one.id, one.nova, one.placement) == ("ours", False, True)
    del tiny.lies[0]
    tiny.used["of-gpu001"]["VCPU"] = 0
    assert not facts.on_hosts(names)["gpu001"].occupants


def test_unchanged_generation_is_trusted_for_a_limited_time(
    cloud: tuple[TinyCloud, OpenStackFacts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restored Placement may reach the same generations again."""
    tiny, facts = cloud
    names = listed(tiny, 8)
    facts.on_hosts(names)
    monkeypatch.setattr(consumers, "SAME", -1.0)
    run(tiny, "gpu001", "theirs")
    tiny.trees["of-gpu001"]["of-gpu001"] -= 1
    assert [o.id for o in facts.on_hosts(names)["gpu001"].occupants] == ["theirs"]


def test_device_of_a_listing_is_asked_about_whatever_another_thread_has_read(
    cloud: tuple[TinyCloud, OpenStackFacts], sessions: Sessions
) -> None:
    """Else the host would count as read, with that device's generation, as long as it doesn't change."""
    tiny, _ = cloud
    names = listed(tiny, 4)
    leak = {"allocations": {"leak": {"resources": {"CUSTOM_GPU": 1}}}}
    tiny.lies.insert(0, (f"{OF}/pci-gpu001/allocations", Reply(200, leak)))
    with ThreadPoolExecutor(1) as asking:
        read, own = consumers.Consumers(asking, (UnknownError,)), sessions.own()
        shown = {f"of-{n}": ("seen",) for n in names}
        newer = read.overview(own, shown)
        del tiny.trees["of-gpu001"]["pci-gpu001"]
        read.overview(own, shown)  # a listing that began before the device was there and ends later
        assert read.of(own, "gpu001", "of-gpu001", newer).keys() == {"leak"}


def test_ids_of_hypervisors_come_with_any_listing_of_all(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    tiny, facts = cloud
    names = listed(tiny, 8)
    facts.servers_on_hosts()
    tiny.asked.clear()
    assert not any(one.unknown for one in facts.on_hosts(names).values())
    assert sum("os-hypervisors" in line for line in tiny.asked) == 1
