"""The VLANs of a site's own networks on one fabric's switches: finds, sets and removes them, and finds what is in their
way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol
from uuid import UUID

from weft.drivers.segments import segment_of
from weft.drivers.switches.cabling import Cabling, switch_of
from weft.drivers.switches.names import vlan_name
from weft.drivers.switches.own import Own, check_readable, concerned, foreign_ports, in_use
from weft.drivers.switches.ownedits import edit_for_own, removal_of_own
from weft.drivers.switches.ownevidence import observe_own
from weft.drivers.switches.ownway import InTheWay, all_carrying, in_the_way
from weft.drivers.switches.snapshot import EthernetSnapshot
from weft.drivers.switches.vlans import Batch, SwitchState, joined
from weft.model.errors import PermanentError, UnknownError, WeftError
from weft.model.fabrictypes import FabricKind
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.resources import Difference, Marked, Observed, Outcome, Resource, Status
from weft.model.specs import SegmentSpec
from weft.ports.existing import Existing
from weft.ports.fences import Fence, unfenced
from weft.ports.ledger import SegmentLedger
from weft.ports.resources import Scope

OwnEdits = Callable[[str, SwitchState, Own, Cabling], Batch]
_NOBODY = Owner("site", str(UUID(int=0)))


class ChangesSwitches(Protocol):
    """Changes several switches concurrently. `only`: these switches; `own`: segments whose VLANs and ports
    may be changed in addition to pods'; `save`: switches to save even without a change; `fence`: as in
    `Asked`."""

    def __call__(
        self,
        edits: Callable[[str, SwitchState], Batch],
        only: Collection[str],
        own: Sequence[SegmentSpec],
        save: Collection[str] = (),
        fence: Fence = unfenced,
    ) -> None: ...


class OwnSegments:
    """The site's own segments on one fabric.

    Args:
        snapshot: a reading of its switches.
        change: changes them; raises for the whole change if one switch refuses or doesn't answer.
        ledger: weft's own records: which ports it has set already.
    """

    def __init__(
        self,
        site: str,
        fabric: str,
        cabling: Cabling,
        ledger: SegmentLedger,
        snapshot: Callable[[], EthernetSnapshot],
        change: ChangesSwitches,
    ) -> None:
        self._site, self._fabric, self._cabling, self._ledger = site, fabric, cabling, ledger
        self._snapshot, self._change_switches = snapshot, change

    def find(self, scope: Scope, own: Mapping[str, Own], seen: EthernetSnapshot) -> Mapping[str, Observed]:
        return {key: _observed(one, seen, scope.leaving) for key, one in own.items()}

    def put(self, scope: Scope, own: Mapping[str, Own]) -> Mapping[str, Outcome]:
        """Set the VLANs with one change of each switch; an obstacle for one VLAN, or a silent switch, doesn't delay the
        others."""
        if not own:
            return {}
        seen, refused, possible = self._snapshot(), dict[str, Outcome](), dict[str, Own]()
        ours = self._set_already()
        for key, one in own.items():
            if error := self._refusal(one, seen, ours):
                refused[key] = Outcome(error=error)
            else:
                possible[key] = replace(one, shared=bool(foreign_ports(one, seen)))
        return {**refused, **self._change(scope, possible, edit_for_own, seen)}

    def take(self, scope: Scope, own: Mapping[str, Own]) -> Mapping[str, Outcome]:
        """Remove the VLANs on switches that answer, except VLANs that others' ports are in."""
        if not own:
            return {}
        seen, answers, blind, clear = self._snapshot(), dict[str, Outcome](), set[str](), dict[str, Own]()
        for key, one in own.items():
            if foreign := foreign_ports(one, seen):
                answers[key] = Outcome(error=in_use(one, f"fabric {self._fabric}", foreign))
                continue
            clear[key] = one
            if _is_blind(one, seen):
                blind.add(key)
        read = {key: one for key, one in clear.items() if key not in blind}
        answers |= self._change(scope, read, removal_of_own, seen)
        for key in blind:
            try:
                answers |= self._change(scope, {key: clear[key]}, removal_of_own, seen)
            except UnknownError as error:
                answers[key] = Outcome(error=error)
        return answers

    def alike(self, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Sequence[Existing]]:
        """As `weft.ports.existing.HasExisting`."""
        # For an existing segment, consider only new members.
        new = self._of([r for r in wanted if r.key not in ids or segment_of(r).members])
        if not new:
            return {}
        seen, ours = self._snapshot(), self._set_already()
        return {
            key: found
            for key, one in new.items()
            if (found := [_existing(one, way, self._site) for way in in_the_way(one, seen, ours)])
        }

    def beside(self, wanted: Sequence[Resource]) -> Sequence[str]:
        """As `weft.ports.existing.HasExisting`."""
        own = self._of(wanted)
        return all_carrying(list(own.values()), self._snapshot()) if own else ()

    def places(self, segment: SegmentSpec) -> Collection[str]:
        """As `weft.ports.existing.HasExisting`."""
        own = Own(segment, "", ours=True)
        return {*map(switch_of, own.ends), *own.ever(self._cabling)}

    def take_left(self, thing: Marked, name: str) -> None:
        """Remove a VLAN that has the name of an owner that is gone from switches where only links are in it.
        Raises `PermanentError` if other ports, whose owner isn't known, are in it.
        """
        spec = SegmentSpec(number=int(thing.id), fabric_type=FabricKind.ETHERNET, members=(), shared=True)
        one, seen = Own(spec, name, ours=False), self._snapshot()
        if foreign := foreign_ports(one, seen):
            said = f"ports are in it: {', '.join(foreign[:5])}{' …' if foreign[5:] else ''}"
            then = "take them out of it, or take it over with weft site apply --adopt"
            raise PermanentError(f"remove {spec.named}", f"fabric {self._fabric}", said, then)
        self._change_switches(
            lambda switch, state: removal_of_own(switch, state, one, self._cabling),
            concerned(one, seen),
            (spec,),
        )

    def _of(self, wanted: Sequence[Resource]) -> Mapping[str, Own]:
        """The desired VLANs, as if none had been created yet."""
        scope = Scope(self._site, _NOBODY, "", "")
        return {r.key: one for r in wanted if (one := own_of(scope, r, {})) is not None}

    def _set_already(self) -> Mapping[str, frozenset[int]]:
        """Port -> VLANs of the site's own networks that weft has put it into."""
        found: dict[str, frozenset[int]] = {}
        for spec in self._ledger.wanted().values():
            for end in (*spec.ports, *spec.former) if spec.shared else ():
                found[end] = found.get(end, frozenset()) | {spec.number}
        return found

    def _refusal(
        self, own: Own, seen: EthernetSnapshot, ours: Mapping[str, frozenset[int]]
    ) -> WeftError | None:
        """Why the VLAN can't be set now; None if it can."""
        try:
            way = next(iter(in_the_way(own, seen, ours)), None)
        except UnknownError as error:
            return error
        if way is None:
            return None
        asked, of = f"set {own.spec.named}", f"fabric {self._fabric}"
        return PermanentError(asked, of, f"{way.what} has {way.has}", way.then)

    def _change(
        self, scope: Scope, own: Mapping[str, Own], edits: OwnEdits, seen: EthernetSnapshot
    ) -> Mapping[str, Outcome]:
        """Change all VLANs together on each switch; if that is refused, one by one, so that each has its own
        outcome."""
        if not own:
            return {}

        def together(switch: str, state: SwitchState) -> Batch:
            batch = Batch()
            for one in own.values():
                batch = joined(batch, edits(switch, batch.on(state), one, self._cabling))
            return batch

        specs = tuple(one.spec for one in own.values())
        only = {switch for one in own.values() for switch in concerned(one, seen)}
        try:
            saving = only if edits is removal_of_own else ()
            self._change_switches(together, only, specs, save=saving, fence=scope.fence)
        except PermanentError as error:
            if len(own) == 1:
                return {key: Outcome(error=error) for key in own}
            each = [self._change(scope, {key: one}, edits, seen) for key, one in own.items()]
            return {key: outcome for answers in each for key, outcome in answers.items()}
        return {key: Outcome(one.spec.text) for key, one in own.items()}


def own_of(scope: Scope, resource: Resource, ids: Mapping[str, str]) -> Own | None:
    """A VLAN of the site's own networks; None if it is a pod's."""
    spec = segment_of(resource)
    if not spec.shared:
        return None
    return Own(spec, vlan_name(scope.mark(resource.key)), ids.get(resource.key) == spec.text)


def _observed(own: Own, seen: EthernetSnapshot, leaving: bool) -> Observed:
    try:
        return observe_own(own, seen, leaving)
    except UnknownError as error:
        why = Difference(field=str(error.of), wanted="an answer", observed=error.answer)
        return Observed(own.spec.text, Status.PENDING, str(error), (why,), unread=error)


def _is_blind(own: Own, seen: EthernetSnapshot) -> bool:
    try:
        check_readable(own.spec, seen)
    except UnknownError:
        return True
    return False


def _existing(own: Own, way: InTheWay, site: str) -> Existing:
    mark = Mark(site, way.owner, "") if way.owner is not None else None
    return Existing(
        own.spec.text, way.what, "", way.has, own=way.adoptable, same=way.adoptable, mark=mark, then=way.then
    )
