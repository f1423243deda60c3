"""What every document that crosses a file or a wire has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A frozen value with a JSON Schema; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)
