"""partitions.conf read as OpenSM reads it, line by line, with a `LineProblem` for what it rejects or silently accepts.

Follows `opensm/osm_prtn_config.c` of OpenSM 3.3: `osm_prtn_config_parse_file` (lines, comments, `;`),
`parse_part_conf` (header and members), `partition_add_flag` and `partition_add_port` (words compared by their
beginning), and `osm_prtn_make_new` of `osm_prtn.c` (keys and names).

OpenSM splits its one-line buffer in place, and the buffer may still hold the end of a longer, earlier line: a `;` at
the beginning of a line, or behind a multicast group without flags, makes it continue there. The result depends on that
rest, so such a line is fatal here. So is a name without a key: OpenSM also looks for it among partitions of earlier
files. `weft.generate.partitions_conf` is the public interface; this module is its parser. Tests compare it with OpenSM.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from ipaddress import IPv6Address

from weft.generate.cnumber import c_number, wrapped
from weft.model.fabrictypes import Mode
from weft.model.ids import DEFAULT_PKEY
from weft.model.mark import Mark

MAX_LINE = 4094
"""Octets of a physical line, the newline included, that OpenSM reads in one piece (`fgets(line, 4095)`)."""
ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS, SELF = "ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF"
_GROUPS = (ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS, SELF)
_SPACE = " \t\n"


@dataclass(frozen=True, slots=True)
class LineProblem:
    """Something wrong in a file. `fatal`: nothing may be written until it is corrected."""

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
    """Parser state: the open definition, and everything read so far."""

    ours: range
    definitions: list[Definition] = field(default_factory=list[Definition])
    problems: list[LineProblem] = field(default_factory=list[LineProblem])
    marks: dict[int, Mark] = field(default_factory=dict[int, Mark])
    open: bool = False
    last_mark: Mark | None = None
    default: Mode = Mode.LIMITED

    def say(self, line: int, text: str, fatal: bool) -> None:
        """Note a finding; in weft's own section each is fatal."""
        self.problems.append(LineProblem(line, text, fatal or line in self.ours))

    def line(self, number: int, line: str) -> None:
        if len(line) + 1 > MAX_LINE:
            self.say(number, f"longer than {MAX_LINE} octets: OpenSM would break it apart", True)
        content, _, comment = line.partition("#")
        if "\r" in content or "\0" in content:
            self.say(number, "a carriage return or zero octet, which OpenSM can't parse", True)
        if comment and not content.strip(_SPACE):
            self.last_mark = Mark.parse(comment.strip()) or self.last_mark
        pieces = content.split(";")
        for index, piece in enumerate(pieces):
            ends = index < len(pieces) - 1
            if not piece.strip(_SPACE):
                if ends:
                    self.say(
                        number, "a lone ';', with nothing before it on its line: OpenSM misreads it", True
                    )
                    self.open = False
                continue
            self._piece(number, piece, ends)
            if ends:
                self.open = False

    def finish(self, text: str) -> None:
        """Note what is wrong at the end of the text."""
        if self.open:
            self.say(text.count("\n") + 1, "the last definition has no ';' at its end", False)
        if not self.definitions:
            self.say(1, "no partition is defined: OpenSM takes that as an error and opens every port", True)

    def _piece(self, number: int, piece: str, ends: bool) -> None:
        ours = number in self.ours
        if self.open and ours and not self.definitions[-1].ours:
            self.say(number, "the definition before weft's section has no ';' at its end", True)
        if not self.open:
            header, colon, piece = piece.partition(":")
            if not colon:
                self.say(number, f"no ':' after {header.strip(_SPACE)[:40]!r}: not a partition", True)
                return
            self._header(number, header)
        self._members(number, piece, ends)

    def _header(self, number: int, header: str) -> None:
        naming, *flags = header.split(",")
        name, key = _token(naming)
        if key is None and "0" <= name[:1] <= "9":
            name, key = "", name
        self.default = Mode.LIMITED
        for flag in flags:
            word, value = _token(flag)
            if word and "defmember".startswith(word):
                self._default_membership(number, value)
            elif word == "indx0":
                said = (
                    "indx0: OpenSM may take the default partition's key out of a member's table: leave it out"
                )
                self.say(number, said, False)
        pkey = self._key(number, name, key)
        ours = number in self.ours
        self.definitions.append(Definition(number, name, pkey, ours))
        if ours and self.last_mark is not None:
            self.marks[number] = self.last_mark
        self.last_mark = None
        self.open = True

    def _key(self, number: int, name: str, key: str | None) -> int | None:
        """The P_Key of a definition; None: OpenSM rejects it, or chooses one."""
        pkey = 0
        if key is not None:
            value = _number(key)
            if value is None:
                self.say(number, f"P_Key {key!r} is not a number", True)
                return None
            if value > 0xFFFF:
                self.say(number, f"P_Key {key} has more than 16 bits", True)
            pkey = value & 0x7FFF
        if (
            not pkey
            and name == "Default"
            and not any(d.name == name and d.pkey != DEFAULT_PKEY for d in self.definitions)
        ):
            pkey = DEFAULT_PKEY
        if not pkey:
            # OpenSM also looks for the name among partitions of files that it read before, which aren't known here.
            said = f"partition {name!r} has no P_Key: OpenSM would choose one, maybe one of weft's"
            self.say(number, said, True)
            return None
        return pkey

    def _default_membership(self, number: int, word: str | None) -> None:
        """OpenSM ignores a flag whose value is none of the three words."""
        if word is None or _mode(word) is None:
            self.say(number, f"defmember {word!r} is none of full, limited and both: OpenSM skips it", False)
        else:
            self.default = self._membership(number, word)

    def _membership(self, number: int, word: str) -> Mode:
        if word not in ("full", "limited", "both"):
            self.say(number, f"membership {word!r} is none of full, limited and both", False)
        return _mode(word) or Mode.LIMITED

    def _members(self, number: int, piece: str, ends: bool) -> None:
        members: list[tuple[int | str, Mode]] = []
        tokens = piece.split(",")
        for index, token in enumerate(tokens):
            name, word = _token(token)
            if name == "mgid":
                self._multicast(number, word, flags=index < len(tokens) - 1, ends=ends)
                break  # the rest of the line describes the multicast group
            if not name or "NONE".startswith(name):
                continue
            membership = self.default if word is None else self._membership(number, word)
            group = next((g for g in _GROUPS if g.startswith(name)), None)
            if group is not None:
                if name not in _GROUPS:
                    self.say(number, f"{name!r} is taken for {group}", False)
                members.append((group, membership))
            elif guid := _number(name):
                members.append((guid, membership))
            else:
                self.say(number, f"{name[:40]!r} is neither a GUID nor a group of ports", True)
        last = self.definitions[-1]
        self.definitions[-1] = replace(last, members=(*last.members, *members))

    def _multicast(self, number: int, word: str | None, flags: bool, ends: bool) -> None:
        """Check the address of a multicast group. Args: flags: whether something follows it on its line; ends: whether
        a `;` does."""
        if word is None:
            self.say(number, "mgid without an address: OpenSM crashes", True)
        elif not _is_multicast(word):
            said = f"mgid {word[:50]!r} is no multicast address: OpenSM leaves the group out"
            self.say(number, said, flags and ends)
        elif ends and not flags:
            self.say(number, "a ';' behind a multicast group without flags, which OpenSM misreads", True)


@lru_cache(maxsize=1 << 15)
def _token(text: str) -> tuple[str, str | None]:
    """(name, value) of `name=value`; the value is None without a `=`."""
    name, has_value, value = text.partition("=")
    return name.strip(_SPACE), value.strip(_SPACE) if has_value else None


def _mode(word: str) -> Mode | None:
    """`strncmp(word, "full", strlen(word))`: any prefix of a word, even an empty one; None: of none of the three."""
    if "full".startswith(word) or "both".startswith(word):
        return Mode.FULL
    return Mode.LIMITED if "limited".startswith(word) else None


@lru_cache(maxsize=1 << 15)  # the same GUIDs are read again and again
def _number(text: str) -> int | None:
    """The number in 64 bits; None: it isn't one."""
    number = c_number(text)
    return None if number is None else wrapped(number)


def _is_multicast(text: str) -> bool:
    """Whether `inet_pton` accepts it as an IPv6 address that begins with 0xff."""
    try:
        return "%" not in text and IPv6Address(text).packed[0] == 0xFF
    except ValueError:
        return False
