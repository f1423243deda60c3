"""opensm.conf read as OpenSM reads it, as far as isolation depends on it, and which routing engine is asked for. Pure.

Follows `osm_subn_parse_conf_file`, `clean_val`, `opts_parse_*` and `osm_subn_verify_config` of OpenSM 3.3's
`opensm/osm_subnet.c`; tests compare it with `opensm -F FILE -c OUT`, which writes the options that it would run with.
Options that only NVIDIA's OpenSM has are read as upstream reads its own of the same type.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.generate.cnumber import MOST, c_number, wrapped

LINE = 1022
"""Octets of a line that OpenSM reads in one piece (`fgets(line, 1023)`); the rest is read as a line of its own."""
KEYS = frozenset({"m_key", "sm_key", "sa_key"})
_SMALL = frozenset(
    {"m_key_protection_level", "sm_priority", "cc_key_enable", "vs_key_enable", "n2n_key_enable"}
)
"""Options that are numbers of up to 255."""
_SWITCHES = frozenset(
    {"no_partition_enforcement", "allow_both_pkeys", "m_key_per_port", "sa_enhanced_trust_model"}
)
_TEXTS = frozenset({"part_enforce", "console", "allowed_sm_guids", "partition_config_file", "routing_engine"})
_SPACE = " \t\n\v\f\r"
_CONSOLES = ("off", "local", "loopback", "socket")
_ENFORCE = ("both", "in", "out", "off")


def read_opensm_conf(text: str) -> dict[str, str]:
    """Option -> value in force, of those that isolation depends on and that the file sets to something valid.

    Numbers are decimal, keys `0x…`, switches TRUE or FALSE. What isn't there has OpenSM's default.

    Args:
        text: the file's octets as Latin-1.
    """
    found: dict[str, str] = {}
    for name, value in _lines(text):
        if name in _TEXTS:
            found[name] = value
        elif name in _SWITCHES:
            found[name] = "TRUE" if value == "TRUE" else "FALSE"
        elif name in KEYS or name in _SMALL:
            number = c_number(value)
            if number is None or abs(number) > MOST:
                continue  # OpenSM logs it, and the previous value stays
            if name in KEYS:
                found[name] = f"0x{wrapped(number):016x}"
            elif wrapped(number) <= 0xFF:
                found[name] = str(wrapped(number))
    return _verified(found)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """(name, value) of each line."""
    for whole in text.split("\n"):
        for start in range(0, len(whole) + 1, LINE):
            line = f"{whole}\n"[start : start + LINE].partition("\0")[0].partition("#")[0].lstrip(" \t\n")
            ends = [i for i in (line.find(c) for c in " \t\n") if i >= 0]
            if line:
                end = min(ends, default=len(line))
                yield line[:end], _clean(line[end + 1 :])


def _clean(value: str) -> str:
    """The value without surrounding blanks, and without one pair of quotes."""
    value = value.strip(_SPACE)
    if value[:1] in ('"', "'") and value[:1] == value[-1:]:
        return value[1:-1]
    return value


def _verified(found: dict[str, str]) -> dict[str, str]:
    """The options after OpenSM's verification, which replaces impossible values by defaults, or others."""
    if int(found.get("sm_priority", "0")) > 15:
        del found["sm_priority"]
    if int(found.get("m_key_protection_level", "0")) > 3:
        found["m_key_protection_level"] = "2"
    if found.get("console", "off") not in _CONSOLES:
        del found["console"]
    if found.get("no_partition_enforcement") == "TRUE":
        found["part_enforce"] = "off"
    elif found.get("part_enforce", "both") not in _ENFORCE:
        found["part_enforce"] = "both"
    return {name: value for name, value in found.items() if value != "(null)"}
