"""Inventories that hardware is read from besides lists: NetBox. Their clients come with `weft[inventories]`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from weft.model.errors import InputError
from weft.model.hardware import Cell, Record


def of_netbox(url: str, site: str | None) -> list[Record]:
    """Every device of a NetBox, of a site of it by its slug. The token is in NETBOX_TOKEN.

    Raises `InputError`, `OutsideError`.
    """
    token = os.environ.get("NETBOX_TOKEN", "").strip()
    if not token:
        raise InputError(
            "NETBOX_TOKEN", None, "a token of NetBox that may view devices, interfaces and addresses"
        )
    try:
        from weft.drivers.netbox import NetBox
    except ImportError:
        raise InputError("--netbox", url, "only with weft[inventories], which isn't installed") from None
    return NetBox(url, token).records(site)


def with_kinds(records: Sequence[Record], given: Mapping[str, str]) -> list[Record]:
    """The records with their kinds called as here; those whose kind is left out are.

    Args:
        given: kind or role as the sources call it -> what it is here; empty: hardware of it is left out.
    """
    found: list[Record] = []
    for record in records:
        kind = record.cells.get("kind")
        if kind is None or kind.text not in given:
            found.append(record)
        elif ours := given[kind.text]:
            found.append(Record(record.place, {**record.cells, "kind": Cell(ours, kind.column, kind.place)}))
    return found
