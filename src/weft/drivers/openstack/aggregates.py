"""Nova's host aggregates that keep servers of other flavors off pods' hosts: read, create, adopt, restore.

An aggregate has no description, so weft's mark is metadata. Nova accepts metadata only once an aggregate
exists, so it is created with its mark as its name, and gets its own name last. What an adopted one had, and
which hosts weft added, is recorded in its metadata before anything is changed. `availability_zone` is
metadata, too, and never touched.

Source: Nova's api-ref "Host aggregates (os-aggregates)": all of them in one answer; Nova 34 `compute.api.AggregateAPI`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from weft.drivers.openstack.base import Call, Fence, Fields, KindDriver, ListedResource, outcomes_of
from weft.drivers.openstack.nova import compute_control
from weft.drivers.openstack.properties import check_given_back, note_lost
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project, Sessions
from weft.model.errors import PermanentError, TemporaryError, UnknownError, WeftError
from weft.model.mark import Mark
from weft.model.resources import Difference, Kind, Observed, Outcome, Resource
from weft.model.specs import AggregateSpec
from weft.planning.site.aggregates import KEY, MOST, Aggregate
from weft.ports.existing import Existing

MARK, MADE = "weft_mark", "weft_made"
"""Metadata keys: weft's mark, and that weft created the aggregate."""
BEFORE, NONE_BEFORE = "weft_before", "weft_before_none"
"""Metadata keys: the `instance_type` that an adopted aggregate had, or that it had none, in values as long as Nova
accepts."""
HOSTS = "weft_hosts"
"""Metadata key: hosts that weft added, separated by commas, continued in `weft_hosts:2` and so on."""
SPLIT = "leave hosts of one machine type in it"
Metadata = Mapping[str, str]


class Aggregates(KindDriver):
    """Host aggregates of pods' hosts: name, flavors that they admit, hosts."""

    kind = Kind.AGGREGATE
    threads = "compute"
    updatable = frozenset({"mark", "name", "flavors", "hosts"})
    no_such_id = "no aggregate with its number and UUID"
    by_own_project = True
    by_policy = True

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[ListedResource]:
        return listed(call.own)

    def all_rows(self, own: Project) -> list[ListedResource]:
        return [row for row in listed(own) if row.mark is not None]

    def one_row(self, project: Project, thing_id: str) -> ListedResource | None:
        """The aggregate with this number and UUID: Nova's database may reuse a number."""
        number, _, uuid = thing_id.partition(":")
        asked = f"read host aggregate {number}"
        raw = project.compute.item_or_absent(asked, f"/os-aggregates/{number}", "aggregate", number)
        return None if raw is None or raw["uuid"] != uuid else _row(raw)

    def control(self, call: Call) -> str:
        return compute_control(call.own)

    def wanted(self, call: Call, resource: Resource) -> Fields:
        return {"name": resource.name, "flavors": frozenset(resource.spec_as(AggregateSpec).flavors)}

    def seen(self, call: Call, row: ListedResource) -> Fields:
        """Name and flavors of the aggregate; the name of an adopted one isn't compared, since it keeps its own."""
        flavors = flavors_of(_metadata(row)) or frozenset()
        return {"flavors": flavors, **({"name": row.name} if _is_made(row) else {})}

    def observe(self, call: Call, resource: Resource, row: ListedResource) -> Observed:
        spec, seen = resource.spec_as(AggregateSpec), super().observe(call, resource, row)
        there, put = _hosts(row), _put_there(_metadata(row))
        shown = there & {*spec.hosts, *put}
        differences = list(seen.differences)
        if shown != set(spec.hosts):
            differences.append(
                Difference(
                    field="hosts", wanted=", ".join(spec.hosts), observed=", ".join(sorted(shown)) or "none"
                )
            )
        others = sorted(there - {*spec.hosts, *put})
        return replace(seen, differences=tuple(differences), facts={"others_hosts": others})

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        def one(resource: Resource) -> str:
            asked, body = (
                f"create host aggregate {resource.name}",
                {"aggregate": {"name": call.text(resource.key)}},
            )
            answer = call.own.compute.ask(asked, "POST", "/os-aggregates", json=body)
            made = call.own.compute.part(asked, answer, "aggregate", reading=False)
            # Nova leaves both out of this answer; a new aggregate has neither.
            row = _row({"hosts": [], "metadata": {}, **made})
            self.repair(call, resource, row, self.updatable)
            return row.id

        return outcomes_of(call, wanted, one)

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        """Hosts come last, one request each, so that an error for one doesn't stop the others."""
        spec, there, own = resource.spec_as(AggregateSpec), _metadata(row), call.own
        asked = f"set metadata of host aggregate {resource.name}"
        made = _is_made(row)
        if not made and MARK in there and not there.keys() & {BEFORE, NONE_BEFORE}:
            raise note_lost(asked, "Nova", BEFORE)
        put = _put_there(there)
        goes = (put & _hosts(row)) - set(spec.hosts)
        comes = set(spec.hosts) - _hosts(row)
        note = _noted(there, put | comes)
        if made:
            note |= {MADE: "yes"}
        elif not there.keys() & {BEFORE, NONE_BEFORE}:
            note |= {BEFORE: there[KEY]} if KEY in there else {NONE_BEFORE: "yes"}
        self._set(own, row, there, note)
        self._set(own, row, there, {MARK: call.text(resource.key), KEY: spec.instance_type})
        if made and row.name != resource.name:
            body = {"aggregate": {"name": resource.name}}
            own.compute.ask(f"name host aggregate {resource.name}", "PUT", _path(row), json=body)
        named = replace(row, name=resource.name)
        self._each_host(own, named, "add_host", comes)
        self._each_host(own, named, "remove_host", goes)
        # Hosts that are neither desired nor present needn't be recorded.
        now = {k: v for k, v in {**there, **note}.items() if v is not None}
        self._set(own, row, now, _noted(now, (put | comes) & set(spec.hosts)))

    def let_go(self, call: Call, resource: Resource, row: ListedResource) -> None:
        self._end(call.own, row)

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        self._end(project, row)

    def is_given_back(self, row: ListedResource) -> bool:
        return not any(_is_wefts(key) for key in _metadata(row))

    def kept(self, call: Call, row: ListedResource) -> str:
        return f"it was there before, or has hosts of others, and has the {KEY} that it had"

    def _end(self, own: Project, row: ListedResource) -> None:
        """Remove the hosts that weft added. Delete the aggregate if weft created it and it has no other
        hosts; otherwise restore its `instance_type`, and only then remove what is weft's."""
        asked, made, there = f"restore host aggregate {row.name}", _is_made(row), _metadata(row)
        if not made and not there.keys() & {BEFORE, NONE_BEFORE}:
            raise note_lost(asked, "Nova", BEFORE)
        put = _put_there(there)
        self._each_host(own, row, "remove_host", put & _hosts(row))
        seen = self.one_row(own, row.id)
        if seen is None:
            return
        if left := put & _hosts(seen):
            raise TemporaryError(
                asked, "Nova", f"hosts that weft has put into it are still there: {_some(left)}"
            )
        if made and not _hosts(seen):
            own.compute.ask(f"delete host aggregate {row.name}", "DELETE", _path(row), ok=(404,))
            return
        had = None if made else there.get(BEFORE)
        self._set(own, row, _metadata(seen), {KEY: had})
        seen = self.one_row(own, row.id)
        if seen is None:
            return
        now = _metadata(seen)
        check_given_back(asked, "Nova", {KEY: had}, now)
        notes = [key for key in now if _is_wefts(key)]
        # The record of its former state goes last: while it exists, this is repeated.
        last = {MADE, BEFORE, NONE_BEFORE}
        self._set(own, row, now, {key: None for key in notes if key not in last})
        self._set(own, row, now, {key: None for key in notes if key in last})

    def _set(
        self, own: Project, row: ListedResource, there: Metadata, news: Mapping[str, str | None]
    ) -> None:
        """Set the metadata that differs; None removes a key."""
        changed = {k: v for k, v in news.items() if there.get(k) != v}
        if changed:
            asked = f"set metadata of host aggregate {row.name}"
            for key, value in changed.items():
                if value is not None and len(value) > MOST:
                    what = f"{key} would have {len(value)} characters, and Nova takes {MOST}"
                    raise PermanentError(asked, "Nova", what, "shorten names in the site file")
            body = {"set_metadata": {"metadata": changed}}
            own.compute.ask(asked, "POST", f"{_path(row)}/action", json=body)

    def _each_host(self, own: Project, row: ListedResource, action: str, hosts: Collection[str]) -> None:
        """Add or remove each host. Raises the first error after all were tried."""
        errors: list[WeftError] = []
        for host in sorted(hosts):
            try:
                self._one_host(own, row, action, host)
            except WeftError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _one_host(self, own: Project, row: ListedResource, action: str, host: str) -> None:
        adding = action == "add_host"
        asked = f"{'add' if adding else 'remove'} host {host} {'to' if adding else 'from'} host aggregate {row.name}"
        path, body = f"{_path(row)}/action", {action: {"host": host}}
        answer = own.compute.ask(asked, "POST", path, json=body, ok=(404, 409))
        if answer.status == 404 and adding and host in answer.message:
            seen = f"Nova doesn't know a compute host of that name yet: {answer.sentence()}"
            raise TemporaryError(
                asked, "Nova", seen, "will be retried; deploy nova-compute there, or correct the site"
            )
        if answer.status == 404 and not adding and answer.request_id:
            return  # Nova removes a host whose compute service is deleted; what is left is read afterwards
        if answer.status == 409 and "zone" in answer.message:
            then = "move the servers away, or take the host out of the other aggregate; will be retried"
            raise TemporaryError(asked, "Nova", answer.sentence(), then, alarming=True)
        if not answer.fine:
            raise own.compute.error(asked, answer, reading=False)


def read_aggregates(sessions: Sessions) -> list[Aggregate]:
    """All aggregates, with the service user's own token. Raises `OutsideError`."""
    asked = "list host aggregates"
    compute = sessions.own().compute
    rows = compute.listing(asked, "/os-aggregates", "aggregates")
    try:
        return [_aggregate(row) for row in rows]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnknownError(asked, "Nova", f"a malformed answer ({type(error).__name__}: {error})") from error


def listed(own: Project) -> list[ListedResource]:
    """All host aggregates. Raises `UnknownError`."""
    return [_row(raw) for raw in own.compute.listing("list host aggregates", "/os-aggregates", "aggregates")]


def alike(
    own: Project, wanted: Sequence[Resource], known: Collection[str]
) -> Iterator[tuple[Resource, Existing]]:
    """Aggregates with these names, or that restrict flavors on some of these hosts. One that resembles two
    can't be both.

    Args:
        known: ids of those that are weft's already.
    """
    for row in listed(own) if wanted else ():
        if row.id in known:
            continue
        like = {r.key: why for r in wanted if (why := _like(row, r))}
        then = "" if len(like) == 1 else f"{SPLIT}, or set hosts_kept_free: otherwise"
        name = f"host aggregate {row.name} ({row.raw['id']})"
        for resource in (r for r in wanted if r.key in like):
            yield (
                resource,
                Existing(row.id, name, "", like[resource.key], True, len(like) == 1, row.mark, then),
            )


def _like(row: ListedResource, resource: Resource) -> str:
    """How it resembles the resource; empty if it doesn't."""
    if row.name == resource.name:
        return f"the name {resource.name}"
    shared = _hosts(row) & set(resource.spec_as(AggregateSpec).hosts)
    return f"{KEY} for {_some(shared)}" if shared and KEY in _metadata(row) else ""


def flavors_of(metadata: Metadata) -> frozenset[str] | None:
    """Flavors named by `instance_type`; None if it has no such key."""
    return frozenset(f.strip() for f in metadata[KEY].split(",") if f.strip()) if KEY in metadata else None


def _aggregate(row: Mapping[str, Any]) -> Aggregate:
    metadata, hosts = cast(Metadata, row["metadata"]), cast(list[str], row["hosts"])
    return Aggregate(str(row["name"]), frozenset(map(str, hosts)), flavors_of(metadata))


def _row(raw: Json) -> ListedResource:
    name, metadata = str(raw["name"]), cast(Metadata, raw["metadata"])
    mark = Mark.parse(str(metadata.get(MARK) or "")) or Mark.parse(name)
    return ListedResource(
        f"{int(raw['id'])}:{raw['uuid']}", name, mark, None, str(raw.get("created_at") or ""), raw
    )


def _metadata(row: ListedResource) -> dict[str, str]:
    return {str(k): str(v) for k, v in row.raw["metadata"].items()}


def _hosts(row: ListedResource) -> set[str]:
    return {str(host) for host in row.raw["hosts"]}


def _path(row: ListedResource) -> str:
    return f"/os-aggregates/{row.id.partition(':')[0]}"


def _is_made(row: ListedResource) -> bool:
    return MADE in _metadata(row) or Mark.parse(row.name) is not None


def _is_wefts(key: str) -> bool:
    return key in (MARK, MADE, BEFORE, NONE_BEFORE) or _is_part(key)


def _is_part(key: str) -> bool:
    return key.partition(":")[0] == HOSTS


def _put_there(metadata: Metadata) -> set[str]:
    return {h for key, value in metadata.items() if _is_part(key) for h in value.split(",") if h}


def _noted(there: Metadata, hosts: Collection[str]) -> dict[str, str | None]:
    """Metadata that records these hosts; None removes a key that is no longer needed."""
    parts: list[str] = []
    for host in sorted(hosts):
        if parts and len(parts[-1]) + 1 + len(host) <= MOST:
            parts[-1] += f",{host}"
        else:
            parts.append(host)
    news: dict[str, str | None] = {key: None for key in there if _is_part(key)}
    return news | {f"{HOSTS}:{n}" if n > 1 else HOSTS: part for n, part in enumerate(parts, 1)}


def _some(hosts: Collection[str]) -> str:
    some = sorted(hosts)
    return ", ".join(some[:3]) + (f" and {len(some) - 3} more" if len(some) > 3 else "")
