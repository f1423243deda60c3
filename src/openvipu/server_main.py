"""``openvipu-server``: the controller."""

from __future__ import annotations

import argparse
import secrets
import time
from dataclasses import replace
from pathlib import Path

from openvipu.controller import authority
from openvipu.controller.core import Tuning
from openvipu.controller.inventory import new_key
from openvipu.model.errors import BadRequest
from openvipu.model.names import check_id
from openvipu.model.state import Settings, State
from openvipu.program import listen_address, parser, read_key, run, say, wait_for_signal
from openvipu.rules import users
from openvipu.server import Config, ControllerServer
from openvipu.store import Store


def main(argv: list[str] | None = None) -> int:
    """Run ``openvipu-server`` until a signal; returns the exit code."""
    return run("openvipu-server", lambda: _main(_parser().parse_args(argv)))


def _parser() -> argparse.ArgumentParser:
    made = parser("openvipu-server", "An open V-IPU controller.")
    made.add_argument("--state", type=Path, default=Path("openvipu.sqlite"), help="the state file")
    first = made.add_argument_group("first steps (each does its work and ends)")
    first.add_argument("--init", action="store_true", help="make the state file")
    first.add_argument("--secure", action="store_true", help="with --init: users must show their access keys")
    first.add_argument(
        "--admin-key-file", type=Path, help="with --init --secure: the first administrator's access key"
    )
    first.add_argument(
        "--agent-key-file", type=Path, help="with --init: the key that agents were prepared with"
    )
    first.add_argument(
        "--controller-id",
        default="",
        metavar="ID",
        help="with --init: what agents know it by (default: drawn)",
    )
    first.add_argument(
        "--tls-init", type=Path, metavar="DIR", help="make a certificate authority and certificates"
    )
    first.add_argument("--tls-host", action="append", default=[], help="name or address clients will use")
    made.add_argument("--user-address", default="0.0.0.0:8090", metavar="HOST:PORT")
    made.add_argument("--admin-address", default="127.0.0.1:8091", metavar="HOST:PORT")
    made.add_argument("--metrics-address", default="127.0.0.1:2113", metavar="HOST:PORT")
    made.add_argument("--no-metrics", action="store_true")
    made.add_argument(
        "-a",
        "--autodiscovery-listen-interfaces",
        type=lambda text: tuple(part.strip() for part in text.split(",")),
        default=(),
        metavar="INTERFACES",
        help="comma-separated interfaces or addresses (NAME or NAME:PORT) to listen for agents' beacons on",
    )
    _add_tls(made)
    made.add_argument("--poll-interval", type=float, default=10.0, metavar="SECONDS")
    made.add_argument(
        "--reset-backoff", type=float, default=1.0, metavar="SECONDS", help="before the first retry"
    )
    made.add_argument("--agent-timeout", type=float, default=30.0, metavar="SECONDS")
    return made


def _add_tls(made: argparse.ArgumentParser) -> None:
    tls = made.add_argument_group("TLS")
    tls.add_argument("--tls", type=Path, metavar="DIR", help="mutual TLS with the certificates in DIR")
    tls.add_argument(
        "--no-client-certificates",
        action="store_true",
        help="with --tls and a secure state: users are known by their keys alone, and show no certificate",
    )
    tls.add_argument(
        "--agents-ca",
        type=Path,
        metavar="FILE",
        help="the authority that agents are verified by; they are shown the key alone",
    )
    tls.add_argument(
        "--agents-without-tls", action="store_true", help="with --tls: agents have none, keys go in the clear"
    )
    tls.add_argument(
        "--plain-user-address",
        default="",
        metavar="HOST:PORT",
        help="with --tls: an additional user API without TLS, for Poplar, which doesn't support it",
    )


def _main(arguments: argparse.Namespace) -> int:
    if arguments.tls_init:
        for host in arguments.tls_host:
            if not host.strip():
                raise BadRequest("--tls-host is empty; give a name or an address")
        authority.create(arguments.tls_init, arguments.tls_host)
        say(f"certificates written: {arguments.tls_init}")
    if arguments.init:
        _init(arguments)
    if arguments.init or arguments.tls_init:
        return 0
    if arguments.secure:
        raise BadRequest("--secure goes with --init; the state file remembers it")
    return _serve(arguments)


def _init(arguments: argparse.Namespace) -> None:
    agent_key = secrets.token_urlsafe(24)
    if arguments.agent_key_file:
        agent_key = read_key(arguments.agent_key_file)
    admin_key = users.check_key(read_key(arguments.admin_key_file)) if arguments.admin_key_file else ""
    controller_id = arguments.controller_id or f"controller-{secrets.token_hex(6)}"
    settings = Settings(check_id("--controller-id", controller_id), agent_key, arguments.secure)
    # Settings that a controller before this one left on a machine are older than any of ours.
    Store.create(arguments.state, settings, generation=int(time.time()))
    say(f"state file written: {arguments.state}")
    if arguments.secure:
        key = admin_key or new_key()
        store = Store.open(arguments.state)
        store.save(_with_admin(store.state, key))
        store.close()
        generated = "" if admin_key else f" Access key is '{key}'."
        say(f"create user (admin): success.{generated}")


def _with_admin(state: State, key: str) -> State:
    return state.with_user(users.make(state, "admin", secrets.token_hex(8), key, (), admin=True))


def _serve(arguments: argparse.Namespace) -> int:
    for name in ("poll_interval", "reset_backoff", "agent_timeout"):
        if not 0 < getattr(arguments, name) <= 86400:
            raise BadRequest(f"--{name.replace('_', '-')} must be more than 0 and at most 86400 seconds")
    metrics_host, metrics_port = listen_address(arguments.metrics_address)
    for address in (arguments.user_address, arguments.admin_address, arguments.plain_user_address):
        if address:
            listen_address(address)
    if arguments.agents_ca and arguments.agents_without_tls:
        raise BadRequest("--agents-ca and --agents-without-tls exclude each other")
    for name in ("no_client_certificates", "agents_without_tls", "plain_user_address"):
        if getattr(arguments, name) and not arguments.tls:
            raise BadRequest(f"--{name.replace('_', '-')} goes with --tls")
    tuning = Tuning(
        poll=arguments.poll_interval,
        backoff=arguments.reset_backoff,
        agent_timeout=arguments.agent_timeout,
    )
    config = Config(
        state=arguments.state,
        user_address=arguments.user_address,
        admin_address=arguments.admin_address,
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        discovery=arguments.autodiscovery_listen_interfaces,
        tls=arguments.tls,
        client_certificates=not arguments.no_client_certificates,
        agents_ca=arguments.agents_ca,
        agents_without_tls=arguments.agents_without_tls,
        plain_user_address=arguments.plain_user_address,
        tuning=tuning,
    )
    server = ControllerServer(replace(config, metrics_port=None) if arguments.no_metrics else config)
    say(f"user API on port {server.user_port}, admin API on port {server.admin_port}")
    try:
        wait_for_signal()
    finally:
        server.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
