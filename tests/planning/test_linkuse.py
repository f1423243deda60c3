"""Paths of pods on links: patterns, bounds, and fabrics with the same LIDs."""

from __future__ import annotations

import pytest

from weft.model.agentlinks import RoutedPort, SwitchCable
from weft.model.errors import InputError
from weft.model.linkreading import Pattern, PortRate, RouteReading
from weft.planning.fabric import linkuse
from weft.planning.fabric.linkuse import (
    LinkUser,
    PodAdapter,
    Suspect,
    cause,
    forwarding_of,
    is_congested,
    link_use,
)

A, B = 1, 2
"""Two leaves; hosts 11, 12 are on the first (LIDs 3, 4), 21, 22 on the second (LIDs 5, 6). One cable between them."""


def reading(first: int = 0, uplinks: int = 1) -> RouteReading:
    """A reading of two leaves with two hosts each.

    Args:
        first: added to all GUIDs, for another fabric with the same LIDs.
        uplinks: cables between the leaves.
    """
    ports = tuple(
        RoutedPort(
            port_guid=first + g, lid=lid, node_guid=first + g + 100, port=1, switch_guid=first + leaf, switch_port=out
        )
        for g, lid, leaf, out in ((11, 3, A, 1), (12, 4, A, 2), (21, 5, B, 1), (22, 6, B, 2))
    )  # fmt: skip
    cables = tuple(SwitchCable(a=first + A, a_port=9 + i, b=first + B, b_port=9 + i) for i in range(uplinks))
    up = (9, 9 + uplinks - 1)
    tables = {
        first + A: bytes((255, 0, 9, 1, 2, *up)),
        first + B: bytes((255, 9, 0, *up, 1, 2)),
    }
    return RouteReading(f"{first} {uplinks}", tables, {}, ports, cables)


def pod(*guids: int, name: str = "pod", rail: int = 0) -> LinkUser:
    return LinkUser(name, tuple(PodAdapter(guid, node, rail) for node, guid in enumerate(guids)))


def ends(found: RouteReading, *users: LinkUser, pattern: Pattern = "rail") -> dict[tuple[int, int], int]:
    """The number of the first user's paths, by sending port (GUID, port)."""
    use, forwarding = link_use(found, users, pattern), forwarding_of(found)
    return {forwarding.end_of(link): paths for link, paths in use.links_of(0).items()}


def test_path_uses_each_link_in_its_direction() -> None:
    assert ends(reading(), pod(11, 21)) == {
        (111, 1): 1,
        (A, 9): 1,
        (B, 1): 1,
        (121, 1): 1,
        (B, 9): 1,
        (A, 1): 1,
    }
    assert ends(reading(), pod(11, 12)) == {(111, 1): 1, (A, 2): 1, (112, 1): 1, (A, 1): 1}


def test_fabrics_with_the_same_lids_are_kept_apart() -> None:
    """Each has its own tables and ports."""
    one, other = reading(), reading(1000)
    assert one.tables[A] == other.tables[1000 + A] and one != other
    assert set(ends(other, pod(1011, 1021))) == {(g + 1000, p) for g, p in ends(one, pod(11, 21))}
    assert link_use(other, (pod(11, 21),), "rail").unseen == {0: 2}
    assert ends(other, pod(11, 21)) == {}


def test_rails_meet_only_with_all_pairs() -> None:
    """Adapters of one node don't send to each other over the fabric."""
    user = LinkUser(
        "pod", (PodAdapter(11, 0, 0), PodAdapter(12, 0, 1), PodAdapter(21, 1, 0), PodAdapter(22, 1, 1))
    )
    assert ends(reading(), user)[A, 9] == 2
    assert ends(reading(), user, pattern="all")[A, 9] == 4
    assert (A, 1) in ends(reading(), user) and (112, 1) in ends(reading(), user)
    assert ends(reading(), LinkUser("pod", user.adapters[:2]), pattern="all") == {}


def test_ring_goes_to_the_next_node_and_back_to_the_first() -> None:
    found = ends(reading(), pod(11, 12, 21, 22), pattern="ring")
    assert found[A, 9] == found[B, 9] == 1 and found[111, 1] == 1
    assert ends(reading(), pod(11), pattern="ring") == {}


def test_users_of_a_link_are_counted_and_what_they_send_is_split_over_their_paths() -> None:
    """Host 11 sends to two others, one of them over the uplink, which carries half."""
    found = reading()
    use, forwarding = link_use(found, (pod(11, 12, 21), pod(12, 22, name="b")), "rail"), forwarding_of(found)
    link = forwarding.link_of(A, 9)
    assert link is not None
    assert [(one.user, one.paths) for one in use.on(link)] == [(0, 2), (1, 1)]
    rates = {(111, 1): PortRate(sent=100.0), (112, 1): PortRate(sent=40.0)}
    assert use.sent_on(link, forwarding, rates) == [Suspect(0, 70.0), Suspect(1, 40.0)]
    assert use.sent_on(link, forwarding, {(112, 1): PortRate(sent=40.0)}) == [
        Suspect(1, 40.0),
        Suspect(0, None),
    ]


def test_large_pods_have_the_same_paths_as_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their pairs are made in another way."""
    user = LinkUser(
        "pod", (PodAdapter(11, 0, 0), PodAdapter(12, 0, 1), PodAdapter(21, 1, 0), PodAdapter(22, 1, 1))
    )
    patterns: tuple[Pattern, ...] = ("rail", "all")
    small = [ends(reading(), user, pattern=p) for p in patterns]
    monkeypatch.setattr(linkuse, "_FEW", 1)
    link_use.cache_clear()
    assert [ends(reading(), user, pattern=p) for p in patterns] == small


def test_fabric_without_users_has_no_paths() -> None:
    assert link_use(reading(), (), "all").on(5) == []
    assert ends(reading(), pod()) == {}


def test_too_many_paths_are_refused_before_they_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error offers another pattern; the limit is for all pods together."""
    monkeypatch.setattr(linkuse, "MOST_PATHS", 12)
    assert ends(reading(uplinks=2), pod(11, 12, 21, 22))
    with pytest.raises(InputError, match="another pattern"):
        link_use(reading(uplinks=2), (pod(11, 12, 21, 22), pod(11, 21, name="b")), "rail")


@pytest.mark.parametrize(
    ("rate", "congested"),
    [
        (PortRate(waiting=0.31, waiting_before=0.31), True),
        (PortRate(waiting=0.31, waiting_before=0.3), False),
        (PortRate(waiting=0.0, waiting_before=None), False),
        (PortRate(waiting=0.9, waiting_before=None), None),
        (PortRate(waiting=None, waiting_before=None, full=True), None),
        (PortRate(waiting=0.1, waiting_before=0.1, at_least=True), None),
        (PortRate(waiting=0.5, waiting_before=0.5, at_least=True), True),
    ],
)
def test_link_is_congested_after_two_intervals_or_unknown(rate: PortRate, congested: bool | None) -> None:
    """A low share that is only a lower bound proves nothing."""
    assert is_congested(rate) is congested


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ((80.0, 20.0), 0),
        ((79.0, 21.0), None),
        ((5.0,), 0),
        ((0.0, 0.0), None),
        ((99.0, None), None),
        ((), None),
    ],
)
def test_cause_sends_at_least_four_fifths_of_the_traffic(
    sent: tuple[float | None, ...], found: int | None
) -> None:
    carried = sum(s or 0.0 for s in sent)
    assert cause([Suspect(i, s) for i, s in enumerate(sent)], carried) == found


@pytest.mark.parametrize(
    ("carried", "found"),
    [(100.0, 0), (50.0, 0), (125.0, 0), (126.0, None), (1e6, None), (None, None)],
)
def test_cause_is_judged_by_all_that_the_link_carries(carried: float | None, found: int | None) -> None:
    """If the traffic is the storage's, no pod is the cause."""
    assert cause([Suspect(0, 100.0)], carried) == found
