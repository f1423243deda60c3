"""Ranges of numbers that weft may allocate: P_Keys and VLANs."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from weft.model.base import Document


def _number(value: Any) -> Any:
    """P_Keys are usually written in hex: `0x65` is 101. `0101` may be meant as hex, octal or decimal."""
    text = value.strip() if isinstance(value, str) else ""
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,8}", text):
        return int(text, 16)
    if re.fullmatch(r"[+-]?0[0-9]+|[0-9]+(_[0-9]+)+", text):
        raise ValueError("a number in decimal without zeros in front, or in hex with 0x")
    return value


Number = Annotated[int, BeforeValidator(_number)]


class Range(Document):
    """An inclusive range of numbers, decimal or in hex with 0x."""

    first: Number = Field(ge=1, description="First number of the range.")
    last: Number = Field(ge=1, description="Last number of the range (inclusive).")

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.first <= number <= self.last

    def numbers(self) -> range:
        return range(self.first, self.last + 1)
