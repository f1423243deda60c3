"""Errors at both ends of a cable: which cause they show, and when they show none."""

from __future__ import annotations

import pytest

from tests.helpers.paths import SMALL
from weft.app.sitefile import load_site
from weft.model.bandwidth import CertifiedCause, PlannedAdapter, PlannedNode
from weft.model.fabric import PortErrors
from weft.planning.bandwidth.bothends import by_the_site, ends_of_cause, errors_at, part_of
from weft.planning.bandwidth.expected import Planned
from weft.planning.bandwidth.values import SlowCause, SlowCauseKind, Subject

PLANNED = Planned(
    (PlannedNode(name="gpu06", leaf="leaf03", adapters=(PlannedAdapter(rail=1, guid="0x1", gbps=200),)),),
    {("gpu06", 1): "leaf03"},
    {("gpu06", 1): "mlx5_1"},
)


def cause(kind: SlowCauseKind, name: str, rail: int | None = None) -> SlowCause:
    return SlowCause(Subject(kind, name, rail), explains=4, slow=4, measured=4, gbps=100.0, others=())


def port(node: str, number: int, peer: str, *over: str) -> PortErrors:
    counters = dict.fromkeys(over or ("SymbolErrorCounter",), 500)
    return PortErrors(node=node, port=number, peer=peer, counters=counters, grown=counters, over=over)


OWN = port("gpu06 mlx5_1", 1, "leaf03[4]", "PortRcvErrors")
FAR = port("leaf03", 4, "gpu06 mlx5_1[1]", "SymbolErrorCounter")
LINK = (
    port("leaf04", 6, "spine01[10]", "SymbolErrorCounter"),
    port("spine01", 10, "leaf04[6]", "PortRcvErrors"),
)
LOOKALIKES = (
    port("leaf04", 60, "spine01[11]", "SymbolErrorCounter"),
    port("leaf04", 10, "spine01[6]", "SymbolErrorCounter"),
    port("gpu06 mlx5_10", 1, "leaf03[5]", "SymbolErrorCounter"),
    port("gpu060 mlx5_1", 1, "leaf03[6]", "SymbolErrorCounter"),
)


@pytest.mark.parametrize(
    ("kind", "errors", "complete", "part"),
    [
        (SlowCauseKind.ADAPTER, (OWN, FAR), True, "cable"),
        (SlowCauseKind.ADAPTER, (OWN, FAR), False, "cable"),
        (SlowCauseKind.SENDER, (OWN, FAR), True, "cable"),
        (SlowCauseKind.ADAPTER, (OWN,), True, "adapter"),
        (SlowCauseKind.ADAPTER, (OWN,), False, ""),
        (SlowCauseKind.ADAPTER, (FAR,), True, ""),
        (SlowCauseKind.ADAPTER, (), True, ""),
        (SlowCauseKind.ADAPTER, LOOKALIKES, True, ""),
        (
            SlowCauseKind.ADAPTER,
            (OWN, port("leaf03", 4, "gpu06 mlx5_1[1]", "LinkDownedCounter")),
            True,
            "adapter",
        ),
        (SlowCauseKind.ADAPTER, (port("gpu06 mlx5_1", 1, "leaf03[4]"),), True, ""),
        (SlowCauseKind.NODE, (OWN, FAR), True, ""),
    ],
)
def test_errors_at_both_ends_name_the_cable_and_at_one_end_the_adapter(
    kind: SlowCauseKind, errors: tuple[PortErrors, ...], complete: bool, part: str
) -> None:
    """Its own end alone names the adapter only if the other end was read; errors of other ports name nothing."""
    found = cause(kind, "gpu06", 1)
    ends = ends_of_cause(found, PLANNED, {"gpu06": "gpu06"})
    assert ends == (("gpu06", "mlx5_1"),)
    assert part_of(found, ends, errors, complete) == part


@pytest.mark.parametrize(("errors", "part"), [(LINK, "cable"), (LINK[:1], ""), (LOOKALIKES, ""), ((), "")])
def test_cable_between_switches_has_errors_at_both_of_its_ports(
    errors: tuple[PortErrors, ...], part: str
) -> None:
    found = cause(SlowCauseKind.LINK, "leaf04:6 - spine01:10")
    ends = ends_of_cause(found, PLANNED, {})
    assert part_of(found, ends, errors, True) == part
    said = errors_at(ends, (*errors, *LOOKALIKES))
    assert len(said) == len([one for one in errors if one not in LOOKALIKES])


def full(one: PortErrors, grown: int = 0) -> PortErrors:
    """The same errors with the counter at its maximum; `grown` of them are new within the hour."""
    name = one.over[0]
    update = {"counters": {name: 65535}, "grown": {name: grown} if grown else {}, "full": one.over}
    return one.model_copy(update=update)


@pytest.mark.parametrize(
    ("kind", "errors", "part"),
    [
        (SlowCauseKind.ADAPTER, (full(OWN), full(FAR)), ""),
        (SlowCauseKind.ADAPTER, (full(OWN),), ""),
        (SlowCauseKind.ADAPTER, (OWN, full(FAR)), ""),
        (SlowCauseKind.ADAPTER, (full(OWN), FAR), ""),
        (SlowCauseKind.ADAPTER, (OWN, full(FAR, 20)), "cable"),
        (SlowCauseKind.LINK, tuple(map(full, LINK)), ""),
        (SlowCauseKind.LINK, (LINK[0], full(LINK[1])), ""),
        (SlowCauseKind.LINK, (LINK[0], full(LINK[1], 3)), "cable"),
    ],
)
def test_growth_of_a_counter_that_was_full_at_the_start_is_unknown(
    kind: SlowCauseKind, errors: tuple[PortErrors, ...], part: str
) -> None:
    """Its errors may be years old, and the counter shows no new ones."""
    found = cause(kind, "leaf04:6 - spine01:10" if kind is SlowCauseKind.LINK else "gpu06", 1)
    ends = ends_of_cause(found, PLANNED, {"gpu06": "gpu06"})
    assert part_of(found, ends, errors, True) == part
    assert len(errors_at(ends, errors)) == len(errors), "the operator is shown that it is full"


def test_port_is_identified_by_guid_and_not_by_its_own_name() -> None:
    """A managed switch's own name isn't the site's, and a host may use another host's name."""
    site = load_site(SMALL / "site.yaml")
    fabric = next(iter(site.fabrics))
    node = next(n for n in site.nodes if n.hcas_on(fabric))
    hca, leaf = node.hcas_on(fabric)[0], next(s for s in site.switches if s.fabric == fabric)
    own, far, lies = (
        port("localhost mlx5_9", 1, "MF0;x:MQM8700/U1[4]", "PortRcvErrors"),
        port("MF0;x:MQM8700/U1", 4, "localhost mlx5_9[1]", "SymbolErrorCounter"),
        port(f"{node.name} {hca.name}", 1, f"{leaf.name}[5]", "PortRcvErrors"),
    )
    seen = (
        own.model_copy(update={"guid": hca.guid, "peer_guid": leaf.guid}),
        far.model_copy(update={"guid": leaf.guid, "peer_guid": hca.guid}),
        lies.model_copy(update={"guid": 0xBAD, "peer_guid": 0xBAD1}),
        lies,
    )
    found = by_the_site(site, fabric, seen)
    assert [(one.node, one.peer) for one in found] == [
        (f"{node.name}/{hca.name}", f"{leaf.name}[4]"),
        (leaf.name, f"{node.name}/{hca.name}[1]"),
        ("0x0000000000000bad", "0x000000000000bad1[5]"),
    ]
    end = ((node.name, hca.name),)
    assert len(errors_at(end, found)) == 2
    assert part_of(cause(SlowCauseKind.ADAPTER, node.name, 0), end, found, True) == "cable"
    assert (
        part_of(cause(SlowCauseKind.ADAPTER, node.name, 0), end, by_the_site(site, fabric, seen[2:]), True)
        == ""
    )


def test_errors_at_both_ends_are_reported_and_those_of_similar_names_are_not() -> None:
    found = cause(SlowCauseKind.ADAPTER, "gpu06", 1)
    said = errors_at(ends_of_cause(found, PLANNED, {"gpu06": "gpu06"}), (OWN, FAR, *LINK, *LOOKALIKES))
    assert len(said) == 2 and said[0].startswith("gpu06 mlx5_1[1] to leaf03[4]")
    leaf = cause(SlowCauseKind.LEAF, "leaf04")
    assert len(errors_at(ends_of_cause(leaf, PLANNED, {}), (*LINK, OWN))) == 2


def test_hidden_link_name_has_no_ends() -> None:
    """A tenant's certificate hides which link it is."""
    found = cause(SlowCauseKind.LINK, "1, an uplink of leaf04")
    assert ends_of_cause(found, PLANNED, {}) == () and part_of(found, (), LINK, True) == ""


def test_certificate_without_a_part_has_no_such_member() -> None:
    """The signature of an older certificate must still fit."""
    plain = CertifiedCause.model_validate(
        {"kind": "adapter", "name": "gpu06", "explains": 1, "slow": 1, "measured": 1, "mbps": 1}
    )
    assert "part" not in plain.model_dump(mode="json")
    assert plain.model_copy(update={"part": "cable"}).model_dump(mode="json")["part"] == "cable"
