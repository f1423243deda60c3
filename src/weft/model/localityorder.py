"""How close to each other the nodes of an order are: a part of the pod file."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from weft.model.base import Document

Level = Literal["node", "nvlink_domain", "leaf", "block", "hall", "building", "site"]
LEVELS: tuple[Level, ...] = ("node", "nvlink_domain", "leaf", "block", "hall", "building", "site")
SliceWithin = Literal["leaf", "nvlink_domain", "whole_nvlink_domain"]

ProjectRef = Annotated[str, StringConstraints(min_length=1, max_length=64)]
"""A project by its id in Keystone; operators may use its name."""


class Preference(Document):
    """Nodes that an order prefers or avoids: a cost that is weighed against using more leaves and blocks."""

    kind: Literal["node", "rack", "nvlink_domain", "leaf", "block", "label", "accelerator"] = Field(
        description="Type of the object named by `name`."
    )
    name: str = Field(
        min_length=1,
        description="Name of the node, rack, NVLink domain, leaf, block, label or accelerator type.",
    )
    cost: int = Field(
        ge=-1_000_000,
        le=1_000_000,
        description="Cost per matching node, in thousandths of a leaf: positive to avoid, negative to prefer.",
    )


class LocalityOrder(Document):
    """How close to each other the nodes must be, and should be."""

    required: Level = Field(
        default="site",
        description="All nodes must be within one domain of this level, or the order is refused.",
    )
    preferred: Level = Field(
        default="leaf",
        description="Level that is tried first; never a reason to refuse the order. Default: leaf, or `required` if "
        "that is nearer.",
    )
    slice: int = Field(
        default=1,
        ge=1,
        le=10_000,
        description="Nodes are assigned in groups of this size, each within one domain of `slice_within`; "
        "`nodes.count` must be a multiple.",
    )
    slice_within: SliceWithin = Field(
        default="leaf",
        description="leaf: each group is on one leaf. nvlink_domain: each is within one NVLink domain (a segment of "
        "Slurm's topology/block). whole_nvlink_domain: each is all nodes of a domain that has exactly `slice` nodes, "
        "so that no other pod is in it.",
    )
    file: bool = Field(
        default=False,
        description="cloud-init writes each server's own location to /etc/weft/locality.env when the server is "
        "created: switches above it, NVLink domain, P_Key.",
    )
    exclusive: bool = Field(
        default=False,
        description="The pod shares its leaves with no other project: it is placed on leaves without any, and none is "
        "placed there during its lifetime.",
    )
    apart_from: tuple[ProjectRef, ...] = Field(
        default=(),
        max_length=64,
        description="Ids of projects that the pod shares no leaf with, in both directions; operators may use names.",
    )
    preferences: tuple[Preference, ...] = Field(
        default=(), max_length=64, description="Nodes to prefer or avoid, with a cost."
    )

    @model_validator(mode="before")
    @classmethod
    def _prefer_what_is_required(cls, given: Any) -> Any:
        """The default of `preferred` is never wider than `required`."""
        if isinstance(given, dict) and given.get("required") in ("node", "nvlink_domain"):
            return {"preferred": given["required"], **given}
        return given

    @model_validator(mode="after")
    def _groups_are_of_several(self) -> Self:
        if self.slice_within != "leaf" and self.slice == 1:
            raise ValueError(
                f"slice_within {self.slice_within} needs slice: the number of nodes of each group"
            )
        return self

    @model_validator(mode="after")
    def _preferred_is_nearer(self) -> Self:
        if LEVELS.index(self.preferred) > LEVELS.index(self.required):
            raise ValueError(
                f"preferred ({self.preferred}) must not be wider than required ({self.required})"
            )
        return self
