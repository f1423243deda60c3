"""Changes of weft's section, the same on every manager: compare and swap, with many orders in one change.

Standbys are written first, then the master. If writing is interrupted, a takeover only applies the change early; the
other way round it would remove a tenant's partition. A standby that is unreachable, or whose file can't be written,
doesn't delay a change: the master is updated, the stale standby is reported, and `level` brings it up to date as soon
as it responds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.drivers.joined import Queued, Submission, make_all, still_asked
from weft.drivers.opensm.agents import FabricAgents, Files
from weft.drivers.opensm.section import Base, Section, base_section, marks_of, section_of
from weft.model.agentapi import PartitionsChange, PortMismatch, WeftPartitionDocument
from weft.model.errors import ConflictError, PermanentError, TemporaryError, UnknownError, WeftError
from weft.model.ids import FULL_MEMBER, format_pkey
from weft.model.mark import Mark
from weft.ports.fences import Fence
from weft.ports.ledger import SegmentLedger

log = logging.getLogger(__name__)

Edit = Callable[[Section, Base], None]
"""Changes a section in place; may be called again with a newer section."""

LOOK_SECONDS = 0.01
"""Seconds for which the master's agent searches for drift: long enough to read every port once."""
YOUNG_SECONDS = 1.0
"""Maximum age, in seconds, of the proof that edits may be made (`weft.engine.hold.fence`) when the master is asked."""
APART_SECONDS = 60.0
"""Seconds for which edits that were refused together are tried one by one."""
_TRIES = 10
_TRIES_OF_STANDBYS = 5
"""Number of times that everything is read again because a standby's file changed in the meantime; then the master is
written anyway."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that was written to the master's file, and to that of every writable standby.

    Attributes:
        master: agent of the notified manager.
        drifted: ports that differ from the file in what the edit concerns, if it had the edit before: the manager
            doesn't repair these.
        strays: further ports that differ in what is in no partition of the file.
        made: the manager was asked; False: it was asked for the same file a moment ago.
    """

    master: str
    drifted: tuple[int, ...] = ()
    strays: tuple[int, ...] = ()
    made: bool = True


@dataclass(slots=True, eq=False)
class _Asked(Submission[Edit]):
    """An edit.

    Attributes:
        keys: P_Keys (15 bits) that it concerns.
        once: its caller won't repeat it, so that it is made in any case.
        changed: its result, once it was made.
    """

    keys: Collection[int]
    once: bool = False
    changed: Changed | None = None


class OpenSmChanger(Queued[_Asked]):
    """Changes one fabric. Thread-safe: edits that wait for each other are combined into one change.

    Args:
        changed: called once after each change, before its callers return; also after a failed one, since it
        may have been made.
        takes: seconds that a manager has for bringing its file into effect. What it has already is requested again no
            more often than that, however many ask: each request makes it begin a sweep.
    """

    def __init__(
        self,
        site: str,
        agents: FabricAgents,
        ledger: SegmentLedger,
        changed: Callable[[], None] = lambda: None,
        takes: float = 0.0,
    ) -> None:
        super().__init__(self._make, "partitions", "change partitions", "the fabric agents", paced=True)
        self._site, self._agents, self._ledger, self._changed = site, agents, ledger, changed
        self.takes = takes
        self._repeated = ("", "", float("-inf"))  # the master, its file, and when it was last requested again

    def change(
        self, edit: Edit, keys: Collection[int], fence: Fence, patient: bool = False, once: bool = False
    ) -> Changed:
        """Apply an edit to the files and notify the manager; a reading shows what it has made of it.

        Args:
            keys: P_Keys (15 bits) that it concerns.
            patient: may be delayed (`weft.drivers.pace`) until an impatient change runs.
            once: make it also if the manager was asked for the same file a moment ago: the caller doesn't repeat it.

        Raises:
            UnknownError: no single master, or it doesn't respond; the outcome is unknown.
            PermanentError: the master's agent refuses the file, or the edit would drop what is desired in the database.
            TemporaryError: others kept changing the file, or the database can't be read.
        """
        mine = _Asked(edit, keys, once, fence=fence)
        self.line.ask(mine, patient).result()
        assert mine.changed is not None
        return mine.changed

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
        return self.line.alone(self._level)

    def _level(self) -> Files:
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
            self._report_losses(master.name, base)
        return files

    def _make(self, parts: Sequence[_Asked]) -> None:
        make_all(parts, self._attempt, self._no_time, APART_SECONDS)

    def _no_time(self) -> UnknownError:
        return self._unknown(f"others were changed one by one for {APART_SECONDS:.0f} s before it")

    def _attempt(self, parts: Sequence[_Asked]) -> None:
        try:
            try:
                self._apply(parts)
            finally:
                self._changed()
        except Exception as error:
            alone = len(parts) > 1 and not isinstance(error, TemporaryError)
            for part in parts:
                part.fail(error, apart=alone)

    def _apply(self, parts: Sequence[_Asked]) -> None:
        """At each attempt, edits whose owner was lost fail and leave the batch: the attempt before may have taken
        minutes."""
        for attempt in range(_TRIES):
            files = self._agents.files()
            master = self._agents.master(files)
            base = self.base(files, master.name)
            section, proved = dict(base.section), time.monotonic()
            if not (batch := still_asked(parts)):
                return
            for one in batch:
                one.edit(section, base)
            _check_kept(section, base)
            before = section_of(files.read[master.name])
            repairs = [one for one in batch if all(section.get(k) == before.get(k) for k in one.keys)]
            again = len(repairs) == len(batch) and section == before
            digest = files.read[master.name].digest
            if again and not any(one.once for one in batch) and self._repeated_lately(master.name, digest):
                for one in batch:
                    one.changed = Changed(master.name, made=False)
                return
            try:
                self._standbys(files, master.name, section, attempt)
                if time.monotonic() - proved >= YOUNG_SECONDS and len(still_asked(batch)) < len(batch):
                    continue  # a standby was slow and an owner was lost: write again without its edit
                look = LOOK_SECONDS if repairs else 0.0
                result = master.change(self._wanted(files, master.name, section, look))
            except ConflictError:
                time.sleep(0.01 * (attempt + 1))  # someone else changed it in between: read again
                continue
            self._report_losses(master.name, base)
            if result.process is None:
                raise UnknownError(
                    "change partitions",
                    f"the subnet manager of {master.name}",
                    "it is no longer running; its file has been written",
                    "start opensm; the fabric's state is unknown until then",
                )
            if again:
                self._repeated = (master.name, digest, time.monotonic())
            for one in batch:
                differ = _drifted(result.mismatches, one.keys, section) if one in repairs else ((), ())
                one.changed = Changed(master.name, *differ)
            return
        raise self._unknown(f"the file changed {_TRIES} times meanwhile")

    def _repeated_lately(self, master: str, digest: str) -> bool:
        """Whether this manager was asked for this very file already, within the time that it has for it."""
        whose, what, when = self._repeated
        return (whose, what) == (master, digest) and time.monotonic() - when < self.takes

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

    def _report_losses(self, master: str, base: Base) -> None:
        """Record an event for each partition that was lost and restored; if that fails, the change stands all the
        same."""
        for text in lost(master, base):
            log.warning("%s", text)
        for document in base.restored:
            mark = Mark.parse(document.mark)
            try:
                if mark is not None:
                    self._ledger.record_event(mark.owner, f"{_loss(document, master)}; it was restored")
            except WeftError as error:
                log.warning("%s could not be notified: %s", mark and mark.owner, error)


def lost(master: str, base: Base) -> tuple[str, ...]:
    """How the master's file differs from the desired state, and what can't be restored; one sentence each."""
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


def _drifted(
    mismatches: Iterable[PortMismatch], keys: Collection[int], section: Section
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(ports that differ in one of these P_Keys, strays): what a change of these P_Keys must repair.

    Ports that differ only in other partitions of the section are left to the changes of those, which may still be
    taking effect.
    """
    differ: dict[int, set[int]] = {}
    for m in mismatches:
        if not m.unreachable:
            differ.setdefault(m.port_guid, set()).update(k & ~FULL_MEMBER for k in (*m.missing, *m.extra))
    mine = [guid for guid, numbers in differ.items() if numbers & set(keys)]
    strays = [
        guid for guid, numbers in differ.items() if not numbers & set(keys) and numbers - section.keys()
    ]
    return tuple(mine), tuple(strays)


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
