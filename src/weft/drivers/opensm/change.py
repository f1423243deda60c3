"""Changes of weft's section, the same on every manager: compare and swap, many orders in one change.

The order of writing is standbys first, then the master. If it is cut off in between, a takeover only brings the
change forward; the other way round it would take a tenant's partition away. A standby that can't be asked, or whose
file can't be written, does not hold a change up: the master is made right, what is stale is said, and `level` brings
the standby up to date as soon as it answers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from weft.drivers.opensm.agents import Agents, Files
from weft.drivers.opensm.section import Base, Section, base_section, marks_of, section_of
from weft.model.agentapi import ChangeResult, PartitionsChange, WeftPartitionDocument
from weft.model.errors import ConflictError, PermanentError, UnknownError, WeftError
from weft.model.ids import format_pkey
from weft.model.mark import Mark
from weft.ports.ledger import Ledger

log = logging.getLogger(__name__)

Edit = Callable[[Section, Base], None]
"""Changes a section in place; may be called again, on a newer section."""

_TRIES = 10
_TRIES_OF_STANDBYS = 5
"""So often a standby's file that is changed meanwhile makes everything be read again; then the master goes ahead."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that the master's file has, and every standby's that could be written.

    Attributes:
        master: agent of the manager that was told; `result` is what it says.
    """

    master: str
    result: ChangeResult


class Changer:
    """Changes one fabric. Safe for threads: edits that wait for each other go out as one change."""

    def __init__(self, site: str, agents: Agents, ledger: Ledger) -> None:
        self._site, self._agents, self._ledger = site, agents, ledger
        self._turn = threading.Lock()
        self._waiting_lock = threading.Lock()
        self._waiting: list[tuple[Edit, Future[Changed]]] = []

    def change(self, edit: Edit, wait_seconds: float) -> Changed:
        """Apply an edit and wait, at most so long, until the wire shows it.

        Raises:
            UnknownError: no single master, or it can't be asked; nothing is known of the outcome.
            PermanentError: the master's agent refuses the file, or the edit would drop what the database wants.
            TemporaryError: others kept changing the file, or the database can't be read.
        """
        mine: Future[Changed] = Future()
        with self._waiting_lock:
            self._waiting.append((edit, mine))
        with self._turn:
            if not mine.done():
                self._take_all(wait_seconds)
        return mine.result()

    def base(self, files: Files, master: str) -> Base:
        """What weft's section has to be, of files just read.

        The order matters: files first, then the database. A release says so in the database before it takes a
        partition out of a file, so one that a file lacks and that the database still wants afterwards was lost.
        """
        return base_section(files, master, self._ledger.wanted(), self._ledger.known(marks_of(files)))

    def level(self) -> Files:
        """Write weft's section wherever it isn't what it has to be; gives the files as they were read before."""
        with self._turn:
            files = self._agents.files()
            master = self._agents.master(files)
            base = self.base(files, master.name)
            # A file that is missing opens every port: writing one, if only an empty section, closes them.
            stale = [n for n, f in files.read.items() if not f.digest or section_of(f) != dict(base.section)]
            for name in sorted(stale, key=lambda n: n == master.name):
                try:
                    self._agents.named(name).change(self._wanted(files, name, base.section, 0.0))
                except ConflictError:
                    continue  # somebody is changing it just now: the next look is soon enough
                except WeftError as error:
                    if name == master.name:
                        raise
                    log.warning("the file of %s can't be brought up to date: %s", name, error)
                else:
                    log.warning("the file of %s was not as weft wants it, and is again", name)
            if master.name in stale:
                self._tell(master.name, base)
            return files

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
            base = self.base(files, master.name)
            section = dict(base.section)
            for edit in edits:
                edit(section, base)
            _check_kept(section, base)
            try:
                self._standbys(files, master.name, section, attempt)
                result = master.change(self._wanted(files, master.name, section, wait_seconds))
            except ConflictError:
                time.sleep(0.01 * (attempt + 1))  # somebody else's change came between: read again
                continue
            self._tell(master.name, base)
            if result.process is None:
                raise UnknownError(
                    "change partitions",
                    f"the subnet manager of {master.name}",
                    "it does not run any more; its file is written",
                    "start opensm; until then nothing is known of the fabric",
                )
            return Changed(master.name, result)
        raise UnknownError(
            "change partitions", "the fabric agents", f"the file changed {_TRIES} times meanwhile"
        )

    def _standbys(self, files: Files, master: str, section: Section, attempt: int) -> None:
        standbys = [a for a in self._agents.all if a.name in files.read and a.name != master]
        if not standbys:
            return
        answers = self._agents.each(
            lambda agent: agent.change(self._wanted(files, agent.name, section, 0.0)), standbys
        )
        for name, answer in answers.items():
            if isinstance(answer, ConflictError) and attempt < _TRIES_OF_STANDBYS:
                raise answer
            if isinstance(answer, WeftError):
                log.warning("the file of %s could not be written: %s", name, answer)

    def _wanted(
        self,
        files: Files,
        agent: str,
        section: Mapping[int, WeftPartitionDocument],
        wait_seconds: float,
    ) -> PartitionsChange:
        return PartitionsChange(
            site=self._site,
            expected_digest=files.read[agent].digest,
            weft=tuple(section[k] for k in sorted(section)),
            wait_seconds=wait_seconds,
        )

    def _tell(self, master: str, base: Base) -> None:
        """Say what was lost and is there again; that it can't be said changes nothing about what was done."""
        for text in lost(master, base):
            log.warning("%s", text)
        for document in base.restored:
            mark = Mark.parse(document.mark)
            try:
                if mark is not None:
                    self._ledger.tell(mark.owner, f"{_loss(document, master)}; it was put back")
            except WeftError as error:
                log.warning("%s could not be told: %s", mark and mark.owner, error)


def lost(master: str, base: Base) -> tuple[str, ...]:
    """What the master's file isn't as weft wants it to be, each a sentence; and what of it can't be put back."""
    return (
        *(f"{_loss(d, master)}; the next change puts it back" for d in base.restored),
        *(
            f"partition {format_pkey(d.pkey)} ({d.mark}) is over and is in the file of {master} again:"
            " an old file was put in place; the next change takes it out"
            for d in base.dropped
        ),
        *base.problems,
    )


def _loss(document: WeftPartitionDocument, master: str) -> str:
    return (
        f"partition {format_pkey(document.pkey)} was missing from weft's section in the file of {master}:"
        " the file was replaced or edited by another hand"
    )


def _check_kept(section: Mapping[int, WeftPartitionDocument], base: Base) -> None:
    """No edit takes away what the database still wants: what was there before it must be there after it."""
    after = {d.mark for d in section.values()}
    before: Iterable[WeftPartitionDocument] = base.section.values()
    gone = [d for d in before if d.mark in base.wanted and d.mark not in after]
    if gone:
        raise PermanentError(
            f"take partition {format_pkey(gone[0].pkey)} away",
            "weft's own records",
            f"{gone[0].mark} is wanted",
            "release the pod",
        )
