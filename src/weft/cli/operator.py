"""`weft fabric`, `weft audit`, `weft audit-log`: the operator's view."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from weft.cli.common import (
    Subparsers,
    client_of,
    exit_code,
    fields,
    group,
    leaf,
    say,
    table,
    warn,
    write_json,
)
from weft.cli.output import Listing, Record, listed, shown
from weft.model.errors import InputError


def add_commands(subparsers: Subparsers) -> None:
    """Register the operators' commands: fabrics and audits."""
    _add_fabric(subparsers)
    _add_audit(subparsers)


def _add_fabric(subparsers: Subparsers) -> None:
    commands = group(subparsers, "fabric", "show fabrics")
    shown(
        commands,
        "status",
        fabric_status,
        "show each fabric's managers and problems; exit 1 if there are any",
    )
    parser = leaf(
        commands,
        "compare",
        compare,
        "compare the site's cabling with the discovered one; exit 1 if it differs",
    )
    parser.add_argument(
        "fabric", metavar="FABRIC", nargs="?", help="name of the fabric; default: the only one"
    )
    parser.add_argument(
        "--adopt",
        action="store_true",
        help="adopt the discovered cabling as a new generation of the site",
    )


def _add_audit(subparsers: Subparsers) -> None:
    parser = leaf(
        subparsers,
        "audit",
        audit,
        "compare cloud and fabric with what pods own; exit 1 on findings",
    )
    parser.add_argument("--repair", action="store_true", help="repair what is weft's")
    parser.add_argument(
        "--unknown-pods",
        metavar="ID[,ID…]",
        help="with --repair: also remove resources marked with these pods, unknown to the database (all: with "
        "any); not after a restore of an older dump: the pods may be live",
    )
    parser.add_argument(
        "--accept",
        action="store_true",
        help="after the database was restored or recreated: allow placement and changes again, whatever is found",
    )
    parser = listed(
        subparsers,
        "audit-log",
        audit_log,
        "show who did what, when, from where, with what result; newest first",
    )
    parser.add_argument("--since", metavar="TIME", help="only since this time, such as 2027-01-31T18:00Z")
    parser.add_argument("--user", metavar="USER", help="only by this user, by id or name")
    parser.add_argument("--project", metavar="ID", help="only in this project, by id")
    parser.add_argument("--action", metavar="ACTION", help="only this action, such as 'pod create'")
    parser.add_argument("--after", metavar="N", type=int, help="only entries after this sequence number")
    parser.add_argument("--before", metavar="N", type=int, help="only entries before it (next page)")
    parser.add_argument("--limit", metavar="N", type=int, help="maximum number (1 to 1000; default 1000)")


def fabric_status(args: argparse.Namespace) -> Record:
    """`weft fabric status`; code 1 if a fabric has a problem, or no master."""
    fabrics = client_of(args).site.show()["fabrics"]
    problems = [
        p for f in fabrics for p in (*f["problems"], *(q for m in f["managers"] for q in m["problems"]))
    ]
    masterless = any(all(m["state"] != "master" for m in f["managers"]) for f in fabrics)
    rows = [
        {"fabric": f["fabric"], **m, "digest": m["configuration_digest"][:12]}
        for f in fabrics
        for m in f["managers"]
    ]
    errors = [
        {
            "port": f"{p['node']}[{p['port']}]",
            "to": p["peer"],
            "errors": _counts(p["counters"]),
            "last_hour": _counts(p["grown"]),
        }
        for f in fabrics
        for p in f.get("port_errors") or ()  # older servers don't report them
    ]
    details = {
        "managers": Listing(("fabric", "name", "state", "digest"), rows),
        "port_errors": Listing(("port", "to", "errors", "last_hour"), errors),
        "problems": Listing(("problem",), [{"problem": said} for said in problems]),
    }
    fields = {"fabrics": [f["fabric"] for f in fabrics], "healthy": not problems and not masterless}
    return Record(fields, fabrics, details, int(bool(problems or masterless)))


def _counts(counters: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in counters.items())


def compare(args: argparse.Namespace) -> int:
    """`weft fabric compare`: code 1 if cables differ, or the discovery is partial."""
    client = client_of(args)
    found = client.fabrics.compare(args.fabric)
    differences = found["differences"]
    if differences and args.adopt:
        site = client.fabrics.adopt_cabling(args.fabric)
        found = client.fabrics.compare(args.fabric)
        if not args.json:
            say(f"cabling adopted: site {site['name']} is now at generation {site['generation']}")
        differences = found["differences"]
    partial = found.get("partial", ())
    bad = exit_code(args, differences or partial)
    if args.json:
        write_json(found)
        return bad
    seen = f"{found['discovered_nodes']} nodes and {found['discovered_cables']} cables discovered"
    say(
        f"fabric {found['fabric']}: {seen}, {len(differences)} differences from generation {found['generation']}"
    )
    if differences:
        say("\n".join(table(("kind", "subject", "described", "observed", "what"), differences)))
    for why in partial:
        say(f"partial: {why}; nodes and cables that aren't shown may be there")
    return bad


def audit(args: argparse.Namespace) -> int:
    """`weft audit`: code 1 if findings remain."""
    unknown = [i.strip() for i in args.unknown_pods.split(",") if i.strip()] if args.unknown_pods else []
    if unknown and not args.repair:
        raise InputError("--unknown-pods", args.unknown_pods, "requires --repair")
    if args.accept and args.repair:
        raise InputError("--accept", True, "can't be combined with --repair: repair first, then accept")
    report = (
        client_of(args).audits.accept_database()
        if args.accept
        else client_of(args).audits.run(args.repair, unknown)
    )
    findings = report["findings"]
    left = [f for f in findings if not f.get("repaired")]
    bad = exit_code(args, left)
    if args.json:
        write_json(report)
        return bad
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(report["checked"].items()))
    say("\n".join(fields([("site", report["site"]), ("at", report["at"]), ("looked at", counted)])))
    for said in report["limits"]:
        say(f"limit: {said}")
    if args.accept:
        say("accepted: orders are placed again")
    if not findings:
        say("clean: nothing is missing, different, foreign, unknown or left over")
        return 0
    columns = ("category", "kind", "where", "subject", "pod", "what", "repaired" if args.repair else "repair")
    say("\n".join(["", *table(columns, findings)]))
    if left:
        how = "remain after the repair" if args.repair else "`weft audit --repair` repairs what is weft's"
        warn(f"weft: {len(left)} of {len(findings)} findings: {how}")
    return bad


def audit_log(args: argparse.Namespace) -> Listing:
    """`weft audit-log`."""
    names = ("since", "user", "project", "action", "after", "before", "limit")
    entries = client_of(args).audits.log(**{name: getattr(args, name) for name in names})
    columns = (
        *("sequence", "last_at", "times", "user", "user_id", "project_id", "action", "subject", "address"),
        *("outcome", "request_id"),
    )
    return Listing(columns, entries)
