"""What switches say beside their VLANs: their ports' settings for RoCE, and whom they hear by LLDP."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from weft.drivers.switches.cabling import Cabling
from weft.drivers.switches.switch import Switch
from weft.model.errors import OutsideError
from weft.model.fabric import FabricDifference
from weft.model.site import Site
from weft.planning.fabric.qos import SwitchQos, differences
from weft.planning.site.neighbours import Neighbour, live_differences

QOS_SECONDS = 60.0
"""How old a reading of settings may be: operators change them, not weft."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A switch that doesn't say its settings, and why.

    Attributes:
        passing: it may say them the next time; otherwise it has none to say.
    """

    why: str
    passing: bool


SettingsSeen = Mapping[str, SwitchQos | Silent]
"""Switch -> its ports' settings for RoCE."""


class QosReading:
    """Settings of all of a fabric's switches, read at most once in a while. Thread-safe."""

    def __init__(
        self,
        sessions: Sequence[Switch],
        pool: Executor,
        seconds: float = QOS_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sessions, self._pool, self._monotonic = sessions, pool, monotonic
        self._seconds = seconds
        self._lock = threading.Lock()
        self._last: tuple[float, SettingsSeen] | None = None

    def get(self, max_age: float | None = None) -> SettingsSeen:
        """A reading that began at most so many seconds ago. A switch without an answer is asked again each time."""
        max_age = self._seconds if max_age is None else max_age
        with self._lock:
            now = self._monotonic()
            known: SettingsSeen = {}
            if self._last is not None and now - self._last[0] < max_age:
                known = {s: one for s, one in self._last[1].items() if not _is_passing(one)}
            ask = [s for s in self._sessions if s.name not in known]
            seen = {**known, **dict(zip((s.name for s in ask), self._pool.map(_settings, ask), strict=True))}
            self._last = (self._last[0] if known and self._last else now, seen)
            return seen


def _is_passing(one: SwitchQos | Silent) -> bool:
    return isinstance(one, Silent) and one.passing


def _settings(session: Switch) -> SwitchQos | Silent:
    try:
        told = session.qos()
    except OutsideError as error:
        return Silent(error.answer, True)
    return Silent(told, False) if isinstance(told, str) else told


def qos_sentences(site: Site, fabric: str, cabling: Cabling, seen: SettingsSeen) -> Iterator[str]:
    """Every difference on ports that the site names, one sentence each."""
    wanted = site.fabrics[fabric].qos
    if wanted is None:
        return
    for end in sorted({*cabling.member, *cabling.uplinks}):
        switch, _, port = end.partition("/")
        told = seen.get(switch)
        if not isinstance(told, SwitchQos):
            continue
        found = told.of(port)
        if not found:
            yield f"{end}: the switch says nothing of its settings for RoCE"
        for name, settings in found.items():
            for one in differences(wanted, settings):
                where = end if name == port else f"{end} ({name})"
                yield f"{where}: {one.field} is {one.observed}, expected {one.wanted}"


def silent_sentences(seen: SettingsSeen) -> Iterator[tuple[str, bool]]:
    """Switches whose settings aren't known, and whether that is trouble: one sentence each."""
    for switch, told in sorted(seen.items()):
        if isinstance(told, Silent):
            yield f"settings for RoCE of {switch} are not known: {told.why}", told.passing


@dataclass(frozen=True, slots=True)
class Heard:
    """What a fabric's switches hear by LLDP.

    Attributes:
        differences: from the cables that the site describes.
        problems: switches that could not be asked; `notes`: that can't say it, and ports on which nobody is heard.
    """

    differences: tuple[FabricDifference, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def listen(
    site: Site, fabric: str, cabling: Cabling, sessions: Mapping[str, Switch], pool: Executor
) -> Heard:
    """Ask every switch for its neighbours. A link of an aggregation counts as the aggregation."""
    members = {s: _members(session) for s, session in sessions.items()}
    heard: dict[str, list[Neighbour]] = {}
    problems: list[str] = []
    notes: list[str] = []

    def one(item: tuple[str, Switch]) -> Sequence[Neighbour] | str | OutsideError:
        switch, session = item
        named, mine = cabling.ports(switch), members[switch]
        inside = [link for link, lag in mine.items() if lag in named]
        try:
            return session.neighbours(sorted({*(named - {*mine.values()}), *inside}))
        except OutsideError as error:
            return error

    for switch, told in zip(sessions, pool.map(one, sessions.items()), strict=True):
        if isinstance(told, OutsideError):
            problems.append(f"LLDP neighbours of {switch} can't be read: {told.answer}")
        elif isinstance(told, str):
            notes.append(f"LLDP neighbours of {switch} are not known: {told}")
        else:
            heard[switch] = [_on_aggregation(n, switch, members) for n in told]
    ends = [(a, b) for a, b, _ in cabling.links]
    found, unheard = live_differences(site, fabric, ends, heard, cabling.ends)
    return Heard(found, tuple(problems), (*notes, *unheard))


def _members(session: Switch) -> Mapping[str, str]:
    """Link -> the aggregation that it is in."""
    told = _settings(session)
    if isinstance(told, Silent):
        return {}
    return {link: lag for lag, links in told.members.items() for link in links}


def _on_aggregation(one: Neighbour, switch: str, members: Mapping[str, Mapping[str, str]]) -> Neighbour:
    local = members[switch].get(one.local, one.local)
    port = members.get(one.device.partition(".")[0], {}).get(one.port, one.port)
    return Neighbour(local, one.device, port, one.mac)
