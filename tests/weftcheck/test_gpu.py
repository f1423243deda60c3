"""Checks of GPUs with nvidia-smi, over several drivers and boards."""

from __future__ import annotations

import pytest

from tests.weftcheck.machines import Rig
from weftcheck.host import Output, UnreadableError
from weftcheck.result import Status
from weftcheck.smi import parse
from weftlab.hostfolder import GPUS
from weftlab.smioutput import BOARDS, output

SMI = "nvidia-smi -q -x"
CODES = ("GPU_ATTACHED", "GPU_DRIVER", "GPU_STATE", "GPU_ECC", "GPU_ROWS", "GPU_CLOCKS")
CODES += ("GPU_SETTING", "GPU_PCIE_REPLAY", "GPU_FABRIC")


def _with(rig: Rig, old: str, new: str, board: str = "GB300, driver 580.173") -> None:
    """Make this change in the first GPU's element."""
    text = output(board)
    assert old in text
    rig.commands[SMI] = Output(text.replace(old, new, 1), 0)


@pytest.mark.parametrize("board", BOARDS)
def test_healthy_boards_of_several_drivers_are_ok(rig: Rig, board: str) -> None:
    """What a board or driver doesn't have is skipped."""
    rig.commands[SMI] = Output(output(board), 0)
    found = rig.look('"ecc": true, "persistence": true, "pcie_replays": 150', *CODES).statuses()
    skipped = {code for code, statuses in found.items() if statuses == {"skipped"}}
    fabric = board.startswith(("H100", "GB300"))
    assert skipped == ({"GPU_DRIVER"} if fabric else {"GPU_DRIVER", "GPU_FABRIC"})
    assert all(found[code] == {"ok"} for code in set(CODES) - skipped)


@pytest.mark.parametrize(
    ("old", "new", "code", "reason"),
    [
        ("action>None<", "action>Drain and Reset<", "GPU_STATE", "recovery action: 'Drain and Reset'"),
        ("dram_uncorrectable>0<", "dram_uncorrectable>5<", "GPU_ECC", "dram_uncorrectable 5"),
        ("exceeded>No<", "exceeded>Yes<", "GPU_ECC", "too many uncorrectable errors in SRAM"),
        ("repair_pending>No<", "repair_pending>Yes<", "GPU_ECC", "a memory channel waits for repair"),
        ("unrepairable_memory>No<", "unrepairable_memory>Yes<", "GPU_ECC", "memory that can't be repaired"),
        ("row_failure>No<", "row_failure>Yes<", "GPU_ROWS", "a row couldn't be remapped"),
        ("row_pending>No<", "row_pending>Yes<", "GPU_ROWS", "a row waits for a reset to be remapped"),
        (
            "reason_hw_slowdown>Not Active<",
            "reason_hw_slowdown>Active<",
            "GPU_CLOCKS",
            "slowed down: hw_slowdown",
        ),
        (
            "rollover_counter>0<",
            "rollover_counter>2<",
            "GPU_PCIE_REPLAY",
            "the counter overflowed: '2' times",
        ),
        ("state>Completed<", "state>In Progress<", "GPU_FABRIC", "state 'In Progress'"),
        (
            "status>Success<",
            "status>Insufficient Resources<",
            "GPU_FABRIC",
            "status 'Insufficient Resources'",
        ),
        ("bandwidth>Full<", "bandwidth>Degraded<", "GPU_FABRIC", "bandwidth 'Degraded'"),
        ("unhealthy>False<", "unhealthy>True<", "GPU_FABRIC", "route_unhealthy 'True'"),
        ("summary>Healthy<", "summary>Limited Capacity<", "GPU_FABRIC", "summary 'Limited Capacity'"),
        (
            "configuration>None<",
            "configuration>Wrong Chassis<",
            "GPU_FABRIC",
            "incorrect_configuration 'Wrong Chassis'",
        ),
    ],
)
def test_sick_gpu_fails_one_code(rig: Rig, old: str, new: str, code: str, reason: str) -> None:
    """The other GPU stays ok, and so do the other codes of this one."""
    _with(rig, old, new)
    [failed] = [
        r for r in rig.look("", *CODES) if r.status is not Status.OK and r.status is not Status.SKIPPED
    ]
    assert (failed.code, failed.subject, failed.status, failed.reason) == (
        code,
        GPUS[0],
        Status.FAILED,
        reason,
    )


@pytest.mark.parametrize(
    ("board", "old", "new", "code"),
    [
        ("A100, driver 550", "reset_required>No<", "reset_required>Yes<", "GPU_STATE"),
        ("V100, driver 450", "pending_blacklist>No<", "pending_blacklist>Yes<", "GPU_ROWS"),
        ("V100, driver 450", "<double_bit><total>0<", "<double_bit><total>1<", "GPU_ECC"),
        ("V100, driver 450", "sw_thermal_slowdown>Not Active<", "sw_thermal_slowdown>Active<", "GPU_CLOCKS"),
        ("T4, driver 595", "sram_uncorrectable>0<", "sram_uncorrectable>1<", "GPU_ECC"),
    ],
)
def test_older_forms_of_the_same_fault_are_read(rig: Rig, board: str, old: str, new: str, code: str) -> None:
    """Other drivers and boards name these members differently."""
    _with(rig, old, new, board)
    assert rig.look("", *CODES).one(code, GPUS[0]).status is Status.FAILED


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("<gpu_recovery_action>None</gpu_recovery_action>", "", "GPU_STATE"),
        ("dram_uncorrectable>0<", "dram_uncorrectable>many<", "GPU_ECC"),
        ("row_failure>No<", "row_failure>Nein<", "GPU_ROWS"),
        ("reason_hw_slowdown>Not Active<", "reason_hw_slowdown>Inaktiv<", "GPU_CLOCKS"),
        ("bandwidth>Full<", "bandwidth>Half<", "GPU_FABRIC"),
    ],
)
def test_text_that_is_not_understood_is_unknown_not_ok(rig: Rig, old: str, new: str, code: str) -> None:
    _with(rig, old, new)
    assert rig.look("", *CODES).wrong() == {code: [Status.UNKNOWN]}


@pytest.mark.parametrize(
    ("expected", "code"),
    [
        ('"gpu_driver": "595.91.07"', "GPU_DRIVER"),
        ('"ecc": false', "GPU_ECC"),
        ('"persistence": false', "GPU_SETTING"),
        ('"pcie_replays": 149', "GPU_PCIE_REPLAY"),
        ('"fabric_clique": "32766"', "GPU_FABRIC"),
    ],
)
def test_gpus_are_compared_with_expected_values(rig: Rig, expected: str, code: str) -> None:
    """Also the NVLink partition: 32766 is the default one, in which a rack's idle GPUs are."""
    assert set(rig.look(expected, *CODES).wrong()) == {code}


def test_lost_gpu_fails_and_its_other_codes_are_unknown(rig: Rig) -> None:
    """nvidia-smi prints "GPU is lost" instead of values, or fails as a whole."""
    _with(rig, "row_pending>No<", "row_pending>GPU is lost<")
    found = rig.look("", *CODES)
    assert found.one("GPU_STATE", GPUS[0]).status is Status.FAILED
    assert {r.status for r in found if r.subject == GPUS[0] and r.code != "GPU_STATE"} == {Status.UNKNOWN}
    assert found.one("GPU_STATE", GPUS[1]).status is Status.OK
    text = "Unable to determine the device handle for GPU0: 0000:1B:00.0: GPU is lost.  Reboot the system"
    rig.commands[SMI] = Output("", 15, text)
    assert rig.look("", *CODES).wrong() == {
        code: [Status.FAILED if code == "GPU_STATE" else Status.UNKNOWN] for code in CODES
    }


def test_gpu_unknown_to_the_driver_fails(rig: Rig) -> None:
    """The driver's list alone would look complete."""
    rig.commands[SMI] = Output(output(gpus=GPUS[:1]), 0)
    result = rig.look("", *CODES).one("GPU_ATTACHED")
    assert (result.status, result.reason) == (Status.FAILED, f"not known to the driver: {GPUS[1]}")


@pytest.mark.parametrize(
    "answer",
    [
        UnreadableError(SMI, "ended after 90 s without an answer"),
        Output("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9),
        Output("", 0),
        Output("<html></html>", 0),
        Output('<!DOCTYPE x [<!ENTITY a "aaaa">]><nvidia_smi_log>&a;</nvidia_smi_log>', 0),
        Output(output(), 0, cut=True),
        Output(output()[:500], 0),
        None,
    ],
)
def test_unreadable_nvidia_smi_is_unknown_in_every_code(
    rig: Rig, answer: Output | UnreadableError | None
) -> None:
    """Each result has a reason, and the program is run once."""
    if answer is None:
        del rig.commands[SMI]
    else:
        rig.commands[SMI] = answer
    found = rig.look("", *CODES)
    assert found.wrong() == {code: [Status.UNKNOWN] for code in CODES}
    assert all(r.reason for r in found) and rig.asked.count(SMI) == 1


@pytest.mark.parametrize(
    ("printed", "address"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0000:1B:00.0", "0000:1b:00.0"),
        ("00000008:06:00.0", "0008:06:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
    ],
)
def test_bus_ids_are_converted_to_those_of_sysfs(printed: str, address: str) -> None:
    """Domains of 4 or 8 digits, a Grace machine's, and one beyond 16 bits."""
    text = f'<nvidia_smi_log><gpu id="{printed}"></gpu></nvidia_smi_log>'
    assert [gpu.address for gpu in parse(text).gpus] == [address]


def test_nvidia_smi_is_not_run_where_all_gpus_are_for_guests(rig: Rig) -> None:
    """A hypervisor binds them to vfio-pci: skipped, and unknown where a value is expected."""
    (rig.root / "sys/bus/pci/drivers/vfio-pci").mkdir(parents=True)
    for address in GPUS:
        (rig.device(address) / "driver").symlink_to(rig.root / "sys/bus/pci/drivers/vfio-pci")
    found = rig.look('"ecc": true', *CODES, "GPUDIRECT")
    assert SMI not in rig.asked
    assert found.wrong() == {"GPU_ECC": [Status.UNKNOWN]}
