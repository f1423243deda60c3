"""A plan's nodes as a picture (SVG): below their leaf switches, and these below the switches of their block.

Presentation attributes only: the console's Content-Security-Policy allows no styles in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from xml.sax.saxutils import escape

from weft.generate.svg import LINE, drawing, shortened, written
from weft.model.placement import PlacedNode, Placement

WIDTH, ACROSS, BOX, GAP, HEAD, ROW = 480, 3, 150, 14, 26, 24
MOST_NODES = 256
"""Most nodes that are drawn."""
SERVER, COMES, SPARE = "#2f6fb7", "#2a8f5c", "#8b949e"
"""Colours of nodes with servers, of those that a change adds, and of spares; words say the same."""
_PANEL = "#f3f5f7"
_LONGEST = 20


def plan_picture(placement: Placement, added: Collection[str] = ()) -> str:
    """The nodes and spares of a placement, which only shows what belongs to the pod: it is for tenants, too.

    Args:
        added: names of nodes that a change of the pod adds.

    Returns:
        An `svg` element for a page of HTML, with a title.
    """
    servers = Counter(one.node for one in placement.nodes)
    found = {one.node: one for one in (*placement.nodes, *placement.spares)}
    ordered = sorted(found.values(), key=lambda one: (one.block, one.leaf))
    drawn = ordered[:MOST_NODES]
    leaves = len({(one.block, one.leaf) for one in ordered})
    title = f"{_count(len(ordered), 'node')} below {_count(leaves, 'leaf switch', 'leaf switches')}"
    body: list[str] = []
    top = 4
    for block, members in groupby(drawn, key=lambda one: one.block):
        below = [(leaf, [*nodes]) for leaf, nodes in groupby(members, key=lambda one: one.leaf)]
        lines, top = _block(block, below, top, servers, added)
        body += lines
    if more := len(ordered) - len(drawn):
        body.append(written(4, top + 14, f"{_count(more, 'more node')} not drawn", 13))
        top += 22
    return drawing(title, WIDTH, top, body, 'role="img" class="planned"')


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _block(
    block: str,
    leaves: Sequence[tuple[str, Sequence[PlacedNode]]],
    top: int,
    servers: Counter[str],
    added: Collection[str],
) -> tuple[list[str], int]:
    """A block's switches with its leaves in rows below; returns where the next block begins."""
    lines: list[str] = []
    if block != "-":
        lines += [_panel(4, top, WIDTH - 8, 22), _named(12, top + 16, f"switches above: {block}", 50)]
        top += 22
    for row in (leaves[i : i + ACROSS] for i in range(0, len(leaves), ACROSS)):
        height = HEAD + max(len(nodes) for _, nodes in row) * ROW + 4
        for number, (leaf, nodes) in enumerate(row):
            x = 4 + number * (BOX + GAP // 2)
            if block != "-":
                middle = x + BOX // 2
                lines.append(
                    f'<line x1="{middle}" y1="{top}" x2="{middle}" y2="{top + GAP}" stroke="{LINE}" stroke-width="2"/>'
                )
            lines += [_panel(x, top + GAP, BOX, height), _named(x + 8, top + GAP + 17, leaf)]
            lines += _nodes(nodes, x + 6, top + GAP + HEAD, servers, added)
        top += GAP + height
    return lines, top + GAP


def _nodes(
    nodes: Sequence[PlacedNode], x: int, y: int, servers: Counter[str], added: Collection[str]
) -> Iterator[str]:
    """A box for each node; one that isn't simply a node with one server says what it is."""
    for number, one in enumerate(nodes):
        color, said = SERVER, one.node
        if one.node in added:
            color, said = COMES, f"{one.node} comes"
        elif one.node not in servers:
            color, said = SPARE, f"{one.node} spare"
        if servers[one.node] > 1:
            said = f"{said}, {servers[one.node]} servers"
        top = y + number * ROW
        yield f"<g><title>{escape(f'{said}; rack {one.rack}' if one.rack else said)}</title>"
        yield (
            f'<rect x="{x}" y="{top}" width="{BOX - 12}" height="{ROW - 4}" rx="3" fill="#ffffff" '
            f'stroke="{color}" stroke-width="2"/>'
        )
        yield _named(x + 6, top + 14, said)
        yield "</g>"


def _named(x: int, y: int, text: str, longest: int = _LONGEST) -> str:
    return written(x, y, shortened(text, longest), 12)


def _panel(x: int, y: int, width: int, height: int) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{_PANEL}" stroke="{LINE}"/>'
