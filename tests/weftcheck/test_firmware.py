"""Checks of firmware settings with mstconfig."""

from __future__ import annotations

import pytest

from tests.weftcheck.machines import Rig
from weftcheck.host import Output, UnreadableError
from weftcheck.result import Status
from weftlab.hostfolder import HCAS

QUERY = """
Device #1:
----------

Device type:    ConnectX7
Name:           MCX75310AAS-NEA_Ax
Device:         0000:1c:00.0

Configurations:                                      Default         Current         Next Boot
        MEMIC_BAR_SIZE                              0               0               0
*       ADVANCED_PCI_SETTINGS                       False(0)        True(1)         True(1)
*       MAX_ACC_OUT_READ                            0               44              44
RO      MODULE_SPLIT_M0                             Array[0..15]    Array[0..15]    Array[0..15]
        ATS_ENABLED                                 False(0)        False(0)        False(0)
        LINK_TYPE_P1                                IB(1)           IB(1)           IB(1)
The '*' shows parameters with next value different from default/current value.
"""
"""`mstconfig -e query` in the form of mstflint 4.22 to 4.31."""
NEXT_ONLY = """
Configurations:                                      Next Boot
        MAX_ACC_OUT_READ                            44
"""
CODES = ("FIRMWARE_SETTING", "FIRMWARE_PENDING")
GOOD = '"firmware": {"MAX_ACC_OUT_READ": ["0", "44"], "ATS_ENABLED": "false", "LINK_TYPE_P1": "1"}'


def _command(address: str, program: str = "mstconfig") -> str:
    return f"{program} -d {address} -e query"


@pytest.fixture
def adapters(rig: Rig) -> Rig:
    """Both adapters answer with QUERY."""
    rig.commands.update({_command(address): Output(QUERY, 0) for address in HCAS})
    return rig


def test_settings_are_compared_by_word_or_number(adapters: Rig) -> None:
    """`False(0)` equals false, False(0) and 0; several values may be allowed. A star alone is no pending change."""
    found = adapters.look(GOOD, *CODES)
    assert found.statuses() == {code: {"ok"} for code in CODES}
    assert found.one("FIRMWARE_SETTING", f"{HCAS[0]}) MAX_ACC_OUT_READ").found == "44"
    assert adapters.look('"firmware": {"MAX_ACC_OUT_READ": "128"}', *CODES).wrong() == {
        "FIRMWARE_SETTING": [Status.FAILED] * 2
    }


def test_adapters_are_not_queried_without_expected_settings(adapters: Rig) -> None:
    """A query takes seconds for each adapter."""
    assert adapters.look("", *CODES).statuses() == {code: {"skipped"} for code in CODES}
    assert adapters.asked == []


def test_change_that_waits_for_a_reset_fails(adapters: Rig) -> None:
    """The setting is judged by its current value, not by that of the next boot."""
    text = QUERY.replace("0               44              44", "0               0               44")
    adapters.commands[_command(HCAS[0])] = Output(text, 0)
    found = adapters.look('"firmware": {"MAX_ACC_OUT_READ": "44"}', *CODES)
    assert found.one("FIRMWARE_SETTING", HCAS[0]).status is Status.FAILED
    assert found.one("FIRMWARE_PENDING", HCAS[0]).reason == "waits for a reset: MAX_ACC_OUT_READ"
    assert found.one("FIRMWARE_SETTING", HCAS[1]).status is Status.OK


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Output(NEXT_ONLY, 0), "only the next boot's value is printed"),
        (
            Output(QUERY.replace("MAX_ACC_OUT_READ ", "MAX_ACC_OUT_WRITE"), 0),
            "hidden unless ADVANCED_PCI_SETTINGS is set",
        ),
        (Output(QUERY.replace("44              44", "44"), 0), "1 lines aren't understood"),
        (Output("-E- Failed to open device\n", 3), "exit code 3, saying '-E- Failed to open device'"),
        (Output("Konfiguration: keine\n", 0), "no setting in its output is understood"),
        (UnreadableError("mstconfig", "ended after 30 s without an answer"), "ended after 30 s"),
        (None, "the program mstconfig isn't installed"),
    ],
)
def test_unreadable_setting_is_unknown_for_its_adapter_only(
    adapters: Rig, answer: Output | UnreadableError | None, reason: str
) -> None:
    """The other adapter is still judged."""
    if answer is None:
        adapters.commands = {}
    else:
        adapters.commands[_command(HCAS[0])] = answer
    found = adapters.look('"firmware": {"MAX_ACC_OUT_READ": "44"}', *CODES)
    result = found.one("FIRMWARE_SETTING", HCAS[0])
    assert result.status is Status.UNKNOWN and reason in result.reason
    if answer is not None:
        assert found.one("FIRMWARE_SETTING", HCAS[1]).status is Status.OK


def test_mlxconfig_is_used_where_mstconfig_is_not_installed(adapters: Rig) -> None:
    """NVIDIA's own package has the same program under that name."""
    adapters.commands = {_command(address, "mlxconfig"): Output(QUERY, 0) for address in HCAS}
    found = adapters.look(GOOD, *CODES)
    assert found.statuses() == {code: {"ok"} for code in CODES}
    assert found[0].source == _command(HCAS[0], "mlxconfig")


def test_expected_settings_without_adapter_fail(rig: Rig) -> None:
    for address in HCAS:
        (rig.root / "sys/bus/pci/devices" / address).unlink()
    assert rig.look(GOOD, *CODES).wrong() == {"FIRMWARE_SETTING": [Status.FAILED]}
