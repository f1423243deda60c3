"""An IPU-POD in memory behind the same ports as the V-IPU driver: machines bound to a controller that may fail.

Three states may disagree: the controller that an agent is bound to (`owners`), what a controller lists (`has`), and
what is set up on a machine (`settings`).

pod = FakeVipu("pod1", ["ipum1", "ipum2"])
pod.boot(scope, graph)                  # what the controller's cloud-init does
pod.make_partition(pod_id, "mine")      # the tenant's, on all machines of the controller
pod.lose_controller(scope.owner.id)     # the virtual machine is gone, the machines are still bound to it
pod.away.add("ipum2")                   # its agent doesn't answer
pod.stuck.add("ipum2")                  # its agent can't clear it
pod.owners["ipum1"] = "someone-else"
pod.owners["ipum1"] = ""                # its agent has forgotten its controller; what is set up stays
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.model.errors import PermanentError, TemporaryError, UnknownError
from weft.model.kindrow import Home
from weft.model.kinds import kinds_at
from weft.model.owner import Owner
from weft.model.resources import AnyKind, Difference, Graph, Kind, Marked, Observed, Outcome, Resource, Status
from weft.model.site import IPUS_PER_MACHINE
from weft.model.specs import VipuAgentSpec, VipuAllocationSpec, VipuUserSpec
from weft.planning.shapes.ipu.init import controller_id
from weft.ports.resources import Ids, Observations, Outcomes, Scope


@dataclass(slots=True)
class FakeController:
    """One controller's contents: keys of resources, the tenant's partitions, its users' allocations."""

    has: dict[str, Resource] = field(default_factory=dict[str, Resource])
    partitions: set[str] = field(default_factory=set[str])
    up: bool = True
    taken: set[str] = field(default_factory=set[str])
    """Keys of users whose allocation was removed by hand."""


class FakeVipu:
    """`ResourceDriver` and `MachineReader`.

    Attributes:
        meanwhile: called when a proof is requested or cleared, before anything is done.
    """

    def __init__(self, name: str, machines: Sequence[str]) -> None:
        self.name = name
        self.owners = dict.fromkeys(machines, "")
        self.settings = {m: set[str]() for m in machines}
        self.away: set[str] = set()
        self.stuck: set[str] = set()
        self.controllers: dict[str, FakeController] = {}
        self.proofs = 0
        self.meanwhile: Callable[[], object] = lambda: None

    # -- changes by others -----------------------------------------------------------------------------------

    def boot(self, scope: Scope, graph: Graph) -> FakeController:
        """What the controller's cloud-init does."""
        controller = self.controllers.setdefault(scope.owner.id, FakeController())
        for resource in graph.resources:
            if resource.kind.row.home is Home.MACHINES:
                self._make(scope, controller, resource)
        return controller

    def make_partition(self, pod_id: str, name: str) -> None:
        """Make a partition of the tenant's on all machines of the pod.

        Raises `PermanentError` if another one is still set up on a machine.
        """
        controller = self.controllers[pod_id]
        for machine in self._listed(controller):
            if left := self.settings[machine] - {name}:
                raise PermanentError(
                    "create a partition", self.name, f"{machine} belongs to {min(left)}", "check"
                )
        for machine in self._listed(controller):
            self.settings[machine].add(name)
        controller.partitions.add(name)

    def lose_controller(self, pod_id: str) -> None:
        """Let a pod's controller stop answering."""
        self.controllers[pod_id].up = False

    # -- ResourceDriver --------------------------------------------------------------------------------------

    @property
    def kinds(self) -> frozenset[AnyKind]:
        return kinds_at(Home.MACHINES)

    def find(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Observations:
        found = {r.key: Observed.absent("not listed") for r in wanted}
        for resource in wanted:
            spec = resource.spec
            if isinstance(spec, VipuAgentSpec):
                if (seen := self._seen_agent(scope, resource.key, spec.machine)) is not None:
                    found[resource.key] = seen
                continue
            controller = self.controllers.get(scope.owner.id)
            if controller is None or not controller.up:
                if any(self._owner(m) == controller_id(scope.owner.id) for m in _machines(resource)):
                    raise self._no_answer("find")
                continue
            if resource.key in controller.has:
                taken = resource.key in controller.taken and isinstance(spec, VipuUserSpec)
                wanted_text = spec.allocation if isinstance(spec, VipuUserSpec) else ""
                differs = Difference(field="allocations", wanted=wanted_text, observed="")
                found[resource.key] = Observed(_id(resource), differences=(differs,) if taken else ())
        return found

    def create(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        controller = self._answering(scope, "create")
        for resource in wanted:
            self._make(scope, controller, resource)
        return {r.key: Outcome(_id(r)) for r in wanted}

    def update(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        controller = self._answering(scope, "update")
        outcomes: dict[str, Outcome] = {}
        for resource in wanted:
            if isinstance(resource.spec, VipuUserSpec):
                controller.taken.discard(resource.key)
                outcomes[resource.key] = Outcome(_id(resource))
            elif isinstance(resource.spec, VipuAgentSpec) and resource.key not in controller.has:
                self._make(scope, controller, resource)
                outcomes[resource.key] = Outcome(_id(resource))
            else:
                error = PermanentError("update", self.name, "it can't be changed in place", "release the pod")
                outcomes[resource.key] = Outcome(error=error)
        return outcomes

    def delete(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        controller = self.controllers.get(scope.owner.id)
        outcomes: dict[str, Outcome] = {}
        for resource in wanted:
            if controller is None or not controller.up:
                outcomes[resource.key] = self._release(scope.owner.id, _machines(resource))
            elif isinstance(resource.spec, VipuAgentSpec):
                outcomes[resource.key] = self._release(scope.owner.id, _machines(resource))
                if outcomes[resource.key].error is None:
                    controller.has.pop(resource.key, None)
            else:
                if isinstance(resource.spec, VipuAllocationSpec):
                    self._clear_partitions(scope.owner.id, controller)
                controller.has.pop(resource.key, None)
                outcomes[resource.key] = Outcome(_id(resource))
        return outcomes

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        found: list[Marked] = []
        for machine in self.owners:
            owner = self._owner(machine)
            if owner.startswith("weft-"):
                pod = Owner.pod(owner.removeprefix("weft-"))
                found.append(Marked(Kind.VIPU_AGENT, self.name, machine, machine, pod, None))
        return found

    def remove_marked(self, things: Sequence[Marked]) -> Mapping[str, Outcome]:
        return {t.id: self._release(t.owner.id, (t.id,)) for t in things if t.owner}

    # -- MachineReader ---------------------------------------------------------------------------------------

    def unfit(self) -> Mapping[str, str]:
        reasons: dict[str, str] = {}
        for machine, owner in self.owners.items():
            if machine in self.away:
                reasons[machine] = "its V-IPU agent doesn't answer"
            elif owner:
                reasons[machine] = f"its V-IPU agent is bound to controller {owner}"
            elif self.settings[machine]:
                reasons[machine] = _left(len(self.settings[machine]))
        return reasons

    def prove(self, scope: Scope, resources: Sequence[Resource]) -> str:
        self.meanwhile()
        scope.fence()
        controller = self._answering(scope, "prove")
        if not any(isinstance(r.spec, VipuUserSpec) for r in controller.has.values()):
            raise PermanentError("prove", self.name, "no such user", "check the controller")
        self.proofs += 1
        if controller.partitions:
            ipus = IPUS_PER_MACHINE * len(self._listed(controller))
            return (
                f"the tenant's user has partitions of {ipus} of {ipus} IPUs: "
                f"{', '.join(sorted(controller.partitions))}"
            )
        self.make_partition(scope.owner.id, "weft-proof")
        return "the tenant's user created a partition"

    def clear_proof(self, scope: Scope, resources: Sequence[Resource]) -> None:
        self.meanwhile()
        scope.fence()
        controller = self._answering(scope, "clear the proof")
        controller.partitions.discard("weft-proof")
        for machine in self._listed(controller):
            self.settings[machine].discard("weft-proof")

    # -- inside ----------------------------------------------------------------------------------------------

    def _seen_agent(self, scope: Scope, key: str, machine: str) -> Observed | None:
        """What was observed of a machine's agent; None: it isn't bound, and nothing is set up."""
        owner, facts = self._owner(machine), {"controller": self.owners[machine]}
        if not owner:
            many = len(self.settings[machine])
            return Observed(machine, Status.BROKEN, _left(many), facts=facts) if many else None
        if owner != controller_id(scope.owner.id):
            reason = f"its agent is bound to controller {owner}, which is not this pod's"
            return Observed(machine, Status.BROKEN, reason)
        controller = self.controllers.get(scope.owner.id)
        listed = controller is None or not controller.up or scope.leaving or key in controller.has
        differs = Difference(field="its controller's list", wanted="with it", observed="without it")
        return Observed(machine, differences=() if listed else (differs,), facts=facts)

    def _make(self, scope: Scope, controller: FakeController, resource: Resource) -> None:
        """Create a resource. A machine that is new to its controller is cleared; one that it has is only bound to it
        again.
        """
        spec = resource.spec
        if isinstance(spec, VipuAgentSpec):
            self.owners[spec.machine] = self.owners[spec.machine] or controller_id(scope.owner.id)
            if resource.key not in controller.has and spec.machine not in self.stuck:
                self.settings[spec.machine].clear()
        controller.has[resource.key] = resource

    def _listed(self, controller: FakeController) -> list[str]:
        return [r.spec.machine for r in controller.has.values() if isinstance(r.spec, VipuAgentSpec)]

    def _clear_partitions(self, pod_id: str, controller: FakeController) -> None:
        """Clear the machines by force. One that can't be cleared, or is no longer bound to the controller, stays as it
        is.
        """
        for machine in self._listed(controller):
            if self.owners[machine] == controller_id(pod_id) and machine not in self.stuck:
                self.settings[machine].clear()
        controller.partitions.clear()

    def _release(self, pod_id: str, machines: Sequence[str]) -> Outcome:
        released = False
        for machine in machines:
            if machine in self.away:
                return Outcome(error=self._no_answer(f"release {machine}"))
            left = not self.owners[machine] and self.settings[machine]
            if self.owners[machine] != controller_id(pod_id) and not left:
                continue
            self.owners[machine] = controller_id(pod_id)
            if machine in self.stuck:
                what = "the board doesn't answer"
                return Outcome(
                    error=PermanentError(f"release {machine}", self.name, what, "check the machine")
                )
            self.settings[machine].clear()
            self.owners[machine] = ""
            released = True
        return Outcome(machines[0]) if released else Outcome()

    def _owner(self, machine: str) -> str:
        if machine in self.away:
            raise self._no_answer(f"read the owner of {machine}")
        return self.owners[machine]

    def _answering(self, scope: Scope, verb: str) -> FakeController:
        controller = self.controllers.get(scope.owner.id)
        if controller is None or not controller.up:
            raise TemporaryError(verb, "the pod's V-IPU controller", "it has not booted yet", delay=0.1)
        return controller

    def _no_answer(self, asked: str) -> UnknownError:
        return UnknownError(asked, self.name, "no answer", delay=0.1)


def _machines(resource: Resource) -> tuple[str, ...]:
    spec = resource.spec
    if isinstance(spec, VipuAgentSpec):
        return (spec.machine,)
    return tuple(getattr(spec, "machines", ()))


def _id(resource: Resource) -> str:
    spec = resource.spec
    return spec.machine if isinstance(spec, VipuAgentSpec) else str(getattr(spec, "name", ""))


def _left(many: int) -> str:
    return f"its agent is bound to no controller, but {many} partition(s) are still set up on it"
