"""Certificates of agents as operators see them."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field

from weft.model.messages.documents import Coded, Sentence


class AgentCertificateView(Coded):
    """A certificate of an agent, or weft's own for agents, as it was seen last."""

    sentence: ClassVar[str] = "state"

    fabric: str = Field(description="Fabric of the site.")
    kind: Literal["agent", "own"] = Field(description="own: weft's, on the host that `name` begins with.")
    name: str = Field(description="The agent; of weft's own the host and the file.")
    serial: str | None = Field(default=None, description="Serial number, in hexadecimal; none: never seen.")
    expires_at: datetime | None = None
    seen_at: datetime | None = Field(default=None, description="When it was seen last.")
    issued_at: datetime | None = Field(default=None, description="When weft signed one for it last.")
    state: Sentence = Field(description="Whether it is renewed, or why not; empty: not looked at yet.")
