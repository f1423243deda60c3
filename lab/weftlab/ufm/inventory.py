"""Systems, ports, links and virtual ports as UFM lists them, of what its subnet manager discovers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.model.observedfabric import End, ObservedFabric, ObservedNode

HOST, SWITCH = "Computer", "Switch"


@dataclass(frozen=True, slots=True)
class VirtualPort:
    """A VF's port: its GUID, and that of the physical port (both 16 hex digits)."""

    guid: str
    physical: str
    state: str = "ACTIVE"


class Inventory:
    """What was ever seen, and what of it is there now: UFM keeps a port whose cable was pulled, as down."""

    def __init__(self, virtual: Iterable[VirtualPort] = ()) -> None:
        self._nodes: dict[int, ObservedNode] = {}
        self._ends: dict[tuple[int, int], End] = {}
        self._now = ObservedFabric(nodes=(), links=())
        self.virtual = list(virtual)

    def see(self, fabric: ObservedFabric) -> None:
        """Take a new reading; nodes that are gone are remembered, as UFM does."""
        self._now = fabric
        self._nodes |= {n.guid: n for n in fabric.nodes}
        for a, b in fabric.links:
            self._ends |= {(a.guid, a.port): b, (b.guid, b.port): a}

    def guids(self) -> set[str]:
        """GUIDs of all ports, virtual ones included."""
        return {f"{g:016x}" for n in self._nodes.values() for g in n.port_guids} | {
            v.guid for v in self.virtual
        }

    def systems(self, query: Mapping[str, str]) -> list[dict[str, Any]]:
        """`/resources/systems`, filtered by `type`."""
        wanted = query.get("type", "").lower()
        return [
            {
                "guid": f"{n.guid:016x}",
                "system_guid": f"{n.guid:016x}",
                "name": f"{n.guid:016x}",
                "system_name": n.name.split(" ")[0],
                "type": _kind(n).lower(),
                "ports": [f"{n.guid:016x}_{p}" for p in range(1, n.ports + 1)],
                "capabilities": ["Provisioning"],
                "severity": "Info",
                "model": "Computer" if n.kind == "ca" else "MQM9700",
                "ip": "0.0.0.0",
            }
            for n in self._sorted()
            if wanted in ("", _kind(n).lower()) or (wanted == "host" and n.kind == "ca")
        ]

    def ports(self, query: Mapping[str, str]) -> list[dict[str, Any]]:
        """`/resources/ports`, filtered by `sys_type` and `active`."""
        up = {(e.guid, e.port) for link in self._now.links for e in link}
        found = [self._port(n, p, (n.guid, p) in up) for n in self._sorted() for p in range(1, n.ports + 1)]
        if kind := query.get("sys_type"):
            found = [p for p in found if p["description"].startswith(kind)]
        if query.get("active") == "true":
            found = [p for p in found if p["logical_state"] == "Active"]
        return found

    def links(self, query: Mapping[str, str]) -> list[dict[str, Any]]:
        return [
            {
                "name": f"{a.guid:016x}_{a.port}:{b.guid:016x}_{b.port}",
                "source_guid": f"{a.guid:016x}",
                "source_port": str(a.port),
                "source_port_name": f"{a.guid:016x}_{a.port}",
                "source_port_dname": f"1/{a.port}",
                "source_port_node_description": a.name,
                "destination_guid": f"{b.guid:016x}",
                "destination_port": str(b.port),
                "destination_port_name": f"{b.guid:016x}_{b.port}",
                "destination_port_dname": f"1/{b.port}",
                "destination_port_node_description": b.name,
                "width": "4x",
                "severity": "Info",
                "capabilities": [],
            }
            for a, b in self._now.links
        ]

    def vports(self, query: Mapping[str, str]) -> list[dict[str, Any]]:
        """`/resources/vports`: virtual ports whose physical port is known."""
        physical = {f"{g:016x}": n for n in self._nodes.values() for g in n.port_guids}
        found: list[dict[str, Any]] = []
        for port in self.virtual:
            node = physical.get(port.physical)
            if node is None:
                continue
            name = f"{node.guid:016x}_1"
            if query.get("port") not in (None, name):
                continue
            found.append(
                {
                    "virtual_port_guid": port.guid,
                    "virtual_port_state": port.state,
                    "virtual_port_lid": 4000 + len(found),
                    "port_guid": port.physical,
                    "port_name": name,
                    "physical_port_number": 1,
                    "system_guid": f"{node.guid:016x}",
                    "system_name": node.name.split(" ")[0],
                    "system_ip": "0.0.0.0",
                    "node_description": node.name,
                }
            )
        return found

    def _sorted(self) -> list[ObservedNode]:
        return sorted(self._nodes.values(), key=lambda n: n.guid)

    def _port(self, node: ObservedNode, number: int, up: bool) -> dict[str, Any]:
        peer = self._ends.get((node.guid, number)) if up else None
        own = node.port_guids[number - 1] if number <= len(node.port_guids) else node.guid
        return {
            "name": f"{node.guid:016x}_{number}",
            "guid": f"{own:016x}",
            "systemID": f"{node.guid:016x}",
            "system_name": node.name.split(" ")[0],
            "number": number if node.kind == "ca" else str(number),
            "dname": f"1/{number}" if node.kind == "switch" else f"HCA-1/{number}",
            "description": f"{_kind(node)} IB Port",
            "physical_state": "Link Up" if up else "Disabled",
            "logical_state": "Active" if up else "Down",
            "lid": 0,
            "mtu": 4096,
            "active_speed": "NDR" if up else "N/A",
            "active_width": "4x" if up else "N/A",
            "peer": f"{peer.guid:016x}_{peer.port}" if peer else "N/A",
            "peer_node_guid": f"{peer.guid:016x}" if peer else "N/A",
            "node_description": node.name,
        }


def _kind(node: ObservedNode) -> str:
    return HOST if node.kind == "ca" else SWITCH


def paged(rows: list[dict[str, Any]], query: Mapping[str, str]) -> object:
    """An array; with `page_number` and `rpp` a page of it."""
    if "page_number" not in query or "rpp" not in query:
        return rows
    number, size = max(1, int(query["page_number"])), max(1, int(query["rpp"]))
    first = (number - 1) * size
    return {
        "total_resources": len(rows),
        "filtered_resources": len(rows),
        "num_of_pages": -(-len(rows) // size),
        "first_index": first + 1,
        "last_index": min(first + size, len(rows)),
        "data": rows[first : first + size],
    }
