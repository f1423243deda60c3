"""Nodes by state over time (SVG): an area for each state, one picture for each type of node, and the waiting orders.

Presentation attributes only: the console's Content-Security-Policy allows no styles in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median
from xml.sax.saxutils import escape

from weft.generate.sitepicture import COLOURS
from weft.generate.svg import LINE, drawing, written
from weft.model.views import CapacityPoint

WIDTH, LEFT, HIGH, HEAD, GAP = 1600, 90, 180, 46, 44
MOST_TYPES = 12
"""Most types of nodes that are drawn."""
_WAITING = "#b26a00"
_Run = list[tuple[CapacityPoint, datetime]]


def capacity_over_time(points: Sequence[CapacityPoint], since: datetime, until: datetime) -> str:
    """The picture. A point counts until the next one, or for the usual interval: where no worker ran, nothing is
    drawn."""
    runs = _runs(points, until)
    types = sorted({of.type for point in points for of in point.nodes})
    drawn = types[:MOST_TYPES]
    title = f"Nodes by state from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC"
    body: list[str] = []
    top = HEAD
    for kind in drawn:
        most = max(of.total for point in points for of in point.nodes if of.type == kind)
        body += [*_frame(kind, most, top, since, until), *_areas(kind, most, runs, top, since, until)]
        top += HIGH + GAP
    if points:
        most = max(point.waiting for point in points)
        body += [*_frame("orders waiting", most, top, since, until), *_waiting(most, runs, top, since, until)]
        top += HIGH + GAP
    else:
        body.append(written(12, top + 20, "nothing was noted in this period", 15))
    if len(types) > len(drawn):
        body.append(written(12, top, f"{len(types) - len(drawn)} more types of nodes are not drawn", 15))
    states = [s for s in COLOURS if any(s in of.states for point in points for of in point.nodes)]
    return drawing(title, WIDTH, top + 20, [*_legend(states), *body])


def _runs(points: Sequence[CapacityPoint], until: datetime) -> list[_Run]:
    """Runs of consecutive points, each point with the time until which it counts."""
    steps = [(b.at - a.at).total_seconds() for a, b in pairwise(points)]
    usual = timedelta(seconds=median(steps) if steps else 600)
    found: list[_Run] = []
    for number, point in enumerate(points):
        after = points[number + 1].at if number + 1 < len(points) else None
        follows = after is not None and after - point.at <= 2.5 * usual
        end = after if after is not None and follows else min(until, point.at + usual)
        if not (found and found[-1][-1][1] == point.at):
            found.append([])
        found[-1].append((point, end))
    return found


def _frame(name: str, most: int, top: int, since: datetime, until: datetime) -> Iterator[str]:
    """The axes: the greatest number of nodes, and five times."""
    bottom = top + HIGH
    yield written(12, top - 8, name, 16)
    yield f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - 10}" height="{HIGH}" fill="none" stroke="{LINE}"/>'
    yield written(12, top + 14, str(most), 14)
    yield written(12, bottom, "0", 14)
    length = until - since
    form = "%H:%M" if length <= timedelta(days=2) else "%d %b"
    for part in range(5):
        at = since + length * part / 5
        x = _x(at, since, until)
        yield f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="{LINE}" stroke-opacity="0.3"/>'
        yield written(round(x), bottom + 18, at.astimezone(UTC).strftime(form), 13)


def _areas(
    kind: str, most: int, runs: list[_Run], top: int, since: datetime, until: datetime
) -> Iterator[str]:
    """An area for each state, stacked in the legend's order."""
    for run in runs:
        floor = [0] * len(run)
        for state in COLOURS:
            counts = [
                sum(of.states.get(state, 0) for of in point.nodes if of.type == kind) for point, _ in run
            ]
            if not any(counts):
                continue
            upper = [low + count for low, count in zip(floor, counts, strict=True)]
            corners = [*_steps(run, upper, most, top, since, until)]
            corners += reversed([*_steps(run, floor, most, top, since, until)])
            yield (
                f'<polygon points="{" ".join(corners)}" fill="{COLOURS[state]}"><title>{escape(kind)}: '
                f"{escape(state)}, {min(counts)} to {max(counts)}</title></polygon>"
            )
            floor = upper


def _waiting(most: int, runs: list[_Run], top: int, since: datetime, until: datetime) -> Iterator[str]:
    for run in runs:
        corners = " ".join(_steps(run, [point.waiting for point, _ in run], most, top, since, until))
        yield f'<polyline points="{corners}" fill="none" stroke="{_WAITING}" stroke-width="3"/>'


def _steps(
    run: _Run, heights: Sequence[int], most: int, top: int, since: datetime, until: datetime
) -> Iterator[str]:
    for (point, end), height in zip(run, heights, strict=True):
        y = top + HIGH - HIGH * height / max(1, most)
        for at in (point.at, end):
            yield f"{_x(at, since, until):.1f},{y:.1f}"


def _x(at: datetime, since: datetime, until: datetime) -> float:
    share = (at - since) / (until - since)
    return LEFT + (WIDTH - LEFT - 10) * min(1.0, max(0.0, share))


def _legend(states: Sequence[str]) -> Iterator[str]:
    x = LEFT
    for state in states:
        yield f'<rect x="{x}" y="4" width="14" height="14" fill="{COLOURS[state]}"/>'
        yield written(x + 20, 16, state, 14)
        x += 40 + 9 * len(state)
