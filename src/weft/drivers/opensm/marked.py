"""What a reading shows of weft's partitions, in the managers' files and on the wire alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from weft.drivers.opensm.observe import IndexedReading
from weft.model.agentapi import Tables, WeftPartitionDocument
from weft.model.ids import FULL_MEMBER, format_guid, format_pkey
from weft.model.mark import Mark
from weft.model.ranges import Range
from weft.model.resources import Kind, Marked


def marked_segments(fabric: str, ours: Range, seen: IndexedReading) -> Sequence[Marked]:
    """Everything in weft's section of any manager, and keys in weft's range without a partition."""
    out: dict[int, Marked] = {}
    for name in sorted(seen.files, key=lambda n: n != seen.master):
        for document in seen.files[name].weft:
            out.setdefault(document.pkey, _in_file(fabric, document, name))
    configured = {p.pkey for p in seen.files[seen.master].configured}
    for pkey, places in _on_wire(seen.tables).items():
        if pkey in ours and pkey not in configured and pkey not in out:
            facts = {"where": "only on the wire", "ports": places, "number": pkey}
            out[pkey] = Marked(Kind.SEGMENT, fabric, format_pkey(pkey), "", None, None, facts)
    return [out[pkey] for pkey in sorted(out)]


def _in_file(fabric: str, document: WeftPartitionDocument, manager: str) -> Marked:
    mark = Mark.parse(document.mark)
    name, owner = (mark.name(), mark.owner) if mark else ("", None)
    members = [format_guid(g) for g in document.members]
    facts = {"manager": manager, "members": members, "number": document.pkey}
    return Marked(Kind.SEGMENT, fabric, format_pkey(document.pkey), name, owner, None, facts)


def _on_wire(tables: Tables) -> dict[int, list[str]]:
    """P_Key -> ports that have it: hosts', leaf switches' and vacant ones."""
    out: dict[int, list[str]] = {}
    for port in tables.ports:
        for pkey in {k & ~FULL_MEMBER for k in (*port.keys, *(port.leaf_keys or ()))}:
            out.setdefault(pkey, []).append(format_guid(port.port_guid))
    for vacant in tables.vacant:
        for pkey in {k & ~FULL_MEMBER for k in vacant.keys}:
            out.setdefault(pkey, []).append(f"leaf {format_guid(vacant.switch_guid)} port {vacant.port}")
    return out
