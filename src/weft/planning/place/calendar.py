"""Who has which nodes when: leases and reservations, and what is taken at any time of a window.

Entries are kept by start in chunks of about √n. Each chunk keeps its entries by end, with the union of everything
that ends later than each of them, so that a window costs one union per chunk and a scan of the last one: tens of
operations where there are thousands of entries, for windows now and in the future alike.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.planning.place.sharing import NO_TERMS, Load, Terms, crossing

FOREVER = float("inf")
CHUNK = 64

Words = NDArray[np.unsignedinteger]
"""One or more machine words a leaf: bit i of a leaf is its i-th node."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A pod has these nodes from `start` (included) to `end` (excluded), in seconds.

    Attributes:
        bits: (leaf, bits of its nodes).
        terms: its constraints on these leaves.
    """

    start: float
    pod: str
    end: float
    bits: tuple[tuple[int, int], ...]
    terms: Terms = field(default=NO_TERMS, compare=False)


def _crossing(entry: Entry) -> dict[int, int]:
    """Leaf -> Gb/s that its uplinks carry for the entry's pod."""
    return crossing({leaf: bits.bit_count() for leaf, bits in entry.bits}, entry.terms.gbps)


class _Chunk:
    __slots__ = ("by_end", "entries", "later")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.by_end: list[float] = []
        self.later: list[Words] | None = None


class Calendar:
    """All entries of one fabric.

    Args:
        every: by leaf, the bits of all its nodes; sets the width of the words.
    """

    def __init__(self, every: list[int]) -> None:
        width = max((bits.bit_length() for bits in every), default=1)
        small = next((w for w in (8, 16, 32, 64) if width <= w), 64)
        self._dtype = np.dtype(f"uint{small}")
        self.words_per_leaf = -(-width // small)
        self._bits = small
        self._leaves = len(every)
        self._chunks: list[_Chunk] = []
        self._by_pod: dict[str, list[Entry]] = {}
        # By the id of an entry that is in the calendar: its leaves and words.
        self._places: dict[int, tuple[NDArray[np.intp], Words]] = {}
        self._given: list[tuple[float, int]] | None = None
        self._closing: list[Entry] = []
        self._guaranteed: list[Entry] = []

    def __len__(self) -> int:
        return sum(len(b.entries) for b in self._chunks)

    def __iter__(self) -> Iterator[Entry]:
        return (e for b in self._chunks for e in b.entries)

    def of(self, pod: str) -> tuple[Entry, ...]:
        """The pod's entries, by start."""
        return tuple(sorted(self._by_pod.get(pod, ())))

    def words(self, bits: Mapping[int, int] | tuple[tuple[int, int], ...]) -> Words:
        """Bits by leaf as words."""
        found = np.zeros((self._leaves, self.words_per_leaf), self._dtype)
        mask = (1 << self._bits) - 1
        for leaf, value in bits.items() if isinstance(bits, Mapping) else bits:
            for word in range(self.words_per_leaf):
                found[leaf, word] = value >> (word * self._bits) & mask
        return found

    def add(self, entry: Entry) -> None:
        """Add an entry. Overlaps aren't checked."""
        self._by_pod.setdefault(entry.pod, []).append(entry)
        self._given = None
        if entry.terms.closing:
            self._closing.append(entry)
        if entry.terms.gbps:
            self._guaranteed.append(entry)
        chunk = self._chunk_for(entry)
        insort(chunk.entries, entry)
        chunk.later = None
        if len(chunk.entries) > 2 * CHUNK:
            half = len(chunk.entries) // 2
            self._chunks.insert(self._chunks.index(chunk) + 1, _Chunk(chunk.entries[half:]))
            del chunk.entries[half:]

    def remove(self, pod: str) -> None:
        """Remove all entries of a pod; not an error if there are none."""
        self._given = None
        for entry in self._by_pod.pop(pod, ()):
            chunk = next(b for b in self._chunks if entry in b.entries)
            chunk.entries.remove(entry)
            self._places.pop(id(entry), None)
            chunk.later = None
            if not chunk.entries:
                self._chunks.remove(chunk)
        self._closing = [e for e in self._closing if e.pod != pod]
        self._guaranteed = [e for e in self._guaranteed if e.pod != pod]

    def leaves_at_odds(self, terms: Terms, start: float, end: float) -> set[int]:
        """Leaves where, in [start, end), another pod has nodes on terms that conflict with these."""
        entries = self if terms.closing else self._closing
        return {
            leaf
            for entry in entries
            if entry.start < end and entry.end > start and terms.at_odds(entry.terms)
            for leaf, _ in entry.bits
        }

    def loads(self, exclude_pod: str = "") -> list[Load[int]]:
        """What uplinks carry for pods other than `exclude_pod`, each for its own time."""
        return [Load(e.start, e.end, _crossing(e)) for e in self._guaranteed if e.pod != exclude_pod]

    def given_back(self) -> list[tuple[float, int]]:
        """When each entry with an end ends, and how many nodes it has; unordered."""
        if self._given is None:
            every = ((e.end, sum(bits.bit_count() for _, bits in e.bits)) for e in self if e.end < FOREVER)
            self._given = list(every)
        return self._given

    def taken(self, start: float, end: float) -> Words:
        """The union of everything that overlaps [start, end)."""
        found = np.zeros((self._leaves, self.words_per_leaf), self._dtype)
        for chunk in self._chunks:
            if chunk.entries[0].start >= end:
                break
            if chunk.entries[-1].start < end:
                later = self._later(chunk)
                at = bisect_right(chunk.by_end, start)
                if at < len(later):
                    np.bitwise_or(found, later[at], found)
            else:
                for entry in chunk.entries:
                    if entry.start >= end:
                        break
                    if entry.end > start:
                        self._or_into(found, entry)
        return found

    def taken_bits(self, start: float, end: float) -> dict[int, int]:
        """What `taken` returns, as leaf -> bits; only fast for few entries."""
        found: dict[int, int] = {}
        for chunk in self._chunks:
            for entry in chunk.entries:
                if entry.start >= end:
                    return found
                if entry.end > start:
                    for leaf, bits in entry.bits:
                        found[leaf] = found.get(leaf, 0) | bits
        return found

    def _chunk_for(self, entry: Entry) -> _Chunk:
        if not self._chunks:
            self._chunks.append(_Chunk([]))
        found = self._chunks[0]
        for chunk in self._chunks:
            if chunk.entries and chunk.entries[0] > entry:
                break
            found = chunk
        return found

    def _later(self, chunk: _Chunk) -> list[Words]:
        """`[i]`: the union of the entries of the chunk that are not among the i first to end."""
        if chunk.later is None:
            ordered = sorted(chunk.entries, key=lambda e: e.end)
            chunk.by_end = [e.end for e in ordered]
            later: list[Words] = []
            union = np.zeros((self._leaves, self.words_per_leaf), self._dtype)
            for entry in reversed(ordered):
                union = union.copy()
                self._or_into(union, entry)
                later.append(union)
            later.reverse()
            chunk.later = later
        return chunk.later

    def _or_into(self, words: Words, entry: Entry) -> None:
        found = self._places.get(id(entry))
        if found is None:
            mask, each = (1 << self._bits) - 1, range(self.words_per_leaf)
            leaves = np.array([leaf for leaf, _ in entry.bits], np.intp)
            values = [[value >> (word * self._bits) & mask for word in each] for _, value in entry.bits]
            found = self._places[id(entry)] = leaves, np.array(values, self._dtype).reshape(-1, len(each))
        words[found[0]] |= found[1]
