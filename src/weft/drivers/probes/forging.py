"""Which VLAN tags an end sends: its own pod's, and forged ones of other VLANs in use that have listeners. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.drivers.probes.rounds import ProbedPort
from weft.model.fabrictypes import Mode
from weft.model.specs import SegmentSpec

MOST_FORGED = 2
"""Most VLANs to forge. Each adds two tags to at most three others, and an agent accepts
`weft.model.probeapi.MOST_TAGS`."""
LISTENERS = 2
"""Listeners per such VLAN; in total at most half of a round's others, so that ports of no pod aren't crowded
out."""


def leaf(port: str) -> str:
    """The switch of a port, `switch/port`."""
    return port.partition("/")[0]


def ambiguous(segment: SegmentSpec, recorded: Collection[SegmentSpec]) -> frozenset[str]:
    """Ports whose untagged frames a member may legitimately hear: those of a VLAN that a member's shared port
    is in, too."""
    shared = [s for s in _others(segment, recorded) if s.ports & segment.ports]
    return frozenset(m.port for s in shared for m in s.members if m.mode is not Mode.TRUNK)


def forged(
    segment: SegmentSpec, settled: Collection[SegmentSpec], strangers: Sequence[ProbedPort]
) -> tuple[SegmentSpec, ...]:
    """The segments whose tags are forged: those on members' own leaves first, and only if a port of theirs
    can listen.

    Args:
        settled: segments that are on the fabric exactly as recorded; the members of one that is being changed
        aren't known.
        strangers: ends that may take part and aren't members.
    """
    there, leaves = {e.port for e in strangers}, {leaf(p) for p in segment.ports}
    found = [s for s in _others(segment, settled) if s.ports & there and segment.ports - s.ports]
    return tuple(sorted(found, key=lambda s: (leaves.isdisjoint(map(leaf, s.ports)), s.number))[:MOST_FORGED])


def listeners_first(strangers: Sequence[ProbedPort], others: Sequence[SegmentSpec]) -> list[ProbedPort]:
    """Some ports of each of these VLANs, then all others. Shared ports come first, since their hosts still
    have them."""
    first: list[ProbedPort] = []
    for segment in others:
        modes = {m.port: m.mode for m in segment.members}
        its = [e for e in strangers if e.port in modes and e not in first]
        first += sorted(its, key=lambda e: modes[e.port] is not Mode.TRUNK)[:LISTENERS]
    return [*first, *(e for e in strangers if e not in first)]


def tags_of(port: str, segment: SegmentSpec, others: Sequence[SegmentSpec]) -> tuple[tuple[int, ...], ...]:
    """The tags that an end sends. A member of a trunk sends its own tag, strangers any tag that might get in;
    then come tags that might get a member into another VLAN, or an end of another VLAN into this one, also
    behind the end's own.

    Args:
        others: VLANs whose tags are forged; an end doesn't forge one that it is in.
    """
    number = segment.number
    mode = next((m.mode for m in segment.members if m.port == port), None)
    if mode is None:
        apart = [s.number for s in others if port in s.ports and not s.ports & segment.ports]
        return ((), (number,), (0, number), *((own, number) for own in apart))
    plain = ((number,),) if mode is Mode.TRUNK else ((), (number,), (0, number))
    numbers = [s.number for s in others if port not in s.ports]
    return (*plain, *(tags for other in numbers for tags in ((other,), (number, other))))


def _others(segment: SegmentSpec, segments: Collection[SegmentSpec]) -> list[SegmentSpec]:
    return [s for s in segments if s.number != segment.number]
