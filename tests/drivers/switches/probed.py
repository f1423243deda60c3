"""Agents beside the hosts of real switches, for tests of weft's prober."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.drivers.switches.rigs import RealSwitches, scope, vlan
from weft.drivers.probes import FrameProber
from weft.model.errors import UnknownError
from weft.model.fabric import SegmentCheck
from weft.model.fabrictypes import Mode
from weft.model.probeapi import ProbeStatus, RoundQuery, RoundResult
from weft.model.problem import ProblemKind
from weft.model.resources import Resource
from weft.model.site import Traffic
from weft.model.specs import SegmentSpec
from weft.probeagent.agent import ProbeAgent as Agent
from weft.probeagent.config import Adapter, ProbeConfig
from weftlab.site import FABRIC

FIRST, SECOND = 0x101, 0x102
MEMBERS = ("host1", "host2", "host5")


@dataclass
class Beside:
    """An agent without HTTPS.

    Attributes:
        silent: it doesn't answer.
        late: seconds that its next round, or with `always` each, begins late.
    """

    name: str
    agent: Agent
    silent: bool = False
    late: float = 0.0
    always: bool = False
    asked: list[RoundQuery] = field(default_factory=list[RoundQuery])

    def status(self) -> ProbeStatus:
        return self.agent.status()

    def round(self, query: RoundQuery) -> RoundResult:
        self.asked.append(query)
        if self.silent:
            raise UnknownError("POST round", "the agent", "no answer")
        time.sleep(self.late)
        self.late = self.late if self.always else 0.0
        return self.agent.round(query)


class Probed:
    """Two agents: one beside host1 to host4, one beside all others."""

    def __init__(self, rig: RealSwitches, policy: str = "warn") -> None:
        names = [n.name for n in rig.site.nodes]
        near, far = [n for n in names if n in ("host1", "host2", "host3", "host4")], list[str]()
        far += [n for n in names if n not in near]
        self.agents = {a: Beside(a, self._agent(rig, a, mine)) for a, mine in (("near", near), ("far", far))}
        traffic = self.traffic = Traffic.model_validate(
            {
                "agents": [
                    {"name": "near", "url": "https://near.example", "nodes": near},
                    {"name": "far", "url": "https://far.example", "nodes": far},
                ],
                "ca": "ca.pem",
                "certificate": "weft.pem",
                "key": "weft.key",
                "seconds": 1.0,
                "policy": policy,
            }
        )
        self.prober = FrameProber(rig.site, FABRIC, traffic, list(self.agents.values()), ledger=rig.records)

    @staticmethod
    def _agent(rig: RealSwitches, name: str, nodes: list[str]) -> Agent:
        tls = {"ca": "ca.pem", "certificate": "a.pem", "key": "a.key"}
        adapters = {f"{n}/mlx5_0": Adapter(interface="eth0", namespace=rig.lab.ovs.space(n)) for n in nodes}
        listen = {"host": "127.0.0.1", "port": 1}
        settings = {"name": name, "listen": listen, "tls": tls, "adapters": adapters}
        return Agent(ProbeConfig.model_validate(settings))


def made(
    rig: RealSwitches, pod: int, number: int, hosts: tuple[str, ...], mode: Mode = Mode.ACCESS
) -> SegmentSpec:
    wanted = vlan(number, [rig.port(h) for h in hosts], mode)
    assert rig.driver.create(scope(pod), [wanted], {})["partition"].error is None
    return spec(wanted)


def spec(resource: Resource) -> SegmentSpec:
    assert isinstance(resource.spec, SegmentSpec)
    return resource.spec


def addresses(rig: RealSwitches, hosts: tuple[str, ...]) -> Mapping[str, str]:
    return {rig.port(h): rig.hosts.by_name[h].address for h in hosts}


def settled(rig: RealSwitches, *pairs: tuple[str, str]) -> None:
    """Wait until these reach each other, which spanning tree and bonds delay."""
    rig.hosts.await_reach(pairs, seconds=40)


def quiet(prober: FrameProber, segment: SegmentSpec, addresses: Mapping[str, str]) -> SegmentCheck:
    """The first check without findings, or the last of a few.

    After hosts reached each other a switch may still move a bond, its datapath an old path, or the spanning tree a
    link.
    """
    found = prober.check(segment, addresses)
    for _ in range(20):
        if not (found.problems or found.notes):
            break
        found = prober.check(segment, addresses)
    return found


def kinds(check: SegmentCheck) -> set[ProblemKind]:
    return {p.kind for p in check.problems}
