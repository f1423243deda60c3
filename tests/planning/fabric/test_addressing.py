"""InfiniBand addresses: the test vectors of ironic-python-agent, networking-mlnx and cloud-init."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.planning.fabric.addressing import (
    IPoIBAddress,
    client_id,
    mac_of_guid,
)
from weft.planning.fabric.functions import guid_of

PHYSICAL = "a0:00:00:27:fe:80:00:00:00:00:00:00:7c:fe:90:03:00:29:26:52"
OTHER = "80:00:00:28:fe:80:00:00:00:00:00:00:00:11:22:03:00:33:44:56"


def test_ipoib_address_of_a_physical_port_is_parsed_into_its_fields() -> None:
    address = IPoIBAddress.parse(PHYSICAL)
    assert (address.flags, address.qpn, address.prefix) == (0xA0, 0x27, 0xFE80 << 48)
    assert address.guid == 0x7CFE900300292652
    assert mac_of_guid(address.guid) == "7c:fe:90:29:26:52"
    assert client_id(address.guid) == "ff:00:00:00:00:00:02:00:00:02:c9:00:7c:fe:90:03:00:29:26:52"
    assert address.text == PHYSICAL


def test_mac_address_is_guid_without_middle_bytes() -> None:
    assert mac_of_guid(0xF452140300383981) == "f4:52:14:38:39:81"


def test_virtual_function_guid_converts_back_to_mac() -> None:
    guid = guid_of("01:23:45:67:89:ab")
    assert mac_of_guid(guid) == "01:23:45:67:89:ab"


def test_interface_mac_matches_cloud_init() -> None:
    guid = IPoIBAddress.parse(OTHER).guid
    assert mac_of_guid(guid) == "00:11:22:33:44:56"


def test_physical_guid_can_not_be_derived_from_mac() -> None:
    guid = 0x7CFE900300292652
    assert guid_of(mac_of_guid(guid)) != guid


@given(st.integers(0, (1 << 24) - 1), st.integers(1, (1 << 64) - 1), st.integers(0, 255))
def test_ipoib_address_reads_back_from_its_text(qpn: int, guid: int, flags: int) -> None:
    address = IPoIBAddress(qpn, guid, flags=flags)
    assert IPoIBAddress.parse(address.text) == address
    assert len(address.text.split(":")) == 20


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7c:fe:90:29:26:52",
        PHYSICAL + ":00",
        PHYSICAL.replace("a0", "g0"),
        PHYSICAL.replace("a0", "0a0"),
        PHYSICAL.replace("27", "+7"),
    ],
)
def test_invalid_ipoib_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="20 hex pairs"):
        IPoIBAddress.parse(text)


@pytest.mark.parametrize(("qpn", "guid"), [(-1, 1), (1 << 24, 1), (1, 1 << 64)])
def test_out_of_range_parts_are_refused(qpn: int, guid: int) -> None:
    with pytest.raises(ValueError, match="0 to 0x"):
        IPoIBAddress(qpn, guid)
