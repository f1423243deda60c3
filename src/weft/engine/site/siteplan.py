"""Compares the active site with its clouds: reads everything it has there, and other projects' things in the way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from weft.engine.base.world import World
from weft.engine.proof.adoption import is_port_in, ruled_by
from weft.engine.proof.othersports import in_groups, keeping, listed, network_key
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import ResourceRecord
from weft.engine.rows.siteparts import SiteRecord
from weft.engine.site.siteowner import NO_PROJECT, known_rows, live_of, pods_on, pods_with, site_owner
from weft.engine.store.store import Store
from weft.model.errors import ConflictError, UnknownError
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.resources import Graph, Kind, Observed, Resource
from weft.model.siteplan import SiteConflict, SitePlan, SiteStep
from weft.model.specs import NetworkSpec, SubnetSpec
from weft.planning.owners.follow import follow
from weft.planning.site.changes import (
    adoptable,
    conflicts,
    notes,
    others_hosts,
    site_steps,
    with_former,
    with_new_ports,
)
from weft.planning.site.graph import site_graph
from weft.planning.site.networks import reached_from_outside
from weft.ports.existing import Existing, HasExisting
from weft.ports.resources import Scope

T = TypeVar("T")
MOST_PODS = 5
"""Most pods that a sentence names."""
_GOING = ("remove", "recreate")


@dataclass(frozen=True, slots=True)
class PlannedSite:
    """A plan, and what is needed to apply it.

    Attributes:
        adopted: key -> id of what it adopts.
        former: owners whose marks are on what it adopts.
    """

    plan: SitePlan
    graph: Graph
    adopted: Mapping[str, str]
    former: frozenset[Owner]


class SitePlanner:
    """Makes one plan; changes nothing."""

    def __init__(self, store: Store, world: World, record: SiteRecord) -> None:
        self._store, self._world, self._record = store, world, record

    def plan(self, adopt: bool = False) -> PlannedSite:
        """Plan the site. Args: adopt: use what exists already, by MAC address, name or CIDR, instead of creating it.

        Raises `ConflictError` while the site's resources are being destroyed, `UnknownError`, `PermanentError`.
        """
        record, owner = self._record, self._owner()
        records = {r.key: r for r in self._store.pods.resources(owner.id)} if owner else {}
        graph = with_former(site_graph(record.site), known_rows(records.values()))
        scope = owner.scope if owner else _unowned(record.site.name)
        ids = {key: r.outside_id for key, r in records.items() if r.outside_id and not r.is_nowhere}
        there = [r.resource for r in records.values() if not r.is_nowhere]
        seen = self._find(scope, there, ids)
        ids = {key: seen[key].id for key in seen if seen[key].there}
        existing = self._existing(with_new_ports(graph, known_rows(records.values())), ids)
        known = owner.owner if owner else None
        lost = self._lost(existing)
        adopted = self._adopted(graph, records, adoptable(existing, lost)) if adopt else {}
        taken = [r for r in graph.resources if r.key in adopted]
        seen |= self._find(scope, taken, {**ids, **adopted})
        steps = site_steps(known_rows(records.values()), graph, seen, adopted)
        used = (*self._used(steps, records), *self._flavors_used(steps))
        kept = self._kept_by_others(steps, records, seen, {c.key for c in used})
        ruled = self._ruled_by_others(steps, existing, records, seen)
        found = (*conflicts(graph, existing, adopted, seen, known, lost), *used, *kept, *ruled)
        plan = SitePlan(
            site=record.site.name,
            generation=record.generation,
            resources=len(graph.resources),
            steps=steps,
            conflicts=found,
            notes=(*self._notes(graph), *others_hosts(graph, seen)),
        )
        former = {e.mark.owner for key in adopted for e in existing[key] if e.mark is not None}
        return PlannedSite(plan, graph, adopted, frozenset(former))

    def _adopted(
        self, graph: Graph, records: Mapping[str, ResourceRecord], could: Mapping[str, str]
    ) -> dict[str, str]:
        """What is adopted, without things on something that is removed first: they would block that, or go with it."""
        later = follow(known_rows(records.values()), graph).later
        return {key: id_ for key, id_ in could.items() if key not in later}

    def _owner(self) -> OwnerRecord | None:
        """The live owner; None if there is none."""
        name = self._record.site.name
        with self._store.database.transaction() as tx:
            owner = site_owner(tx, name)
        if owner is None or owner.state == "RELEASED":
            return None
        if owner.wanted == "absent":
            raise ConflictError(f"the resources of site {name} are being destroyed: wait until that is done")
        return owner

    def _lost(self, existing: Mapping[str, Sequence[Existing]]) -> frozenset[Mark]:
        """Marks of owners of this site that are gone: released, or unknown to a database that was lost."""
        name = self._record.site.name
        marks = {e.mark for found in existing.values() for e in found if e.mark is not None}
        ours = {m for m in marks if m.site == name and m.owner.kind == "site"}
        with self._store.database.statement() as tx:
            live = live_of(tx, {m.owner for m in ours})
        return frozenset(m for m in ours if m.owner not in live)

    def _used(
        self, steps: Sequence[SiteStep], records: Mapping[str, ResourceRecord]
    ) -> Iterator[SiteConflict]:
        """Conflicts for networks, and their subnets, that live pods use: they can't be removed."""
        going: dict[str, tuple[str, ResourceRecord]] = {}
        for step in steps:
            record = records.get(step.key)
            if step.action not in _GOING or record is None:
                continue
            spec = record.resource.spec
            network = records.get(spec.network) if isinstance(spec, SubnetSpec) else record
            if network is not None and isinstance(network.resource.spec, NetworkSpec):
                going.setdefault(network.resource.name, (step.key, network))
        if not going:
            return
        with self._store.database.statement() as tx:
            used = pods_on(tx, [network for _, network in going.values()])
        for name, pods in used.items():
            what = f"network {name} would be removed, and pods use it: {_some(pods)}; release them first"
            yield SiteConflict(key=going[name][0], id="", what=what)

    def _kept_by_others(
        self,
        steps: Sequence[SiteStep],
        records: Mapping[str, ResourceRecord],
        seen: Mapping[str, Observed],
        reported: Collection[str],
    ) -> Iterator[SiteConflict]:
        """Conflicts for networks and subnets that others use: the cloud would refuse to delete them after the rest is
        gone, or delete others' subnets with them.

        Args:
            reported: keys already reported as used by pods.
        """
        there = {key: str(one.id) for key, one in seen.items() if one.there and key in records}
        pods = {network_key(records[key]) for key in reported if key in records}
        # What was already being removed goes as soon as others allow it.
        steps = [s for s in steps if s.action in _GOING and s.key in there and records[s.key].wanted]
        going = {s.key for s in steps}
        going = {key for key in going if network_key(records[key]) not in {"", *pods}}
        for key, others in keeping(self._world, going, records, there):
            record = records[key]
            said = f"{record.kind} {record.resource.name} would be removed, and others use it"
            what = f"{said}: {listed(others)}; remove them first"
            yield SiteConflict(key=key, id=there[key], what=what)
        for step in (s for s in steps if s.kind == str(Kind.SECURITY_GROUP)):
            if ports := self._in_group(there[step.key], step, records, seen):
                what = f"it would be removed, and others have ports in it: {listed(ports)}; remove them first"
                yield SiteConflict(key=step.key, id=there[step.key], what=what)

    def _ruled_by_others(
        self,
        steps: Sequence[SiteStep],
        existing: Mapping[str, Sequence[Existing]],
        records: Mapping[str, ResourceRecord],
        seen: Mapping[str, Observed],
    ) -> Iterator[SiteConflict]:
        """Conflicts for groups with ports of others that would be adopted with other rules: their servers would be cut
        off, or exposed, at once. A group with a mark had its rules from weft."""
        for step in (s for s in steps if s.kind == str(Kind.SECURITY_GROUP) and s.action == "adopt"):
            ruled = [f.field for f in step.fields if f.field != "shared_with"]
            (one,) = existing[step.key]
            if not ruled or one.mark is not None:
                continue
            if ports := self._in_group(one.id, step, records, seen):
                yield SiteConflict(key=step.key, id=one.id, what=ruled_by(ruled, ports))

    def _in_group(
        self,
        group: str,
        step: SiteStep,
        records: Mapping[str, ResourceRecord],
        seen: Mapping[str, Observed],
    ) -> list[str]:
        """Other projects' ports in a security group."""
        known = {
            str(one.id)
            for key, one in seen.items()
            if one.there and key in records and is_port_in(records[key], step.where)
        }
        return in_groups(self._world, {group: step.name}, step.where, known)

    def _flavors_used(self, steps: Sequence[SiteStep]) -> Iterator[SiteConflict]:
        """Conflicts for flavors that pods use: Nova can't resize a flavor, so it would be replaced, and pods keep
        theirs."""
        going = {(s.where, s.name): s for s in steps if s.kind == str(Kind.FLAVOR) and s.action in _GOING}
        if not going:
            return
        with self._store.database.statement() as tx:
            used = pods_with(tx, going)
        for of, pods in used.items():
            fields = ", ".join(f"{f.field} {f.was} → {f.becomes}" for f in going[of].fields)
            then = f"made again ({fields})" if going[of].action == "recreate" else "deleted"
            what = f"flavor {of[1]} would be {then}, and pods have servers of it: {_some(pods)}; release them first"
            yield SiteConflict(key=going[of].key, id=going[of].id or "", what=what)

    def _notes(self, graph: Graph) -> tuple[str, ...]:
        shared = notes(graph, self._projects(graph))
        return (*shared, *reached_from_outside(self._record.site), *self._beside(graph))

    def _projects(self, graph: Graph) -> dict[str, Mapping[str, str]]:
        """Cloud -> its projects, of clouds where something is shared."""
        places = {r.where for r in graph.resources if isinstance(r.spec, NetworkSpec) and r.spec.shared_with}
        return {where: self._world.clouds[where].projects() for where in sorted(places)}

    def _beside(self, graph: Graph) -> Iterator[str]:
        """Sentences on what else reaches the site's segments on fabrics."""
        for where in sorted({r.where for r in graph.resources} - self._world.clouds.keys()):
            fabric = self._world.fabric(where)
            if isinstance(fabric, HasExisting):
                yield from fabric.beside([r for r in graph.resources if r.where == where])

    def _find(self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]) -> dict[str, Observed]:
        """What each resource's driver observes, all clouds at the same time."""
        by_place: dict[str, list[Resource]] = {}
        for resource in wanted:
            by_place.setdefault(resource.where, []).append(resource)

        def look(where: str) -> Mapping[str, Observed]:
            batch = by_place[where]
            found = self._world.driver(where).find(scope, batch, ids)
            if missing := [r.name for r in batch if r.key not in found]:
                raise UnknownError(
                    f"look for {', '.join(missing[:3])}", where, "the driver returned no result"
                )
            for one in found.values():
                if one.unread is not None:
                    raise one.unread
            return found

        found: dict[str, Observed] = {}
        for part in _at_once(look, sorted(by_place)):
            found |= part
        return found

    def _existing(self, graph: Graph, ids: Mapping[str, str]) -> dict[str, Sequence[Existing]]:
        """Candidates for adoption of what doesn't exist yet."""
        places = sorted({r.where for r in graph.resources})

        def look(where: str) -> Mapping[str, Sequence[Existing]]:
            self._world.driver(where)  # raises if the site has no such cloud
            wanted = [r for r in graph.resources if r.where == where]
            if where in self._world.clouds:
                return self._world.clouds[where].alike(wanted, ids)
            fabric = self._world.fabric(where)
            return fabric.alike(wanted, ids) if isinstance(fabric, HasExisting) else {}

        found: dict[str, Sequence[Existing]] = {}
        for part in _at_once(look, places):
            found |= part
        return found


def _some(pods: Sequence[str]) -> str:
    more = f" and {len(pods) - MOST_PODS} more" if pods[MOST_PODS:] else ""
    return ", ".join(pods[:MOST_PODS]) + more


def _at_once(look: Callable[[str], T], places: Sequence[str]) -> list[T]:
    if len(places) < 2:
        return [look(place) for place in places]
    with ThreadPoolExecutor(len(places), thread_name_prefix="site-plan") as pool:
        return list(pool.map(look, places))


def followed(records: Iterable[ResourceRecord], graph: Graph) -> bool:
    """Whether the rows are those of this graph, whatever was set meanwhile."""
    known = known_rows(records)
    return not follow(known, with_former(graph, known))


def _unowned(site: str) -> Scope:
    """The scope of a site that was never applied: nothing bears such a mark."""
    return Scope(site, Owner("site", str(UUID(int=0))), site, NO_PROJECT)
