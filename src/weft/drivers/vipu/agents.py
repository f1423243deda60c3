"""Machines' agents: their bindings, and the release of a machine in place of its controller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from openvipu.proto import agent_pb2
from weft.drivers.vipu.channels import READ_TIMEOUT, Channels
from weft.model.errors import PermanentError, UnknownError, WeftError
from weft.model.resources import Outcome
from weft.model.site import IpuMachine
from weft.planning.shapes.ipu.init import controller_id
from weft.ports.fences import Fence, unfenced


@dataclass(frozen=True, slots=True)
class Binding:
    """An agent's report on its machine.

    Attributes:
        controller: id of the controller that it is bound to; empty: none.
        settings: number of partitions that are set up on it.
    """

    controller: str
    settings: int

    @property
    def left(self) -> str:
        """What is wrong with an unbound machine that still has partitions of a former controller; empty if nothing
        is."""
        if self.controller or not self.settings:
            return ""
        many = "a partition is" if self.settings == 1 else f"{self.settings} partitions are"
        return f"its agent is bound to no controller, but {many} still set up on it"


class IpuAgents:
    """The agents of one IPU-POD; opens a new connection for each call."""

    def __init__(self, channels: Channels, machines: Mapping[str, IpuMachine]) -> None:
        self._channels, self._machines = channels, machines

    def bindings(self, machines: Iterable[str]) -> dict[str, Binding | UnknownError]:
        """Machine -> its binding, or why it isn't known."""
        names = sorted(machines)
        if not names:
            return {}
        with ThreadPoolExecutor(min(16, len(names)), thread_name_prefix="agents") as pool:
            return dict(zip(names, pool.map(self._binding, names), strict=True))

    def claim(self, pod_id: str, name: str) -> None:
        """Bind an unbound machine to the pod's controller again, with its key."""
        with self._channels.agent(self._machine(name), pod_id) as channel:
            asked = f"bind {name} to controller {controller_id(pod_id)}"
            channel.ask(asked, lambda stub: stub.Claim, agent_pb2.ClaimRequest())

    def release(self, pod_id: str, name: str, fence: Fence = unfenced) -> Outcome:
        """Release a machine from the pod's controller, which clears it, unless it is already released and
        clean. Only the controller that a machine is bound to can clear it: an unbound machine is claimed
        first.
        """
        binding = self._binding(name)
        if isinstance(binding, UnknownError):
            return Outcome(error=binding)
        if binding.controller != controller_id(pod_id) and not binding.left:
            return Outcome()
        fence()
        try:
            if binding.left:
                self.claim(pod_id, name)
            with self._channels.agent(self._machine(name), pod_id) as channel:
                asked = f"release {name} from controller {controller_id(pod_id)}"
                channel.ask(asked, lambda stub: stub.Release, agent_pb2.ReleaseRequest())
        except WeftError as error:
            return Outcome(error=error)
        return Outcome(name)

    def _binding(self, name: str) -> Binding | UnknownError:
        asked, of = f"read the owner of {name}", f"V-IPU agent of {name}"
        try:
            with self._channels.agent(self._machine(name)) as channel:
                request = agent_pb2.GetOwnerRequest()
                reply = channel.ask(asked, lambda stub: stub.GetOwner, request, READ_TIMEOUT)
        except WeftError as error:
            return error if isinstance(error, UnknownError) else UnknownError(asked, of, str(error))
        if not reply.controller_id and not reply.HasField("settings"):
            said = "it is bound to no controller, and doesn't say whether partitions are left"
            return UnknownError(asked, of, said, "update openvipu on its gateway")
        return Binding(str(reply.controller_id), int(reply.settings))

    def _machine(self, name: str) -> IpuMachine:
        if name not in self._machines:
            then = "activate a site that has it"
            raise PermanentError(f"find IPU-Machine {name}", "the active site", "it doesn't exist", then)
        return self._machines[name]
