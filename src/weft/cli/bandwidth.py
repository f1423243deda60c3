"""`weft pod …bandwidth…`, `weft node …bandwidth…`: test the bandwidth between nodes, and show certificates of it."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from weft.cli.common import (
    Json,
    Subparsers,
    client_of,
    exit_code,
    fields,
    leaf,
    read_stdin,
    say,
    table,
    warn,
    write_json,
)
from weft.cli.output import Listing, Record, shown
from weft.model.errors import InputError, PermanentError, WeftError

_FIELDS = ("result", "measured_in", "reported_by", "reported_at", "memory", "measured", "slow", "not_run")
MOST_ROWS = 50
"""Most rows of each list in a text; `--json` has all."""


def add_pod_commands(commands: Subparsers) -> None:
    """Register them below `weft pod`."""
    parser = shown(
        commands,
        "bandwidth",
        pod_bandwidth,
        "show the certificate of the last bandwidth test of a pod's servers",
    )
    _name(parser)
    parser = leaf(
        commands,
        "bandwidth-plan",
        pod_plan,
        "write the plan of a bandwidth test of a pod's servers, for weft-check bandwidth",
    )
    _as_json(parser)
    _name(parser)
    _user(parser)
    parser = leaf(
        commands,
        "report-bandwidth",
        pod_report,
        "report what weft-check bandwidth measured in a pod, and get a signed certificate",
    )
    _name(parser)
    _file(parser)
    parser = leaf(
        commands,
        "verify-bandwidth",
        pod_verify,
        "test the bandwidth between a pod's servers over SSH, report it, and get a signed certificate",
    )
    _name(parser)
    _user(parser)
    _running(parser)


def add_node_commands(commands: Subparsers) -> None:
    """Register them below `weft node`."""
    parser = shown(
        commands, "bandwidth", node_bandwidth, "show the certificate of the last bandwidth test of a node"
    )
    parser.add_argument("node", metavar="NODE")
    parser = leaf(
        commands,
        "bandwidth-plan",
        node_plan,
        "write the plan of a bandwidth test of nodes, for weft-check bandwidth",
    )
    _as_json(parser)
    _nodes(parser)
    _user(parser)
    parser = leaf(
        commands,
        "report-bandwidth",
        node_report,
        "report what weft-check bandwidth measured on nodes, and get a signed certificate",
    )
    _file(parser)
    parser = leaf(
        commands,
        "verify-bandwidth",
        node_verify,
        "test the bandwidth between nodes over SSH, report it, and get a signed certificate",
    )
    _nodes(parser)
    _user(parser)
    _running(parser)


def _as_json(parser: argparse.ArgumentParser) -> None:
    """Accept `--json` and `-f json`, which scripts give to all commands; a plan is always JSON."""
    parser.add_argument("-f", "--format", choices=("json",), default="json", help="output format")


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name or id of the pod")


def _nodes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "nodes",
        metavar="NODE",
        nargs="+",
        help="at least two nodes; known good ones help to find the bad one",
    )


def _user(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-l", "--user", metavar="USER", help="for SSH; default: the image's, or as ssh is configured"
    )


def _file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what weft-check bandwidth wrote; - for stdin")


def _running(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ssh", metavar="COMMAND", default="ssh", help="ssh with options, such as 'ssh -J jump -i key'"
    )
    parser.add_argument(
        "--within", metavar="SECONDS", type=int, default=7200, help="no pair begins later (7200)"
    )
    parser.add_argument(
        "--nccl", metavar="FILE", type=Path, help="output of nccl-tests, to be certified with it"
    )


def pod_bandwidth(args: argparse.Namespace) -> Record:
    """`weft pod bandwidth`."""
    return _record(client_of(args).bandwidth.show_pod(args.name))


def node_bandwidth(args: argparse.Namespace) -> Record:
    """`weft node bandwidth`."""
    return _record(client_of(args).bandwidth.show_node(args.node))


def pod_plan(args: argparse.Namespace) -> int:
    """`weft pod bandwidth-plan`."""
    write_json(_plan_of_pod(args))
    return 0


def node_plan(args: argparse.Namespace) -> int:
    """`weft node bandwidth-plan`."""
    write_json(_plan_of_nodes(args))
    return 0


def pod_report(args: argparse.Namespace) -> int:
    """`weft pod report-bandwidth`; 0 if it passed."""
    return _certified(args, client_of(args).bandwidth.report_pod(args.name, _document(args.file)))


def node_report(args: argparse.Namespace) -> int:
    """`weft node report-bandwidth`; 0 if it passed."""
    return _certified(args, client_of(args).bandwidth.report_nodes(_document(args.file)))


def pod_verify(args: argparse.Namespace) -> int:
    """`weft pod verify-bandwidth`; 0 if it passed."""
    client = client_of(args)
    return _verify(args, _plan_of_pod(args), lambda found: client.bandwidth.report_pod(args.name, found))


def node_verify(args: argparse.Namespace) -> int:
    """`weft node verify-bandwidth`; 0 if it passed."""
    return _verify(args, _plan_of_nodes(args), client_of(args).bandwidth.report_nodes)


def _plan_of_pod(args: argparse.Namespace) -> Json:
    """weft's plan, with addresses and users for SSH. A server without a floating IP is reached at its inner address."""
    from weft.generate.login import login

    client = client_of(args)
    plan, pod = client.bandwidth.pod_plan(args.name), client.pods.show(args.name)
    servers = {server["name"]: server for server in pod.get("servers") or ()}
    user = args.user or login(pod).user
    for node in plan["nodes"]:
        server = servers.get(node["name"]) or {}
        inner = server.get("management_address") or None
        node |= {"address": server.get("floating_ip") or inner, "inside": inner, "user": user or None}
    return plan


def _plan_of_nodes(args: argparse.Namespace) -> Json:
    plan = client_of(args).bandwidth.nodes_plan(args.nodes)
    for node in plan["nodes"]:
        node |= {"user": args.user}
    return plan


def _verify(args: argparse.Namespace, plan: Json, report: Callable[[Json], Json]) -> int:
    """Run weft-check, which shows its progress on stderr, and report what it measured to weft."""
    with tempfile.TemporaryDirectory(prefix="weft-bandwidth-") as folder:
        source, result = Path(folder, "plan.json"), Path(folder, "measured.json")
        source.write_text(json.dumps(plan), encoding="utf-8")
        words = [sys.executable, "-m", "weftcheck", "bandwidth", str(source), "--output", str(result)]
        words += ["--ssh", args.ssh, "--within", str(args.within)]
        words += ["--nccl", str(args.nccl)] if args.nccl is not None else []
        ended = _ended(words)
        if ended not in (0, 1, 3) or not result.is_file():
            why = f"weft-check bandwidth ended with {ended}"
            raise PermanentError("test the bandwidth", "this host", why, "see above; nothing is reported")
        try:
            signed = report(_document(str(result)))
        except WeftError:
            descriptor, kept = tempfile.mkstemp(prefix="weft-bandwidth-", suffix=".json")
            os.close(descriptor)
            Path(kept).write_bytes(result.read_bytes())
            warn(f"weft: what was measured is kept in {kept}, for report-bandwidth")
            raise
    return _certified(args, signed)


def _ended(words: Sequence[str]) -> int:
    """Run a program to its end; returns its exit code. The first ^C reaches it, too: it finishes the
    measurements in progress, and these are reported. The second kills it.
    """
    with subprocess.Popen(words, stdin=subprocess.DEVNULL) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            warn("weft: measurements in progress end first; ^C again stops at once")
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.kill()
            raise


def _document(file: str) -> Json:
    try:
        found = json.loads(read_stdin() if file == "-" else Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("FILE", file, f"a file that can be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError("FILE", file, "a JSON object that weft-check bandwidth wrote")
    return found


def _certified(args: argparse.Namespace, signed: Json) -> int:
    record = _record(signed)
    code = exit_code(args, signed["certificate"]["result"] != "passed")
    if args.json:
        write_json(signed)
        return code
    say("\n".join(fields(record.fields.items())))
    for name, rows in record.details.items():
        some = list(rows.rows)
        say(f"\n{name}:")
        say("\n".join(table(rows.columns, some[:MOST_ROWS], "  ")))
        if len(some) > MOST_ROWS:
            say(f"  and {len(some) - MOST_ROWS} more (--json)")
    return code


def _record(signed: Json) -> Record:
    """A certificate: its result, causes, pairs without one, and nodes that didn't pass."""
    found = signed["certificate"]
    names = [node["name"] for node in found["nodes"]]
    shown_ = {name: found[name] for name in _FIELDS}
    shown_["pod"] = found["pod"]
    shown_["not_run"] = ", ".join(f"{number} {reason}" for reason, number in found["not_run"].items())
    shown_["floor"] = f"{found['floor_permille'] / 10:g} % of the nominal rate"
    if found["nccl_mbps"] is not None:
        shown_["nccl_gbps"] = found["nccl_mbps"] / 1000
        shown_["nccl_wrong"] = "not checked" if found["nccl_wrong"] is None else found["nccl_wrong"]
    rates = {tuple(pair[:3]): pair[3] for pair in found["pairs"]}
    unexplained = [
        {"from": names[a], "to": names[b], "rail": rail, "gbps": rates[a, b, rail] / 1000}
        for a, b, rail in found["unexplained"]
    ]
    causes = [
        {"part": "", **one, "gbps": one["mbps"] / 1000, "or": "; ".join(one["others"])}
        for one in found["causes"]
    ]
    errors = [
        {"cause": one["name"], "errors": said} for one in found["causes"] for said in one["port_errors"]
    ]
    near = [
        {**one, "gbps": one["mbps"] / 1000, "floor": one["floor_mbps"] / 1000} for one in found["near_floor"]
    ]
    slower = [
        {**one, "before": one["before_mbps"] / 1000, "now": one["now_mbps"] / 1000} for one in found["slower"]
    ]
    leaves = [one for one in found["together"] if one["slow"] is not False]
    details = {
        "causes": Listing(("kind", "name", "rail", "slow", "measured", "gbps", "part", "or"), causes),
        "port_errors": Listing(("cause", "errors"), errors),
        "slow_without_a_cause": Listing(("from", "to", "rail", "gbps"), unexplained),
        "not_enough_measured": Listing(("what",), [{"what": one} for one in found["unsure"]]),
        "without_a_partner": Listing(("what",), [{"what": one} for one in found.get("without_partner", ())]),
        "near_the_floor": Listing(("node", "rail", "gbps", "floor"), near),
        "slower_when_all_send": Listing(
            ("leaf", "alone_mbps", "together_mbps", "pairs", "unmeasured"), leaves
        ),
        "slower_than_before": Listing(("node", "rail", "before", "now"), slower),
        "nodes_not_passed": Listing(
            ("name", "result"), [node for node in found["nodes"] if node["result"] != "passed"]
        ),
    }
    return Record(shown_, signed, {name: rows for name, rows in details.items() if rows.rows})
