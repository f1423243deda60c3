"""What metrics count, and what monitoring asks about: rows of pods, nodes, fabrics, processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from weft.engine.base.database import Tx
from weft.engine.base.schema import SEEN_SECONDS, halves, is_after
from weft.engine.hold.settings import limit_values
from weft.engine.rows.seenfabric import SeenFabric

WORKER_SECONDS = 60.0
"""Seconds without a heartbeat after which a worker process isn't counted; its holds have run out before."""


@dataclass(frozen=True, slots=True)
class PodCount:
    """Pods in a state.

    Attributes:
        oldest: for how many seconds the oldest has been in it.
        alarmed: how many have an alarm, or are in the state for longer than its limit.
    """

    state: str
    number: int
    oldest: float
    alarmed: int


@dataclass(frozen=True, slots=True)
class ProcessCount:
    """Processes at work."""

    role: str
    version: str
    number: int


@dataclass(frozen=True, slots=True)
class TraceCount:
    """Traces found after a receipt was signed: `open`, still there; `gone`, removed since."""

    open: int
    gone: int


@dataclass(frozen=True, slots=True)
class NetworkCount:
    """Tenants' own networks, and their ports by state.

    Attributes:
        oldest: seconds since the first of the ports that wait began to; None: none waits.
        unread: seconds since the network read longest ago was read; None: there is none.
    """

    networks: int
    ports_in: int
    waiting: int
    out: int
    oldest: float | None
    unread: float | None


@dataclass(frozen=True, slots=True)
class WebhookCount:
    """Webhooks by state."""

    active: int
    failing: int
    disabled: int


@dataclass(frozen=True, slots=True)
class MonitoredServer:
    """A pod's server, or its controller, which has no node, cloud and flavor.

    Attributes:
        address, floating: of the port by which it is reached, and its floating IP.
    """

    id: UUID
    pod: str
    project_id: str
    server: str
    node: str
    cloud: str
    flavor: str
    address: str | None
    floating: str | None


@dataclass(frozen=True, slots=True)
class MonitoredNode:
    """A node of a pod, whose `id` and name these are."""

    node: str
    id: UUID
    pod: str
    project_id: str
    spare: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers for the metrics.

    Attributes:
        busy, quarantined, held, drained: nodes; held ones wait for their acceptance.
        parked: pods and orders whose rows can't be read, and that no newer weft at work can; left: those that only a
            newer weft can read.
        unfinished: after-halves of an upgrade that aren't made.
        swept: seconds since the last completed sweep; None: none yet.
        removed: kind of old records -> number of rows removed so far.
        workers: processes with a heartbeat within `WORKER_SECONDS`.
        backup: seconds since the newest backup was taken; None: there was none.
    """

    pods: tuple[PodCount, ...]
    busy: int
    quarantined: int
    held: int
    drained: int
    parked: int
    left: int
    processes: tuple[ProcessCount, ...]
    unfinished: int
    traces: TraceCount
    swept: float | None
    removed: Mapping[str, int]
    networks: NetworkCount
    fabrics: tuple[SeenFabric, ...]
    workers: int
    backup: float | None
    webhooks: WebhookCount


def read_counts(tx: Tx) -> Counts:
    """Numbers of pods and nodes, without reading documents."""
    sweep, backup, kept = tx.row("sweep"), tx.row("last_backup", at=tx.now()), tx.row("retention")
    ended = sweep["ended_at"] if sweep else None
    return Counts(
        pods=tuple(tx.all(PodCount, "count_pods", at=tx.now(), **limit_values())),
        busy=number(tx, "count_busy"),
        quarantined=number(tx, "count_quarantined"),
        held=number(tx, "count_held"),
        drained=number(tx, "count_drained"),
        parked=number(tx, "count_parked", seconds=SEEN_SECONDS),
        left=number(tx, "count_left"),
        processes=tuple(tx.all(ProcessCount, "count_processes", seconds=SEEN_SECONDS)),
        unfinished=number(tx, "count_unfinished", halves=[name for name in halves() if is_after(name)]),
        traces=tx.one(TraceCount, "count_traces"),
        swept=(tx.now() - ended).total_seconds() if ended else None,
        removed=kept["removed"] if kept else {},
        networks=tx.one(NetworkCount, "count_tenant_ports"),
        fabrics=tuple(tx.all(SeenFabric, "fabrics_seen")),
        workers=number(tx, "count_workers", seconds=WORKER_SECONDS),
        backup=backup["age"] if backup else None,
        webhooks=tx.one(WebhookCount, "count_webhooks"),
    )


def number(tx: Tx, name: str, **values: object) -> int:
    """The `number` of a query that counts."""
    row = tx.row(name, **values)
    assert row is not None
    return int(row["number"])
