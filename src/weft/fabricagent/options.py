"""opensm's options, as far as isolation depends on them. Secrets are reported only as set or not."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from weft.generate.opensm_conf import read_opensm_conf
from weft.model.agentapi import AgentOptions
from weft.model.errors import UnknownError
from weft.planning.fabric.hardening import NAMES, masked

_MOST = 4 << 20
_PARTITIONS = "partition_config_file"
_CLOCK_SECONDS = 2.0
"""Seconds by which a process's start time may be wrong."""
_SHORT, _SHORT_ALONE = "kNZWqP", "NWBorzAxeQyIvV"
_LONG = ("smkey", "no_part_enforce", "part_enforce", "allow_both_pkeys", "console", "Pconfig")
"""Options of opensm's command line (3.3.23) that isolation depends on, and short ones without a value. The
priority isn't among them: a running manager reports it itself."""


def read_options(path: Path, partitions_file: Path) -> AgentOptions:
    """Options of the file that the rules of `weft.planning.fabric.hardening` use.

    Args:
        partitions_file: the file that the agent writes: opensm must read the same.

    Raises `UnknownError` if the file can't be read: OpenSM's defaults may or may not be in force.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MOST).decode("latin-1")
    except OSError as error:
        raise UnknownError(
            "read opensm's options",
            str(path),
            str(error),
            "name the file in opensm.options_file of the agent's file",
        ) from error
    read = read_opensm_conf(text)
    found = {name: masked(name, value) for name, value in read.items() if name in NAMES}
    if found.get("no_partition_enforcement") == "TRUE":
        found.pop("part_enforce", None)  # no_part_enforce switches it off: report one weakness
    problems = ()
    configured = read.get(_PARTITIONS, "")
    if configured and Path(configured).resolve() != partitions_file.resolve():
        problems = (
            f"{_PARTITIONS} is {configured}, and the agent writes {partitions_file}: make them the same",
        )
    return AgentOptions(path=str(path), options=found, problems=problems)


def of_the_process(process: Path, path: Path) -> tuple[str, ...]:
    """Why a running opensm may use other options than its file's, one sentence each.

    Args:
        process: its folder in /proc.
        path: the options file that was read.
    """
    try:
        command = process.joinpath("cmdline").read_bytes().decode("latin-1").split("\0")[1:-1]
        changed, started = path.stat().st_mtime, _started(process)
        used = _config_file(command)
        same = used is None or process.joinpath("cwd").resolve().joinpath(used).resolve() == path.resolve()
    except (OSError, ValueError) as error:
        return (f"opensm's command line can't be read: {error}",)
    problems: list[str] = []
    if not same:
        problems.append(
            f"opensm was started with {used}, and opensm.options_file of the agent's file is {path}"
        )
    if given := [word for word in command if _overrides(word)]:
        problems.append(
            f"opensm's command line has {', '.join(given)}, which override its file: move them there"
        )
    if changed > started + _CLOCK_SECONDS:
        problems.append(
            f"{path} was changed after opensm was started: settings that it reads at its start (console,"
            " allow_both_pkeys) and those taken out of the file are in force only after a restart"
        )
    return tuple(problems)


def _config_file(command: Sequence[str]) -> str | None:
    """The options file named by a command line; the last one, if several."""
    used: str | None = None
    for word, following in zip(command, (*command[1:], ""), strict=True):
        name, has_value, value = word.partition("=")
        if word.startswith("-F") and len(word) > 2:
            used = word[2:]
        elif name in ("-F", "-config", "--config"):
            used = value if has_value else following
    return used


def _overrides(word: str) -> bool:
    """Whether an argument of opensm's sets something that isolation depends on; long names may have one `-`."""
    if not word.startswith("-"):
        return False
    name = word.lstrip("-").partition("=")[0]
    if (
        word.startswith("--")
        or name.startswith("qos")
        or (len(name) > 2 and any(n.startswith(name) for n in _LONG))
    ):
        return len(name) > 2 and any(full.startswith(name) for full in _LONG)
    letters = word[1:]
    alone = len(letters) - len(letters.lstrip(_SHORT_ALONE))
    return any(letter in _SHORT for letter in letters[: alone + 1])


def _started(process: Path) -> float:
    """When a process was started, in seconds since 1970."""
    ticks = int(process.joinpath("stat").read_text().rpartition(")")[2].split()[19])
    boot = re.search(r"^btime (\d+)", process.parent.joinpath("stat").read_text(), re.MULTILINE)
    if boot is None:
        raise ValueError("/proc/stat doesn't say when the host was booted")
    return int(boot[1]) + ticks / os.sysconf("SC_CLK_TCK")
