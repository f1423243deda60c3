"""Changes of several pods that wait for one switch are one session; each pod has its own answer."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.drivers.switches.onefront import MAKES, OTHER, SAVES, VLAN, One, dying, ordered, results
from tests.drivers.switches.rigs import scope
from weft.drivers.switches import parts
from weft.drivers.switches.interface import Asked
from weft.drivers.switches.names import vlan_name
from weft.drivers.switches.vlans import PARK, Batch, PortEdit, PortVlans, SwitchState, joined, within
from weft.drivers.switches.wanted import removal_for
from weft.model.errors import OutsideError, PermanentError, UnknownError
from weft.model.resources import Resource, Status
from weft.ports.resources import Scope

THIRD = 0x103
LONG = 30.0


def sent(one: One, pattern: dict[str, str]) -> int:
    """How many requests matching the pattern the switch got since they were last cleared."""
    lines = [r.line for r in one.front.requests]
    return sum(bool(re.search(pattern[one.front.plan.speaks], line)) for line in lines)


def into(one: One, port: int, number: int, name: str = "weft-name") -> Asked:
    batch = Batch({number: name}, frozenset(), {one.ports[port]: PortEdit(number)})
    return Asked(lambda state: Batch() if batch.done(state) else batch)


def out(one: One, number: int) -> Asked:
    return Asked(lambda state: removal_for("leaf1", state, number, {"weft-name"}, one.fabric.cabling))


def fails(error: Exception) -> Asked:
    def edit(state: SwitchState) -> Batch:
        raise error

    return Asked(edit)


def lands(errors: Sequence[Exception | None]) -> list[float]:
    assert all(isinstance(e, UnknownError) for e in errors), errors
    return [e.lands for e in errors if isinstance(e, OutsideError)]


def held_up(
    one: One, pods: Sequence[tuple[Scope, Resource]], change: Callable[[Scope, Resource], object]
) -> None:
    """Hold the first change until all others wait."""
    holds, others = threading.Event(), len(pods) - 1

    def fence() -> None:
        began.set()
        assert holds.wait(LONG)

    began = threading.Event()
    (first, resource), *rest = pods
    first = Scope(first.site, first.owner, first.name, first.project_id, fence)
    with ThreadPoolExecutor(len(pods)) as pool:
        changes = [pool.submit(change, first, resource)]
        assert began.wait(LONG)
        changes += [pool.submit(change, *pod) for pod in rest]
        end = time.monotonic() + LONG
        while one.waiting() < others:
            assert time.monotonic() < end
            time.sleep(0.01)
        holds.set()
        for done in changes:
            done.result(LONG)


def test_waiting_changes_are_joined_into_one_session_and_one_save(one: One) -> None:
    """Many pods are created, and deleted, at once; each is read back by itself."""
    numbers = (VLAN, OTHER, THIRD)
    segments = [ordered(one, n, number=number) for n, number in enumerate(numbers)]
    pods = [(scope(n + 1), wanted) for n, (_, wanted) in enumerate(segments)]

    def made(mine: Scope, wanted: Resource) -> None:
        assert one.fabric.create(mine, [wanted], {})["partition"].error is None

    def gone(mine: Scope, wanted: Resource) -> None:
        assert one.fabric.delete(mine, [wanted], {})["partition"].error is None

    one.front.requests.clear()
    held_up(one, pods, made)
    assert (sent(one, MAKES), sent(one, SAVES)) == (2, 2), "one session for the first, one for all others"
    assert [one.untagged(n) for n in range(3)] == [*numbers]
    for (spec, wanted), (mine, _) in zip(segments, pods, strict=True):
        assert one.fabric.find(mine, [wanted], {})["partition"].status is Status.SETTLED
        assert one.fabric.check(spec, one.fabric.snapshot()).problems == ()
    one.front.requests.clear()
    held_up(one, pods, gone)
    assert (sent(one, MAKES), sent(one, SAVES)) in ((2, 2), (0, 2)), "SONiC's members are deleted one by one"
    assert all(results(one.fabric, spec) == {"clean"} for spec, _ in segments)


def test_refused_or_lost_change_delays_no_other(one: One) -> None:
    lost, taken = (
        UnknownError("go on", "pod p", "it is another worker's"),
        PermanentError("set", "x", "y", "z"),
    )
    errors = one.session.change_all([into(one, 0, VLAN), fails(lost), fails(taken), into(one, 1, OTHER)])
    assert isinstance(errors[1], UnknownError) and isinstance(errors[2], PermanentError)
    assert errors[0] is None and errors[3] is None
    assert sent(one, MAKES) == 1 and (one.untagged(0), one.untagged(1)) == (VLAN, OTHER)


def test_change_outside_the_limits_fails_only_its_pod(one: One) -> None:
    wrong = Asked(lambda state: Batch({}, frozenset(), {one.ports[1]: PortEdit(50)}))
    nowhere = Asked(lambda state: Batch({}, frozenset(), {"Ethernet999": PortEdit(VLAN)}))
    first, second, third = one.session.change_all([wrong, nowhere, into(one, 0, VLAN)])
    assert "isn't weft's to change" in str(first) and second is not None and third is None
    assert one.untagged(0) == VLAN


def test_refused_batch_is_retried_one_by_one(one: One) -> None:
    """The switch accepts none of it, and the cause isn't known."""
    one.front.faults.fail_after = 4 if one.front.plan.speaks == "eos" else 0
    assert one.session.change_all([into(one, 0, VLAN), into(one, 1, OTHER)]) == [None, None]
    assert (one.untagged(0), one.untagged(1)) == (VLAN, OTHER)


def test_unmade_changes_are_tried_one_by_one(one: One) -> None:
    """The switch answered as done, but reading back shows otherwise."""
    one.front.faults.lose_commit = True
    assert one.session.change_all([into(one, 0, VLAN), into(one, 1, OTHER)]) == [None, None]
    assert (one.untagged(0), one.untagged(1)) == (VLAN, OTHER)


def test_lost_answer_is_a_doubt_for_each_change(one: One) -> None:
    """No change fails because of another, and changes that it doesn't affect don't wait until it takes effect."""
    one.session.change_all([into(one, 2, THIRD)])
    one.front.requests.clear()
    one.front.faults.late = MAKES[one.front.plan.speaks]
    errors = one.session.change_all([into(one, 0, VLAN), into(one, 1, OTHER), into(one, 2, THIRD)])
    doubted = one.session.lands_seconds
    assert lands(errors) == [doubted, doubted, 0.0] and len(set(map(id, errors))) == 3
    assert one.session.change_all([out(one, VLAN)]) == [None]
    with pytest.raises(UnknownError, match="may not show"):
        one.session.read()
    assert one.session.change_all([out(one, OTHER)]) == [None]
    assert one.session.read().vlans.keys() & {VLAN, OTHER, THIRD} == {THIRD}


def test_changes_after_a_lost_answer_are_made_one_by_one(one: One) -> None:
    """One pod's change may be the reason why the switch doesn't answer."""
    one.front.faults.mute = MAKES[one.front.plan.speaks]
    lands(one.session.change_all([into(one, 0, VLAN), into(one, 1, OTHER)]))
    one.front.requests.clear()
    assert one.session.change_all([out(one, VLAN), out(one, OTHER)]) == [None, None]
    assert sent(one, SAVES) == 2
    one.front.requests.clear()
    assert one.session.change_all([into(one, 0, VLAN), into(one, 1, OTHER)]) == [None, None]
    assert (sent(one, MAKES), sent(one, SAVES)) == (1, 1)


def test_failed_save_is_reported_to_each_changer(one: One) -> None:
    one.session.change_all([into(one, 0, VLAN)])
    one.front.faults.refuse_save = True
    made, same, gone = one.session.change_all(
        [into(one, 1, OTHER), into(one, 0, VLAN), Asked(lambda state: Batch(), save=True)]
    )
    assert isinstance(made, UnknownError) and same is None and isinstance(gone, UnknownError)


def test_silent_switch_is_asked_once_for_all_changes(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    one.front.faults.down = True
    reads: list[float] = []
    real = one.session._read  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(one.session, "_read", lambda: (reads.append(0.0), real())[1])
    assert lands(one.session.change_all([into(one, 0, VLAN), into(one, 1, OTHER)])) == [0.0, 0.0]
    assert len(reads) == 1


@pytest.mark.parametrize("ends", [True, False], ids=["once", "always"])
def test_outdated_fence_proof_sends_nothing(one: One, monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    """A worker may lose its pod while the others' fences are checked: the first ones are checked again, or each
    change is made alone.
    """
    clock, proofs = [time.monotonic()], list[int]()

    def slowly(asked: Asked, number: int) -> Asked:
        def edit(state: SwitchState) -> Batch:
            clock[0] += 0.6 * parts.YOUNG_SECONDS
            proofs.append(number)
            return asked.edit(state)

        return Asked(edit)

    monkeypatch.setattr(one.session, "_monotonic", lambda: clock[0])
    asked = [slowly(into(one, n, number), number) for n, number in enumerate((VLAN, OTHER))]
    assert one.session.change_all(asked) == [None, None]
    assert proofs == [VLAN, OTHER, VLAN, OTHER] and sent(one, MAKES) == 2


def test_changes_are_made_one_by_one_for_a_limited_time(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may take a minute, and others wait."""
    monkeypatch.setattr(parts, "TURN_SECONDS", 0.0)
    one.front.faults.lose_commit = True
    errors = one.session.change_all([into(one, 0, VLAN), into(one, 1, OTHER)])
    assert lands(errors) == [0.0, 0.0] and "taken back" in str(errors[0])


def test_port_moves_from_one_pod_to_another_in_a_batch(one: One) -> None:
    """In this order, in one change; also with a trunk of both."""
    one.session.change_all([into(one, 0, VLAN)])
    one.front.requests.clear()
    assert one.session.change_all([out(one, VLAN), into(one, 0, OTHER)]) == [None, None]
    state = one.session.read()
    assert state.ports[one.ports[0]] == PortVlans(OTHER) and VLAN not in state.vlans
    tags = [
        Asked(lambda _, n=n: Batch({n: "weft-name"}, ports={one.ports[1]: PortEdit(add=frozenset({n}))}))
        for n in (VLAN, THIRD)
    ]
    assert one.session.change_all(tags) == [None, None]
    assert one.session.read().ports[one.ports[1]] == PortVlans(None, frozenset({VLAN, THIRD}), True)
    assert one.session.change_all([out(one, VLAN), out(one, THIRD)]) == [None, None]
    assert one.session.read().ports[one.ports[1]] == PortVlans()


def test_present_change_is_not_repeated_in_a_batch(one: One) -> None:
    """A switch without VLAN names is read as having none, whatever weft calls them."""
    _, wanted = ordered(one, 0)
    assert one.fabric.create(scope(), [wanted], {})["partition"].error is None
    other = ordered(one, 1, number=OTHER)[1]
    held_up(one, [(scope(2), other), (scope(1), wanted)], lambda s, r: one.fabric.update(s, [r], {}))
    text = "\n".join(r.line for r in one.front.requests if r.method in ("PATCH", "POST"))
    assert (
        text.count(f'"{VLAN}": {{}}') + text.count(f'Vlan{VLAN}", "vlanid') + text.count(f'"vlan {VLAN}"')
        == 1
    )


def test_worker_dying_in_a_batch_blocks_no_other(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch has its change, which wasn't recorded: another worker finds and removes all of it."""
    pods = [(scope(1), *ordered(one, 0)), (scope(2), *ordered(one, 1, number=OTHER))]
    first, second = (vlan_name(mine.mark(wanted.key)) for mine, _, wanted in pods)
    session = dying(one, monkeypatch)
    one.session.read()
    with pytest.raises(KeyboardInterrupt):
        session.change_all([into(one, 0, VLAN, first), into(one, 1, OTHER, second)])
    for mine, spec, wanted in pods:
        assert "not clean" in results(one.fabric, spec)
        assert one.fabric.delete(mine, [wanted], {})["partition"].error is None
        assert results(one.fabric, spec) == {"clean"}


def _tagged(number: int, port: str = "p1") -> Batch:
    return Batch({number: "n"}, frozenset(), {port: PortEdit(add=frozenset({number}))})


def test_each_change_of_a_batch_is_judged_alone() -> None:
    """Two tags of one port, and a port that the next change uses."""
    first, second = _tagged(VLAN), _tagged(OTHER)
    whole = joined(first, second)
    assert (within(whole, first), within(whole, second)) == (first, second)
    leaves = Batch({}, frozenset({VLAN}), {"p1": PortEdit(PARK)})
    takes = Batch({OTHER: "n"}, frozenset(), {"p1": PortEdit(OTHER)})
    whole = joined(leaves, takes)
    assert within(whole, leaves) == Batch({}, frozenset({VLAN}), {"p1": PortEdit(OTHER)})
    assert within(whole, takes) == takes
