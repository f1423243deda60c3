"""The resources that a pod is a graph of.

A `Resource` is desired; an `Observed` was read; an `Outcome` is the result of an attempt: three types that can't be
confused. References to other resources are their keys; the loop replaces them with external ids (`ids` in
`weft.ports.resources`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, TypeVar, cast

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, SerializeAsAny
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from weft.model.base import Document
from weft.model.errors import WeftError
from weft.model.kindrow import AnyKind
from weft.model.kinds import Kind, kind_named, kind_of
from weft.model.owner import Owner
from weft.model.specs import Spec

S = TypeVar("S", bound=Spec)


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
    """The JSON Schema of a spec: any of those in the tables."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        known = {str(kind): kind.row.spec.__pydantic_core_schema__ for kind in Kind}
        return handler(core_schema.tagged_union_schema(known, discriminator="kind"))


AnySpec = Annotated[SerializeAsAny[Spec], BeforeValidator(_read_spec), _EveryKind]
"""A spec of any kind."""


class Resource(Document):
    """One node of a pod's graph, as desired."""

    key: str = Field(description="Unique in the pod, such as `port/gpu01/mlx5_0`.")
    name: str = Field(
        description="Deterministic name outside, such as `weft-1f0c9a3b-port-gpu01-mlx5_0`; of a tenant's server as "
        "the order names it, such as `train-0`."
    )
    where: str = Field(description="Name of the cloud or the fabric that it lives in.")
    owner: Literal["tenant", "site"] = Field(
        default="tenant",
        description="Project that it is created in: the tenant's, or that of weft's service user.",
    )
    needs: tuple[str, ...] = Field(default=(), description="Keys of resources that must exist first.")
    node: str = Field(
        default="", description="Node, or machine, that it belongs to; empty: none, or several."
    )
    spec: AnySpec

    @property
    def kind(self) -> AnyKind:
        """The kind that its spec belongs to."""
        return kind_of(self.spec)

    def spec_as(self, what: type[S]) -> S:
        """Its spec, which is of this class. Raises `TypeError` if it isn't."""
        if not isinstance(self.spec, what):
            raise TypeError(f"{self.key} is a {self.kind}: it has no {what.__name__}")
        return self.spec


class Graph(Document):
    """All resources of a pod; `resources` is sorted by dependencies, then by key."""

    resources: tuple[Resource, ...]

    def by_key(self) -> dict[str, Resource]:
        """Key -> resource."""
        return {r.key: r for r in self.resources}


NOTHING = Graph(resources=())


class Difference(Document):
    """A difference between observed and desired state."""

    field: str
    wanted: str
    observed: str


class Status(StrEnum):
    """State of an observed resource."""

    SETTLED = "settled"
    """It exists and is at rest, e.g. server ACTIVE."""
    PENDING = "pending"
    """It is in transition: check again."""
    BROKEN = "broken"
    """It exists, but waiting won't help, e.g. server ERROR: `reason` says why."""
    ABSENT = "absent"
    """It was looked for and proved absent: `reason` says how. Never the default, never inferred."""
    KEPT = "kept"
    """It stays, as its spec says, and no longer belongs to the owner: `reason` says where and under which name."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What was observed of one resource.

    Attributes:
        id: id in the cloud or on the fabric; empty if it is absent.
        status: see `Status`.
        reason: why it is pending or broken, as reported externally; or what proves that it is absent.
        differences: from the desired spec; empty if exact. Only what weft sets is compared.
        facts: further observed values, for the verifier, the user and the receipt (host, segment, address, vif…).
        name: the current name, for a resource that is kept.
        unread: why it could not be read, though other resources of the same batch could.
        on_its_way: seconds after a request within which its manager, which already has it as desired, may still show
            differences: until then they are no reason for another request. 0: they are a reason immediately.
    """

    id: str
    status: Status = Status.SETTLED
    reason: str = ""
    differences: tuple[Difference, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    name: str = ""
    unread: WeftError | None = None
    on_its_way: float = 0.0

    @property
    def there(self) -> bool:
        """Whether it exists and belongs to the owner."""
        return self.status not in (Status.ABSENT, Status.KEPT)

    @classmethod
    def absent(cls, proof: str) -> Observed:
        """Proved absent. `proof` says what was read, and where, for the receipt."""
        return cls("", Status.ABSENT, proof)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an attempt to create, update or delete: an id (accepted) or an error; never a claim that it is done.

    Only `find` shows that something is done.
    """

    id: str | None = None
    error: WeftError | None = None


@dataclass(frozen=True, slots=True)
class Marked:
    """An external object with weft's mark, as the audit sees it.

    Attributes:
        owner: named by the mark; None: the mark names no owner.
        facts: `key`: the resource that the mark names; and other observed values.
        created: creation time if it is reported.
        ours: whether weft's own user made it; None: the service doesn't say.
    """

    kind: AnyKind
    where: str
    id: str
    name: str
    owner: Owner | None
    project_id: str | None
    facts: Mapping[str, object] = field(default_factory=dict)
    created: datetime | None = None
    ours: bool | None = None
