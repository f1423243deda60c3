"""Reservations as a calendar (SVG): a row for each, a column for each day, in UTC.

Presentation attributes only: the console's Content-Security-Policy allows no styles in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from xml.sax.saxutils import escape

from weft.generate.svg import LINE, drawing, shortened, written

WIDTH, LABELS, ROW, HEAD = 1600, 330, 30, 84
MOST_ROWS = 200
"""Most reservations that are drawn."""
_BARS = ("#2f6fb7", "#2a8f5c", "#7a4fbf", "#b26a00", "#c62828", "#00757d")
_PANEL = "#eef1f4"
_LONGEST = 38
"""Most letters of a label."""


@dataclass(frozen=True, slots=True)
class Span:
    """A reservation.

    Attributes:
        nodes: how many it has.
        end: None: it is open-ended.
    """

    name: str
    project: str
    nodes: int
    start: datetime
    end: datetime | None


def calendar(spans: Sequence[Span], first: date, days: int, now: datetime) -> str:
    """The reservations that cover one of these days, sorted by start. A bar that goes on beyond the last day has an
    arrow.

    Args:
        now: drawn as a line, if it is on one of the days.
    """
    begin = datetime(first.year, first.month, first.day, tzinfo=UTC)
    end = begin + timedelta(days=days)
    inside = [s for s in spans if s.start < end and (s.end is None or s.end > begin)]
    drawn = sorted(inside, key=lambda s: (s.start, s.name))[:MOST_ROWS]
    height = HEAD + max(1, len(drawn)) * ROW + (34 if len(inside) > len(drawn) else 12)
    title = f"{len(inside)} reservations from {first} to {(end - timedelta(days=1)).date()}, UTC"
    colours = {project: i for i, project in enumerate(sorted({s.project for s in inside}))}
    body = [written(12, 30, title, 20), *_days(first, days, height)]
    for number, span in enumerate(drawn):
        body += _row(span, HEAD + number * ROW, begin, end, colours[span.project])
    if not drawn:
        body.append(written(12, HEAD + 20, "nothing is reserved on these days", 15))
    if len(inside) > len(drawn):
        body.append(written(12, height - 10, f"{len(inside) - len(drawn)} more are not drawn", 15))
    if begin <= now < end:
        x = _x(now, begin, end)
        body.append(
            f'<line x1="{x:.1f}" y1="{HEAD - 6}" x2="{x:.1f}" y2="{height}" stroke="#c62828" stroke-width="2">'
            f"<title>now: {now:%Y-%m-%d %H:%M}</title></line>"
        )
    return drawing(title, WIDTH, height, body)


def _days(first: date, days: int, height: int) -> Iterator[str]:
    """Columns: weekends shaded, each Monday or, of few days, each day with its date."""
    wide = (WIDTH - LABELS) / days
    for number in range(days):
        day, x = first + timedelta(days=number), LABELS + number * wide
        if day.weekday() >= 5:
            yield f'<rect x="{x:.1f}" y="{HEAD - 24}" width="{wide:.1f}" height="{height}" fill="{_PANEL}"/>'
        if days <= 14 or day.weekday() == 0:
            yield f'<line x1="{x:.1f}" y1="{HEAD - 24}" x2="{x:.1f}" y2="{height}" stroke="{LINE}"/>'
            yield written(round(x) + 4, HEAD - 10, f"{day:%d %b}", 14)


def _row(span: Span, y: int, begin: datetime, end: datetime, colour: int) -> Iterator[str]:
    """Name and bar. An end beyond the picture has an arrow."""
    plural = "node" if span.nodes == 1 else "nodes"
    label = shortened(f"{span.name}, {span.nodes} {plural}", _LONGEST)
    until = f"to {span.end:%Y-%m-%d %H:%M}" if span.end is not None else "without end"
    said = f"{span.name}: {span.nodes} {plural} for {span.project} from {span.start:%Y-%m-%d %H:%M} {until}"
    left = _x(max(span.start, begin), begin, end)
    right = _x(end if span.end is None else min(span.end, end), begin, end)
    yield f"<g><title>{escape(said)}</title>"
    yield written(12, y + 20, label, 14)
    yield (
        f'<rect x="{left:.1f}" y="{y + 5}" width="{max(3.0, right - left):.1f}" height="{ROW - 10}" rx="3" '
        f'fill="{_BARS[colour % len(_BARS)]}"/>'
    )
    for at, goes_on, tip in ((left, span.start < begin, -1), (right, span.end is None or span.end > end, 1)):
        if goes_on:
            points = f"{at - 8 * tip:.1f},{y + 9} {at - 1 * tip:.1f},{y + 15} {at - 8 * tip:.1f},{y + 21}"
            yield f'<polygon points="{points}" fill="#ffffff"/>'
    yield "</g>"


def _x(at: datetime, begin: datetime, end: datetime) -> float:
    return LABELS + (WIDTH - LABELS) * ((at - begin) / (end - begin))
