"""A port's settings for RoCE against those that the site wants. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from weft.model.resources import Difference
from weft.model.site import Qos

NOTHING = "none"


@dataclass(frozen=True, slots=True)
class PortQos:
    """Settings of a switch's or an adapter's port; None: it doesn't say.

    Attributes:
        pfc: priorities with priority flow control.
        ecn: priorities whose packets are marked.
        trust: `dscp`, `pcp`, both, or neither: what packets get their priority from.
        dscp: DSCP -> priority; others have priority 0.
        mtu: in bytes; largest packet that it carries.
        unsure: what keeps the rest from being known, a clause each.
    """

    pfc: frozenset[int] | None = None
    ecn: frozenset[int] | None = None
    trust: frozenset[str] | None = None
    dscp: Mapping[int, int] | None = None
    mtu: int | None = None
    unsure: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SwitchQos:
    """Settings of one switch, by the vendor's names of ports.

    Attributes:
        members: link aggregation -> the ports that it is made of, possibly none.
        assumed: what was assumed rather than reported by the switch, one sentence; empty: nothing.
    """

    ports: Mapping[str, PortQos]
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    assumed: str = ""

    def of(self, port: str) -> Mapping[str, PortQos]:
        """Settings of a port, or of an aggregation and its members; empty: nothing is known of it."""
        names = (port, *self.members.get(port, ()))
        return {name: self.ports[name] for name in names if name in self.ports}


def differences(wanted: Qos, seen: PortQos, adapter: bool = False) -> tuple[Difference, ...]:
    """Each setting that isn't as wanted; settings that a port doesn't report aren't compared.

    Args:
        adapter: it is an adapter's: its MTU must be that of the others, not only large enough.
    """
    return tuple(_differences(wanted, seen, adapter))


def numbers(text: str) -> frozenset[int]:
    """Priorities or DSCP values as switches list them: `3`, `0,3`, `24 26`, `24-31`. Raises ValueError."""
    found: set[int] = set()
    for part in filter(None, re.split(r"[ ,]+", text)):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if not 0 <= low <= high < 64:
            raise ValueError(f"{part[:40]!r}: priorities and DSCP values are 0 to 63")
        found.update(range(low, high + 1))
    return frozenset(found)


def _differences(wanted: Qos, seen: PortQos, adapter: bool) -> Iterator[Difference]:
    priority = wanted.priority
    pfc = frozenset({priority} if wanted.pfc else ())
    if seen.pfc is not None and seen.pfc != pfc:
        yield Difference(field="PFC", wanted=_on(pfc), observed=_on(seen.pfc))
    if seen.ecn is not None and wanted.ecn and priority not in seen.ecn:
        yield Difference(field="ECN", wanted=_on({priority}), observed=_on(seen.ecn))
    if seen.ecn is not None and not wanted.ecn and priority in seen.ecn:
        yield Difference(field="ECN", wanted=f"not on priority {priority}", observed=_on(seen.ecn))
    if seen.trust is not None and wanted.trust not in seen.trust:
        observed = " and ".join(sorted(seen.trust)) or NOTHING
        yield Difference(field="trust", wanted=wanted.trust, observed=observed)
    if seen.dscp is not None and wanted.trust == "dscp":
        for value in wanted.dscp:
            leads = seen.dscp.get(value, 0)
            if leads != priority:
                yield Difference(
                    field=f"DSCP {value}", wanted=f"priority {priority}", observed=f"priority {leads}"
                )
    if seen.mtu is not None and (seen.mtu != wanted.mtu if adapter else seen.mtu < wanted.mtu):
        least = str(wanted.mtu) if adapter else f"at least {wanted.mtu}"
        yield Difference(field="MTU", wanted=least, observed=str(seen.mtu))


def _on(priorities: Iterable[int]) -> str:
    listed = ", ".join(map(str, sorted(priorities)))
    return f"on priority {listed}" if listed else NOTHING
