"""Cluster tests: versions, cables, links and traffic of a cluster without partitions.

What the closed controller tests is documented only as "cables and topology" [admin guide]; the list and
the table are our choice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from openvipu.controller.core import Core
from openvipu.controller.inventory import Inventory
from openvipu.model.errors import BadRequest, Conflict
from openvipu.model.site import Cluster, Machine
from openvipu.model.state import State
from openvipu.proto import agent_pb2 as pb
from openvipu.rules import clusters
from openvipu.rules.admission import check_removable_agents

Outcome = tuple[int, list[str]]
"""How many checks there were, and a sentence for each that failed."""


@dataclass(frozen=True, slots=True)
class TestResult:
    """One row of the table."""

    name: str
    seconds: float
    passed: int
    total: int
    failures: tuple[str, ...]

    @property
    def summary(self) -> str:
        """How many checks failed, in words."""
        if not self.total:
            return "Nothing to test"
        return f"{len(self.failures)} failed" if self.failures else f"All {self.name} checks passed"


@dataclass(frozen=True, slots=True)
class TestBed:
    """A cluster under test, with its machines as their agents describe them."""

    core: Core
    cluster: Cluster
    machines: dict[str, Machine]


def run(core: Core, inventory: Inventory, cluster_id: str, names: Sequence[str] = ()) -> list[TestResult]:
    """Run the named tests, or all. Conflict while the cluster has partitions, since traffic disturbs them."""
    unknown = [name for name in names if name not in TESTS]
    if unknown:
        raise BadRequest(f"test {unknown[0]!r} is not known; use {', '.join(TESTS)}")

    def begin(state: State) -> tuple[State, Cluster]:
        cluster = state.cluster(cluster_id)
        check_removable_agents(state, cluster.agent_ids, f"cluster {cluster_id!r}")
        if cluster_id in core.testing:
            raise Conflict(f"cluster {cluster_id!r} is being tested already")
        core.testing.add(cluster_id)
        return state, cluster

    def end(state: State) -> tuple[State, None]:
        core.testing.discard(cluster_id)
        return state, None

    cluster = core.change(begin)
    try:
        bench = TestBed(core, cluster, inventory.describe(cluster.agent_ids))
        return [_timed(name, test, bench) for name, test in TESTS.items() if not names or name in names]
    finally:
        core.change(end)


def _timed(name: str, test: Callable[[TestBed], Outcome], bench: TestBed) -> TestResult:
    began = time.monotonic()
    total, failures = test(bench)
    return TestResult(name, time.monotonic() - began, total - len(failures), total, tuple(failures))


def _version(bench: TestBed) -> Outcome:
    """Every machine must have the software of the first."""
    first = bench.machines[bench.cluster.agent_ids[0]]
    failures = [
        f"{agent} has software {machine.software_version}, the first machine {first.software_version}"
        for agent, machine in bench.machines.items()
        if machine.software_version != first.software_version
    ]
    return len(bench.machines), failures


def _cabling(bench: TestBed) -> Outcome:
    """Every cable must lead where the topology says, and be good at both ends."""
    cables = [*clusters.ipulink_cables(bench.cluster), *clusters.gateway_cables(bench.cluster)]
    wrong = dict(clusters.cabling_faults(bench.cluster, bench.machines))
    failures = list(wrong.values())
    failures += [
        f"cable {cable} has no link" for cable in cables if cable not in wrong and not _is_up(bench, cable)
    ]
    switched = list(clusters.switched_ports(bench.cluster))
    return len(cables) + len(switched), failures


def _sync(bench: TestBed) -> Outcome:
    """Sync-Links run beside the IPU-Links and must be up."""
    cables = list(clusters.sync_cables(bench.cluster))
    return len(cables), [f"Sync-Link {cable} has no link" for cable in cables if not _is_up(bench, cable)]


def _link_training(bench: TestBed) -> Outcome:
    return _ask(bench, "link-training", _ports(clusters.ipulink_cables(bench.cluster)))


def _traffic(bench: TestBed) -> Outcome:
    return _ask(bench, "traffic", _ports(clusters.ipulink_cables(bench.cluster)))


def _gateway_link(bench: TestBed) -> Outcome:
    return _ask(bench, "link-training", _gateway_ports(bench))


def _gateway_traffic(bench: TestBed) -> Outcome:
    return _ask(bench, "traffic", _gateway_ports(bench))


def _ask(bench: TestBed, test: str, ports: dict[str, list[str]]) -> Outcome:
    """Let every machine test its ends; one check a machine, its failures joined to one sentence."""
    calls = {
        id_: (bench.core.state.agent(id_), pb.RunTestRequest(test=test, ports=ports[id_])) for id_ in ports
    }
    replies, refusals = bench.core.fleet.call_all("RunTest", calls)
    failures = [str(refusal) for refusal in refusals.values()]
    failures += [f"{id_}: {', '.join(reply.failures)}" for id_, reply in replies.items() if reply.failures]
    return len(ports), failures


def _ports(cables: Iterable[clusters.Cable]) -> dict[str, list[str]]:
    ports: dict[str, list[str]] = {}
    for cable in cables:
        ports.setdefault(cable.agent_id, []).append(cable.port)
        ports.setdefault(cable.peer_agent_id, []).append(cable.peer_port)
    return ports


def _gateway_ports(bench: TestBed) -> dict[str, list[str]]:
    ports = _ports(clusters.gateway_cables(bench.cluster))
    for agent, port in clusters.switched_ports(bench.cluster):
        ports.setdefault(agent, []).append(port)
    return ports


def _is_up(bench: TestBed, cable: clusters.Cable) -> bool:
    return any(port.name == cable.port and port.up for port in bench.machines[cable.agent_id].ports)


TESTS: dict[str, Callable[[TestBed], Outcome]] = {
    "Version": _version,
    "Cabling": _cabling,
    "Sync-Link": _sync,
    "Link-Training": _link_training,
    "Traffic": _traffic,
    "GW-Link": _gateway_link,
    "GW-Traffic": _gateway_traffic,
}
"""Every test by the name in the table, in the order of the table."""
