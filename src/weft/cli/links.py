"""`weft link show`, `weft pod links`, `weft site who-disturbs` and `load`: who is on which link of a fabric."""

from __future__ import annotations

import argparse
from pathlib import Path

from weft.cli.common import Json, Subparsers, client_of, group, warn
from weft.cli.output import Listing, Record, listed, shown
from weft.model.errors import InputError

PATTERNS = ("rail", "all", "ring")
_LINK = ("from", "to", "gbps", "sent_gbps", "waiting", "congested")
_KNOWN = {True: "yes", False: "no", None: "unknown"}


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft link`."""
    commands = group(subparsers, "link", "show which pods use a link of a fabric (operators)")
    parser = shown(
        commands, "show", show, "show which pods are on a link, and what it carries now (operators)"
    )
    parser.add_argument("link", metavar="LINK", help="by one end: leaf01:7 or gpu1/mlx5_0")
    _pattern(parser)


def add_pod_commands(commands: Subparsers) -> None:
    """Register `weft pod links`."""
    parser = shown(
        commands,
        "links",
        pod_links,
        "show which links of the fabric a pod uses, and how many others share them",
    )
    parser.add_argument("name", metavar="NAME", help="name or id of the pod")
    parser.add_argument("--svg", metavar="FILE", help="also write a picture there")
    _pattern(parser)


def add_site_commands(commands: Subparsers) -> None:
    """Register `weft site who-disturbs` and `weft site load`."""
    parser = shown(
        commands,
        "who-disturbs",
        who_disturbs,
        "show which pods share links with a pod, and which congest them",
    )
    parser.add_argument("pod", metavar="POD", help="id or name of the pod")
    _pattern(parser)

    listed(commands, "load", load, "show how much of its links to the fabric each node uses now")


def _pattern(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pattern",
        choices=PATTERNS,
        default=PATTERNS[0],
        help="adapters that send to each other: on the same rail, all, or a ring on each rail (default rail)",
    )


def show(args: argparse.Namespace) -> Record:
    """`weft link show`."""
    found = client_of(args).fabrics.show_link(args.link, args.pattern)
    pods = [{"direction": _direction(link), **pod} for link in found["links"] for pod in link["pods"]]
    _say_more(found["links"], "more_pods", "pods")
    details = {
        "directions": _directions(found["links"]),
        "pods": Listing(("direction", "kind", "name", "project_id", "paths", "sent_gbps", "id"), pods),
        "notes": _notes(found["reading"]),
    }
    return _record({"target": found["target"]}, found["reading"], found, details)


def pod_links(args: argparse.Namespace) -> Record:
    """`weft pod links`."""
    found = client_of(args).fabrics.pod_links(args.name, args.pattern)
    if found["more_links"]:
        warn(f"weft: {found['more_links']} more links aren't listed")
    if args.svg:
        _write_picture(args.svg, found)
    rows = [{**_ends(link), **link, "congested": _KNOWN[link["congested"]]} for link in found["links"]]
    operator = found["reading"] is not None
    columns = ("from", "to", "paths", "shared_with", *(_LINK[2:] if operator else ()))
    names = (
        "pod",
        "id",
        "fabric",
        "pattern",
        "adapters",
        "unseen",
        "lost",
        "shared_with",
        "routes_age",
        "exact",
        "equal_paths",
    )
    details = {"links": Listing(columns, rows)}
    if operator:
        details["notes"] = _notes(found["reading"])
    return Record({n: found[n] for n in names}, found, {k: v for k, v in details.items() if v.rows})


def _write_picture(path: str, found: Json) -> None:
    """Write a picture of a pod's links. Raises `InputError` if it can't be written."""
    from weft.generate.linkpicture import link_picture
    from weft.model.views import PodLinks

    try:
        Path(path).write_text(link_picture(PodLinks.model_validate(found)), encoding="utf-8")
    except OSError as error:
        raise InputError("--svg", path, f"a file that can be written: {error.strerror}") from None


def who_disturbs(args: argparse.Namespace) -> Record:
    """`weft site who-disturbs`."""
    found = client_of(args).fabrics.who_disturbs(args.pod, args.pattern)
    for what in ("others", "congested"):
        if found[f"more_{what}"]:
            warn(f"weft: {found[f'more_{what}']} more {what} aren't listed")
    names = {pod["id"]: pod["name"] for link in found["congested"] for pod in link["pods"]}
    links = _directions(found["congested"], ("cause",))
    rows = [{**row, "cause": names.get(row["cause"], row["cause"])} for row in links.rows]
    details = {
        "others": Listing(
            ("name", "project_id", "shared_links", "congested_links", "cause_of", "sent_gbps", "kind", "id"),
            found["others"],
        ),
        "congested": Listing(links.columns, rows),
        "notes": _notes(found["reading"]),
    }
    fields = {name: found[name] for name in ("pod", "id", "project_id", "links", "unknown_links")}
    return _record(fields, found["reading"], found, details)


def load(args: argparse.Namespace) -> Listing:
    """`weft site load`."""
    found = client_of(args).fabrics.node_loads()
    for fabric, why in found["unread"].items():
        warn(f"weft: fabric {fabric} isn't known: {why}")
    rows = [
        {**one, "percent": None if one["load"] is None else round(100 * one["load"], 1)}
        for one in found["nodes"]
    ]
    return Listing(("node", "percent"), rows, found)


def _record(fields: Json, reading: Json, document: Json, details: dict[str, Listing]) -> Record:
    names = ("fabric", "pattern", "engine", "exact", "routes_age", "rates_age", "rates_unread")
    given = {name: reading[name] for name in names}
    return Record({**fields, **given}, document, {k: v for k, v in details.items() if v.rows})


def _directions(links: list[Json], more: tuple[str, ...] = ()) -> Listing:
    rows = [{**link, **_ends(link), "congested": _KNOWN[link["congested"]]} for link in links]
    ethernet = [name for name in ("pauses", "marked") if any(link.get(name) is not None for link in links)]
    return Listing((*_LINK, *ethernet, *more), rows)


def _notes(reading: Json) -> Listing:
    return Listing(("note",), [{"note": note} for note in reading["notes"]])


def _ends(link: Json) -> Json:
    def end(which: str) -> str:
        name, port = link[which], link.get(f"{which}_port_name") or link[f"{which}_port"]
        return f"{name}:{port}" if port and "/" not in name else name

    return {"from": end("sender"), "to": end("receiver")}


def _direction(link: Json) -> str:
    ends = _ends(link)
    return f"{ends['from']} to {ends['to']}"


def _say_more(links: list[Json], field: str, what: str) -> None:
    for link in links:
        if link[field]:
            warn(f"weft: {_direction(link)}: {link[field]} more {what} aren't listed")
