"""`weft pod reboot`, `rescue`, `unrescue`, `console`: commands on a pod's servers."""

from __future__ import annotations

import argparse

from weft.cli.common import Subparsers, client_of, leaf, say, write_done, write_json


def add_commands(commands: Subparsers) -> None:
    """Register the commands on a pod's servers."""
    parser = leaf(commands, "reboot", reboot, "reboot a pod's server")
    _server(parser)
    parser.add_argument(
        "--hard", action="store_true", help="power off and on, without asking the operating system"
    )
    _server(leaf(commands, "rescue", rescue, "boot a pod's server into a rescue system"))
    _server(leaf(commands, "unrescue", unrescue, "boot a pod's server from its own disk again"))
    _server(leaf(commands, "console", console, "open a console of a pod's server: print its URL"))


def reboot(args: argparse.Namespace) -> int:
    """`weft pod reboot`."""
    return _act(args, "reset" if args.hard else "reboot")


def rescue(args: argparse.Namespace) -> int:
    """`weft pod rescue`: prints the rescue system's password."""
    return _act(args, "rescue")


def unrescue(args: argparse.Namespace) -> int:
    """`weft pod unrescue`."""
    return _act(args, "unrescue")


def console(args: argparse.Namespace) -> int:
    """`weft pod console`: prints the URL."""
    found = client_of(args).pods.console(args.name, args.server)
    return write_done(args, found, found["url"])


def _act(args: argparse.Namespace, action: str) -> int:
    done = client_of(args).pods.act_on_server(args.name, args.server, action)
    if args.json:
        write_json(done)
        return 0
    say(f"pod {args.name}: {action} of {done['server']} on {done['node']} was requested")
    if done.get("password"):
        say(f"password of the rescue system, shown this once: {done['password']}")
    return 0


def _server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="POD", help="name or id of the pod")
    parser.add_argument("server", metavar="SERVER", help="name of the server, or of its node")
