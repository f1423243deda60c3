"""What the agent concludes from discoveries that lack nodes which didn't answer in time."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from weft.fabricagent.config import DiagnosticPrograms, ManagerPort
from weft.fabricagent.mad import MadClient, MadError, MadTimeoutError
from weft.fabricagent.wire import TableReading, Wire
from weft.model.errors import UnknownError

LEAF, KEY = 0x100, 0x8101
TIMED_OUT = "src/query_smp.c:197; umad (DR path slid 0; dlid 0; 0,1,2 Attr 0x11:0) bad status 110; Connection timed out"


def text(*hosts: int) -> str:
    """ibnetdiscover's output for a leaf with hosts: host n has LID n and is on port n; its GUIDs end in n0 and n1."""
    lines = [
        "switchguid=0x100(100)",
        'Switch\t8 "S-0000000000000100"\t\t# "leaf01" enhanced port 0 lid 100 lmc 0',
    ]
    lines += [
        f'[{n}]\t"H-{n << 4:016x}"[1]({(n << 4) + 1:x}) \t\t# "gpu0{n} mlx5_0" lid {n} 4xNDR' for n in hosts
    ]
    for n in hosts:
        lines += ["", f"caguid=0x{n << 4:x}", f'Ca\t1 "H-{n << 4:016x}"\t\t# "gpu0{n} mlx5_0"']
        lines += [
            f'[1]({(n << 4) + 1:x}) \t"S-0000000000000100"[{n}]\t\t# lid {n} lmc 0 "leaf01" lid 100 4xNDR'
        ]
    return "\n".join([*lines, ""])


class Fabric:
    """Hosts 1 to 3 on a leaf, and the client that asks them; `asked` has the LIDs asked, in order."""

    def __init__(self, folder: Path) -> None:
        self.now, self.asked, self.down = 0.0, list[int](), set[int]()
        self.silent = set[int]()
        self.meanwhile: tuple[int, ...] = ()
        """Hosts that discoveries find once the agent has waited for a second one."""
        self.folder = folder
        program = folder / "ibnetdiscover"
        program.write_text(f"#!/bin/sh\ncat {folder}/stdout\ncat {folder}/stderr >&2\n")
        program.chmod(0o755)
        self.shows(1, 2, 3)
        self.program = str(program)
        tools, client = DiagnosticPrograms(ibnetdiscover=self.program), cast(MadClient, self)
        self.wire = Wire(ManagerPort(), tools, client, lambda: self.now, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.meanwhile:
            self.shows(*self.meanwhile)

    def shows(self, *hosts: int, said: str = "") -> None:
        """The hosts that discoveries find from now on, and their stderr."""
        (self.folder / "stdout").write_text(text(*hosts))
        (self.folder / "stderr").write_text(said)

    def later(self) -> None:
        self.now += 60.0

    def read(self) -> dict[int, TableReading]:
        """The tables' readings by host number."""
        return {r.port_guid >> 4: r for r in self.wire.read()}

    def vacant(self) -> list[int]:
        found, unread = self.wire.vacant()
        assert unread == {}
        return [port for _, _, port, _ in found]

    # -- what a MadClient has

    def node_port(self, lid: int) -> tuple[int, int]:
        self.asked.append(lid)
        if lid in self.silent or lid in self.down:
            raise MadTimeoutError("no answer")
        return (lid << 4) + 1, 32

    def enforcement(self, lid: int) -> tuple[int, bool]:
        return 32, True

    def enforces(self, lid: int, port: int) -> bool:
        return True

    def is_down(self, lid: int, port: int) -> bool:
        if lid != 100 or 100 in self.silent:
            raise MadError("no switch answers")
        return port > 3 or port in self.down

    def read_table(self, lid: int, capacity: int, port: int = 0) -> tuple[int, ...]:
        return 0x7FFF, KEY


@pytest.fixture
def fabric(tmp_path: Path) -> Fabric:
    return Fabric(tmp_path)


def test_leaf_port_of_an_undiscovered_running_host_is_not_vacant(fabric: Fabric) -> None:
    """The host times out in each discovery, but the leaf reports a link."""
    fabric.shows(1, 2, said=TIMED_OUT + "\n")
    for _ in range(4):
        assert fabric.vacant() == [4, 5, 6, 7, 8]
        fabric.later()


def test_host_missing_in_a_discovery_is_read_at_its_last_port(fabric: Fabric) -> None:
    """With and without an error message: the host's own answer outweighs the discovery."""
    assert set(fabric.read()) == {1, 2, 3}
    for said in (TIMED_OUT, ""):
        fabric.later()
        fabric.shows(1, 2, said=said)
        seen = fabric.read()[3]
        assert seen.host == (0x7FFF, KEY) and not seen.unreachable
        assert fabric.wire.finder.partial()


def test_host_is_gone_after_a_second_complete_discovery(fabric: Fabric) -> None:
    """Until then it is unread without being asked, and its leaf port isn't vacant."""
    fabric.read()
    fabric.later()
    fabric.down.add(3)
    fabric.shows(1, 2)
    fabric.asked.clear()
    seen = fabric.read()[3]
    assert "second one must confirm" in seen.unreachable and seen.at is None and 3 not in fabric.asked
    assert fabric.vacant() == [4, 5, 6, 7, 8]
    fabric.now += 1.0
    assert fabric.vacant() == [3, 4, 5, 6, 7, 8]
    fabric.later()
    assert set(fabric.read()) == {1, 2} and fabric.wire.finder.partial() == ()


def test_port_is_vacant_once_its_leaf_reports_it_down_although_discoveries_are_partial(
    fabric: Fabric,
) -> None:
    """One host that never answers must not keep all other ports from becoming vacant."""
    fabric.read()
    fabric.later()
    fabric.down.add(3)
    fabric.shows(1, said=TIMED_OUT)
    assert fabric.vacant() == [4, 5, 6, 7, 8]
    fabric.later()
    assert fabric.vacant() == [3, 4, 5, 6, 7, 8]


def test_removal_waits_for_a_second_discovery(fabric: Fabric) -> None:
    """So that one removal, a second longer, suffices for a host that was just switched off."""
    fabric.read()
    fabric.later()
    fabric.down.add(3)
    fabric.shows(1, 2)
    assert [port for _, _, port, _ in fabric.wire.vacant(wait=True)[0]] == [3, 4, 5, 6, 7, 8]
    assert fabric.now == 61.0


def test_leaf_missing_in_a_discovery_is_unread(fabric: Fabric) -> None:
    """It isn't a leaf without vacant ports; it costs one timeout, not one for each host."""
    fabric.read()
    fabric.later()
    (fabric.folder / "stdout").write_text('caguid=0x10\nCa\t1 "H-0000000000000010"\t\t# "gpu01 mlx5_0"\n')
    (fabric.folder / "stderr").write_text(TIMED_OUT)
    fabric.silent |= {1, 2, 3, 100}
    fabric.asked.clear()
    seen = fabric.read()
    assert all("leaf doesn't answer" in r.unreachable for r in seen.values()) and set(seen) == {1, 2, 3}
    assert fabric.asked == []
    assert set(fabric.wire.vacant()[1]) == {LEAF}


@pytest.mark.parametrize(("said", "then"), [(TIMED_OUT, (1, 2, 3)), ("", (1, 2)), ("", (1, 2, 3))])
def test_topology_waits_for_a_second_discovery(fabric: Fabric, said: str, then: tuple[int, ...]) -> None:
    """A discovery with an error message, or with fewer ports than before, is repeated once after a second."""
    fabric.wire.finder.topology()
    fabric.later()
    fabric.shows(1, 2, said=said)
    fabric.meanwhile = then
    found = fabric.wire.finder.topology()
    assert len(found.nodes) == 1 + len(then) and found.partial == () and fabric.now == 61.0


def test_topology_that_stays_partial_is_marked_partial(fabric: Fabric) -> None:
    """With the messages, and how much was there before."""
    fabric.wire.finder.topology()
    fabric.later()
    fabric.shows(1, 2, said=f"{TIMED_OUT}\n{TIMED_OUT}\n")
    assert fabric.wire.finder.topology().partial == (
        TIMED_OUT,
        "2 ends of cables that were discovered before aren't shown",
    )


def test_partial_discoveries_are_reported_for_an_hour(fabric: Fabric) -> None:
    """With their number; failed discoveries count, too."""
    fabric.read()
    assert fabric.wire.finder.troubles() == []
    for _ in range(2):
        fabric.later()
        fabric.shows(1, 2, said=TIMED_OUT)
        fabric.read()
    fabric.shows(1, 2, 3)
    fabric.later()
    fabric.read()
    [said] = fabric.wire.finder.troubles()
    assert "2 discoveries were partial, the last one 60 s ago" in said and "Connection timed out" in said
    fabric.now += 3600.0
    assert fabric.wire.finder.troubles() == []
    (fabric.folder / "ibnetdiscover").write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    with pytest.raises(UnknownError, match="broken"):
        fabric.read()
    assert "broken" in fabric.wire.finder.troubles()[0]


def test_answer_with_an_error_message_is_unknown(fabric: Fabric) -> None:
    """The diagnostic programs exit with 0 even after timeouts."""
    fabric.shows(1, said="ibwarn: [7] mad_rpc: timeout\n")
    with pytest.raises(UnknownError, match="mad_rpc: timeout"):
        fabric.wire.finder.run(fabric.program, "PKTR")
