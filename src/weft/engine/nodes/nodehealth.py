"""The health of nodes: one value each, from everything that is known of them, with what it follows from.

Nothing outside is asked: what workers read, what nodes report and what operators did is in the database, with its age.
What wasn't read, or not lately, is unknown, and unknown is not healthy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from weft.engine.base.database import Database
from weft.engine.book.capacity import Capacity
from weft.engine.book.checkstate import check_state, counted, counts_until, verdict
from weft.engine.book.stops import NO_STOPS, Stops
from weft.engine.nodes.failures import cause_of
from weft.engine.nodes.hostwatch import GAP
from weft.engine.rows.seenfabric import SeenFabric
from weft.model.messages import nodehealth as messages
from weft.model.messages import nodes
from weft.model.site import IpuMachine, Node, Site, Unit
from weft.model.views import HealthGroup, HealthReason, HealthValue, NodeHealth
from weft.planning.kept import Latest, kept

FABRIC_GAP = timedelta(minutes=10)
"""Age beyond which a reading of a fabric's managers doesn't count."""
WORST: tuple[HealthValue, ...] = ("failed", "unknown", "warning", "ok")
"""Of several reasons' values the first in this order counts: broken before unknown."""


@dataclass(frozen=True, slots=True)
class HostReading:
    """A cloud's last answer about its hosts. Attributes: unknown: nodes whose state it doesn't report."""

    cloud: str
    at: datetime
    unknown: Sequence[str]


@dataclass(frozen=True, slots=True)
class DownHost:
    """A node whose host is down. Attributes: reported: whether it has been down for the site's limit."""

    node: str
    since: datetime
    seen_at: datetime
    reported: bool


@dataclass(frozen=True, slots=True)
class Signs:
    """Workers' last readings.

    Attributes:
        at: the time of these readings.
        clouds, down, fabrics: by cloud, by node, by fabric.
        failures: node -> failures of pods' nodes there: kind, since when, which check.
    """

    at: datetime
    clouds: Mapping[str, HostReading]
    down: Mapping[str, DownHost]
    fabrics: Mapping[str, SeenFabric]
    failures: Mapping[str, Sequence[tuple[str, datetime, str]]]

    @classmethod
    def read(cls, database: Database) -> Signs:
        with database.transaction() as tx:
            at = tx.now()
            clouds = {one.cloud: one for one in tx.all(HostReading, "host_readings")}
            down = {one.node: one for one in tx.all(DownHost, "hosts_down_now")}
            fabrics = {one.fabric: one for one in tx.all(SeenFabric, "fabrics_seen")}
            failures: dict[str, list[tuple[str, datetime, str]]] = {}
            for row in tx.rows("failures_now"):
                failures.setdefault(row["node"], []).append((row["kind"], row["since"], row["what"]))
        return cls(at, clouds, down, fabrics, failures)


def worst(values: Sequence[str]) -> HealthValue:
    """The value of several; ok if there are none."""
    for one in WORST:
        if one in values:
            return one
    return "ok"


def health_of_nodes(
    site: Site, capacity: Capacity, signs: Signs, names: Collection[str] | None = None
) -> Iterator[NodeHealth]:
    """Health of nodes and IPU-Machines, in the site's order.

    Args:
        names: of these nodes alone; None: of all.
    """
    known = _Known.of(site, capacity, signs)
    types, parts = _types(site), {hold.node: hold for hold in capacity.shared}
    usual: dict[tuple[Hashable, bool], Sequence[HealthReason]] = {}
    wanted = (
        site.units if names is None else sorted(set(names) & site.units.keys(), key=_order(site).__getitem__)
    )
    for name in wanted:
        unit, like = site.units[name], known.like(name)
        if name in known.special:
            reasons = _sorted(known.reasons(name))
        elif (found := usual.get(like)) is not None:
            reasons = found
        else:
            reasons = usual[like] = _sorted(known.reasons(name))
        hold = capacity.holds.get(name)
        held = hold or parts.get(name)
        yield NodeHealth(
            node=name,
            health=worst([one.health for one in reasons]),
            rack=unit.rack,
            type=types[name],
            cloud=_cloud(unit),
            pod=hold.pod.name if hold else None,
            project_id=held.pod.project_id if held else None,
            use="busy" if held else "free",
            reasons=tuple(reasons),
        )


def health_values(site: Site, capacity: Capacity, signs: Signs) -> Mapping[str, HealthValue]:
    """Node -> its health, as `health_of_nodes` has it; the same object for as long as none changes."""
    known = _Known.of(site, capacity, signs)
    usual: dict[tuple[Hashable, bool], HealthValue] = {}
    for like, names in _alike(site).items():
        for passed, some in ((True, names & known.passed), (False, names - known.passed)):
            if (one := next((name for name in some if name not in known.special), None)) is not None:
                usual[like, passed] = known.value(one)
    own: dict[str, HealthValue] = {name: known.value(name) for name in known.special if name in site.units}

    def make() -> Mapping[str, HealthValue]:
        found: dict[str, HealthValue] = {}
        for name, like in _likes(site).items():
            found[name] = own[name] if name in own else usual[like, name in known.passed]
        return found

    return _VALUES.of((site,), (usual, own, known.passed), make)


def health_counts(
    site: Site, capacity: Capacity, values: Mapping[str, HealthValue], by: HealthGroup
) -> Mapping[str, Mapping[HealthValue, int]]:
    """Value that nodes have in common (empty: none) -> how many of them have which health.

    Args:
        values: of `health_values`.
    """

    def make() -> Mapping[str, Mapping[HealthValue, int]]:
        groups = _groups(site, capacity, by)
        pairs: Counter[tuple[str, HealthValue]] = Counter()
        pairs.update((groups[name], value) for name, value in values.items())
        found: dict[str, dict[HealthValue, int]] = {}
        for (group, value), number in pairs.items():
            found.setdefault(group, {})[value] = number
        return found

    held = () if by in ("type", "rack", "cloud") else (capacity.holds,)
    shared = tuple((hold.node, hold.pod.project_id) for hold in capacity.shared) if held else ()
    return _COUNTS.of((site, values, *held), (by, shared), make)


def _groups(site: Site, capacity: Capacity, by: HealthGroup) -> Mapping[str, str]:
    """Every node -> the value of its group."""
    match by:
        case "type":
            return _types(site)
        case "rack":
            return {name: unit.rack or "" for name, unit in site.units.items()}
        case "cloud":
            return {name: _cloud(unit) or "" for name, unit in site.units.items()}
        case _:
            free = "" if by == "project" else "free"
            held = {hold.node: hold for hold in capacity.shared} | dict(capacity.holds)
            busy = {n: hold.pod.project_id if by == "project" else "busy" for n, hold in held.items()}
            return {name: busy.get(name, free) for name in site.units}


def _cloud(unit: Unit) -> str | None:
    return unit.cloud if isinstance(unit, Node) else None


_COUNTS = Latest[Mapping[str, Mapping[HealthValue, int]]](16)
_VALUES = Latest[Mapping[str, HealthValue]]()


@dataclass(frozen=True, slots=True)
class _Known:
    """What nodes' health is computed from.

    Attributes:
        excluded: nodes that get no orders because of their own checks.
        passed: nodes known only by their own checks, which are ok.
        special: nodes about which more is known; all others have the same health.
    """

    site: Site
    capacity: Capacity
    signs: Signs
    excluded: Container[str]
    passed: frozenset[str]
    special: Set[str]

    @classmethod
    def of(cls, site: Site, capacity: Capacity, signs: Signs) -> _Known:
        excluded, stops = verdict(capacity.stops, site, capacity.at).excluded, capacity.stops
        passed = _passed(site, stops, signs.at)
        special = {*capacity.quarantines, *excluded, *signs.failures, *signs.down}
        special.update(name for name in stops if name not in passed)
        special.update(name for one in signs.clouds.values() for name in one.unknown)
        return cls(site, capacity, signs, excluded, passed, special)

    def like(self, name: str) -> tuple[Hashable, bool]:
        return _likes(self.site)[name], name in self.passed

    def reasons(self, name: str) -> list[HealthReason]:
        unit = self.site.units[name]
        return list(_reasons(self.site, unit, self.capacity, self.signs, name in self.excluded))

    def value(self, name: str) -> HealthValue:
        return worst([one.health for one in self.reasons(name)])


def _sorted(reasons: Sequence[HealthReason]) -> Sequence[HealthReason]:
    return sorted(reasons, key=lambda one: WORST.index(one.health))


def _passed(site: Site, stops: Mapping[str, Stops], now: datetime) -> frozenset[str]:
    """Nodes about which only their own checks are known, and these are ok. Judges only those with new reports."""
    judged, found = _judged(site), set[str]()
    for name, one in stops.items():
        last = judged.get(name)
        if last is None or last[0] is not one:
            last = judged[name] = one, _passes_until(site, name, one)
        if last[1] is not None and now <= last[1]:
            found.add(name)
    return frozenset(found)


@kept
def _judged(site: Site) -> dict[str, tuple[Stops, datetime | None]]:
    """Node -> what was known when it was judged last, and until when it passes."""
    return {}


def _passes_until(site: Site, name: str, stops: Stops) -> datetime | None:
    """Until when a node passes by its own checks; None if it doesn't pass."""
    checks = stops.checks
    if checks is None or stops.drain or stops.holds or stops.reports or name not in site.units:
        return None
    passes = check_state(checks, site, name, checks.at) == "ok"
    return counts_until(checks, site) if passes else None


@kept
def _likes(site: Site) -> Mapping[str, Hashable]:
    """Node -> key of what its reasons depend on while nothing special is known about it: most nodes are alike."""
    fabrics = _fabrics_of(site)
    return {
        name: (unit.cloud, unit.role, unit.maintenance, fabrics.get(name, ()))
        if isinstance(unit, Node)
        else ("machine", unit.maintenance)
        for name, unit in site.units.items()
    }


@kept
def _alike(site: Site) -> Mapping[Hashable, Set[str]]:
    """Key, as in `_likes` -> the nodes that have it."""
    found: dict[Hashable, set[str]] = {}
    for name, like in _likes(site).items():
        found.setdefault(like, set()).add(name)
    return found


@kept
def _order(site: Site) -> Mapping[str, int]:
    return {name: number for number, name in enumerate(site.units)}


@kept
def _types(site: Site) -> Mapping[str, str]:
    return {name: _type(unit) for name, unit in site.units.items()}


def _type(unit: Unit) -> str:
    if isinstance(unit, IpuMachine):
        return "ipu"
    types = sorted({one.type for one in unit.accelerators})
    return "+".join(types) if types else unit.role


def _reasons(
    site: Site, unit: Unit, capacity: Capacity, signs: Signs, excluded: bool
) -> Iterator[HealthReason]:
    name, stops = unit.name, capacity.stops.get(unit.name, NO_STOPS)
    if (quarantine := capacity.quarantines.get(name)) is not None:
        yield _one("failed", messages.IN_QUARANTINE(reason=quarantine.reason), quarantine.since)
    if unit.maintenance is not None:
        yield _one("warning", messages.IN_MAINTENANCE(reason=unit.maintenance))
    yield from _host(site, unit, signs)
    yield from _fabrics(site, unit, signs)
    yield from _checks(site, unit, stops, signs.at, excluded)
    for kind, since, what in signs.failures.get(name, ()):
        if kind not in ("host", "check", "drain", "report"):  # these have reasons of their own
            yield _one("failed", cause_of(kind, since, what), since)
    yield from _stopped(stops)


def _host(site: Site, unit: Unit, signs: Signs) -> Iterator[HealthReason]:
    if isinstance(unit, IpuMachine):
        yield _one("unknown", messages.MACHINE_UNREAD())
        return
    if unit.maintenance is not None or unit.cloud not in site.clouds:
        return
    reading = signs.clouds.get(unit.cloud or "")
    if reading is None or abs(signs.at - reading.at) > GAP:
        yield _one("unknown", messages.HOST_UNREAD(since=reading.at if reading else None))
    elif (down := signs.down.get(unit.name)) is not None and abs(signs.at - down.seen_at) <= GAP:
        yield _one("failed" if down.reported else "warning", nodes.HOST_DOWN(since=down.since), down.since)
    elif unit.name in reading.unknown:
        yield _one("unknown", messages.HOST_UNKNOWN())


def _fabrics(site: Site, unit: Unit, signs: Signs) -> Iterator[HealthReason]:
    if not isinstance(unit, Node):
        return
    for fabric in _fabrics_of(site).get(unit.name, ()):
        seen = signs.fabrics.get(fabric)
        if seen is None or not seen.known or seen.age > FABRIC_GAP.total_seconds():
            since = seen.read_at if seen else None
            yield _one("unknown", messages.FABRIC_UNREAD(fabric=fabric, since=since))


@kept
def _fabrics_of(site: Site) -> Mapping[str, tuple[str, ...]]:
    """Node -> fabrics of the site that its adapters are on."""
    return {
        node.name: tuple(sorted({hca.fabric for hca in node.hcas if hca.fabric in site.fabrics}))
        for node in site.nodes
    }


def _checks(site: Site, unit: Unit, stops: Stops, now: datetime, excluded: bool) -> Iterator[HealthReason]:
    checked = stops.checks
    for one in counted(checked, site.checks):
        said = messages.CHECK_FAILED(check=one.code, subject=one.subject or None)
        yield _one("failed" if excluded else "warning", said, one.since)
    state = check_state(checked, site, unit.name, now)
    if state == "old" and checked is not None:
        yield _one("unknown", messages.CHECKS_OLD(since=checked.at, age=site.checks.age))
    elif state == "unknown":
        yield _one("unknown", messages.CHECKS_UNKNOWN())
    elif (
        state == "never"
        and site.checks.missing == "exclude"
        and isinstance(unit, Node)
        and unit.role == "compute"
    ):
        yield _one("unknown", messages.CHECKS_MISSING())


def _stopped(stops: Stops) -> Iterator[HealthReason]:
    if (drain := stops.drain) is not None:
        said = messages.DRAINED(
            until=drain.until_at, public=drain.public or None, reason=drain.reason or None
        )
        yield _one("warning", said, drain.since)
    for hold in stops.holds:
        yield _one("warning", messages.HELD(what=hold.what), hold.since)
    for report in stops.reports:
        yield _one("warning", messages.REPORTED(reason=report.reason), report.at)


def _one(health: HealthValue, reason: str, since: datetime | None = None) -> HealthReason:
    return HealthReason.model_validate({"health": health, "reason": reason, "since": since})
