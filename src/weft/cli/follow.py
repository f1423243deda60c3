"""Waiting for a pod: progress, results, elapsed time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from weft.cli.common import Json, cell, clean
from weft.model.errors import TemporaryError

if TYPE_CHECKING:
    from weft.client import Client

GATHER = 0.5
"""Seconds in which events are collected that come together: a request and a line on the screen for all of them."""
QUIET = 15.0
"""Seconds without a line after which what is waited for is printed."""
_POLL = 3.0
"""Seconds between reads of a pod's resources in the live display."""


@dataclass(frozen=True, slots=True)
class WaitGoal:
    """What to wait for.

    Attributes:
        reached: state that ends the wait successfully.
        lost: states from which `reached` is impossible.
        done: final state of a resource.
    """

    reached: str
    lost: frozenset[str]
    done: str

    def at(self, pod: Json) -> bool:
        """Whether the pod is in the state, with no change in progress."""
        return pod["state"] == self.reached and not pod.get("changing_since")


READY = WaitGoal("READY", frozenset({"FAILED", "RELEASING", "RELEASED"}), "settled")
RELEASED = WaitGoal("RELEASED", frozenset(), "absent")


@dataclass(frozen=True, slots=True)
class WaitResult:
    """How the wait ended: the pod as last seen, and why the goal was missed (empty if it was reached)."""

    pod: Json
    missed: str = ""


class Progress(Protocol):
    """How progress is shown."""

    longest_wait: float

    def __enter__(self) -> Progress: ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, pod: Json, events: Sequence[Json]) -> None:
        """Show a pod with the events since the last call."""

    def trouble(self, text: str) -> None:
        """Show why the API gives no answer now, once as long as the reason is the same."""


def follow(
    client: Client,
    pod: Json,
    goal: WaitGoal,
    after: int,
    timeout: float,
    progress: Progress,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> WaitResult:
    """Wait until the pod reaches the goal, can't reach it any more, or the timeout expires.

    Temporary errors (the API restarts) don't end the wait.
    """
    deadline = clock() + timeout
    with progress:
        while True:
            left = max(0.0, deadline - clock())
            try:
                events = client.pods.events(pod["id"], after, min(progress.longest_wait, left), GATHER)
                pod = client.pods.show(pod["id"])
                seen = max([after, *(e["sequence"] for e in events)])
                if (
                    goal.at(pod) or pod["state"] in goal.lost
                ):  # some events may have arrived after the last reading
                    events += client.pods.events(pod["id"], seen)
            except TemporaryError as error:
                if clock() >= deadline:
                    raise
                progress.trouble(str(error))
                sleep(min(error.delay, left))
                continue
            after = max([after, *(e["sequence"] for e in events)])
            progress.show(pod, events)
            if goal.at(pod):
                return WaitResult(pod)
            why = f"pod {pod['name']} is {pod['state']}: {pod['reason'] or 'no reason given'}"
            if pod["state"] in goal.lost:
                return WaitResult(pod, why)
            if clock() >= deadline:
                onward = f"follow it with `weft pod events {pod['name']} --follow`"
                return WaitResult(pod, f"{why}; timed out after {timeout:.0f} s, the pod continues: {onward}")


class PlainProgress:
    """One line per event, with the time since the start; after `QUIET` seconds without one, what is waited for."""

    longest_wait = QUIET

    def __init__(
        self,
        write: Callable[[str], None],
        goal: WaitGoal = READY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write_line = write
        self._goal = goal
        self._clock = clock
        self._started = self._last = clock()
        self._trouble = ""

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def show(self, pod: Json, events: Sequence[Json]) -> None:
        self._trouble = ""
        for event in events:
            self._write(f"{event['type']:<8}  {event['message']}")
        if not self._goal.at(pod) and self._clock() - self._last >= QUIET:
            self._write(f"waiting   {awaited(pod, self._goal)}")

    def trouble(self, text: str) -> None:
        if text != self._trouble:
            self._write(f"waiting   {text}")
        self._trouble = text

    def _write(self, text: str) -> None:
        self._last = self._clock()
        self._write_line(f"{self._last - self._started:7.1f}s  {text}")


def awaited(pod: Json, goal: WaitGoal) -> str:
    """What a pod waits for, on one line: its state and why, and what is in progress."""
    rows = [row for row in by_kind(pod.get("resources") or (), goal.done) if row.done < row.total]
    busy = "; ".join(f"{row.kind} {row.done}/{row.total} {row.working}".rstrip() for row in rows)
    why = f": {pod['reason']}" if pod.get("reason") else ""
    return f"{pod['state']}{why}{f' ({busy})' if busy else ''}"


class LiveProgress:
    """A live display on a terminal: progress by kind, and the last events."""

    longest_wait = _POLL

    def __init__(self, goal: WaitGoal, stream: Any) -> None:
        from rich.console import Console
        from rich.live import Live

        self._goal = goal
        self._started = time.monotonic()
        self._pod: Json = {}
        self._events: list[str] = []
        self._note = ""
        self._live = Live(
            console=Console(file=stream),
            refresh_per_second=4,
            get_renderable=self._render,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, pod: Json, events: Sequence[Json]) -> None:
        self._pod, self._note = pod, ""
        self._events += [f"{event['type']}: {event['message']}" for event in events]

    def trouble(self, text: str) -> None:
        self._note = text

    def _render(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        passed = time.monotonic() - self._started
        pod = self._pod
        head = Text.assemble(
            (clean(pod.get("name", "pod")), "bold"),
            "  ",
            (pod.get("state", "…"), "cyan"),
            f"  {passed:.1f} s",
        )
        if pod.get("reason"):
            head.append(f"  {clean(pod['reason'])}", "dim")
        grid = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        for row in by_kind(pod.get("resources") or (), self._goal.done):
            style = "green" if row.done == row.total else "yellow" if row.working else "dim"
            grid.add_row(f"  {row.kind}", Text(f"{row.done}/{row.total}", style), Text(clean(row.working)))
        lines = [Text(f"  {clean(line)}", "dim") for line in self._events[-5:]]
        note = [Text(f"  {clean(self._note)}", "red")] if self._note else []
        return Group(head, grid, *lines, *note)


@dataclass(frozen=True, slots=True)
class KindProgress:
    """Progress of one kind of resources; `working` names up to three that are in progress or in trouble."""

    kind: str
    done: int
    total: int
    working: str


def by_kind(resources: Sequence[Json], done: str) -> list[KindProgress]:
    """Resources counted by kind, in order of first appearance."""
    kinds = dict.fromkeys(r["kind"] for r in resources)
    rows: list[KindProgress] = []
    for kind in kinds:
        mine = [r for r in resources if r["kind"] == kind]
        busy = [r for r in mine if r["state"] not in (done, "wanted", "settled", "absent") or r["reason"]]
        names = [
            f"{r['name']} {r['state']}" + (f" ({cell(r['reason'])})" if r["reason"] else "") for r in busy
        ]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        finished = sum(r["state"] == done for r in mine)
        rows.append(KindProgress(kind, finished, len(mine), ", ".join(names[:3]) + more))
    return rows


def progress_for(goal: WaitGoal, as_json: bool) -> Progress:
    """Live on a terminal, otherwise lines; on stderr if stdout is for JSON."""
    stream = sys.stderr if as_json else sys.stdout
    if stream.isatty():
        return LiveProgress(goal, stream)
    return PlainProgress(lambda line: print(clean(line), file=stream, flush=True), goal)
