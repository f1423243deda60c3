"""What weft's section must contain, when files may have lost parts and the database may not know everything."""

from __future__ import annotations

import pytest

from weft.drivers.opensm.agents import FabricAgents, Files
from weft.drivers.opensm.section import Base, base_section
from weft.model.agentapi import AgentPartitions, ConfiguredPartition, WeftPartitionDocument
from weft.model.errors import UnknownError
from weft.model.fabric import ManagerState
from weft.model.fabrictypes import Mode
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.testing.fabric import segment


def mark(pod: int) -> Mark:
    return Mark("lab", Owner.pod(f"{pod:08x}-0000-4000-8000-000000000001"), "partition")


def document(pod: int, *members: int) -> WeftPartitionDocument:
    """The partition of a pod: pod 1 has 0x101, pod 2 has 0x102 …"""
    return WeftPartitionDocument(pkey=0x100 + pod, mark=mark(pod).text(), members=members or (pod,))


def file(
    *documents: WeftPartitionDocument, foreign: int = 0, state: ManagerState = ManagerState.STANDBY
) -> AgentPartitions:
    keys = [d.pkey for d in documents] + ([foreign] if foreign else [])
    configured = [ConfiguredPartition(pkey=k, name="", members={"0x1": Mode.FULL}) for k in keys]
    return AgentPartitions(
        state=state, digest="d", foreign_digest="f", weft=documents, configured=tuple(configured)
    )


def base(
    master: AgentPartitions,
    *standbys: AgentPartitions,
    wanted: tuple[int, ...] = (),
    over: tuple[int, ...] = (),
) -> Base:
    read = {f"sm{i}": f for i, f in enumerate((master, *standbys), 1)}
    specs = {mark(p): segment(0x100 + p, (p,)) for p in wanted}
    known = dict.fromkeys(map(mark, wanted), False) | dict.fromkeys(map(mark, over), True)
    return base_section(Files(read, {}), "sm1", specs, known)


def pods(found: Base) -> list[int]:
    return [k - 0x100 for k in sorted(found.section)]


def test_section_starts_from_the_masters_file() -> None:
    """Partitions that are wanted or unknown stay unchanged, and nothing is reported."""
    found = base(file(document(1), document(2)), file(document(1), document(2)), wanted=(1,))
    assert pods(found) == [1, 2] and not found.restored and not found.dropped and not found.problems


def test_lost_desired_partition_is_restored() -> None:
    """With the members in the database, even if no file has it."""
    found = base(file(), file(document(2)), wanted=(1, 2))
    assert pods(found) == [1, 2] and [d.pkey for d in found.restored] == [0x101, 0x102]


def test_partition_under_an_old_key_is_restored_under_its_own() -> None:
    """The pod got another number since, and the old one may belong to the next pod."""
    old = WeftPartitionDocument(pkey=0x107, mark=mark(1).text(), members=(1,))
    found = base(file(old), wanted=(1,))
    assert pods(found) == [1, 7] and [d.pkey for d in found.restored] == [0x101]


def test_unknown_partition_of_a_standby_stays() -> None:
    """The database was restored and the master replaced, so only the standby still has it."""
    assert pods(base(file(), file(document(3)))) == [3]


def test_known_undesired_partition_of_a_standby_is_removed() -> None:
    """The standby missed the deletion; or the pod is being released now."""
    assert pods(base(file(), file(document(3)), over=(3,))) == []
    read = {"sm1": file(), "sm2": file(document(3))}
    assert dict(base_section(Files(read, {}), "sm1", {}, {mark(3): False}).section) == {}


def test_ended_partition_is_removed_from_every_file() -> None:
    """Such as an old file at the master."""
    found = base(file(document(1), document(3)), wanted=(1,), over=(3,))
    assert pods(found) == [1] and [d.pkey for d in found.dropped] == [0x103]


def test_foreign_partition_is_not_overwritten_by_a_restore() -> None:
    """Its key is used by another, in the section or outside, or its port is in an unknown partition."""
    taken = document(9).model_copy(update={"pkey": 0x101})
    for master, said in (
        (file(taken), "now that of"),
        (file(foreign=0x101), "someone else"),
        (file(document(9, 1)), "run an audit"),
    ):
        found = base(master, wanted=(1,))
        assert not found.restored and said in found.problems[0], found


class Answering:
    """An agent whose manager reports this state."""

    def __init__(self, name: str, state: ManagerState) -> None:
        self.name, self._state = name, state

    def partitions(self) -> AgentPartitions:
        default = ConfiguredPartition(pkey=0x7FFF, name="Default", members={})
        return file(state=self._state).model_copy(update={"configured": (default,)})


@pytest.mark.parametrize("states", [("master", "master"), ("standby", "standby"), ("down", "unknown")])
def test_anything_but_one_master_is_unknown(states: tuple[str, str]) -> None:
    """Two masters are a split fabric, none is an unmanaged one."""
    found = [Answering(f"sm{i}", ManagerState(s)) for i, s in enumerate(states)]
    agents = FabricAgents("ib0", found)  # type: ignore[arg-type]
    with pytest.raises(UnknownError, match="are master"):
        agents.master(agents.files())
