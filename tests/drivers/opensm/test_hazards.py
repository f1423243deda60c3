"""Each hazard of OpenSM, planted on the fake and on the real program: it is noticed, reported and repaired."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import pytest

from tests.drivers.opensm.rigs import RealRig, Rig, host_ports, parsed, partition, scope, seen, until
from weft.model.errors import PermanentError, TemporaryError, UnknownError
from weft.model.fabric import ManagerState
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.resources import Observed, Resource, Status
from weft.model.specs import SegmentSpec

OPEN = {0xFFFF}


def _settled(rig: Rig, wanted: Resource, pod: int = 1) -> bool:
    found = seen(rig, wanted, pod)
    return found is not None and found.status is Status.SETTLED


def _made(rig: Rig, members: int = 3, pkey: int = 0x101, pod: int = 1) -> Resource:
    wanted = partition(pkey, host_ports(rig.site)[:members])
    assert rig.driver.create(scope(pod), [wanted], {})["partition"].error is None
    until("it is settled", lambda: _settled(rig, wanted, pod))
    return wanted


def _unsettled(rig: Rig, wanted: Resource) -> Observed:
    found = seen(rig, wanted)
    assert found is not None and found.status is not Status.SETTLED and found.reason
    return found


def _problems(rig: Rig) -> str:
    status = rig.driver.status()
    return "\n".join([*status.problems, *(p for m in status.managers for p in m.problems)])


def _put_right(rig: Rig, wanted: Resource) -> None:
    """Update until the partition is settled, as the loop does."""

    def step() -> bool:
        if _settled(rig, wanted):
            return True
        with suppress(TemporaryError):
            rig.driver.update(scope(), [wanted], {})
        return False

    until("it is put right", step)


def test_unparsable_file_is_reported_and_not_overwritten(rig: Rig) -> None:
    """OpenSM opens all ports then. weft writes nothing until the file is repaired."""
    wanted = _made(rig)
    text = rig.text("sm1") or ""
    rig.edit("sm1", "Broken=0x7000 ipoib 0x1234=full\n" + text)
    rig.hup("sm1")
    port = host_ports(rig.site)[0]
    until("it fails open", lambda: rig.driver.tables([port])[port].keys == OPEN)
    found = _unsettled(rig, wanted)
    assert any(d.observed == "no member" for d in found.differences)
    until("the log is read", lambda: "PARSE ERROR" in _problems(rig))
    broken = rig.text("sm1")
    with pytest.raises(PermanentError, match="line 1"):
        rig.driver.update(scope(), [wanted], {})
    assert rig.text("sm1") == broken
    rig.edit("sm1", text)
    _put_right(rig, wanted)
    until("no trouble is left", lambda: _problems(rig) == "")


def test_missing_file_is_reported_and_recreated(rig: Rig) -> None:
    """OpenSM logs nothing about it, but the agent does, and the next change closes the ports again."""
    wanted = _made(rig)
    rig.edit("sm1", None)
    rig.hup("sm1")
    port = host_ports(rig.site)[0]
    until("it fails open", lambda: rig.driver.tables([port])[port].keys == OPEN)
    assert "missing" in _problems(rig)
    assert "sm1" in _unsettled(rig, wanted).reason
    _put_right(rig, wanted)
    others = [g for g in host_ports(rig.site) if g not in parsed(wanted)]
    assert all(rig.driver.tables([g])[g].keys == {0x7FFF} for g in others)


def test_empty_file_gets_a_default_partition(rig: Rig) -> None:
    """Without a definition OpenSM opens all ports, so weft never writes such a file."""
    rig.edit("sm1", "# nothing\n")
    rig.edit("sm2", "")
    wanted = partition(0x101, host_ports(rig.site)[:2])
    rig.driver.create(scope(), [wanted], {})
    rig.driver.delete(scope(), [wanted], {})
    until("it is gone", lambda: seen(rig, wanted) is None)
    assert all(rig.driver.tables([g])[g].keys == {0x7FFF} for g in host_ports(rig.site))


@pytest.mark.parametrize("leaf", [False, True])
def test_foreign_key_in_a_table_is_repaired(rig: Rig, leaf: bool) -> None:
    """A port that isn't a member has the pod's key, and no sweep repairs it."""
    wanted = _made(rig)
    intruder = host_ports(rig.site)[5]
    rig.write_key(intruder, 40, 0x8101, leaf)
    rig.hup("sm1")
    [difference] = _unsettled(rig, wanted).differences
    assert difference.wanted == "no member" and f"{intruder:016x}" in difference.field
    _put_right(rig, wanted)
    table = rig.driver.tables([intruder])[intruder]
    assert table.keys == table.leaf_keys == {0x7FFF}


def test_member_made_limited_externally_is_repaired(rig: Rig) -> None:
    """A limited member isn't a full member."""
    wanted = _made(rig)
    member = host_ports(rig.site)[1]
    if hasattr(rig.driver, "erase_key"):
        rig.driver.erase_key(member, 0x8101)  # pyright: ignore
    rig.write_key(member, 1, 0x0101)
    found = _unsettled(rig, wanted)
    assert [d.observed for d in found.differences] == ["limited"]
    _put_right(rig, wanted)


def test_stray_key_without_an_owner_is_removed(rig: Rig) -> None:
    """A key of weft's range without a partition is listed by the audit and can be removed."""
    port = host_ports(rig.site)[4]
    rig.write_key(port, 33, 0x8155)
    [thing] = rig.driver.marked("lab", [])
    assert thing.id == "0x155" and thing.owner is None and f"0x{port:016x}" in str(thing.facts["ports"])
    assert rig.driver.remove_marked([thing])["0x155"].error is None
    until("it is gone", lambda: rig.driver.marked("lab", []) == [])


def test_full_table_is_reported(rig: Rig) -> None:
    """OpenSM still says SUBNET UP; the key that didn't fit is missing, and the log is the reason."""
    ports = host_ports(rig.site)
    many = [partition(0x101 + i, ports[:2], f"partition/{i}") for i in range(63)]
    rig.driver.create(scope(2), many, {})
    over = partition(0x17E, ports[1:3])
    assert rig.driver.create(scope(), [over], {})["partition"].error is None
    found = _unsettled(rig, over)
    assert {d.observed for d in found.differences} == {"no member"}
    assert all(f"{ports[1]:016x}" in d.field for d in found.differences)
    until("the log is read", lambda: "ERR 0512" in _problems(rig))
    until("it is the reason", lambda: "table is full" in _unsettled(rig, over).reason)
    rig.driver.delete(scope(2), many, {})
    _put_right(rig, over)


def test_takeover_by_a_stale_standby_is_repaired(rig: Rig) -> None:
    """A standby that couldn't be written is named; when it takes over, the partition is lost and repaired."""
    rig.stop("agent-sm2")
    wanted = partition(0x101, host_ports(rig.site)[:3])
    assert rig.driver.create(scope(), [wanted], {})["partition"].error is None
    until("it is settled", lambda: _settled(rig, wanted))
    found = seen(rig, wanted)
    assert found is not None and found.differences == () and "sm2" in found.reason
    assert "sm2" in _problems(rig)
    rig.start("agent-sm2")
    until("it answers", lambda: "file of sm2" in (((s := seen(rig, wanted)) and s.reason) or ""))
    rig.stop("opensm-sm1")
    until("the standby rules", lambda: rig.driver.status().managers[1].state is ManagerState.MASTER)
    port = host_ports(rig.site)[0]
    until("the tenant is wiped out", lambda: rig.driver.tables([port])[port].keys == {0x7FFF})
    assert not _settled(rig, wanted)
    _put_right(rig, wanted)
    rig.start("opensm-sm1")
    until(
        "it is settled under the first manager too",
        lambda: rig.driver.status().known and _settled(rig, wanted),
    )


def test_fabric_without_a_manager_is_unknown(rig: Rig) -> None:
    """Every question says so, and nothing is written."""
    wanted = _made(rig)
    text = rig.text("sm1")
    rig.stop("opensm-sm2")
    rig.stop("opensm-sm1")
    status = rig.driver.status()
    assert not status.known and [m.state for m in status.managers] == [ManagerState.DOWN] * 2
    for ask in (
        lambda: rig.driver.find(scope(), [wanted], {}),
        lambda: rig.driver.create(scope(), [partition(0x102, [])], {}),
        lambda: rig.driver.delete(scope(), [wanted], {}),
        rig.driver.tables,
        lambda: rig.driver.marked("lab", []),
    ):
        with pytest.raises(UnknownError):
            ask()
    assert rig.text("sm1") == text
    rig.start("opensm-sm1")
    rig.start("opensm-sm2")
    until("it is settled again", lambda: _settled(rig, wanted))


def test_unreachable_agent_of_the_master_is_unknown(rig: Rig) -> None:
    """Even if the subnet manager is well."""
    wanted = _made(rig)
    rig.stop("agent-sm1")
    with pytest.raises(UnknownError, match="sm1"):
        rig.driver.find(scope(), [wanted], {})
    assert rig.driver.status().managers[0].state is ManagerState.UNKNOWN
    rig.start("agent-sm1")
    until("it is settled again", lambda: _settled(rig, wanted))


def test_rogue_edit_of_wefts_section_is_repaired(rig: Rig) -> None:
    """A port that was added to a pod's partition in the file is noticed there and in the tables, and removed."""
    wanted = _made(rig)
    intruder = host_ports(rig.site)[6]
    text = rig.text("sm1") or ""
    head = "weft-00000001-101=0x101, ipoib :\n"
    assert head in text
    rig.edit("sm1", text.replace(head, f"{head}0x{intruder:016x}=full,\n"))
    rig.hup("sm1")
    until("it is a member", lambda: 0x8101 in rig.driver.tables([intruder])[intruder].keys)
    fields = {d.field for d in _unsettled(rig, wanted).differences}
    assert fields == {"file of sm1", f"port 0x{intruder:016x}"}
    assert "sections" in _problems(rig)
    _put_right(rig, wanted)
    assert rig.text("sm1") == text == rig.text("sm2")


def test_rogue_removal_of_a_partition_is_repaired(rig: Rig) -> None:
    """Without it in the file its keys go, and the next update brings them back."""
    wanted = _made(rig)
    text = rig.text("sm1") or ""
    rig.edit("sm1", text.partition("# weft site=")[0] + "# END weft site=lab\n")
    rig.hup("sm1")
    port = host_ports(rig.site)[0]
    until("the keys are gone", lambda: rig.driver.tables([port])[port].keys == {0x7FFF})
    assert not _settled(rig, wanted)
    _put_right(rig, wanted)


def test_member_with_a_pulled_cable_is_a_problem(rig: Rig) -> None:
    """It can't be shown to be a member nor, after deletion, to be none, until the cable is back."""
    wanted = _made(rig)
    port = host_ports(rig.site)[1]
    rig.cut(port)
    [difference] = _unsettled(rig, wanted).differences
    assert f"{port:016x}" in difference.field and "not seen" in difference.observed
    assert rig.driver.delete(scope(), [wanted], {})["partition"].error is None
    found = _unsettled(rig, wanted)
    assert "can't be proved absent" in found.reason and f"{port:016x}" in found.reason
    rig.repair(port)
    until("it is gone", lambda: seen(rig, wanted) is None)
    table = rig.driver.tables([port])[port]
    assert table.keys == table.leaf_keys == {0x7FFF}


class Book:
    """A database in which the partition of pod 1 is wanted."""

    def __init__(self, wanted: Resource) -> None:
        assert isinstance(wanted.spec, SegmentSpec)
        self._wanted = {scope().mark(wanted.key): wanted.spec}
        self.events: list[tuple[Owner, str]] = []

    def wanted(self, settled: bool = False) -> Mapping[Mark, SegmentSpec]:
        return self._wanted

    def known(self, marks: Collection[Mark]) -> Mapping[Mark, bool]:
        return {m: False for m in marks if m in self._wanted}

    def waiting(self) -> Sequence[str]:
        return ()

    def record_event(self, owner: Owner, message: str) -> None:
        self.events.append((owner, message))


def test_section_lost_on_every_manager_is_restored(rig: Rig) -> None:
    """The files were replaced from outside: another pod's change restores the lost partition, with an event."""
    wanted = _made(rig)
    for agent in ("sm1", "sm2"):
        rig.edit(agent, (rig.text(agent) or "").partition("# BEGIN weft")[0])
    rig.hup("sm1")
    port = host_ports(rig.site)[0]
    until("the keys are gone", lambda: rig.driver.tables([port])[port].keys == {0x7FFF})
    book = Book(wanted)
    driver = rig.another_driver(book)
    assert any("0x101 was missing" in p for p in driver.status().problems)
    other = partition(0x102, host_ports(rig.site)[3:5])
    assert driver.create(scope(2), [other], {})["partition"].error is None
    until("both are settled", lambda: _settled(rig, wanted) and _settled(rig, other, 2))
    assert [pod for pod, _ in book.events] == [scope().owner] and "was restored" in book.events[0][1]
    assert rig.text("sm1") == rig.text("sm2")


def test_desired_partition_cannot_be_removed_by_an_edit(rig: Rig) -> None:
    """A removal by the sweep, or by a release that the database doesn't know, is refused."""
    wanted = _made(rig)
    driver = rig.another_driver(Book(wanted))
    [thing] = driver.marked("lab", [])
    assert driver.remove_marked([thing])["0x101"].error is not None
    with pytest.raises(PermanentError, match="is still desired"):
        driver.delete(scope(), [wanted], {})
    assert _settled(rig, wanted)


def test_standby_is_brought_up_to_date_without_an_order(rig: Rig) -> None:
    """It was away while partitions were created and deleted; a look updates it and changes nothing at the master."""
    gone = _made(rig, pkey=0x103, pod=3)
    rig.stop("agent-sm2")
    wanted = _made(rig)
    rig.driver.delete(scope(3), [gone], {})
    rig.start("agent-sm2")
    book = Book(wanted)
    driver = rig.another_driver(book)
    rig.edit("sm2", (rig.text("sm2") or "").replace("0x103", "0x104"))  # unknown partitions stay
    until("it is level", lambda: driver.level().unread == {} and rig.text("sm1") == rig.text("sm2"))
    assert "0x104" in (rig.text("sm1") or "") and "0x101" in (rig.text("sm2") or "") and not book.events
    driver.remove_marked([t for t in driver.marked("lab", []) if t.id == "0x104"])


@pytest.mark.fabric
def test_silent_leaf_hides_only_its_own_ports(real: RealRig) -> None:
    """One leaf loses datagrams; the ports of others are read."""
    ports = host_ports(real.site)
    real.faults.lose("leaf02", 100, port=0)
    try:
        tables = real.driver.tables(None)
        unread = {g for g in ports if tables[g].unreachable}
        assert unread and unread != set(ports)
        wanted = partition(0x101, sorted(set(ports) - unread)[:2])
        assert real.driver.create(scope(), [wanted], {})["partition"].error is None
        until("it is settled", lambda: _settled(real, wanted))
    finally:
        real.faults.lose("leaf02", 0, port=0)
    until("all are back", lambda: not any(t.unreachable for t in real.driver.tables().values()))
