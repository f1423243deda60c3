"""Reads numbers as C's `strtoul(text, &end, 0)` does, which OpenSM uses for its files. Pure."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
MOST = (1 << 64) - 1


def c_number(text: str) -> int | None:
    """The number that a text represents, octal with leading zeros; None: it isn't one, or something follows it.

    Not reduced to 64 bits (see `wrapped`): a caller may refuse large numbers.
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    digits = found[2]
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[:1] == "0" else 10
    return -int(digits, base) if found[1] == "-" else int(digits, base)


def wrapped(number: int) -> int:
    """A number as an unsigned one of 64 bits: negative numbers wrap around, larger ones saturate."""
    return MOST if abs(number) > MOST else number % (MOST + 1)
