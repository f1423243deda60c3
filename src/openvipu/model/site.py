"""Machines, agents, clusters, allocations and users."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

IPUS_PER_MACHINE = 4
"""An IPU-M2000 and a Bow-2000 hold four IPUs (data sheet)."""


class Topology(StrEnum):
    """Shape of an IPU-Link domain: a ladder with open ends, or with its ends joined."""

    MESH = "mesh"
    TORUS = "torus"


class ClusterTopology(StrEnum):
    """How the GW-Links join the IPU-Link domains of a cluster."""

    NONE = "none"
    LOOPED = "looped"
    SWITCHED = "switched"


@dataclass(frozen=True, slots=True)
class Ipu:
    """One IPU as its machine reports it. ``number`` is 0 to 3 on the board."""

    number: int
    chip_id: str
    healthy: bool = True
    fault: str = ""
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Port:
    """One cable end: its name, who is at the other end (empty: nothing), and whether the link is up."""

    name: str
    peer_serial: str
    peer_port: str
    up: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """An IPU-Machine as its agent describes it. ``exporter_port`` 0: its agent runs no exporter."""

    serial: str
    name: str
    product: str
    software_version: str
    gateway_version: str
    rnic_address: str
    server_port: int
    rdma_port: int
    ipus: tuple[Ipu, ...]
    ports: tuple[Port, ...] = ()
    exporter_port: int = 0

    def peer(self, port: str) -> tuple[str, str]:
        """``(serial, port)`` at the other end of ``port``; empty strings when nothing is plugged in."""
        found = next((entry for entry in self.ports if entry.name == port), None)
        return (found.peer_serial, found.peer_port) if found else ("", "")


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that the administrator created, with the machine as it was described then."""

    id: str
    host: str
    port: int
    machine: Machine

    @property
    def target(self) -> str:
        """Where its gRPC service is, as ``host:port`` (IPv6 in brackets)."""
        return f"{self._host}:{self.port}"

    @property
    def exporter(self) -> str:
        """URL of the machine's metrics; empty if its agent runs no exporter."""
        port = self.machine.exporter_port
        return f"http://{self._host}:{port}/metrics" if port else ""

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


@dataclass(frozen=True, slots=True)
class Cluster:
    """IPUs joined by links: ``ilds`` IPU-Link domains of equally many machines, in cable order."""

    id: str
    topology: Topology
    gateway: ClusterTopology
    ilds: int
    agent_ids: tuple[str, ...]

    @property
    def machines_per_ild(self) -> int:
        """Machines of an IPU-Link domain."""
        return len(self.agent_ids) // self.ilds

    @property
    def ild_size(self) -> int:
        """IPUs in one IPU-Link domain."""
        return self.machines_per_ild * IPUS_PER_MACHINE

    def domain(self, ild: int) -> tuple[str, ...]:
        """The agents of one IPU-Link domain, in cable order."""
        first = ild * self.machines_per_ild
        return self.agent_ids[first : first + self.machines_per_ild]


@dataclass(frozen=True, slots=True)
class Allocation:
    """Agents of one cluster that are granted to users; ``agent_ids`` in cluster order."""

    id: str
    cluster_id: str
    agent_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class User:
    """A user. Only a salted hash of the access key is kept (hex)."""

    id: str
    salt: str
    key_hash: str
    allocation_ids: tuple[str, ...] = ()
    admin: bool = False
