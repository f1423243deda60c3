"""`weft node checks` and the tokens with which nodes report them."""

from __future__ import annotations

import argparse

from weft.cli.common import Json, Subparsers, clean, client_of, leaf, say, warn, write_done, write_json
from weft.cli.output import Listing, Record, listed, shown

_RANKS = {"failed": 0, "unknown": 1, "ok": 2, "skipped": 3}
_TOKEN = ("id", "node", "made_at", "made_by", "expires_at", "used_at")


def add_commands(commands: Subparsers) -> None:
    """Register them below `weft node`."""
    parser = listed(
        commands,
        "checks",
        checks,
        "show what a node's own checks (weft-check) reported last, failed ones first",
    )
    parser.add_argument("node", metavar="NODE")
    parser = leaf(
        commands, "forget-checks", forget, "forget what a node's checks reported, until it reports again"
    )
    parser.add_argument("node", metavar="NODE")
    parser = leaf(
        commands,
        "judge-check",
        judge,
        "say of a check that fails on many nodes whether it is real (orders get none of them) or a mistake",
    )
    parser.add_argument("check", metavar="CODE", help="such as GPU_COUNT")
    parser.add_argument("judged", choices=("real", "mistake", "open"), help="open: weft decides again")
    _add_tests(commands)
    parser = shown(
        commands,
        "check-token",
        make_token,
        "make a token with which a node reports its checks, and which does nothing else; it is shown once",
    )
    parser.add_argument("node", metavar="NODE")
    parser.add_argument(
        "--until", metavar="TIME", help="when it ends, such as 2027-01-31T18:00Z; default: in a year"
    )
    parser = listed(commands, "check-tokens", tokens, "list the tokens with which nodes report their checks")
    parser.add_argument("node", metavar="NODE", nargs="?")
    parser = leaf(commands, "revoke-check-token", revoke, "revoke such a token")
    parser.add_argument("token", metavar="ID", help="its id, not the token itself")


def _add_tests(commands: Subparsers) -> None:
    parser = leaf(
        commands,
        "report-test",
        report_test,
        "report what a test found on a held node; the hold ends once all of the site's tests have passed",
    )
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("test", metavar="TEST", help="one of acceptance.tests of the site")
    parser.add_argument("--status", choices=("passed", "failed", "unknown"), required=True)
    parser.add_argument(
        "--started", metavar="TIME", required=True, help="when the test began: 2027-01-31T18:00:00Z"
    )
    parser.add_argument("--reason", metavar="TEXT", help="what it found")
    parser.add_argument("--serial", metavar="TEXT", help="serial number of the machine that was tested")
    parser.add_argument("--product-uuid", metavar="UUID", help="DMI's UUID of the machine that was tested")


def checks(args: argparse.Namespace) -> Listing:
    """`weft node checks`; reports on stderr the state, and when it was reported."""
    found = client_of(args).checks.show(args.node)
    document = found["document"] or {}
    since = {(one["code"], one["subject"]): one for one in found["problems"]}
    rows = [
        {**one, "since": since.get((one["code"], one["subject"]), {}).get("since")}
        for one in document.get("results", ())
    ]
    there = {(row["code"], row["subject"]): row["status"] for row in rows}
    rows += [one for key, one in since.items() if there.get(key) != one["status"]]  # not judged since then
    rows.sort(key=lambda row: _RANKS[row["status"]])
    if found["at"] is None:
        warn(f"weft: node {clean(args.node)} has never reported its checks")
    else:
        host = clean(str((document.get("host") or {}).get("hostname") or "a host without a name"))
        warn(f"weft: {found['state']}; reported at {found['at']} by {host}")
    rows = [*map(_test_row, found["tests"]), *rows]
    columns = ("code", "subject", "status", "since", "reason")
    return Listing(columns, rows, found, more=("source", "found", "expected", "cost", "mend"))


def _test_row(test: Json) -> Json:
    """A test of a held node, as a row of checks."""
    more = {"since": test["at"], "reason": test["reason"], "source": test["by"]}
    return {"code": f"site:{test['test']}", "subject": "node", "status": test["status"], **more}


def report_test(args: argparse.Namespace) -> int:
    """`weft node report-test`; prints which tests are still missing."""
    names = ("status", "started", "reason", "serial", "product_uuid")
    found = client_of(args).checks.report_test(
        args.node, args.test, **{name: getattr(args, name) for name in names}
    )
    if args.json:
        write_json(found)
    elif found["accepted"]:
        say(f"node {found['node']} is accepted for {found['what']}: all of its tests passed")
    else:
        left = [f"{one['test']} {one['status']}" for one in found["tests"] if one["status"] != "passed"]
        say(f"node {found['node']} is still held for {found['what']}: {', '.join(left)}")
    return 0


def forget(args: argparse.Namespace) -> int:
    """`weft node forget-checks`."""
    found = client_of(args).checks.forget(args.node)
    return write_done(args, found, f"node {clean(args.node)}: forgot what its checks had reported")


def judge(args: argparse.Namespace) -> int:
    """`weft node judge-check`."""
    found = client_of(args).checks.judge(args.check, args.judged)
    if args.json:
        write_json(found)
    else:
        nodes = found["nodes"]
        more = f" and {len(nodes) - 5} more" if len(nodes) > 5 else ""
        say(f"check {found['check']} is {found['judged']} on {', '.join(map(clean, nodes[:5]))}{more}")
    return 0


def make_token(args: argparse.Namespace) -> Record:
    """`weft node check-token`."""
    client = client_of(args)
    found = client.checks.make_token(args.node, args.until)
    fields = {**found, "report": f"{client.url}/v1/nodes/{found['node']}/checks"}
    return Record(fields, found)


def tokens(args: argparse.Namespace) -> Listing:
    """`weft node check-tokens`."""
    return Listing(_TOKEN, client_of(args).checks.tokens(args.node))


def revoke(args: argparse.Namespace) -> int:
    """`weft node revoke-check-token`."""
    found = client_of(args).checks.revoke_token(args.token)
    return write_done(args, found, f"token {found['id']} of node {found['node']} is revoked")
