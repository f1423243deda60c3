"""Enrolls machines in Ironic from the site and the hardware list: nodes, ports, states, and inspection
results. Uses the operator's own rights (system scope), which weft's service doesn't have. What exists is
compared, never changed.

Source: Ironic's api-ref (nodes, ports, inventory from microversion 1.81).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from weft.drivers.openstack.base import as_text
from weft.drivers.openstack.firmware import firmware_differences
from weft.drivers.openstack.nodes import GONE, read_node
from weft.drivers.openstack.raid import STEPS
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Sessions
from weft.model.enrollment import ListedMachine
from weft.model.errors import TemporaryError
from weft.model.fabrictypes import FabricKind
from weft.model.site import Node, Site
from weft.planning.fabric.addressing import client_id, mac_of_guid

INVENTORY = {"OpenStack-API-Version": "baremetal 1.81", "X-OpenStack-Ironic-API-Version": "1.81"}
"""Ironic's microversion of Antelope, the first with inspection results."""
NO_INVENTORY = "Node inventory record for node"
"""How Ironic's 404 for a machine that was never inspected begins."""
HIDDEN = frozenset({"redfish_password"})
"""Ironic never shows these, so they can't be compared with the list."""


class Enrollment:
    """Ironic, with the rights of the person who enrolls."""

    def __init__(self, sessions: Sessions) -> None:
        self._own = sessions.own()
        self._ironic = self._own.baremetal

    def node(self, machine: str) -> Json | None:
        """The node as it is now; None: Ironic says that it doesn't exist. Raises `UnknownError`."""
        found = read_node(self._own, machine)
        return None if found["provision_state"] == GONE else found

    def ports(self, machine: str) -> dict[str, Json]:
        """MAC address -> port."""
        asked, params = f"list ports of machine {machine}", {"detail": "true"}
        rows = self._ironic.listing(asked, f"/v1/nodes/{machine}/ports", "ports", params)
        return {str(row["address"]).lower(): row for row in rows}

    def inspected(self, machine: str) -> tuple[object, object] | None:
        """Inventory and plug-ins' data of the last inspection; None if there was none."""
        asked, path = f"read the inspection of machine {machine}", f"/v1/nodes/{machine}/inventory"
        answer = self._ironic.ask(asked, "GET", path, headers=INVENTORY, ok=(404,))
        if answer.status == 404:
            if NO_INVENTORY not in answer.text:  # it names the node by a number of its own
                raise self._ironic.error(asked, answer, reading=True)
            return None
        return self._ironic.part(asked, answer, "inventory"), answer.body.get("plugin_data")

    def make_node(self, body: Json) -> None:
        """Create a node. No error if it exists already, as after a lost answer: it is compared afterwards."""
        asked = f"enroll machine {body['name']}"
        body = {name: value for name, value in body.items() if name != "traits"}  # sent in a separate request
        answer = self._ironic.ask(asked, "POST", "/v1/nodes", json=body, ok=(409,))
        if not answer.fine and self.node(body["uuid"]) is None:
            raise self._ironic.error(asked, answer)

    def make_port(self, machine: str, body: Json) -> None:
        """Create a port, unless the machine has one of this address. Raises `OutsideError`."""
        asked = f"enroll port {body['address']} of machine {machine}"
        body = {"node_uuid": machine, **body}
        answer = self._ironic.ask(asked, "POST", "/v1/ports", json=body, ok=(409,))
        if not answer.fine and body["address"] not in self.ports(machine):
            raise self._ironic.error(asked, answer)

    def set_traits(self, machine: str, traits: Sequence[str]) -> None:
        """Set the traits of a node. Raises `TemporaryError` while a conductor works on it."""
        asked, body = f"set the traits of machine {machine}", {"traits": sorted(traits)}
        answer = self._ironic.ask(asked, "PUT", f"/v1/nodes/{machine}/traits", json=body, ok=(409,))
        if not answer.fine:
            raise TemporaryError(asked, "Ironic", answer.sentence())

    def set_target_raid(self, machine: str, target: Json) -> None:
        """Set the RAID that a node shall get. Raises `TemporaryError` while a conductor works on it."""
        asked, path = f"set the RAID of machine {machine}", f"/v1/nodes/{machine}/states/raid"
        answer = self._ironic.ask(asked, "PUT", path, json=target, ok=(409,))
        if not answer.fine:
            raise TemporaryError(asked, "Ironic", answer.sentence())

    def firmware_differences(self, machine: str) -> tuple[str, ...]:
        """How its firmware and BIOS differ from what the site demands."""
        return firmware_differences(self._own, machine, self._own.cleaning)

    def move(self, machine: str, verb: str) -> None:
        """Request another state; `clean` is a manual cleaning that creates its arrays. Raises
        `TemporaryError` while a conductor works on it."""
        asked, path = f"{verb} machine {machine}", f"/v1/nodes/{machine}/states/provision"
        body: Json = {"target": verb, **({"clean_steps": [*STEPS]} if verb == "clean" else {})}
        answer = self._ironic.ask(asked, "PUT", path, json=body, ok=(409,))
        if not answer.fine:
            raise TemporaryError(asked, "Ironic", answer.sentence())


def node_of(node: Node, listed: ListedMachine, account: tuple[str, str]) -> Json:
    """The node to create for a machine. Args: account: user and password of its BMC."""
    info: Json = {
        "redfish_address": listed.bmc,
        "redfish_username": account[0],
        "redfish_password": account[1],
        "redfish_verify_ca": {"true": True, "false": False}.get(listed.verify_ca or "true", listed.verify_ca),
    }
    if listed.system is not None:
        info["redfish_system_id"] = listed.system
    return {
        "uuid": node.machine,
        "name": node.name,
        "driver": listed.driver or "redfish",
        "driver_info": info,
        **({"traits": sorted(listed.traits)} if listed.traits else {}),
        **({"properties": properties} if (properties := _properties(listed)) else {}),
        **({"resource_class": listed.resource_class} if listed.resource_class else {}),
        **{f"{kind}_interface": name for kind, name in listed.interfaces.items()},
        **({"raid_interface": "agent"} if listed.raid else {}),
    }


def _properties(listed: ListedMachine) -> Json:
    properties: Json = {"root_device": dict(listed.root_device)} if listed.root_device else {}
    if listed.boot_mode is not None:
        properties["capabilities"] = f"boot_mode:{listed.boot_mode}"
    return properties


def ports_of(site: Site, node: Node, listed: ListedMachine) -> dict[str, Json]:
    """MAC address -> port, for those in the list and for the site's InfiniBand adapters."""
    ports = {
        port.mac: {
            "address": port.mac,
            "pxe_enabled": port.pxe,
            "physical_network": port.physical_network,
            "local_link_connection": {
                name: value
                for name, value in (
                    ("switch_id", port.switch_mac),
                    ("port_id", port.switch_port),
                    ("switch_info", port.switch),
                )
                if value is not None
            },
        }
        for port in listed.ports
    }
    for hca in node.hcas:
        if (fabric := site.fabrics[hca.fabric]).type is FabricKind.INFINIBAND:
            address = mac_of_guid(hca.port_guid)
            ports[address] = {
                "address": address,
                "pxe_enabled": False,
                "physical_network": fabric.physical_network,
                "extra": {"client-id": client_id(hca.port_guid)},
            }
    return ports


def enrollment_differences(
    wanted: Json, node: Json, ports: Mapping[str, Json], found: Mapping[str, Json]
) -> Iterator[str]:
    """How Ironic differs from the list; of ports, only those that Ironic has.

    Args:
        wanted: from `node_of`.
        ports: from `ports_of`.
        found: Ironic's ports of the machine.
    """
    for name, value, seen in _differing(wanted, node):
        yield f"Ironic has {name} {as_text(seen)}, the list has {as_text(value)}"
    for address, port in ports.items():
        for name, value, seen in _differing(port, found.get(address, port)):
            yield f"port {address}: Ironic has {name} {as_text(seen)}, it should be {as_text(value)}"
    for address in sorted(found.keys() - ports.keys()):
        yield f"port {address} is in Ironic and neither in the list nor in the site"


def _differing(wanted: Json, seen: Json) -> Iterator[tuple[str, Any, Any]]:
    for name, value in wanted.items():
        there = seen.get(name)
        if isinstance(value, dict):
            inner = cast(Json, there) if isinstance(there, dict) else {}
            for key, one in cast(Json, value).items():
                if key == "capabilities" and one in str(inner.get(key)).split(","):
                    continue  # an inspection adds further ones
                if key not in HIDDEN and inner.get(key) != one:
                    yield f"{name}.{key}", one, inner.get(key)
        elif (sorted(cast(list[str], there or [])) if name == "traits" else there) != value:
            yield name, value, there
