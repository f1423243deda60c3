"""Bandwidth tests: the plan that `weft-check bandwidth` gets, the document that it writes, and the signed certificate.

A document is its reporter's claim. It has no free text: its only texts are names that weft gave the reporter.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from weft.model.base import Document
from weft.model.ids import Instant

MOST_NODES, MOST_RAILS = 512, 32
MOST_PAIRS = 600_000
"""Most pairs of one document: 256 nodes with 8 rails, a third of the rounds and 60 suspects."""
SHARES = {"host": 950, "gpu": 900}
"""Thousandths of the nominal rate below which a pair is slow, by the memory that is sent from. perftest reaches 97 to
98 % with host memory, and less with a GPU's, which PCIe limits (`docs/bandwidth.md`)."""
WHOLE = 64
"""Nodes up to which every pair is measured."""

NotRunReason = Literal[
    "BUSY",
    "FAILED",
    "NODE_LOST",
    "NOT_TRIED",
    "NOT_UNDERSTOOD",
    "NO_ADAPTER",
    "NO_DEVICE",
    "NO_GID",
    "NO_LOGIN",
    "NO_MEMORY",
    "NO_PATH",
    "NO_PEER",
    "NO_PKEY",
    "NO_PROGRAM",
    "PORT_DOWN",
    "TIMED_OUT",
]
"""Why a pair has no figure, by weft-check."""
REASONS = frozenset(get_args(NotRunReason))
CauseKind = Literal["sender", "receiver", "adapter", "link", "node", "rail", "leaf", "all"]
TestResult = Literal["passed", "failed", "incomplete"]
_Rail = Annotated[int, Field(ge=0, lt=MOST_RAILS)]
_Mbps = Annotated[int, Field(ge=0, le=10**9)]
_Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class PlannedAdapter(Document):
    """An adapter that a test uses."""

    rail: _Rail
    guid: str = Field(
        description="Port GUID on InfiniBand, node GUID on Ethernet; the program finds the device by it."
    )
    gbps: int = Field(description="Nominal rate in Gb/s.")


class PlannedNode(Document):
    """A node, or a pod's server."""

    name: str
    address: str | None = Field(default=None, description="For SSH; null: its name.")
    inside: str | None = Field(
        default=None, description="Address by which the others reach it; null: `address`."
    )
    user: str | None = Field(default=None, description="For SSH; null: as ssh is configured.")
    leaf: str = Field(default="", description="The leaf that it is placed by; empty: not known.")
    adapters: tuple[PlannedAdapter, ...]


class BandwidthPlan(Document):
    """What `weft-check bandwidth` reads."""

    version: Literal[1] = 1
    program: Literal["perftest"] = "perftest"
    nodes: tuple[PlannedNode, ...]
    pkey: str | None = Field(default=None, description="P_Key of the pod; null: index 0, or Ethernet.")
    share: float = Field(description="Share of the nominal rate below which a pair is slow.")
    seed: str = Field(description="Chooses which third of the rounds comes first, beyond 64 nodes.")


class NcclFigure(Document):
    """The table of a run of nccl-tests, as the reporter gave it."""

    gbps: float = Field(ge=0, le=10**6, allow_inf_nan=False, description="Average bus bandwidth in Gb/s.")
    best: float = Field(
        ge=0, le=10**6, allow_inf_nan=False, description="Bus bandwidth of the best row in Gb/s."
    )
    wrong: int | None = Field(ge=0, le=10**12, description="Wrong elements; null: not checked.")


class BandwidthDocument(Document):
    """What `weft-check bandwidth` measured."""

    version: Literal[1]
    program: str = Field(max_length=200)
    measured_by: Literal["ib_write_bw", "ucx_perftest"]
    plan: _Digest
    began: Instant = Field(description="By the clock of the machine that ran it, with time zone.")
    ended: Instant
    seconds: int = Field(ge=1, le=60, description="Of one measurement.")
    size: int = Field(ge=64, le=2**30, description="Bytes of one message.")
    memory: Literal["host", "gpu"]
    rails_together: bool = Field(description="Whether all rails of a pair were measured at once.")
    nodes: tuple[Annotated[str, Field(max_length=253)], ...] = Field(min_length=2, max_length=MOST_NODES)
    pairs: tuple[tuple[Any, ...], ...] = Field(
        max_length=MOST_PAIRS,
        description="[sender, receiver, rail, Gb/s, runs], or [sender, receiver, rail, reason]: positions in `nodes`.",
    )
    together: tuple[tuple[Any, ...], ...] = Field(
        default=(), max_length=MOST_NODES * MOST_RAILS, description="[sender, receiver, rail, Gb/s or reason]"
    )
    nccl: NcclFigure | None = None

    @model_validator(mode="after")
    def _ends_after_it_began(self) -> Self:
        if self.ended < self.began:
            raise ValueError("a test ends after it began")
        return self

    @field_validator("version", mode="before")
    @classmethod
    def _is_number(cls, value: object) -> object:
        return str(value) if isinstance(value, bool) else value  # true equals 1

    @field_validator("pairs")
    @classmethod
    def _are_pairs(cls, rows: tuple[tuple[Any, ...], ...]) -> tuple[tuple[Any, ...], ...]:
        _check_rows(rows, runs=True)
        return rows

    @field_validator("together")
    @classmethod
    def _are_together(cls, rows: tuple[tuple[Any, ...], ...]) -> tuple[tuple[Any, ...], ...]:
        _check_rows(rows, runs=False)
        return rows


def _check_rows(rows: tuple[tuple[Any, ...], ...], runs: bool) -> None:
    """Raises ValueError. Each pair is there once at most."""
    there: set[tuple[int, int, int]] = set()
    for row in rows:
        ends, figure = row[:3], list[Any](row[3:])
        if len(ends) != 3 or any(type(one) is not int or not 0 <= one < MOST_NODES for one in ends):
            raise ValueError("each row begins with sender, receiver and rail, whole numbers")
        if ends[0] == ends[1] or ends[2] >= MOST_RAILS or ends in there:
            raise ValueError(
                f"[{ends[0]}, {ends[1]}, {ends[2]}] isn't a pair of two nodes, or is there twice"
            )
        there.add(ends)
        if len(figure) == 1 and isinstance(figure[0], str) and figure[0] in REASONS:
            continue
        rate: Any = figure[0] if figure else None
        good = type(rate) in (int, float) and 0 <= rate <= 10**6  # false for NaN, too
        times: Any = figure[1] if len(figure) == 2 else None
        counted = len(figure) == 1 + runs and (not runs or (type(times) is int and 1 <= times <= 1000))
        if not good or not counted:
            raise ValueError(
                "a row ends with Gb/s and the number of runs, or with a reason that weft-check has"
            )


class CertifiedNode(Document):
    """A node of a test."""

    name: str
    result: TestResult = Field(
        description="failed: it is a cause, or may be; incomplete: too few of its pairs were measured at full rate to "
        "say that it isn't."
    )


class CertifiedCause(Document):
    """What the slow pairs have in common. An adapter is named for its cable, too: bandwidth can't tell them apart."""

    kind: CauseKind
    name: str = Field(description="Node, leaf or link; empty: a rail, or everything.")
    rail: int | None = None
    others: tuple[str, ...] = Field(
        default=(), description="It is this, or one of these, of any kind: they have the same pairs."
    )
    explains: int = Field(description="Slow pairs that nothing larger explains.")
    slow: int = Field(description="How many of its own pairs are slow.")
    measured: int
    mbps: _Mbps = Field(description="Median of its slow pairs.")
    port_errors: tuple[str, ...] = Field(
        default=(), description="What both ends of its cables count, where the fabric's manager reports it."
    )
    part: Literal["cable", "adapter", ""] = Field(
        default="",
        exclude_if=lambda part: part == "",  # so that the signature of an older certificate stays valid
        description="What is broken by the errors that both ends count. cable: both have them; adapter: its own end "
        "alone; empty or missing: not known.",
    )


class NearTheFloor(Document):
    """An adapter whose median is less than 1 % above its floor, or below, unlike its rail's: a warning."""

    node: str
    rail: int
    mbps: _Mbps
    floor_mbps: _Mbps


class LeafTogether(Document):
    """Rates of a leaf's senders alone and all at once; null: not measured in both stages."""

    leaf: str
    alone_mbps: int | None
    together_mbps: int | None
    pairs: int
    unmeasured: int
    slow: bool | None = Field(description="Keeps less than 90 %: its uplinks carry less than its nodes send.")


class Slower(Document):
    """An adapter whose median fell by more than 2 % since the last certificate of the same nodes."""

    node: str
    rail: int
    before_mbps: _Mbps
    now_mbps: _Mbps


class BandwidthCertificate(Document):
    """What is signed, as canonical JSON (sorted keys, no spaces, UTF-8). All numbers are whole: rates are in Mb/s."""

    document: Literal["bandwidth certificate"] = "bandwidth certificate"
    version: Literal[1] = 1
    id: str
    site: str
    site_generation: int
    pod_id: str = Field(default="", description="Empty: nodes without a pod, tested by operators.")
    pod: str = ""
    project_id: str = ""
    reported_at: datetime
    reported_by: str = Field(
        description="The user who reported the measurements, marked `(operator)` if from outside of the pod's project."
    )
    measured_in: Literal["the pod's servers", "nodes, by operators"] = Field(
        description="Who measured: a pod's servers are its project's, and weft has nothing but their word."
    )
    began: datetime = Field(description="By the reporter's clock, as `ended`.")
    ended: datetime
    measured_by: str
    memory: Literal["host", "gpu"]
    seconds: int
    size: int
    rails_together: bool
    floor_permille: int = Field(description="Thousandths of the nominal rate below which a pair is slow.")
    result: TestResult
    nodes: tuple[CertifiedNode, ...]
    rails: tuple[int, ...]
    measured: int = Field(description="Pairs with a figure, of all ordered pairs that should have one.")
    slow: int
    not_run: dict[str, int] = Field(description="Reason -> number of pairs without a figure.")
    causes: tuple[CertifiedCause, ...]
    unexplained: tuple[tuple[int, int, int], ...] = Field(
        description="Slow pairs without a single cause: sender, receiver (positions in `nodes`), rail."
    )
    unsure: tuple[str, ...] = Field(description="Would be causes, but too few of their pairs were measured.")
    near_floor: tuple[NearTheFloor, ...]
    without_partner: tuple[str, ...] = Field(
        default=(),
        description="Adapters on rails that no other node of the test has: nothing was measured of them.",
    )
    together: tuple[LeafTogether, ...] = ()
    nccl_mbps: int | None = None
    nccl_wrong: int | None = None
    previous: str | None = Field(default=None, description="Id of the last certificate of the same nodes.")
    slower: tuple[Slower, ...] = ()
    pairs: tuple[tuple[int, int, int, int | NotRunReason], ...] = Field(
        description="Sender, receiver (positions in `nodes`), rail, and Mb/s or the reason why there is no figure."
    )


class SignedCertificate(Document):
    """A certificate with its Ed25519 signature (RFC 8032) by the site's key, which also signs receipts."""

    certificate: BandwidthCertificate
    algorithm: Literal["Ed25519"] = "Ed25519"
    public_key: str
    signature: str
