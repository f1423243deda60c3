"""opensm's options file, as far as isolation depends on it. Of secrets it only reports whether they are set."""

from __future__ import annotations

from pathlib import Path

from weft.model.agentapi import AgentOptions
from weft.model.errors import UnknownError
from weft.planning.fabric.hardening import NAMES, masked

_MOST = 4 << 20
_PARTITIONS = "partition_config_file"


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
    found: dict[str, str] = {}
    told = ""
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if name == _PARTITIONS:
            told = value.strip()
        if name in NAMES:
            found[name] = masked(name, value.strip())
    problems = ()
    if told and told != "(null)" and Path(told).resolve() != partitions_file.resolve():
        problems = (f"{_PARTITIONS} is {told}, and the agent writes {partitions_file}: make them the same",)
    return AgentOptions(path=str(path), options=found, problems=problems)
