"""Changes of weft's section, the same on every manager: compare and swap, with many orders in one change.

Standbys are written first, then the master. If writing is interrupted, a takeover only applies the change early; the
other way round it would remove a tenant's partition. A standby that is unreachable, or whose file can't be written,
doesn't delay a change: the master is updated, the stale standby is reported, and `level` brings it up to date as soon
as it responds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

from weft.drivers.opensm.agents import Agents, Files
from weft.drivers.opensm.section import Base, Section, base_section, marks_of, section_of
from weft.drivers.pace import next_at
from weft.model.agentapi import ChangeResult, PartitionsChange, WeftPartitionDocument
from weft.model.errors import ConflictError, PermanentError, TemporaryError, UnknownError, WeftError
from weft.model.ids import format_pkey
from weft.model.mark import Mark
from weft.ports.fences import Fence, renew
from weft.ports.ledger import Ledger

log = logging.getLogger(__name__)

Edit = Callable[[Section, Base], None]
"""Changes a section in place; may be called again with a newer section."""

_TRIES = 10
_TRIES_OF_STANDBYS = 5
"""Number of times that everything is read again because a standby's file changed in the meantime; then the master is
written anyway."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that was written to the master's file, and to that of every writable standby.

    Attributes:
        master: agent of the notified manager; `result` is its response.
    """

    master: str
    result: ChangeResult


class _InLine:
    """A waiter for exclusive access to the fabric.

    Attributes:
        woken: released when it is its turn, or when another change has completed its `future`.
    """

    def __init__(self) -> None:
        self.future: Future[Changed] = Future()
        self.woken = threading.Lock()
        self.woken.acquire()


class _Asked(_InLine):
    """An edit."""

    def __init__(self, edit: Edit, fence: Fence) -> None:
        super().__init__()
        self.edit, self.fence = edit, fence


class Changer:
    """Changes one fabric. Thread-safe: edits that wait for each other are combined into one change.

    Hundreds may wait: each is woken by itself, once.

    Args:
        changed: called once after each change, before its callers return; also after a failed one, since it
        may have been made.
    """

    def __init__(
        self, site: str, agents: Agents, ledger: Ledger, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._site, self._agents, self._ledger, self._changed = site, agents, ledger, changed
        self._condition = threading.Condition()
        self._changing = False
        self._line: deque[_InLine] = deque()
        self._waiting: list[_Asked] = []
        self._hurry = False
        self._next = float("-inf")

    def change(self, edit: Edit, wait_seconds: float, fence: Fence, patient: bool = False) -> Changed:
        """Apply an edit and wait, up to a limit, until the fabric shows it.

        Args:
            patient: may be delayed (`weft.drivers.pace`) until an impatient change runs.

        Raises:
            UnknownError: no single master, or it doesn't respond; the outcome is unknown.
            PermanentError: the master's agent refuses the file, or the edit would drop what is desired in the database.
            TemporaryError: others kept changing the file, or the database can't be read.
        """
        mine = _Asked(edit, fence)
        with self._condition:
            self._waiting.append(mine)
            if not patient:
                self._hurry = True
                self._condition.notify()
        with self._turn(mine) as turn:
            if turn:
                with self._condition:
                    self._condition.wait_for(lambda: self._hurry, max(0.0, self._next - time.monotonic()))
                self._take_all(wait_seconds)
        return mine.future.result()

    @contextmanager
    def _turn(self, mine: _InLine) -> Generator[bool]:
        """Exclusive access to the fabric; yields False if another waiter has made the change meanwhile."""
        with self._condition:
            done, first = mine.future.done(), not self._changing
            if not done and not first:
                self._line.append(mine)
            self._changing = self._changing or not done
        if not done and not first:
            mine.woken.acquire()
            done = mine.future.done()
        if done:
            yield False
            return
        try:
            yield True
        finally:
            self._next_turn()

    def _next_turn(self) -> None:
        """Wake the first waiter that isn't done yet."""
        with self._condition:
            done = [one for one in self._line if one.future.done()]
            self._line = deque(one for one in self._line if not one.future.done())
            self._changing = bool(self._line)
            if self._line:
                done.append(self._line.popleft())
        for one in done:
            one.woken.release()

    def base(self, files: Files, master: str) -> Base:
        """What weft's section must contain, given files that were just read.

        The order matters: files first, then the database. A release is recorded in the database before a partition is
        removed from a file, so a partition that a file lacks and the database still wants afterwards was lost.
        """
        wanted = self._ledger.wanted()
        # Desired partitions haven't ended: look up only the others, since a file has thousands and nearly all
        # are desired.
        return base_section(files, master, wanted, self._ledger.known(marks_of(files) - wanted.keys()))

    def level(self) -> Files:
        """Write weft's section wherever it differs; returns the files as they were read before."""
        with self._turn(_InLine()):
            files = self._agents.files()
            master = self._agents.master(files)
            base = self.base(files, master.name)
            # A file that is missing opens every port: writing one, if only an empty section, closes them.
            stale = [n for n, f in files.read.items() if not f.digest or section_of(f) != dict(base.section)]
            for name in sorted(stale, key=lambda n: n == master.name):
                try:
                    self._agents.named(name).change(self._wanted(files, name, base.section, 0.0))
                except ConflictError:
                    continue  # someone is changing it right now: the next check is soon enough
                except WeftError as error:
                    if name == master.name:
                        raise
                    log.warning("the file of %s can't be brought up to date: %s", name, error)
                else:
                    log.warning("the file of %s differed from what weft wants, and has been corrected", name)
            if master.name in stale:
                self._tell(master.name, base)
            return files

    def _take_all(self, wait_seconds: float) -> None:
        with self._condition:
            batch, self._waiting, self._hurry = self._waiting, [], False
        served = len(batch)  # those that are refused leave it
        began = time.monotonic()
        self._make(batch, wait_seconds)
        self._next = next_at(began, time.monotonic(), served)

    def _make(self, batch: list[_Asked], wait_seconds: float) -> None:
        """One change for the whole batch; if that is refused, one for each edit, so that none fails because
        of another."""
        left = list(batch)
        try:
            try:
                changed = self._apply(left, wait_seconds)
            finally:
                self._changed()
        except BaseException as error:
            if len(left) > 1 and not isinstance(error, TemporaryError):
                for one in left:
                    self._make([one], wait_seconds)
                return
            for one in left:
                one.future.set_exception(error)
            return
        if changed is not None:
            for one in left:
                one.future.set_result(changed)

    def _apply(self, batch: list[_Asked], wait_seconds: float) -> Changed | None:
        """Apply a batch; None if nothing is left of it. At each attempt, edits whose owner was lost fail and
        leave the batch: the attempt before may have taken minutes."""
        for attempt in range(_TRIES):
            files = self._agents.files()
            master = self._agents.master(files)
            base = self.base(files, master.name)
            section = dict(base.section)
            renew(one.fence for one in batch)
            batch[:] = [one for one in batch if _is_still_asked(one)]
            if not batch:
                return None
            for one in batch:
                one.edit(section, base)
            _check_kept(section, base)
            try:
                self._standbys(files, master.name, section, attempt)
                result = master.change(self._wanted(files, master.name, section, wait_seconds))
            except ConflictError:
                time.sleep(0.01 * (attempt + 1))  # someone else changed it in between: read again
                continue
            self._tell(master.name, base)
            if result.process is None:
                raise UnknownError(
                    "change partitions",
                    f"the subnet manager of {master.name}",
                    "it is no longer running; its file has been written",
                    "start opensm; the fabric's state is unknown until then",
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
        """Report what was lost and restored; a failed report changes nothing about what was done."""
        for text in lost(master, base):
            log.warning("%s", text)
        for document in base.restored:
            mark = Mark.parse(document.mark)
            try:
                if mark is not None:
                    self._ledger.tell(mark.owner, f"{_loss(document, master)}; it was restored")
            except WeftError as error:
                log.warning("%s could not be notified: %s", mark and mark.owner, error)


def lost(master: str, base: Base) -> tuple[str, ...]:
    """How the master's file differs from the desired state, one sentence each; and what can't be restored."""
    return (
        *(f"{_loss(d, master)}; the next change restores it" for d in base.restored),
        *(
            f"partition {format_pkey(d.pkey)} ({d.mark}) was released, but is in the file of {master} again:"
            " an old file was put in place; the next change removes it"
            for d in base.dropped
        ),
        *base.problems,
    )


def _loss(document: WeftPartitionDocument, master: str) -> str:
    return (
        f"partition {format_pkey(document.pkey)} was missing from weft's section in the file of {master}:"
        " the file was replaced or edited by someone else"
    )


def _is_still_asked(one: _Asked) -> bool:
    try:
        one.fence()
    except BaseException as error:
        one.future.set_exception(error)
        return False
    return True


def _check_kept(section: Mapping[int, WeftPartitionDocument], base: Base) -> None:
    """No edit removes what is still desired in the database: what was there before must be there afterwards."""
    after = {d.mark for d in section.values()}
    before: Iterable[WeftPartitionDocument] = base.section.values()
    gone = [d for d in before if d.mark in base.wanted and d.mark not in after]
    if gone:
        raise PermanentError(
            f"remove partition {format_pkey(gone[0].pkey)}",
            "weft's own records",
            f"{gone[0].mark} is still desired",
            "release the pod",
        )
