"""Rates of ports that the agent beside a real manager reads, against traffic set by the test and perfquery."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.drivers.opensm.rigs import FABRIC, RealRig, until
from tests.helpers.waiting import wait_for
from weft.model.linkreading import UNKNOWN_RATE, PortRate, TimedRates
from weft.planning.fabric.linkuse import LinkUser, PodAdapter, cause, forwarding_of, is_congested, link_use


def rate(found: TimedRates, guid: int, port: int) -> PortRate:
    return found.ports[guid, port]


@pytest.mark.fabric
def test_rate_of_a_port_equals_the_traffic_played_on_it(real: RealRig) -> None:
    """A gigabyte and as much waiting between two readings, on a host's port; the leaf's end has its own counters."""
    node = next(n for n in real.site.nodes if n.role == "compute")
    hca = node.hcas[0]
    end = f"{node.name}/{hca.name}"
    real.faults.count_traffic(end, 10**9, 0)
    driver = real.another_driver()

    def quiet() -> bool:
        found = driver.rates(0)
        shown = found.ports.get((hca.guid, 1), UNKNOWN_RATE)
        return shown.waiting == shown.waiting_before == 0 and not shown.at_least and (shown.sent or 0) < 10**6

    until("what other tests played is out of the last two intervals", quiet)
    real.faults.count_traffic(end, 10**9 + 250_000_000, 250_000_000)
    found = wait_for(
        lambda: r if rate(r := driver.rates(0), hca.guid, 1).waiting else None, "the traffic is read"
    )
    shown = rate(found, hca.guid, 1)
    assert shown.sent is not None and shown.waiting is not None
    assert shown.sent * found.seconds[0] == pytest.approx(10**9, rel=0.01)
    assert shown.waiting == pytest.approx(0.5, abs=0.01) and not shown.at_least
    assert len(found.ports) == 2 * len(real.site.links) and found.unread == 0


@pytest.mark.fabric
def test_metrics_are_scraped_with_a_client_certificate(real: RealRig) -> None:
    """Without weft's own headers; the counters are those of all cabled ports."""
    manager = real.site.fabrics[FABRIC].manager
    context = ssl.create_default_context(cafile=manager.ca)
    context.load_cert_chain(manager.certificate or "", manager.key)
    url = f"{manager.agents[0].url}/metrics"
    with httpx.Client(verify=context, trust_env=False, timeout=20) as client:
        until("there is a reading", lambda: client.get(url).status_code == 200)
        answer = client.get(url)
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = {f.name: f for f in text_string_to_metric_families(answer.text)}
    sent = families["infiniband_switch_port_transmit_data_bytes"].samples
    hosts = families["infiniband_hca_port_transmit_data_bytes"].samples
    assert len(sent) + len(hosts) == 2 * len(real.site.links)
    assert {name for s in sent for name in s.labels} == {"guid", "port"}


@pytest.fixture
def narrow(real: RealRig) -> Iterator[RealRig]:
    """The same fabric with one uplink for each leaf, so that pods share links."""
    switches = {s.name: s for s in real.site.switches}
    left: set[str] = set()
    cut: list[tuple[str, int]] = []
    for link in real.site.links:
        if link.a in switches and link.b in switches:
            leaf, port = (link.a, link.a_port) if switches[link.a].level == "leaf" else (link.b, link.b_port)
            if leaf in left:
                cut.append((leaf, port))
            left.add(leaf)
    cables = sum(link.a in switches and link.b in switches for link in real.site.links)
    driver = real.another_driver()
    for leaf, port in cut:
        real.faults.unlink(leaf, port)
    try:
        until("the cables are out", lambda: len(driver.routes(0).routes.cables) == len(left))
        yield real
    finally:
        for leaf, port in cut:
            real.faults.relink(leaf, port)
        until("the cables are in", lambda: len(driver.routes(0).routes.cables) == cables)


@pytest.mark.fabric
def test_planted_noisy_neighbor_is_the_cause_on_the_real_routes(narrow: RealRig) -> None:
    """Each hop of two pods' paths has traffic, one pod's much more; a link that both use has waiting in two
    intervals, and another link only in one.
    """
    real, driver = narrow, narrow.another_driver()
    reading = driver.routes(0).routes
    forwarding = forwarding_of(reading)
    hosts = {
        h.port_guid: f"{n.name}/{h.name}" for n in real.site.nodes for h in n.hcas if n.role == "compute"
    }
    leaf = {p.port_guid: p.switch_guid for p in reading.ports}
    there, beyond = ([g for g in hosts if leaf[g] == side] for side in sorted({leaf[g] for g in hosts}))
    users = [
        LinkUser(name, tuple(PodAdapter(guid, i, 0) for i, guid in enumerate(guids)))
        for name, guids in (("quiet", (there[0], beyond[0])), ("noisy", (*there[1:], *beyond[1:])))
    ]
    use = link_use(reading, tuple(users), "rail")
    shared = [k for k in use.links_of(0) if forwarding.is_between_switches(k) and len(use.on(k)) == 2]
    assert len(shared) > 1
    planted, *others = shared
    names = {s.guid: s.name for s in real.site.switches}

    def play(words: int, wait: int, more: int) -> None:
        for user, factor in zip(users, (1, 100), strict=True):
            for adapter in user.adapters:
                real.faults.count_traffic(hosts[adapter.port_guid], words * factor, 0)
        for link, ticks in ((planted, wait), *((one, more) for one in others[:1])):
            guid, port = forwarding.end_of(link)
            real.faults.count_traffic(names[guid], words * 100, ticks, port)

    play(10**6, 0, 0)
    for step in range(1, 4):
        until("it is read", lambda: driver.rates(0).seconds or driver.rates(0).ports)
        time.sleep(1.1)
        driver.rates(0)
        play(10**6 * (step + 1), 10**9 * step, 10**9 * (step // 3))
    time.sleep(1.1)
    rates = driver.rates(0)
    assert is_congested(rates.ports[forwarding.end_of(planted)])
    suspects = use.sent_on(planted, forwarding, rates.ports)
    assert [users[s.user].id for s in suspects] == ["noisy", "quiet"]
    assert cause(suspects, rates.ports[forwarding.end_of(planted)].sent) == 1
    assert not any(is_congested(rates.ports[forwarding.end_of(one)]) for one in others)
