"""`weft fabric-agent`: run the agent, or create its certificates."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any, TypeVar

from weft.config.options import add_options, given_options
from weft.config.resolve import in_order, resolve
from weft.config.table import FILE, VARIABLE
from weft.config.tomltext import TomlFile
from weft.ending import EndSignal
from weft.fabricagent.agent import Agent
from weft.fabricagent.config import SECTION, AgentConfig, anchored, read_settings, settings_file
from weft.fabricagent.server import Listens, Server
from weft.fabricagent.tls import DAYS, LONGEST_DAYS, make_certificates
from weft.model.base import Document
from weft.model.errors import InputError, InputErrors, WeftError
from weft.model.logtext import formatter

D = TypeVar("D", bound=Document)


def add_commands(subparsers: Any) -> None:
    """Add `fabric-agent` to a program's commands; each command's `run(args)` returns the exit code."""
    parser = subparsers.add_parser(
        "fabric-agent",
        help="run the agent next to a subnet manager (OpenSM)",
        description="Runs next to each OpenSM: writes weft's section of partitions.conf and reads the fabric.",
    )
    add_settings(parser, SECTION)
    parser.set_defaults(run=run_agent)
    commands = parser.add_subparsers(title="commands", metavar="certs")
    certs = commands.add_parser(
        "certs",
        help="create or renew the agents' CA and certificates",
        description="Create or renew the agents' CA and certificates.",
    )
    certs.add_argument("--dir", type=Path, required=True, metavar="DIR", help="directory for the PEM files")
    certs.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="NAME=HOST[,HOST...]",
        help="an agent and its host names or addresses; repeatable",
    )
    certs.add_argument("--client", default="weft", metavar="NAME", help="common name of weft's certificate")
    certs.add_argument(
        "--days",
        type=int,
        default=DAYS,
        help=f"validity of the certificates in days, 1 to {LONGEST_DAYS} (default {DAYS})",
    )
    certs.add_argument("--renew", action="store_true", help="renew the existing certificates")
    certs.add_argument(
        "--new-authority",
        action="store_true",
        help="replace the CA and all certificates: agents aren't reached until they have the new ones",
    )
    certs.set_defaults(run=run_certs)


def run_agent(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT. The simulator and the kernel free a client's slot only when it
    closes."""
    with said_plainly():
        config = anchored(*read_settings_and_start_log(args, AgentConfig, SECTION))
        agent = Agent(config)
        serve(Server(config, agent, scrapers=config.tls.scrapers), config, config.name)
        agent.close()
        return 0
    return 2


def add_settings(parser: argparse.ArgumentParser, section: str) -> None:
    """Options of an agent's settings and log."""
    help_ = f"the agent's settings in YAML, or weft.toml with [{section}] ({VARIABLE}; default {FILE}, if it is there)"
    parser.add_argument("--config", type=Path, metavar="FILE", help=help_)
    parser.add_argument("--verbose", action="store_true", help="log every request, as --log-level DEBUG does")
    add_options(parser, "logs")


def read_settings_and_start_log(args: argparse.Namespace, kind: type[D], section: str) -> tuple[D, Path]:
    """An agent's settings, with the folder that their paths are relative to; from then on it logs as they say.

    Raises `InputError` with every fault of the file.
    """
    file = settings_file(args.config)
    faults: dict[str, InputError] = {}
    found: tuple[D, Path] | None = None
    try:
        _start_log(file, args)
    except InputErrors as error:
        faults |= {str(one): one for one in error.errors}
    try:
        found = read_settings(file, kind, section)
    except InputErrors as error:
        faults |= {str(one): one for one in error.errors}
    if found is None or faults:
        raise InputErrors(in_order(list(faults.values())))
    return found


def _start_log(file: Path | TomlFile, args: argparse.Namespace) -> None:
    """Start logging as `[logs]` of `weft.toml` and the options say. Raises `InputErrors`."""
    read = file if isinstance(file, TomlFile) else None
    logs = resolve(read, os.environ, given_options(args), ("logs",))
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(logs["logs.format"], "%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.DEBUG if args.verbose else logs["logs.level"], handlers=[handler])
    logging.getLogger("httpcore").setLevel(logging.INFO)


def serve(server: Server, config: Listens, name: str) -> None:
    """Run a server until SIGTERM or SIGINT."""
    ending = EndSignal()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    logging.info("agent %s listens on https://%s:%d", name, config.listen.host, config.listen.port)
    ending.wait()
    server.shutdown()
    server.server_close()
    logging.info("agent %s has ended", name)


def run_certs(args: argparse.Namespace) -> int:
    """Create certificates and print the files written."""
    with said_plainly():
        agents: dict[str, list[str]] = {}
        for text in args.agent:
            name, equals, hosts = text.partition("=")
            if not name or not equals or os.sep in name:
                raise InputError("--agent", text, "NAME=HOST[,HOST...]")
            if name in agents:
                raise InputError("--agent", text, f"each agent once, with all its hosts: {name}=HOST,HOST")
            agents[name] = [h.strip() for h in hosts.split(",") if h.strip()]
        if not 1 <= args.days <= LONGEST_DAYS:
            raise InputError(
                "--days", args.days, f"1 to {LONGEST_DAYS}; an authority of your own can do otherwise"
            )
        made = make_certificates(
            args.dir, agents, args.client, args.days, args.renew, new_authority=args.new_authority
        )
        for path in made:
            print(path)
        return 0
    return 2


@contextlib.contextmanager
def said_plainly(program: str = "fabric-agent") -> Any:
    """Report user errors in one line, without a traceback; the caller then returns 2."""
    try:
        yield
    except (WeftError, OSError) as error:
        print(f"weft {program}: {error}", file=sys.stderr)
