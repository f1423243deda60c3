"""What a changed order makes different: fields, nodes and resources. A document that doors show; stored nowhere."""

from __future__ import annotations

from pydantic import Field

from weft.model.base import Document
from weft.model.resources import Resource


class FieldChange(Document):
    """A field of the order."""

    field: str
    was: str
    becomes: str


class SpecChange(Document):
    """A field of a resource that stays, changed in place."""

    key: str
    field: str
    was: str
    becomes: str


class Impossible(Document):
    """A field that can't be changed while the pod is there."""

    field: str
    value: str = Field(description="What the order says.")
    was: str = Field(description="What the pod has.")
    allowed: str = Field(description="Why it stays so, and what to do instead: the end of a sentence.")


class PodChange(Document):
    """The difference between what a pod is and what an order wants of it."""

    generation: int = Field(
        ge=1, description="Generation that this would be; the one in force if nothing is to be done."
    )
    fields: tuple[FieldChange, ...] = ()
    nodes_added: tuple[str, ...] = Field(default=(), description="Spares included.")
    nodes_removed: tuple[str, ...] = Field(
        default=(), description="Given back once they were read back clean."
    )
    spares_used: tuple[str, ...] = Field(default=(), description="Spares of the pod that become nodes.")
    added: tuple[str, ...] = Field(default=(), description="Keys of resources that would be created.")
    removed: tuple[Resource, ...] = Field(default=(), description="What would be removed, as it was planned.")
    changed: tuple[SpecChange, ...] = ()
    impossible: tuple[Impossible, ...] = Field(
        default=(),
        description="The difference is shown without them; an order with any of them is not taken.",
    )

    @property
    def nothing(self) -> bool:
        """Whether the pod is as the order wants it."""
        return not (self.fields or self.impossible or self.nodes_added or self.nodes_removed)
