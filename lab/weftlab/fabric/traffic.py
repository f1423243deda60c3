"""Traffic that the simulator can't carry, as ports count it: along the paths that infiniband-diags finds.

ibsim moves no data, but has the counters of every port. weft reads those; who uses which port is read here by
`ibtracert`, so that weft's own reading of the forwarding tables is compared with something else.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import permutations
from typing import NamedTuple

from weft.model.site import Hca, Node, Site
from weftlab.fabric.faults import Faults
from weftlab.layout import LabError

WORD = 4
"""Bytes that PortXmitData counts by."""
EVERY = 0.5
"""Seconds between two changes of the counters."""
_FROM = re.compile(r'^From ca \{\w+\} portnum \d+ lid \d+-\d+ "([^"]*)"')
_HOP = re.compile(r'^\[(\d+)\] -> (?:switch|ca) port \{\w+\}\[(\d+)\] lid \d+-\d+ "([^"]*)"')


class Hop(NamedTuple):
    """One direction of a cable; ends are named as in the site: a switch, or node/hca."""

    sender: str
    sender_port: int
    receiver: str
    receiver_port: int

    @property
    def cable(self) -> frozenset[tuple[str, int]]:
        """Both ends of the cable, equal for its two directions."""
        return frozenset({(self.sender, self.sender_port), (self.receiver, self.receiver_port)})

    @property
    def is_between_switches(self) -> bool:
        """Whether no end is a host's adapter."""
        return "/" not in self.sender and "/" not in self.receiver


def hops(text: str) -> list[Hop]:
    """What `ibtracert` prints, as hops. Raises `LabError` if it isn't a path."""
    at, found = "", list[Hop]()
    for line in text.splitlines():
        if begin := _FROM.match(line):
            at = begin[1].replace(" ", "/")
        elif at and (hop := _HOP.match(line)):
            found.append(Hop(at, int(hop[1]), hop[3].replace(" ", "/"), int(hop[2])))
            at = found[-1].receiver
    if not found:
        raise LabError(f"ibtracert found no path: {text.strip()[:200]}")
    return found


Path = tuple[Hop, ...]


def rail_paths(faults: Faults, nodes: Iterable[Node], fabric: str) -> dict[tuple[str, str, int], Path]:
    """(sender, receiver, rail) -> path, for all pairs of nodes on each rail, as `ibtracert` finds it."""
    found: dict[tuple[str, str, int], Path] = {}
    for a, b in permutations(nodes, 2):
        for rail, (one, other) in enumerate(zip(a.hcas_on(fabric), b.hcas_on(fabric), strict=True)):
            found[a.name, b.name, rail] = tuple(hops(_traced(faults, one, other)))
    return found


def _traced(faults: Faults, a: Hca, b: Hca) -> str:
    return faults.ask("ibtracert", "-G", f"{a.port_guid:#x}", f"{b.port_guid:#x}")


def sent(paths: Iterable[Path], rate: float) -> dict[tuple[str, int], float]:
    """Bytes a second that each port on these paths sends, if each path carries `rate`."""
    uses = Counter((hop.sender, hop.sender_port) for path in paths for hop in path)
    return {end: rate * times for end, times in uses.items()}


class Traffic:
    """Counts traffic up until the block ends.

    Args:
        rates: port -> bytes a second that it sends.
        waits: ports that wait twice as long as they send: congested ones.
    """

    def __init__(
        self, faults: Faults, rates: Mapping[tuple[str, int], float], waits: Iterable[tuple[str, int]]
    ) -> None:
        self._faults, self._rates, self._waits = faults, dict(rates), set(waits)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="traffic", daemon=True)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _go_on(self) -> None:
        began = time.monotonic()
        while not self._ended.wait(EVERY):
            seconds = time.monotonic() - began
            for (end, port), rate in self._rates.items():
                words = int(rate * seconds / WORD)
                wait = min(2 * words, 0xFFFFFFF0) if (end, port) in self._waits else 0
                self._faults.count_traffic(end, words, wait, port)


def node_ends(site: Site, node: str, fabric: str) -> set[tuple[str, int]]:
    """The adapters of a node, as ends."""
    return {(f"{node}/{hca.name}", 1) for hca in site.node_by_name[node].hcas_on(fabric)}
