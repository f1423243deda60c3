"""The owner of a site's resources in its clouds: what an operator applied is what is wanted of it.

The graph is stored when it is applied, so that nothing happens in a cloud that wasn't shown to an operator before: a
newer generation of the site may be active long before it is applied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database, Row, Tx
from weft.engine.base.documents import read, written
from weft.engine.base.unreadable import READING, unreadable
from weft.engine.base.world import World
from weft.engine.hold.ownerstore import make_owner
from weft.engine.rows.events import announce
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import ResourceRecord, RowState
from weft.engine.visit.resourcerules import ResourceRule
from weft.model.errors import ConflictError, PermanentError
from weft.model.ids import uuid_of
from weft.model.owner import Owner
from weft.model.resources import Graph
from weft.model.site import Site
from weft.model.specs import FlavorSpec, NetworkSpec, SubnetSpec
from weft.planning.owners.follow import ResourceRow, follow
from weft.planning.site.changes import with_former

NO_PROJECT = ""
"""Stands for the project of the site's own resources: that of weft's service user, whose id each cloud knows."""


@dataclass(frozen=True, slots=True)
class DesiredSite:
    """What an operator applied of a site.

    Attributes:
        generation: of the site.
        adopted: key -> id of what existed already.
    """

    generation: int
    graph: Graph
    adopted: Mapping[str, str]
    applied_at: datetime
    applied_by: str

    @classmethod
    def of(cls, row: Row) -> DesiredSite:
        """From a row. Raises `UnreadableError`."""
        try:
            graph = read(Graph, row["graph"])
        except READING as error:
            raise unreadable("what was applied of the site", error) from error
        return cls(row["generation"], graph, row["adopted"], row["applied_at"], row["applied_by"])


def site_owner(tx: Tx, site: str) -> OwnerRecord | None:
    """The newest owner of a site's resources, also a released one; None: nothing was ever applied."""
    row = tx.row("newest_site_owner", site=site)
    return None if row is None else OwnerRecord.of(row)


def last_destroyed(database: Database, site: str) -> UUID | None:
    """Id of the owner whose resources were destroyed last; None: there is none."""
    row = database.row("newest_site_receipt", site=site)
    return None if row is None else row["id"]


def desired_of(tx: Tx, owner_id: UUID) -> DesiredSite | None:
    """What was applied for an owner; None: nothing. Raises `UnreadableError`."""
    row = tx.row("site_desired", owner_id=owner_id)
    return None if row is None else DesiredSite.of(row)


def set_desired(
    database: Database,
    site: str,
    generation: int,
    graph: Graph,
    adopted: Mapping[str, str],
    by: str,
    former: Collection[Owner] = (),
) -> UUID:
    """Record what is wanted from now on, and wake the loop; returns the owner's id.

    Args:
        former: owners whose marks are on what is adopted.

    Raises `ConflictError` if the site's resources are being destroyed, if a newer generation was applied meanwhile, if
    pods have come to use what would be removed, or if one of `former` is live.
    """
    with database.placing() as tx:  # no order is placed meanwhile
        known = site_owner(tx, site)
        # Locked, so that it isn't destroyed before this is written.
        now = tx.row("lock_owner", id=known.id) if known is not None else None
        going: list[ResourceRecord] = []
        settled: list[ResourceRecord] = []
        if known is None or now is None or now["state"] == "RELEASED":
            owner_id = UUID(make_owner(tx, "site", site, NO_PROJECT, site, by).id)
        elif now["wanted"] == "absent":
            raise ConflictError(f"the resources of site {site} are being destroyed: wait until that is done")
        else:
            owner_id = known.id
            rows = tx.rows("resources_of", owners=[owner_id], at=None)
            records = {r.key: r for r in map(ResourceRecord.of, rows)}
            going = _going(records, graph)
            settled = [r for r in records.values() if r.state is RowState.SETTLED]
            _check_unused(tx, going, records)
        _check_ended(tx, former)
        values = {"generation": generation, "graph": written(graph), "adopted": Jsonb(dict(adopted))}
        values |= {
            "going": [r.outside_id for r in going if r.outside_id],
            "again": [r.key for r in (*going, *settled)],
        }
        if tx.row("set_site_desired", owner_id=owner_id, at=tx.now(), by=by, **values) is None:
            raise ConflictError(f"a newer generation of site {site} than {generation} was applied meanwhile")
        announce(tx, owner_id, "apply", f"generation {generation} of the site applied by {by}")
        # Differences that exist although nothing else is desired are repaired now, not in some minutes.
        tx.run("request_repair", id=owner_id)
    return owner_id


def known_rows(records: Iterable[ResourceRecord]) -> dict[str, ResourceRow]:
    """The rows that a plan compares with; what was removed doesn't count as pending."""
    return {r.key: ResourceRow(r.resource, r.wanted, r.is_nowhere) for r in records}


def live_of(tx: Tx, owners: Collection[Owner]) -> set[Owner]:
    """The owners among these that the database knows and that aren't released."""
    ids = sorted({id_ for o in owners if (id_ := uuid_of(o.id)) is not None})
    rows = tx.rows("known_owners", owners=ids) if ids else []
    return {Owner(row["kind"], str(row["id"])) for row in rows if row["state"] != "RELEASED"}


def _going(records: Mapping[str, ResourceRecord], graph: Graph) -> list[ResourceRecord]:
    """Resources that exist and will be removed: they aren't in this graph, or are recreated for it."""
    known = known_rows(records.values())
    removed = set(follow(known, with_former(graph, known)).removed)
    return [r for r in records.values() if not r.is_nowhere and (r.key in removed or not r.wanted)]


def _check_unused(tx: Tx, going: Iterable[ResourceRecord], records: Mapping[str, ResourceRecord]) -> None:
    """Raise `ConflictError` if pods use these by now."""
    networks, flavors = list[ResourceRecord](), list[tuple[str, str]]()
    for record in going:
        spec = record.resource.spec
        if isinstance(spec, FlavorSpec):
            flavors.append((record.resource.where, record.resource.name))
        elif isinstance(spec, SubnetSpec) and spec.network in records:
            networks.append(records[spec.network])
        elif isinstance(spec, NetworkSpec):
            networks.append(record)
    used = {f"network {name}": pods for name, pods in (pods_on(tx, networks) if networks else {}).items()}
    used |= {
        f"flavor {name}": pods for (_, name), pods in (pods_with(tx, flavors) if flavors else {}).items()
    }
    if used:
        said = "; ".join(f"{what} by {', '.join(pods)}" for what, pods in used.items())
        raise ConflictError(f"pods have come to use what would be removed: {said}; release them first")


def _check_ended(tx: Tx, former: Collection[Owner]) -> None:
    if live := live_of(tx, former):
        raise ConflictError(f"what would be adopted has a live owner: {', '.join(sorted(map(str, live)))}")


def pods_on(tx: Tx, networks: Iterable[ResourceRecord]) -> dict[str, list[str]]:
    """Name of a network of the site -> live pods that use it. They refer to it by name or by id."""
    names = {known: r.resource.name for r in networks for known in (r.resource.name, r.outside_id) if known}
    found: dict[str, list[str]] = {}
    for row in tx.rows("pods_on_networks", networks=sorted(names)):
        found.setdefault(names[row["network"]], []).append(row["name"])
    return found


def pods_with(tx: Tx, flavors: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
    """Cloud and name of a flavor -> live pods with servers of it."""
    wanted = set(flavors)
    found: dict[tuple[str, str], list[str]] = {}
    for row in tx.rows("pods_with_flavors", flavors=sorted(name for _, name in wanted)):
        if (of := (row["cloud"], row["flavor"])) in wanted:
            found.setdefault(of, []).append(row["name"])
    return found


def applied_site(database: Database) -> ResourceRule[DesiredSite]:
    """What is wanted of an owner of kind site: what was applied."""

    def look(owner: OwnerRecord, world: World) -> DesiredSite:
        with database.statement() as tx:
            desired = desired_of(tx, owner.id)
        if desired is None:
            then = "apply the site again, or destroy it"
            raise PermanentError("find what is wanted", str(owner), "the database has no record of it", then)
        return desired

    def graph(owner: OwnerRecord, site: Site, seen: DesiredSite) -> Graph:
        return seen.graph

    return ResourceRule(look, graph, lambda seen: seen.adopted)
