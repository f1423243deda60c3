"""`weft place`: what-if simulation; and `weft site design`: the fat-tree planner. Both work without a server."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from weft.cli.common import Subparsers, leaf, say, table, warn, write_json

if TYPE_CHECKING:
    from weft.model.site import Site
    from weft.planning.fabric.topology import Topology
    from weft.planning.place.choose import Weights
    from weft.planning.place.state import Traits
    from weft.planning.queue.queue import QueueSettings
    from weft.planning.queue.simulate import TraceOrder, TraceResult

LEVELS = ("nvlink_domain", "leaf", "block", "hall", "building", "site")
MOST_NAMES = 5
WEIGHTS = ("block", "hall", "building")


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft place`."""
    place = leaf(subparsers, "place", _place, "simulate a trace of orders", api=False)
    where = place.add_mutually_exclusive_group(required=True)
    where.add_argument("--site", metavar="FILE", help="site file (YAML)")
    where.add_argument(
        "--topology",
        metavar="FILE",
        help="instead of a site: a table of hosts (CSV), output of ibnetdiscover, or UFM links (JSON)",
    )
    place.add_argument(
        "--columns",
        metavar="HOST,LEAF,BLOCK,…",
        help="columns of a table of hosts, up to hall and building (ip,ASW,PSW)",
    )
    place.add_argument(
        "--not-locating",
        metavar="ADAPTER,…",
        help="adapters of discovery or UFM's links that don't show where a host is, such as those of storage "
        "(mlx5_4, HCA-*, gpu01/mlx5_4); in a site file: locates: false",
    )
    place.add_argument("--fabric", metavar="NAME", help="fabric of the site; default: the only one")
    place.add_argument("--cloud", metavar="NAME", help="cloud of the site; default: the only one")
    place.add_argument(
        "--orders",
        metavar="CSV",
        required=True,
        help="pod,submitted,duration,count[,project,required,preferred,slice,spare,accelerators,bisection_gbps]",
    )
    place.add_argument(
        "--compare", default="weft", metavar="RULES", help="first-fit,best-fit,weft or some of them"
    )
    place.add_argument("--required", choices=(*LEVELS, "nearest"), default="site",
                       help="level for orders without one; nearest: the smallest that could hold it")  # fmt: skip
    place.add_argument("--load", type=float, metavar="X", help="scale arrivals to this load (0.95)")
    place.add_argument(
        "--patience", metavar="TIME", help="longest wait for fewer leaves (6h); default: the site's"
    )
    place.add_argument(
        "--bookings", type=int, metavar="N", help="waiting orders that get a booking; default: the site's"
    )
    for level in WEIGHTS:
        place.add_argument(
            f"--{level}-weight",
            type=float,
            metavar="X",
            help=f"cost of another {level}, in leaves; default: the site's",
        )
    place.add_argument(
        "--warm-up", default="0", metavar="TIME", help="initial time excluded from the results"
    )


def add_site_commands(subparsers: Subparsers) -> None:
    """Register `weft site design`."""
    design = leaf(
        subparsers, "design", _design, "plan a fat tree: switches, cables, site file, diagram", api=False
    )
    design.add_argument("--servers", type=int, required=True, metavar="N")
    design.add_argument("--radix", type=int, default=40, metavar="PORTS", help="ports per switch (40)")
    design.add_argument(
        "--oversubscription",
        type=float,
        default=1.0,
        metavar="X",
        help="oversubscription at the leaves; 1: none",
    )
    design.add_argument("--rails", type=int, default=1, metavar="N", help="adapters per server")
    design.add_argument("--name", default="site1", help="name of the site")
    design.add_argument("--fabric", default="ib0", help="name of the fabric")
    design.add_argument(
        "--guids",
        metavar="CSV",
        help="GUIDs instead of placeholders: columns node, name, guid, port_guid and pci; rows without node are "
        "switches'",
    )
    design.add_argument("--output", metavar="DIR", help="write site.yaml, its tables and site.svg there")


def _design(args: argparse.Namespace) -> int:
    from pathlib import Path

    from weft.cli.guidlists import read_guids
    from weft.generate.fattree import Identities, placeholders, site_files
    from weft.model.errors import InputError
    from weft.model.ids import check_name
    from weft.planning.site.fattree import design

    for option in ("name", "fabric"):
        check_name(f"--{option}", getattr(args, option))
    tree = design(args.servers, args.radix, args.oversubscription, args.rails, args.fabric)
    known = read_guids(args.guids, tree) if args.guids else Identities()
    written: list[str] = []
    if args.output:
        folder = Path(args.output)
        files = site_files(tree, args.name, args.fabric, known)
        there = [name for name in files if (folder / name).exists()]
        if there:
            raise InputError(
                "--output", args.output, f"a directory without {', '.join(there)}: existing files are kept"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (folder / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError("--output", args.output, f"a writable directory: {error.strerror}") from None
        written = [str(folder / name) for name in files]
    if args.json:
        figures = {k: getattr(tree, k) for k in tree.__slots__ if k not in ("links", "switches")}
        write_json(
            {**figures, "oversubscription": tree.oversubscription, "cables": tree.cables, "files": written}
        )
        return 0
    say(tree.summary())
    if args.guids or args.output:
        say(f"note: {placeholders(tree, known)}")
    for path in written:
        say(path)
    return 0


def _place(args: argparse.Namespace) -> int:
    from weft.app.placefiles import seconds
    from weft.model.errors import InputError
    from weft.planning.place.engine import Engine
    from weft.planning.place.placement import check_uplinks
    from weft.planning.place.policies import POLICIES
    from weft.planning.queue.simulate import simulate

    rules = [r.strip() for r in args.compare.split(",")]
    wrong = [r for r in rules if r not in POLICIES or rules.count(r) > 1]
    if wrong:
        raise InputError("--compare", wrong[0], f"some of {', '.join(POLICIES)}, each once")
    warm_up = seconds(args.warm_up, "--warm-up")
    site = _site(args)
    weights, settings = _weights(args, site), _queue(args, site)
    topology, traits, orders, owners = _inputs(args, site)
    if guaranteed := max(o.ask.gbps for o in orders):
        check_uplinks(guaranteed, topology)
        if rules != ["weft"]:
            raise InputError(
                "--compare", args.compare, "only weft with bisection_gbps: other rules guarantee nothing"
            )
    last = max(o.submitted for o in orders)
    if warm_up and warm_up >= last:
        raise InputError(
            "--warm-up", args.warm_up, f"less than the {last:g} s from the first order to the last"
        )
    outcomes: list[TraceResult] = []
    for rule in rules:
        engine = Engine(topology, traits, weights, owners, POLICIES[rule])
        outcomes.append(simulate(topology, orders, rule, settings, weights, warm_up, engine))
    _show(args, outcomes)
    return 0


def _site(args: argparse.Namespace) -> Site | None:
    from weft.app.sitefile import load_site

    return load_site(args.site) if args.site else None


def _weights(args: argparse.Namespace, site: Site | None) -> Weights:
    """The site's weights, overridden by the options."""
    from weft.model.errors import InputError
    from weft.planning.place.choose import Weights

    given = {level: value for level in WEIGHTS if (value := getattr(args, f"{level}_weight")) is not None}
    for level, value in given.items():
        if not 0 <= value <= 1000:
            raise InputError(f"--{level}-weight", value, "0 to 1000")
    return replace(Weights.of(site.placement) if site else Weights(), **given)


def _queue(args: argparse.Namespace, site: Site | None) -> QueueSettings:
    """The site's queue, overridden by the options."""
    from weft.app.placefiles import seconds
    from weft.model.errors import InputError
    from weft.planning.queue.queue import QueueSettings

    settings = QueueSettings.of(site.queue) if site else QueueSettings()
    if args.bookings is not None and args.bookings < 0:
        raise InputError("--bookings", args.bookings, "0 or more")
    if args.bookings is not None:
        settings = replace(settings, bookings=args.bookings)
    if args.patience is not None:
        settings = replace(settings, patience=seconds(args.patience, "--patience"))
    return settings


def _inputs(
    args: argparse.Namespace, site: Site | None
) -> tuple[Topology, dict[str, Traits], list[TraceOrder], dict[str, str]]:
    """The topology, the nodes, the orders, and the leaves dedicated to a project."""
    from weft.app.placefiles import read_orders, read_topology
    from weft.model.errors import InputError
    from weft.planning.fabric.topology import Topology
    from weft.planning.place.engine import Engine
    from weft.planning.place.filters import dedicated_leaves
    from weft.planning.place.state import NodeNeeds, Traits, traits_of
    from weft.planning.queue.trace import at_load, nearest

    if site:
        _only_with_a_topology(args)
        topology = Topology.of(site, _one_of("--fabric", args.fabric, tuple(site.fabrics)))
        traits = traits_of(site, topology)
        kind = NodeNeeds(_one_of("--cloud", args.cloud, tuple(site.clouds)))
        if not any(kind.refuses(x) is None for x in traits.values()):
            allowed = f"a site with compute nodes of cloud {kind.cloud} connected to {topology.fabric}"
            raise InputError("--site", args.site, allowed)
    else:
        for option in ("fabric", "cloud"):
            if getattr(args, option) is not None:
                raise InputError(f"--{option}", getattr(args, option), "only with --site")
        names = args.not_locating.split(",") if args.not_locating is not None else []
        topology = read_topology(args.topology, args.columns, names)
        for said in topology.left_out:
            warn(f"weft: {args.topology}: {said}")
        traits, kind = dict.fromkeys(topology.locations, Traits()), NodeNeeds()
    wide = args.required if args.required != "nearest" else None
    if wide and wide not in topology.levels:
        raise InputError("--required", wide, f"one of {', '.join(topology.levels)}")
    owners = dedicated_leaves(site, topology) if site else {}
    empty = Engine(topology, traits, dedicated=owners)
    unused: list[str] = []
    types = {name for x in traits.values() for name, _ in x.accelerators}
    level = wide or (lambda ask: nearest(empty, ask))
    orders = read_orders(args.orders, kind, level, topology.levels, types, unused)
    if unused:
        warn(f"weft: columns of {args.orders} that are ignored: {', '.join(unused)}")
    if args.load is not None:
        if not 0.001 <= args.load <= 10:
            raise InputError("--load", args.load, "0.001 to 10")
        if not any(o.submitted for o in orders):
            raise InputError("--load", args.load, "none if all orders are submitted at the same time")
        orders = at_load(topology, orders, args.load)
    return topology, traits, orders, owners


def _only_with_a_topology(args: argparse.Namespace) -> None:
    from weft.model.errors import InputError

    if args.columns is not None:
        raise InputError("--columns", args.columns, "only with --topology")
    if args.not_locating is not None:
        raise InputError(
            "--not-locating", args.not_locating, "only with --topology; a site has locates: false"
        )


def _one_of(option: str, given: str | None, names: tuple[str, ...]) -> str:
    from weft.model.errors import InputError

    if given is None and len(names) == 1:
        return names[0]
    if given not in names:
        raise InputError(option, given, f"one of {', '.join(sorted(names))}")
    return given


def _show(args: argparse.Namespace, outcomes: list[TraceResult]) -> None:
    if args.json:
        write_json([{k: v for k, v in asdict(o).items() if k != "waits"} for o in outcomes])
        return
    rows = [
        {
            "rule": o.policy,
            "orders": o.orders,
            "refused": o.refused,
            "utilisation": f"{o.utilisation:.3f}",
            "wait_mean_h": f"{o.wait_mean / 3600:.2f}",
            "wait_p95_h": f"{o.wait_p95 / 3600:.2f}",
            "leaves/least": f"{o.leaves:.3f}",
            "blocks/order": f"{o.blocks:.3f}",
            "broken": f"{o.fragmentation:.2f}",
        }
        for o in outcomes
    ]
    for line in table(list(rows[0]), rows):
        say(line)
    say("broken: share of the free nodes on partly used leaves, over time")
    for o in outcomes:
        if o.turned_away:
            more = f" and {o.refused - MOST_NAMES} more" if o.refused > MOST_NAMES else ""
            never = ", ".join(o.turned_away[:MOST_NAMES]) + more
            say(f"{o.policy}: refused because they could never start: {never}")
