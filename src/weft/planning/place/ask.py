"""An order as the engine sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from weft.model.localityorder import Level, SliceWithin
from weft.model.placement import PlacementRequest
from weft.planning.place.sharing import Terms
from weft.planning.place.state import NodeNeeds
from weft.planning.place.weighinput import Preferred

ANY = NodeNeeds()


@dataclass(frozen=True, slots=True)
class Ask:
    """What the engine decides about.

    Attributes:
        count: nodes, all or none; a multiple of `slice`.
        slice: groups of this many nodes stay inside one domain of `within`.
        apart_from: projects to share no leaf with; `exclusive`: share none with any other.
        near: nodes of the same pod that stay.
        failed: nodes of the pod that are replaced; their leaves come first.
        exclude: nodes that must not be chosen.
        spare: this many more nodes are held idle for the pod.
        preferences: nodes to prefer or avoid, each at a cost.
        gbps: Gb/s of each node that the uplinks of its leaf must carry for it.
        terms: its constraints on leaves, derived from the fields above.
        plain: whether only free nodes matter, and with whom it shares leaves.
    """

    pod: str
    count: int
    project: str = ""
    kind: NodeNeeds = ANY
    required: Level = "site"
    preferred: Level = "leaf"
    slice: int = 1
    apart_from: frozenset[str] = frozenset()
    near: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    spare: int = 0
    preferences: tuple[Preferred, ...] = ()
    gbps: int = 0
    exclusive: bool = False
    within: SliceWithin = "leaf"
    terms: Terms = field(init=False, repr=False, compare=False)
    plain: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Made once per ask, since every decision and commit passes it on.
        terms = Terms(self.project, self.apart_from, self.exclusive, self.gbps)
        object.__setattr__(self, "terms", terms)
        special = self.near or self.failed or self.exclude or self.spare or self.preferences or self.gbps
        level = self.count == 1 if self.required == "node" else self.count > 0 and not self.in_one_domain
        object.__setattr__(self, "plain", level and self.slice == 1 and not special)

    @property
    def in_one_domain(self) -> bool:
        """Whether one NVLink domain is tried first."""
        return self.required == "nvlink_domain" or self.preferred == "nvlink_domain"

    @property
    def held(self) -> int:
        """Nodes that it holds: those in use and the spares."""
        return self.count + self.spare

    @property
    def counted(self) -> int:
        """How many nodes it counts as in its project's limit."""
        return self.held

    @property
    def alike(self) -> tuple[object, ...]:
        """Equal for similar asks: where one doesn't fit, none of the same or a larger size does."""
        return (
            self.kind, self.slice, self.within, self.required, self.near, self.exclude, self.terms
        )  # fmt: skip

    @classmethod
    def of(cls, request: PlacementRequest) -> Self:
        """The ask of a placement request."""
        return cls(
            request.pod,
            request.count,
            request.project,
            NodeNeeds.of(request),
            request.required,
            request.preferred,
            request.slice,
            frozenset(request.apart_from),
            near=request.near,
            failed=request.exclude if request.near else (),
            exclude=request.exclude,
            spare=request.spare,
            preferences=tuple(Preferred.of(p) for p in request.preferences),
            gbps=request.bisection_gbps,
            exclusive=request.exclusive,
            within=request.slice_within,
        )
