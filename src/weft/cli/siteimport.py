"""`weft site import`: converts hardware lists and inventories into a site's files. Works without a server."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from weft.cli.common import Subparsers, leaf, say, write_json

if TYPE_CHECKING:
    from weft.app.siteimport import Imported
    from weft.model.errors import InputError
    from weft.model.hardware import HardwareRecord
    from weft.planning.hardware.discovered import Discovered

MOST_NAMES = 5
MOST_LEFT_OUT = 50
"""Most lines about what an import left out."""


def add_site_commands(subparsers: Subparsers) -> None:
    """Register `weft site import`."""
    command = leaf(subparsers, "import", _import, "create site files from hardware lists", api=False)
    command.add_argument(
        "lists",
        metavar="LIST",
        nargs="*",
        help="hardware list: CSV, YAML or JSON, also as NetBox, Nautobot and Ironic write it",
    )
    _add_sources(command)
    _add_target(command)


def _add_sources(command: argparse.ArgumentParser) -> None:
    """Add the options for sources of hardware besides lists."""
    command.add_argument(
        "--netbox", metavar="URL", help="also read the devices of this NetBox; its token is in NETBOX_TOKEN"
    )
    command.add_argument("--netbox-site", metavar="SLUG", help="only those of this site of NetBox")
    command.add_argument(
        "--status",
        metavar="NAME",
        action="append",
        default=[],
        help="also take devices and addresses of this status of NetBox, such as planned; repeatable. Default: devices "
        "that are active or staged, and addresses in use",
    )
    command.add_argument(
        "--fabric",
        metavar="[FABRIC=]TEXT",
        action="append",
        default=[],
        help="also read the output of ibnetdiscover on an InfiniBand fabric of the site file: its switches and cables, "
        "and the GUIDs of the lists' hosts; repeatable",
    )
    command.add_argument(
        "--inspection",
        metavar="JSON",
        nargs="+",
        default=[],
        help="Ironic's inspection data of some hosts (baremetal node inventory save), each file named after its host"
        " (gpu1.json): fills in what the lists leave out, and must not contradict them",
    )
    command.add_argument(
        "--redfish",
        action="store_true",
        help="also query the BMC of every host with a bmc_address, over HTTPS, as the user in REDFISH_USER and"
        " REDFISH_PASSWORD: like --inspection",
    )
    command.add_argument(
        "--redfish-ca",
        metavar="PEM",
        help="CA of the BMCs' certificates; default: the CAs that this host trusts",
    )


def _add_target(command: argparse.ArgumentParser) -> None:
    """The site that it becomes, and what lists' words mean there."""
    command.add_argument(
        "--site",
        metavar="FILE",
        required=True,
        help="site file with what the lists don't contain: clouds, networks, fabrics, IPU-PODs",
    )
    command.add_argument(
        "--column",
        metavar="THEIRS=OURS",
        action="append",
        default=[],
        help="map a column of the lists to one of weft's; THEIRS= ignores it; repeatable",
    )
    command.add_argument(
        "--kind",
        metavar="THEIRS=OURS",
        action="append",
        default=[],
        help="map a kind (NetBox: a role, by its slug) to one of weft's; THEIRS= ignores such hardware",
    )
    command.add_argument(
        "--output", metavar="DIR", help="write site.yaml and its tables there; default: only check"
    )


def _import(args: argparse.Namespace) -> int:
    from weft.app.siteimport import import_site, write_import

    left_out: list[str] = []
    records, errors, discovered = _records(args, left_out)
    for line in left_out[:MOST_LEFT_OUT] if not args.json else ():
        say(f"left out: {line}")
    if len(left_out) > MOST_LEFT_OUT and not args.json:
        say(f"left out: {len(left_out) - MOST_LEFT_OUT} more (--json names all)")
    imported = import_site(args.site, records, errors, discovered)
    written = write_import(imported, args.site, args.output) if args.output else []
    if args.json:
        write_json(
            {
                "site": imported.site.name,
                "rows": dict(imported.rows),
                "addresses_given": [{"interface": i, "address": a} for i, a in imported.given],
                "adapters_without_cable": imported.uncabled,
                "hosts_without_rack": list(imported.without_rack),
                "left_out": left_out,
                "files": written,
            }
        )
    else:
        _print_import(imported, written)
    return 0


def _records(
    args: argparse.Namespace, left_out: list[str]
) -> tuple[list[HardwareRecord], list[InputError], list[Discovered]]:
    from weft.app.hardwarelists import read_inspections, read_lists
    from weft.app.inventories import of_bmcs, of_netbox, redfish, with_kinds
    from weft.app.savedinventories import saved_inventories, without_unknown_bmcs
    from weft.app.siteimport import discovered_fabric, on_described_networks
    from weft.model.errors import InputError
    from weft.planning.hardware.complete import completed

    columns, kinds = _given("--column", args.column), _given("--kind", args.kind)
    if not args.lists and args.netbox is None and not args.fabric:
        raise InputError("LIST", None, "a list of hardware, or --netbox, or --fabric")
    if args.netbox_site is not None and args.netbox is None:
        raise InputError("--netbox-site", args.netbox_site, "only with --netbox")
    errors: list[InputError] = []
    saved = saved_inventories(args.lists, args.status, errors, left_out)
    if args.status and args.netbox is None and not saved.records:
        raise InputError("--status", args.status[0], "only with --netbox, or a listing of NetBox or Nautobot")
    records = read_lists(saved.lists, columns, errors, saved.texts)
    boxed = of_netbox(args.netbox, args.netbox_site, args.status, left_out) if args.netbox is not None else []
    if args.redfish_ca is not None and not args.redfish:
        raise InputError("--redfish-ca", args.redfish_ca, "only with --redfish")
    ask = redfish(args.redfish_ca) if args.redfish else None
    boxed += saved.records
    inventory = {record.place for record in boxed}
    records = with_kinds([*records, *boxed], kinds, errors)
    records = on_described_networks(args.site, records, inventory, left_out) if boxed else records
    discovered: list[Discovered] = []
    for text in args.fabric:
        fabric, equals, file = text.partition("=")
        given = (file, fabric) if equals else (text, None)
        one = discovered_fabric(args.site, *given, errors, left_out)
        if any(one.fabric == other.fabric for other in discovered):
            raise InputError("--fabric", one.fabric, "each fabric once")
        discovered.append(one)
        records = one.added(records)
    records = completed(records, read_inspections(args.inspection, errors), errors, left_out)
    if ask is not None:
        records = completed(records, of_bmcs(records, ask, errors), errors, left_out)
    records = without_unknown_bmcs(records, saved.machines, left_out)
    if saved.machines:  # what inspections and BMCs added to them
        records = on_described_networks(args.site, records, saved.machines, left_out)
    return records, errors, discovered


def _given(option: str, texts: list[str]) -> dict[str, str]:
    from weft.model.errors import InputError

    given: dict[str, str] = {}
    for text in texts:
        theirs, equals, ours = text.rpartition("=")
        if not equals or not theirs or theirs in given:
            raise InputError(option, text, "THEIRS=OURS, each of theirs once; THEIRS= leaves it out")
        given[theirs] = ours
    return given


def _print_import(imported: Imported, written: list[str]) -> None:
    counts = ", ".join(f"{table} {count}" for table, count in imported.rows.items())
    say(f"site {imported.site.name}: the lists are valid: {counts}")
    if imported.given:
        shown = ", ".join(f"{interface} {address}" for interface, address in imported.given[:MOST_NAMES])
        more = " …" if len(imported.given) > MOST_NAMES else ""
        say(f"note: addresses assigned to {len(imported.given)} interfaces without one: {shown}{more}")
    if imported.without_rack:
        shown = ", ".join(imported.without_rack[:MOST_NAMES]) + (
            " …" if imported.without_rack[MOST_NAMES:] else ""
        )
        say(f"note: {len(imported.without_rack)} hosts have no rack, and others have one: {shown}")
    if imported.uncabled:
        say(
            f"note: {imported.uncabled} adapters have no cable in the list: "
            "--fabric reads what ibnetdiscover shows"
        )
    for path in written:
        say(path)
