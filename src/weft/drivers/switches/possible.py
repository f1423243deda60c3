"""Links that pods of an Ethernet fabric may use, by the site's cabling, and the rates of ports, by switches'
counters."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import NamedTuple

from weft.drivers.switches.cabling import Cabling, switch_of
from weft.drivers.switches.counters import TimedAnswer
from weft.model.agentlinks import RoutedPort, SwitchCable
from weft.model.linkreading import PortRate, RouteReading, TimedRates
from weft.model.portcounters import PortCounters
from weft.model.site import Site, SwitchLink

MOST_PORTS = 255
"""Most cabled ports of a switch that are followed."""
FIRST = 2.0
"""Seconds between two readings if there was none lately: a rate needs two."""
LEAST = 1.0
"""Least number of seconds over which a rate is measured."""
LATELY = 120.0
"""Seconds for which a reading counts."""
SOON = 3.0
"""Seconds that a reading waits for switches, so that two and the pause fit into a request of the API (10 s). A switch
that takes longer gives its answer to the next reading."""
HASHED = "switches choose among equal paths by a hash of each flow, or a spanning tree blocks some: paths are possible"
BONDS = "adapters with bonds are followed by the first link of each"
UNJUDGED = "whether Ethernet links are congested isn't judged: pauses and ECN marks are shown where switches count them"


def possible_routes(site: Site, fabric: str, cabling: Cabling) -> RouteReading:
    """All shortest paths by the site's cabling; peer links aren't followed. Switches and ports get numbers."""
    guids = {name: number for number, name in enumerate(cabling.switches, 1)}
    numbers: dict[str, int] = {}
    used: dict[str, int] = {}

    def number(end: str) -> int | None:
        """Number of `switch/port`; None: the switch has too many ports."""
        switch = switch_of(end)
        if end not in numbers and used.get(switch, 0) < MOST_PORTS:
            used[switch] = numbers[end] = used.get(switch, 0) + 1
        return numbers.get(end)

    cables: list[SwitchCable] = []
    ports: list[RoutedPort] = []
    left = 0
    rates = {(k.a, k.b): k.rate_gbps for k in _links(site, fabric)}
    for a, b, peer in cabling.links:
        a_port, b_port = number(a), number(b)
        if peer or a_port is None or b_port is None:
            left += not peer
            continue
        a_guid, b_guid = guids[switch_of(a)], guids[switch_of(b)]
        gbps = rates.get((a, b)) or 0
        cables.append(SwitchCable(a=a_guid, a_port=a_port, b=b_guid, b_port=b_port, gbps=gbps))
    hcas = [hca for node in site.nodes for hca in node.hcas_on(fabric)]
    bonds = False
    for hca in hcas:
        ends = cabling.ends(hca.port_id)
        bonds |= len(ends) > 1
        port = number(ends[0]) if switch_of(ends[0]) in guids else None
        if port is None:
            left += 1
            continue
        ports.append(
            RoutedPort(
                port_guid=hca.port_guid,
                lid=0,
                node_guid=hca.guid,
                port=1,
                switch_guid=guids[switch_of(ends[0])],
                switch_port=port,
            )
        )
    what = repr((sorted(guids.items()), sorted(numbers.items()), ports, cables)).encode()
    partial = [HASHED, UNJUDGED, *([BONDS] if bonds else [])]
    if left:
        partial.append(f"{left} cables aren't followed: their switches have more than {MOST_PORTS} of them")
    return RouteReading(
        digest=sha256(what).hexdigest(),
        tables={},
        names={guid: name for name, guid in guids.items()},
        ports=tuple(ports),
        cables=tuple(cables),
        host_gbps={hca.port_guid: hca.rate_gbps for hca in hcas},
        partial=tuple(partial),
        equal_paths=True,
        port_names={(guids[switch_of(e)], n): e.partition("/")[2] for e, n in numbers.items()},
    )


def _links(site: Site, fabric: str) -> tuple[SwitchLink, ...]:
    switching = site.fabrics[fabric].manager.switching
    return () if switching is None else switching.links


class _Reading(NamedTuple):
    """A switch's answer: its ports by their names. Attributes: at: when it answered."""

    at: float
    ports: Mapping[str, PortCounters]


class SwitchRates:
    """Rates of ports, by the last two answers of each switch and the time between them. Thread-safe.

    Args:
        read: asks all switches; ends within `SOON`.
    """

    def __init__(
        self,
        read: Callable[[], Mapping[str, TimedAnswer]],
        monotonic: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._read, self._monotonic, self._pause = read, monotonic, pause
        self._turn = threading.Lock()
        self._looked: float | None = None
        """When the last reading ended."""
        self._readings: dict[str, tuple[_Reading, ...]] = {}
        """Switch -> its last two answers, newest first."""
        self._silent: frozenset[str] = frozenset()
        """Switches that didn't answer when they were asked last."""

    def get(self, routes: RouteReading, max_age: float) -> TimedRates:
        """Rates of all ports of these routes; unknown where a switch doesn't answer, or doesn't count."""
        with self._turn:
            now = self._monotonic()
            if self._looked is None or now - self._looked > LATELY:
                self._readings = {}
                self._look()
                self._pause(FIRST)
                self._look()
            elif now - self._looked > max(max_age, LEAST):
                self._look()
            pairs = {
                name: (found[0], found[1])
                for name, found in self._readings.items()
                if name not in self._silent and len(found) == 2
            }
            newest = min((new.at for new, _ in pairs.values()), default=now)
            age = max(0.0, self._monotonic() - newest)
        lengths = [new.at - old.at for new, old in pairs.values()]
        ports = dict(_rates(routes, pairs))
        unread = sum(rate.sent is None for end, rate in ports.items() if end in routes.port_names)
        return TimedRates(ports, (max(lengths),) if lengths else (), age, unread)

    def _look(self) -> None:
        """Ask all switches. An answer that is the one before, or came less than `LEAST` seconds after it, gives no
        rate."""
        silent: set[str] = set()
        for name, (at, found) in self._read().items():
            if isinstance(found, str):
                silent.add(name)
                continue
            before = tuple(r for r in self._readings.get(name, ()) if at - r.at <= LATELY)
            if not before or at - before[0].at >= LEAST:
                self._readings[name] = (_Reading(at, {one.port: one for one in found}), *before[:1])
        self._silent, self._looked = frozenset(silent), self._monotonic()


def _rates(
    routes: RouteReading, pairs: Mapping[str, tuple[_Reading, _Reading]]
) -> Iterator[tuple[tuple[int, int], PortRate]]:
    """Rates of both ends of each link: what a host sends is what its switch's port receives."""

    def rate(end: tuple[int, int], *fields: str) -> list[float | None]:
        if (pair := pairs.get(routes.names[end[0]])) is None:
            return [None for _ in fields]
        (new_at, new), (old_at, old) = pair
        port = routes.port_names[end]
        return [_grown((new.get(port), old.get(port)), field, new_at - old_at) for field in fields]

    for cable in routes.cables:
        for end in ((cable.a, cable.a_port), (cable.b, cable.b_port)):
            sent, received, pauses, marked = rate(
                end, "transmit_bytes", "receive_bytes", "pfc_receive", "ecn_marked"
            )
            yield end, PortRate(sent, received, pauses=pauses, marked=marked)
    for port in routes.ports:
        end = port.switch_guid, port.switch_port
        sent, received, paused, pauses, marked = rate(
            end, "transmit_bytes", "receive_bytes", "pfc_transmit", "pfc_receive", "ecn_marked"
        )
        yield end, PortRate(sent, received, pauses=pauses, marked=marked)
        yield (port.node_guid, port.port), PortRate(received, sent, pauses=paused)


def _grown(pair: tuple[PortCounters | None, PortCounters | None], field: str, seconds: float) -> float | None:
    """Growth of a counter per second; None: not counted, not read, or reset in between."""
    if pair[0] is None or pair[1] is None or seconds <= 0:
        return None
    now, before = getattr(pair[0], field), getattr(pair[1], field)
    return None if now is None or before is None or now < before else (now - before) / seconds
