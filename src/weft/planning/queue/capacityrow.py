"""What could be ordered of one kind of capacity, for every shape: plain values, not documents of the API."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.localityorder import Level
from weft.model.site import AcceleratorCount


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest order that fits now.

    Attributes:
        count: its size, in the unit of the row's orders; 0: none.
        level: within one domain of this level; None: the shape has no levels.
        flavor: of each server; None: any.
        accelerators: of each server of that flavor.
        where: a domain where it fits; for operators.
    """

    count: int
    level: Level | None = None
    flavor: str | None = None
    accelerators: int | None = None
    where: str = ""


@dataclass(frozen=True, slots=True)
class Soon:
    """When an order of this size will fit, if no lease is extended; `at` in seconds of the caller's clock."""

    count: int
    at: float
    level: Level | None = None


@dataclass(frozen=True, slots=True)
class RowLimit:
    """Another number that limits orders from a row's capacity.

    Attributes:
        name: of what, in the plural, such as `Poplar servers`.
        each: how many nodes each of them has; None: they have none.
        total: None: not counted.
        free: for the whole duration; None: that doesn't apply.
    """

    name: str
    total: int | None = None
    free: int | None = None
    each: int | None = None


@dataclass(frozen=True, slots=True)
class CapacityRow:
    """One kind of capacity in one place.

    Attributes:
        shape: name of the shape.
        cloud: by its name in the site.
        place: a fabric, an IPU-POD …; `place_kind`: which of them, for people.
        unit: what `total` and `free` count, for people, in the plural.
        accelerators: of each unit; None: any.
        free: for the whole duration.
        orders: what sizes count, for people, in the plural.
    """

    shape: str
    cloud: str
    place_kind: str
    place: str
    unit: str
    accelerators: AcceleratorCount | None
    total: int
    free: int
    orders: str
    largest: tuple[Largest, ...]
    soon: tuple[Soon, ...] = ()
    counts: tuple[RowLimit, ...] = ()
