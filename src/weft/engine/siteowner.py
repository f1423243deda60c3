"""The owner of what a site needs in its clouds: what an operator applied of it is what is wanted of it.

The graph is stored when it is applied, so that nothing happens in a cloud that nobody was shown before: another
generation of the site may be active long before it is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb

from weft.engine.database import Database, Row, Tx
from weft.engine.documents import read, written
from weft.engine.ownerrecord import OwnerRecord
from weft.engine.ownerstore import make_owner
from weft.engine.records import ResourceRecord
from weft.engine.unreadable import READING, unreadable
from weft.engine.wants import Want
from weft.engine.world import World
from weft.model.errors import ConflictError, PermanentError
from weft.model.resources import Graph
from weft.model.site import Site

NO_PROJECT = ""
"""What the site's own owner makes is in the project of weft's service user, whose id each cloud knows."""


@dataclass(frozen=True, slots=True)
class DesiredSite:
    """What was applied.

    Attributes:
        generation: of the site.
        adopted: key -> id of what was there already.
    """

    generation: int
    graph: Graph
    adopted: Mapping[str, str]
    applied_at: datetime
    applied_by: str

    @classmethod
    def of(cls, row: Row) -> DesiredSite:
        """Raises `UnreadableError`."""
        try:
            graph = read(Graph, row["graph"])
        except READING as error:
            raise unreadable("what was applied of the site", error) from error
        return cls(row["generation"], graph, row["adopted"], row["applied_at"], row["applied_by"])


def site_owner(tx: Tx, site: str) -> OwnerRecord | None:
    """The newest owner of a site's resources, also one that was released; None: nothing was ever applied."""
    row = tx.row("newest_site_owner", site=site)
    return None if row is None else OwnerRecord.of(row)


def last_destroyed(database: Database, site: str) -> UUID | None:
    """Id of the owner whose resources were destroyed last; None: none was ever."""
    with database.statement() as tx:
        row = tx.row("newest_site_receipt", site=site)
    return None if row is None else row["id"]


def desired_of(tx: Tx, owner_id: UUID) -> DesiredSite | None:
    row = tx.row("site_desired", owner_id=owner_id)
    return None if row is None else DesiredSite.of(row)


def set_desired(
    database: Database, site: str, generation: int, graph: Graph, adopted: Mapping[str, str], by: str
) -> UUID:
    """Write down what is wanted from now on, and wake who makes it; the owner's id.

    Raises `ConflictError` if it is being destroyed, or a newer generation was applied meanwhile.
    """
    with database.transaction() as tx:
        known = site_owner(tx, site)
        # Nobody destroys it before this is written.
        now = tx.row("lock_owner", id=known.id) if known is not None else None
        if known is None or now is None or now["state"] == "RELEASED":
            owner_id = UUID(make_owner(tx, "site", site, NO_PROJECT, site, by).id)
        elif now["wanted"] == "absent":
            raise ConflictError(f"the resources of site {site} are being destroyed: wait until that is done")
        else:
            owner_id = known.id
        values = {"generation": generation, "graph": written(graph), "adopted": Jsonb(dict(adopted))}
        if tx.row("set_site_desired", owner_id=owner_id, at=tx.now(), by=by, **values) is None:
            raise ConflictError(f"a newer generation of site {site} than {generation} was applied meanwhile")
        message = f"generation {generation} of the site applied by {by}"
        tx.run("insert_event", owner_id=owner_id, at=tx.now(), type="apply", message=message, key=None)
        # What differs although nothing else is desired is looked at now, not in some minutes.
        tx.run("request_repair", id=owner_id)
        tx.run("notify", owner_id=str(owner_id))
    return owner_id


def pods_on(tx: Tx, networks: Iterable[ResourceRecord]) -> dict[str, list[str]]:
    """Name of a network of the site -> live pods that use it. They know it by its name or by its id."""
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


def applied_site(database: Database) -> Want[DesiredSite]:
    """What is wanted of an owner of kind site: as it was applied."""

    def look(owner: OwnerRecord, world: World) -> DesiredSite:
        with database.statement() as tx:
            desired = desired_of(tx, owner.id)
        if desired is None:
            then = "apply the site again, or destroy it"
            raise PermanentError("find what is wanted", str(owner), "the database has no record of it", then)
        return desired

    def graph(owner: OwnerRecord, site: Site, seen: DesiredSite) -> Graph:
        return seen.graph

    return Want(look, graph, lambda seen: seen.adopted)
