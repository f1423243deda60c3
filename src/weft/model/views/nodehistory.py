"""The history of a node as the API shows it."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from weft.model.base import Document
from weft.model.messages.documents import Coded, Sentence

MOST_ENTRIES = 1000
"""Entries of one answer."""


class NodeHistoryEntry(Coded):
    """One thing that happened to a node."""

    sentence: ClassVar[str] = "message"

    sequence: int
    at: datetime
    type: str = Field(description="pod, replacement, failure, check, report, hold, drain or quarantine.")
    message: Sentence
    by: str = Field(default="", description="User, by name; empty: weft.")
    pod: str | None = None
    project_id: str | None = None


class NodeHistory(Document):
    """What happened to a node, the newest first."""

    node: str = Field(
        description="Name of the node, by which the history is kept. Exchanged parts aren't recorded."
    )
    in_site: bool = Field(description="Whether the active site has a node of this name.")
    kept: str = Field(description="How long entries are kept: `retention.node_history` of the site.")
    entries: tuple[NodeHistoryEntry, ...]
    next: int | None = Field(default=None, description="`before` of the next page; null on the last one.")
