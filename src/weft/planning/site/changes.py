"""The difference between what a site needs in its clouds and what is there. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

from weft.model.change import SpecChange
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.resources import Difference, Graph, Observed, Resource
from weft.model.siteplan import SiteAction, SiteConflict, SiteStep
from weft.model.specs import NetworkSpec, PropertiesSpec, RouterSpec, SegmentSpec
from weft.planning.owners.follow import ResourceRow, follow
from weft.ports.existing import Existing

NO_MEMBER = "no member"
SOME = 5
"""Hosts that a sentence names."""
FIXED = frozenset(
    {
        "type",
        "physical_network",
        "segment",
        "overlay",
        "network",
        "subnet",
        "cidr",
        "address",
        "mac",
        "vnic_type",
    }
    | {"host", "vif", "vcpus", "ram", "disk"}
)
"""Fields of existing resources, as drivers report them, that can't be changed in place: these prevent adoption."""


def site_steps(
    rows: Mapping[str, ResourceRow], graph: Graph, seen: Mapping[str, Observed], adopted: Mapping[str, str]
) -> tuple[SiteStep, ...]:
    """What would be done, in the order of the graph; removals come last.

    Args:
        seen: key -> what was observed; for keys without a row, of what would be adopted.
        adopted: key -> id of what would be adopted.
    """
    news = follow(rows, graph)
    removed, changed = {*news.removed, *news.going}, {r.key: r for r in news.changed}
    steps: list[SiteStep] = []
    for resource in graph.resources:
        key, found = resource.key, seen.get(resource.key)
        if key in removed:
            steps.append(_step("recreate", resource, found, _specs(rows[key].resource, resource)))
        elif key in adopted:
            steps.append(_step("adopt", resource, found, _differences(key, found), adopted[key]))
        elif found is None or not found.there:
            steps.append(_step("create", resource, None))
        elif fields := (*_specs(rows[key].resource, changed.get(key)), *_differences(key, found)):
            # A field that differs and is changed in the site as well is one change.
            last = {f.field: f for f in fields}
            steps.append(_step("change", resource, found, tuple(last.values())))
    wanted = graph.by_key()
    gone = [rows[key].resource for key in sorted(removed - wanted.keys())]
    return (*steps, *(_step("remove", r, seen.get(r.key)) for r in reversed(gone)))


def adoptable(existing: Mapping[str, Sequence[Existing]], lost: Collection[Mark]) -> dict[str, str]:
    """Key -> id of what may be adopted: the only existing resource in its place, if it is the same one
    (`Existing.same`) and in the service user's project.

    Args:
        lost: marks of this site's former owners; a resource with any other mark belongs to someone.
    """
    return {
        key: same[0].id
        for key, found in existing.items()
        if len(found) == 1
        and (same := [e for e in found if e.same and e.own and (e.mark is None or e.mark in lost)])
    }


def conflicts(
    graph: Graph,
    existing: Mapping[str, Sequence[Existing]],
    adopted: Mapping[str, str],
    seen: Mapping[str, Observed],
    owner: Owner | None,
    lost: Collection[Mark] = (),
) -> Iterator[SiteConflict]:
    """What is in the way of each key.

    Args:
        adopted: key -> id of what will be adopted.
        owner: owner of the site's resources; a resource with its mark is its own, from a request whose answer was lost.
        lost: as in `adoptable`.
    """
    could = adoptable(existing, lost)
    for resource in graph.resources:
        key = resource.key
        if key in adopted:
            if why := cant_be(resource, seen[key].differences if key in seen else ()):
                what = f"{_named(resource, existing[key][0])} can't be adopted: {why}"
                yield SiteConflict(key=key, id=adopted[key], what=what)
            continue
        for one in existing.get(key, ()):
            # Any project may write a mark on its own resources.
            if (one.own or not one.project_id) and one.mark is not None and one.mark.owner == owner:
                continue
            yield SiteConflict(
                key=key,
                id=one.id,
                what=f"{_named(resource, one)} has {one.like}: {_then(one, key in could, lost)}",
                adoptable=key in could,
            )


def cant_be(resource: Resource, differences: Sequence[Difference]) -> str:
    """Why an existing resource can't become this one; empty: it can."""
    if fixed := [d for d in differences if d.field in FIXED]:
        said = ", ".join(f"its {d.field} is {d.observed}, not {d.wanted}" for d in fixed)
        return f"{said}, which can't be changed in place"
    if isinstance(resource.spec, RouterSpec):
        for d in (d for d in differences if d.field == "subnets"):
            if more := set(d.observed.split(", ")) - {"none", "", *d.wanted.split(", ")}:
                listed = (
                    f"it has interfaces on subnets that the site doesn't give it: {', '.join(sorted(more))}"
                )
                return f"{listed}; remove these first, or what is behind them would be cut off"
    return ""


def notes(graph: Graph, projects: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Notes on unknown projects: Neutron shares a network with any text given as a project's id.

    Args:
        projects: cloud -> id and name of the projects that weft serves.
    """
    for resource in graph.resources:
        spec = resource.spec
        for project in spec.shared_with if isinstance(spec, NetworkSpec) else ():
            if project not in projects[resource.where]:
                yield (
                    f"{resource.key} is shared with project {project}, which weft doesn't serve in cloud "
                    f"{resource.where}: check that it is an id, and the right one"
                )


def others_hosts(graph: Graph, seen: Mapping[str, Observed]) -> Iterator[str]:
    """Notes on others' hosts in weft's aggregates: they stay, and other flavors can't be scheduled on them either."""
    for resource in graph.resources:
        found = seen.get(resource.key)
        hosts = found.facts.get("others_hosts") if found is not None else None
        if isinstance(hosts, list) and hosts:
            names = [str(host) for host in cast(list[object], hosts)]
            more = f" and {len(names) - SOME} more" if len(names) > SOME else ""
            listed = f"{', '.join(names[:SOME])}{more}"
            yield f"{resource.key} also has hosts of others, which weft leaves in it: {listed}"


def _then(one: Existing, could: bool, lost: Collection[Mark]) -> str:
    weft = one.mark is not None and (one.own or not one.project_id)
    if weft and one.mark in lost:
        what = "weft created it, for an owner that was released or that its database no longer knows: "
        return what + ("take it over with --adopt" if could else "remove it")
    if one.mark is not None and weft:
        return f"it is weft's own, of {one.mark.owner} of site {one.mark.site}: release that first"
    if could:
        return "adopt it with --adopt, or remove it"
    if one.then:
        return one.then
    if one.same and not one.own:
        return "it is in another project than that of weft's service user, so weft can't adopt it: remove it"
    return "remove it, or describe another"


def _named(resource: Resource, one: Existing) -> str:
    if not one.project_id:
        return one.name
    name = f" {one.name!r}" if one.name else ""
    return f"{resource.kind.row.one}{name} {one.id} of project {one.project_id}"


def _step(
    action: SiteAction,
    resource: Resource,
    found: Observed | None,
    fields: Sequence[SpecChange] = (),
    thing_id: str | None = None,
) -> SiteStep:
    return SiteStep(
        action=action,
        key=resource.key,
        kind=str(resource.kind),
        name=resource.name,
        where=resource.where,
        what=resource.spec.summary(),
        id=thing_id or (found.id if found is not None and found.there else None),
        fields=tuple(fields),
    )


def _specs(before: Resource, after: Resource | None) -> tuple[SpecChange, ...]:
    if after is None:
        return ()
    if isinstance(before.spec, SegmentSpec) and isinstance(after.spec, SegmentSpec):
        return tuple(_members(after.key, before.spec, after.spec))
    return tuple(
        SpecChange(key=after.key, field=name, was=_text(was), becomes=_text(value))
        for name, value in after.spec
        if name != "former" and (was := getattr(before.spec, name, None)) != value
    )


def _members(key: str, before: SegmentSpec, after: SegmentSpec) -> Iterator[SpecChange]:
    """Changes of number and ports, one by one."""
    if before.number != after.number:
        yield SpecChange(key=key, field="number", was=before.text, becomes=after.text)
    was, now = ({m.port: str(m.mode) for m in spec.members} for spec in (before, after))
    for port in sorted(was.keys() | now.keys()):
        if was.get(port) != now.get(port):
            had, has = was.get(port, NO_MEMBER), now.get(port, NO_MEMBER)
            yield SpecChange(key=key, field=f"port {port}", was=had, becomes=has)


def with_former(graph: Graph, rows: Mapping[str, ResourceRow]) -> Graph:
    """The graph, in which segments name their former ports, and flavors and images the keys that were set:
    what removes one must know that weft added it. Idempotent."""

    def one(resource: Resource) -> Resource:
        spec, row = resource.spec, rows.get(resource.key)
        was = row.resource.spec if row is not None and not row.nowhere else None
        if isinstance(spec, PropertiesSpec) and isinstance(was, PropertiesSpec):
            gone = tuple(sorted((was.keys.keys() | {*was.former, *spec.former}) - spec.keys.keys()))
            return resource.model_copy(update={"spec": spec.model_copy(update={"former": gone})})
        if not isinstance(spec, SegmentSpec) or not spec.shared:
            return resource
        if not isinstance(was, SegmentSpec) or was.number != spec.number:
            return resource
        former = tuple(sorted((was.ports | {*was.former, *spec.former}) - spec.ports))
        return resource.model_copy(update={"spec": spec.model_copy(update={"former": former})})

    return graph.model_copy(update={"resources": tuple(one(r) for r in graph.resources)})


def with_new_ports(graph: Graph, rows: Mapping[str, ResourceRow]) -> Graph:
    """The graph, in which existing segments of the site have only the members that weft hasn't set yet: what
    those have now may not be weft's."""
    rowed = [r.resource.spec for r in rows.values() if not r.nowhere]
    known = {end for s in rowed if isinstance(s, SegmentSpec) for end in (*s.ports, *s.former)}

    def one(resource: Resource) -> Resource:
        spec, row = resource.spec, rows.get(resource.key)
        was = row.resource.spec if row is not None and not row.nowhere else None
        if not isinstance(spec, SegmentSpec) or not isinstance(was, SegmentSpec):
            return resource
        new = tuple(m for m in spec.members if m.port not in known)
        return resource.model_copy(update={"spec": spec.model_copy(update={"members": new, "former": ()})})

    return graph.model_copy(update={"resources": tuple(one(r) for r in graph.resources)})


def _differences(key: str, found: Observed | None) -> tuple[SpecChange, ...]:
    return tuple(
        SpecChange(key=key, field=d.field, was=d.observed, becomes=d.wanted)
        for d in (found.differences if found is not None else ())
        if d.field != "mark"
    )


def _text(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case dict():
            pairs: dict[str, str] = value  # pyright: ignore[reportUnknownVariableType]
            return ", ".join(f"{k}={v}" for k, v in sorted(pairs.items())) or "none"
        case tuple():
            return ", ".join(str(v) for v in value) or "none"  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        case _:
            return str(value)
