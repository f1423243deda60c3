"""The difference that a changed order makes: fields, nodes and resources. Returned by the API, stored nowhere."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from weft.model.base import Document
from weft.model.messages.documents import Coded, Sentence
from weft.model.resources import Resource


class FieldChange(Document):
    """A field of the order."""

    field: str
    was: str
    becomes: str


class SpecChange(Document):
    """A field of a resource that is changed in place."""

    key: str
    field: str
    was: str
    becomes: str


class Impossible(Coded):
    """A field that can't be changed on an existing pod."""

    sentence: ClassVar[str] = "allowed"

    field: str
    value: str = Field(description="Value in the order.")
    was: str = Field(description="Value of the pod.")
    allowed: Sentence = Field(description="Why it can't be changed, and what to do instead.")


class Replacement(Document):
    """A request for another node in the place of one."""

    node: str = Field(description="Name of the node, or of the server on it.")
    by: str | None = Field(default=None, description="The node that takes its place; null: weft chooses.")
    hold: bool = Field(
        default=True,
        description="Hold the replaced node until it is accepted; false: any order may get it once clean.",
    )


class PodChange(Document):
    """The difference between a pod and an order."""

    generation: int = Field(
        ge=1,
        description="Generation that the change would create; the current one if there is nothing to do.",
    )
    fields: tuple[FieldChange, ...] = ()
    nodes_added: tuple[str, ...] = Field(
        default=(), description="Spares included; a shared node once for each server that it gets."
    )
    nodes_removed: tuple[str, ...] = Field(
        default=(),
        description="Nodes that are released once they are read back clean; a shared node once for each server that "
        "goes.",
    )
    spares_used: tuple[str, ...] = Field(
        default=(), description="Spares of the pod that become working nodes."
    )
    added: tuple[str, ...] = Field(default=(), description="Keys of resources that would be created.")
    removed: tuple[Resource, ...] = Field(default=(), description="Resources that would be removed.")
    changed: tuple[SpecChange, ...] = ()
    impossible: tuple[Impossible, ...] = Field(
        default=(),
        description="Fields that can't be changed; an order with any of them is refused. The rest of the difference "
        "ignores them.",
    )

    @property
    def coming(self) -> tuple[str, ...]:
        """Nodes that get a server, or are spares, and didn't or weren't before."""
        return (*self.spares_used, *self.nodes_added)

    @property
    def nothing(self) -> bool:
        """Whether the pod already matches the order."""
        return not (self.fields or self.impossible or self.nodes_added or self.nodes_removed)
