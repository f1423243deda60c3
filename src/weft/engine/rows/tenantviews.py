"""Networks that tenants created in Neutron, as people see them: by project, id or name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from weft.engine.base.database import Database, Row
from weft.engine.base.documents import message_text, read
from weft.engine.base.unreadable import READING, unreadable
from weft.model.errors import ConflictError, NotFoundError
from weft.model.pod import PodState
from weft.model.site import Site
from weft.model.tenantnetwork import ServedNetwork, ServedPort
from weft.model.views import NetworkPortView, NetworkSearch, NetworkSummary, NetworkView


class TenantViews:
    """Reads networks for people. Args: site: its fabrics define how numbers are written."""

    def __init__(self, database: Database, site: Site) -> None:
        self._database, self._site = database, site

    def summaries(self, search: NetworkSearch, project_id: str | None) -> list[NetworkSummary]:
        """Live networks of a project, or of all (None), by id."""
        rows = self._database.rows(
            "list_tenant_networks", project_id=project_id, after=search.marker or "", limit=search.limit
        )
        return [NetworkSummary.model_validate(self._fields(row, row)) for row in rows]

    def find(self, name: str, project_id: str | None) -> tuple[UUID, NetworkView]:
        """The owner's id and the network, by its id or name in Neutron. Raises `NotFoundError`, `ConflictError`."""
        rows = self._database.rows("find_tenant_networks", name=name, project_id=project_id)
        rows = [r for r in rows if r["network_id"] == name] or rows
        if not rows:
            raise NotFoundError(f"weft serves no network {name!r} in this project")
        if len(rows) > 1:
            raise ConflictError(f"several networks are named {name!r}: give the id of one")
        try:
            served = read(ServedNetwork, rows[0]["document"])
        except READING as error:
            raise unreadable(f"network {name}", error) from error
        known = {"network_name": served.name, "number": served.number}
        ports = tuple(_port(p) for p in served.ports)
        return rows[0]["id"], NetworkView.model_validate({**self._fields(rows[0], known), "ports": ports})

    def find_released(self, name: str) -> UUID | None:
        """The owner's id of the network with this id or name that was released last; None: there is none."""
        row = self._database.row("find_released_network", name=name)
        return None if row is None else row["id"]

    def _fields(self, row: Row, known: Mapping[str, Any]) -> dict[str, Any]:
        fabric = self._site.fabrics.get(row["fabric"])
        text = fabric.words.text(known["number"]) if fabric else str(known["number"])
        same = ("project_id", "cloud", "fabric", "since", "ports_in", "waiting", "out", "read_at")
        named = {"id": row["network_id"], "name": known["network_name"], "segment": text}
        return {
            **{name: row[name] for name in same},
            **named,
            "state": PodState(row["state"]),
            "reason": message_text(row["reason"]),
        }


def servers_of_tenants(database: Database, site: Site, held: Collection[str]) -> dict[str, frozenset[str]]:
    """Node -> servers that have adapters of it in tenants' own networks, for nodes that no pod holds.

    A port's owner may have written which server has it, so this says what is expected there and proves nothing.
    """
    nodes = {n.nova_host: n for n in site.nodes if n.name not in held}
    rows = database.rows("served_networks")
    found: dict[str, frozenset[str]] = {}
    for row in rows:
        try:
            network = read(ServedNetwork, row["document"])
        except READING:
            continue  # the loop reports it; its servers look foreign until then
        for port in network.ports:
            node = nodes.get(port.host)
            here = node is not None and node.cloud in (None, network.cloud)
            if node is not None and here and port.server and port.member is not None:
                found[node.name] = found.get(node.name, frozenset()) | {port.server}
    return found


def _port(port: ServedPort) -> NetworkPortView:
    member = port.member.port if port.member else ""
    return NetworkPortView(
        id=port.id,
        name=port.name,
        vnic_type=port.vnic_type,
        state=port.state,
        why=port.why,
        since=port.since,
        host=port.host,
        member=member,
    )
