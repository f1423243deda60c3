"""Offers: what would make a refused order fit. People read `message`; programs apply `changes`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, cast

from pydantic import Field, computed_field, model_validator

from weft.model.base import Document
from weft.model.ids import Name
from weft.model.order import Order

Value = bool | int | str | tuple[str, ...] | None
"""A value of an order's field; None: the field is omitted."""


class OfferedChange(Document):
    """Another value of a field of the order."""

    field: str = Field(description="Path in the order, such as `nodes.count`.")
    was: Value = Field(description="Value in the refused order; null: omitted.")
    becomes: Value = Field(description="Value with which it would fit; null: omit the field.")

    @property
    def words(self) -> str:
        """`nodes.count: 3 instead of 4`."""
        return f"{self.field}: {_text(self.becomes)} instead of {_text(self.was)}"


class OfferedTime(Document):
    """Another start or end of the lease."""

    field: Literal["lease.start", "lease.end"]
    was: datetime | None = Field(description="Start or end of the refused order; null: it has none.")
    becomes: datetime = Field(description="The earliest start, or the latest end.")

    @property
    def words(self) -> str:
        """`lease.start: fits from 2027-01-31T18:00Z`."""
        time = self.becomes.strftime("%Y-%m-%dT%H:%MZ")
        return f"{self.field}: " + (
            f"fits from {time}" if self.field == "lease.start" else f"{time} at the latest"
        )


class _Offered(Document):
    """What all kinds share: `message` is sent with the values and is ignored when an offer is read."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The offer as the end of "fits with": a value to change, or what must happen first."""
        ...

    @computed_field(description="The offer in words.")
    @property
    def message(self) -> str:
        return self.words

    @model_validator(mode="before")
    @classmethod
    def _without_message(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {name: value for name, value in cast(Mapping[str, Any], given).items() if name != "message"}


class FieldsOffer(_Offered):
    """Other values of the order's fields, all changed together."""

    kind: Literal["fields"] = "fields"
    changes: tuple[OfferedChange, ...] = Field(min_length=1)

    @property
    def words(self) -> str:
        return ", and ".join(change.words for change in self.changes)


class NeighboursOffer(_Offered):
    """Other values of fields that keep a pod away from some projects: they show which of them are there."""

    kind: Literal["neighbours"] = "neighbours"
    changes: tuple[OfferedChange, ...] = Field(min_length=1)

    @property
    def words(self) -> str:
        return ", and ".join(f"{c.field}: without {_text(_less(c.was, c.becomes))}" for c in self.changes)


class LeaseOffer(_Offered):
    """Another start or end."""

    kind: Literal["lease"] = "lease"
    changes: tuple[OfferedTime, ...] = Field(min_length=1, max_length=1)

    @property
    def words(self) -> str:
        return self.changes[0].words


class BootOffer(_Offered):
    """Another image or flavor, which more hosts can boot; which one is the tenant's choice."""

    kind: Literal["boot"] = "boot"
    fields: tuple[str, ...] = ("nodes.image", "nodes.flavor")
    nodes: int | None = Field(default=None, description="Further nodes that could boot it; operators only.")

    @property
    def words(self) -> str:
        more = f", which can boot on {self.nodes} more nodes" if self.nodes else ""
        return f"{', '.join(self.fields)}: others{more}"


class NewPodOffer(_Offered):
    """Another pod: this field can't be changed on one that exists."""

    kind: Literal["new_pod"] = "new_pod"
    field: str = Field(description="Path in the order, such as `network.rdma`: a larger one is needed.")

    @property
    def words(self) -> str:
        return f"a new pod, with a larger {self.field}"


class ReleaseOffer(_Offered):
    """The release of other pods."""

    kind: Literal["release"] = "release"
    pod: str | None = Field(default=None, description="A pod whose release is enough; null: several pods.")
    nodes: int | None = Field(default=None, description="Nodes that it holds.")

    @property
    def words(self) -> str:
        if self.pod is None:
            return "when several of the current pods are released"
        held = "" if self.nodes is None else f" ({self.nodes} node{'' if self.nodes == 1 else 's'})"
        return f"when pod {self.pod}{held} is released"


class ClearOffer(_Offered):
    """The end of quarantines."""

    kind: Literal["clear"] = "clear"
    node: Name | None = Field(default=None, description="A node that is enough; null: all of them.")
    reason: str = Field(default="", description="Why that node is in quarantine.")
    nodes: int = Field(ge=1, description="Nodes in quarantine.")

    @property
    def words(self) -> str:
        if self.node is None:
            return f"when the {self.nodes} quarantined nodes are cleared"
        return f"when {self.node} leaves quarantine ({self.reason})"


class ExclusionsOffer(_Offered):
    """Nodes that weft itself excluded from the choice."""

    kind: Literal["exclusions"] = "exclusions"
    nodes: int = Field(ge=1, description="How many.")

    @property
    def words(self) -> str:
        return f"when the {self.nodes} nodes that are excluded may be used"


class NumbersOffer(_Offered):
    """Free VLANs, P_Keys or addresses where all of a range are in use."""

    kind: Literal["numbers"] = "numbers"

    @property
    def words(self) -> str:
        return "any order, once a pod there is released or the operator widens the range"


class LaterOffer(_Offered):
    """The same order at a later time that is not known: what a tenant sees of offers about others."""

    kind: Literal["later"] = "later"

    @property
    def words(self) -> str:
        return "later, when other nodes have become free"


Offer = Annotated[
    FieldsOffer
    | NeighboursOffer
    | LeaseOffer
    | BootOffer
    | NewPodOffer
    | ReleaseOffer
    | ClearOffer
    | ExclusionsOffer
    | NumbersOffer
    | LaterOffer,
    Field(discriminator="kind"),
]


def offered(field: str, was: Value, becomes: Value) -> FieldsOffer:
    """Another value of one field."""
    return FieldsOffer(changes=(OfferedChange(field=field, was=was, becomes=becomes),))


def fields_of(offer: Offer) -> tuple[str, ...]:
    """Paths of the order's fields that the offer is about; none: it is about something else."""
    match offer:
        case FieldsOffer() | NeighboursOffer() | LeaseOffer():
            return tuple(change.field for change in offer.changes)
        case BootOffer():
            return offer.fields
        case NewPodOffer():
            return (offer.field,)
        case _:
            return ()


def can_apply(offer: Offer) -> bool:
    """Whether `applied` can do what is offered."""
    return isinstance(offer, FieldsOffer | NeighboursOffer | LeaseOffer)


def applied(order: Order, offer: Offer) -> Order:
    """The order with the changes that are offered; what else it says is unchanged.

    Raises `ValueError` for an offer that leaves a choice, or that no change of the order makes, and for one that was
    made for another order: a field no longer has the value that it had.
    """
    if not isinstance(offer, FieldsOffer | NeighboursOffer | LeaseOffer):
        raise ValueError(f"no change of the order does this: {offer.message}")
    document = order.model_dump(mode="json")
    for change in offer.changes:
        section, name = _place(document, change.field)
        if isinstance(change, OfferedTime):
            section[name] = change.becomes.isoformat()
            if name == "end":
                section["duration"] = None  # an order has either
            continue
        if section[name] != _plain(change.was):
            raise ValueError(f"{change.field} is {_text(section[name])}, not {_text(change.was)}")
        section[name] = _plain(change.becomes)
    return Order.model_validate(document)


def _place(document: dict[str, Any], field: str) -> tuple[dict[str, Any], str]:
    """The section that has a field, and its name there. Raises `ValueError` for a path that no order has."""
    *path, name = field.split(".")
    section: Any = document
    for part in path:
        section = section.get(part) if isinstance(section, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(section, dict) or name not in section:
        raise ValueError(f"the order has no field {field}")
    return cast(dict[str, Any], section), name


def _less(was: Value, becomes: Value) -> Value:
    """The entries of a list that a change removes; anything else: the value before it."""
    left = becomes if isinstance(becomes, tuple) else ()
    return tuple(x for x in was if x not in left) if isinstance(was, tuple) else was


def _plain(value: Value) -> Any:
    """A tuple as a list, other values unchanged."""
    return list(value) if isinstance(value, tuple) else value


def _text(value: object) -> str:
    match value:
        case None:
            return "omitted"
        case bool():
            return "true" if value else "false"
        case tuple() | list():
            return ", ".join(map(str, cast(list[object], value))) or "none"
        case datetime():
            return value.isoformat()
        case _:
            return str(value)
