"""Errors at both ends of a cable: what they tell of a cause, and what they leave open."""

from __future__ import annotations

import pytest

from weft.model.bandwidth import CertifiedCause, PlannedAdapter, PlannedNode
from weft.model.fabric import PortErrors
from weft.planning.bandwidth.bothends import ends_of_cause, errors_at, part_of
from weft.planning.bandwidth.expected import Planned
from weft.planning.bandwidth.values import Cause, Kind, Subject

PLANNED = Planned(
    (PlannedNode(name="gpu06", leaf="leaf03", adapters=(PlannedAdapter(rail=1, guid="0x1", gbps=200),)),),
    {("gpu06", 1): "leaf03"},
    {("gpu06", 1): "mlx5_1"},
)


def cause(kind: Kind, name: str, rail: int | None = None) -> Cause:
    return Cause(Subject(kind, name, rail), explains=4, slow=4, measured=4, gbps=100.0, others=())


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
        (Kind.ADAPTER, (OWN, FAR), True, "cable"),
        (Kind.ADAPTER, (OWN, FAR), False, "cable"),
        (Kind.SENDER, (OWN, FAR), True, "cable"),
        (Kind.ADAPTER, (OWN,), True, "adapter"),
        (Kind.ADAPTER, (OWN,), False, ""),
        (Kind.ADAPTER, (FAR,), True, ""),
        (Kind.ADAPTER, (), True, ""),
        (Kind.ADAPTER, LOOKALIKES, True, ""),
        (Kind.ADAPTER, (OWN, port("leaf03", 4, "gpu06 mlx5_1[1]", "LinkDownedCounter")), True, "adapter"),
        (Kind.ADAPTER, (port("gpu06 mlx5_1", 1, "leaf03[4]"),), True, ""),
        (Kind.NODE, (OWN, FAR), True, ""),
    ],
)
def test_errors_tell_cable_from_adapter_where_they_can(
    kind: Kind, errors: tuple[PortErrors, ...], complete: bool, part: str
) -> None:
    """Both ends are a cable; the own end alone an adapter, if the other one was read; old or other errors nothing."""
    found = cause(kind, "gpu06", 1)
    ends = ends_of_cause(found, PLANNED, {"gpu06": "gpu06"})
    assert ends == (("gpu06", "mlx5_1"),)
    assert part_of(found, ends, errors, complete) == part


@pytest.mark.parametrize(("errors", "part"), [(LINK, "cable"), (LINK[:1], ""), (LOOKALIKES, ""), ((), "")])
def test_cable_between_switches_has_errors_at_both_of_its_ports(
    errors: tuple[PortErrors, ...], part: str
) -> None:
    found = cause(Kind.LINK, "leaf04:6 - spine01:10")
    ends = ends_of_cause(found, PLANNED, {})
    assert part_of(found, ends, errors, True) == part
    said = errors_at(ends, (*errors, *LOOKALIKES))
    assert len(said) == len([one for one in errors if one not in LOOKALIKES])


def test_sentences_are_of_both_ends_and_of_no_lookalike() -> None:
    found = cause(Kind.ADAPTER, "gpu06", 1)
    said = errors_at(ends_of_cause(found, PLANNED, {"gpu06": "gpu06"}), (OWN, FAR, *LINK, *LOOKALIKES))
    assert len(said) == 2 and said[0].startswith("gpu06 mlx5_1[1] to leaf03[4]")
    leaf = cause(Kind.LEAF, "leaf04")
    assert len(errors_at(ends_of_cause(leaf, PLANNED, {}), (*LINK, OWN))) == 2


def test_hidden_names_of_links_have_no_ends() -> None:
    """As a tenant's certificate has them."""
    found = cause(Kind.LINK, "1, an uplink of leaf04")
    assert ends_of_cause(found, PLANNED, {}) == () and part_of(found, (), LINK, True) == ""


def test_certificate_without_the_part_keeps_its_form() -> None:
    """One that an older weft signed would else not be what was signed."""
    plain = CertifiedCause.model_validate(
        {"kind": "adapter", "name": "gpu06", "explains": 1, "slow": 1, "measured": 1, "mbps": 1}
    )
    assert "part" not in plain.model_dump(mode="json")
    assert plain.model_copy(update={"part": "cable"}).model_dump(mode="json")["part"] == "cable"
