"""The picture of the site for operators, and the same as a table: nodes by leaf or rack, with their states."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.api.threadshares import run_outside
from weft.api.together import together
from weft.app.nodepages import NodeMark
from weft.generate.sitepicture import COLOURS, MOST_BOXES, MOST_NODES, Box, picture
from weft.model.errors import InputError
from weft.model.views import HealthValue, LeafView
from weft.planning.kept import Latest
from weft.web.pages import Kept, fragment
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/site")
KINDS = ("leaf", "rack")
NONE = "-"
"""Name for the leaf of nodes that are on none, and for the block of a fabric without blocks."""
HEALTHS = {"ok": "#2a8f5c", "warning": "#b26a00", "failed": "#c62828", "unknown": "#8b949e"}
"""Colors of health."""
LOADS = {
    "up to 1 %": (0.01, "#8fb8de"),
    "up to 10 %": (0.1, "#4f8fc9"),
    "up to 50 %": (0.5, "#2a8f5c"),
    "up to 90 %": (0.9, "#b26a00"),
    "above 90 %": (math.inf, "#c62828"),
}
"""Ranges of the share of its links that a node uses, each with its upper end and its color."""
_STEPS = [end for end, _ in LOADS.values()][:-1]
ROWS = 200
"""Leaves or racks on a page of the table."""
By = Annotated[str, Query(max_length=20)]


@dataclass(frozen=True)
class SitePicture:
    """The nodes as they were read, in boxes: the same object for as long as none changes. What is made of it is kept
    with it: it depends on nothing else, and least of all on who asks.
    """

    by: str
    boxes: Sequence[Box]
    nodes: Sequence[NodeMark]

    @cached_property
    def rows(self) -> Sequence[tuple[Box, Mapping[str, int]]]:
        """Rows of the table: each box, with the number of its nodes by state."""
        return [(box, Counter(state for _, state in box.nodes)) for box in self.boxes]

    @cached_property
    def texts(self) -> dict[tuple[str | int, ...], str]:
        """Parts of pages that were written from it."""
        return {}


_PICTURES = Latest[SitePicture](8)
_DRAWN = Latest[Kept](8)


@router.get("/picture")
async def picture_page(
    visit: Visitor, by: By = "leaf", number: Annotated[int, Query(alias="page", ge=1, le=1000)] = 1
) -> Response:
    """The picture, and its table in pages."""
    await visit.caller("GET", "/v1/nodes")
    found = await (await _reading(visit, by))()
    rows = found.rows
    further = len(rows) > number * ROWS
    if (table := found.texts.get(("table", visit.base, number))) is None:
        shown = rows[(number - 1) * ROWS : number * ROWS]
        table = fragment(visit.http, "site_picture_table.html", by=by, states=list(COLOURS), rows=shown)
        if shown:
            found.texts["table", visit.base, number] = table
    return visit.page(
        "site_picture.html",
        by=by,
        large=len(found.nodes) > MOST_NODES,
        kinds=KINDS,
        loads="links:show" in visit.allowed,
        table=table,
        total=len(rows),
        undrawn=max(0, len(rows) - MOST_BOXES),
        first=urlencode({"by": by}) if number > 1 else None,
        following=urlencode({"by": by, "page": number + 1}) if further else None,
    )


@router.get("/picture.svg")
async def picture_file(visit: Visitor, by: By = "leaf") -> Response:
    """The picture alone, whose nodes are links."""
    found = await (await _reading(visit, by))()
    if (text := found.texts.get(("svg", visit.base))) is None:
        plural = {"leaf": "leaves", "rack": "racks"}[by]
        title = f"{len(found.nodes)} nodes in {len(found.boxes)} {plural}"
        text = await run_in_threadpool(picture, title, found.boxes, f"{visit.base}/site/nodes")
        found.texts["svg", visit.base] = text
    return Response(text, 200, media_type="image/svg+xml")


@router.get("/picture.json")
async def picture_data(visit: Visitor, by: By = "leaf") -> Response:
    """What the canvas draws: nodes in the order of their boxes, and by each kind of color the number of its value.

    304 for the tag of the last answer, if nothing has changed.
    """
    picture = await _reading(visit, by)
    request = await visit.asker("GET", "/v1/site/health/nodes")

    async def read() -> Kept:
        found = await picture()

        def draw() -> Kept:
            healths = visit.verbs.nodes.health_values(request)
            return _DRAWN.of(
                (found, healths), (), lambda: Kept.of(_drawn(found, healths), "application/json")
            )

        return await run_outside(visit.http, request, draw)

    return (await together(visit.http, request, ("picture", by), read)).answer(visit.http)


@router.get("/picture-load.json")
async def picture_load(visit: Visitor) -> Response:
    """Colors of the canvas by load: the number of each node's range, and why loads aren't known."""
    request = await visit.asker("GET", "/v1/site/loads")

    async def read() -> str:
        found = await run_outside(visit.http, request, lambda: visit.verbs.fabrics.node_loads(request))
        document = {
            "values": list(LOADS),
            "fixed": {name: color for name, (_, color) in LOADS.items()},
            "nodes": {one.node: bisect_left(_STEPS, one.load) for one in found.nodes if one.load is not None},
            "unread": found.unread,
        }
        return json.dumps(document, separators=(",", ":"))

    return Response(await together(visit.http, request, ("load",), read), 200, media_type="application/json")


def _drawn(found: SitePicture, healths: Mapping[str, HealthValue]) -> str:
    marks, boxes = {one.name: one for one in found.nodes}, found.boxes
    names = [name for box in boxes for name, _ in box.nodes]
    of: dict[str, list[str]] = {
        "state": [state for box in boxes for _, state in box.nodes],
        "pod": [_pod_of(marks[name]) for name in names],
        "project": [marks[name].project_id or "" for name in names],
        "health": [healths.get(name, "unknown") for name in names],
    }
    values = {kind: list(dict.fromkeys(row)) for kind, row in of.items()}
    number = {kind: {value: n for n, value in enumerate(row)} for kind, row in values.items()}
    document = {
        "boxes": [{"name": box.name, "nodes": len(box.nodes)} for box in boxes],
        "nodes": names,
        "values": values,
        "colors": {kind: [number[kind][value] for value in row] for kind, row in of.items()},
        "fixed": {"state": dict(COLOURS), "health": HEALTHS},
    }
    return json.dumps(document, separators=(",", ":"))


def _pod_of(node: NodeMark) -> str:
    """Pod and project of a node, since pods of several projects may have one name."""
    return f"{node.pod} of {node.project_id}" if node.pod else ""


async def _reading(visit: Visit, by: str) -> Callable[[], Awaitable[SitePicture]]:
    """A function that reads the picture; checks first that the caller's token allows it."""
    if by not in KINDS:
        raise InputError("by", by, f"one of: {', '.join(KINDS)}")
    request = await visit.asker("GET", "/v1/nodes")
    again = await visit.asker("GET", "/v1/site/leaves")

    def look() -> SitePicture:
        nodes = visit.verbs.nodes.marks(request)
        leaves = tuple(visit.verbs.fabrics.leaves(again)) if by == "leaf" else ()
        of = {leaf.name: leaf for leaf in leaves}
        return _PICTURES.of((nodes,), (by, leaves), lambda: SitePicture(by, boxes_of(nodes, of, by), nodes))

    async def read() -> SitePicture:
        return await run_outside(visit.http, request, look)

    return lambda: together(visit.http, request, ("boxes", by), read)


def boxes_of(nodes: Sequence[NodeMark], leaves: dict[str, LeafView], by: str) -> list[Box]:
    """Nodes by leaf, in the order of the fabric, or by rack; those without one last."""
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in leaves}
    for node in nodes:
        found.setdefault((node.leaf if by == "leaf" else node.rack) or NONE, []).append(
            (node.name, node.state)
        )
    boxes: list[Box] = []
    for name, members in found.items():
        leaf = leaves.get(name)
        block = "" if leaf is None else _block(leaf)
        query = "" if name == NONE and by == "rack" else urlencode({by: name})
        shown = f"no {by}" if name == NONE else name
        if members:
            boxes.append(Box(shown, query, block, members, leaf.uplink_gbps if leaf else None))
    return (
        sorted(boxes, key=lambda box: not box.block) if by == "leaf" else sorted(boxes, key=lambda b: b.name)
    )


def _block(leaf: LeafView) -> str:
    return f"fabric {leaf.fabric}" if leaf.block == NONE else f"{leaf.block} of {leaf.fabric}"
