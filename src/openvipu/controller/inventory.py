"""The administrators' operations: agents, clusters, allocations, users."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from dataclasses import replace

from openvipu.controller.core import Core
from openvipu.controller.watch import sweep
from openvipu.convert import machine_from_wire, status_from_wire
from openvipu.model.errors import AlreadyExists, BadRequest, Conflict, Refusal, Unavailable
from openvipu.model.site import Agent, Allocation, Cluster, Machine, User
from openvipu.model.state import State
from openvipu.proto import agent_pb2 as pb
from openvipu.rules import agents, allocations, clusters, users

log = logging.getLogger("openvipu")

NO_MACHINE = Machine("", "", "", "", "", "", 0, 0, ())


class Inventory:
    """Each verb is one change of the state; what must be asked of agents is asked before it."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def create_agent(self, id_: str, host: str, port: int) -> Agent:
        """Claim the agent for this controller, store its machine's description, and clear foreign settings on it."""
        agents.check_new(self._core.state, id_, host, port)
        asked = Agent(id_, host, port, NO_MACHINE)
        reply = self._core.fleet.call(asked, "Claim", pb.ClaimRequest())
        agent = replace(asked, machine=machine_from_wire(reply.machine))

        def decide(state: State) -> tuple[State, None]:
            added = agents.add(state, agent)
            self._core.health.dirty(id_)  # none of its IPUs is assigned before a poll
            return added, None

        try:
            self._core.change(decide)
        except AlreadyExists:
            known = [entry.machine.serial for entry in self._core.state.agents.values()]
            if agent.machine.serial not in known:
                self._core.fleet.call(asked, "Release", pb.ReleaseRequest())
            raise
        try:
            status = self._core.fleet.call(agent, "GetStatus", pb.GetStatusRequest())
        except Refusal as refusal:
            log.warning("agent %s: it isn't assigned before the next poll: %s", id_, refusal)
        else:
            sweep(self._core, id_, status_from_wire(status))
        return agent

    def remove_agent(self, id_: str, force: bool) -> None:
        """Release the agent, then forget it; with ``force`` also when it doesn't answer."""
        agent = self._core.state.agent(id_)
        agents.without(self._core.state, id_)
        try:
            self._core.fleet.call(agent, "Release", pb.ReleaseRequest())
        except Refusal as refusal:
            if not force:
                raise type(refusal)(f"{refusal}; --force forgets the agent all the same") from None
        try:
            self._core.change(lambda state: (agents.without(state, id_), None))
        except Refusal:
            # a cluster took it meanwhile: claim it again
            self._core.fleet.call(agent, "Claim", pb.ClaimRequest())
            raise
        self._core.fleet.forget([agent])
        self._core.health.forget(id_)

    def create_cluster(
        self, id_: str, topology: str, gateway: str, ilds: int, agent_ids: Sequence[str]
    ) -> Cluster:
        """Make the cluster if its machines are cabled as its topology says."""
        cluster = clusters.make(self._core.state, id_, topology, gateway, ilds, agent_ids)
        machines = self.describe(agent_ids)
        for _, sentence in clusters.cabling_faults(cluster, machines):
            raise Conflict(f"cluster {id_!r} doesn't match the cables: {sentence}")

        def decide(state: State) -> tuple[State, Cluster]:
            made = clusters.make(state, id_, topology, gateway, ilds, agent_ids)
            for agent_id, machine in machines.items():
                state = state.with_agent(replace(state.agent(agent_id), machine=machine))
            return state.with_cluster(made), made

        return self._core.change(decide)

    def remove_cluster(self, id_: str) -> None:
        """Forget a cluster that has neither allocations nor partitions."""
        self._core.change(lambda state: (clusters.without(state, id_), None))

    def create_allocation(self, id_: str, cluster_id: str, size: int, agent_ids: Sequence[str]) -> Allocation:
        """An allocation of named agents, or of ``size`` IPUs wherever they fit best."""
        _one_of(size, agent_ids)

        def decide(state: State) -> tuple[State, Allocation]:
            if agent_ids:
                made = allocations.by_agents(state, id_, cluster_id, agent_ids)
            else:
                made = allocations.by_size(state, id_, cluster_id, size)
            return state.with_allocation(made), made

        return self._core.change(decide)

    def allocation_options(
        self, id_: str, cluster_id: str, size: int, agent_ids: Sequence[str]
    ) -> list[Allocation]:
        """Where the allocation could go, the best first; nothing is created."""
        _one_of(size, agent_ids)
        if agent_ids:
            return [allocations.by_agents(self._core.state, id_, cluster_id, agent_ids)]
        return [
            replace(entry, id=id_) for entry in allocations.candidates(self._core.state, cluster_id, size)
        ]

    def remove_allocation(self, id_: str) -> None:
        """Take the allocation from its users; its partitions must be gone."""
        self._core.change(lambda state: (allocations.without(state, id_), None))

    def create_user(
        self, id_: str, allocation_ids: Sequence[str], admin: bool, access_key: str = ""
    ) -> tuple[User, str]:
        """The user and the access key: the given one, or a generated one, which is returned only here."""
        salt, key = secrets.token_hex(8), users.check_key(access_key) if access_key else new_key()

        def decide(state: State) -> tuple[State, User]:
            user = users.make(state, id_, salt, key, allocation_ids, admin)
            return state.with_user(user), user

        return self._core.change(decide), key

    def update_user(self, id_: str, allocation_ids: Sequence[str]) -> User:
        """Give the user another list of allocations."""

        def decide(state: State) -> tuple[State, User]:
            user = users.with_allocations(state, id_, allocation_ids)
            return state.with_user(user), user

        return self._core.change(decide)

    def remove_user(self, id_: str) -> None:
        """Remove a user. Raises `NotFound`."""
        self._core.change(lambda state: (users.without(state, id_), None))

    def describe(self, agent_ids: Sequence[str]) -> dict[str, Machine]:
        """What the agents say of their machines now; Unavailable names the first that doesn't answer."""
        state = self._core.state
        calls = {id_: (state.agent(id_), pb.DescribeRequest()) for id_ in agent_ids}
        replies, refusals = self._core.fleet.call_all("Describe", calls)
        for refusal in refusals.values():
            raise Unavailable(str(refusal))
        return {id_: machine_from_wire(reply.machine) for id_, reply in replies.items()}


def new_key() -> str:
    """An access key of 96 random bits, without characters that a shell would read."""
    return secrets.token_urlsafe(12).replace("-", "_")


def _one_of(size: int, agent_ids: Sequence[str]) -> None:
    if bool(size) == bool(agent_ids):
        raise BadRequest("give either size (IPUs) or agent_ids for an allocation")
