"""`weft site activate`: read a site file, check it, and send what the server doesn't have.

A site that was activated from the same file before is in force, and rows of it were edited in place: then only these
are read and sent, and the server checks the site. If it refuses, or more has changed, all files are read and checked
here, which alone says file and line.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from weft.cli.common import client_of, write_done
from weft.model.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from weft.app.sitetrace import FileTrace
    from weft.client import Client
    from weft.model.site import Node

Json = dict[str, Any]


def activate(args: argparse.Namespace) -> int:
    """`weft site activate`; returns the exit code."""
    client, file = client_of(args), Path(args.file)
    view = _edited(client, file, args.base) or _whole(client, file, args.base)
    return write_done(args, view, f"site {view['name']} is active, generation {view['generation']}")


def _whole(client: Client, file: Path, base: int | None) -> Json:
    from weft.app.sitefile import load_site
    from weft.app.sitetrace import Tracer
    from weft.planning.site.parts import cut

    tracer = Tracer()
    made = cut(load_site(file, seen=tracer))
    base = client.site.generation() if base is None else base
    view = client.site.activate(made.document, base, made.parts)
    digests = _nodes(view)
    if digests and all(digest in made.parts for digest in digests):
        starts = tuple(cast("Node", made.parts.rows[digest][1][0]).name for digest in digests)
        _keep(file, tracer.files, view, starts)
    return view


def _edited(client: Client, file: Path, base: int | None) -> Json | None:
    """The site with only its edited rows sent; None if all files must be read."""
    from weft.app.sitecache import digest_of, recall
    from weft.app.sitechange import changed
    from weft.app.sitetrace import edits

    known = recall(file)
    if known is None:
        return None
    try:
        found = edits(known.files, file)
        if found is None:
            return None
        active = client.site.show()
        document = active["document"]
        if digest_of(document) != known.document or base not in (None, active["generation"]):
            return None
        change = changed(document, known.starts, found[0], client.site.part)
        if change is None:
            return None
        view = client.site.activate(change.document, active["generation"], change.parts)
    except (OSError, InputError, NotFoundError):  # reading all files reports errors with file and line
        return None
    if _nodes(view) == change.document["nodes"]["parts"]:
        _keep(file, found[1], view, change.starts)
    return view


def _keep(file: Path, files: Sequence[FileTrace], view: Json, starts: tuple[str, ...]) -> None:
    from weft.app.sitecache import SiteTrace, digest_of, keep

    trace = SiteTrace.model_construct(files=tuple(files), document=digest_of(view["document"]), starts=starts)
    keep(file, trace)


def _nodes(view: Json) -> list[str]:
    """Digests of the parts that the nodes of the active site are in; empty: they are in its document."""
    nodes = view["document"].get("nodes")
    return list(nodes["parts"]) if isinstance(nodes, dict) else []
