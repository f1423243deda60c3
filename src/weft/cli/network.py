"""`weft network`: networks that tenants created in Neutron, their ports in partitions, and their end."""

from __future__ import annotations

import argparse
from pathlib import Path

from weft.cli.common import Subparsers, client_of, exit_code, group, leaf, say, table, write_done, write_json
from weft.cli.output import Listing, Record, listed, shown
from weft.cli.podrecord import CODED


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft network`."""
    commands = group(subparsers, "network", "show networks that tenants created on a fabric")
    parser = listed(commands, "list", list_, "list networks with the number of ports in their partitions")
    parser.add_argument("--all-projects", action="store_true", help="of all projects (operators)")
    parser = shown(
        commands, "show", show, "show a network and its ports; exit 1 unless each bound port is in"
    )
    parser.add_argument("network", metavar="NETWORK", help="id or name in Neutron")
    parser = listed(commands, "events", events, "show what happened to a network and its ports")
    parser.add_argument("network", metavar="NETWORK", help="id or name in Neutron")
    parser.add_argument(
        "--after", metavar="N", type=int, default=0, help="only events after this sequence number"
    )
    parser = leaf(commands, "abandon", abandon, "end a release that can't finish (operators)")
    parser.add_argument("network", metavar="NETWORK", help="id or name in Neutron")
    parser.add_argument(
        "--reason",
        metavar="TEXT",
        required=True,
        help="why; appears in the receipt",
    )
    parser = shown(commands, "receipt", receipt, "show the signed receipt of a released network (operators)")
    parser.add_argument("network", metavar="NETWORK", help="id or name in Neutron")
    parser = leaf(
        commands,
        "journal",
        journal,
        "find notices that Neutron's driver mlnx_sdn_assist will never send; exit 1 if there are any",
        api=False,
    )
    parser.add_argument(
        "--neutron-config",
        metavar="FILE",
        type=Path,
        default=Path("/etc/neutron/neutron.conf"),
        help="file with [database] connection (default %(default)s)",
    )
    parser.add_argument(
        "--older", metavar="SECONDS", type=int, default=100, help="stuck for longer than this (default 100)"
    )
    parser.add_argument("--repair", action="store_true", help="have the driver send them again")
    parser.add_argument(
        "--prune",
        metavar="SECONDS",
        type=int,
        help="also remove notices completed longer ago than this (600 or more); the driver never does",
    )


def list_(args: argparse.Namespace) -> Listing:
    """`weft network list`."""
    project = ("project_id",) if args.all_projects else ()
    columns = ("id", "name", *project, "fabric", "segment", "state", "ports_in", "waiting", "out", "reason")
    return Listing(columns, client_of(args).networks.list(args.all_projects), more=CODED)


def show(args: argparse.Namespace) -> Record:
    """`weft network show`; code 1 unless each bound port is in the network's partition."""
    network = client_of(args).networks.show(args.network)
    names = ("id", "name", "project_id", "cloud", "fabric", "segment", "state", "reason", "read_at")
    fields = {**{name: network[name] for name in names}, "ports_with_adapters": len(network["ports"])}
    more = [c for c in ("host", "member") if any(p.get(c) for p in network["ports"])]
    columns = ("id", "name", "vnic_type", *more, "state", "since", "why")
    bad = network["state"] != "READY" or network["waiting"] > 0
    return Record(fields, network, {"ports": Listing(columns, network["ports"], more=CODED)}, int(bad))


def events(args: argparse.Namespace) -> Listing:
    """`weft network events`."""
    found = client_of(args).networks.events(args.network, args.after)
    return Listing(("sequence", "at", "type", "message"), found, more=CODED)


def abandon(args: argparse.Namespace) -> int:
    """`weft network abandon`."""
    network = client_of(args).networks.abandon(args.network, args.reason)
    return write_done(
        args,
        network,
        f"network {network['name']} is being abandoned ({network['id']}, {network['state']}); "
        f"what was read is then in its receipt: weft network receipt {network['id']}",
    )


def receipt(args: argparse.Namespace) -> Record:
    """`weft network receipt`."""
    from weft.cli.receipt import record

    return record(client_of(args).networks.receipt(args.network))


def journal(args: argparse.Namespace) -> int:
    """`weft network journal`: rows stuck in Neutron's database; code 1 if there are any, without `--repair`."""
    from weft.app.neutronjournal import stuck_rows

    found = stuck_rows(args.neutron_config, args.older, args.repair, args.prune)
    bad = exit_code(args, found.rows and found.freed is None)
    if args.json:
        write_json({"rows": found.rows, "freed": found.freed, "pruned": found.pruned})
        return bad
    if found.pruned is not None:
        say(f"{found.pruned} notices that were completed more than {args.prune} s ago are removed")
    if not found.rows:
        say(f"no notice is stuck for more than {args.older} s")
        return 0
    say("\n".join(table(("operation", "object_type", "object_id", "seconds", "id"), found.rows)))
    if found.freed is None:
        say("\nthe driver never sends these: --repair has it send them again")
    else:
        say(f"\nthe driver sends {found.freed} of {len(found.rows)} again")
    return bad
