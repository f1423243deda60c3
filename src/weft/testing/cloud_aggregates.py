"""The fake cloud: host aggregates, with hosts and flavors of others, and what its scheduler makes of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from weft.model.errors import TemporaryError
from weft.model.resources import Difference, Kind, Observed, Resource
from weft.model.specs import AggregateSpec
from weft.testing.cloud_state import Thing

MADE, BEFORE, PUT = "weft:made", "weft:before", "weft:put"
"""Names of facts: weft created the aggregate; the flavors that an adopted one named before; the hosts that weft added.
"""
Fields = Mapping[str, object]


def write_aggregate(
    thing: Thing, name: str, fields: Fields, known: Collection[str], made: bool
) -> TemporaryError | None:
    """Set an aggregate's flavors, and add and remove weft's hosts; others' hosts stay. Returns the error for an unknown
    host.

    Args:
        known: Nova's compute hosts.
        made: whether it is new.
    """
    if made:
        thing.facts[MADE], thing.fields["hosts"] = True, ()
    elif MADE not in thing.facts:
        thing.facts.setdefault(BEFORE, thing.fields.get("flavors"))
    had, put, wanted = (
        _names(thing.fields.get("hosts")),
        _names(thing.facts.get(PUT)),
        _names(fields["hosts"]),
    )
    comes = (wanted - had) & set(known)
    now = (had | comes) - (put - wanted)
    thing.fields |= {"flavors": fields["flavors"], "hosts": tuple(sorted(now))}
    thing.facts[PUT] = tuple(sorted((put | comes) & wanted))
    if missing := sorted(wanted - now):
        asked = f"add host {missing[0]} to host aggregate {name}"
        return TemporaryError(asked, "fake cloud", "Nova doesn't know a compute host of that name yet")
    return None


def seen_aggregate(thing: Thing, resource: Resource, found: Observed) -> Observed:
    """What `find` shows of an aggregate. Hosts that others added aren't a difference."""
    spec = resource.spec
    if not isinstance(spec, AggregateSpec) or not found.there:
        return found
    hosts, put, wanted = _names(thing.fields.get("hosts")), _names(thing.facts.get(PUT)), set(spec.hosts)
    differences = [d for d in found.differences if d.field != "hosts"]
    if (shown := hosts & (wanted | put)) != wanted:
        said = ", ".join(sorted(shown)) or "none"
        differences.append(Difference(field="hosts", wanted=", ".join(spec.hosts), observed=said))
    others = {"others_hosts": sorted(hosts - wanted - put)}
    return replace(found, differences=tuple(differences), facts=others)


def given_back(thing: Thing) -> bool:
    """Remove weft's hosts from an aggregate. Returns whether it stays, because it was there before or has others'
    hosts.
    """
    hosts = _names(thing.fields.get("hosts")) - _names(thing.facts.pop(PUT, ()))
    thing.fields["hosts"] = tuple(sorted(hosts))
    if thing.facts.get(MADE) and not hosts:
        return False
    thing.facts.pop(MADE, None)
    thing.mark, thing.fields["flavors"] = None, thing.facts.pop(BEFORE, None)
    return True


def aggregates_like(thing: Thing, resource: Resource) -> Iterator[tuple[str, bool]]:
    """What an existing aggregate has in common with a wanted one, and whether it counts as the same."""
    assert isinstance(resource.spec, AggregateSpec)
    if thing.name == resource.name:
        yield f"the name {thing.name}", True
    elif thing.fields.get("flavors") is not None and (
        shared := sorted(_names(thing.fields.get("hosts")) & set(resource.spec.hosts))
    ):
        yield f"instance_type for {', '.join(shared)}", True


def kept_off(host: str, flavor: str, things: Sequence[Thing]) -> str:
    """Why the filter of flavors keeps a server off a host; empty: it doesn't."""
    naming = [t for t in things if t.kind is Kind.AGGREGATE and host in _names(t.fields.get("hosts"))]
    named = [_names(t.fields["flavors"]) for t in naming if t.fields.get("flavors") is not None]
    if not named or flavor in set().union(*named):
        return ""
    return f"aggregates of {host} don't name flavor {flavor}"


def _names(value: object) -> set[str]:
    return set(map(str, value)) if isinstance(value, tuple | list) else set()
