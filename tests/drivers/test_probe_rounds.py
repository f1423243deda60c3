"""What a round of probe agents can't take in is told, on an agent that hears everybody."""

from __future__ import annotations

import pytest

from tests.helpers.ownports import ethernet_lab
from weft.drivers.probes import prober
from weft.drivers.probes.prober import OTHERS, FrameProber
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricKind
from weft.model.probeapi import EndResult, ProbeStatus, RoundQuery, RoundResult
from weft.model.resources import SegmentSpec
from weft.model.site import ProbeAgent, Traffic
from weftlab.switches.labsite import FABRIC

SITE = ethernet_lab()
PORTS = sorted(h.port_id for n in SITE.nodes for h in n.hcas_on(FABRIC))


class HearsNobody:
    """Sends what it is asked to; after a release nobody hears anybody."""

    name = "one"

    def round(self, query: RoundQuery) -> RoundResult:
        ends = tuple(EndResult(adapter=e.adapter, sent=True) for e in query.ends)
        return RoundResult(name=self.name, ends=ends)

    def status(self) -> ProbeStatus:
        raise AssertionError("nobody asks")


def test_members_beyond_a_round_are_told_as_untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """They aren't left out of the receipt in silence."""
    monkeypatch.setattr(prober, "MOST_ENDS", OTHERS + 2)
    nodes = tuple(n.name for n in SITE.nodes if n.hcas_on(FABRIC))
    agent = ProbeAgent(name="one", url="https://127.0.0.1:1", nodes=nodes)
    traffic = Traffic(agents=(agent,), ca="ca.pem", certificate="c.pem", key="k.pem")
    members = tuple(Membership(port=p) for p in PORTS)
    segment = SegmentSpec(number=50, fabric_type=FabricKind.ETHERNET, members=members)
    clean, untried = FrameProber(SITE, FABRIC, traffic, [HearsNobody()]).clean(segment)
    assert not untried and [i.result for i in clean.items] == ["clean"]
    told = clean.items[0].unread
    assert len(told) == len(PORTS) - 2 > 0
    assert all("a round has 2 members at most" in one for one in told)
