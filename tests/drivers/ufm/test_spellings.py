"""Rows of UFM in another spelling or shape: read correctly or unknown, never as a port that is gone."""

from __future__ import annotations

from typing import Any, cast

import pytest

from weft.drivers.ufm.inventory import UfmInventory, by_guid, read_ports, read_virtual
from weft.drivers.ufm.partitions import read_listing
from weft.drivers.ufm.rest import Rest
from weft.model.errors import UnknownError
from weft.model.fabrictypes import Mode

GUID = 0x0002C90300300001
TEXT = f"{GUID:016x}"


def listing(entry: object) -> Any:
    return {"0x7fff": {"partition": "management", "guids": []}, "0x65": entry}


@pytest.mark.parametrize("guid", [TEXT, f"0x{TEXT}", TEXT.upper(), f" {TEXT} ", "0002:c903:0030:0001"])
@pytest.mark.parametrize("word", ["full", "Full", "FULL"])
def test_member_is_read_in_any_spelling(guid: str, word: str) -> None:
    row = {"guid": guid, "membership": word, "index0": "true"}
    found = read_listing(listing({"ip_over_ib": "false", "guids": [row]})).partitions[0x65]
    assert found.members == {GUID: Mode.FULL}
    assert (found.first, found.ip_over_ib) == ({GUID}, False)


@pytest.mark.parametrize(
    "values",
    [
        {"guid": 123},
        {"guid": None},
        {"guid": "N/A"},
        {"membership": None},
        {"membership": 1},
        {"index0": "on"},
    ],
)
def test_member_of_another_shape_invalidates_the_listing(values: dict[str, object]) -> None:
    row = {"guid": TEXT, "membership": "full", "index0": False, **values}
    with pytest.raises(ValueError, match=r"GUID|member|index0"):
        read_listing(listing({"guids": [row]}))


@pytest.mark.parametrize(
    "row",
    [
        {"guid": "a1", "port_guid": "5"},
        {"virtual_port_guid": None, "port_guid": "5"},
        {"virtual_port_guid": 161, "port_guid": "5"},
        {"virtual_port_guid": "N/A", "port_guid": "5"},
        {"virtual_port_guid": "a1"},
        {"virtual_port_guid": "a1", "port_guid": ""},
        {"virtual_port_guid": "a1", "port_guid": 5},
    ],
)
def test_virtual_port_of_another_shape_invalidates_the_list(row: dict[str, object]) -> None:
    """Without the row its function would count as gone."""
    with pytest.raises(ValueError, match=r"GUID|guid|invalid literal"):
        read_virtual([{"virtual_port_guid": "a2", "port_guid": "5"}, row])


@pytest.mark.parametrize(
    ("state", "idle"),
    [("DOWN", True), ("Init", True), ("Armed", True), ("Active", False), (None, False), (4, False)],
)
def test_virtual_port_in_an_unknown_state_is_not_idle(state: object, idle: bool) -> None:
    [port] = read_virtual([{"virtual_port_guid": "a1", "port_guid": "5", "virtual_port_state": state}])[0xA1]
    assert port.idle is idle


def test_row_that_shows_the_port_up_counts_before_another_row_of_it() -> None:
    """The other row may be older, so it doesn't show that the port is down."""
    row = {"name": f"{TEXT}_1", "guid": TEXT, "description": "Computer IB Port", "number": "1"}
    up, coming, down = ({**row, "logical_state": state} for state in ("Active", "Initialize", "Down"))
    for rows in ([up, down], [down, up], [down, coming], [coming, down]):
        assert not by_guid(read_ports(rows))[GUID].down
    with pytest.raises(ValueError, match="GUID"):
        read_ports([{**row, "guid": GUID}])


@pytest.mark.parametrize("answer", [{"alarms": []}, "none", [None], 7])
def test_alarms_of_another_shape_are_reported(answer: object) -> None:
    """Instead of being read as no alarms."""

    class Odd:
        def get(self, path: str, **query: str) -> object:
            return answer

    with pytest.raises(UnknownError, match="no list of objects"):
        UfmInventory(cast(Rest, Odd())).complaints(5)
