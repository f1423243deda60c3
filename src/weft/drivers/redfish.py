"""Reads a host's interfaces from its BMC. Changes nothing.

Source: DMTF's Redfish (ComputerSystem, Manager, EthernetInterface), by OpenStack's client, sushy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import requests
import sushy
from sushy import auth, exceptions

from weft.drivers.redfishadapters import adapter_ports, cells_of, is_absent, one_spelling, real_mac
from weft.drivers.redfishlists import BoundConnector, PartialListError, members_of
from weft.model.errors import PermanentError, TemporaryError
from weft.model.hardware import Cell, HardwareRecord
from weft.planning.hardware.columns import interface_called

CONNECT, READ = 10, 30
"""Timeout of a request, in seconds."""


def discover(
    address: str, user: str, password: str, ca: str | bool = True, port: int = 443
) -> HardwareRecord:
    """The BMC's own interface as `bmc`, and the host's interfaces by their ids: those of the system, and ports of
    adapters that aren't among them. Adapters that can't be read are noted.

    Args:
        ca: PEM file of the authority that signed the BMC's certificate; True: the authorities of this host.

    Raises `OutsideError`.
    """
    name = f"Redfish at {address}"
    trusted: Any = ca  # sushy takes a path too, as requests does, but declares a bool
    try:
        # Basic authentication, since a session would have to be created and deleted.
        bound = BoundConnector(
            f"https://{address}:{port}",
            verify=trusted,
            connect_timeout=CONNECT,
            default_request_timeout=READ,
            server_side_retries=1,
            server_side_retries_delay=1,
        )
        root = sushy.Sushy("", auth=auth.BasicAuth(user, password), connector=bound)
        notes: list[str] = []
        cells = {c: Cell(text, f"{c} (Redfish)", name) for c, text in _cells(root, address, name, notes)}
        return HardwareRecord(name, cells, tuple(notes))
    except exceptions.AccessError:
        then = "check REDFISH_USER and REDFISH_PASSWORD"
        raise PermanentError("read interfaces", name, "it refuses the user", then) from None
    except (requests.exceptions.InvalidJSONError, RecursionError) as error:
        # The first is a RequestException too, but something did answer.
        raise _odd(name, error) from None
    except (exceptions.ConnectionError, requests.RequestException) as error:
        answer = "its certificate isn't trusted" if "certificate" in str(error).lower() else "no answer"
        raise TemporaryError("read interfaces", name, answer, "check the address and --redfish-ca") from None
    except PartialListError as error:
        then = "list this host's interfaces, and import without --redfish"
        raise PermanentError("read interfaces", name, str(error), then) from None
    except (exceptions.SushyError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise _odd(name, error) from None


def _odd(name: str, error: Exception) -> PermanentError:
    answer = f"not as Redfish describes it ({type(error).__name__})"
    return PermanentError("read interfaces", name, answer, "check that it is a BMC with Redfish")


def _cells(root: Any, address: str, bmc: str, notes: list[str]) -> Iterator[tuple[str, str]]:
    """Column and text. Args: notes: is given what isn't known."""
    yield "bmc_address", address
    for manager in _all(root.get_manager_collection(), "managers"):
        for one in _members(manager):
            if address in _addresses(one.json) and (mac := real_mac(one.mac_address)):
                yield "bmc_mac", mac
    names: dict[str, str] = {}
    macs: dict[str, str] = {}
    for system in _all(root.get_system_collection(), "systems"):
        for one in _members(system):
            # The permanent address is the interface's own; the current one may be a bond's, or set by
            # software.
            mac = real_mac(one.permanent_mac_address) or real_mac(one.mac_address)
            if not one.identity:
                raise KeyError("Id")  # required by the schema: this isn't an interface
            if not mac or is_absent(one.json):
                continue
            name = _called(str(one.identity), mac, names, macs, address)
            if name != "bmc":
                yield f"{name}_mac", mac
    seen = adapter_ports(root)
    notes += [f"{bmc}: {line}" for line in seen.unread]
    given = dict(names)
    for written, attribute, text in cells_of(
        seen.ports, {one_spelling(mac): name for name, mac in macs.items()}
    ):
        try:
            name = interface_called(written, names)
        except ValueError:
            name = ""
        if not name or name in given or name == "bmc":
            notes.append(
                f"{bmc}: {attribute} {text} of {written}: the system has another interface of this name"
            )
            continue
        yield f"{name}_{attribute}", text
    if not macs and not seen.ports:
        notes.append(f"{bmc}: it lists no interface of its host")


def _called(written: str, mac: str, names: dict[str, str], macs: dict[str, str], address: str) -> str:
    """The interface's name here. A BMC with several systems may use one name for an interface of each."""
    try:
        name = interface_called(written, names)
        if one_spelling(macs.setdefault(name, mac)) != one_spelling(mac):
            raise ValueError(f"one MAC address; it has {macs[name]} and {mac}")
    except ValueError as error:
        answer = f"interface {written!r} needs {error}"
        then = "list this host's interfaces, and import without --redfish"
        raise PermanentError("read interfaces", f"Redfish at {address}", answer, then) from None
    return name


def _members(owner: Any) -> list[Any]:
    """Interfaces of a system or manager; none if it has no such collection, which is optional."""
    try:
        collection = owner.ethernet_interfaces
    except exceptions.MissingAttributeError:
        return []
    return _all(collection, "interfaces")


def _all(collection: Any, what: str) -> list[Any]:
    """All members of a collection. Raises `PartialListError` if some can't be read, which would be left out
    silently."""
    found = members_of(collection)
    if found.missing:
        raise PartialListError(f"{what}: {found.missing}")
    return found.members


def _addresses(document: Mapping[str, Any]) -> set[str]:
    return {str(a.get("Address")) for a in document.get("IPv4Addresses") or () if isinstance(a, Mapping)}
