"""What nodes' last reports of their own checks mean now: states, and which nodes get no new orders. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from weft.engine.book.stops import LastReport, OpenCheck, Stops
from weft.model.hostchecks import CheckState
from weft.model.ids import span
from weft.model.site import ChecksPolicy, Site
from weft.planning.site.hostchecks import expected_digests, hosts_by_type

OUTAGE = timedelta(days=1)
"""How long the same check that fails on many nodes at once may be a mistake of what it is compared with."""
UNJUDGED = "UNKNOWN"
"""Stands for all checks that couldn't be judged, among the codes of checks."""
NEVER, OLD = "it has never reported its own checks", "the last result of its own checks is old"
MOST_SAID = 50
"""Most nodes that an audit names."""
MOST_NAMED = 3
"""Most codes that a reason names."""


@dataclass(frozen=True, slots=True)
class CheckStops:
    """Which nodes get no new orders because of their own checks.

    Attributes:
        excluded: node -> why, for operators.
        suspended: code -> nodes that aren't kept from orders although it fails there: too many began to fail at once.
        limits: code of these -> on how many it began to fail, in words.
    """

    excluded: Mapping[str, str] = field(default_factory=dict[str, str])
    suspended: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    limits: Mapping[str, str] = field(default_factory=dict[str, str])


def counted(checked: LastReport | None, policy: ChecksPolicy) -> tuple[OpenCheck, ...]:
    """The failed checks that count."""
    failed = checked.failed if checked else ()
    return tuple(one for one in failed if policy.action(one.code) != "ignore") if failed else ()


def check_state(checked: LastReport | None, site: Site, node: str, now: datetime | None) -> CheckState:
    """The state of a node by its own checks. A failed check stays failed, however old; an old result is never ok."""
    policy = site.checks
    if checked is None:
        return "never"
    if counted(checked, policy):
        return "failed"
    if is_old(checked, site, node, now):
        return "old"
    unknown = any(one.status == "unknown" for one in checked.problems)
    return "unknown" if unknown or checked.status == "unknown" else "ok"


def is_old(checked: LastReport, site: Site, node: str, now: datetime | None) -> bool:
    """Whether a result is too old to count, or was compared with other values than are expected now."""
    return now is None or is_aged(checked, site, now) or not is_current(checked.expected, site, node)


def is_aged(checked: LastReport, site: Site, now: datetime) -> bool:
    """Whether a result is too old to count."""
    return now > counts_until(checked, site)


def counts_until(checked: LastReport, site: Site) -> datetime:
    """The time from which a result is too old to count."""
    return checked.at + span(site.checks.age)


def is_current(digest: str | None, site: Site, node: str) -> bool:
    """Whether a result was compared with what is expected now. Args: digest: of what it was compared with."""
    expected = expected_digests(site).get(node)
    return expected is None or expected == digest


def verdict(stops: Mapping[str, Stops], site: Site, now: datetime | None) -> CheckStops:
    """What nodes' checks mean for new orders. Args: now: the database's time when `stops` was read."""
    policy = site.checks
    failing: dict[str, list[tuple[datetime, str]]] = {}
    real: dict[str, list[str]] = {}
    for node, one in stops.items():
        if one.checks is None or node not in site.node_by_name:
            continue
        for code, (since, is_real) in _excluding(one.checks, policy).items():
            if is_real:
                real.setdefault(code, []).append(node)
            else:
                failing.setdefault(code, []).append((since, node))
    codes: dict[str, list[str]] = {}
    suspended: dict[str, tuple[str, ...]] = {}
    limits: dict[str, str] = {}
    for code, since in sorted(failing.items()):
        fresh = sorted(one for one in since if now is not None and one[0] > now - OUTAGE)
        beyond = spared([node for _, node in fresh], site)
        if beyond:
            suspended[code] = tuple(sorted(beyond))
            many = (
                f"{policy.outage} nodes" if len(fresh) > policy.outage else "half of a machine type's nodes"
            )
            limits[code] = f"more than {many}"
        for _, node in since:
            if node not in beyond:
                codes.setdefault(node, []).append(code)
    for code, nodes in real.items():
        for node in nodes:
            codes.setdefault(node, []).append(code)
    excluded = {node: _why(mine) for node, mine in codes.items()}
    if policy.missing == "exclude":
        for one in site.nodes:
            checked = stops[one.name].checks if one.name in stops else None
            if one.role == "compute" and (checked is None or now is None or is_aged(checked, site, now)):
                excluded.setdefault(one.name, NEVER if checked is None else OLD)
    return CheckStops(excluded, suspended, limits)


def spared(failing: list[str], site: Site) -> set[str]:
    """Nodes that get orders although the same check began to fail on them within a day, in this order: those
    beyond `outage` of all, or half of a machine type, for which a value is expected."""
    hosts, types = hosts_by_type(site), dict[str, int]()
    beyond = set(failing[site.checks.outage :])
    for node in failing[: site.checks.outage]:
        kind = site.node_by_name[node].machine_type
        types[kind] = types.get(kind, 0) + 1
        if types[kind] > (hosts[kind] + 1) // 2:
            beyond.add(node)
    return beyond


def checks_said(stops: Mapping[str, Stops], site: Site, now: datetime | None) -> list[str]:
    """What the audit reports of nodes' own checks, one sentence each."""
    found = verdict(stops, site, now)
    said = [f"node {node} gets no new orders: {why}" for node, why in sorted(found.excluded.items())]
    if (more := len(said) - MOST_SAID) > 0:
        said = [*said[:MOST_SAID], f"{more} further nodes get no new orders: weft node list --state failed"]
    for code, nodes in found.suspended.items():
        named = ", ".join(nodes[:MOST_NAMED])
        said.append(
            f"check {code} began to fail on {found.limits[code]} within a day: {len(nodes)} of them "
            f"get new orders all the same until a day is over, such as {named}: weft node judge-check {code} "
            "says whether it is real"
        )
    return said


def _excluding(checked: LastReport, policy: ChecksPolicy) -> dict[str, tuple[datetime, bool]]:
    """Code of what keeps the node from orders -> since when, and whether operators say that it is real."""
    found: dict[str, tuple[datetime, bool]] = {}
    for one in checked.problems:
        if one.judged == "mistake":
            continue
        if one.status == "failed" and policy.excludes(one.code):
            code = one.code
        elif one.status == "unknown" and policy.unknown == "exclude":
            code = UNJUDGED
        else:
            continue
        since, is_real = found.get(code, (one.since, False))
        found[code] = min(since, one.since), is_real or one.judged == "real"
    if checked.status == "unknown" and not checked.problems and policy.unknown == "exclude":
        found[UNJUDGED] = checked.at, False  # nothing was judged
    return found


def _why(codes: list[str]) -> str:
    failed = sorted(code for code in codes if code != UNJUDGED)
    if not failed:
        return "some of its own checks couldn't be judged"
    more = f" and {len(failed) - MOST_NAMED} more" if len(failed) > MOST_NAMED else ""
    return f"its own checks failed: {', '.join(failed[:MOST_NAMED])}{more}"
