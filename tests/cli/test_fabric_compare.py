"""`weft fabric compare`."""

from __future__ import annotations

from tests.helpers.desk import Desk


def test_partial_discovery_does_not_pass_as_no_differences(desk: Desk) -> None:
    """Exit code 1 with the discovery's messages; missing hardware is neither reported nor adopted."""
    site = desk.house.fabric.topology().nodes
    desk.house.fabric.overlook(next(n.port_guids[0] for n in site if n.kind == "ca"))
    for options in ((), ("--adopt",)):
        found = desk.weft("fabric", "compare", *options, cloud="operator")
        assert (found.code, "0 differences" in found.out) == (1, True)
        assert "partial: src/query_smp.c" in found.out and "missing" not in found.out
    document = desk.weft("fabric", "compare", "--json", cloud="operator")
    assert document.code == 1 and document.json["partial"]
    assert desk.weft("fabric", "status", cloud="operator").code == 1
