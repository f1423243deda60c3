"""Texts that searches compare with."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

Searched = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]
