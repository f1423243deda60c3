"""Agents that don't answer or answer late, and adapters that they don't have: silence that proves nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import permutations

import pytest

from tests.drivers.switches.probed import FIRST, MEMBERS, Beside, Probed, addresses, made, settled
from tests.drivers.switches.rigs import RealSwitches, scope, vlan
from weft.model.problem import render
from weftlab.site import FABRIC

pytestmark = pytest.mark.fabric


@pytest.fixture
def rig(switch_rigs: Callable[[str], RealSwitches]) -> RealSwitches:
    return switch_rigs("mixed")


def test_unsynchronized_agents_repeat_the_round(rig: RealSwitches) -> None:
    probed = Probed(rig)
    one = made(rig, 1, FIRST, MEMBERS)
    settled(rig, *permutations(MEMBERS, 2))
    probed.agents["far"].late = 1.5
    found = probed.prober.check(one, addresses(rig, MEMBERS))
    assert (found.problems, found.notes) == ((), ()), render((*found.problems, *found.notes))
    assert len(probed.agents["near"].asked) == 2


def test_adapter_coming_up_is_retried(rig: RealSwitches) -> None:
    """Its server just started: for a moment it is down, or has another host's interface."""
    probed = Probed(rig)
    one = made(rig, 1, FIRST, MEMBERS)
    settled(rig, *permutations(MEMBERS, 2))
    adapters = probed.agents["near"].agent._config.adapters  # pyright: ignore[reportPrivateUsage]
    back = threading.Timer(0.5, adapters.update, [{"host2/mlx5_0": adapters.pop("host2/mlx5_0")}])
    back.start()
    found = probed.prober.check(one, addresses(rig, MEMBERS))
    back.join()
    assert (found.problems, found.notes) == ((), ()), render((*found.problems, *found.notes))


def test_unsynchronized_agents_never_report_a_live_vlan_clean(rig: RealSwitches) -> None:
    """An agent that begins after the other ended hears nothing, which proves nothing."""
    probed = Probed(rig)
    one = made(rig, 1, FIRST, ("host1", "host5"))
    settled(rig, ("host1", "host5"))
    probed.agents["far"].late = 1.5
    [item] = probed.prober.clean(one)[0].items
    assert item.result == "not clean", "the second round is in time"
    probed.agents["far"].late, probed.agents["far"].always = 1.5, True
    [item] = probed.prober.clean(one)[0].items
    assert item.subject.startswith("1 former members") and any("later than others" in u for u in item.unread)


@contextmanager
def down(agent: Beside) -> Generator[None]:
    agent.silent = True
    try:
        yield
    finally:
        agent.silent = False


@pytest.mark.parametrize("policy", ["warn", "refuse"])
def test_untested_member_is_neither_good_nor_bad(rig: RealSwitches, policy: str) -> None:
    """If its agent doesn't answer: a note, or unknown; what other members hear still counts."""
    probed = Probed(rig, policy)
    one = made(rig, 1, FIRST, MEMBERS)
    settled(rig, *permutations(MEMBERS, 2))
    with down(probed.agents["far"]):
        found = probed.prober.check(one, {})
        said = found.notes if policy == "warn" else found.problems
        assert [p.unknown for p in said] == [True] and len(found.problems) + len(found.notes) == 1
        assert "frames of host5/mlx5_0 on ib0 were not tested: agent far: no answer" in render(said)
        assert found.looked_at[f"adapters of {FABRIC} that hear each other"] == 2
        assert rig.driver.delete(scope(1), [vlan(FIRST, sorted(one.ports))], {})["partition"].error is None
        clean, untried = probed.prober.clean(one)
        results = [(i.result, i.nodes) for i in clean.items]
        assert results == [("clean", ()), *([("unknown", ("host5",))] if policy == "refuse" else [])]
        assert any("host5" in u for u in clean.items[0].unread) and untried == ()
        with down(probed.agents["near"]):
            clean, untried = probed.prober.clean(one)
            assert [i.result for i in clean.items] == (["unknown"] if policy == "refuse" else [])
            assert len(untried) == (4 if policy == "warn" else 1)
            assert untried[0 if policy == "refuse" else -1].endswith("no former member could be tested")


def test_adapter_without_interface_is_unknown(rig: RealSwitches) -> None:
    """As on a hypervisor that passed it to a guest: there is none at its PCI address."""
    probed = Probed(rig, "refuse")
    agent = probed.agents["near"].agent
    del agent._config.adapters["host2/mlx5_0"]  # pyright: ignore[reportPrivateUsage]
    one = made(rig, 1, FIRST, MEMBERS)
    settled(rig, *permutations(MEMBERS, 2))
    found = probed.prober.check(one, {})
    assert [p.unknown for p in found.problems] == [True]
    assert "PCI device 0000:c1:00.0 has no network interface on this host" in render(found.problems)


@pytest.mark.parametrize("policy", ["warn", "refuse"])
def test_adapter_tested_before_a_guest_got_it_is_not_reported_untested(
    rig: RealSwitches, policy: str
) -> None:
    """Before the servers started all adapters were tested, so none is missing afterwards."""
    probed = Probed(rig, policy)
    one = made(rig, 1, FIRST, MEMBERS)
    settled(rig, *permutations(MEMBERS, 2))
    begun = probed.prober.begin(one)
    assert (begun.check.problems, begun.check.notes) == ((), ()), render(begun.check.problems)
    assert begun.ports == {*one.ports}
    for agent in probed.agents.values():
        agent.asked.clear()
        for host in MEMBERS:
            agent.agent._config.adapters.pop(f"{host}/mlx5_0", None)  # pyright: ignore[reportPrivateUsage]
    found = probed.prober.check(one, {}, begun.ports)
    assert (found.problems, found.notes) == ((), ()), render((*found.problems, *found.notes))
    assert found.looked_at[f"adapters of {FABRIC} that did before their servers had them"] == 3
    assert len(probed.agents["near"].asked) == 1, "adapters that were tested before aren't waited for"
    found = probed.prober.check(one, {}, begun.ports - {rig.port("host1")})
    reported = found.notes if policy == "warn" else found.problems
    assert [p.subject for p in reported] == ["host1/mlx5_0"]
