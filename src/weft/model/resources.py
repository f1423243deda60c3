"""The resources that a pod is a graph of.

A `Resource` is wanted; an `Observed` was seen; an `Outcome` is what an attempt gave: three different types, so
that none can be taken for another. References to other resources are their keys; the loop swaps them for the ids
that the cloud gave (`ids` in `weft.ports.resources`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, cast

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, SerializeAsAny
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from weft.model.base import Document
from weft.model.errors import WeftError
from weft.model.kinds import AnyKind, Kind, kind_named, kind_of
from weft.model.owner import Owner
from weft.model.specs import (
    FloatingIPSpec,
    Ingress,
    KeyPairSpec,
    NetworkSpec,
    PortSpec,
    RouterSpec,
    SecurityGroupSpec,
    SegmentSpec,
    ServerSpec,
    Spec,
    SubnetSpec,
    VipuAgentSpec,
    VipuAllocationSpec,
    VipuClusterSpec,
    VipuNamedSpec,
    VipuSpec,
    VipuUserSpec,
)

__all__ = [
    "AnyKind",
    "Difference",
    "FloatingIPSpec",
    "Graph",
    "Ingress",
    "KeyPairSpec",
    "Kind",
    "Marked",
    "NetworkSpec",
    "Observed",
    "Outcome",
    "PortSpec",
    "Resource",
    "RouterSpec",
    "SecurityGroupSpec",
    "SegmentSpec",
    "ServerSpec",
    "Spec",
    "Status",
    "SubnetSpec",
    "VipuAgentSpec",
    "VipuAllocationSpec",
    "VipuClusterSpec",
    "VipuNamedSpec",
    "VipuSpec",
    "VipuUserSpec",
]


def _read_spec(value: object) -> object:
    """A spec as its kind's class reads it."""
    if isinstance(value, Spec) or not isinstance(value, dict):
        return value
    name = cast(dict[str, object], value).get("kind")
    kind = kind_named(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError("a spec of a kind of resource that this weft has")
    return kind.row.spec.model_validate(value)


class _EveryKind:
    """The JSON Schema of a spec: one of those in the tables."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        known = {str(kind): kind.row.spec.__pydantic_core_schema__ for kind in Kind}
        return handler(core_schema.tagged_union_schema(known, discriminator="kind"))


AnySpec = Annotated[SerializeAsAny[Spec], BeforeValidator(_read_spec), _EveryKind]
"""A spec of any kind."""


class Resource(Document):
    """One node of a pod's graph, as wanted."""

    key: str = Field(description="Unique in the pod, such as `port/gpu01/mlx5_0`.")
    name: str = Field(description="Deterministic name outside, such as `weft-1f0c9a3b-port-gpu01-mlx5_0`.")
    where: str = Field(description="Name of the cloud or the fabric that it lives in.")
    owner: Literal["tenant", "site"] = Field(
        default="tenant",
        description="Whose project it is made in: the tenant's, or that of weft's service user.",
    )
    needs: tuple[str, ...] = Field(default=(), description="Keys that must be there first.")
    node: str = Field(
        default="", description="Node, or machine, that it is of; empty: it is of none, or of several."
    )
    spec: AnySpec

    @property
    def kind(self) -> AnyKind:
        return kind_of(self.spec)


class Graph(Document):
    """All resources of a pod; `resources` is sorted so that needs come first, then by key."""

    resources: tuple[Resource, ...]

    def by_key(self) -> dict[str, Resource]:
        return {r.key: r for r in self.resources}


class Difference(Document):
    """Where the thing that was seen isn't the one that is wanted."""

    field: str
    wanted: str
    observed: str


class Status(StrEnum):
    """How a thing that is there is."""

    SETTLED = "settled"
    """It is there and at rest, e.g. server ACTIVE."""
    PENDING = "pending"
    """It is on its way: look again."""
    BROKEN = "broken"
    """It is there and won't come right by waiting, e.g. server ERROR: `reason` says why."""
    ABSENT = "absent"
    """It was looked for and proved not to be there: `reason` says by what. Never the default, never inferred."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of one resource.

    Attributes:
        id: id that the cloud or fabric gave; empty if it is absent.
        status: see `Status`.
        reason: why it is pending or broken, in the outside's own words; or what proves that it is absent.
        differences: from the wanted spec; empty if exact. Only what weft wants is compared.
        facts: further values as seen, for the verifier, the user and the receipt (host, segment, address, vif…).
    """

    id: str
    status: Status = Status.SETTLED
    reason: str = ""
    differences: tuple[Difference, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def there(self) -> bool:
        return self.status is not Status.ABSENT

    @classmethod
    def absent(cls, proof: str) -> Observed:
        """Proved not to be there. `proof` is what was read, from where, for the receipt."""
        return cls("", Status.ABSENT, proof)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an attempt to create, update or delete gave: an id (accepted) or an error; never a claim that it is done.

    That something is done is only ever seen by `find`.
    """

    id: str | None = None
    error: WeftError | None = None


@dataclass(frozen=True, slots=True)
class Marked:
    """Something outside that carries weft's mark, as the audit sees it.

    Attributes:
        owner: whom the mark names; None: it names nobody.
        facts: `key`: the resource that the mark names; and what else was seen.
        created: when the outside says that it was made; None: it doesn't say.
    """

    kind: AnyKind
    where: str
    id: str
    name: str
    owner: Owner | None
    project_id: str | None
    facts: Mapping[str, object] = field(default_factory=dict)
    created: datetime | None = None
