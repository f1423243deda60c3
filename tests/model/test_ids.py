"""Identifiers are read in every form that people and tools write, and printed in one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from weft.model.ids import Guid, Mac, Name, PciAddress, PKey, format_guid, format_pkey, parse_guid, parse_pkey


@given(st.integers(1, (1 << 64) - 1))
def test_guid_is_read_back_from_every_form(guid: int) -> None:
    """As printed, without 0x, in capitals, in groups of four digits, and as a number."""
    text = format_guid(guid)
    digits = text[2:]
    groups = ":".join(digits[i : i + 4] for i in range(0, 16, 4))
    for form in (text, digits, text.upper().replace("X", "x"), groups, guid, f" {text} "):
        assert parse_guid(form) == guid


@pytest.mark.parametrize(
    "bad",
    [
        *("", "0x", "0", "0x0", 0, -1, 1 << 64, "0x12345678901234567", "gg", True, None, 1.5, "0x:12"),
        *("b8:59:9f:00:00:10", "fe80::1", "2:c903:30:1", "0002:c903:0030:00:01"),
    ],
)
def test_invalid_guid_is_refused(bad: object) -> None:
    """Zero, too long, not hex, true, a MAC address, groups without leading zeros: the ValueError describes GUIDs."""
    with pytest.raises(ValueError, match="a GUID is 16 hex digits"):
        parse_guid(bad)


@given(st.integers(1, 0x7FFF))
def test_pkey_is_read_with_and_without_the_membership_bit(key: int) -> None:
    """0x8065 and 0x65 are the same key, in hex and decimal."""
    for form in (key, key | 0x8000, hex(key), hex(key | 0x8000), str(key)):
        assert parse_pkey(form) == key
    assert int(format_pkey(key | 0x8000), 16) == key


@pytest.mark.parametrize("bad", [0, "0x0", 0x8000, "0x10000", -1, "zz", "", None, True, False])
def test_invalid_pkey_is_refused(bad: object) -> None:
    """Zero with or without the membership bit, more than 16 bits, and other texts."""
    with pytest.raises(ValueError, match="a P_Key is 0x1 to 0x7ffe"):
        parse_pkey(bad)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Mac, ["F4:52:14:38:39:81"], ["f4-52-14-38-39-81", "f4:52:14:38:39", "f4:52:14:38:39:8g", ""]),
        (PciAddress, ["0000:C5:00.0", "0001:00:1f.7"], ["c5:00.0", "0000:c5:20.0", "0000:c5:00.8", ""]),
        (Name, ["a", "gpu01.rack-2_x", "A" * 63], ["", "-a", "a-", "a b", "a/b", "ä", "A" * 64]),
    ],
)
def test_mac_pci_and_names_are_normalized(kind: object, good: list[str], bad: list[str]) -> None:
    """MAC and PCI addresses become lower case; names are valid everywhere."""
    adapter = TypeAdapter(kind)
    for text in good:
        assert adapter.validate_python(text) == (text if kind is Name else text.lower())
    for text in bad:
        with pytest.raises(ValidationError):
            adapter.validate_python(text)


def test_identifiers_are_text_in_json() -> None:
    """GUIDs and P_Keys have the form of InfiniBand's tools."""
    assert TypeAdapter(Guid).dump_json(0xB8599F0300000101) == b'"0xb8599f0300000101"'
    assert TypeAdapter(PKey).dump_json(101) == b'"0x65"'


@pytest.mark.parametrize("short", ["0x0002c9030030001", "2c90300300001", "0x7", "0002c9030030001"])
def test_guid_with_missing_digits_in_a_site_is_reported(short: str) -> None:
    """Without a leading zero it might be another GUID with a missing digit. `parse_guid` accepts programs' output
    without leading zeros."""
    assert parse_guid(short) == int(short, 16)
    with pytest.raises(
        ValidationError, match=r"a GUID is 16 hex digits, leading zeros included, .* this has \d+"
    ):
        TypeAdapter(Guid).validate_python(short)


def test_guid_in_groups_of_two_digits_is_accepted() -> None:
    """Some BMCs write it so; integers are accepted, too."""
    for form in ("00:02:c9:03:00:30:00:01", "0002:C903:0030:0001", 0x0002C90300300001):
        assert TypeAdapter(Guid).validate_python(form) == 0x0002C90300300001
