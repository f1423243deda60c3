"""A pod's topology as a file."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from weft.model.base import Document


class TopologyFile(Document):
    """A pod's topology in one format."""

    format: str
    media_type: str
    text: str
    tag: str = Field(description="Changes whenever the text does; begins with the pod's generation.")
    left_out: Mapping[str, str] = Field(description="Name of each server that isn't in it -> why.")
