"""`weft serve` and `weft worker`: start the API and the workers with `weft.api.server` and `weft.app.wiring`."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.common import Subparsers, leaf
from weft.ending import outlive_hang_up
from weft.model.errors import InputError

if TYPE_CHECKING:
    from weft.app.settings import ServeSettings

_LISTEN = "127.0.0.1:8787"


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft serve` and `weft worker`."""
    parser = leaf(
        subparsers,
        "serve",
        serve,
        "run the HTTP API and a worker process",
        api=False,
        json_=False,
    )
    _common(parser)
    parser.add_argument("--listen", metavar="HOST:PORT", default=_LISTEN, help=f"address (default {_LISTEN})")
    parser.add_argument(
        "--policy", metavar="FILE", type=Path, help="policy overrides (docs/policy.yaml.sample)"
    )
    parser.add_argument("--public-url", metavar="URL", help="URL for clients, if a proxy is in front")
    parser.add_argument(
        "--neutron-token",
        metavar="FILE",
        type=Path,
        help="answer notices from Neutron's driver mlnx_sdn_assist, with the token in this file",
    )
    parser.add_argument(
        "--tls-certificate",
        metavar="FILE",
        type=Path,
        help="PEM: serve HTTPS with this certificate and its chain",
    )
    parser.add_argument("--tls-key", metavar="FILE", type=Path, help="PEM: its key")
    parser.add_argument(
        "--no-worker", action="store_true", help="only serve requests; `weft worker` does the work"
    )
    parser = leaf(
        subparsers,
        "worker",
        worker,
        "run only workers, on the same database as `weft serve`",
        api=False,
        json_=False,
    )
    _common(parser)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--database",
        metavar="URL",
        default=os.environ.get("WEFT_DATABASE"),
        help="postgresql://… (WEFT_DATABASE); default: an embedded PostgreSQL in the state directory",
    )
    parser.add_argument(
        "--state",
        metavar="DIR",
        type=Path,
        default=default_state(),
        help="state directory (WEFT_STATE; default %(default)s)",
    )
    parser.add_argument(
        "--cloud-profile",
        metavar="NAME",
        help="profile of weft's service user in clouds.yaml, which validates tokens (default: OS_CLOUD, then weft); "
        "also used for the site's cloud if there is only one (default: its own profile, or its name)",
    )
    parser.add_argument(
        "--site", metavar="FILE", type=Path, help="site file, activated if the database has none yet"
    )
    parser.add_argument(
        "--workers", metavar="N", type=int, default=8, help="pods processed concurrently (default 8)"
    )
    parser.add_argument(
        "--sweep-every",
        metavar="SECONDS",
        type=int,
        default=300,
        help="interval of the sweep for remains of released pods (default 300)",
    )
    parser.add_argument(
        "--log-level", choices=("DEBUG", "INFO", "WARNING", "ERROR"), default="INFO", help="default INFO"
    )


def default_state() -> Path:
    """WEFT_STATE, /var/lib/weft for root, else XDG's state directory."""
    if given := os.environ.get("WEFT_STATE"):
        return Path(given)
    if os.geteuid() == 0:
        return Path("/var/lib/weft")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "weft"


def serve(args: argparse.Namespace) -> int:
    """Run the API, and a worker process unless `--no-worker`, until SIGTERM."""
    outlive_hang_up()  # what is imported takes a while
    host, port = listen(args.listen)
    settings = _settings(args, host, port, args.policy, not args.no_worker, args.public_url)
    settings = replace(settings, certificate=_certificate(args.tls_certificate, args.tls_key))
    settings = replace(settings, neutron_token=args.neutron_token)
    from weft.api import server

    return server.serve(settings)


def _certificate(chain: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    if (chain is None) != (key is None):
        given = "--tls-key" if chain is None else "--tls-certificate"
        missing = "--tls-certificate" if chain is None else "--tls-key"
        raise InputError(missing, None, f"required with {given}")
    for option, path in (("--tls-certificate", chain), ("--tls-key", key)):
        if path is not None and not path.is_file():
            raise InputError(option, str(path), "an existing file")
    return (chain, key) if chain and key else None


def worker(args: argparse.Namespace) -> int:
    """Run a worker without the API, until SIGTERM."""
    outlive_hang_up()
    settings = _settings(args, "127.0.0.1", 0, None, True, None)
    from weft.app import wiring

    return wiring.worker(settings)


def _settings(
    args: argparse.Namespace, host: str, port: int, policy: Path | None, work: bool, public_url: str | None
) -> ServeSettings:
    from weft.app.databaseurl import check_database_url
    from weft.app.settings import ServeSettings

    if args.database and not args.database.startswith(("postgresql://", "postgres://")):
        scheme = args.database.partition("://")[0] if "://" in args.database else "no scheme"
        # The URL itself isn't shown: it may have a password.
        raise InputError("--database", scheme[:40], "a URL such as postgresql://user@host/weft")
    if args.database:
        check_database_url("--database", args.database, "postgresql://user@host/weft")
    if not 1 <= args.workers <= 64:
        raise InputError("--workers", args.workers, "1 to 64")
    if not 10 <= args.sweep_every <= 86_400:
        raise InputError("--sweep-every", args.sweep_every, "10 to 86400 seconds")
    if public_url and not public_url.startswith(("http://", "https://")):
        raise InputError("--public-url", public_url, "a URL such as https://weft.example")
    for option, path in (("--site", args.site), ("--policy", policy)):
        if path is not None and not path.is_file():
            raise InputError(option, str(path), "an existing file")
    return ServeSettings(
        state=args.state,
        database=args.database,
        host=host,
        port=port,
        cloud_profile=args.cloud_profile,
        site=args.site,
        policy=policy,
        worker=work,
        workers=args.workers,
        sweep_every=float(args.sweep_every),
        public_url=public_url,
        log_level=args.log_level,
    )


def listen(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[IPv6]:PORT` or `:PORT` (all addresses). Raises `InputError`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InputError("--listen", text, "HOST:PORT, such as 127.0.0.1:8787 or [::]:8787")
    return host or "0.0.0.0", int(port)
