"""Ranges of numbers that weft may allocate: P_Keys and VLANs."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from weft.model.base import Document


def _number(value: Any) -> Any:
    """P_Keys are usually written in hex: `0x65` is 101."""
    if isinstance(value, str) and re.fullmatch(r"0[xX][0-9a-fA-F]{1,8}", value.strip()):
        return int(value, 16)
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
