"""`weft node`: who has which node, and what keeps it from new orders."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from weft.cli import bandwidth, health, nodechecks
from weft.cli.common import (
    Json,
    Subparsers,
    add_revision,
    clean,
    client_of,
    group,
    leaf,
    say,
    table,
    warn,
    write_done,
    write_json,
)
from weft.cli.output import Listing, Record, listed, shown
from weft.model.errors import InputError

STATES = ("free", "busy", "quarantined", "held", "drained", "failed", "maintenance", "not-compute")


def add_commands(subparsers: Subparsers) -> None:
    """Register the commands about nodes."""
    commands = group(subparsers, "node", "list nodes; quarantine, hold, check and drain them")
    parser = listed(commands, "list", node_list, "list nodes and who holds them")
    parser.add_argument("--state", choices=STATES, help="only nodes in this state")
    parser = shown(commands, "show", node_show, "show a node, and what keeps it from new orders")
    parser.add_argument("node", metavar="NODE")
    parser = listed(
        commands,
        "history",
        history,
        "show what happened to a node: pods, replacements, failures, checks, holds, drains, quarantines; newest first",
    )
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("--before", metavar="N", type=int, help="only entries before it (next page)")
    parser.add_argument("--limit", metavar="N", type=int, help="maximum number (1 to 1000; default 1000)")
    parser.add_argument("--all", dest="every", action="store_true", help="all pages, as for an export")
    parser = leaf(commands, "quarantine", quarantine, "take a node out of service")
    parser.add_argument("node", metavar="NODE")
    parser.add_argument(
        "--reason", metavar="TEXT", required=True, help="why; shown wherever the node is refused"
    )
    parser = leaf(commands, "clear", clear, "take a node out of quarantine")
    parser.add_argument("node", metavar="NODE")
    add_revision(parser, "weft node show -c quarantine_revision")
    health.add_node_commands(commands)
    _add_holds(commands)
    _add_reports(commands)
    nodechecks.add_commands(commands)
    bandwidth.add_node_commands(commands)
    _add_drains(commands)


def _add_holds(commands: Subparsers) -> None:
    parser = leaf(
        commands, "hold", hold, "keep a node from new orders until it is accepted; a pod that has it keeps it"
    )
    parser.add_argument("node", metavar="NODE")
    parser.add_argument(
        "--for", dest="what", metavar="TEXT", required=True, help="what it must be accepted for: burn-in"
    )
    parser = leaf(commands, "accept", accept, "end a hold of a node")
    parser.add_argument("node", metavar="NODE")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--for", dest="what", metavar="TEXT", help="which hold; default: the only one")
    which.add_argument("--all", dest="every", action="store_true", help="all holds of the node")
    parser.add_argument(
        "--without-test", metavar="REASON", help="accept it without the tests that the site wants; why"
    )
    add_revision(parser, "weft node holds -c revision; of several the highest")
    listed(commands, "holds", holds, "list what nodes are held for, by whom and since when")


def _add_reports(commands: Subparsers) -> None:
    listed(commands, "reports", reports, "list nodes that projects have reported, and why")
    parser = leaf(
        commands,
        "clear-report",
        clear_report,
        "clear reports of a node: the projects' orders may get it again",
    )
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("--project", metavar="ID", help="only this project's report; default: all")


def _add_drains(commands: Subparsers) -> None:
    where = "a node, rack or leaf; node:, rack: or leaf: before a name of several"
    parser = leaf(
        commands,
        "drain",
        drain,
        "give no new orders to nodes; pods there stay, until the time of --by at least",
    )
    parser.add_argument("target", metavar="NODE|RACK|LEAF", help=where)
    parser.add_argument("--by", metavar="TIME", help="when they should be empty, such as 2027-01-31T18:00Z")
    parser.add_argument(
        "--wait",
        action="store_true",
        help="leave pods there alone at that time (default: release pods with on_drain: release, replace the nodes in "
        "those with on_failure: replace)",
    )
    parser.add_argument("--reason", metavar="TEXT", help="why, for operators")
    parser.add_argument("--public", metavar="TEXT", help="what the projects with pods there read")
    parser.add_argument(
        "--break-promises", action="store_true", help="drain although reservations or bookings can't be kept"
    )
    parser.add_argument(
        "--plan", action="store_true", help="only say which nodes, pods and promises it concerns"
    )
    parser = leaf(commands, "undrain", undrain, "give new orders to drained nodes again")
    parser.add_argument("target", metavar="NODE|RACK|LEAF", help=where)
    add_revision(parser, "weft node drains -c revision; of several the highest")
    listed(
        commands, "drains", drains, "list drained nodes, also those that pods have, by when, by whom and why"
    )


def node_list(args: argparse.Namespace) -> Listing:
    """`weft node list`; `--state` filters in the client."""
    nodes = [n for n in client_of(args).nodes.list() if args.state in (None, n["state"])]
    columns = ("name", "rack", "leaf", "state", "pod", "project_id", "since", "checks", "reason")
    return Listing(columns, nodes)


def node_show(args: argparse.Namespace) -> Record:
    """`weft node show`."""
    node = client_of(args).nodes.show(args.node)
    lists = ("holds", "drain", "reports", "failed_checks")
    fields = {name: value for name, value in node.items() if name not in lists}
    drained = node.get("drain") or {}
    fields |= {f"drain_{name}": drained.get(name) for name in ("by", "wait", "drained_by", "public")}
    details = {"holds": Listing(("what", "since", "held_by", "why"), node.get("holds", ()))}
    if given := node.get("reports", ()):
        details["reports"] = Listing(("project_id", "pod", "at", "reported_by", "reason"), given)
    if failed := node.get("failed_checks", ()):
        details["failed_checks"] = Listing(("code", "subject", "since"), failed)
    return Record(fields, node, details)


def history(args: argparse.Namespace) -> Listing:
    """`weft node history`; reports on stderr what the list doesn't have."""
    from weft.client.asking import Pages

    client = client_of(args)
    found = client.nodes.history(args.node, args.before, args.limit)
    entries, pages = list(found["entries"]), Pages()
    while args.every and (before := pages.after(found)) is not None:
        found = client.nodes.history(args.node, before, args.limit)
        entries += found["entries"]
    if found["next"] is not None:
        warn(f"weft: older entries: --before {found['next']}, or --all")
    if not found["in_site"]:
        warn(f"weft: the active site has no node {clean(args.node)}")
    columns = ("sequence", "at", "type", "pod", "project_id", "by", "message")
    return Listing(columns, entries, {**found, "entries": entries})


def quarantine(args: argparse.Namespace) -> int:
    """`weft node quarantine`."""
    node = client_of(args).nodes.quarantine(args.node, args.reason)
    return write_done(args, node, f"node {node['name']} is {node['state']}: {node['reason']}")


def clear(args: argparse.Namespace) -> int:
    """`weft node clear`."""
    node = client_of(args).nodes.clear(args.node, args.revision)
    return write_done(args, node, f"node {node['name']} is {node['state']}")


def hold(args: argparse.Namespace) -> int:
    """`weft node hold`."""
    if not args.what.strip():
        raise InputError("--for", args.what, "what the node must be accepted for")
    node = client_of(args).nodes.hold(args.node, args.what)
    if args.json:
        write_json(node)
        return 0
    say(f"node {node['name']} is held for {'; '.join(one['what'] for one in node['holds'])}")
    if node["pod"]:
        say(f"pod {node['pod']} has it: the hold counts once the pod is released")
    return 0


def accept(args: argparse.Namespace) -> int:
    """`weft node accept`."""
    found = client_of(args).nodes.accept(args.node, args.what, args.every, args.without_test, args.revision)
    if args.json:
        write_json(found)
        return 0
    say(f"node {found['node']} is accepted for {'; '.join(one['what'] for one in found['accepted'])}")
    if found["missing"]:
        say(f"it is still held for {'; '.join(one['what'] for one in found['missing'])}")
    return 0


def holds(args: argparse.Namespace) -> Listing:
    """`weft node holds`."""
    columns = ("node", "what", "since", "held_by", "why")
    return Listing(columns, client_of(args).nodes.holds(), more=("revision",))


def reports(args: argparse.Namespace) -> Listing:
    """`weft node reports`."""
    return Listing(
        ("node", "project_id", "pod", "at", "reported_by", "reason"), client_of(args).nodes.reports()
    )


def clear_report(args: argparse.Namespace) -> int:
    """`weft node clear-report`."""
    found = client_of(args).nodes.clear_report(args.node, args.project)
    reports = f"{len(found)} {'report' if len(found) == 1 else 'reports'}"
    return write_done(args, found, f"node {args.node}: cleared {reports}")


def drain(args: argparse.Namespace) -> int:
    """`weft node drain`."""
    found = client_of(args).nodes.drain(
        args.target,
        by=args.by,
        reason=args.reason,
        public=args.public,
        break_promises=args.break_promises or None,
        plan=args.plan or None,
        wait=args.wait or None,
    )
    return _drained(args, found, "would be drained" if args.plan else "drained")


def drains(args: argparse.Namespace) -> Listing:
    """`weft node drains`."""
    columns = ("node", "by", "wait", "since", "drained_by", "reason", "public")
    return Listing(columns, client_of(args).nodes.drains(), more=("revision",))


def undrain(args: argparse.Namespace) -> int:
    """`weft node undrain`."""
    return _drained(args, client_of(args).nodes.undrain(args.target, args.revision), "no longer drained")


def _drained(args: argparse.Namespace, found: Json, how: str) -> int:
    if args.json:
        write_json(found)
        return 0
    say(f"{', '.join(found['nodes'])}: {how}")
    if found["pods"]:
        columns = (
            "pod",
            "project_id",
            "nodes",
            *(("then",) if any(p.get("then") for p in found["pods"]) else ()),
        )
        say("\n".join(table(columns, found["pods"])))
        if how != "no longer drained":
            say(_released(found["pods"], "then" in columns))
    for promise in found["broken"]:
        say(f"{'would be broken' if how == 'would be drained' else 'broken'}: {promise}")
    return 0


def _released(pods: Sequence[Json], then: bool) -> str:
    """Sentence with the pods that are released at the drain's time. Args: then: whether the drain has a time."""
    names = [str(one["pod"]) for one in pods if one.get("code") == "DRAIN_RELEASES"]
    if not names:
        return f"{'' if then else 'these pods keep their nodes: '}nothing is released by itself"
    number = "1 pod is" if len(names) == 1 else f"{len(names)} pods are"
    more = f" and {len(names) - 20} others" if len(names) > 20 else ""
    return f"{number} released at that time, by on_drain: release: {', '.join(names[:20])}{more}"
