"""What the driver guarantees, on the fake and on OpenSM over ibsim alike."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.drivers.opensm.rigs import FABRIC, FOREIGN, FakeRig, Rig, host_ports, partition, scope, seen, until
from weft.drivers.opensm import OpenSmDriver
from weft.drivers.wire.items import Plane
from weft.model.errors import PermanentError, UnknownError
from weft.model.fabric import ManagerState
from weft.model.fabrictypes import Mode
from weft.model.ids import DEFAULT_PKEY, format_guid
from weft.model.resources import Kind, Resource, Status
from weft.model.site import FabricManager, Site
from weft.model.specs import SegmentSpec
from weft.planning.fabric.portkeys import full
from weft.ports.ledger import NoLedger


def test_partition_that_was_never_created_is_absent(rig: Rig) -> None:
    assert seen(rig, partition(0x101, host_ports(rig.site)[:2])) is None
    assert rig.driver.marked("lab", []) == []


def test_create_makes_exactly_the_members(rig: Rig) -> None:
    """Members are full on their own port and on their leaf's, and no other port has the key."""
    ports = host_ports(rig.site)
    wanted = partition(0x101, ports[:3])
    outcome = rig.driver.create(scope(), [wanted], {})["partition"]
    assert outcome.error is None and outcome.id == "0x101"
    until("it is settled", lambda: (s := seen(rig, wanted)) and s.status is Status.SETTLED)
    assert (found := seen(rig, wanted)) is not None and found.differences == ()
    tables = rig.driver.tables()
    for guid in ports:
        expected = {0x7FFF, 0x8101} if guid in ports[:3] else {0x7FFF}
        assert tables[guid].keys == tables[guid].leaf_keys == expected


def test_create_is_idempotent(rig: Rig) -> None:
    """After a lost answer the same call gives the same partition, and the file doesn't change."""
    wanted = partition(0x101, host_ports(rig.site)[:2])
    rig.driver.create(scope(), [wanted], {})
    text = rig.text("sm1")
    assert rig.driver.create(scope(), [wanted], {})["partition"].error is None
    assert rig.text("sm1") == text
    assert len(rig.driver.marked("lab", [])) == 1


def test_all_managers_have_the_same_file(rig: Rig) -> None:
    """A takeover must change nothing."""
    rig.driver.create(scope(), [partition(0x101, host_ports(rig.site)[:2])], {})
    assert rig.text("sm1") == rig.text("sm2")
    assert rig.driver.status().problems == ()


def test_update_replaces_members(rig: Rig) -> None:
    """A port that is no longer a member loses the key."""
    ports = host_ports(rig.site)
    rig.driver.create(scope(), [partition(0x101, ports[:2])], {})
    moved = partition(0x101, ports[1:3])
    found = seen(rig, moved)
    assert found is not None and found.differences
    assert rig.driver.update(scope(), [moved], {})["partition"].error is None
    until("it is settled", lambda: (s := seen(rig, moved)) and s.status is Status.SETTLED)
    assert 0x8101 not in rig.driver.tables([ports[0]])[ports[0]].keys


def test_segment_without_members_still_exists(rig: Rig) -> None:
    """The key leaves every port, and the partition still has its owner."""
    ports = host_ports(rig.site)
    rig.driver.create(scope(), [partition(0x101, ports[:2])], {})
    empty = partition(0x101, [])
    rig.driver.update(scope(), [empty], {})
    until("it is settled", lambda: (s := seen(rig, empty)) and s.status is Status.SETTLED)
    assert all(t.keys == {0x7FFF} for g, t in rig.driver.tables(ports).items())


def test_delete_leaves_nothing_and_is_idempotent(rig: Rig) -> None:
    """The files and every port lose it; deleting what is absent succeeds."""
    wanted = partition(0x101, host_ports(rig.site)[:3])
    rig.driver.create(scope(), [wanted], {})
    for _ in range(2):
        assert rig.driver.delete(scope(), [wanted], {})["partition"].error is None
    until("it is gone", lambda: seen(rig, wanted) is None)
    assert all(0x8101 not in t.keys | (t.leaf_keys or set()) for t in rig.driver.tables().values())


def test_foreign_bytes_of_the_file_are_kept(rig: Rig) -> None:
    """Byte for byte, with odd bytes and blanks, and still in effect."""
    ports = host_ports(rig.site)
    before = (rig.text("sm1") or "") + "\t# \xe9\xff \n" + FOREIGN.format(ports[6], ports[7])
    after = "\n# below weft's section\n"
    for agent in ("sm1", "sm2"):
        rig.edit(agent, before)
    wanted = partition(0x101, ports[:2])
    rig.driver.create(scope(), [wanted], {})
    for agent in ("sm1", "sm2"):
        rig.edit(agent, (rig.text(agent) or "") + after)
    rig.driver.update(scope(), [partition(0x101, ports[:3])], {})
    rig.driver.delete(scope(2), [partition(0x102, ports[:3])], {})
    text = rig.text("sm1") or ""
    assert text.startswith(before) and text.endswith(after)
    until("it has its key", lambda: rig.driver.tables([ports[6]])[ports[6]].keys == {0x7FFF, 0xA001})
    assert rig.driver.partitions()[0x2001].members == {
        ports[6]: Mode.FULL,
        ports[7]: Mode.LIMITED,
    }


def test_concurrent_workers_lose_no_change(rig: Rig) -> None:
    """Several workers, each with its own driver, change the file at the same time."""
    ports = host_ports(rig.site)
    drivers = [rig.driver, rig.another_driver(), rig.another_driver()]
    pods = range(1, 10)

    def make(pod: int) -> None:
        wanted = partition(0x100 + pod, ports[:2])
        outcome = drivers[pod % 3].create(scope(pod), [wanted], {})["partition"]
        assert outcome.error is None

    with ThreadPoolExecutor(9) as pool:
        list(pool.map(make, pods))
    for pod in pods:
        wanted = partition(0x100 + pod, ports[:2])
        until("it is settled", lambda: (s := seen(rig, wanted, pod)) and s.status is Status.SETTLED)  # noqa: B023
    assert {m.id for m in rig.driver.marked("lab", [])} == {f"0x{0x100 + p:x}" for p in pods}


def test_batch_is_made_in_one_change(rig: Rig) -> None:
    """Two partitions of one pod in one call."""
    ports = host_ports(rig.site)
    wanted = [partition(0x101, ports[:2], "partition"), partition(0x102, ports[2:4], "other")]
    outcomes = rig.driver.create(scope(), wanted, {})
    assert {k: o.id for k, o in outcomes.items()} == {"partition": "0x101", "other": "0x102"}

    def states() -> set[Status]:
        return {o.status for o in rig.driver.find(scope(), wanted, {}).values()}

    until("both are settled", lambda: states() == {Status.SETTLED})
    assert rig.driver.find(scope(), wanted, {}).keys() == {"partition", "other"}


def test_paths_exist_only_inside_the_partition(rig: Rig) -> None:
    """The subnet administrator gives members a path with the key, and others none."""
    ports = host_ports(rig.site)
    rig.driver.create(scope(), [partition(0x101, ports[:2])], {})
    rig.driver.create(scope(2), [partition(0x102, ports[2:4])], {})
    pairs = [(ports[0], ports[1]), (ports[0], ports[2]), (ports[2], ports[3]), (ports[0], ports[5])]
    wanted = [(True, 0x101), (False, None), (True, 0x102), (False, None)]
    until("paths are as wanted", lambda: [(p.path, p.pkey) for p in rig.driver.paths(pairs)] == wanted)


@pytest.mark.parametrize(("pkey", "why"), [(0x3000, "range"), (0x101, "taken"), (0x110, "someone else")])
def test_taken_key_is_refused(rig: Rig, pkey: int, why: str) -> None:
    """Outside weft's range, another pod's, or the operator's: the reason is given and nothing is changed."""
    ports = host_ports(rig.site)
    rig.driver.create(scope(2), [partition(0x101, ports[:2])], {})
    foreign = f"Theirs=0x110 : 0x{ports[7]:016x}=full;\n"
    for agent in ("sm1", "sm2"):
        rig.edit(agent, foreign + (rig.text(agent) or ""))
    text = rig.text("sm1")
    outcome = rig.driver.create(scope(), [partition(pkey, ports[2:4])], {})["partition"]
    assert isinstance(outcome.error, PermanentError) and why in str(outcome.error)
    assert rig.text("sm1") == text


def test_marked_partitions_are_listed_and_removed(rig: Rig) -> None:
    """The audit finds partitions by the mark with their pod and can remove them; another pod can't."""
    rig.driver.create(scope(), [partition(0x101, host_ports(rig.site)[:2])], {})
    [thing] = rig.driver.marked("lab", [])
    assert (thing.kind, thing.id, thing.owner) == (Kind.SEGMENT, "0x101", scope().owner)
    assert rig.driver.marked("another-site", []) == []
    rig.driver.delete(scope(), [partition(0x101, host_ports(rig.site)[:2])], {})
    rig.driver.create(scope(2), [partition(0x101, host_ports(rig.site)[:2])], {})
    assert rig.driver.remove_marked([thing])["0x101"].error is not None
    [thing] = rig.driver.marked("lab", [])
    assert rig.driver.remove_marked([thing])["0x101"].error is None
    until("it is gone", lambda: rig.driver.marked("lab", []) == [])


def test_status_and_partitions_are_reported(rig: Rig) -> None:
    """One master, one standby, equal files, no problems; the default partition is configured."""
    status = rig.driver.status()
    assert [m.state for m in status.managers] == [ManagerState.MASTER, ManagerState.STANDBY]
    assert status.known and status.problems == () and all(m.problems == () for m in status.managers)
    assert status.managers[0].configuration_digest == status.managers[1].configuration_digest != ""
    assert DEFAULT_PKEY in rig.driver.partitions()


def test_topology_matches_the_site(rig: Rig) -> None:
    """Every switch, adapter and cable is discovered, by GUID and port."""
    site, observed = rig.site, rig.driver.topology()
    guids = {s.name: s.guid for s in site.switches}
    guids |= {f"{n.name}/{h.name}": h.guid for n in site.nodes for h in n.hcas}
    wanted = {frozenset({(guids[k.a], k.a_port), (guids[k.b], k.b_port)}) for k in site.links}
    assert {frozenset((e.guid, e.port) for e in link) for link in observed.links} == wanted
    assert {n.guid for n in observed.nodes} == set(guids.values())
    assert {g for n in observed.nodes for g in n.port_guids} == set(site.hca_by_port_guid)


def test_virtual_functions_are_refused_by_capability(rig: Rig) -> None:
    """The reason is in the driver's capabilities, which the planner reports."""
    capabilities = rig.driver.capabilities
    assert not capabilities.virtual_functions and "virtual" in capabilities.why_no_virtual_functions


def test_fabric_without_agents_is_unknown() -> None:
    """Neither well nor absent."""
    site = FakeRig().site
    fabric = site.fabrics[FABRIC].model_copy(update={"manager": FabricManager(driver="opensm")})
    lonely = OpenSmDriver(site.model_copy(update={"fabrics": {FABRIC: fabric}}), FABRIC, NoLedger())
    with pytest.raises(UnknownError, match="names no agent"):
        lonely.find(scope(), [partition(0x101, host_ports(site)[:2])], {})
    assert not lonely.status().known


def test_full_port_table_is_reported(rig: Rig) -> None:
    """Sizes are read from the ports. Partitions of all ports count, a pod's own key doesn't; the size of a port that
    is cut off is unknown.
    """
    ports = host_ports(rig.site)
    others = "".join(
        f"o{n}=0x{0x2000 + n:x} : 0x{ports[0]:016x}=full, 0x{ports[1]:016x}=limited;\n" for n in range(61)
    )
    text = rig.text("sm1") or ""
    for agent in ("sm1", "sm2"):
        rig.edit(agent, text + others + "all=0x3001 : ALL=limited;\n")
    rig.hup("sm1")
    rig.driver.create(scope(), [partition(0x101, ports[:1])], {})
    until("the last key is there", lambda: 0x8101 in rig.driver.tables([ports[0]])[ports[0]].keys)
    tight = rig.driver.usage().tight
    assert {p.port for p in tight} == {format_guid(g) for g in ports}
    assert {p.entries for p in tight} == {64}
    words = rig.site.fabrics[FABRIC].words
    assert [p.port for p in tight if full(p, words, ())] == [format_guid(ports[0])]
    assert not any(full(p, words, {0x101}) for p in tight)
    more = partition(0x102, ports[:2])
    rig.driver.create(scope(2), [more], {})
    until("the key is there", lambda: 0x8102 in rig.driver.tables([ports[1]])[ports[1]].keys)
    # a pod there would have a 65th key for 64 entries, and OpenSM drops one without an error
    assert len(rig.driver.tables([ports[0]])[ports[0]].keys) == 64
    rig.cut(ports[2])
    assert ports[2] not in rig.another_driver().entries(ports[:3])


def machines_site(rig: Rig, names: Collection[str]) -> Site:
    """The same site, where these nodes are bare-metal machines."""
    machine = {"machine": "12345678-0000-4000-8000-000000000001"}
    nodes = [n.model_copy(update=machine if n.name in names else {}) for n in rig.site.nodes]
    return rig.site.model_copy(update={"nodes": tuple(nodes)})


def results(driver: OpenSmDriver, former: Resource, plane: Plane) -> list[tuple[str, str]]:
    """What was observed of former members in this plane: result and text."""
    assert isinstance(former.spec, SegmentSpec)
    clean = driver.clean(former.spec, driver.snapshot())
    return [(i.result, i.seen) for i in clean.items if i.plane == plane]


def test_leaf_port_proves_a_powered_off_machine_clean_but_no_other_host(rig: Rig) -> None:
    """Its own table can't be read, and is rewritten when the port comes up."""
    nodes = [n for n in rig.site.nodes if n.role == "compute"][:2]
    first, second = (n.hcas[0].port_guid for n in nodes)
    driver = rig.another_driver(site=machines_site(rig, [n.name for n in nodes]))
    former = partition(0x101, [first, second])
    driver.create(scope(), [former], {})
    until("they are members", lambda: 0x8101 in driver.tables([second])[second].leaf_keys or ())
    places = results(driver, former, Plane.ADAPTER)
    assert [r for r, _ in places] == ["clean"] * 2 and all("where the site has it" in s for _, s in places)
    rig.switch_off(first)
    driver.delete(scope(), [former], {})
    until("it is proved absent", lambda: not driver.find(scope(), [former], {})["partition"].there)
    (one, seen_of_one), (other, _) = results(driver, former, Plane.HOST)
    assert (one, other) == ("clean", "clean") and "nothing is seen at" in seen_of_one
    assert "0x8101" not in seen_of_one
    (_, text), (_, on) = results(driver, former, Plane.ADAPTER)
    assert "its port is down" in text and "where the site has it" in on
    as_host = rig.another_driver()
    assert as_host.find(scope(), [former], {})["partition"].there
    assert [r for r, _ in results(as_host, former, Plane.HOST)] == ["unknown", "clean"]
    assert results(as_host, former, Plane.ADAPTER) == []


def test_machines_with_swapped_adapters_are_not_clean(rig: Rig) -> None:
    """Each has the other's GUID; the site says the same if their two cables were swapped."""
    nodes = [n for n in rig.site.nodes if n.role == "compute"][:2]
    swapped = machines_site(rig, [n.name for n in nodes])
    one, two = (f"{n.name}/{n.hcas[0].name}" for n in nodes)
    links = [
        k.model_copy(
            update={"a": {one: two, two: one}.get(k.a, k.a), "b": {one: two, two: one}.get(k.b, k.b)}
        )
        for k in swapped.links
    ]
    driver = rig.another_driver(site=swapped.model_copy(update={"links": tuple(links)}))
    former = partition(0x101, [n.hcas[0].port_guid for n in nodes])
    found = results(driver, former, Plane.ADAPTER)
    assert [r for r, _ in found] == ["not clean"] * 2 and all("the site has it at" in s for _, s in found)
