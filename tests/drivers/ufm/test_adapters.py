"""Virtual functions, and adapters of bare-metal machines without an agent, as UFM has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.opensm.rigs import scope
from tests.drivers.ufm.rigs import KEY, UfmRig, create, seen, segment, spec
from weft.model.errors import UnknownError
from weft.model.fabric import Membership
from weft.model.ids import format_guid
from weft.model.problem import ProblemKind
from weft.model.resources import Resource, Status
from weftlab.ufm.inventory import Inventory, VirtualPort

Row = dict[str, Any]


@pytest.fixture
def rig(tmp_path: Path) -> UfmRig:
    return UfmRig(tmp_path)


def test_virtual_port_is_a_member_by_its_guid(tmp_path: Path) -> None:
    """Its adapter's own port isn't in the partition; its node is the adapter's."""
    probe = UfmRig(tmp_path)
    physical = probe.ports()[2]
    virtual = "0x0011220300334456"
    rig = UfmRig(tmp_path, virtual=(VirtualPort(virtual[2:], physical[2:]),))
    assert rig.driver.capabilities.virtual_functions
    wanted = segment(KEY, [rig.ports()[0], virtual])
    assert create(rig, wanted).error is None
    found = seen(rig, wanted)
    assert found.status is Status.SETTLED
    snapshot = rig.driver.snapshot()
    assert snapshot.ports[virtual].node == rig.site.nodes[2].name
    assert snapshot.ports[physical].numbers == {0x7FFF}
    assert rig.driver.check(spec(wanted), snapshot).problems == ()
    rig.driver.delete(scope(), [wanted], {})
    items = rig.driver.clean(spec(wanted), rig.driver.snapshot()).items
    assert {i.result for i in items} == {"clean"} and any(virtual in i.subject for i in items)


def behind(wanted: Resource, virtual: str, *physical: str) -> Resource:
    """The same, with a virtual function that may be behind these ports."""
    old = spec(wanted)
    member = Membership(port=virtual, behind=tuple(sorted(physical)))
    members = (*(m for m in old.members if m.port != virtual), member)
    return wanted.model_copy(
        update={"spec": old.model_copy(update={"members": tuple(sorted(members, key=lambda m: m.port))})}
    )


def test_function_is_up_once_its_port_is_only_behind_its_node(tmp_path: Path) -> None:
    """What UFM shows after the server booted: nothing yet, down, active, elsewhere, in two places."""
    rig = UfmRig(tmp_path)
    first, second, other = rig.ports()[:3]
    virtual = "0x0011220300334456"
    wanted = behind(segment(KEY, [virtual]), virtual, first, second)
    assert create(rig, wanted).error is None

    def found(*ports: VirtualPort) -> list[tuple[ProblemKind, tuple[str, ...], str]]:
        rig.ufm.inventory.virtual = list(ports)
        check = rig.driver.check(spec(wanted), rig.driver.snapshot())
        assert all(virtual in p.subject for p in check.problems)
        return [(p.kind, p.nodes, p.detail["why"]) for p in check.problems]

    guid, names = virtual[2:], [n.name for n in rig.site.nodes[:3]]
    own = tuple(sorted(names[:2]))
    assert [f[:2] for f in found()] == [(ProblemKind.FUNCTION_DOWN, own)]
    assert found(VirtualPort("0" * 16, first[2:])) == found()
    [down] = found(VirtualPort(guid, second[2:], "DOWN"))
    assert down == (ProblemKind.FUNCTION_DOWN, own, "UFM shows it as DOWN")
    assert found(VirtualPort(guid, first[2:])) == found(VirtualPort(guid, second[2:], "Active")) == []
    kinds = [f[:2] for f in found(VirtualPort(guid, other[2:]))]
    assert kinds == [(ProblemKind.FUNCTION_ELSEWHERE, (names[2],)), (ProblemKind.FUNCTION_DOWN, own)]
    [twice] = found(VirtualPort(guid, first[2:]), VirtualPort(guid, other[2:]))
    assert twice[0] is ProblemKind.FUNCTION_ELSEWHERE and names[2] in twice[2]
    for place in (
        first,
        second,
    ):  # an earlier server's on the same node: which is the pod's isn't known
        [both] = found(VirtualPort(guid, first[2:]), VirtualPort(guid, place[2:]))
        assert both[:2] == (ProblemKind.FUNCTION_ELSEWHERE, own) and "2 active virtual ports" in both[2]
    assert found(VirtualPort(guid, first[2:]), VirtualPort(guid, second[2:], "DOWN")) == []


def test_row_listed_on_two_pages_counts_as_one_virtual_port(rig: UfmRig) -> None:
    """The list grew between two requests: the same adapter and LID are listed twice."""
    virtual, physical = format_guid(0x1234), rig.ports()[0]
    wanted = behind(segment(KEY, [virtual]), virtual, physical)
    assert create(rig, wanted).error is None
    row = {"virtual_port_guid": virtual, "port_guid": physical, "virtual_port_state": "ACTIVE"}
    rig.ufm.inventory.vports = lambda query: [{**row, "virtual_port_lid": 7}] * 2  # type: ignore[method-assign]
    assert rig.driver.check(spec(wanted), rig.driver.snapshot()).problems == ()


def test_unreadable_virtual_ports_are_unknown_where_needed(rig: UfmRig) -> None:
    plain = segment(KEY, rig.ports()[:2])
    assert create(rig, plain).error is None
    rig.sent.clear()
    assert rig.driver.check(spec(plain), rig.driver.snapshot()).problems == ()
    assert not [r for r in rig.sent if "vports" in str(r.url)]  # most sites have no virtual ports
    virtual = format_guid(0x1234)
    wanted = behind(segment(KEY, [virtual]), virtual, rig.ports()[0])
    rig.ufm.inventory.vports = lambda query: [{"virtual_port_guid": "no guid", "port_guid": "1"}]  # type: ignore[method-assign]
    snapshot = rig.driver.snapshot()
    rig.sent.clear()
    for _ in range(3):  # the same answer for all that share the snapshot
        with pytest.raises(UnknownError, match="virtual ports"):
            rig.driver.check(spec(wanted), snapshot)
    assert len([r for r in rig.sent if "vports" in str(r.url)]) == 1


@pytest.mark.parametrize("agents", [True, False])
def test_release_waits_until_the_virtual_port_is_down(tmp_path: Path, agents: bool) -> None:
    """If it is up behind its node after the server was deleted, it would be in the next pod's partition."""
    rig = UfmRig(tmp_path, agents=agents)
    virtual, own = format_guid(0x1234), rig.ports()[0]
    wanted = behind(segment(KEY, [virtual]), virtual, own)
    assert create(rig, wanted).error is None
    rig.driver.delete(scope(), [wanted], {})

    def read(*ports: VirtualPort) -> tuple[set[str], str, tuple[str, ...]]:
        rig.ufm.inventory.virtual = list(ports)
        items = rig.driver.clean(spec(wanted), rig.driver.snapshot()).items
        mine = next(i for i in items if virtual in i.subject)
        assert {i.result for i in items if i is not mine} == {"clean"}
        return {mine.result}, mine.seen, mine.nodes

    results, said, nodes = read(VirtualPort(virtual[2:], own[2:]))
    assert results == {"not clean"} and "still be running" in said and nodes == (rig.site.nodes[0].name,)
    results, said, _ = read(VirtualPort(virtual[2:], own[2:], "DOWN"))
    assert results == {"clean"} and "UFM shows it behind" in said
    results, said, _ = read()
    assert results == {"clean"} and "UFM shows no virtual port with it any more" in said
    # elsewhere: else a tenant with a whole adapter could keep others' pods from ending; the next pod's check alarms
    assert read(VirtualPort(virtual[2:], rig.ports()[3][2:]))[0] == {"clean"}
    thief = VirtualPort(virtual[2:], rig.ports()[3][2:])
    assert read(VirtualPort(virtual[2:], own[2:]), thief)[2] == (rig.site.nodes[0].name,), (
        "the thief's node isn't held"
    )
    rig.foreign(
        0x2001, {virtual: "full"}
    )  # an operator's partition of every function of the site proves nothing
    assert read(VirtualPort(virtual[2:], own[2:]))[0] == {"not clean"}
    rig.foreign(KEY + 1, {virtual: "full"})  # weft has assigned it to another pod
    assert read(VirtualPort(virtual[2:], own[2:]))[0] == {"clean"}


@pytest.mark.parametrize("agents", [True, False])
def test_function_is_not_down_if_ufm_discovered_nothing(tmp_path: Path, agents: bool) -> None:
    """A UFM that just started answers, has its partitions, and shows no ports or no virtual ports."""
    rig = UfmRig(tmp_path, agents=agents)
    virtual, own = format_guid(0x1234), rig.ports()[0]
    wanted = behind(segment(KEY, [virtual]), virtual, own)
    assert create(rig, wanted).error is None
    rig.driver.delete(scope(), [wanted], {})
    driver, inventory = rig.another_driver(quiet_seconds=0.2), rig.ufm.inventory

    def read() -> tuple[str, str, tuple[str, ...]]:
        items = driver.clean(spec(wanted), driver.snapshot()).items
        mine = next(i for i in items if virtual in i.subject)
        assert {i.result for i in items if i is not mine} == {"clean"}
        return mine.result, mine.seen, mine.nodes

    nodes = (rig.site.nodes[0].name,)
    result, seen, on = read()
    assert (result, on) == ("unknown", nodes) and "no virtual ports at all" in seen
    time.sleep(0.25)
    assert read()[0] == "clean", "UFM has shown none for long enough"
    inventory.virtual = [VirtualPort("5678", rig.ports()[1][2:])]
    assert read()[0] == "clean", "others' are shown, and this one isn't"
    inventory.virtual = []
    assert read()[0] == "unknown", "one was shown a moment ago, so none is doubtful"
    inventory.virtual = [VirtualPort("5678", rig.ports()[1][2:])]
    rig.blind(own)
    result, seen, on = driver_blind = read()
    assert (result, on) == ("unknown", nodes) and "nothing behind it" in seen, driver_blind


def test_missing_virtual_port_is_pending(rig: UfmRig) -> None:
    """A function may join before it exists; one that is left in UFM's list isn't clean."""
    wanted = segment(KEY, [rig.ports()[0], format_guid(0x1234)])
    assert create(rig, wanted).error is None and seen(rig, wanted).status is Status.SETTLED
    items = rig.driver.clean(spec(wanted), rig.driver.snapshot()).items
    assert any(i.result == "not clean" and format_guid(0x1234) in i.subject for i in items)


# -- bare-metal machines, without an agent --------------------------------------------------------------------------


FLASHED = 0x0002C90300FFFF01


def _down(rows: dict[int, Row], one: int, other: int) -> None:
    rows[one].update(physical_state="Down", logical_state="Down", peer="N/A")


def _coming_up(rows: dict[int, Row], one: int, other: int) -> None:
    """It has a link and its old table, since its subnet manager doesn't sweep."""
    rows[one].update(logical_state="Initialize")


def _dropped(rows: dict[int, Row], one: int, other: int) -> None:
    del rows[one]


def _flashed(rows: dict[int, Row], one: int, other: int) -> None:
    theirs = {
        **rows[one],
        "guid": f"{FLASHED:016x}",
        "systemID": f"{FLASHED:016x}",
        "name": f"{FLASHED:016x}_1",
    }
    _down(rows, one, other)
    rows[FLASHED] = theirs


def _swapped(rows: dict[int, Row], one: int, other: int) -> None:
    rows[one]["peer"], rows[other]["peer"] = rows[other]["peer"], rows[one]["peer"]


@pytest.mark.parametrize(
    ("change", "port", "place", "read"),
    [
        (None, "clean", "clean", "where the site has it"),
        (_down, "clean", "clean", "its port is down"),
        (_coming_up, "unknown", "clean", "UFM shows it as Initialize, Link Up"),
        (_dropped, "unknown", "unknown", "UFM doesn't list it"),
        (_flashed, "clean", "not clean", f"{format_guid(FLASHED)} is seen at"),
        (_swapped, "clean", "not clean", "the site has it at"),
    ],
)
def test_ufm_proves_a_powered_off_machine_clean_unless_adapters_moved(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[dict[int, Row], int, int], None] | None,
    port: str,
    place: str,
    read: str,
) -> None:
    rig = UfmRig(tmp_path, agents=False)
    machine = {"machine": "12345678-0000-4000-8000-000000000001"}
    nodes = [n.model_copy(update=machine) if n.role == "compute" else n for n in rig.site.nodes]
    rig.site = rig.site.model_copy(update={"nodes": tuple(nodes)})
    driver = rig.another_driver()
    one, other = [n.hcas[0].port_guid for n in nodes if n.role == "compute"][:2]
    listed = Inventory.ports

    def changed(self: Inventory, query: Mapping[str, str]) -> list[Row]:
        rows = {int(row["guid"], 16): row for row in listed(self, query)}
        if change is not None:
            change(rows, one, other)
        return list(rows.values())

    monkeypatch.setattr(Inventory, "ports", changed)
    former = spec(segment(KEY, [format_guid(one), format_guid(other)]))
    items = driver.clean(former, driver.snapshot()).items
    mine = {i.plane: (i.result, i.seen) for i in items if format_guid(one) in i.subject}
    assert mine["ufm port"][0] == port and mine["adapter"][0] == place
    assert read in " ".join(seen for _, seen in mine.values())
    assert "UFM's inventory: " in mine["adapter"][1]


def test_receipt_of_virtual_machine_hosts_has_no_adapter_items(tmp_path: Path) -> None:
    rig = UfmRig(tmp_path, agents=False)
    rig.blind(rig.ports()[0])
    items = rig.driver.clean(spec(segment(KEY, rig.ports()[:2])), rig.driver.snapshot()).items
    assert [i.result for i in items if i.plane == "ufm port"] == ["unknown", "clean"]
    assert not [i for i in items if i.plane == "adapter"]
