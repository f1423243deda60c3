"""Versions of services against advisories: what can't be decided is unknown; only what is surely unaffected is ok."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.app.doctor import advisories
from weft.app.doctor.advisories import PRODUCTS, SERIES, Advisories, read_stated, read_table
from weft.model.errors import InputError


def codes(service: str, newest: str = "", *stated: str, cloud: str = "main") -> dict[str, str]:
    known = Advisories(read_table(None), read_stated(list(stated)))
    return {one.code: one.what for one in known.in_cloud(cloud).of("cloud …", service, newest)}


@pytest.mark.parametrize(
    ("stated", "named"),
    [
        ("nova=29.0.2", {"OSSA-2024-001", "OSSA-2024-002", "OSSA-2026-002"}),
        ("nova=29.0.3", {"OSSA-2024-002", "OSSA-2026-002"}),
        ("nova=29.0.0", {"OSSA-2024-001", "OSSA-2024-002", "OSSA-2026-002"}),
        ("nova=30.2.1", {"OSSA-2026-002"}),
        ("keystone=27.0.0", {"OSSA-2025-002", "OSSA-2026-005", "OSSA-2026-007"}),
        ("neutron=23.2.0", {"OSSA-2024-005"}),
        ("ironic=26.1.0", {"OSSA-2025-001", "OSSA-2026-008", "OSSA-2026-010", "OSSA-2026-012"}),
    ],
)
def test_stated_version_has_exactly_its_advisories(stated: str, named: set[str]) -> None:
    (service,) = [name for name, product in PRODUCTS.items() if product == stated.partition("=")[0]]
    found = codes(service, "", stated)
    assert list(found) == ["ADVISORY_APPLIES"]
    assert {word.strip(",") for word in found["ADVISORY_APPLIES"].split() if word.startswith("OSSA")} == named


@pytest.mark.parametrize("stated", ["nova=30.2.2", "nova=34.0.0", "keystone=29.0.1", "neutron=22.9.9"])
def test_version_with_the_fix_has_no_advisories(stated: str) -> None:
    (service,) = [name for name, product in PRODUCTS.items() if product == stated.partition("=")[0]]
    assert list(codes(service, "", stated)) == ["ADVISORIES_NONE"]


def test_version_known_by_its_series_is_judged_by_all_its_releases() -> None:
    """Nova 2.96 is 29 or 30 and may have the fixes; 2.90 is 24 or 25, older than every fix of later advisories."""
    assert list(codes("compute", "2.96")) == ["ADVISORY_UNKNOWN"]
    old = codes("compute", "2.90")
    assert "OSSA-2026-002" in old["ADVISORY_APPLIES"] and "OSSA-2023-002" in old["ADVISORY_UNKNOWN"]
    for newest in ("2.104", "2.150"):
        found = codes("compute", newest)
        assert list(found) == ["ADVISORIES_NONE"] and "nova 34 or later" in found["ADVISORIES_NONE"]


@pytest.mark.parametrize("newest", ["", "v3.14", "9.9.9", "2.91", "<html>"])
@pytest.mark.parametrize("service", sorted(PRODUCTS))
def test_unknown_version_is_never_ok(service: str, newest: str) -> None:
    """Also for a microversion with which no release ended."""
    assert list(codes(service, newest)) == ["ADVISORY_UNKNOWN"]


def test_version_stated_for_one_cloud_does_not_count_for_others() -> None:
    assert list(codes("compute", "", "main/nova=34.0.0")) == ["ADVISORIES_NONE"]
    assert list(codes("compute", "", "main/nova=34.0.0", cloud="other")) == ["ADVISORY_UNKNOWN"]
    assert list(codes("compute", "", "main/nova=34.0.0", "nova=29.0.0", cloud="other")) == [
        "ADVISORY_APPLIES"
    ]
    assert codes("placement", "") == {}


@pytest.mark.parametrize(
    "word",
    [
        "nova",
        "nova=",
        "nova=29.2.1.dev",
        "nova=29.2.1rc1",
        "nova=latest",
        "3:nova=29",
        "swift=2.30.0",
        "nova=1.2.3.4.5",
    ],
)
def test_malformed_service_version_option_is_refused(word: str) -> None:
    with pytest.raises(InputError, match=r"--service-version.*nova=29\.2\.1"):
        read_stated([word])


def table_of(affected: str) -> str:
    """A table of advisories with one row."""
    row = f"{{id: OSSA-2026-001, title: x, source: 'https://x', of: {{{affected}}}}}"
    return f"until: 2026-01-01\noldest: {{nova: '24'}}\nadvisories: [{row}]\n"


@pytest.mark.parametrize(
    ("service", "stated", "code"),
    [
        ("compute", "nova=29", "ADVISORY_UNKNOWN"),
        ("compute", "nova=32.1", "ADVISORY_UNKNOWN"),
        ("compute", "nova=32.2", "ADVISORIES_NONE"),
        ("compute", "nova=30.2.2.dev7", "ADVISORY_UNKNOWN"),
        ("compute", "nova=30.2.1.dev7", "ADVISORY_APPLIES"),
        ("compute", "nova=30.2.3.dev1", "ADVISORIES_NONE"),
        ("compute", "nova=33.0.0.dev1", "ADVISORY_UNKNOWN"),
        ("compute", "nova=34.0.0.dev1", "ADVISORIES_NONE"),
    ],
)
def test_partly_stated_version_is_ok_only_if_every_matching_one_is(
    service: str, stated: str, code: str
) -> None:
    """Kolla builds images from branches: what pip calls 30.2.2.dev7 was built before 30.2.2."""
    assert code in codes(service, "", stated)
    assert ("ADVISORIES_NONE" in codes(service, "", stated)) is (code == "ADVISORIES_NONE")


def test_version_older_than_the_table_is_not_ok(tmp_path: Path) -> None:
    """The table begins with advisories of 2022; an operator's own table may know other services only."""
    assert list(codes("network", "", "neutron=18.0.0")) == ["ADVISORY_UNKNOWN"]
    assert list(codes("network", "", "neutron=19.0.0")) == ["ADVISORIES_NONE"]
    file = tmp_path / "t.yaml"
    file.write_text(table_of('nova: [["0", "1"]]'))
    own = Advisories(read_table(file), read_stated(["nova=24.0.0", "glance=31.0.0"]))
    found = [one.code for name in ("compute", "image") for one in own.of("cloud main", name, "")]
    assert found == ["ADVISORIES_NONE", "ADVISORY_UNKNOWN"]


def test_own_table_replaces_the_shipped_one_and_errors_are_named(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("until: 2020-01-01\noldest: {}\nadvisories: []\n")
    known = Advisories(read_table(file), {})
    assert [one.code for one in known.age()] == ["ADVISORIES_OLD"]
    assert list(Advisories(read_table(None), {}).age()) == []
    for text in (
        "",
        "until: never\noldest: {}\nadvisories: []\n",
        "until: 2026-01-01\nadvisories: []\n",
        "until: 2026-01-01\noldest: {}\nadvisories: [{id: X}]\n",
        table_of('nva: [["0", "1"]]'),
        table_of("nova: []"),
        table_of('nova: [["29.1.1", "29.0.0"]]'),
        table_of('nova: [["0", "1"]]') + "#" * (1 << 20),
        "{",
        "\xff",
    ):
        file.write_text(text, encoding="latin-1")
        with pytest.raises(InputError, match="--advisories"):
            read_table(file)
    with pytest.raises(InputError, match="--advisories"):
        read_table(tmp_path / "nosuch")


def test_each_row_has_a_source_and_ranges_in_order() -> None:
    table = read_table(None)
    numbers = advisories._numbers  # pyright: ignore[reportPrivateUsage]
    assert len({one.id for one in table.advisories}) == len(table.advisories) > 10
    for one in table.advisories:
        assert one.source.endswith(f"{one.id}.html")
        for product, ranges in one.of.items():
            assert product in PRODUCTS.values()
            ends = [numbers(version) for pair in ranges for version in pair]
            assert ends == sorted(ends), one.id
    for rows in SERIES.values():
        assert [numbers(m) for m, _, _ in rows] == sorted(numbers(m) for m, _, _ in rows)
