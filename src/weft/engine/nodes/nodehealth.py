"""The health of nodes: one value each, from everything that is known of them, with what it follows from.

Nothing outside is asked: what workers read, what nodes report and what operators did is in the database, with its age.
What wasn't read, or not lately, is unknown, and unknown is not healthy.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from weft.engine.base.database import Database, Row
from weft.engine.book.capacity import Capacity
from weft.engine.book.checkstate import check_state, counted, verdict
from weft.engine.book.stops import NO_STOPS, Stops
from weft.engine.nodes.failures import cause_of
from weft.engine.nodes.hostwatch import GAP
from weft.model.messages import nodehealth as messages
from weft.model.messages import nodes
from weft.model.site import IpuMachine, Node, Site, Unit
from weft.model.views import HealthReason, HealthValue, NodeHealth
from weft.planning.kept import kept

FABRIC_GAP = timedelta(minutes=10)
"""Age from which on what was read of a fabric's managers doesn't count."""
WORST: tuple[HealthValue, ...] = ("failed", "unknown", "warning", "ok")
"""Of several reasons the first of these counts: what is known to be broken goes before what isn't known."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What workers read last.

    Attributes:
        at: when this was so.
        clouds: cloud -> row of at, unknown (nodes whose state it doesn't say).
        down: node -> row of since, seen_at, reported.
        fabrics: fabric -> row of known, age in seconds.
        failures: node -> failures of pods' nodes there: kind, since when, which check.
    """

    at: datetime
    clouds: Mapping[str, Row]
    down: Mapping[str, Row]
    fabrics: Mapping[str, Row]
    failures: Mapping[str, Sequence[tuple[str, datetime, str]]]

    @classmethod
    def read(cls, database: Database) -> Signs:
        with database.transaction() as tx:
            at = tx.now()
            clouds = {row["cloud"]: row for row in tx.rows("host_readings")}
            down = {row["node"]: row for row in tx.rows("hosts_down_now")}
            fabrics = {row["fabric"]: row for row in tx.rows("fabrics_seen")}
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


class HealthMark(NamedTuple):
    """A node's health without its reasons, and by what nodes are grouped.

    Attributes:
        pod: that has the whole node.
        project_id: that has the node, or a part of it.
    """

    node: str
    health: HealthValue
    rack: str | None
    type: str
    cloud: str | None
    pod: str | None
    project_id: str | None
    use: Literal["busy", "free"]


def health_of_nodes(
    site: Site, capacity: Capacity, signs: Signs, names: Collection[str] | None = None
) -> Iterator[NodeHealth]:
    """Of nodes and IPU-Machines, in the site's order.

    Args:
        names: of these alone; None: of all.
    """
    for mark, reasons in _marked(site, capacity, signs, names):
        ordered = tuple(sorted(reasons, key=lambda one: WORST.index(one.health)))
        yield NodeHealth.model_validate({**mark._asdict(), "reasons": ordered})


def health_marks(site: Site, capacity: Capacity, signs: Signs) -> Iterator[HealthMark]:
    """As `health_of_nodes`, in less than half the time."""
    return (mark for mark, _ in _marked(site, capacity, signs, None))


def _marked(
    site: Site, capacity: Capacity, signs: Signs, names: Collection[str] | None
) -> Iterator[tuple[HealthMark, Sequence[HealthReason]]]:
    excluded = verdict(capacity.stops, site, capacity.at).excluded
    holds, parts = dict(capacity.holds), {row["node"]: row for row in capacity.shared}
    types, likes = _types(site), _likes(site)
    passed = {name for name, one in capacity.stops.items() if _has_passed(site, name, one, signs.at)}
    special = {*capacity.quarantines, *excluded, *signs.failures, *signs.down}
    special.update(name for name in capacity.stops if name not in passed)
    special.update(name for row in signs.clouds.values() for name in row["unknown"])
    usual: dict[Hashable, tuple[HealthValue, Sequence[HealthReason]]] = {}
    wanted = None if names is None else frozenset(names)
    for name in site.units if wanted is None else [name for name in site.units if name in wanted]:
        unit, like = site.units[name], (likes[name], name in passed)
        if name in special or (known := usual.get(like)) is None:
            reasons = list(_reasons(site, unit, capacity, signs, name in excluded))
            known = worst([one.health for one in reasons]), reasons
            if name not in special:
                usual[like] = known
        health, reasons = known
        hold = holds.get(name)
        held = hold or parts.get(name)
        yield (
            HealthMark(
                name,
                health,
                unit.rack,
                types[name],
                unit.cloud if isinstance(unit, Node) else None,
                hold["pod"] if hold else None,
                held["project_id"] if held else None,
                "busy" if held else "free",
            ),
            reasons,
        )


def _has_passed(site: Site, name: str, stops: Stops, now: datetime) -> bool:
    """Whether a node's own checks are all that is known of it, and are ok."""
    if stops.drain or stops.holds or stops.reports:
        return False
    return check_state(stops.checks, site, name, now) == "ok"


@kept
def _likes(site: Site) -> Mapping[str, Hashable]:
    """Node -> what its reasons follow from as long as nothing is known of itself: most nodes of a site are alike."""
    fabrics = _fabrics_of(site)
    return {
        name: (unit.cloud, unit.role, unit.maintenance, fabrics.get(name, ()))
        if isinstance(unit, Node)
        else (unit.name,)
        for name, unit in site.units.items()
    }


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
        yield _one("failed", messages.IN_QUARANTINE(reason=quarantine["reason"]), quarantine["since"])
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
    if reading is None or abs(signs.at - reading["at"]) > GAP:
        yield _one("unknown", messages.HOST_UNREAD(since=reading["at"] if reading else None))
    elif (down := signs.down.get(unit.name)) is not None and abs(signs.at - down["seen_at"]) <= GAP:
        yield _one(
            "failed" if down["reported"] else "warning", nodes.HOST_DOWN(since=down["since"]), down["since"]
        )
    elif unit.name in reading["unknown"]:
        yield _one("unknown", messages.HOST_UNKNOWN())


def _fabrics(site: Site, unit: Unit, signs: Signs) -> Iterator[HealthReason]:
    if not isinstance(unit, Node):
        return
    for fabric in _fabrics_of(site).get(unit.name, ()):
        seen = signs.fabrics.get(fabric)
        if seen is None or not seen["known"] or seen["age"] > FABRIC_GAP.total_seconds():
            since = seen["read_at"] if seen else None
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
            until=drain["until_at"], public=drain["public"] or None, reason=drain["reason"] or None
        )
        yield _one("warning", said, drain["since"])
    for hold in stops.holds:
        yield _one("warning", messages.HELD(what=hold["what"]), hold["since"])
    for report in stops.reports:
        yield _one("warning", messages.REPORTED(reason=report["reason"]), report["at"])


def _one(health: HealthValue, reason: str, since: datetime | None = None) -> HealthReason:
    return HealthReason.model_validate({"health": health, "reason": reason, "since": since})
