"""The operator's policies: queue, leases, placement."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from weft.model.base import Document
from weft.model.ids import Duration
from weft.model.nodetests import TEST


class ProjectLimits(Document):
    """Limits of one project."""

    max_nodes: int | None = Field(
        default=None, ge=0, description="Maximum number of nodes at a time; not limited by default."
    )
    share: float | None = Field(
        default=None, gt=0, le=1e6, description="Fair share relative to other projects. Default: 1."
    )


class QueuePolicy(Document):
    """How waiting orders are served."""

    patience: Duration | None = Field(
        default=None,
        description="Longest time that an order waits for a placement on fewer leaves. Default: it starts wherever it "
        "fits.",
    )
    bookings: int = Field(
        default=1,
        ge=0,
        le=1000,
        description="Number of waiting orders per fabric that get a booking: a start that no other order can "
        "delay, or nodes that no later order gets, if no start is known because pods without an "
        "end are in the way. 0: large orders may wait forever behind small ones.",
    )
    waiting: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Maximum number of waiting orders per project, in the queue or with a booking.",
    )
    overdue_releases: int = Field(
        default=3,
        ge=1,
        le=10_000,
        description="Maximum number of a project's releases that last longer than 15 minutes, or ended with numbers "
        "still in use: it can order nothing more then, its waiting orders don't start, and its pods don't grow, until "
        "what is in the way was removed.",
    )
    half_life: Duration = Field(
        default="7d", description="Half-life of a project's past usage in the calculation of its fair share."
    )
    projects: dict[str, ProjectLimits] = Field(
        default_factory=dict,
        description="Limits by project id. If any project has a share, orders of the project that has used least of "
        "its "
        "share go first; otherwise first come, first served.",
    )


class RepairPolicy(Document):
    """What happens to nodes that fail."""

    unaccepted: int = Field(
        default=8,
        ge=1,
        le=10_000,
        description="Maximum number of nodes that members of a project had replaced and that no operator has accepted "
        "yet: further replacements are refused to them. On shared nodes, which aren't held, so many replacements by "
        "weft itself within a day, for failures that members can bring about.",
    )
    reports: int = Field(
        default=8,
        ge=0,
        le=10_000,
        description="Maximum number of nodes that a project has reported and no operator has cleared yet.",
    )
    host_down: Duration = Field(
        default="10m",
        description="After how long a host that its cloud reports as down is reported to the pods there.",
    )
    outage: int = Field(
        default=16,
        ge=1,
        le=100_000,
        description="More hosts of a cloud than this that are down, and not reported yet, count as an outage of what "
        "watches them: for a day that is reported in weft's log alone. So do more nodes of pods whose adapters a "
        "fabric doesn't show, as long as that lasts.",
    )
    server_broken: Duration = Field(
        default="10m",
        description="After how long a server that its cloud shows in an error counts as failed.",
    )
    adapter_gone: Duration = Field(
        default="10m",
        description="After how long an adapter of a running server that whole readings of its fabric don't show counts "
        "as failed; on Ethernet, one whose link went down at its switch.",
    )
    check_failed: Duration = Field(
        default="30m",
        description="After how long a failed check counts as a failure of the node, if `checks.codes` has `replace` "
        "for it: time to see whether it fails everywhere.",
    )
    at_once: int = Field(
        default=4,
        ge=0,
        le=10_000,
        description="Replacements that weft begins by itself (`on_failure: replace`) and whose new server isn't there "
        "yet, at most. 0: weft replaces nothing by itself.",
    )
    per_hour: int = Field(
        default=16,
        ge=0,
        le=10_000,
        description="Replacements that weft begins by itself within an hour, at most.",
    )


class AcceptancePolicy(Document):
    """Which nodes must be accepted before they are assigned again, besides replaced ones."""

    after: tuple[Literal["pod", "quarantine", "new", "firmware"], ...] = Field(
        default=(),
        max_length=4,
        description="pod: each time a pod has left a node on which it had something. quarantine: each time one is "
        "cleared. new: a node that the last site didn't have, or whose machine is another one by its serial number. "
        "firmware: once a node's own checks report another version of firmware than before. Nothing: only replaced "
        "nodes, for `repair`.",
    )
    what: str = Field(
        default="acceptance",
        min_length=1,
        max_length=200,
        pattern=r"^[^\x00-\x1f\x7f-\x9f]+$",
        description="What they are held for, such as `burn-in`.",
    )
    tests: tuple[Annotated[str, Field(pattern=TEST)], ...] = Field(
        default=(),
        max_length=20,
        description="Tests, by name: the hold for `what` ends by itself when all of them have passed since it began. "
        "Until then no one accepts a hold that weft began, except with a reason. "
        "bandwidth: operators' bandwidth test, also wanted of replaced nodes. "
        "weft-check: the node's own checks. Others: outside programs report them.",
    )

    @field_validator("tests")
    @classmethod
    def _are_different(cls, tests: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(tests)) < len(tests):
            raise ValueError("each test is named once")
        return tests


class LeasePolicy(Document):
    """Limits on leases."""

    longest: Duration | None = Field(
        default=None,
        description="How far in the future a lease may end, when ordered or extended; if set, an order must have an "
        "end. "
        "Not limited by default.",
    )


class PlacementPolicy(Document):
    """What it costs an order to use another block, hall or building, in units of one leaf, rounded to thousandths."""

    block: float = Field(
        default=0.5,
        ge=0,
        le=1000,
        description="Cost of another block (β): 0.5 favours fewer leaves, 4 fewer blocks.",
    )
    hall: float = Field(
        default=1.0, ge=0, le=1000, description="Cost of another hall (γ), in addition to that of its block."
    )
    building: float = Field(
        default=2.0,
        ge=0,
        le=1000,
        description="Cost of another building (δ), in addition to that of its hall.",
    )
