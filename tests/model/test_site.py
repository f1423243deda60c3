"""The site as a value."""

from __future__ import annotations

from tests.helpers.paths import SMALL
from weft.app.sitefile import load_site
from weft.model.ranges import Range


def test_copy_drops_cached_lookups() -> None:
    """Lookup tables of a changed copy are made from its own rows."""
    site = load_site(SMALL / "site.yaml")
    assert "gpu16" in site.node_by_name
    assert len(site.hca_by_port_guid) == 66
    assert "spine02" in site.switch_by_name
    copied = site.model_copy(update={"nodes": site.nodes[:3], "switches": ()})
    assert list(copied.node_by_name) == ["gpu01", "gpu02", "gpu03"]
    assert len(copied.hca_by_port_guid) == 12
    assert copied.switch_by_name == {}
    assert len(site.node_by_name) == 18


def test_cached_lookups_are_not_part_of_equality() -> None:
    one, other = load_site(SMALL / "site.yaml"), load_site(SMALL / "site.yaml")
    assert one.node_by_name
    assert one == other
    assert one.model_dump_json() == other.model_dump_json()


def test_range_of_numbers_includes_both_ends() -> None:
    """In decimal or hex; other numbers aren't in it."""
    numbers = Range.model_validate({"first": "0x65", "last": "103"})
    assert list(numbers.numbers()) == [101, 102, 103]
    assert 101 in numbers
    assert 103 in numbers
    assert 104 not in numbers
    assert "101" not in numbers
