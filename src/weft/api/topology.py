"""A pod's topology as an HTTP answer."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from weft.generate.topology.formats import FORMATS
from weft.model.views import TopologyFile

LEFT_OUT = "Weft-Left-Out"
"""Header of every topology: the servers that aren't in it, as `name: why`, separated by `; `; empty if all are."""
_LONGEST = 4000
"""Most characters of that header: proxies refuse long ones."""
TOPOLOGY_FORMATS = "; ".join(f"`{name}`: {row.what}" for name, row in FORMATS.items()) + "."
TOPOLOGY_SCHEMA: dict[str, Any] = {
    "description": f"The file. The header `{LEFT_OUT}` lists the servers that aren't in it.",
    "content": {
        kind: {"schema": {"type": "string"} if kind.startswith("text/") else {}}
        for kind in dict.fromkeys(row.media_type.partition(";")[0] for row in FORMATS.values())
    },
}
UNCHANGED: dict[str, Any] = {"description": "The file still has a tag that `If-None-Match` names."}


def topology_answer(file: TopologyFile, if_none_match: str | None) -> Response:
    """The file with its `ETag`, or 304 if the caller has it already (RFC 9110 §13.1.2)."""
    tag = f'"{file.tag}"'
    headers = {"ETag": tag, LEFT_OUT: left_out_header(file)}
    given = [one.strip().removeprefix("W/") for one in (if_none_match or "").split(",")]
    if tag in given or "*" in given:
        return Response(None, 304, headers)
    return Response(file.text, 200, {**headers, "Content-Type": file.media_type})


def left_out_header(file: TopologyFile) -> str:
    """The header's value: one line of ASCII, cut at the limit with the number of servers that are left."""
    listed: list[str] = []
    for i, (name, why) in enumerate(file.left_out.items()):
        text = f"{name}: {why}".encode("ascii", "backslashreplace").decode()
        text = "".join(c if c.isprintable() else "?" for c in text).replace("; ", ", ")
        if sum(map(len, listed)) + 2 * len(listed) + len(text) > _LONGEST:
            return "; ".join([*listed, f"{len(file.left_out) - i} more"])
        listed.append(text)
    return "; ".join(listed)
