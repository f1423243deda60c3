"""Agents: one for each IPU-Machine."""

from __future__ import annotations

from openvipu.model.errors import AlreadyExists, Conflict
from openvipu.model.names import check_host, check_id, check_port
from openvipu.model.site import Agent, Machine
from openvipu.model.state import State


def check_new(state: State, id_: str, host: str, port: int) -> None:
    """Refuse a bad or taken id, a bad address, and an address that another agent has."""
    check_id("agent id", id_)
    check_host("host", host)
    check_port("port", port)
    if id_ in state.agents:
        raise AlreadyExists(f"agent {id_!r} exists already")
    for other in state.agents.values():
        if (other.host, other.port) == (host, port):
            raise AlreadyExists(f"{host}:{port} is agent {other.id!r} already")


def add(state: State, agent: Agent) -> State:
    """The state with the agent; one machine can't be two agents, whatever its addresses."""
    check_new(state, agent.id, agent.host, agent.port)
    for other in state.agents.values():
        if other.machine.serial == agent.machine.serial:
            raise AlreadyExists(f"the machine {agent.machine.serial} is agent {other.id!r} already")
    return state.with_agent(agent)


def without(state: State, id_: str) -> State:
    """The state without the agent; refused while a cluster has it."""
    state.agent(id_)
    owner = next((entry.id for entry in state.clusters.values() if id_ in entry.agent_ids), None)
    if owner:
        raise Conflict(f"agent {id_!r} is in cluster {owner!r}; remove the cluster first")
    return state.without_agent(id_)


def healthy(machine: Machine) -> bool:
    """Are all its IPUs healthy?"""
    return all(ipu.healthy for ipu in machine.ipus)
