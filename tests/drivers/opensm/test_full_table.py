"""Which keys a port's full table has, on the fake and on the real program."""

from __future__ import annotations

from collections.abc import Collection

from tests.drivers.opensm.rigs import Rig, host_ports, partition, scope, seen, until


def test_full_table_keeps_what_it_has_and_takes_new_keys_by_their_low_octet(rig: Rig) -> None:
    """One of 64 entries is the default key's. The log and the status report it. All keys are in weft's range, since
    OpenSM doesn't change the second half of a leaf port's table and weft removes only its own keys.
    """
    text, port = rig.text("sm1") or "", host_ports(rig.site)[0]

    def shown(keys: Collection[int]) -> set[int]:
        lines = [f"k{k:x}=0x{k:x} : 0x{port:016x}=full;" for k in keys]
        rig.edit("sm1", "\n".join([text.rstrip(), *lines, ""]))
        rig.hup("sm1")
        until("the table is as full as it gets", lambda: len(keys_of(rig, port)) == min(64, len(keys) + 1))
        return keys_of(rig, port) - {0x7FFF}

    high, low = [0x100 * i for i in range(2, 32)], list(range(0x102, 0x134))
    assert shown(low[:40]) == {k | 0x8000 for k in low[:40]}
    there = shown([*low, *high])
    assert there == {k | 0x8000 for k in low[:40] + high[:23]}
    assert "0512" in "".join(p for m in rig.driver.status().managers for p in m.problems)


def keys_of(rig: Rig, port: int) -> set[int]:
    return set(rig.driver.tables([port])[port].keys)


def test_forty_segments_of_a_port_leave_nothing_at_its_leaf(rig: Rig) -> None:
    """For keys beyond a table's first block OpenSM clears the host's second block and not the leaf's, which the next
    visit's deletion repairs.
    """
    [port, *_] = host_ports(rig.site)
    wanted = [partition(0x101 + i, [port], f"partition/{i}") for i in range(40)]
    rig.driver.create(scope(), wanted, {})
    until("they are there", lambda: all(len(t.keys) == 41 for t in rig.driver.tables([port]).values()))

    def gone() -> bool:
        left = [one for one in wanted if seen(rig, one)]
        rig.driver.delete(scope(), left, {})
        return not left

    until("they are gone", gone)
    table = rig.driver.tables([port])[port]
    assert table.keys == table.leaf_keys == {0x7FFF}
