"""What weft's section must contain before a change edits it, from all managers' files and weft's own records. Pure.

Neither a single file nor the database is trusted alone:

- A partition that is desired in the database but missing in the master's file was lost there (the file was replaced,
  restored or edited): it is restored, unless its key or ports belong to someone else by now.
- A partition that is in any file but unknown to the database stays, and is written to the other files, too: the
  database may have been restored from an older dump. The audit decides whose it is.
- A partition that has ended according to the database is removed: an old file brought it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from weft.drivers.opensm.agents import Files
from weft.model.agentapi import AgentPartitions, WeftPartitionDocument
from weft.model.errors import PermanentError
from weft.model.fabrictypes import Mode
from weft.model.ids import format_guid, format_pkey, parse_guid
from weft.model.mark import Mark
from weft.model.specs import SegmentSpec

Section = dict[int, WeftPartitionDocument]
"""weft's section: P_Key (15 bits) -> partition."""


@dataclass(frozen=True, slots=True)
class DesiredPartition:
    """A desired partition: P_Key (15 bits) and port GUIDs, all full members."""

    pkey: int
    members: tuple[int, ...]

    @classmethod
    def of(cls, spec: SegmentSpec) -> Self:
        """The partition of a segment. Raises `PermanentError` for members that weft's section can't express."""
        for member in spec.members:
            if member.mode is not Mode.FULL:
                asked, of = f"put port {member.port} into {spec.named}", "weft's section"
                raise PermanentError(asked, of, f"{member.mode} members aren't supported", "use full members")
        return cls(spec.number, tuple(sorted({parse_guid(m.port) for m in spec.members})))


@dataclass(frozen=True)
class Base:
    """What a change starts from.

    Attributes:
        files: as they were read.
        section: what weft's section must contain without further changes.
        wanted: marks (as text) of partitions desired in the database: no change may drop one of them.
        restored: partitions that the master's file had lost.
        dropped: ended partitions that were still in the master's file.
        problems: what could not be restored and why, one sentence each.
    """

    files: Files
    section: Mapping[int, WeftPartitionDocument]
    wanted: frozenset[str] = frozenset()
    restored: tuple[WeftPartitionDocument, ...] = ()
    dropped: tuple[WeftPartitionDocument, ...] = ()
    problems: tuple[str, ...] = ()

    @cached_property
    def _keys(self) -> Mapping[str, tuple[int, ...]]:
        """Mark (as text) -> P_Keys (15 bits) of its partitions."""
        found: dict[str, tuple[int, ...]] = {}
        for pkey, document in self.section.items():
            found[document.mark] = (*found.get(document.mark, ()), pkey)
        return found

    def drop(self, section: Section, mark: str) -> None:
        """Remove the mark's partitions from a section that was copied from this one, as far as they are still in it."""
        for pkey in self._keys.get(mark, ()):
            if pkey in section and section[pkey].mark == mark:
                del section[pkey]

    @cached_property
    def foreign(self) -> Mapping[int, str]:
        """P_Keys that others define; see `foreign_keys`."""
        return foreign_keys(self.files)


def section_of(file: AgentPartitions) -> Section:
    """weft's section of a manager's file."""
    return {d.pkey: d for d in file.weft}


def marks_of(files: Files) -> set[Mark]:
    """Marks of everything in weft's section of any file."""
    marks = (Mark.parse(d.mark) for file in files.read.values() for d in file.weft)
    return {m for m in marks if m is not None}


def base_section(
    files: Files, master: str, wanted: Mapping[Mark, SegmentSpec], known: Mapping[Mark, bool]
) -> Base:
    """What weft's section must contain before a change, by the rules in the module's docstring; `wanted` and `known`
    are those of `SegmentLedger`, read after the files were."""
    over = {m.text() for m, ended in known.items() if ended}
    asked = {m.text(): spec for m, spec in wanted.items()}
    mine = section_of(files.read[master])
    section: Section = {k: d for k, d in mine.items() if d.mark not in over}
    marks = {d.mark for d in section.values()} | {m.text() for m in known} | asked.keys()
    foreign = foreign_keys(files)
    for name in sorted(files.read.keys() - {master}):
        for document in files.read[name].weft:
            if document.pkey in section or document.mark in marks:
                continue
            if document.pkey not in foreign:
                section[document.pkey] = document
                marks.add(document.mark)
    unknown = {g: d.pkey for d in section.values() if d.mark not in asked for g in d.members}
    restored: list[WeftPartitionDocument] = []
    problems: list[str] = []
    there = {(d.mark, d.pkey) for d in section.values()}
    # An old file may have it under a P_Key that it no longer has.
    missing = ((mark, DesiredPartition.of(s)) for mark, s in asked.items() if (mark, s.number) not in there)
    for mark, spec in sorted(missing, key=lambda item: item[1].pkey):
        document = WeftPartitionDocument(pkey=spec.pkey, mark=mark, members=spec.members)
        if why := _why_not(document, section, unknown, foreign):
            problems.append(
                f"partition {format_pkey(spec.pkey)} ({mark}) is missing and is not restored: {why}"
            )
            continue
        section[spec.pkey] = document
        restored.append(document)
    return Base(
        files=files,
        section=section,
        wanted=frozenset(asked),
        restored=tuple(restored),
        dropped=tuple(d for d in mine.values() if d.mark in over),
        problems=tuple(problems),
    )


def _why_not(
    document: WeftPartitionDocument,
    section: Mapping[int, WeftPartitionDocument],
    unknown: Mapping[int, int],
    foreign: Mapping[int, str],
) -> str:
    """Why a lost partition can't simply be restored; empty: it can."""
    if other := section.get(document.pkey):
        return f"its P_Key is now that of {other.mark}"
    if name := foreign.get(document.pkey):
        return f"its P_Key is now defined by someone else in the file of {name}"
    taken = [g for g in document.members if g in unknown]
    if taken:
        return (
            f"port {format_guid(taken[0])} is now a member of {format_pkey(unknown[taken[0]])}, which the database"
            " doesn't know: if the database was restored, run an audit"
        )
    return ""


def foreign_keys(files: Files) -> Mapping[int, str]:
    """P_Keys (15 bits) that someone else defines -> name of the first agent in whose file."""
    found: dict[int, str] = {}
    for name, file in sorted(files.read.items(), reverse=True):
        found |= dict.fromkeys({p.pkey for p in file.configured} - {d.pkey for d in file.weft}, name)
    return found
