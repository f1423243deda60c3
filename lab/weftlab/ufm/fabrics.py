"""What stands behind UFM's REST: a subnet manager with its partition file, and the fabric that it discovers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from weft.fabricagent.config import DiagnosticPrograms, ManagerPort
from weft.fabricagent.mad import MadError
from weft.fabricagent.wire import Wire
from weft.model.errors import UnknownError
from weft.model.observedfabric import ObservedFabric
from weftlab.ufm.state import Pkey


class Fabric(Protocol):
    """The subnet manager of a UFM."""

    def apply(self, pkeys: Mapping[int, Pkey]) -> None:
        """Write the P_Keys into its partition file, and let it sweep."""
        ...

    def discover(self) -> ObservedFabric:
        """Discover the fabric as it is now. Raises `UnknownError`."""
        ...


def conf_text(default: str, pkeys: Mapping[int, Pkey]) -> str:
    """UFM's partitions.conf: the default partition, then one definition for each P_Key that has members."""
    parts = [default]
    for key, pkey in sorted(pkeys.items()):
        if pkey.guids:
            ipoib = ", ipoib" if pkey.ip_over_ib else ""
            members = ",\n".join(f"0x{g}={m.membership}" for g, m in sorted(pkey.guids.items()))
            parts.append(f"{pkey.name}=0x{key:x}{ipoib} :\n{members};\n")
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Manager:
    """An OpenSM of the lab, by the files that it was started with."""

    partitions: Path
    pid_file: Path


class OpenSmFabric:
    """The lab's real managers; every one has the same file, as UFM's replication keeps it.

    Args:
        default: definition of the default partition.
        client: a client of the same fabric, which asks as the manager's own host.
    """

    def __init__(self, default: str, managers: Sequence[Manager], client: Wire | None = None) -> None:
        self._default, self._managers = default, managers
        self._wire = client or Wire(ManagerPort(), DiagnosticPrograms())

    def apply(self, pkeys: Mapping[int, Pkey]) -> None:
        text = conf_text(self._default, pkeys)
        for manager in self._managers:
            if manager.partitions.exists() and manager.partitions.read_text() == text:
                continue
            new = manager.partitions.with_name("by-ufm")
            new.write_text(text)
            new.replace(manager.partitions)
            _hup(manager.pid_file)

    def discover(self) -> ObservedFabric:
        try:
            return self._wire.discover(max_age=2.0).fabric
        except MadError as error:
            raise UnknownError("discover", "the fabric", str(error)) from error

    def close(self) -> None:
        self._wire.close()


def _hup(pid_file: Path) -> None:
    try:
        pid = int(pid_file.read_text())
        if Path(f"/proc/{pid}/comm").read_text().strip() == "opensm":
            os.kill(pid, signal.SIGHUP)
    except (OSError, ValueError):
        return  # it doesn't run: it reads the file when it starts


class CalledFabric:
    """A fabric in the process, for tests: two functions."""

    def __init__(
        self, default: str, write: Callable[[str], None], discover: Callable[[], ObservedFabric]
    ) -> None:
        self._default, self._write, self._discover = default, write, discover

    def apply(self, pkeys: Mapping[int, Pkey]) -> None:
        self._write(conf_text(self._default, pkeys))

    def discover(self) -> ObservedFabric:
        return self._discover()
