"""The resource driver of an OpenStack cloud: a table of kinds, each in its own module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from weft.drivers.openstack.aggregates import Aggregates
from weft.drivers.openstack.base import Call, KindDriver, ListedResource, look, outcomes_of
from weft.drivers.openstack.cinder import VolumeAttachments, Volumes
from weft.drivers.openstack.errors import MALFORMED, all_shaped, shaped
from weft.drivers.openstack.flavors import Flavors
from weft.drivers.openstack.images import Images
from weft.drivers.openstack.lookups import Lookups
from weft.drivers.openstack.machine import Machines
from weft.drivers.openstack.manila import SHARES, ShareAccess
from weft.drivers.openstack.metal import MetalServers
from weft.drivers.openstack.network import Networks, Subnets
from weft.drivers.openstack.nova import KeyPairs, Servers
from weft.drivers.openstack.pools import Pools
from weft.drivers.openstack.port import FloatingIPs, Ports
from weft.drivers.openstack.router import Routers
from weft.drivers.openstack.security_group import SecurityGroups
from weft.drivers.openstack.session import Project, Sessions
from weft.drivers.openstack.transport import TIMEOUT
from weft.model.errors import PermanentError, TemporaryError, UnknownError, WeftError
from weft.model.ids import moment_of
from weft.model.messages import outside
from weft.model.owner import Owner
from weft.model.resources import AnyKind, Kind, Marked, Observed, Outcome, Resource, Status
from weft.model.site import Storage
from weft.model.uses import InUseError
from weft.ports.patience import waiting_at_most
from weft.ports.podkeys import PodKeys
from weft.ports.resources import Ids, Observations, Outcomes, PartlyListedError, Scope

DRIVERS: tuple[KindDriver, ...] = (
    VolumeAttachments(),
    Servers(),
    MetalServers(),
    FloatingIPs(),
    ShareAccess(),
    SHARES,
    Volumes(),
    Routers(),
    Ports(),
    Machines(),
    Subnets(),
    Networks(),
    SecurityGroups(),
    KeyPairs(),
    Aggregates(),
    Flavors(),
    Images(),
)
"""Drivers of the kinds, in the order in which resources can be removed."""

T = TypeVar("T")

REQUESTS = 8
"""Most concurrent requests to one service; see docs/decisions/openstack-driver.md."""


@all_shaped
class OpenStackDriver:
    """`ResourceDriver` for all resources of a pod in one cloud. Thread-safe.

    Args:
        name: the cloud's name in the site: `where` of its resources.
        keys: source of the keys in servers' user data.
        requests: how many requests to one service run concurrently.
        machines: the cloud has bare metal, and so an Ironic to look for it.
        storage: the cloud's storage services; None: neither Manila nor Cinder.
        closed: names of networks that no tenant may have a port on.
        aggregates: weft creates host aggregates in this cloud, so the audit lists them.
    """

    def __init__(
        self,
        name: str,
        sessions: Sessions,
        keys: PodKeys | None = None,
        requests: int = REQUESTS,
        machines: bool = False,
        storage: Storage | None = None,
        closed: Collection[str] = (),
        aggregates: bool = True,
    ) -> None:
        self.name = name
        self._sessions = sessions
        self._keys = keys
        self._lookups = Lookups(closed)
        missing = {
            Kind.MACHINE: not machines,
            Kind.AGGREGATE: not aggregates,
            Kind.SHARE: storage is None or not storage.shares,
            Kind.VOLUME: storage is None or not storage.volumes,
        }
        self._searched = [
            kind
            for kind in DRIVERS
            if not missing.get(kind.kind, False) and (machines or not isinstance(kind, MetalServers))
        ]
        self._pools = Pools(name, frozenset(kind.threads for kind in DRIVERS), requests)

    @property
    def kinds(self) -> frozenset[AnyKind]:
        return frozenset(kind.kind for kind in DRIVERS)

    def close(self) -> None:
        self._pools.close()
        self._sessions.close()

    def find(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Observations:
        def one(call: Call, kind: KindDriver, batch: list[Resource]) -> dict[str, Observed]:
            sight = look(kind, call, batch)
            chosen = {key: rows[0] for key, rows in sight.rows.items()}
            prepared = dict(zip(chosen, kind.prepare(call, list(chosen.values())), strict=True))
            there = {
                r.key: _kept(call, kind, r, prepared[r.key]) or kind.observe(call, r, prepared[r.key])
                for r in batch
                if r.key in prepared
            }
            return {**there, **{key: Observed.absent(proof) for key, proof in sight.proofs.items()}}

        return self._each_kind(scope, ids, wanted, one)

    def create(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        return self._each_kind(scope, ids, wanted, lambda call, kind, batch: kind.create(call, batch))

    def update(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        def one(call: Call, kind: KindDriver, batch: list[Resource]) -> dict[str, Outcome]:
            found = look(kind, call, batch).rows

            def repair(resource: Resource) -> str:
                rows = found.get(resource.key)
                if not rows:
                    raise TemporaryError(
                        outside.REQUEST(verb="update", what=resource.name),
                        f"cloud {self.name}",
                        "it doesn't exist",
                    )
                row = kind.prepare(call, rows[:1])[0]
                differing = frozenset(d.field for d in kind.observe(call, resource, row).differences)
                fixed = sorted(differing - kind.updatable)
                if fixed:
                    what = f"{', '.join(fixed)} can't be changed in place"
                    raise self._impossible(
                        outside.REQUEST(verb="update", what=resource.name), what, "delete and recreate it"
                    )
                if differing:
                    kind.repair(call, resource, row, differing)
                return row.id

            return outcomes_of(call, batch, repair)

        return self._each_kind(scope, ids, wanted, one)

    def delete(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        def one(call: Call, kind: KindDriver, batch: list[Resource]) -> dict[str, Outcome]:
            found = look(kind, call, batch).rows

            def remove(resource: Resource) -> str | None:
                rows = found.get(resource.key, [])
                for row in rows:
                    if call.scope.leaving and resource.spec.stays and row.id == call.ids.get(resource.key):
                        kind.let_go(call, resource, row)
                    else:
                        _remove(kind, call, row)
                return rows[0].id if rows else None

            return outcomes_of(call, batch, remove)

        return self._each_kind(scope, ids, wanted, one)

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        own = self._sessions.own()
        # An audit that sees nothing at all must not report that nothing is left.
        eye = self._call(Scope(site, Owner("site", ""), "", ""), {}, "site", Servers.threads)
        for kind in (kind for kind in DRIVERS if isinstance(kind, Servers | Ports)):
            kind.control(eye)
        found: list[Marked] = []
        unread: dict[str, WeftError] = {}
        looks = [(kind, project) for kind in self._searched for project in self._eyes(kind)]
        with waiting_at_most(TIMEOUT):  # everything in the cloud
            listed = [
                (kind, self._pools.of(kind.threads).kinds.submit(_all, kind, project, own, unread))
                for kind, project in looks
            ]
        for kind, rows in listed:
            for row in sorted(rows.result(), key=lambda r: r.age):
                seen_by_us = not projects or row.project_id is None or row.project_id in projects
                if row.mark is not None and row.mark.site == site and seen_by_us:
                    found.append(self._marked(kind, row))
        if unread:
            raise PartlyListedError(f"cloud {self.name}", found, unread)
        return found

    def remove_marked(self, things: Sequence[Marked]) -> Mapping[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        for kind in DRIVERS:
            batch = [t for t in things if t.kind is kind.kind and kind.knows(t.id)]
            pool = self._pools.of(kind.threads).requests
            for thing, outcome in zip(batch, pool.map(self._remove, batch), strict=True):
                outcomes[thing.id] = outcome
        return outcomes

    def _eyes(self, kind: KindDriver) -> list[Project | None]:
        """Projects whose tokens show everything of a kind; None: the service user's own."""
        if not kind.by_project:
            return [None]
        return [self._sessions.project(project) for project in sorted(self._sessions.served())]

    def _remove(self, thing: Marked) -> Outcome:
        kind = next(kind for kind in DRIVERS if kind.kind is thing.kind and kind.knows(thing.id))
        own = self._sessions.own()
        project = self._sessions.project(thing.project_id) if thing.project_id else own
        asked = f"remove {thing.kind} {thing.name}"
        try:
            with shaped(asked):
                row = kind.one_row(project, thing.id)
                if row is None:
                    return Outcome()
                key = thing.facts.get("key")
                if row.mark is None or (row.mark.owner, row.mark.key) != (thing.owner, key):
                    raise self._impossible(asked, "it doesn't carry our mark", "check it by hand")
                kind.remove_left(project, row)
        except WeftError as error:
            return Outcome(error=error)
        return Outcome(thing.id)

    def _marked(self, kind: KindDriver, row: ListedResource) -> Marked:
        mark = row.mark
        assert mark is not None
        facts = {"key": mark.key, "site": mark.site, **kind.facts(row)}
        made = moment_of(row.created)
        by = row.raw.get("user_id") if isinstance(kind, Servers) else None
        ours = None if by is None else by == self._sessions.own().compute.signed_in_user()
        return Marked(kind.kind, self.name, row.id, row.name, mark.owner, row.project_id, facts, made, ours)

    def _call(self, scope: Scope, ids: Ids, owner: str, service: str) -> Call:
        spread = self._pools.of(service).requests
        tenant, own = self._sessions.project(scope.project_id), self._sessions.own()
        project = tenant
        if owner == "site":
            scope = replace(scope, project_id=own.network.signed_in_project())
            project = own
        return Call(scope, project, own, ids, self._lookups, tenant, self._keys, spread)

    def _each_kind(
        self,
        scope: Scope,
        ids: Ids,
        wanted: Sequence[Resource],
        one: Callable[[Call, KindDriver, list[Resource]], dict[str, T]],
    ) -> dict[str, T]:
        """Each kind of each owner of a batch in parallel; raises the first error of a whole kind when all are
        done."""
        batches: list[tuple[Call, KindDriver, list[Resource]]] = []
        for owner in sorted({r.owner for r in wanted}):
            for kind in DRIVERS:
                batch = [r for r in wanted if kind.serves(r) and r.owner == owner]
                if batch:
                    batches.append((self._call(scope, ids, owner, kind.threads), kind, batch))

        def shaped(call: Call, kind: KindDriver, batch: list[Resource]) -> dict[str, T]:
            try:
                return one(call, kind, batch)
            except MALFORMED as error:
                raise self._misread(f"read {kind.kind}s of {scope.owner.kind} {scope.name}", error) from error

        found: dict[str, T] = {}
        if len(batches) == 1:
            return shaped(*batches[0])
        futures = [self._pools.of(batch[1].threads).kinds.submit(shaped, *batch) for batch in batches]
        errors = [error for f in futures if (error := f.exception()) is not None]
        if errors:
            raise errors[0]
        for future in futures:
            found.update(future.result())
        return found

    def _misread(self, asked: str, error: Exception) -> UnknownError:
        """The error for a row without the common fields: its meaning is unknown, and nothing follows from it."""
        seen = f"a malformed answer ({type(error).__name__}: {error})"
        return UnknownError(asked, f"cloud {self.name}", seen, "its state is unknown; see the log")

    def _impossible(self, asked: str, why: str, then: str) -> PermanentError:
        return PermanentError(asked, f"cloud {self.name}", why, then)


def _kept(call: Call, kind: KindDriver, resource: Resource, row: ListedResource) -> Observed | None:
    """How a resource that stays is reported once it is no longer weft's; None while it is, or if it is to be
    deleted."""
    if not (call.scope.leaving and resource.spec.stays and row.mark is None and kind.is_given_back(row)):
        return None
    status, _ = kind.status(row)
    if status is Status.PENDING:  # someone is deleting it
        return None
    return Observed(row.id, Status.KEPT, kind.kept(call, row), name=row.name)


def _all(
    kind: KindDriver, project: Project | None, own: Project, unread: dict[str, WeftError]
) -> list[ListedResource]:
    """Rows with any mark. What can't be read is added to `unread`: a project (disabled, without the service),
    or a kind that requires a policy of its own."""
    try:
        rows = kind.all_rows(own) if project is None else kind.project_rows(project)
    except WeftError as error:
        if project is None and not kind.by_policy:
            raise
        whose = "" if project is None else f" of project {project.project_id}"
        unread[f"{kind.kind.row.many}{whose}"] = error
        rows = []
    return [row for row in rows if row.mark is not None]


def _remove(kind: KindDriver, call: Call, row: ListedResource) -> None:
    try:
        kind.remove(kind.project(call), row, call.scope.fence)
    except InUseError as error:
        raise error.without(call.ids.values()) from error
