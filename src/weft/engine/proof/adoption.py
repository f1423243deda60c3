"""Checks a resource that a site adopts once more, right before weft changes it for the first time: others may have
begun to use it since that was planned. From then on it bears weft's mark, and is weft's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache

from weft.engine.base.world import World
from weft.engine.proof.othersports import in_groups, listed
from weft.engine.rows.records import ResourceRecord
from weft.model.errors import PermanentError, WeftError
from weft.model.resources import Kind, Resource
from weft.planning.site.changes import cant_be
from weft.ports.resources import Scope

UNMARKED = "none"
"""What drivers report as the mark of an unmarked resource."""
SOME = 10
"""How many of weft's own ports to look for, as proof that others' would be shown."""
_NO_RULES = ("mark", "name", "shared_with")
"""Fields of a group that don't change what its ports may do."""


def not_to_change(
    world: World,
    scope: Scope,
    differing: Sequence[ResourceRecord],
    adopted: Mapping[str, str],
    records: Collection[ResourceRecord],
) -> Iterator[tuple[str, WeftError]]:
    """Keys of resources that must not be changed, and why.

    Args:
        differing: what exists and differs, all of it in one place.
        adopted: key -> id of what was to be adopted, whether that has happened or not.
        records: of the whole owner.
    """

    @cache
    def known() -> Collection[str]:
        return _own_ports(world, scope, differing[0].resource.where, records)

    for record in differing:
        fields = {d.field: d.observed for d in record.differences}
        if fields.get("mark") != UNMARKED or adopted.get(record.key) != record.outside_id:
            continue
        try:
            why = _used(world, record, known)
        except WeftError as error:
            yield record.key, error
            continue
        if why:
            resource = record.resource
            then = "remove that, or apply the site without it"
            yield record.key, PermanentError(f"adopt {_named(resource)}", resource.where, why, then)


def _used(world: World, record: ResourceRecord, known: Callable[[], Collection[str]]) -> str:
    """The use that the change would end, as text; empty if there is none.

    Args:
        known: looks up some of weft's own ports, which only security groups need.
    """
    resource = record.resource
    if record.kind is Kind.SECURITY_GROUP:
        ruled = [d.field for d in record.differences if d.field not in _NO_RULES]
        if not ruled:
            return ""
        ports = in_groups(world, {str(record.outside_id): resource.name}, resource.where, known())
        return ruled_by(ruled, ports) if ports else ""
    if record.kind is Kind.PORT and record.facts.get("device_id"):
        return f"it is a port of {record.facts['device_id']} by now"
    return cant_be(resource, record.differences)


def _own_ports(world: World, scope: Scope, where: str, records: Collection[ResourceRecord]) -> list[str]:
    """Ids of some of weft's own ports that exist now, whatever their rows say."""
    some = [r for r in records if is_port_in(r, where) and r.outside_id][:SOME]
    ids = {r.key: str(r.outside_id) for r in some}
    seen = world.driver(where).find(scope, [r.resource for r in some], ids) if some else {}
    return [str(one.id) for one in seen.values() if one.there]


def _named(resource: Resource) -> str:
    return f"{resource.kind.row.one} {resource.name}"


def is_port_in(record: ResourceRecord, where: str) -> bool:
    """Whether it is a port in this cloud."""
    return record.kind is Kind.PORT and record.resource.where == where


def ruled_by(fields: Sequence[str], ports: Sequence[str]) -> str:
    """Why a group with ports of others must not get the site's rules."""
    return (
        f"it would get the site's rules ({', '.join(fields)}), and others have ports in it: {listed(ports)}; "
        "remove these from it, or give it those rules first"
    )
