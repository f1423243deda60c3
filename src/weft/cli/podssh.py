"""`weft pod ssh POD [SERVER] [-- command]`, or the server's name alone: ssh to it, by its user and address."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from weft.cli.common import Json, Subparsers, client_of, keep_after_dashes, leaf
from weft.model.errors import InputError, NotFoundError, PermanentError

if TYPE_CHECKING:
    from weft.client import Client
    from weft.generate.login import Login

MOST = 20
"""Servers that a message names."""
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\$?")


def add_commands(commands: Subparsers) -> None:
    """Register `weft pod ssh`."""
    parser = leaf(commands, "ssh", ssh, "log in to a pod's server, or run a command there", json_=False)
    parser.add_argument("name", metavar="NAME", help="name or id of the pod, or name of a server")
    parser.add_argument(
        "node",
        metavar="SERVER",
        nargs="?",
        help="name of the pod's server, or of its node; default: the one with a floating IP, or the first",
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
    """Replace this process by ssh, whose exit code is the command's. Raises `WeftError` with what is missing."""
    from weft.generate.login import login

    if args.command is not None and args.after_dashes:
        raise InputError("--command", args.command, "one command: this, or what follows --")
    pod = _pod(client_of(args), args)
    words = ssh_words(pod, login(pod, args.node), args)
    sys.stdout.flush()
    try:
        os.execvp("ssh", words)
    except OSError as error:
        what = f"ssh can't be started ({error.strerror})"
        raise PermanentError(f"log in to pod {pod['name']}", "this host", what, "install OpenSSH") from None


def _pod(client: Client, args: argparse.Namespace) -> Json:
    """The pod of this name, or the one with a server of this name, which `args.node` is then."""
    try:
        return client.pods.show(args.name)
    except NotFoundError:
        if args.node is not None:
            raise
        pods = _with_server(client, args.name)
        if not pods:
            raise
    if len(pods) > 1:
        names = ", ".join(str(pod["name"]) for pod in pods)
        raise InputError(
            "SERVER", args.name, f"with its pod before it: pods {names} have servers of that name"
        )
    args.node = args.name
    return client.pods.show(pods[0]["id"])


def _with_server(client: Client, name: str) -> list[Json]:
    """Pods of the project with a server of this name; none for a token without a project, or an earlier server."""
    try:
        return client.pods.list(server=name)
    except InputError:
        return []


def ssh_words(pod: Json, how: Login, args: argparse.Namespace) -> list[str]:
    """The command line of ssh. Raises `WeftError` if there is no server, address, key or user."""
    name, user = pod["name"], args.user or how.user
    if args.node is not None and how.server is None and pod.get("servers"):
        servers = ", ".join(f"{s['name']} on {s['node']}" for s in pod["servers"][:MOST])
        raise NotFoundError(f"pod {name} has no server {args.node!r} with an address: it has {servers}")
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
    jump = _jump(f"{user}@{_address(how.through)}", args.identity) if how.through else []
    command: Sequence[str] = args.after_dashes or ([args.command] if args.command is not None else [])
    return ["ssh", *key, *jump, f"{user}@{_address(how.address)}", *command]


def _jump(through: str, identity: str | None) -> list[str]:
    """Options for a jump through another server: ssh uses `-i` only for the last host, never for a `-J` one."""
    if identity is None:
        return ["-J", through]
    key = shlex.quote(identity).replace("%", "%%")
    return ["-o", f"ProxyCommand=ssh -i {key} -W '[%h]:%p' {through}"]


def _address(text: Any) -> str:
    """Refuse a value from the server that ssh would take for an option."""
    try:
        return str(ip_address(str(text)))
    except ValueError:
        raise PermanentError(
            "log in", "weft's API", f"{text!r} is no address", "weft pod show --json"
        ) from None
