"""OpenSM's partitions.conf: read as OpenSM reads it, checked where OpenSM is silent, and written strictly.

The file is the operator's. weft owns one section of it, between two marker comments with the site's name; every
other byte stays as it was. Reading follows `opensm/osm_prtn_config.c` of OpenSM 3.3 (`parse_part_conf`,
`partition_add_port`): one physical line at a time, a header `name=0xKEY, flags :` whole on its line, members until
`;`, words compared by their beginning, the last mention of a GUID wins. Writing and checking are stricter:

- A file that OpenSM can't parse gives *every* port full membership of the default partition and drops all others.
  Such a `LineProblem` is fatal: nothing may be written beside it.
- What OpenSM silently accepts (an unknown membership word, a repeated name, a P_Key in both parts …) is fatal in
  weft's section and where it concerns weft's keys, and only reported in the operator's part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from weft.generate.partitions_grammar import ALL, ALL_CAS, SELF, Definition, LineProblem, Reader
from weft.model.errors import InputError
from weft.model.fabrictypes import Mode
from weft.model.ids import DEFAULT_PKEY, FULL_MEMBER, MAX_PKEY, format_guid, format_pkey
from weft.model.mark import Mark
from weft.model.subnet import Partition

_SITE = re.compile(r"[A-Za-z0-9._-]+\Z")


@dataclass(frozen=True, slots=True)
class WeftPartition:
    """One partition of weft's section: its key, who owns it, its members' port GUIDs (all full)."""

    pkey: int
    mark: Mark
    members: tuple[int, ...]

    @property
    def name(self) -> str:
        """Short and deterministic: OpenSM keeps 31 characters of a name."""
        return f"weft-{self.mark.owner.id[:8]}-{self.pkey:x}"


@dataclass(frozen=True, slots=True)
class PartitionsConf:
    """A whole file: its definitions, weft's partitions among them, and what is wrong with it."""

    definitions: tuple[Definition, ...]
    partitions: tuple[WeftPartition, ...]
    problems: tuple[LineProblem, ...]

    @property
    def fatal(self) -> tuple[LineProblem, ...]:
        """Findings for which OpenSM would reject the file."""
        return tuple(p for p in self.problems if p.fatal)

    def configured(self) -> Mapping[int, Partition]:
        """P_Key -> partition with its explicit GUIDs, merged as OpenSM merges repeated definitions.

        Every host port is a member of the default partition, whatever the file says.
        """
        merged = {DEFAULT_PKEY: Partition(DEFAULT_PKEY, "Default", everybody=True)}
        for d in self.definitions:
            if d.pkey is None:
                continue
            old = merged.get(d.pkey) or Partition(d.pkey, d.name)
            guids = {g: m for g, m in d.members if isinstance(g, int)}
            everybody = old.everybody or any(who in (ALL, ALL_CAS) for who, _ in d.members)
            merged[d.pkey] = replace(old, members={**old.members, **guids}, everybody=everybody)
        return merged

    def expected(self, hosts: Iterable[int], managers: Iterable[int]) -> dict[int, frozenset[int]]:
        """Host port GUID -> the exact 16-bit keys that its table should have.

        Args:
            hosts: port GUIDs of the fabric's host ports.
            managers: port GUID of the active subnet manager (SELF; always a full member of the default).
        """
        tables: dict[int, dict[int, Mode]] = {g: {DEFAULT_PKEY: Mode.LIMITED} for g in hosts}
        active = [g for g in managers if g in tables]
        for guid in active:
            tables[guid][DEFAULT_PKEY] = Mode.FULL
        for definition in self.definitions:
            if definition.pkey is None:
                continue
            for who, membership in definition.members:
                if isinstance(who, int):
                    chosen: Iterable[int] = (who,) if who in tables else ()
                elif who == SELF:
                    chosen = active
                else:
                    chosen = tables if who in (ALL, ALL_CAS) else ()
                for guid in chosen:
                    tables[guid][definition.pkey] = membership
        return {
            guid: frozenset(k | (FULL_MEMBER if m is Mode.FULL else 0) for k, m in keys.items())
            for guid, keys in tables.items()
        }


def begin_marker(site: str) -> str:
    """The line before weft's section of a site."""
    return f"# BEGIN weft site={site}: written by weft, changes made here by hand are lost"


def end_marker(site: str) -> str:
    """The line after weft's section of a site."""
    return f"# END weft site={site}"


def render_section(site: str, partitions: Iterable[WeftPartition]) -> str:
    """weft's section with its markers; sorted by key and GUID, one GUID a line, so that equal sets are equal text.

    Raises:
        InputError: a key or GUID that can't be, or a key given twice.
    """
    if not _SITE.match(site):
        raise InputError("site", site, "letters, digits, '.', '_' and '-'")
    lines = [begin_marker(site)]
    ordered = sorted(partitions, key=lambda p: p.pkey)
    for before, after in pairwise(ordered):
        if before.pkey == after.pkey:
            raise InputError("partitions", format_pkey(after.pkey), "each P_Key once")
    for partition in ordered:
        if not 1 <= partition.pkey <= MAX_PKEY:
            raise InputError("pkey", format_pkey(partition.pkey), "0x1 to 0x7ffe")
        if any(not 0 < g < 1 << 64 for g in partition.members):
            raise InputError("members", partition.members, "GUIDs of 64 bits, not zero")
        if Mark.parse(partition.mark.text()) != partition.mark or not partition.mark.text().isprintable():
            raise InputError("mark", partition.mark.text(), "one line of printable text that reads back")
        members = [f"{format_guid(g)}=full" for g in sorted(set(partition.members))] or ["NONE"]
        lines += [
            f"# {partition.mark.text()}",
            f"{partition.name}={format_pkey(partition.pkey)}, ipoib :",
            *(f"{m}," for m in members[:-1]),
            f"{members[-1]};",
        ]
    return "\n".join([*lines, end_marker(site), ""])


def split(text: str, site: str) -> tuple[str, str, str]:
    """(before, weft's section, after); the section is "" if there is none.

    Raises:
        InputError: the markers aren't one pair in the right order.
    """
    # One anchored search over the whole text: a file of thousands of partitions is split at each change.
    marker = re.compile(
        rf"^[^\S\n]*#[^\S\n]*(BEGIN|END)[^\S\n]+weft[^\S\n]+site={re.escape(site)}(?=[:\s]|\Z)[^\n]*\n?",
        re.MULTILINE,
    )
    found = list(marker.finditer(text))
    words = [m[1] for m in found]
    if not words:
        return text, "", ""
    if words != ["BEGIN", "END"]:
        raise InputError(
            "partitions.conf",
            f"{words.count('BEGIN')} BEGIN and {words.count('END')} END markers of weft site={site}",
            "one BEGIN before one END: repair the file by hand",
        )
    first, last = found[0].start(), found[1].end()
    return text[:first], text[first:last], text[last:]


def replace_section(text: str, site: str, partitions: Iterable[WeftPartition]) -> str:
    """The file with weft's section replaced (or added at its end) and every other byte unchanged.

    Raises:
        InputError: as `split` and `render_section`.
    """
    before, _, after = split(text, site)
    if before and not before.endswith("\n"):
        before += "\n"
    return before + render_section(site, partitions) + after


EMPTY_FILE = """\
# weft found no partition defined here (OpenSM then opens every port) and made this line; it is yours to change.
Default=0x7fff, ipoib : ALL=limited, ALL_SWITCHES=full, SELF=full;
"""


def rewrite(text: str | None, site: str, partitions: Iterable[WeftPartition]) -> str:
    """As `replace_section`, but safe for a file that is missing (None) or defines nothing but weft's partitions.

    Without any definition, OpenSM would report an error and open every port.
    """
    text = text or ""
    if not parse("".join(split(text, site)[::2]), site).definitions:
        text = EMPTY_FILE + text
    return replace_section(text, site, partitions)


def parse(text: str, site: str) -> PartitionsConf:
    """Read a file as OpenSM does, and report what is wrong with it; never raises for a bad file.

    `text` is the file's bytes as Latin-1, newlines untouched: nothing is lost by decoding.
    """
    problems: list[LineProblem] = []
    try:
        before, section, _ = split(text, site)
        first = before.count("\n") + 1
        ours = range(first, first + section.count("\n") + 1) if section else range(0)
    except InputError as error:
        problems.append(LineProblem(1, str(error), True))
        ours = range(0)
    reader = Reader(ours)
    for number, line in enumerate(text.split("\n"), 1):
        reader.line(number, line)
    reader.finish(text)
    problems += reader.problems
    problems += _across(reader.definitions)
    partitions = _owned(reader, problems)
    ordered = sorted(set(problems), key=lambda p: (p.line, p.text))
    return PartitionsConf(tuple(reader.definitions), partitions, tuple(ordered))


def _across(definitions: Sequence[Definition]) -> list[LineProblem]:
    """Findings from comparing definitions: names and keys given twice."""
    problems: list[LineProblem] = []
    names: dict[str, Definition] = {}
    keys: dict[int, Definition] = {}
    for d in definitions:
        other = names.setdefault(d.name, d) if d.name else d
        if other is not d and other.pkey != d.pkey:
            problems.append(
                LineProblem(
                    d.line, f"name {d.name!r} is also that of line {other.line}", d.ours or other.ours
                )
            )
        if d.pkey is None:
            continue
        other = keys.setdefault(d.pkey, d)
        if other is not d and (d.ours or other.ours):
            where = (
                "in weft's section and outside of it" if d.ours != other.ours else "twice in weft's section"
            )
            problems.append(
                LineProblem(
                    d.line, f"P_Key {format_pkey(d.pkey)} is defined {where} (also line {other.line})", True
                )
            )
    return problems


def _owned(reader: Reader, problems: list[LineProblem]) -> tuple[WeftPartition, ...]:
    """weft's partitions; anything in its section that weft wouldn't write is a problem (a manual edit)."""
    owned: list[WeftPartition] = []
    for d in reader.definitions:
        if not d.ours or d.pkey is None:
            continue
        mark = reader.marks.get(d.line)
        if mark is None:
            problems.append(
                LineProblem(d.line, f"{d.name or format_pkey(d.pkey)} in weft's section has no mark", False)
            )
            continue
        strange = [f"{_who(w)}={m}" for w, m in d.members if not isinstance(w, int) or m is not Mode.FULL]
        if strange:
            problems.append(
                LineProblem(
                    d.line,
                    f"{d.name} in weft's section has members that weft doesn't write: {strange}",
                    False,
                )
            )
        owned.append(
            WeftPartition(d.pkey, mark, tuple(sorted({w for w, _ in d.members if isinstance(w, int)})))
        )
    return tuple(sorted(owned, key=lambda p: p.pkey))


def _who(who: int | str) -> str:
    return format_guid(who) if isinstance(who, int) else who
