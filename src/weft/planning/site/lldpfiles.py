"""Neighbours from tools' output about LLDP. Pure.

Sources: lldpd's `lldpcli -f json0 show neighbors` and `-f json`; the `parsed-lldp` hook of Ironic's inspection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weft.planning.site.neighbours import LldpNeighbour

FORMATS = "output of `lldpcli -f json0 show neighbors` (or `-f json`), or Ironic's inspection data"


def neighbours_of(document: Any) -> tuple[LldpNeighbour, ...]:
    """Neighbours in lldpcli's json0 or json, or in Ironic's inspection data. Raises ValueError for anything else."""
    if not isinstance(document, Mapping):
        raise ValueError("a mapping")
    try:
        if "lldp" in document:
            return tuple(_of_lldpcli(document["lldp"]))
        if "inventory" in document or "plugin_data" in document:
            return tuple(_of_ironic(document.get("plugin_data") or {}))
    except KeyError as error:
        raise ValueError(f"no {error.args[0]}") from None
    except (AttributeError, IndexError, TypeError, ValueError):
        raise ValueError("an interface, chassis or port in it is of another form") from None
    raise ValueError("neither lldp nor inventory is in it")


def _of_lldpcli(document: Any) -> Iterator[LldpNeighbour]:
    if isinstance(document, Mapping):  # json: by name, and a single one isn't in a list
        for part in _listed(document["interface"]):
            for local, one in part.items():
                yield from _heard(str(local), one, _first(one["chassis"]), _first(one["port"]))
        return
    if not isinstance(document, list):
        raise TypeError("list or mapping in lldp")
    for one in (i for part in document for i in part.get("interface", ())):
        chassis = one["chassis"][0]
        name = {"name": str(chassis["name"][0]["value"])} if "name" in chassis else {}
        port = one["port"][0]
        described = {"descr": port["descr"][0]["value"]} if "descr" in port else {}
        yield from _heard(str(one["name"]), one, name, {"id": port["id"][0], **described})


def _first(found: Any) -> Mapping[str, Any]:
    """A chassis of json is nested below its name, if it has one: here the name is a field. Ports are unchanged."""
    if "id" in found:
        return {key: value for key, value in found.items() if key != "name"}
    ((name, inside),) = found.items()
    if not isinstance(inside, Mapping):
        raise TypeError("chassis or port")
    return {**inside, "name": str(name)}


def _listed(found: Any) -> list[Any]:
    return [found] if isinstance(found, Mapping) else list(found)


def _heard(
    local: str, one: Mapping[str, Any], chassis: Mapping[str, Any], port: Mapping[str, Any]
) -> Iterator[LldpNeighbour]:
    if one["via"] != "LLDP":
        return
    kind, value = port["id"]["type"], str(port["id"]["value"])
    mac = value.lower() if kind == "mac" else None
    if "name" not in chassis and mac is None:
        return
    described = str(port["descr"]) if "descr" in port else None
    name = value if kind in ("ifname", "local") else described or value
    yield LldpNeighbour(
        local, str(chassis.get("name", "")), name, mac, described if kind == "local" else None
    )


def _of_ironic(plugins: Mapping[str, Any]) -> Iterator[LldpNeighbour]:
    if plugins.get("parsed_lldp") is None:
        raise KeyError("parsed_lldp: Ironic's hook parse-lldp was off")  # unknown, not "nothing heard"
    for local, heard in plugins["parsed_lldp"].items():
        device, port = heard.get("switch_system_name"), heard.get("switch_port_id")
        if not device or not port:
            continue
        described = heard.get("switch_port_description")
        yield of_ironic(str(local), str(device), str(port), str(described) if described else None)


def of_ironic(local: str, device: str, port: str, described: str | None) -> LldpNeighbour:
    """A neighbour as Ironic's hook parsed it, which omits the kind of a port id."""
    mac = port.lower() if port.count(":") == 5 else None
    return LldpNeighbour(
        local, device, described if mac and described else port, mac, None if mac else described
    )
