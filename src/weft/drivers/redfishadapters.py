"""Ports of a host's network adapters as its BMC reports them, in addition to the interfaces of the system.

Source: DMTF's Redfish: Chassis, NetworkAdapter, Port (`Ethernet`, `InfiniBand`), NetworkDeviceFunction, and
NetworkPort, which Port replaced. sushy follows the links; of the documents, only these properties are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sushy import exceptions

from weft.drivers.redfishlists import MOST, PartialListError, members_of
from weft.model.ids import parse_guid
from weft.planning.hardware.where import plain_mac

_ODD = (exceptions.SushyError, AttributeError, KeyError, TypeError, ValueError)
"""Errors raised by documents of an unexpected shape."""
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_NO_MACS = frozenset({"00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"})


@dataclass(slots=True)
class AdapterPort:
    """Attributes:
    adapter, port: their ids.
    ports: number of ports that the adapter has.
    mac: None if it has none, such as InfiniBand's.
    """

    adapter: str
    port: str
    ports: int = 1
    mac: str | None = None
    guid: str | None = None
    port_guid: str | None = None


@dataclass(slots=True)
class AdapterPorts:
    """Attributes:
    unread: what couldn't be read, one sentence each.
    """

    ports: list[AdapterPort] = field(default_factory=list[AdapterPort])
    unread: list[str] = field(default_factory=list[str])


def adapter_ports(root: Any) -> AdapterPorts:
    """Ports of all chassis. Raises what sushy raises if the BMC doesn't answer or refuses the user."""
    found = AdapterPorts()
    for chassis in _members(root, "get_chassis_collection", "its chassis", found):
        for adapter in _members(
            chassis, "network_adapters", f"adapters of chassis {chassis.identity}", found
        ):
            if len(found.ports) >= MOST:
                found.unread.append(f"adapters: only the first {MOST} ports are read")
                return found
            found.ports += _of_adapter(adapter, found)
    return found


def _of_adapter(adapter: Any, found: AdapterPorts) -> list[AdapterPort]:
    """Ports from the adapter's first collection that has addresses: ports, device functions, ports of the
    older schema."""
    for name, read in (
        ("ports", _port),
        ("network_device_functions", _function),
        ("network_ports", _old_port),
    ):
        rows = [_document(m) for m in _members(adapter, name, f"{name} of adapter {adapter.identity}", found)]
        made = [(str(row.get("Id") or ""), read(row)) for row in rows]
        good = [
            AdapterPort(str(adapter.identity), port, len(made), *said) for port, said in made if any(said)
        ]
        if good:
            return good
    return []


_Said = tuple[str | None, str | None, str | None]
"""MAC address, node GUID and port GUID."""


def _port(row: Mapping[str, Any]) -> _Said:
    ethernet, infiniband = _mapping(row, "Ethernet"), _mapping(row, "InfiniBand")
    return (
        real_mac(_first(ethernet.get("AssociatedMACAddresses"))),
        _guid(_first(infiniband.get("AssociatedNodeGUIDs"))),
        _guid(_first(infiniband.get("AssociatedPortGUIDs"))),
    )


def _function(row: Mapping[str, Any]) -> _Said:
    """Addresses of a device function; the permanent ones, as for interfaces."""
    ethernet, infiniband = _mapping(row, "Ethernet"), _mapping(row, "InfiniBand")
    mac = real_mac(ethernet.get("PermanentMACAddress")) or real_mac(ethernet.get("MACAddress"))
    node = _guid(infiniband.get("PermanentNodeGUID")) or _guid(infiniband.get("NodeGUID"))
    port = _guid(infiniband.get("PermanentPortGUID")) or _guid(infiniband.get("PortGUID"))
    return mac if not port else None, node, port


def _old_port(row: Mapping[str, Any]) -> _Said:
    address = _first(row.get("AssociatedNetworkAddresses"))
    if str(row.get("ActiveLinkTechnology")) == "InfiniBand":
        return None, None, _guid(address)
    return real_mac(address), None, None


def _members(owner: Any, name: str, what: str, found: AdapterPorts) -> Sequence[Any]:
    """Members of an optional collection; a collection that can't be read is noted."""
    try:
        collection: Any = getattr(owner, name)
        if callable(collection):
            collection = collection()
    except exceptions.MissingAttributeError:
        return ()
    except _ODD as error:
        return _unread(error, what, found)
    try:
        listed = members_of(collection)
    except _ODD as error:
        return _unread(error, what, found)
    if listed.missing:
        found.unread.append(f"{what}: {listed.missing}")
    return [one for one in listed.members if not is_absent(_document(one))]


def _unread(error: Exception, what: str, found: AdapterPorts) -> Sequence[Any]:
    """Note it; raises the error again if the BMC doesn't answer, or refuses the user."""
    if isinstance(error, exceptions.AccessError | exceptions.ConnectionError):
        raise error
    said = str(error) if isinstance(error, PartialListError) else "not as Redfish describes them"
    found.unread.append(f"{what}: {said}")
    return ()


def is_absent(document: Mapping[str, Any]) -> bool:
    """Whether a BMC keeps a document for hardware that isn't there (Status of DMTF's Resource)."""
    return _mapping(document, "Status").get("State") == "Absent"


def _document(member: Any) -> Mapping[str, Any]:
    return member.json if isinstance(member.json, Mapping) else {}


def _mapping(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = row.get(name)
    return found if isinstance(found, Mapping) else {}


def _first(values: Any) -> str | None:
    return str(values[0]) if isinstance(values, list) and values and values[0] else None


def real_mac(text: Any) -> str | None:
    """A MAC address; None for what BMCs write where there is none: zeros, `N/A`, `Not Available`."""
    plain = plain_mac(str(text or "")).lower()
    return str(text) if _MAC.fullmatch(plain) and plain not in _NO_MACS else None


def one_spelling(mac: str) -> str:
    """A MAC address in one form, in which two are compared: BMCs write the same with colons, dashes or dots."""
    return plain_mac(mac).lower()


def _guid(text: Any) -> str | None:
    """A GUID; None for zeros in any form, and for other texts."""
    try:
        return str(text) if text is not None and parse_guid(str(text)) else None
    except ValueError:
        return None


def cells_of(ports: Sequence[AdapterPort], known: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Name of an interface, attribute and text, for ports whose MAC addresses aren't known yet.

    A port is named after its adapter and itself, or after its adapter alone if it is the only one.

    Args:
        known: MAC address as `one_spelling` has it -> name of the interface that has it.
    """
    first: set[str] = set()
    for one in ports:
        names = [f"{one.adapter}_{one.port}"] if one.ports > 1 else []
        if one.adapter not in first:
            names.append(one.adapter)
        first.add(one.adapter)
        if one.mac and one_spelling(one.mac) in known:
            continue
        for name in names:
            for attribute in ("mac", "guid", "port_guid"):
                if text := getattr(one, attribute):
                    yield name, attribute, text
