"""A fat-tree design as a picture (SVG): every switch of one block, and how the blocks are connected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weft.generate.svg import drawing
from weft.planning.site.fattree import FatTree

WIDTH, MARGIN = 1600, 24
MOST = 40
"""Maximum number of blocks, and planes of cores, that are drawn; of more, only the first ones and the last."""
_COLOUR = {"core": "#7a4fbf", "spine": "#2f6fb7", "leaf": "#2a8f5c", "block": "#4a5568"}
_LEVELS = ("spine", "leaf")


def picture(tree: FatTree) -> str:
    """The tree as SVG.

    Up to two levels: spines above leaves, a line for each pair that is cabled, and how many servers connect to a leaf.
    Three levels: blocks under planes of cores first, then the first block as above.
    """
    summary = tree.summary()
    body = [_text(MARGIN, 34, summary, 20)]
    top = 60
    if tree.levels == 3:
        body += _blocks(tree, top)
        top += 330
    body += _switches(tree, top)
    height = top + (360 if tree.levels > 1 else 110)
    return drawing(summary, WIDTH, height, body)


def _blocks(tree: FatTree, top: int) -> Iterator[str]:
    """Planes of cores above blocks: spine s of every block is cabled to plane s."""
    each = sum(link.a == "spine1-1" for link in tree.links)
    yield _text(
        MARGIN,
        top + 14,
        f"{tree.spines_per_block} planes of {tree.cores_per_spine} cores above {tree.blocks} blocks: spine n of each "
        f"has {each} {'cable' if each == 1 else 'cables'} to plane n; below a block its adapters",
        15,
    )
    planes = _shown([f"plane{i + 1}" for i in range(tree.spines_per_block)])
    blocks = _shown([f"block{i + 1}" for i in range(tree.blocks)])
    high, low = top + 60, top + 240
    yield from _lines(planes, blocks, high, low)
    yield from _row(planes, high, "core", f"{tree.cores_per_spine} cores")
    servers = _servers(tree)
    yield from _row(blocks, low, "block", "", [str(sum(servers.get(block, {}).values())) for block in blocks])


def _switches(tree: FatTree, top: int) -> Iterator[str]:
    """The spines and leaves of the first block, or of all."""
    first = "block1" if tree.blocks > 1 else None
    rows = {
        level: [s.name for s in tree.switches if s.level == level and s.block == first] for level in _LEVELS
    }
    servers = _servers(tree)[first or ""]
    below = [f"{servers.get(name, 0)}" for name in rows["leaf"]]
    high, low = top + 60, top + (240 if rows["spine"] else 60)
    what = f"the first block: {_row_words(tree, rows)}" if first else _row_words(tree, rows)
    yield _text(MARGIN, top + 14, what, 15)
    if rows["spine"]:
        yield from _lines(rows["spine"], rows["leaf"], high, low)
        yield from _row(rows["spine"], high, "spine", "")
    yield from _row(rows["leaf"], low, "leaf", "", below)


def _row_words(tree: FatTree, rows: dict[str, list[str]]) -> str:
    leaves = len(rows["leaf"])
    if not rows["spine"]:
        return "one switch; below it the number of adapters connected to it"
    each = tree.up // len(rows["spine"])
    cables = "1 cable" if each == 1 else f"{each} cables"
    return f"{len(rows['spine'])} spines above {leaves} leaves, {cables} for each line; below a leaf its adapters"


def _servers(tree: FatTree) -> dict[str, dict[str, int]]:
    """Block ("" without blocks) -> leaf -> number of adapters connected to it."""
    block_of = {s.name: s.block or "" for s in tree.switches if s.level == "leaf"}
    found: dict[str, dict[str, int]] = {}
    for link in tree.links:
        if "/" in link.a:
            on = found.setdefault(block_of[link.b], {})
            on[link.b] = on.get(link.b, 0) + 1
    return found


def _shown(names: Sequence[str]) -> list[str]:
    """The names that are drawn; an empty one where some are left out."""
    return list(names) if len(names) <= MOST else [*names[: MOST - 2], "", names[-1]]


def _places(names: Sequence[str]) -> list[tuple[str, float]]:
    """Each name with the horizontal centre of its box."""
    slot = (WIDTH - 2 * MARGIN) / len(names)
    return [(name, MARGIN + slot * (i + 0.5)) for i, name in enumerate(names)]


class _Box(NamedTuple):
    """How a row's boxes are drawn. `half`: half the height; `size`: of the letters; `upright`: the text is turned,
    since the box is too narrow for it."""

    width: float
    half: float
    size: int
    upright: bool

    @classmethod
    def of(cls, names: Sequence[str]) -> _Box:
        longest = max(map(len, names))
        width = min(90.0, 0.86 * (WIDTH - 2 * MARGIN) / len(names))
        if width >= 7 * longest + 4:
            return cls(width, 12, 11, False)
        size = max(4, min(11, int(width)))
        return cls(width, 4 + size * longest * 0.31, size, True)


def _lines(above: Sequence[str], below: Sequence[str], high: int, low: int) -> Iterator[str]:
    """A line from each upper box to each lower one; the more lines, the fainter."""
    opacity = max(0.08, min(0.6, 10 / (len(above) * len(below)) ** 0.5))
    top, bottom = high + _Box.of(above).half, low - _Box.of(below).half
    for name, x in _places(above):
        if name:
            path = "".join(f"M{x:.0f} {top:.0f}L{to:.0f} {bottom:.0f}" for end, to in _places(below) if end)
            yield f'<path d="{path}" stroke="#444" stroke-opacity="{opacity:.2f}" fill="none"/>'


def _row(names: Sequence[str], y: int, kind: str, inside: str, below: Sequence[str] = ()) -> Iterator[str]:
    """A row of boxes with their names, and a number below each."""
    box = _Box.of(names)
    for i, (name, x) in enumerate(_places(names)):
        if not name:
            yield _text(x, y, "…", 14, middle=True)
            continue
        number = below[i] if below else ""
        title = ", ".join(x for x in (name, inside, number and f"{number} adapters") if x)
        yield (
            f'<rect x="{x - box.width / 2:.1f}" y="{y - box.half:.1f}" width="{box.width:.1f}" '
            f'height="{2 * box.half:.1f}" rx="2" fill="{_COLOUR[kind]}"><title>{title}</title></rect>'
        )
        yield _text(x, y, name, box.size, middle=True, fill="#fff", upright=box.upright)
        if number:
            under = y + box.half + 6 + (len(number) * box.size * 0.3 if box.upright else 6)
            yield _text(x, under, number, box.size, middle=True, upright=box.upright)


def _text(
    x: float, y: float, text: str, size: int, middle: bool = False, fill: str = "#222", upright: bool = False
) -> str:
    anchor = ' text-anchor="middle" dy="0.35em"' if middle else ""
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if upright else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}"{anchor}{turn}>{text}</text>'
