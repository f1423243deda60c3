"""`weft webhook`: where a project has its pods' events sent."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from weft.cli.common import Json, Subparsers, add_revision, client_of, exit_code, group, say
from weft.cli.output import Listing, Record, acting, listed, shown, write
from weft.cli.podrecord import CODED


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft webhook`."""
    commands = group(subparsers, "webhook", "have events of the project's pods sent to a URL, signed")
    parser = acting(commands, "create", create, "have events sent to a URL; prints the secret, once")
    parser.add_argument("name", metavar="NAME", help="its name in the project")
    parser.add_argument("url", metavar="URL", help="https URL of the receiver")
    parser.add_argument(
        "--event",
        metavar="KIND",
        action="append",
        default=[],
        help="only events of this type (state, error …) or whose code begins so (NODE_); repeatable",
    )
    parser = listed(commands, "list", list_, "list webhooks; exit 1 if one fails or is disabled")
    parser.add_argument("--all-projects", action="store_true", help="of all projects (operators)")
    for name, look, text in (
        ("show", show, "show a webhook, and why it fails"),
        ("test", test, "send a test message now; exit 1 unless it is delivered"),
    ):
        parser = shown(commands, name, look, text)
        parser.add_argument("name", metavar="NAME", help="name or id")
    for name, run, text in (
        ("rotate", rotate, "make a new secret, and print it; the old one signs for another day"),
        ("enable", _act("enable", "is enabled"), "send again, from the first event that wasn't delivered"),
        ("delete", delete, "send nothing any more"),
    ):
        parser = acting(commands, name, run, text)
        parser.add_argument("name", metavar="NAME", help="name or id")
        add_revision(parser, "weft webhook show")


def create(args: argparse.Namespace) -> int:
    """`weft webhook create`."""
    return _made(args, client_of(args).webhooks.make(args.name, args.url, args.event))


def rotate(args: argparse.Namespace) -> int:
    """`weft webhook rotate`."""
    return _made(args, client_of(args).webhooks.act(args.name, "rotate", args.revision))


def _made(args: argparse.Namespace, hook: Json) -> int:
    if args.json or args.formatter:
        return write(_record(hook), args)
    say(f"webhook {hook['name']}: its secret, which is shown only now:")
    say(hook["secret"])
    return 0


def list_(args: argparse.Namespace) -> Listing:
    """`weft webhook list`."""
    hooks = client_of(args).webhooks.list(args.all_projects)
    project = ("id", "project_id") if args.all_projects else ()
    columns = (*project, "name", "url", "state", "delivered", "delivered_at", "reason")
    bad = any(hook["state"] != "active" for hook in hooks)
    return Listing(columns, hooks, code=int(bad), more=("id", "events", *CODED) if not project else CODED)


def show(args: argparse.Namespace) -> Record:
    """`weft webhook show`."""
    return _record(client_of(args).webhooks.show(args.name))


def test(args: argparse.Namespace) -> Record:
    """`weft webhook test`."""
    found = client_of(args).webhooks.act(args.name, "test")
    names = ("delivered", "status", "reason", "seconds")
    return Record({name: found[name] for name in names}, found, code=exit_code(args, not found["delivered"]))


def delete(args: argparse.Namespace) -> int:
    """`weft webhook delete`."""
    return _done(args, client_of(args).webhooks.delete(args.name, args.revision), "is deleted")


def _act(act: str, done: str) -> Callable[[argparse.Namespace], int]:
    def run(args: argparse.Namespace) -> int:
        return _done(args, client_of(args).webhooks.act(args.name, act, args.revision), done)

    return run


def _done(args: argparse.Namespace, hook: Json, done: str) -> int:
    if args.json or args.formatter:
        return write(_record(hook), args)
    say(f"webhook {hook['name']} {done}")
    return 0


def _record(hook: Json) -> Record:
    return Record({name: value for name, value in hook.items() if name not in CODED}, hook)
