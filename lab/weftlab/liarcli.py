"""`weft lab lie|lies|truth`: plant a lie, see how often it was applied, lift them all."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # every `weft` loads this module
    from weftlab.liar import Liar

OPTIONS = ("service", "method", "path", "skip", "times", "chance", "seed", "seconds", "rows")
"""Options of `lie`; each is the field of the same name of `rules.Rule`."""

Find = Callable[[argparse.Namespace], "Liar"]


def add_commands(commands: Any, find: Find) -> list[tuple[argparse.ArgumentParser, Any]]:
    """Add them; gives each parser with its function of the arguments.

    Args:
        find: the liar of the lab that the arguments name.
    """
    lie = commands.add_parser(
        "lie", help="inject wrong answers between OpenStack and weft (after `up --liar`)"
    )
    lie.add_argument("lie", metavar="LIE", help="name of the lie, one of `weft lab lies --names`")
    lie.add_argument("--service", help="keystone, nova, neutron, glance or placement (default all)")
    lie.add_argument("--method", help="GET, POST, PUT or DELETE (default all)")
    lie.add_argument("--path", metavar="REGEX", help="only requests whose path and query match")
    lie.add_argument("--skip", type=int, metavar="N", help="answer the first N matching requests truthfully")
    lie.add_argument("--times", type=int, metavar="N", help="at most N lies (default: until `truth`)")
    lie.add_argument(
        "--chance",
        type=float,
        metavar="P",
        help="probability for each matching request, such as 0.1 (default 1)",
    )
    lie.add_argument("--seed", type=int, metavar="N", help="for --chance (default 0)")
    lie.add_argument("--seconds", type=float, metavar="S", help="for slow, late and hang (default 3)")
    lie.add_argument("--rows", metavar="REGEX", help="for hidden_rows: which rows")
    lies = commands.add_parser("lies", help="list the active lies, and how often each was used")
    lies.add_argument("--names", action="store_true", help="list the available lies")
    truth = commands.add_parser("truth", help="remove all lies")
    return [
        (lie, lambda args: _lie(find(args), args)),
        (lies, lambda args: _names(find(args)) if args.names else _lies(find(args))),
        (truth, lambda args: _truth(find(args))),
    ]


def _lie(liar: Liar, args: argparse.Namespace) -> int:
    given = {name: value for name in OPTIONS if (value := getattr(args, name)) is not None}
    print(f"rule {liar.tell(args.lie, **given)}: {liar.lies()[args.lie]}")
    return 0


def _lies(liar: Liar) -> int:
    rules = liar.rules()
    if not rules:
        print("no active lies")
    for rule in rules:
        where = " ".join(f"--{name} {rule[name]}" for name in OPTIONS if name in rule)
        print(f"{rule['id']:>4}  {rule['lie']} {where}: used {rule['sent']} of {rule['seen']} times")
    return 0


def _names(liar: Liar) -> int:
    for name, says in liar.lies().items():
        print(f"{name:20} {says}")
    return 0


def _truth(liar: Liar) -> int:
    liar.lift()
    print("all lies removed")
    return 0
