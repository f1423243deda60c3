"""`ResourceDriver` and `MachineReader` of one IPU-POD.

The machines' reports decide: an agent bound to no controller, without partitions, proves that nothing of a
pod is left, whatever state its controller is in. A lost controller is therefore no obstacle to a release:
weft releases its machines in its place, with its key, which can be derived at any time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from weft.drivers.vipu.agents import Binding, IpuAgents
from weft.drivers.vipu.channels import CONTROLLER, At, Channels, NoAnswerError, SlowError
from weft.drivers.vipu.controller import Controller
from weft.drivers.vipu.proof import PROOF_KEY, clear_partition, proof_name, prove_partition
from weft.model.errors import NotYetError, PermanentError, TemporaryError, UnknownError, WeftError
from weft.model.kindrow import Home
from weft.model.kinds import kinds_at
from weft.model.messages import outside
from weft.model.owner import Owner
from weft.model.resources import AnyKind, Difference, Kind, Marked, Observed, Outcome, Resource, Status
from weft.model.site import Site
from weft.model.specs import VipuAgentSpec, VipuAllocationSpec, VipuNamedSpec, VipuSpec
from weft.planning.shapes.ipu.init import controller_id
from weft.ports.podkeys import PodKeys
from weft.ports.resources import Ids, Observations, Outcomes, PartlyListedError, Scope

BOOT_PATIENCE = 15.0
"""Seconds to wait for the controller's cloud-init before weft creates what is missing, or reports it."""
HUNG = 60.0
"""Seconds of a removal after which a controller that is reachable but doesn't answer in time counts as
lost."""

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
        self._agents = IpuAgents(self._channels, self._machines)
        self._patience = patience

    @property
    def kinds(self) -> frozenset[AnyKind]:
        return kinds_at(Home.MACHINES)

    # -- ResourceDriver --------------------------------------------------------------------------------------

    def find(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Observations:
        """An agent exists if it reports so itself; while it is desired, its controller must list it, too."""
        agents = [r for r in wanted if isinstance(r.spec, VipuAgentSpec)]
        others = [r for r in wanted if not isinstance(r.spec, VipuAgentSpec)]
        found: dict[str, Observed] = {}
        bindings = self._agents.bindings({r.spec_as(VipuAgentSpec).machine for r in agents})
        for resource in agents:
            machine = resource.spec_as(VipuAgentSpec).machine
            binding = bindings[machine]
            if isinstance(binding, UnknownError):
                raise binding
            found[resource.key] = _bound(machine, binding, scope)
        bound = [r for r in agents if found[r.key].status is Status.SETTLED and not scope.leaving]
        return {**found, **self._seen_by_controller(scope, bound, others)}

    def create(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
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
            not_yet = NotYetError(
                outside.REQUEST(verb="find", what=missing[0].name),
                self.name,
                "cloud-init hasn't created it yet",
            )
            return {r.key: Outcome(error=not_yet) if r in missing else Outcome(_id(r)) for r in wanted}
        made = {r.key: _outcome(scope, controller.make, r) for r in missing}
        bound = self._bound_again(scope, [r for r in wanted if r.key in there])
        return {r.key: made.get(r.key) or bound.get(r.key) or Outcome(_id(r)) for r in wanted}

    def update(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        controller = self._controller(scope, wanted)
        return {r.key: _outcome(scope, controller.repair, r) for r in wanted}

    def delete(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        """Through the controller; if it is unreachable, or has hung for long, the machines are released in
        its place."""
        if not wanted:
            return {}
        controller = self._controller(scope, wanted)
        try:
            outcomes = {r.key: self._remove(scope, controller, r) for r in wanted}
        except NoAnswerError:
            return self._release(scope, wanted)
        if scope.waited > HUNG and any(isinstance(o.error, SlowError) for o in outcomes.values()):
            return self._release(scope, wanted)
        return outcomes

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        """Machines whose agent is bound to one of weft's controllers; the gateways' network determines the
        site. Machines in maintenance may be silent.
        """
        found: list[Marked] = []
        unread: dict[str, WeftError] = {}
        for machine, binding in self._agents.bindings(self._machines).items():
            if isinstance(binding, UnknownError):
                if self._machines[machine].maintenance is None:
                    unread[f"IPU-Machine {machine}"] = binding
            elif match := _POD.match(binding.controller):
                facts, pod = {"controller": binding.controller}, Owner.pod(match.group(1))
                found.append(Marked(Kind.VIPU_AGENT, self.name, machine, machine, pod, None, facts))
        if unread:
            raise PartlyListedError(self.name, found, unread)
        return found

    def remove_marked(self, things: Sequence[Marked]) -> Mapping[str, Outcome]:
        mine = [t for t in things if t.kind is Kind.VIPU_AGENT and t.where == self.name]
        return {t.id: self._agents.release(t.owner.id, t.id) for t in mine if t.owner}

    # -- MachineReader ---------------------------------------------------------------------------------------

    def unfit(self) -> Mapping[str, str]:
        reasons: dict[str, str] = {}
        for machine, binding in self._agents.bindings(self._machines).items():
            if isinstance(binding, NoAnswerError | SlowError):
                reasons[machine] = f"its V-IPU agent doesn't answer at {self._machines[machine].gw_address}"
            elif isinstance(binding, UnknownError):
                reasons[machine] = f"its V-IPU agent: {binding.answer}"
            elif binding.controller:
                reasons[machine] = f"its V-IPU agent is bound to controller {binding.controller}"
            elif binding.left:
                reasons[machine] = f"{binding.left}: restart the agent, which clears it"
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
            said = prove_partition(channel, allocation, self._proof(scope))
        if said.tenants:
            self._controller(scope, resources).check_health(allocation.machines)
        return said.words

    def clear_proof(self, scope: Scope, resources: Sequence[Resource]) -> None:
        if (allocation := _allocation(resources)) is not None:
            scope.fence()
            with self._channels.user(scope.owner.id, _at(allocation), tenant=True) as channel:
                clear_partition(channel, self._proof(scope))

    # -- inside ----------------------------------------------------------------------------------------------

    def _proof(self, scope: Scope) -> str:
        return proof_name(self._channels.keys.key(scope.owner.id, PROOF_KEY))

    def _controller(self, scope: Scope, wanted: Sequence[Resource]) -> Controller:
        return Controller(self._channels, scope, _at(wanted[0].spec_as(VipuSpec)))

    def _seen_by_controller(
        self, scope: Scope, bound: Sequence[Resource], others: Sequence[Resource]
    ) -> Mapping[str, Observed]:
        """State of what only the controller knows, and of agents bound to it, whose own report doesn't
        suffice."""
        if not bound and not others:
            return {}
        try:
            there = self._controller(scope, [*bound, *others]).listed([*bound, *others])
        except NoAnswerError:
            return self._without_controller(scope, others)
        not_listed = Observed.absent("not among what its controller lists")
        differs = (Difference(field="its controller's list", wanted="with it", observed="without it"),)
        agents = {r.key: there.get(r.key, Observed(_id(r), differences=differs)) for r in bound}
        facts = {"controller": controller_id(scope.owner.id)}
        return {
            **{key: replace(seen, facts=facts) for key, seen in agents.items()},
            **{r.key: there.get(r.key, not_listed) for r in others},
        }

    def _without_controller(self, scope: Scope, others: Sequence[Resource]) -> Mapping[str, Observed]:
        """What is observed of a lost controller's objects: they count as absent if no machine is bound to it."""
        bindings = self._agents.bindings({m for r in others for m in _machines(r)})
        for binding in bindings.values():
            if isinstance(binding, UnknownError):
                raise binding
            if binding.controller == controller_id(scope.owner.id):
                raise NoAnswerError(f"ask for {others[0].name}", CONTROLLER, "nothing answers", delay=2.0)
        unbound = Observed.absent("its controller doesn't answer, and no machine is bound to it any more")
        return dict.fromkeys((r.key for r in others), unbound)

    def _bound_again(self, scope: Scope, listed: Sequence[Resource]) -> Mapping[str, Outcome]:
        """Rebind agents that their controller lists, and that have forgotten it."""
        agents = {r.key: r for r in listed if isinstance(r.spec, VipuAgentSpec)}
        bindings = self._agents.bindings(r.spec_as(VipuAgentSpec).machine for r in agents.values())
        outcomes: dict[str, Outcome] = {}
        for key, resource in agents.items():
            binding = bindings[resource.spec_as(VipuAgentSpec).machine]
            if isinstance(binding, UnknownError):
                outcomes[key] = Outcome(error=binding)
            elif not binding.controller:
                claim = partial(self._agents.claim, scope.owner.id, resource.spec_as(VipuAgentSpec).machine)
                outcomes[key] = _outcome(scope, lambda _, claim=claim: claim(), resource)
        return outcomes

    def _remove(self, scope: Scope, controller: Controller, resource: Resource) -> Outcome:
        """Remove it through the controller. After that an agent's own report decides, whatever the controller
        lists."""
        asked = _outcome(scope, lambda r: controller.remove(r, scope.waited), resource)
        refused = isinstance(asked.error, PermanentError)
        if not isinstance(resource.spec, VipuAgentSpec) or (asked.error is not None and not refused):
            return asked
        released = self._agents.release(scope.owner.id, resource.spec.machine, scope.fence)
        if released.error is not None:
            return released
        # A controller that an agent refuses may forget the agent once it is known to be released.
        return _outcome(scope, controller.forget, resource) if refused else asked

    def _release(self, scope: Scope, wanted: Sequence[Resource]) -> Mapping[str, Outcome]:
        machines = sorted({m for r in wanted for m in _machines(r)})
        released = {m: self._agents.release(scope.owner.id, m, scope.fence) for m in machines}
        return {r.key: _worst(r, [released[m] for m in _machines(r)]) for r in wanted}


def _at(spec: VipuSpec) -> At:
    return At(spec.controller, spec.tls)


def _allocation(resources: Sequence[Resource]) -> VipuAllocationSpec | None:
    return next((r.spec for r in resources if isinstance(r.spec, VipuAllocationSpec)), None)


def _machines(resource: Resource) -> tuple[str, ...]:
    spec = resource.spec_as(VipuSpec)
    return spec.machines if isinstance(spec, VipuNamedSpec) else (resource.spec_as(VipuAgentSpec).machine,)


def _id(resource: Resource) -> str:
    spec = resource.spec_as(VipuSpec)
    return spec.name if isinstance(spec, VipuNamedSpec) else resource.spec_as(VipuAgentSpec).machine


def _bound(machine: str, binding: Binding, scope: Scope) -> Observed:
    facts = {"controller": binding.controller}
    if binding.left:
        return Observed(machine, Status.BROKEN, binding.left, facts=facts)
    if not binding.controller:
        return Observed.absent(
            "the agent itself reports that it is bound to no controller and that no partition is set up"
        )
    if binding.controller == controller_id(scope.owner.id):
        return Observed(machine, facts=facts)
    reason = f"its agent is bound to controller {binding.controller}, which is not this pod's"
    return Observed(machine, Status.BROKEN, reason, facts=facts)


def _outcome(scope: Scope, work: Callable[[Resource], None], resource: Resource) -> Outcome:
    """The outcome of the work: done, or the resource's own error. An unreachable controller is an error of the whole
    batch."""
    scope.fence()
    try:
        work(resource)
    except NoAnswerError:
        raise
    except WeftError as error:
        return Outcome(error=error)
    return Outcome(_id(resource))


def _worst(resource: Resource, outcomes: Sequence[Outcome]) -> Outcome:
    return next((o for o in outcomes if o.error is not None), Outcome(_id(resource)))
