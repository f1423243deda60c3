"""What ports send, as the agent beside a real manager reads it, against traffic that the test plays and perfquery."""

from __future__ import annotations

import ssl
import time

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.drivers.opensm.rigs import FABRIC, RealRig, until
from weft.model.linkreading import PortRate, TimedRates


def rate(found: TimedRates, guid: int, port: int) -> PortRate:
    return found.ports[guid, port]


@pytest.mark.fabric
def test_played_traffic_is_the_rate_of_its_port(real: RealRig) -> None:
    """A gigabyte and as much waiting between two readings, on a host's port; the leaf's end has its own counters."""
    node = next(n for n in real.site.nodes if n.role == "compute")
    hca = node.hcas[0]
    end = f"{node.name}/{hca.name}"
    real.faults.count_traffic(end, 10**9, 0)
    driver = real.another_driver()
    until("there is a rate", lambda: driver.rates(0).seconds)
    time.sleep(1.1)
    driver.rates(0)
    real.faults.count_traffic(end, 10**9 + 250_000_000, 250_000_000)
    time.sleep(1.1)
    found = driver.rates(0)
    shown = rate(found, hca.guid, 1)
    assert shown.sent is not None and shown.waiting is not None
    assert shown.sent * found.seconds[0] == pytest.approx(10**9, rel=0.01)
    assert shown.waiting == pytest.approx(0.5, abs=0.01) and not shown.at_least
    assert len(found.ports) == 2 * len(real.site.links) and found.unread == 0


@pytest.mark.fabric
def test_metrics_are_scraped_with_a_client_certificate(real: RealRig) -> None:
    """Prometheus' request has none of the headers of weft's own; the counters are those of all cabled ports."""
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
