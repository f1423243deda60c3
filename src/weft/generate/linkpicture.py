"""The links of a pod as a picture (SVG): its adapters below their leaf switches, and the cables above these.

Presentation attributes only: the console's Content-Security-Policy allows no styles in it, and there are no scripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from weft.generate.svg import LINE, TEXT, drawing
from weft.model.views import PodLink, PodLinks

WIDTH, HEAD, TOP, UPPER, LEAF, BOX = 1600, 110, 20, 90, 330, 24
MOST_LEAVES, MOST_BOXES = 40, 60
"""Most leaves that are drawn, and most boxes below one."""
_PANEL = "#eef1f4"
WAITS, SHARED, OWN, UNKNOWN = "waits", "shared", "own", "not known"
COLOURS = {WAITS: "#c62828", SHARED: "#b26a00", OWN: "#2f6fb7", UNKNOWN: "#7a4fbf"}
"""State of a link -> its color; the worst first."""


class _Cable(NamedTuple):
    """Both directions, as far as the pod uses them. Attributes: lower: the adapter or leaf; upper: what is above."""

    lower: str
    upper: str
    links: tuple[PodLink, ...]


def link_picture(found: PodLinks) -> str:
    """The picture of an answer of the API. In answers for tenants, the upper switches have no names."""
    leaves = sorted({c.upper for c in _cables(found.links, "adapter")})
    drawn = leaves[:MOST_LEAVES]
    place = {name: (number + 0.5) * WIDTH / max(1, len(drawn)) for number, name in enumerate(drawn)}
    below = [c for c in _cables(found.links, "adapter") if c.upper in place]
    above = [c for c in _cables(found.links, "leaf", "other") if c.lower in place or c.upper in place]
    tops = sorted({end for c in above for end in (c.lower, c.upper) if end not in place})
    higher = [c for c in _cables(found.links, "other") if c.lower != c.upper]
    cores = sorted({end for c in higher for end in (c.lower, c.upper)} - {*tops})
    stacks = {leaf: _stacked([c for c in below if c.upper == leaf]) for leaf in drawn}
    tallest = min(MOST_BOXES, max((len(s) for s in stacks.values()), default=0))
    height = LEAF + 60 + (tallest + 2) * BOX
    paths = "paths are exact" if found.exact else "paths are possible, others are, too"
    title = f"Pod {found.pod} on {found.fabric}: links by pattern {found.pattern}; {paths}"
    body = [_text(12, 32, title, 20), *_legend()]
    at = {name: (place[name], LEAF) for name in drawn}
    at |= {name: ((n + 0.5) * WIDTH / len(tops), HEAD + UPPER) for n, name in enumerate(tops)}
    at |= {name: ((n + 0.5) * WIDTH / len(cores), HEAD + TOP) for n, name in enumerate(cores)}
    body += _lines([*above, *higher], at, found.reading is not None)
    body += [part for name, (x, y) in at.items() for part in _switch(name, x, y)]
    for leaf, stack in stacks.items():
        body += _stack(stack, place[leaf], WIDTH / max(1, len(drawn)), found.reading is not None)
    if left := len(leaves) - len(drawn):
        body.append(_text(12, height - 10, f"{left} more leaf switches are not drawn", 15))
    if within := sum(c.lower == c.upper for c in _cables(found.links, "other")):
        body.append(_text(12, height - 46, f"cables among switches above leaves, not drawn: {within}", 15))
    if found.more_links:
        body.append(_text(12, height - 28, f"{found.more_links} more links are not drawn", 15))
    return drawing(title, WIDTH, height, body)


def state_of(links: Iterable[PodLink], operator: bool) -> str:
    """The worst state of these links. Tenants aren't shown whether a link waits: for them, no link is unknown."""
    given = list(links)
    if any(link.congested for link in given):
        return WAITS
    if operator and any(link.congested is None for link in given):
        return UNKNOWN
    return SHARED if any(link.shared_with for link in given) else OWN


def _cables(links: Sequence[PodLink], *lowest: str) -> list[_Cable]:
    """Cables whose lower end is of one of these levels, each with both directions."""
    order = ("adapter", "leaf", "other")
    found: dict[tuple[str, int, str, int], list[PodLink]] = {}
    for link in links:
        ends = [
            (order.index(link.sender_level), link.sender, link.sender_port),
            (order.index(link.receiver_level), link.receiver, link.receiver_port),
        ]
        (level, lower, lower_port), (_, upper, upper_port) = sorted(ends)
        if order[level] in lowest:
            found.setdefault((lower, lower_port, upper, upper_port), []).append(link)
    return [_Cable(key[0], key[2], tuple(both)) for key, both in sorted(found.items())]


def _stacked(cables: Sequence[_Cable]) -> list[tuple[str, tuple[PodLink, ...]]]:
    """The labels of the boxes below a leaf (a node and its adapters there), with their links."""
    found: dict[str, tuple[list[str], list[PodLink]]] = {}
    for cable in cables:
        node, _, adapter = cable.lower.partition("/")
        names, links = found.setdefault(node, ([], []))
        names.append(adapter)
        links += cable.links
    return [(f"{node} {', '.join(names)}", tuple(links)) for node, (names, links) in sorted(found.items())]


def _said(links: Iterable[PodLink]) -> str:
    """A line of text for each direction."""
    lines: list[str] = []
    for link in links:
        sender, receiver = (
            f"{name}:{port}" if port and "/" not in name else name
            for name, port in (
                (link.sender, link.sender_port_name or link.sender_port),
                (link.receiver, link.receiver_port_name or link.receiver_port),
            )
        )
        more = [f"{link.paths} paths", f"shared with {link.shared_with} others"]
        more += [f"sends {link.sent_gbps} Gb/s"] if link.sent_gbps is not None else []
        more += [f"waits {link.waiting:.0%} of the time"] if link.waiting is not None else []
        lines.append(f"{sender} to {receiver}: {', '.join(more)}")
    return "\n".join(lines)


def _lines(cables: Sequence[_Cable], at: Mapping[str, tuple[float, float]], operator: bool) -> Iterator[str]:
    """Cables between switches, side by side."""
    beside: dict[tuple[str, str], int] = {}
    for cable in cables:
        number = beside[cable.lower, cable.upper] = beside.get((cable.lower, cable.upper), -1) + 1
        (x1, y1), (x2, y2) = at[cable.lower], at[cable.upper]
        shift = (number % 2 * 2 - 1) * ((number + 1) // 2) * 7
        state = state_of(cable.links, operator)
        wide = 4 if state == WAITS else 2
        yield (
            f'<line x1="{x1 + shift:.1f}" y1="{y1}" x2="{x2 + shift:.1f}" y2="{y2}" stroke="{COLOURS[state]}" '
            f'stroke-width="{wide}"><title>{escape(_said(cable.links))}</title></line>'
        )


def _switch(name: str, x: float, y: float) -> Iterator[str]:
    wide = min(220, 30 + 9 * len(name))
    yield (
        f'<rect x="{x - wide / 2:.1f}" y="{y - 16}" width="{wide}" height="32" rx="4" fill="{_PANEL}" '
        f'stroke="{LINE}"/>'
    )
    yield _text(x, y + 5, name, 15, middle=True)


def _stack(
    stack: Sequence[tuple[str, tuple[PodLink, ...]]], x: float, wide: float, operator: bool
) -> Iterator[str]:
    """The boxes below a leaf, with their state's color at the left."""
    width = max(24.0, min(220.0, wide - 8))
    for number, (label, links) in enumerate(stack[:MOST_BOXES]):
        y, left = LEAF + 30 + number * BOX, x - width / 2
        state = state_of(links, operator)
        shown = label if len(label) <= width // 8 else f"{label[: max(1, int(width // 8) - 1)]}…"
        yield (
            f'<rect x="{left:.1f}" y="{y}" width="{width:.1f}" height="{BOX - 4}" fill="#ffffff" '
            f'stroke="{COLOURS[state]}" stroke-width="2"><title>{escape(label)}\n{escape(_said(links))}</title></rect>'
        )
        yield _text(left + 6, y + 15, shown, 13)
    if (more := len(stack) - MOST_BOXES) > 0:
        yield _text(x, LEAF + 46 + MOST_BOXES * BOX, f"{more} more", 13, middle=True)


def _legend() -> Iterator[str]:
    meanings = {
        WAITS: "congested: waits for more than 0.3 of the time",
        SHARED: "shared with others",
        OWN: "the pod's own",
        UNKNOWN: "not known whether it waits",
    }
    for number, (state, meaning) in enumerate(meanings.items()):
        x = 12 + number * 390
        yield f'<rect x="{x}" y="52" width="24" height="12" fill="{COLOURS[state]}"/>'
        yield _text(x + 32, 63, meaning, 14)


def _text(x: float, y: float, text: str, size: int, middle: bool = False) -> str:
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{TEXT}"{anchor}>{escape(text)}</text>'
