"""partitions.conf read as OpenSM reads it, line by line, with a `Finding` for what it gets wrong or takes in silence.

Follows `opensm/osm_prtn_config.c` of OpenSM 3.3: `osm_prtn_config_parse_file` (lines, comments, `;`),
`parse_part_conf` (header and members), `partition_add_port` (words compared by their beginning).
`weft.generate.partitions_conf` is the door; this module is its reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from weft.model.fabrictypes import Mode
from weft.model.ids import DEFAULT_PKEY, FULL_MEMBER
from weft.model.mark import Mark

MAX_LINE = 4094
"""Octets of a physical line, the newline included, that OpenSM reads in one piece (`fgets(line, 4095)`)."""
ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS, SELF = "ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF"
_GROUPS = (ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS, SELF)
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[1-9][0-9]*|0[0-7]*")
_SPACE = " \t\n"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong in a file. `fatal`: nothing may be written while it stands."""

    line: int
    text: str
    fatal: bool

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Definition:
    """One definition as OpenSM takes it. `members` are (GUID or group word, membership) in order."""

    line: int
    name: str
    pkey: int | None
    ours: bool
    members: tuple[tuple[int | str, Mode], ...] = ()


@dataclass
class Reader:
    """State of reading: the definition that is open, everything read so far."""

    ours: range
    definitions: list[Definition] = field(default_factory=list[Definition])
    problems: list[Finding] = field(default_factory=list[Finding])
    marks: dict[int, Mark] = field(default_factory=dict[int, Mark])
    open: bool = False
    last_mark: Mark | None = None
    default: Mode = Mode.LIMITED

    def say(self, line: int, text: str, fatal: bool) -> None:
        self.problems.append(Finding(line, text, fatal or line in self.ours))

    def line(self, number: int, line: str) -> None:
        if len(line) + 1 > MAX_LINE:
            self.say(number, f"longer than {MAX_LINE} octets: OpenSM would break it apart", True)
        if "\r" in line or "\0" in line:
            self.say(number, "a carriage return or zero octet, which OpenSM can't parse", True)
        content, _, comment = line.partition("#")
        if comment and not content.strip(_SPACE):
            self.last_mark = Mark.parse(comment.strip()) or self.last_mark
        pieces = content.split(";")
        if (
            self.open
            and len(pieces) > 1
            and not pieces[0].strip(_SPACE)
            and "".join(pieces[1:]).strip(_SPACE)
        ):
            self.say(number, "text after a ';' at the start of a line: OpenSM misreads it", True)
        for index, piece in enumerate(pieces):
            ends = index < len(pieces) - 1
            if piece.strip(_SPACE) or (ends and self.open):
                self._piece(number, piece)
            elif ends:
                self.say(number, "a lone ';', which OpenSM can't parse", True)
            if ends and self.open:
                self.open = False

    def finish(self, text: str) -> None:
        if self.open:
            self.say(text.count("\n") + 1, "the last definition has no ';' at its end", False)
        if not self.definitions:
            self.say(1, "no partition is defined: OpenSM takes that as an error and opens every port", True)

    def _piece(self, number: int, piece: str) -> None:
        ours = number in self.ours
        if self.open and ours and not self.definitions[-1].ours:
            self.say(number, "the definition before weft's section has no ';' at its end", True)
        if not self.open:
            header, colon, piece = piece.partition(":")
            if not colon:
                self.say(number, f"no ':' after {header.strip(_SPACE)[:40]!r}: not a partition", True)
                return
            self._header(number, header)
        self._members(number, piece)

    def _header(self, number: int, header: str) -> None:
        naming, *flags = header.split(",")
        name, has_key, key = (part.strip(_SPACE) for part in naming.partition("="))
        if not has_key and name[:1].isdigit():
            name, has_key, key = "", "=", name
        pkey: int | None = None
        if has_key:
            if not _NUMBER.fullmatch(key):
                self.say(number, f"P_Key {key!r} is not a number", True)
            elif _number(key) > 0xFFFF:
                self.say(number, f"P_Key {key} has more than 16 bits", True)
            else:
                pkey = _number(key) & ~FULL_MEMBER or None
        elif name == "Default":
            pkey = DEFAULT_PKEY
        else:
            # A name that was defined before is found again; else OpenSM takes the lowest free key.
            pkey = next((d.pkey for d in self.definitions if d.name == name), None)
        if pkey is None:
            self.say(
                number, f"partition {name!r} has no P_Key: OpenSM would choose one, maybe one of weft's", True
            )
        membership = Mode.LIMITED
        for flag in flags:
            word, _, value = (part.strip(_SPACE) for part in flag.partition("="))
            if word == "defmember":
                membership = self._membership(number, value)
        self.default = membership
        ours = number in self.ours
        self.definitions.append(Definition(number, name, pkey, ours))
        if ours and self.last_mark is not None:
            self.marks[number] = self.last_mark
        self.last_mark = None
        self.open = True

    def _membership(self, number: int, word: str) -> Mode:
        if word not in ("full", "limited", "both"):
            self.say(number, f"membership {word!r} is none of full, limited and both", False)
        # `strncmp(word, "full", strlen(word))`: any beginning of the word, the empty one too.
        return Mode.FULL if "full".startswith(word) or "both".startswith(word) else Mode.LIMITED

    def _members(self, number: int, piece: str) -> None:
        members: list[tuple[int | str, Mode]] = []
        for token in piece.split(","):
            name, has_word, word = (part.strip(_SPACE) for part in token.partition("="))
            if name == "mgid":
                break  # the rest of the line describes a multicast group
            if not name or "NONE".startswith(name):
                continue
            membership = self._membership(number, word) if has_word else self.default
            group = next((g for g in _GROUPS if g.startswith(name)), None)
            if group is not None:
                if name not in _GROUPS:
                    self.say(number, f"{name!r} is taken for {group}", False)
                members.append((group, membership))
            elif _NUMBER.fullmatch(name) and 0 < _number(name) < 1 << 64:
                members.append((_number(name), membership))
            else:
                self.say(number, f"{name[:40]!r} is neither a GUID nor a group of ports", True)
        last = self.definitions[-1]
        self.definitions[-1] = replace(last, members=(*last.members, *members))


def _number(text: str) -> int:
    base = 16 if text[:2] in ("0x", "0X") else 8 if text[:1] == "0" else 10
    return int(text, base)
