"""`weft pod ssh NAME [NODE] [-- command]`: ssh to a pod's server, by its user and address."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from weft.cli.common import Json, Subparsers, client_of, keep_after_dashes, leaf
from weft.model.errors import InputError, NotFoundError, PermanentError

if TYPE_CHECKING:
    from weft.cli.podrecord import Login

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\$?")


def add_commands(commands: Subparsers) -> None:
    parser = leaf(commands, "ssh", ssh, "log in to a pod's server, or run a command there", json_=False)
    parser.add_argument("name", metavar="NAME", help="name or id of the pod")
    parser.add_argument(
        "node",
        metavar="NODE",
        nargs="?",
        help="name of its node, or of the server; default: the one with a floating IP, or the first",
    )
    parser.add_argument("-l", "--user", metavar="USER", help="default: that of the image's distribution")
    parser.add_argument(
        "-i", "--identity", metavar="FILE", help="private key; default: as ssh is configured, or its agent"
    )
    parser.add_argument(
        "--command", metavar="COMMAND", help="run it there; also: everything after --, as it is"
    )
    parser.set_defaults(after_dashes=())
    keep_after_dashes(parser)


def ssh(args: argparse.Namespace) -> int:
    """Becomes ssh, whose exit code is the command's. Raises `WeftError` with what is missing."""
    from weft.cli.podrecord import login

    if args.command is not None and args.after_dashes:
        raise InputError("--command", args.command, "one command: this, or what follows --")
    pod = client_of(args).show_pod(args.name)
    words = ssh_words(pod, login(pod, args.node), args)
    sys.stdout.flush()
    try:
        os.execvp("ssh", words)
    except OSError as error:
        what = f"ssh can't be started ({error.strerror})"
        raise PermanentError(f"log in to pod {pod['name']}", "this host", what, "install OpenSSH") from None


def ssh_words(pod: Json, how: Login, args: argparse.Namespace) -> list[str]:
    """The command line of ssh. Raises `WeftError` if there is no server, address, key or user."""
    name, user = pod["name"], args.user or how.user
    if args.node is not None and how.server is None and pod.get("servers"):
        nodes = ", ".join(s["node"] for s in pod["servers"])
        raise NotFoundError(f"pod {name} has no server {args.node!r} with an address: it has {nodes}")
    if how.server is None:
        why = f": {pod['reason']}" if pod.get("reason") else ""
        raise NotFoundError(f"pod {name} is {pod['state']} and has no server with an address yet{why}")
    if how.missing and args.identity is None:
        raise InputError("--identity", None, f"a private key that the image knows: {how.missing}")
    if not user:
        image = pod["order"]["nodes"]["image"]
        raise InputError("--user", None, f"the login user of image {image!r}: its name doesn't show it")
    if not _USER.fullmatch(user):
        raise InputError("--user", user, "a name of letters, digits, _, . and -, not beginning with a digit")
    key = ["-i", args.identity] if args.identity is not None else []
    jump = ["-J", f"{user}@{_address(how.through)}"] if how.through else []
    command: Sequence[str] = args.after_dashes or ([args.command] if args.command is not None else [])
    return ["ssh", *key, *jump, f"{user}@{_address(how.address)}", *command]


def _address(text: Any) -> str:
    """Never an option of ssh, whatever the server says."""
    try:
        return str(ip_address(str(text)))
    except ValueError:
        raise PermanentError(
            "log in", "weft's API", f"{text!r} is no address", "weft pod show --json"
        ) from None
