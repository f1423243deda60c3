"""Hardware inventories besides lists: NetBox, and hosts' BMCs. Their clients come with the extra `site`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from weft.model.errors import InputError, OutsideError
from weft.model.extras import installation
from weft.model.hardware import Cell, HardwareRecord
from weft.planning.hardware.kinds import IPU_MACHINE, KINDS, kind_of
from weft.planning.hardware.where import address_of


def of_netbox(
    url: str, site: str | None, statuses: Sequence[str], left_out: list[str]
) -> list[HardwareRecord]:
    """The devices in a NetBox, of one of its sites by slug. The token is in NETBOX_TOKEN.

    Args:
        statuses: of devices and addresses that are included besides active ones.
        left_out: what is left out is added to it, a sentence each.

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
        raise InputError(
            "--netbox", url, f"its client, which isn't installed: {installation('site')}"
        ) from None
    box = NetBox(url, token)
    records = box.records(site, statuses)
    left_out += box.left_out
    return records


MOST_KINDS = 10
"""In one sentence."""
AT_ONCE = 16
"""BMCs that are asked at the same time."""

Ask = Callable[[str], HardwareRecord]
"""Address of a BMC -> what it says; raises `OutsideError`."""


def redfish(ca: str | None) -> Ask:
    """Asks BMCs as the user in REDFISH_USER and REDFISH_PASSWORD. Raises `InputError`.

    Args:
        ca: PEM file of the authority that signed their certificates; None: the authorities of this host.
    """
    user, password = os.environ.get("REDFISH_USER"), os.environ.get("REDFISH_PASSWORD")
    if not user or not password:
        lacking = "REDFISH_PASSWORD" if user else "REDFISH_USER"
        raise InputError(lacking, None, "the user of the BMCs is in REDFISH_USER and REDFISH_PASSWORD")
    if ca is not None and not Path(ca).is_file():
        raise InputError("--redfish-ca", ca, "an existing PEM file")
    try:
        from weft.drivers.redfish import discover
    except ImportError:
        raise InputError(
            "--redfish", None, f"its client, which isn't installed: {installation('site')}"
        ) from None
    return lambda address: discover(address, user, password, True if ca is None else ca)


def of_bmcs(
    records: Sequence[HardwareRecord], ask: Ask, errors: list[InputError]
) -> dict[str, HardwareRecord]:
    """Name of a host -> what its BMC says, for every host of the lists with a `bmc_address`.

    Those that don't answer are added to `errors`, each with its row: unknown is not the same as fine.
    """
    hosts = {
        name: (record, str(address))
        for record in records
        if (name := record.text("name"))
        and KINDS.get(kind_of(record.text("kind") or "") or "", IPU_MACHINE).table == "nodes"
        and (address := address_of(record.text("bmc_address"))) is not None
    }

    if not hosts:
        errors.append(InputError("--redfish", None, "hosts with a bmc_address: the lists have none"))

    def one(name: str) -> HardwareRecord | OutsideError:
        try:
            return ask(hosts[name][1])
        except OutsideError as error:
            return error

    found: dict[str, HardwareRecord] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, said in zip(hosts, pool.map(one, hosts), strict=True):
            if isinstance(said, HardwareRecord):
                found[name] = said
                continue
            cell = hosts[name][0].cells["bmc_address"]
            allowed = f"the address of a BMC that answers ({said.answer}; {said.then})"
            errors.append(InputError(cell.column, cell.text, allowed, cell.place))
    return found


def with_kinds(
    records: Sequence[HardwareRecord], given: Mapping[str, str], errors: list[InputError]
) -> list[HardwareRecord]:
    """The records with weft's names of their kinds, without those of left-out kinds. Problems are added to `errors`.

    Args:
        given: kind or role as the sources call it -> what it is here; empty: hardware of it is left out.
    """
    written = {text for record in records if (text := record.text("kind"))}
    for theirs, ours in given.items():
        if ours and kind_of(ours) is None:
            errors.append(InputError("--kind", f"{theirs}={ours}", f"THEIRS= one of: {', '.join(KINDS)}"))
        elif written and theirs not in written:
            some = ", ".join(sorted(written)[:MOST_KINDS])
            errors.append(
                InputError("--kind", f"{theirs}={ours}", f"a kind that is in the lists, such as: {some}")
            )
    found: list[HardwareRecord] = []
    for record in records:
        kind = record.cells.get("kind")
        if kind is None or kind.text not in given:
            found.append(record)
        elif ours := given[kind.text]:
            found.append(
                HardwareRecord(record.place, {**record.cells, "kind": Cell(ours, kind.column, kind.place)})
            )
    return found
