"""Changes of weft's section, the same on every manager: compare and swap, many orders in one change.

The order of writing is standbys first, then the master. If it is cut off in between, a takeover only brings the
change forward; the other way round it would take a tenant's partition away. A standby that can't be asked does not
hold a change up: the master is made right, and until the standby's file is right too the partition is not settled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from weft.drivers.opensm.agents import Agents, Files
from weft.model.agentapi import ChangeResult, PartitionsChange, WeftPartitionDocument
from weft.model.errors import ConflictError, UnknownError, WeftError

Section = dict[int, WeftPartitionDocument]
"""weft's section: P_Key (15 bits) -> partition."""
Edit = Callable[[Section, Files], None]
"""Changes a section in place; may be called again, on a newer section."""

_TRIES = 10


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that every reachable manager's file has.

    Attributes:
        master: agent of the manager that was told; `result` is what it says.
        same: whether its file asked for all that already.
    """

    master: str
    result: ChangeResult
    same: bool


class Changer:
    """Changes one fabric. Safe for threads: edits that wait for each other go out as one change."""

    def __init__(self, site: str, agents: Agents) -> None:
        self._site, self._agents = site, agents
        self._turn = threading.Lock()
        self._waiting_lock = threading.Lock()
        self._waiting: list[tuple[Edit, Future[Changed]]] = []

    def change(self, edit: Edit, wait_seconds: float) -> Changed:
        """Apply an edit and wait, at most so long, until the wire shows it.

        Raises:
            UnknownError: no single master, or it can't be asked; nothing is known of the outcome.
            PermanentError: an agent refuses the file.
            TemporaryError: others kept changing the file.
        """
        mine: Future[Changed] = Future()
        with self._waiting_lock:
            self._waiting.append((edit, mine))
        with self._turn:
            if not mine.done():
                self._take_all(wait_seconds)
        return mine.result()

    def _take_all(self, wait_seconds: float) -> None:
        with self._waiting_lock:
            batch, self._waiting = self._waiting, []
        try:
            changed = self._apply([edit for edit, _ in batch], wait_seconds)
        except BaseException as error:
            for _, future in batch:
                future.set_exception(error)
            return
        for _, future in batch:
            future.set_result(changed)

    def _apply(self, edits: list[Edit], wait_seconds: float) -> Changed:
        for attempt in range(_TRIES):
            files = self._agents.files()
            master = self._agents.master(files)
            base = _base(files, master.name)
            section = dict(base)
            for edit in edits:
                edit(section, files)
            try:
                self._standbys(files, master.name, section)
                result = master.change(self._wanted(files, master.name, section, wait_seconds))
            except ConflictError:
                time.sleep(0.01 * (attempt + 1))  # somebody else's change came between: read again
                continue
            if result.process is None:
                raise UnknownError(
                    "change partitions",
                    f"the subnet manager of {master.name}",
                    "it does not run any more; its file is written",
                    "start opensm; until then nothing is known of the fabric",
                )
            return Changed(master.name, result, same=section == _section(files, master.name))
        raise UnknownError(
            "change partitions", "the fabric agents", f"the file changed {_TRIES} times meanwhile"
        )

    def _standbys(self, files: Files, master: str, section: Section) -> None:
        standbys = [a for a in self._agents.all if a.name in files.read and a.name != master]
        if not standbys:
            return
        answers = self._agents.each(
            lambda agent: agent.change(self._wanted(files, agent.name, section, 0.0)), standbys
        )
        for answer in answers.values():
            # Refused or overtaken: the master must not go ahead. Gone: it shows as not read, see the module.
            if isinstance(answer, WeftError) and not isinstance(answer, UnknownError):
                raise answer

    def _wanted(self, files: Files, agent: str, section: Section, wait_seconds: float) -> PartitionsChange:
        return PartitionsChange(
            site=self._site,
            expected_digest=files.read[agent].digest,
            weft=tuple(section[k] for k in sorted(section)),
            wait_seconds=wait_seconds,
        )


def _section(files: Files, agent: str) -> Section:
    return {d.pkey: d for d in files.read[agent].weft}


def _base(files: Files, master: str) -> Mapping[int, WeftPartitionDocument]:
    """The section to go from: the master's; if its file is gone, what a standby still knows."""
    if files.read[master].digest:
        return _section(files, master)
    known = [_section(files, name) for name, file in sorted(files.read.items()) if file.digest]
    return max(known, key=len, default={})
