"""`weft site impact`: what an outage would touch."""

from __future__ import annotations

import argparse

from weft.cli.common import Json, Subparsers, client_of, warn
from weft.cli.output import Listing, Record, shown

_FITS = {True: "yes", False: "no", None: "unknown"}


def add_site_commands(commands: Subparsers) -> None:
    """Register `weft site impact`."""
    parser = shown(
        commands,
        "impact",
        impact,
        "show which nodes, pods and promises an outage would touch, and whether the pods have room elsewhere",
    )
    parser.add_argument(
        "target",
        metavar="NODE|SWITCH|LINK|RACK",
        help="a link by one end: leaf01:7, leaf01/Ethernet7, gpu1/mlx5_0; node:, switch:, link: or rack: before a "
        "name of several",
    )
    parser.add_argument("--limit", metavar="N", type=int, help="pods at most (1 to 1000; default 100)")
    parser.add_argument(
        "--no-place", dest="place", action="store_false", help="don't look whether pods have room elsewhere"
    )


def impact(args: argparse.Namespace) -> Record:
    """`weft site impact`; reports on stderr what the answer doesn't have."""
    found = client_of(args).site.impact(args.target, args.limit, args.place)
    if found["more_pods"]:
        warn(f"weft: {found['more_pods']} more pods: --limit")
    for what in ("nodes", "uplinks", "others", "promises"):
        if found[f"more_{what}"]:
            warn(f"weft: {found[f'more_{what}']} more {what} aren't listed")
    names = ("target", "kind", "generation", "at")
    drains = ("on_drain",) if any(p.get("on_drain") for p in found["pods"]) else ()
    details = {
        "nodes": Listing(("node", "loss", "what"), [{**n, "what": _what(n)} for n in found["nodes"]]),
        "uplinks": Listing(("fabric", "switch", "level", "gbps", "gbps_left"), found["uplinks"]),
        "pods": Listing(
            (
                *("pod", "project_id", "state", "loss", "nodes", "spares", *drains),
                *(("elsewhere", "on", "moves", "why") if args.place else ()),
            ),
            [_row(p) for p in found["pods"]],
        ),
        "promises": Listing(("promise",), [{"promise": one} for one in found["promises"]]),
        "others": Listing(("interface",), [{"interface": one} for one in found["others"]]),
        "notes": Listing(("note",), [{"note": one} for one in found["notes"]]),
    }
    return Record({name: found[name] for name in names}, found, {k: v for k, v in details.items() if v.rows})


def _what(node: Json) -> str:
    """What a node loses, in one line."""
    parts: list[str] = []
    for one in node["fabrics"]:
        gone = [*one["lost"], *(f"{adapter} (cut off)" for adapter in one["cut"])]
        parts.append(f"{one['fabric']}: {len(gone)} of {one['adapters']} adapters ({', '.join(gone)})")
    parts += node["networks"]
    parts += [f"fewer cables: {one}" for one in node["thinner"]]
    return "; ".join(parts)


def _row(pod: Json) -> Json:
    found = pod["elsewhere"]
    if found is None:
        return pod
    more = {"on": [*found["spares"], *found["nodes"]], "moves": found["moves"], "why": found["why"]}
    return {**pod, "elsewhere": _FITS[found["fits"]], **more}
