"""`weft serve` and `weft worker`: start the API and the workers with `weft.api.server` and `weft.app.wiring`."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from weft.cli.common import Subparsers, leaf
from weft.ending import outlive_hang_up

if TYPE_CHECKING:
    from weft.app.settings import ServeSettings


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft serve` and `weft worker`."""
    from weft.config.options import add_file_option, add_options

    parser = leaf(
        subparsers,
        "serve",
        serve,
        "run the HTTP API and a worker process",
        api=False,
        json_=False,
    )
    add_file_option(parser)
    add_options(parser, "weft", "serve", "logs")
    parser = leaf(
        subparsers,
        "worker",
        worker,
        "run only workers, on the same database as `weft serve`",
        api=False,
        json_=False,
    )
    add_file_option(parser)
    add_options(parser, "weft", "logs")


def serve(args: argparse.Namespace) -> int:
    """Run the API, and a worker process unless `--no-worker`, until SIGTERM."""
    outlive_hang_up()  # what is imported takes a while
    settings = _settings(args, "weft", "serve", "logs")
    from weft.api import server

    return server.serve(settings)


def worker(args: argparse.Namespace) -> int:
    """Run a worker without the API, until SIGTERM."""
    outlive_hang_up()
    settings = _settings(args, "weft", "logs")
    from weft.app import wiring

    return wiring.worker(settings)


def _settings(args: argparse.Namespace, *sections: str) -> ServeSettings:
    """The settings. Raises `InputErrors` with every fault of the file, the environment and the options."""
    from weft.app.settings import settings_of
    from weft.config.options import given_options
    from weft.config.resolve import config_file, resolve

    file = config_file(args.config, os.environ)
    return settings_of(resolve(file, os.environ, given_options(args), sections))
