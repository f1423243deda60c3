"""When a series of discoveries shows that something is absent."""

from __future__ import annotations

from weft.planning.fabric.sightings import Sightings


def test_absence_is_doubted_until_a_second_discovery_agrees() -> None:
    """The second discovery must be at least a second later."""
    seen = Sightings[int]()
    seen.note({1, 2, 3}, 0.0, True)
    assert seen.doubted == frozenset()
    seen.note({1}, 10.0, True)
    assert seen.doubted == {2, 3}
    seen.note({1, 3}, 10.5, True)
    assert seen.doubted == {2}
    seen.note({1, 3}, 11.0, True)
    assert seen.doubted == frozenset()


def test_reappearance_restarts_the_doubt() -> None:
    """Two discoveries in a row must not have it."""
    seen = Sightings[int]()
    for at, found in enumerate([{1, 2}, {1}, {1, 2}, {1}]):
        seen.note(found, 10.0 * at, True)
    assert seen.doubted == {2}


def test_partial_discovery_confirms_no_absence() -> None:
    """However many there are. What they have is present."""
    seen = Sightings[int]()
    seen.note({1, 2}, 0.0, True)
    for at in range(1, 9):
        seen.note({1, 3}, 10.0 * at, False)
    assert seen.doubted == {2}
    seen.note({1}, 100.0, True)
    assert seen.doubted == {2, 3}


def test_other_evidence_confirms_absence() -> None:
    """Such as the leaf reporting twice that its port is down."""
    seen = Sightings[int]()
    seen.note({1, 2}, 0.0, True)
    seen.note({1}, 1.0, False)
    seen.lack({1, 2}, 1.0)
    assert seen.doubted == {2}
    seen.lack({2}, 2.0)
    assert seen.doubted == frozenset()
