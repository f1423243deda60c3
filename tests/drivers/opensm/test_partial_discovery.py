"""Pods, receipts and comparisons while a running host's port times out in discoveries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers.opensm.rigs import FABRIC, FakeRig, RealRig, host_ports, partition, scope, seen, until
from weft.drivers.segments import segment_of
from weft.model.resources import Resource, Status
from weft.planning.fabric.diff import adopt_links, fabric_differences
from weft.planning.site.check import canonical_links
from weft.testing.fabric import FakeFabric

KEY = 0x8101


@pytest.fixture
def rig() -> FakeRig:
    return FakeRig()


@pytest.fixture
def fake(rig: FakeRig) -> FakeFabric:
    assert isinstance(rig.driver, FakeFabric)
    return rig.driver


@pytest.fixture
def pod(rig: FakeRig) -> Resource:
    """A partition of three hosts, in every table."""
    wanted = partition(KEY & 0x7FFF, host_ports(rig.site)[:3])
    rig.driver.create(scope(), [wanted], {})
    return wanted


def test_leaf_port_of_a_host_that_timed_out_keeps_its_key(
    rig: FakeRig, fake: FakeFabric, pod: Resource
) -> None:
    """Through each visit's update; the pod is pending until a discovery is complete again."""
    lost = host_ports(rig.site)[1]
    fake.overlook(lost)
    for _ in range(3):
        found = seen(rig, pod)
        assert found is not None and found.status is Status.PENDING and "not seen" in found.reason
        rig.driver.update(scope(), [pod], {})
        assert KEY in fake.wire.leaves[lost] and KEY in fake.wire.hosts[lost]
    fake.overlook()
    found = seen(rig, pod)
    assert found is not None and found.status is Status.SETTLED


def test_release_names_what_a_partial_discovery_may_have_missed(
    rig: FakeRig, fake: FakeFabric, pod: Resource
) -> None:
    """A member that isn't discovered can't be proved clean, and the receipt says that others may have been missed."""
    first, other = host_ports(rig.site)[0], host_ports(rig.site)[5]
    fake.overlook(first)
    rig.driver.delete(scope(), [pod], {})
    found = seen(rig, pod)
    assert found is not None and "can't be proved absent" in found.reason
    fake.overlook(other)
    items = rig.driver.clean(segment_of(pod), rig.driver.snapshot()).items
    [elsewhere] = [i for i in items if i.plane == "p_key elsewhere"]
    assert "the discovery was partial" in elsewhere.seen
    assert any("Connection timed out" in u for u in elsewhere.unread)


def test_status_shows_the_time_outs(rig: FakeRig, fake: FakeFabric) -> None:
    """In the status of the manager whose agent made the discovery."""
    fake.overlook(host_ports(rig.site)[0])
    assert any("Connection timed out" in p for m in rig.driver.status().managers for p in m.problems)


def test_partial_discovery_reports_nothing_as_missing(rig: FakeRig, fake: FakeFabric) -> None:
    """No differences, and adopting keeps what the site describes."""
    lost = host_ports(rig.site)[0]
    fake.cut(lost)
    whole = rig.driver.topology()
    [missing] = fabric_differences(rig.site, FABRIC, whole)
    assert missing.kind == "missing node" and not whole.partial
    fake.repair(lost)
    fake.overlook(lost)
    partial = rig.driver.topology()
    assert partial.partial and partial.nodes == whole.nodes
    assert fabric_differences(rig.site, FABRIC, partial) == ()
    assert adopt_links(rig.site, FABRIC, partial) == canonical_links(rig.site.links)


# -- the real programs ------------------------------------------------------------------------------------------------

_BLIND = """\
#!{python}
# ibnetdiscover as with time-outs: nodes named in {hidden} are left out, with a message each, and the exit code is 0.
import os, re, subprocess, sys
done = subprocess.run(["ibnetdiscover", *sys.argv[1:]], capture_output=True, text=True)
names = open("{hidden}").read().split("\\n")
blocks = done.stdout.split("\\n\\n")
found = [re.search(r'^Ca\\s+\\d+ "(H-[0-9a-f]+)"\\s+# "([^"]*)"', b, re.M) for b in blocks]
gone = [m[1] for m in found if m and m[2] in names]
left = [b for b, m in zip(blocks, found) if not (m and m[1] in gone)]
lines = [x for x in "\\n\\n".join(left).split("\\n") if not any(f'"{{g}}"' in x for g in gone)]
print("\\n".join(lines))
for g in gone:
    print("src/query_smp.c:197; umad (DR path slid 0; dlid 0) bad status 110; Connection timed out", file=sys.stderr)
sys.exit(done.returncode)
"""


@pytest.fixture
def hidden(real: RealRig, tmp_path: Path) -> Iterator[Path]:
    """The file with the node descriptions that the real agents' discoveries leave out."""
    hidden, program = tmp_path / "hidden", tmp_path / "blind"
    hidden.write_text("")
    program.write_text(_BLIND.format(python=sys.executable, hidden=hidden))
    program.chmod(0o755)
    before: dict[Path, str] = {}
    for agent in real.agents:
        config = real.faults.partitions_file(agent).with_name("agent.yaml")
        before[config] = config.read_text()
        config.write_text(f"{before[config]}tools: {{ibnetdiscover: {program}}}\n")
    _restart(real)
    yield hidden
    for config, text in before.items():
        config.write_text(text)
    _restart(real)


def _restart(real: RealRig) -> None:
    for agent in real.agents:
        real.faults.stop(f"agent-{agent}")
        real.faults.start(f"agent-{agent}")


@pytest.mark.fabric
@pytest.mark.nightly(
    reason="agents are started again with another program; by day on the fake and on a fake client"
)
def test_real_agents_keep_the_keys_of_a_host_that_timed_out(real: RealRig, hidden: Path) -> None:
    """Its leaf port doesn't change until it is really cut off, which is noticed; the status shows the time-outs."""
    ports = host_ports(real.site)
    wanted, lost = partition(KEY & 0x7FFF, ports[:3]), ports[1]
    real.driver.create(scope(), [wanted], {})

    def is_settled() -> bool:
        found = seen(real, wanted)
        return found is not None and found.status is Status.SETTLED

    until("it is settled", is_settled)
    hidden.write_text("gpu02 mlx5_0")
    _restart(real)  # forget earlier discoveries
    for _ in range(3):
        real.driver.update(scope(), [wanted], {})
        assert all(KEY in keys for keys in real.faults.read_keys(lost))
    assert not is_settled()
    problems = [p for m in real.driver.status().managers for p in m.problems]
    assert any("Connection timed out" in p for p in problems), problems
    hidden.write_text("")
    until("it is settled again", is_settled)
    real.cut(lost)

    def is_vacated() -> bool:
        before = real.driver.snapshot().seen.tables
        real.driver.update(scope(), [wanted], {})
        after = real.driver.snapshot().seen.tables
        return lost not in {p.port_guid for p in before.ports} and not after.vacant and not after.partial

    until("its leaf port is vacant", is_vacated)
