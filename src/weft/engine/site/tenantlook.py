"""One look at the networks that tenants created in a cloud on a fabric's physical network; changes are recorded.

The cloud is read completely and is the only source: what a notification said makes no difference. Nothing is removed
because a listing omits it: the cloud must confirm that this very resource is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from weft.engine.base.database import Database, Row, Tx
from weft.engine.base.documents import message_json, read, written
from weft.engine.base.world import World
from weft.engine.hold.ownerstore import make_owner, release_owner
from weft.engine.rows.basis import SiteFence
from weft.model.errors import ConflictError, UnknownError, WeftError
from weft.model.fabric import Snapshot, TightPort
from weft.model.messages import networks
from weft.model.site import Site
from weft.model.tenantnetwork import PortState, ServedNetwork, ServedPort
from weft.planning.fabric.portkeys import full
from weft.planning.owners.tenantports import KnownPorts, Planned, PlannedPort, members_of, plan_ports
from weft.ports.tenantnetworks import TenantNetwork

log = logging.getLogger(__name__)

NOT_YET = networks.NOT_SHOWN_YET()
BY = "weft"
"""Creator of an owner without an order."""


@dataclass(frozen=True, slots=True)
class _KnownNetwork:
    """A network that weft already serves, or is about to stop serving (`leaving`)."""

    owner_id: UUID
    project_id: str
    served: ServedNetwork
    leaving: bool

    @classmethod
    def of(cls, row: Row) -> _KnownNetwork:
        served = read(ServedNetwork, row["document"])
        return cls(row["owner_id"], row["project_id"], served, row["wanted"] == "absent")


class TenantLook:
    """See the module's docstring. For one look at one cloud and one fabric."""

    def __init__(
        self, database: Database, world: World, site: Site, fence: SiteFence, cloud: str, fabric: str
    ) -> None:
        self._database, self._world, self._site, self._fence = database, world, site, fence
        self._cloud, self._fabric = cloud, fabric
        self._words = site.fabrics[fabric].words
        self._snapshot: Snapshot | None = None
        self._silent = ""
        self._tight: Mapping[str, TightPort] | None = None
        self._unproved: list[UnknownError] = []

    def run(self) -> bool:
        """Returns whether a port is about to become a member.

        Raises `UnknownError` or `PermanentError` if the cloud can't be read; if only some resources can't be proved
        gone, that is raised after all others were served, and their networks stay as they were. Raises
        `SiteChangedError`.
        """
        began = self._database.now()
        facts = self._world.clouds[self._cloud]
        listed = {n.id: n for n in facts.networks_on(self._site.fabrics[self._fabric].physical_network)}
        with self._database.statement() as tx:
            rows = tx.rows("tenant_networks", cloud=self._cloud, fabric=self._fabric)
            ours = tx.rows("networks_of_weft", cloud=self._cloud)
            nodes = tx.rows("nodes_of_pods")
        known = {row["network_id"]: _KnownNetwork.of(row) for row in rows}
        unlisted = {i: one for i, one in known.items() if i not in listed and not one.leaving}
        mine = [n for n in listed.values() if self._is_tenants(n, known, ours)]
        mine += self._those_still_there(unlisted)
        tenants = [whole for n in mine if (whole := self._complete(n, known.get(n.id))) is not None]
        self._read_fabric(tenants)
        can = self._world.fabric(self._fabric).capabilities
        around = self._around(known, nodes)
        planned = plan_ports(self._site, self._cloud, self._fabric, can, tenants, around)
        if doubted := self._doubted(planned, around):
            planned = plan_ports(self._site, self._cloud, self._fabric, can, tenants, doubted)
        served = [self._served(n, planned[n.id], known.get(n.id), began) for n in tenants]
        seen = [known[s.network].owner_id for s in served if s.network in known and s.network not in unlisted]
        self._write(served, known, {n.id: n for n in tenants}, began)
        self._database.run("read_tenant_networks", owners=seen, at=began)
        for error in self._unproved[1:]:
            log.warning("tenants' networks: %s", error)
        if self._unproved:
            raise self._unproved[0]
        return any(p.state is PortState.WAITING for s in served for p in s.ports)

    # -- reading ------------------------------------------------------------------------------------------------

    def _is_tenants(
        self, network: TenantNetwork, known: Mapping[str, _KnownNetwork], ours: Sequence[Row]
    ) -> bool:
        """Whether weft didn't create it. If weft knows its id, a mark proves nothing, as a tenant may have written
        it."""
        if network.id in known:
            return not known[network.id].leaving
        mine = any(r["id"] == network.id or (r["id"] is None and r["number"] == network.number) for r in ours)
        return not mine and (network.mark is None or network.mark.site != self._site.name)

    def _those_still_there(self, unlisted: Mapping[str, _KnownNetwork]) -> list[TenantNetwork]:
        """Unlisted networks that the cloud still has, such as one with a second segment, without ports: members that
        have left must not stay in. They don't count as read. Releases the networks that are gone."""
        there: list[TenantNetwork] = []
        for network, one in sorted(unlisted.items()):
            try:
                gone = self._world.clouds[self._cloud].is_gone(network, one.project_id)
            except UnknownError as error:
                self._unproved.append(error)
                continue
            if gone:
                message = f"network {network} was deleted in cloud {self._cloud}"
                with self._database.transaction() as tx:
                    self._fence.hold(tx)
                    release_owner(tx, one.owner_id, message, tx.now())
            else:
                there.append(TenantNetwork(network, one.served.name, one.project_id, one.served.number))
        return there

    def _complete(self, network: TenantNetwork, known: _KnownNetwork | None) -> TenantNetwork | None:
        """Add members that the listing omits, though the cloud still has them; None: unknown."""
        shown = {p.id for p in network.ports}
        missing = [p.id for p in known.served.ports if p.member and p.id not in shown] if known else []
        facts = self._world.clouds[self._cloud]
        try:
            found = [facts.port_now(id_, network.project_id) for id_ in missing]
        except UnknownError as error:
            self._unproved.append(error)
            return None
        late = [port for port in found if port is not None]
        return replace(network, ports=(*network.ports, *late)) if late else network

    def _read_fabric(self, tenants: Sequence[TenantNetwork]) -> None:
        if not any(n.ports for n in tenants):
            return
        try:
            self._snapshot = self._world.fabric(self._fabric).snapshot()
        except WeftError as error:
            self._silent = f"fabric {self._fabric} can't be read: {error}"

    def _doubted(self, planned: Planned, around: KnownPorts) -> KnownPorts | None:
        """What is known, with functions that aren't only where they belong; None if there are none."""
        members = [m for ports in planned.values() for m in members_of(ports)]
        try:
            elsewhere = self._snapshot.elsewhere(members) if self._snapshot else {}
        except WeftError as error:
            self._silent = f"fabric {self._fabric} can't be read: {error}"
            return replace(around, silent=self._silent)
        return replace(around, elsewhere=elsewhere) if elsewhere else None

    def _around(self, known: Mapping[str, _KnownNetwork], nodes: Sequence[Row]) -> KnownPorts:
        mine = self._site.fabrics[self._fabric].segments
        ports = self._snapshot.ports if self._snapshot else {}
        return KnownPorts(
            {network: {m.port for m in one.served.members} for network, one in known.items()},
            {port: frozenset(n for n in seen.numbers if n in mine) for port, seen in ports.items()},
            {port: seen.unread for port, seen in ports.items() if seen.unread},
            self._silent,
            frozenset(r["node"] for r in nodes if r["whole"]),
            frozenset(r["node"] for r in nodes if not r["whole"]),
        )

    # -- judging ------------------------------------------------------------------------------------------------

    def _served(
        self,
        network: TenantNetwork,
        planned: Sequence[PlannedPort],
        known: _KnownNetwork | None,
        at: datetime,
    ) -> ServedNetwork:
        before = {p.id: p for p in known.served.ports} if known else {}
        same = known is not None and known.served.number == network.number
        ports = tuple(
            self._port(p, network.number, before.get(p.port.id) if same else None, at) for p in planned
        )
        return ServedNetwork(
            cloud=self._cloud,
            fabric=self._fabric,
            network=network.id,
            name=network.name,
            number=network.number,
            ports=ports,
        )

    def _port(self, planned: PlannedPort, number: int, before: ServedPort | None, at: datetime) -> ServedPort:
        state, why = (PortState.WAITING if planned.waits else PortState.OUT), planned.why
        if planned.member is not None:
            inside = self._is_in(planned.member.port, number)
            if inside is None:  # unknown: as it was
                inside = before is not None and before.state is PortState.IN
            state, why = (PortState.IN, "") if inside else (PortState.WAITING, self._silent or NOT_YET)
            if why == NOT_YET and before is not None and before.state is PortState.WAITING:
                why = self._full(planned.member.port, number) or why
        since = before.since if before is not None and before.state is state else at
        return ServedPort(
            id=planned.port.id,
            name=planned.port.name,
            vnic_type=planned.port.vnic_type,
            host=planned.port.host,
            server=planned.port.server,
            member=planned.member,
            state=state,
            why=why,
            since=since,
        )

    def _full(self, port: str, number: int) -> str:
        """Why its table has no room for the segment; empty: it has, or that is unknown. Read once per look, and only if
        a port waits for longer than one look.
        """
        if self._tight is None:
            try:
                usage = self._world.fabric(self._fabric).usage()
                self._tight = {t.port: t for t in usage.tight}
            except WeftError:
                self._tight = {}
        tight = self._tight.get(port)
        found = full(tight, self._words, {number}) if tight is not None else None
        return found.why if found is not None else ""

    def _is_in(self, port: str, number: int) -> bool | None:
        """Whether all readable places of the fabric show it as a member; None: it wasn't read."""
        if self._snapshot is None:
            return None
        seen = self._snapshot.ports.get(port)
        return bool(seen and not seen.unread and seen.places) and all(
            number in place.numbers for place in (seen.places if seen else ())
        )

    # -- writing ------------------------------------------------------------------------------------------------

    def _write(
        self,
        served: Sequence[ServedNetwork],
        known: Mapping[str, _KnownNetwork],
        networks: Mapping[str, TenantNetwork],
        at: datetime,
    ) -> None:
        for one in served:
            before = known.get(one.network)
            if before is None:
                self._begin(one, networks[one.network].project_id, at)
            elif before.served != one:
                self._change(before, one, at)

    def _begin(self, served: ServedNetwork, project_id: str, at: datetime) -> None:
        try:
            with self._database.transaction() as tx:
                self._fence.hold(tx)
                owner = make_owner(tx, "network", self._site.name, project_id, served.network, BY)
                tx.run("insert_tenant_network", owner_id=owner.id, **self._values(served, at))
        except ConflictError:
            log.info(
                "network %s: another worker has just begun to serve it, or it is being released",
                served.network,
            )

    def _change(self, before: _KnownNetwork, served: ServedNetwork, at: datetime) -> None:
        values = self._values(served, at)
        with self._database.transaction() as tx:
            self._fence.hold(tx)
            if tx.row("set_tenant_network", owner_id=before.owner_id, **values) is None:
                return  # another worker has read the cloud later
            self._insert_events(tx, before, served)
            if (before.served.members, before.served.number) != (served.members, served.number):
                tx.run("wake_owner", id=before.owner_id)
            tx.run("notify", owner_id=str(before.owner_id))

    def _values(self, served: ServedNetwork, at: datetime) -> dict[str, object]:
        def count(state: PortState) -> int:
            return sum(p.state is state for p in served.ports)

        waits = [p.since for p in served.ports if p.state is PortState.WAITING]
        return {
            "cloud": served.cloud,
            "fabric": served.fabric,
            "network_id": served.network,
            "document": written(served),
            "at": at,
            "in": count(PortState.IN),
            "waiting": count(PortState.WAITING),
            "out": count(PortState.OUT),
            "waits_since": min(waits, default=None),
        }

    def _insert_events(self, tx: Tx, before: _KnownNetwork, served: ServedNetwork) -> None:
        """An event for each port that became a member, or is one no longer."""
        was = {p.id: p for p in before.served.ports}
        now = {p.id: p for p in served.ports}
        segment = self._words.text(served.number)
        messages: list[str] = []
        for id_ in sorted(was.keys() | now.keys()):
            inside = id_ in now and now[id_].state is PortState.IN
            if inside == (id_ in was and was[id_].state is PortState.IN):
                continue
            if inside:
                messages.append(networks.PORT_IN(port=id_, segment=segment))
            else:
                why = now[id_].why if id_ in now else "it was deleted"
                messages.append(networks.PORT_OUT(port=id_, segment=segment, why=why))
        at = tx.now()
        tx.many(
            "insert_event",
            [
                {
                    "owner_id": before.owner_id,
                    "at": at,
                    "type": "port",
                    "message": message_json(m),
                    "key": None,
                }
                for m in messages
            ],
        )
