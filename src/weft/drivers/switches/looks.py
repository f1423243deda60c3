"""What switches report besides VLANs: their ports' settings for RoCE, and LLDP neighbours."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace

from weft.drivers.switches.cabling import Cabling
from weft.drivers.switches.interface import SwitchDriver
from weft.model.errors import OutsideError
from weft.model.livecheck import LiveCheck
from weft.model.observedfabric import FabricDifference
from weft.model.site import Site
from weft.planning.fabric.qos import SwitchQos, differences
from weft.planning.site.livecables import live_differences
from weft.planning.site.neighbours import LldpNeighbour

QOS_SECONDS = 60.0
"""Maximum age, in seconds, of a reading of settings: operators change them, not weft."""
AGAIN_SECONDS = 30.0
"""Seconds before a switch that didn't answer is asked again."""
KEPT_SECONDS = 600.0
"""Seconds for which the last answer of a switch counts while it is silent."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A switch whose settings aren't known, and why.

    Attributes:
        passing: it may report them the next time; otherwise it can't.
        last: its last answer, if recent.
    """

    why: str
    passing: bool
    last: SwitchQos | None = None


QosAnswer = SwitchQos | Silent
SettingsSeen = Mapping[str, QosAnswer]
"""Switch -> its ports' settings for RoCE."""


class QosReading:
    """Cached settings of all of a fabric's switches. Thread-safe: while a switch is being read, other callers
    get its last answer; before there is one, they wait for the reading.

    Args:
        seconds: maximum age of an answer.
    """

    def __init__(
        self,
        sessions: Sequence[SwitchDriver],
        pool: Executor,
        seconds: float = QOS_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sessions, self._pool, self._monotonic = sessions, pool, monotonic
        self._seconds = seconds
        self._lock = threading.Lock()
        self._known: dict[str, tuple[QosAnswer, float]] = {}
        self._said: dict[str, tuple[SwitchQos, float]] = {}
        self._asking: dict[str, Future[QosAnswer]] = {}

    def get(self, max_age: float | None = None) -> SettingsSeen:
        """Settings of every switch. Args: max_age: seconds; None: the default; 0 asks every switch, silent
        ones too."""
        answers: dict[str, Future[QosAnswer] | QosAnswer] = {}
        with self._lock:
            now = self._monotonic()
            for session in self._sessions:
                name, known = session.name, self._known.get(session.name)
                under_way = self._asking.get(name)
                if known is not None and not self._is_due(known, now, max_age):
                    answers[name] = known[0]
                elif under_way is None or max_age == 0.0:
                    answers[name] = self._asking[name] = self._pool.submit(self._ask, session)
                else:
                    answers[name] = under_way if known is None else known[0]
        return {name: one.result() if isinstance(one, Future) else one for name, one in answers.items()}

    def _is_due(self, known: tuple[QosAnswer, float], now: float, max_age: float | None) -> bool:
        answer, when = known
        most = self._seconds if max_age is None else max_age
        if isinstance(answer, Silent) and answer.passing:
            most = min(most, AGAIN_SECONDS)
        return now - when >= most

    def _ask(self, session: SwitchDriver) -> QosAnswer:
        answer: QosAnswer = Silent("it could not be asked", True)
        try:
            answer = _settings(session)
        finally:
            with self._lock:
                now = self._monotonic()
                if isinstance(answer, SwitchQos):
                    self._said[session.name] = (answer, now)
                elif (
                    answer.passing and (said := self._said.get(session.name)) and now - said[1] < KEPT_SECONDS
                ):
                    answer = replace(answer, last=said[0])
                self._known[session.name] = (answer, now)
                self._asking.pop(session.name, None)
        return answer


def _settings(session: SwitchDriver) -> QosAnswer:
    try:
        answer = session.qos()
    except OutsideError as error:
        return Silent(error.answer, True)
    return Silent(answer, False) if isinstance(answer, str) else answer


def qos_check(site: Site, fabric: str, cabling: Cabling, seen: SettingsSeen) -> LiveCheck:
    """The check of settings for RoCE: differences, and switches whose settings aren't known."""
    silent = list(_silent_sentences(seen))
    return LiveCheck(
        problems=(
            *(text for text, passing in silent if passing),
            *_qos_sentences(site, fabric, cabling, seen),
        ),
        notes=tuple(text for text, passing in silent if not passing),
    )


def _qos_sentences(site: Site, fabric: str, cabling: Cabling, seen: SettingsSeen) -> Iterator[str]:
    """Every difference on ports that the site names, one sentence each."""
    wanted = site.fabrics[fabric].qos
    if wanted is None:
        return
    for end in sorted({*cabling.member, *cabling.uplinks}):
        switch, _, port = end.partition("/")
        answer = seen.get(switch)
        if not isinstance(answer, SwitchQos):
            continue
        found = answer.of(port)
        if not found:
            yield f"{end}: the switch says nothing of its settings for RoCE"
        for name, settings in found.items():
            where = end if name == port else f"{end} ({name})"
            yield from (f"{where}: settings for RoCE are not all known: {why}" for why in settings.unsure)
            for one in differences(wanted, settings):
                yield f"{where}: {one.field} is {one.observed}, expected {one.wanted}"


def _silent_sentences(seen: SettingsSeen) -> Iterator[tuple[str, bool]]:
    """Switches whose settings aren't known, or only assumed: a sentence each, and whether that may pass."""
    for switch, answer in sorted(seen.items()):
        if isinstance(answer, Silent):
            yield f"settings for RoCE of {switch} are not known: {answer.why}", answer.passing
        elif answer.assumed:
            yield f"settings for RoCE of {switch}: {answer.assumed}", False


@dataclass(frozen=True, slots=True)
class HeardNeighbours:
    """LLDP neighbours of a fabric's switches.

    Attributes:
        differences: from the cables that the site describes.
        problems: switches that could not be asked; `notes`: switches that can't report it, and ports without
        a neighbour.
    """

    differences: tuple[FabricDifference, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def listen(
    site: Site, fabric: str, cabling: Cabling, sessions: Mapping[str, SwitchDriver], pool: Executor
) -> HeardNeighbours:
    """Ask every switch for its neighbours and its aggregations, without which its neighbours can't be
    compared."""
    heard: dict[str, Sequence[LldpNeighbour]] = {}
    members: dict[str, Mapping[str, tuple[str, ...]]] = {}
    problems: list[str] = []
    notes: list[str] = []

    def one(item: tuple[str, SwitchDriver]) -> tuple[QosAnswer, Sequence[LldpNeighbour] | str | OutsideError]:
        switch, session = item
        answer, named = _settings(session), cabling.ports(switch)
        inside = {} if isinstance(answer, Silent) else answer.members
        ports = {link for port in named for link in inside.get(port, (port,))}
        try:
            return answer, session.neighbours(sorted(ports))
        except OutsideError as error:
            return answer, error

    for switch, (answer, neighbours) in zip(sessions, pool.map(one, sessions.items()), strict=True):
        if isinstance(neighbours, OutsideError):
            problems.append(f"LLDP neighbours of {switch} can't be read: {neighbours.answer}")
        elif isinstance(neighbours, str):
            notes.append(f"LLDP neighbours of {switch} are not known: {neighbours}")
        elif isinstance(answer, Silent):
            said = (
                f"LLDP neighbours of {switch} can't be compared: its aggregations are not known: {answer.why}"
            )
            (problems if answer.passing else notes).append(said)
        else:
            heard[switch] = neighbours
        if not isinstance(answer, Silent):
            members[switch] = answer.members
    ends = [(a, b) for a, b, _ in cabling.links]
    found, unheard = live_differences(site, fabric, ends, heard, cabling.ends, members)
    return HeardNeighbours(found, tuple(problems), (*notes, *unheard))
