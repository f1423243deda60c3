"""What all vendors' interfaces have in common. Without Open vSwitch: no frames."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.drivers.switches.onefront import OTHER, VLAN, One, one_of, ordered, results, session_of
from tests.drivers.switches.rigs import scope
from weft.drivers.switches.vlans import KEEP, PARK, Batch, PortEdit, PortVlans, SwitchState
from weft.model.errors import PermanentError, UnknownError
from weft.model.fabrictypes import Mode
from weftlab.switches.front import PARKING
from weftlab.switches.nvue import BRIDGE, Nvue
from weftlab.switches.plan import NAMES, Speaks


def test_two_workers_change_a_shared_hosts_port(one: One) -> None:
    """The last pod leaves while another arrives: if the port were no trunk any more, the new VLAN would be lost."""
    port, worker = one.ports[0], session_of(one.another())
    add = Batch({VLAN: "first", OTHER: "second"}, frozenset(), {port: PortEdit(add=frozenset({VLAN}))})
    one.session.change(lambda state: add)
    come = Batch({}, frozenset(), {port: PortEdit(add=frozenset({OTHER}))})
    coming = threading.Thread(target=lambda: worker.change(lambda state: come))

    def leave(state: SwitchState) -> Batch:
        coming.start()
        coming.join(0.5)
        return Batch({}, frozenset(), {port: PortEdit(PARK, remove=frozenset({VLAN}))})

    one.session.change(leave)
    coming.join()
    assert worker.read().ports[port].tagged == {OTHER}


def test_changes_survive_a_restart(one: One) -> None:
    one.put(0, VLAN)
    one.front.restart()
    assert one.untagged(0) == VLAN


@pytest.mark.parametrize(("speaks", "names"), [("eos", "Ethernet{n}/1"), ("nvue", "swp{n}s0")])
def test_ports_of_breakout_cables_have_their_vendors_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speaks: Speaks, names: str
) -> None:
    """Names with lanes and a slash, in the site, in requests, and read back."""
    monkeypatch.setitem(NAMES, speaks, names)  # type: ignore[arg-type]
    with one_of(tmp_path, speaks) as one:
        spec, wanted = ordered(one, 0, 1)
        assert spec.ports == {f"leaf1/{names.format(n=n)}" for n in (1, 2)}
        assert one.fabric.create(scope(), [wanted], {})["partition"].error is None
        assert [one.untagged(0), one.untagged(1), one.untagged(2)] == [VLAN, VLAN, None]
        assert one.fabric.check(spec, one.fabric.snapshot()).problems == ()
        assert one.fabric.delete(scope(), [wanted], {})["partition"].error is None
        assert results(one.fabric, spec) == {"clean"}


def test_change_in_progress_does_not_block_readings(one: One) -> None:
    """Other pods' visits read the switch meanwhile; it is neither unread nor unsaved."""
    one.session.read()
    one.front.faults.slow_commit = 0.4
    worker = threading.Thread(target=one.put, args=(0, VLAN))
    worker.start()
    seen = [one.session.read()]
    while worker.is_alive():
        seen.append(one.session.read())
    worker.join()
    assert len(seen) > 2 and not any(state.unsaved for state in seen)
    assert one.untagged(0) == VLAN


def test_batch_failing_midway_is_undone(one: One) -> None:
    """Parts before the failure are undone, or were only a candidate."""
    one.put(0, OTHER)
    before = one.session.read()
    one.front.faults.fail_after = 4 if one.fronts.urls and one.front.plan.speaks == "eos" else 1
    edits = {one.ports[0]: PortEdit(VLAN), one.ports[1]: PortEdit(VLAN)}
    with pytest.raises((PermanentError, UnknownError)):
        one.session.change(lambda state: Batch({VLAN: "weft-name"}, frozenset(), edits))
    after = one.session.read()
    assert (after.vlans, after.ports) == (before.vlans, before.ports)


def test_slow_commit_is_waited_for(one: One) -> None:
    one.front.faults.slow_commit = 0.4
    one.put(0, VLAN)
    assert one.untagged(0) == VLAN


def test_missing_port_is_refused_and_nothing_changes(one: One) -> None:
    """Also if the driver gets no error: then reading back shows it."""
    one.session.limits = type(one.session.limits)(
        one.session.limits.vlans, one.session.limits.ports | {"swp99"}, one.session.limits.parking
    )
    before = one.session.read()

    def edit(state: object) -> Batch:
        return Batch(
            {VLAN: "weft-name"}, frozenset(), {"swp99": PortEdit(VLAN), one.ports[0]: PortEdit(VLAN)}
        )

    with pytest.raises((PermanentError, UnknownError, KeyError)):
        one.session.change(edit)
    assert one.session.read().vlans == before.vlans and one.untagged(0) is None


def test_change_outside_the_limits_is_not_sent(one: One) -> None:
    for batch in (
        Batch({50: "x"}),
        Batch({}, frozenset({4000})),
        Batch({}, frozenset(), {"Management1": PortEdit(VLAN)}),
        Batch({}, frozenset(), {one.ports[0]: PortEdit(50)}),
    ):
        with pytest.raises(PermanentError, match="isn't weft's to change"):
            one.session.change(lambda state, b=batch: b)


def test_edit_returns_the_resulting_state() -> None:
    port = PortVlans(None, frozenset({5, 6}), True)
    edit = PortEdit(KEEP, frozenset({7}), frozenset({5}))
    assert edit.on(port).tagged == {6, 7} and edit.done(edit.on(port)) and not edit.done(port)
    assert PortEdit(PARK).done(PortVlans()) and not PortEdit(PARK).done(PortVlans(11))


def test_unsaved_change_is_reported_and_saved_by_the_next_call(one: One) -> None:
    """Saving fails: unknown and reported by each reading, until it is saved without another change."""
    one.front.faults.refuse_save = True
    with pytest.raises(UnknownError):
        one.put(0, VLAN)
    assert one.session.read().unsaved
    one.front.faults.refuse_save = False
    one.session.change(lambda state: Batch())
    assert not one.session.read().unsaved
    one.front.restart()
    assert one.untagged(0) == VLAN


def test_another_processs_unsaved_change_is_saved(one: One) -> None:
    """It was killed before saving, or the switch's memory was full; the switch itself shows nothing."""
    spec, wanted = ordered(one, 0)
    assert one.fabric.create(scope(), [wanted], {})["partition"].error is None
    one.front.faults.refuse_save = True
    with pytest.raises(UnknownError):
        one.fabric.delete(scope(), [wanted], {})
    other = one.another()
    with pytest.raises(UnknownError):
        other.delete(scope(), [wanted], {})
    assert "not saved" in other.find(scope(), [wanted], {})["partition"].reason
    assert "not clean" in results(other, spec)
    one.front.faults.refuse_save = False
    assert other.delete(scope(), [wanted], {})["partition"].error is None
    assert results(other, spec) == {"clean"}
    one.front.restart()
    assert one.untagged(0) is None


def test_first_change_of_a_process_always_saves(one: One) -> None:
    """Only callers whose change depends on it get its error."""
    one.front.faults.refuse_save = True
    with pytest.raises(UnknownError):
        one.put(0, VLAN)
    session = session_of(one.another())
    session.change(lambda state: Batch())
    assert session.read().unsaved
    one.front.faults.refuse_save = False
    session.change(lambda state: Batch())
    assert not session.read().unsaved
    one.front.restart()
    assert one.untagged(0) == VLAN


def test_receipt_reveals_no_other_pods_on_a_shared_port(one: One) -> None:
    """The pod's project reads the receipt."""
    (spec, mine), (_, others) = (ordered(one, 0, mode=Mode.TRUNK, number=n) for n in (VLAN, OTHER))
    for pod, wanted in enumerate((mine, others)):
        assert one.fabric.create(scope(pod + 1), [wanted], {})["partition"].error is None
    assert one.fabric.delete(scope(1), [mine], {})["partition"].error is None
    items = one.fabric.clean(spec, one.fabric.snapshot()).items
    assert {i.result for i in items} == {"clean"} and str(OTHER) not in str(items)


@pytest.mark.parametrize("speaks", ["nvue", "sonic"])
def test_unsuspendable_parking_vlan_does_not_isolate(tmp_path: Path, speaks: Speaks) -> None:
    """Released ports are put in it from outside, as networking-generic-switch's own classes do."""
    with one_of(tmp_path, speaks) as one:
        spec, wanted = ordered(one, 0)
        assert one.fabric.create(scope(), [wanted], {})["partition"].error is None
        assert one.fabric.delete(scope(), [wanted], {})["partition"].error is None
        assert results(one.fabric, spec) == {"clean"}
        park(one, one.ports[0])
        assert one.session.read().exposed == {one.ports[0]}
        [problem] = [p for m in one.another().status().managers for p in m.problems]
        assert f"host port leaf1/{one.ports[0]} is in the parking VLAN, and reaches others in it" in problem
        [left] = [i for i in one.fabric.clean(spec, one.fabric.snapshot()).items if i.result != "clean"]
        assert left.plane == "switch port" and "reaches others" in left.seen


def park(one: One, port: str) -> None:
    """Park the port from outside."""
    running = one.front.running
    if isinstance(one.front, Nvue):
        running["interface"][port]["bridge"] = {"domain": {BRIDGE: {"access": PARKING}}}
        return
    running["vlans"].add(f"Vlan{PARKING}")
    running["members"][f"Vlan{PARKING}", port] = "untagged"


def test_cumulus_trunk_carries_the_vlans_in_its_list(nvue: One) -> None:
    """Whether the bridge has them or not; the parking VLAN only while there is no other."""
    port = nvue.ports[0]
    _, wanted = ordered(nvue, 0, mode=Mode.TRUNK)
    assert nvue.fabric.create(scope(), [wanted], {})["partition"].error is None
    assert listed(nvue, port).keys() == {str(VLAN)}
    listed(nvue, port)[str(OTHER)] = {}
    assert str(OTHER) not in nvue.front.running["bridge"]["domain"][BRIDGE]["vlan"]
    assert nvue.session.read().ports[port].tagged == {VLAN, OTHER}
    listed(nvue, port)[str(PARKING)] = {}
    assert nvue.session.read().exposed == {port}
    leaving = Batch({}, frozenset(), {port: PortEdit(remove=frozenset({OTHER}))})
    assert nvue.session.change(lambda state: leaving).exposed == set()
    assert listed(nvue, port).keys() == {str(VLAN)}


def listed(nvue: One, port: str) -> dict[str, object]:
    """The port's list of VLANs as the switch has it now."""
    return nvue.front.running["interface"][port]["bridge"]["domain"][BRIDGE]["vlan"]
