"""The site as a picture (SVG): leaves or racks with their nodes, coloured by state, below the switches of their block.

Presentation attributes only: the console's Content-Security-Policy allows no styles in it. Cables are never drawn one
by one: a leaf has one line, as thick as its uplinks together are fast.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from weft.generate.svg import LINE, drawing, shortened, written

WIDTH, MARGIN, CELL, COLUMNS = 1600, 24, 16, 8
MOST_NODES = 1_000
"""Most nodes that are drawn one by one; if there are more, each leaf is one bar."""
MOST_BOXES = 2_000
"""Most leaves or racks that are drawn."""
COLOURS: Mapping[str, str] = {
    "free": "#2a8f5c",
    "busy": "#2f6fb7",
    "quarantined": "#c62828",
    "failed": "#8e1b1b",
    "held": "#b26a00",
    "drained": "#7d5a00",
    "maintenance": "#7a4fbf",
    "not-compute": "#8b949e",
}
_BOX = COLUMNS * CELL + 16
_ACROSS = (WIDTH - 2 * MARGIN - 24) // (_BOX + 12)
_HEAD, _BAR = 22, 20
_PANEL = "#f3f5f7"


@dataclass(frozen=True, slots=True)
class Box:
    """A leaf or a rack.

    Attributes:
        query: query string of the page of its nodes.
        block: what it is drawn below; empty: nothing.
        nodes: name and state of each.
        uplink_gbps: of all its cables to other switches; None: not known, or a rack.
    """

    name: str
    query: str
    block: str
    nodes: Sequence[tuple[str, str]]
    uplink_gbps: int | None = None


def picture(title: str, boxes: Sequence[Box], pages: str) -> str:
    """The boxes as SVG, by block in the order given.

    Args:
        pages: path of the page of nodes, for links.
    """
    drawn = boxes[:MOST_BOXES]
    single = sum(len(box.nodes) for box in boxes) <= MOST_NODES
    body: list[str] = [written(MARGIN, 30, title, 20), *_legend(52)]
    top = 96
    for block, members in groupby(drawn, key=lambda box: box.block):
        lines, top = _block(block, list(members), top, single, pages)
        body += lines
    if len(boxes) > len(drawn):
        body.append(written(MARGIN, top + 16, f"{len(boxes) - len(drawn)} more are not drawn", 15))
        top += 30
    return drawing(title, WIDTH, top, body)


def _legend(y: int) -> Iterator[str]:
    for number, (state, colour) in enumerate(COLOURS.items()):
        x = MARGIN + number * 150
        yield f'<rect x="{x}" y="{y}" width="14" height="14" fill="{colour}"/>'
        yield written(x + 20, y + 12, state, 14)


def _block(block: str, boxes: list[Box], top: int, single: bool, pages: str) -> tuple[list[str], int]:
    """A block's switches, and its leaves below in rows; returns where the next one begins."""
    lines: list[str] = []
    left = MARGIN + 24
    if block:
        lines += [
            _panel(MARGIN, top, WIDTH - 2 * MARGIN, 22),
            written(MARGIN + 8, top + 16, f"switches above: {block}", 14),
        ]
        top += 22
    begin = top
    for row in (boxes[i : i + _ACROSS] for i in range(0, len(boxes), _ACROSS)):
        rail, top = top + 14, top + 26
        height = max(_height(box, single) for box in row)
        for number, box in enumerate(row):
            x = left + number * (_BOX + 12)
            if block:
                lines.append(_line(x + _BOX // 2, rail, x + _BOX // 2, top, _thick(box.uplink_gbps)))
            lines += _box(box, x, top, height, single, pages)
        if block:
            lines.append(_line(MARGIN + 8, rail, left + (len(row) - 1) * (_BOX + 12) + _BOX // 2, rail, 2))
            lines.append(_line(MARGIN + 8, begin, MARGIN + 8, rail, 2))
        top += height + 8
    return lines, top + 20


def _height(box: Box, single: bool) -> int:
    return _HEAD + (math.ceil(len(box.nodes) / COLUMNS) * CELL if single else _BAR) + 8


def _thick(gbps: int | None) -> int:
    """Width of the line to the switches above."""
    return 1 if not gbps else min(12, 1 + round(math.log2(1 + gbps / 100)))


def _box(box: Box, x: int, y: int, height: int, single: bool, pages: str) -> Iterator[str]:
    counts = Counter(state for _, state in box.nodes)
    said = ", ".join(f"{counts[state]} {state}" for state in COLOURS if counts[state])
    uplinks = f"; uplinks {box.uplink_gbps} Gb/s" if box.uplink_gbps else ""
    yield f"<a href={quoteattr(f'{pages}?{box.query}')}><title>{escape(f'{box.name}: {said}{uplinks}')}</title>"
    yield _panel(x, y, _BOX, height)
    yield written(x + 8, y + 16, shortened(box.name, 18), 13)
    yield "</a>"
    yield from _cells(box, x + 8, y + _HEAD, pages) if single else _bar(counts, x + 8, y + _HEAD)


def _cells(box: Box, x: int, y: int, pages: str) -> Iterator[str]:
    """A square for each node, with a letter for what isn't only free or busy."""
    for number, (name, state) in enumerate(box.nodes):
        row, column = divmod(number, COLUMNS)
        left, top = x + column * CELL, y + row * CELL
        letter = "" if state in ("free", "busy") else state[0].upper()
        page = quoteattr(f"{pages}/{quote(name, safe='')}")
        yield f"<a href={page}><title>{escape(f'{name}: {state}')}</title>"
        yield f'<rect x="{left}" y="{top}" width="{CELL - 2}" height="{CELL - 2}" fill="{_colour(state)}"/>'
        if letter:
            at = f'x="{left + 7}" y="{top + 11}"'
            yield f'<text {at} font-size="10" fill="#ffffff" text-anchor="middle">{letter}</text>'
        yield "</a>"


def _bar(counts: Mapping[str, int], x: int, y: int) -> Iterator[str]:
    """One bar, divided by state."""
    whole, at = sum(counts.values()), float(x)
    for state in COLOURS:
        if number := counts.get(state, 0):
            width = number / whole * COLUMNS * CELL
            yield f'<rect x="{at:.1f}" y="{y}" width="{width:.1f}" height="{_BAR - 4}" fill="{_colour(state)}"/>'
            at += width


def _colour(state: str) -> str:
    return COLOURS.get(state, "#8b949e")


def _line(x1: int, y1: int, x2: int, y2: int, width: int) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}" stroke-width="{width}"/>'


def _panel(x: int, y: int, width: int, height: int) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{_PANEL}" stroke="{LINE}"/>'
