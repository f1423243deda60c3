"""Error counters that the agent beside a real manager reads, compared with the real perfquery."""

from __future__ import annotations

import re

import pytest

from tests.drivers.opensm.rigs import RealRig, until
from weft.fabricagent.mad import ERROR_COUNTERS
from weft.model.fabric import PortErrors

COUNTERS = {
    "SymbolErrorCounter": 1234,
    "LinkErrorRecoveryCounter": 21,
    "LinkDownedCounter": 22,
    "PortRcvErrors": 4001,
    "PortRcvRemotePhysicalErrors": 4002,
    "PortRcvSwitchRelayErrors": 4003,
    "PortXmitDiscards": 4004,
    "PortXmitConstraintErrors": 31,
    "PortRcvConstraintErrors": 32,
    "LocalLinkIntegrityErrors": 5,
    "ExcessiveBufferOverrunErrors": 6,
    "VL15Dropped": 77,
}
"""Different values."""


def shown(real: RealRig) -> dict[tuple[str, int], PortErrors]:
    errors = real.another_driver().status().port_errors
    return {(p.node, p.port): p for p in errors or ()}  # none before the first reading


@pytest.mark.fabric
def test_counters_equal_those_of_perfquery(real: RealRig) -> None:
    """On a leaf's port and on a host's: every counter has its own value, and both ends of the cable are named."""
    node = next(n for n in real.site.nodes if n.role == "compute")
    end = f"{node.name}/{node.hcas[0].name}"
    link = next(x for x in real.site.links if end in (x.a, x.b))
    leaf, port = (link.a, link.a_port) if link.b == end else (link.b, link.b_port)
    for counter, value in COUNTERS.items():
        real.faults.count_errors(leaf, counter, value, port)
    real.faults.count_errors(end, "PortRcvErrors", 17)
    real.stop("agent-sm1")  # its readings are kept for a minute
    real.start("agent-sm1")
    until("the errors are shown", lambda: (leaf, port) in shown(real))
    found = shown(real)
    assert node.name in found[leaf, port].peer
    (host,) = (p for p in found.values() if p.peer == f"{leaf}[{port}]")
    assert host.counters == {"PortRcvErrors": 17}
    guid = real.site.switch_by_name[leaf].guid
    assert guid is not None
    text = real.faults.ask("perfquery", "-G", f"{guid:#x}", str(port))
    printed = {name: int(value) for name, value in re.findall(r"^(\w+):\.+(\d+)$", text, re.MULTILINE)}
    assert found[leaf, port].counters == {n: v for n, v in printed.items() if v and n in ERROR_COUNTERS}
    assert sorted(found[leaf, port].counters.values()) == sorted(COUNTERS.values())
