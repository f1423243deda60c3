"""Fields of NetBox's and Nautobot's objects as texts: choices, custom fields, names of racks. Pure.

Source: NetBox's models (a rack's name is unique in its location only; `CustomFieldTypeChoices`: a selection is a text
or a list of texts, a decimal a number, an object a mapping).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from weft.model.errors import InputError
from weft.planning.hardware.columns import PLAIN, canonical
from weft.planning.hardware.kinds import CABLE, FABRIC_SWITCH, KINDS, kind_of

Json = Mapping[str, Any]

_CUSTOM = PLAIN - {"name", "kind", "rack"}
"""Columns that a device's custom fields may fill; NetBox has its own fields for the others."""
_OF_CABLES = CABLE.columns - {"name", "kind"}


def value_of(one: Json, name: str) -> str | None:
    """The value of a choice field: `{"value": …, "label": …}`, or the value alone."""
    found = one.get(name)
    value = found.get("value") if isinstance(found, Mapping) else found
    return None if value is None else str(value)


def mac_of(interface: Json) -> str | None:
    """An interface's MAC address. NetBox 4.2 has several, one of them primary; a single one needs no choice."""
    primary, several = interface.get("primary_mac_address"), interface.get("mac_addresses") or ()
    if mac := interface.get("mac_address") or (primary or {}).get("mac_address"):
        return str(mac)
    return str(several[0]["mac_address"]) if len(several) == 1 else None


def custom_text(value: Any) -> str:
    """A custom field as a cell has it; empty for a checkbox, which holds no text, and for what has none.

    Several selected values are separated by blanks; a selection or an object is its value or name; 3.0 is 3.
    """
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, Mapping):
        named = (value[k] for k in ("value", "name", "display", "label") if value.get(k) is not None)
        return custom_text(next(named, None))
    if isinstance(value, list):
        return " ".join(filter(None, map(custom_text, value)))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def columns_of_custom_fields(
    device: Json, role: str, place: str
) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Column, text and NetBox's name of each custom field that is a column; and those that the device's kind hasn't.

    NetBox has the same custom fields for devices of all roles, for whatever purpose: `source` may be a supplier.

    Raises `InputError` for a ticked checkbox: it doesn't say what.
    """
    found: list[tuple[str, str, str]] = []
    for name, value in (device.get("custom_fields") or {}).items():
        column = canonical(name)
        if column not in _CUSTOM:
            continue
        if value is True:
            raise InputError(f"custom_fields.{name}", value, "text or a number", place)
        if text := custom_text(value):
            found.append((column, text, f"custom_fields.{name}"))
    kind = KINDS.get(kind_of(role) or "")
    if kind is None:  # --kind may say what it is
        return [one for one in found if one[0] not in _OF_CABLES], []
    if kind_of(role) == "switch" and any(column == "fabric" for column, _, _ in found):
        kind = FABRIC_SWITCH
    mine = [one for one in found if one[0] in kind.columns]
    return mine, [
        name.removeprefix("custom_fields.") for column, _, name in found if column not in kind.columns
    ]


def rack_names(devices: Sequence[Json], left_out: list[str]) -> dict[tuple[Any, str], str]:
    """(id, name) of a rack -> its name here: of a name's characters, and another one for each rack.

    Racks of one name in several locations or sites are called after those, too, which is added to `left_out`.
    """
    racks: dict[str, dict[tuple[Any, str], str]] = {}
    for one in devices:
        if rack := one.get("rack"):
            key, plain = (rack.get("id"), str(rack["name"])), _plain(str(rack["name"]))
            racks.setdefault(plain.casefold(), {}).setdefault(key, f"{_place(one)}-{plain}")
    found: dict[tuple[Any, str], str] = {}
    for same in racks.values():
        if len(same) == 1:
            found |= {key: _plain(key[1]) or key[1] for key in same}
            continue
        alone = len({name.casefold() for name in same.values()}) == len(same)
        named = {key: name if alone else f"{_plain(key[1])}-{key[0]}" for key, name in same.items()}
        found |= named
        written, said = sorted({repr(name) for _, name in same}), ", ".join(named.values())
        left_out.append(
            f"NetBox racks: {', '.join(written)} as a name, since {len(same)} racks have it: here they are {said}"
        )
    return found


def _plain(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", name).strip("-._")[:50]


def _place(device: Json) -> str:
    """Where a device's rack is: its location, otherwise its site."""
    where = device.get("location") or device.get("site") or {}
    return _plain(str(where.get("slug") or where.get("name") or where.get("id")).lower()) or "rack"
