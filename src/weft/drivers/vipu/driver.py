"""`ResourceDriver` and `MachineReader` of one IPU-POD.

What counts is what the machines report: an agent bound to no controller proves that nothing of a pod is left, whatever
became of its controller. A lost controller is therefore no obstacle to a release: weft releases its machines
in its place, with its key, which can be derived at any time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from openvipu.proto import agent_pb2
from weft.drivers.vipu.channels import READ_TIMEOUT, At, Channels, NoAnswerError
from weft.drivers.vipu.controller import Controller
from weft.drivers.vipu.proof import clear_partition, prove_partition
from weft.model.errors import NotYetError, PermanentError, TemporaryError, UnknownError, WeftError
from weft.model.kindrow import Home
from weft.model.kinds import kinds_at
from weft.model.owner import Owner
from weft.model.resources import (
    AnyKind,
    Kind,
    Marked,
    Observed,
    Outcome,
    Resource,
    Status,
    VipuAgentSpec,
    VipuAllocationSpec,
    VipuNamedSpec,
    VipuSpec,
)
from weft.model.site import IpuMachine, Site
from weft.planning.shapes.ipu.init import controller_id
from weft.ports.podkeys import PodKeys
from weft.ports.resources import Scope

BOOT_PATIENCE = 15.0
"""Seconds to wait for the controller's cloud-init before weft creates what is missing, or reports it."""

_POD = re.compile(r"weft-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z")


class VipuDriver:
    """Opens no connection by itself; thread-safe.

    Args:
        ipu_pod: name of the IPU-POD: `where` of its resources.
        patience: see `BOOT_PATIENCE`.
    """

    def __init__(self, site: Site, ipu_pod: str, keys: PodKeys, patience: float = BOOT_PATIENCE) -> None:
        self.name = ipu_pod
        self._machines = {m.name: m for m in site.ipu_machines if m.ipu_pod == ipu_pod}
        self._channels = Channels(keys, site.ipu_pods[ipu_pod].gateway)
        self._patience = patience

    @property
    def kinds(self) -> frozenset[AnyKind]:
        return kinds_at(Home.MACHINES)

    # -- ResourceDriver --------------------------------------------------------------------------------------

    def find(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Observed]:
        agents = [r for r in wanted if isinstance(r.spec, VipuAgentSpec)]
        others = [r for r in wanted if not isinstance(r.spec, VipuAgentSpec)]
        found: dict[str, Observed] = {}
        owners = self._owners({_agent(r).machine for r in agents})
        for resource in agents:
            machine = _agent(resource).machine
            owner = owners[machine]
            if isinstance(owner, UnknownError):
                raise owner
            found[resource.key] = _bound(machine, owner, scope)
        return {**found, **self._seen_by_controller(scope, others)}

    def create(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        """The controller's cloud-init creates all of it; what is missing after a while is created here."""
        controller = self._controller(scope, wanted)
        early = scope.waited < self._patience
        try:
            there = controller.listed(wanted)
        except NoAnswerError as error:
            kind, delay = (NotYetError, 0.5) if early else (TemporaryError, 2.0)
            raise kind(f"ask for {wanted[0].name}", error.of, "it has not booted yet", delay=delay) from error
        missing = [r for r in wanted if r.key not in there]
        if missing and early:
            not_yet = NotYetError(f"find {missing[0].name}", self.name, "cloud-init hasn't created it yet")
            return {r.key: Outcome(error=not_yet) if r in missing else Outcome(_id(r)) for r in wanted}
        scope.fence()
        made = {r.key: _outcome(controller.make, r) for r in missing}
        return {r.key: made.get(r.key, Outcome(_id(r))) for r in wanted}

    def update(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        controller = self._controller(scope, wanted)
        return {r.key: _outcome(controller.repair, r) for r in wanted}

    def delete(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        """Through the controller; if it can't be reached, the machines are released in its place."""
        if not wanted:
            return {}
        controller = self._controller(scope, wanted)
        try:
            return {r.key: _outcome(lambda x: controller.remove(x, scope.waited), r) for r in wanted}
        except NoAnswerError:
            machines = sorted({m for r in wanted for m in _machines(r)})
            scope.fence()
            released = {m: self._release(scope.owner.id, m) for m in machines}
            return {r.key: _worst(r, [released[m] for m in _machines(r)]) for r in wanted}

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        """Machines whose agent is bound to a controller of weft's; which site's is the gateways' network's own."""
        owners = self._owners(m.name for m in self._machines.values() if m.maintenance is None)
        found: list[Marked] = []
        for machine, owner in owners.items():
            if isinstance(owner, UnknownError):
                raise owner
            if match := _POD.match(owner):
                facts = {"controller": owner}
                found.append(
                    Marked(
                        Kind.VIPU_AGENT, self.name, machine, machine, Owner.pod(match.group(1)), None, facts
                    )
                )
        return found

    def remove_marked(self, things: Sequence[Marked]) -> Mapping[str, Outcome]:
        mine = [t for t in things if t.kind is Kind.VIPU_AGENT and t.where == self.name]
        return {t.id: self._release(t.owner.id, t.id) for t in mine if t.owner}

    # -- MachineReader ---------------------------------------------------------------------------------------

    def unfit(self) -> Mapping[str, str]:
        owners = self._owners(self._machines)
        reasons: dict[str, str] = {}
        for machine, owner in owners.items():
            if isinstance(owner, UnknownError):
                reasons[machine] = f"its V-IPU agent doesn't answer at {self._machines[machine].gw_address}"
            elif owner:
                reasons[machine] = f"its V-IPU agent is bound to controller {owner}"
        return reasons

    def prove(self, scope: Scope, resources: Sequence[Resource]) -> str:
        allocation = _allocation(resources)
        if allocation is None:
            raise PermanentError(
                f"create a partition for pod {scope.name}",
                self.name,
                "it has no allocation",
                "order IPUs",
            )
        scope.fence()
        with self._channels.user(scope.owner.id, _at(allocation), tenant=True) as channel:
            return prove_partition(channel, allocation)

    def clear_proof(self, scope: Scope, resources: Sequence[Resource]) -> None:
        if (allocation := _allocation(resources)) is not None:
            with self._channels.user(scope.owner.id, _at(allocation), tenant=True) as channel:
                clear_partition(channel)

    # -- inside ----------------------------------------------------------------------------------------------

    def _controller(self, scope: Scope, wanted: Sequence[Resource]) -> Controller:
        return Controller(self._channels, scope.owner.id, _at(_spec(wanted[0])))

    def _seen_by_controller(self, scope: Scope, wanted: Sequence[Resource]) -> Mapping[str, Observed]:
        if not wanted:
            return {}
        try:
            there = self._controller(scope, wanted).listed(wanted)
            not_listed = Observed.absent("not among what its controller lists")
            return {r.key: there.get(r.key, not_listed) for r in wanted}
        except NoAnswerError:
            # If no machine is bound to it, the objects of a controller that is gone have nothing behind them.
            owners = self._owners({m for r in wanted for m in _machines(r)})
            if all(
                not isinstance(o, UnknownError) and o != controller_id(scope.owner.id)
                for o in owners.values()
            ):
                unbound = Observed.absent(
                    "its controller doesn't answer, and no machine is bound to it any more"
                )
                return dict.fromkeys((r.key for r in wanted), unbound)
            raise

    def _owners(self, machines: Iterable[str]) -> dict[str, str | UnknownError]:
        """Machine -> id of the controller that its agent is bound to (empty: none), or why that isn't known."""
        names = sorted(machines)
        if not names:
            return {}
        with ThreadPoolExecutor(min(16, len(names)), thread_name_prefix="agents") as pool:
            return dict(zip(names, pool.map(self._owner, names), strict=True))

    def _owner(self, name: str) -> str | UnknownError:
        try:
            with self._channels.agent(self._machine(name)) as channel:
                request = agent_pb2.GetOwnerRequest()
                reply = channel.ask(
                    f"read the owner of {name}", lambda stub: stub.GetOwner, request, READ_TIMEOUT
                )
                return str(reply.controller_id)
        except WeftError as error:
            if isinstance(error, UnknownError):
                return error
            return UnknownError(f"read the owner of {name}", f"V-IPU agent of {name}", str(error))

    def _release(self, pod_id: str, name: str) -> Outcome:
        """Release a machine from a pod's controller, if it is still bound to it."""
        owner = self._owner(name)
        if isinstance(owner, UnknownError):
            return Outcome(error=owner)
        if owner != controller_id(pod_id):
            return Outcome()
        try:
            with self._channels.agent(self._machine(name), pod_id) as channel:
                asked = f"release {name} from controller {owner}"
                channel.ask(asked, lambda stub: stub.Release, agent_pb2.ReleaseRequest())
        except WeftError as error:
            return Outcome(error=error)
        return Outcome(name)

    def _machine(self, name: str) -> IpuMachine:
        if name not in self._machines:
            then = "activate a site that has it"
            raise PermanentError(f"find IPU-Machine {name}", "the active site", "it doesn't exist", then)
        return self._machines[name]


def _spec(resource: Resource) -> VipuSpec:
    if not isinstance(resource.spec, VipuSpec):
        raise TypeError(f"{resource.key} is a {resource.kind}: this driver handles only V-IPU resources")
    return resource.spec


def _at(spec: VipuSpec) -> At:
    return At(spec.controller, spec.tls)


def _agent(resource: Resource) -> VipuAgentSpec:
    assert isinstance(resource.spec, VipuAgentSpec)
    return resource.spec


def _allocation(resources: Sequence[Resource]) -> VipuAllocationSpec | None:
    return next((r.spec for r in resources if isinstance(r.spec, VipuAllocationSpec)), None)


def _machines(resource: Resource) -> tuple[str, ...]:
    spec = _spec(resource)
    return spec.machines if isinstance(spec, VipuNamedSpec) else (_agent(resource).machine,)


def _id(resource: Resource) -> str:
    spec = _spec(resource)
    return spec.name if isinstance(spec, VipuNamedSpec) else _agent(resource).machine


def _bound(machine: str, owner: str, scope: Scope) -> Observed:
    if not owner:
        return Observed.absent(
            "the agent itself reports that it is bound to no controller, which clears every partition"
        )
    facts = {"controller": owner}
    if owner == controller_id(scope.owner.id):
        return Observed(machine, facts=facts)
    reason = f"its agent is bound to controller {owner}, which is not this pod's"
    return Observed(machine, Status.BROKEN, reason, facts=facts)


def _outcome(work: Callable[[Resource], None], resource: Resource) -> Outcome:
    """Done, or the resource's own error; an unreachable controller is no resource's error."""
    try:
        work(resource)
    except NoAnswerError:
        raise
    except WeftError as error:
        return Outcome(error=error)
    return Outcome(_id(resource))


def _worst(resource: Resource, outcomes: Sequence[Outcome]) -> Outcome:
    return next((o for o in outcomes if o.error is not None), Outcome(_id(resource)))
