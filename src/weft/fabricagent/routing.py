"""Which routing engine a manager uses: by its options, and by its log.

OpenSM continues with its next engine, at last with minhop, where the configured one doesn't fit the fabric, and says so
in its log alone (`osm_ucast_mgr.c`, OpenSM 3.3.23).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.generate.opensm_conf import read_opensm_conf
from weft.model.messages import links

_MOST = 4 << 20


def configured_engines(options: Path, process: Path | None) -> tuple[str, ...]:
    """Engines in the order of preference; empty: OpenSM's default, or the configuration can't be read.

    Args:
        options: opensm's options file.
        process: its folder in /proc, since `-R` overrides the file; None: it doesn't run.
    """
    given = _of_command_line(process) if process is not None else None
    if given is None:
        try:
            with options.open("rb") as file:
                given = read_opensm_conf(file.read(_MOST).decode("latin-1")).get("routing_engine", "")
        except OSError:
            return ()
    engines = [name.strip() for name in given.split(",")]
    return tuple(name for name in engines if name and name not in ("null", "(null)"))


def _of_command_line(process: Path) -> str | None:
    """Value of `-R`, `-RNAME`, `--routing_engine NAME` or `--routing_engine=NAME`; None: it isn't given."""
    try:
        words = process.joinpath("cmdline").read_bytes().decode("latin-1").split("\0")[1:-1]
    except OSError:
        return None
    found: str | None = None
    for word, following in zip(words, (*words[1:], ""), strict=True):
        name, has_value, value = word.partition("=")
        if name in ("--routing_engine", "-routing_engine"):
            found = value if has_value else following
        elif word == "-R":
            found = following
        elif word.startswith("-R"):
            found = word[2:]
    return found


def engine_problem(used: str, configured: Sequence[str]) -> str:
    """A sentence if another engine than the preferred one is in force; empty: it isn't, or that isn't known."""
    if not used or not configured or used == configured[0]:
        return ""
    return links.ROUTING_ENGINE(configured=configured[0], used=used)
