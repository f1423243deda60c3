"""What all programs of openvipu share: one sentence for an error, a clean end on a signal."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from openvipu import __version__
from openvipu.hardware.protocol import HardwareError
from openvipu.model.errors import BadRequest, Refusal, StateError
from openvipu.model.names import check_port, split_address


def run(name: str, main: Callable[[], int]) -> int:
    """``main``'s exit status; 2 with one sentence on stderr when it refuses something."""
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname)s %(message)s", level=logging.WARNING)
    try:
        return main()
    except (Refusal, StateError, HardwareError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the usage, and takes no abbreviated options.

    Without abbreviations a new option breaks no script.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """A parser that knows ``--version``."""
    made = Parser(prog=name, description=description)
    made.add_argument("--version", action="version", version=f"{name} {__version__}")
    return made


def controller_options(made: argparse.ArgumentParser) -> None:
    """Add the options that say which controllers an agent accepts commands from."""
    made.add_argument(
        "--controller-key-file", type=Path, help="accept commands only from a controller with this key"
    )
    made.add_argument("--tls", type=Path, metavar="DIR", help="mutual TLS with the certificates in DIR")
    made.add_argument(
        "--no-client-certificates",
        action="store_true",
        help="with --tls: controllers are known by their keys alone, and show no certificate",
    )


def wait_for_signal() -> None:
    """Return on SIGTERM or SIGINT, whichever thread it reaches. SIGHUP is answered by a line, and ends nothing.

    An event set by a handler isn't enough: Python runs handlers between two instructions of the main thread, so a
    signal that arrives right before the wait begins would not end it. The interpreter's C handler writes into the pipe.
    """
    received, written = os.pipe()
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    while os.read(received, 1) == bytes([signal.SIGHUP]):
        say("SIGHUP: replaced certificates are noticed without it; settings are read at the start alone")


def listen_address(text: str) -> tuple[str, int]:
    """``host:port`` of a listener (port 0: any free one); BadRequest if it isn't one."""
    host, port = split_address(text)
    if port:
        check_port("port", port)
    return host, port


def read_key(path: Path) -> str:
    """The key in a file, without blanks around it; BadRequest if there is none."""
    try:
        key = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"key file {path} can't be read: {error}") from None
    if not key or not key.isascii() or not key.isprintable():
        raise BadRequest(f"key file {path} must hold one line of printable ASCII characters")
    return key


def say(text: str) -> None:
    """Print a line and flush it, for processes that wait for it."""
    print(text, flush=True)
