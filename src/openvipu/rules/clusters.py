"""Making clusters, and checking that their machines are cabled as the cluster says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from openvipu.model.errors import AlreadyExists, BadRequest, Conflict
from openvipu.model.names import check_id
from openvipu.model.site import Cluster, ClusterTopology, Machine, Topology
from openvipu.model.state import State
from openvipu.rules.admission import check_removable_agents
from openvipu.rules.board import GATEWAY, SYNC, UP, is_power_of_two, opposite

Choice = TypeVar("Choice", Topology, ClusterTopology)


@dataclass(frozen=True, slots=True)
class Cable:
    """A cable that the cluster's topology calls for: from one agent's port to another's."""

    agent_id: str
    port: str
    peer_agent_id: str
    peer_port: str

    @property
    def start(self) -> str:
        """``agent:port`` of its first end."""
        return f"{self.agent_id}:{self.port}"

    @property
    def end(self) -> str:
        return f"{self.peer_agent_id}:{self.peer_port}"

    def __str__(self) -> str:
        return f"{self.start} to {self.end}"


def make(state: State, id_: str, topology: str, gateway: str, ilds: int, agents: Sequence[str]) -> Cluster:
    """The new cluster, checked by itself and against the state (not yet against the cables).

    An IPU-Link domain is a run of a power of two of machines, so that every aligned slot is whole: our
    choice. A machine is in one cluster at most, since its links can serve one topology.
    """
    check_id("cluster id", id_)
    if id_ in state.clusters:
        raise AlreadyExists(f"cluster {id_!r} exists already")
    cluster = Cluster(
        id=id_,
        topology=_choice(Topology, "topology", topology or "mesh"),
        gateway=_choice(ClusterTopology, "cluster_topology", gateway or "none"),
        ilds=ilds or 1,
        agent_ids=tuple(agents),
    )
    if not agents:
        raise BadRequest("agent_ids is empty; name the agents of the cluster in cable order")
    if len(set(agents)) != len(agents):
        raise BadRequest("agent_ids names an agent twice")
    for agent in agents:
        state.agent(agent)
        owner = next((other.id for other in state.clusters.values() if agent in other.agent_ids), None)
        if owner:
            raise Conflict(f"agent {agent!r} is in cluster {owner!r} already")
    if len(agents) % cluster.ilds or not is_power_of_two(len(agents) // cluster.ilds):
        raise BadRequest(
            f"agent_ids has {len(agents)} agents for num_ipulink_domains {cluster.ilds}; "
            "each domain takes the same power of two of machines"
        )
    if cluster.ilds > 1 and cluster.gateway is ClusterTopology.NONE:
        raise BadRequest(
            f"cluster_topology none can't join {cluster.ilds} IPU-Link domains; use looped or switched"
        )
    return cluster


def without(state: State, id_: str) -> State:
    """The state without this cluster; refused while it has allocations or partitions."""
    cluster = state.cluster(id_)
    owner = next((entry.id for entry in state.allocations.values() if entry.cluster_id == id_), None)
    if owner:
        raise Conflict(f"cluster {id_!r} has the allocation {owner!r}; remove its allocations first")
    check_removable_agents(state, cluster.agent_ids, f"cluster {id_!r}")
    return state.without_cluster(id_)


def ipulink_cables(cluster: Cluster) -> Iterator[Cable]:
    """IPU-Link cables: every machine's up ports to the next one; the last to the first in a torus.

    A torus domain of one machine has its loop on the board and needs no cable [seen: two agents, two
    domains, torus].
    """
    return _ring(cluster, UP)


def sync_cables(cluster: Cluster) -> Iterator[Cable]:
    """Sync-Link cables run beside the IPU-Links."""
    return _ring(cluster, tuple(port for port in SYNC if port.startswith("sync-up")))


def gateway_cables(cluster: Cluster) -> Iterator[Cable]:
    """Looped GW-Links: machine i's gw0 to machine i's gw1 in the next domain, around. Switched: none."""
    if cluster.ilds == 1 or cluster.gateway is not ClusterTopology.LOOPED:
        return
    for ild in range(cluster.ilds):
        following = cluster.domain((ild + 1) % cluster.ilds)
        for agent, peer in zip(cluster.domain(ild), following, strict=True):
            yield Cable(agent, "gw0", peer, "gw1")


def cabling_faults(cluster: Cluster, machines: Mapping[str, Machine]) -> Iterator[tuple[Cable, str]]:
    """Every cable of the cluster that isn't where it should be, with one sentence that says so."""
    serials = {machine.serial: agent for agent, machine in machines.items()}
    for cable in (*ipulink_cables(cluster), *gateway_cables(cluster)):
        serial, port = machines[cable.agent_id].peer(cable.port)
        if (serial, port) != (machines[cable.peer_agent_id].serial, cable.peer_port):
            there = f"{serials.get(serial, serial)}:{port}" if serial else "nothing"
            yield cable, f"{cable.start} must lead to {cable.end}; it leads to {there}"
    if cluster.ilds > 1 and cluster.gateway is ClusterTopology.SWITCHED:
        yield from _switch_faults(cluster, machines)


def switched_ports(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """The (agent, port) pairs that lead to a GW-Link switch."""
    if cluster.ilds > 1 and cluster.gateway is ClusterTopology.SWITCHED:
        for agent in cluster.agent_ids:
            for port in GATEWAY:
                yield agent, port


def _switch_faults(cluster: Cluster, machines: Mapping[str, Machine]) -> Iterator[tuple[Cable, str]]:
    for place in range(cluster.machines_per_ild):
        agents = [cluster.domain(ild)[place] for ild in range(cluster.ilds)]
        expected = machines[agents[0]].peer("gw0")[0]
        for agent in agents:
            for port in GATEWAY:
                serial, _ = machines[agent].peer(port)
                if not serial.startswith("switch-") or serial != expected:
                    text = f"{agent}:{port} must lead to the same GW-Link switch as {agents[0]}:gw0"
                    yield Cable(agent, port, agents[0], "gw0"), text


def _ring(cluster: Cluster, ports: Sequence[str]) -> Iterator[Cable]:
    for ild in range(cluster.ilds):
        agents = cluster.domain(ild)
        pairs = list(itertools.pairwise(agents))
        if cluster.topology is Topology.TORUS and len(agents) > 1:
            pairs.append((agents[-1], agents[0]))
        for agent, peer in pairs:
            for port in ports:
                yield Cable(agent, port, peer, opposite(port))


def _choice(kind: type[Choice], field: str, value: str) -> Choice:
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(entry.value for entry in kind)
        raise BadRequest(f"{field} {value!r} is not allowed; use one of {allowed}") from None
