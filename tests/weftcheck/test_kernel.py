"""Checks of modules, parameters, GPUDirect, the kernel log and the clock."""

from __future__ import annotations

import pytest

from tests.weftcheck.machines import Rig
from weftcheck.host import Output, UnreadableError
from weftcheck.result import Status
from weftlab.hostfolder import CHRONY, JOURNAL_COMMAND

TIMEDATE = "timedatectl show --property=NTPSynchronized --value"


def test_modules_parameters_and_arguments_are_compared(rig: Rig) -> None:
    """NVIDIA's own parameters are in /proc; a module's name has underscores in /sys for hyphens."""
    rig.write("sys/module/mlx5_core/parameters/prof_sel", "2\n")
    rig.write("proc/driver/nvidia/params", 'EnableGpuFirmware: 18\nRegistryDwords: ""\n')
    codes = ("MODULE", "MODULE_PARAMETER", "KERNEL_ARGUMENT")
    good = """"modules": ["nvidia-peermem"], "kernel_arguments": ["iommu=pt"],
    "parameters": {"mlx5_core.prof_sel": "2", "nvidia.NVreg_EnableGpuFirmware": "18"}"""
    assert rig.look(good, *codes).statuses() == {code: {"ok"} for code in codes}
    bad = """"modules": ["ib_ipoib"], "kernel_arguments": ["iommu=off"],
    "parameters": {"mlx5_core.prof_sel": "3", "nvidia.NVreg_Other": "1"}"""
    assert rig.look(bad, *codes).wrong() == {
        "MODULE": [Status.FAILED],
        "MODULE_PARAMETER": [Status.FAILED, Status.UNKNOWN],
        "KERNEL_ARGUMENT": [Status.FAILED],
    }
    assert rig.look("", *codes).statuses() == {code: {"skipped"} for code in codes}


@pytest.mark.parametrize(
    ("version", "kernel", "status"),
    [
        ("NVIDIA UNIX Open Kernel Module for x86_64  580.105.08", "6.8.0", Status.OK),
        ("NVIDIA UNIX Open Kernel Module for x86_64  550.54.15", "5.10.0-30", Status.FAILED),
        ("NVIDIA UNIX x86_64 Kernel Module  550.54.15", "6.8.0", Status.FAILED),
        ("NVIDIA UNIX Open Kernel Module for x86_64  580.105.08", "unusual", Status.UNKNOWN),
    ],
)
def test_gpudirect_needs_peermem_or_dma_buf(rig: Rig, version: str, kernel: str, status: Status) -> None:
    """dma-buf needs the driver's open modules and Linux 5.12."""
    assert rig.look("", "GPUDIRECT").one("GPUDIRECT").status is Status.OK
    (rig.root / "sys/module/nvidia_peermem").rename(rig.root / "unloaded")
    rig.write("proc/driver/nvidia/version", f"NVRM version: {version}  Release Build\nGCC version: 12\n")
    rig.write("proc/sys/kernel/osrelease", kernel)
    assert rig.look("", "GPUDIRECT").one("GPUDIRECT").status is status


@pytest.mark.parametrize(
    ("line", "subject", "status"),
    [
        (
            "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off",
            "0000:1b:00",
            "failed",
        ),
        ("NVRM: Xid (PCI:0000:1B:00): 48, pid=1234, name=python, DBE", "0000:1b:00", "failed"),
        ("NVRM: Xid (0000:1b:00): 79, GPU has fallen off the bus.", "0000:1b:00", "failed"),
        (
            "NVRM: GPU at PCI:0000:1b:00: GPU-x\nNVRM: Xid (PCI:0000:1b:00): 119, pid=7, Timeout",
            "0000:1b:00",
            "failed",
        ),
        ("NVRM: Xid (PCI:0000:1b:00): 13, pid=9, Graphics SM Warp Exception", "0000:1b:00", "ok"),
        (
            "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (Reset)",
            "1b:00",
            "failed",
        ),
        (
            "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x1 (Reset) to 0x0 (None)",
            "1b:00",
            "ok",
        ),
        ("NVRM: Xid (PCI:0000:1b:00): 999, something new", "0000:1b:00", "unknown"),
        ("NVRM: Xid und was anderes", "host", "unknown"),
        ("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress", "0000:05:00.0", "ok"),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            "0000:05:00.0",
            "failed",
        ),
        ("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Severity 1", "0000:05:00.0", "unknown"),
    ],
)
def test_xid_lines_are_judged_by_their_code(rig: Rig, line: str, subject: str, status: str) -> None:
    """Not by the numbers in the PCI address; repeated lines give one result."""
    rig.commands[JOURNAL_COMMAND] = Output(
        "\n".join(f"[  12.3] gpu1 kernel: {one}" for one in line.split("\n") * 3), 0
    )
    [result] = rig.look("", "XID")
    assert subject in result.subject and result.status.value == status


def test_process_named_like_an_xid_is_not_read_as_one(rig: Rig) -> None:
    """Users choose the names of processes, which are in other lines of the log."""
    line = "[  12.3] gpu1 kernel: NVRM:Xid(x):79[411]: segfault at 0 ip 0 sp 0 error 4"
    rig.commands[JOURNAL_COMMAND] = Output(f"{line}\n", 0)
    assert rig.look("", "XID").one("XID").status is Status.OK


def test_unreadable_kernel_log_is_unknown(rig: Rig) -> None:
    """Without a journal dmesg is read; an empty or cut log proves nothing."""
    assert rig.look("", "XID").one("XID").status is Status.OK
    rig.commands[JOURNAL_COMMAND] = Output("", 0)
    rig.commands["dmesg"] = Output("[0.0] Linux version\n", 0)
    assert rig.look("", "XID").one("XID")[2:5:2] == (Status.OK, "dmesg")
    rig.commands["dmesg"] = Output("", 1, "dmesg: read kernel buffer failed: Operation not permitted\n")
    result = rig.look("", "XID").one("XID")
    assert result.status is Status.UNKNOWN and "Operation not permitted" in result.reason
    rig.commands[JOURNAL_COMMAND] = Output("NVRM: Xid (PCI:0000:1b:00): 79, x\n", 0, cut=True)
    assert rig.look("", "XID").wrong() == {"XID": [Status.FAILED, Status.UNKNOWN]}


@pytest.mark.parametrize(
    ("old", "new", "expected", "status"),
    [
        ("", "", "", Status.OK),
        ("", "", '"clock_offset": 0.00001', Status.FAILED),
        ("Normal", "Not synchronised", "", Status.FAILED),
        ("0.000012345 seconds", "3845.15 seconds", "", Status.FAILED),
        ("Leap status", "Schaltstatus", "", Status.UNKNOWN),
        ("0.000012345", "0,000012345", "", Status.UNKNOWN),
    ],
)
def test_clock_is_judged_by_chronys_leap_status_and_offset(
    rig: Rig, old: str, new: str, expected: str, status: Status
) -> None:
    rig.commands["chronyc -n tracking"] = Output(CHRONY.replace(old, new) if old else CHRONY, 0)
    assert rig.look(expected, "CLOCK").one("CLOCK").status is status


@pytest.mark.parametrize(
    ("answer", "expected", "status"),
    [
        (Output("yes\n", 0), "", Status.OK),
        (Output("no\n", 0), "", Status.FAILED),
        (Output("ja\n", 0), "", Status.UNKNOWN),
        (Output("yes\n", 0), '"clock_offset": 1', Status.UNKNOWN),
        (UnreadableError("timedatectl", "ended after 30 s without an answer"), "", Status.UNKNOWN),
    ],
)
def test_clock_is_judged_by_the_kernels_flag_without_chrony(
    rig: Rig, answer: Output | UnreadableError, expected: str, status: Status
) -> None:
    """The flag holds for ntpd, systemd-timesyncd and PTP as well; there is no offset."""
    rig.commands["chronyc -n tracking"] = Output("506 Cannot talk to daemon\n", 1)
    rig.commands[TIMEDATE] = answer
    assert rig.look(expected, "CLOCK").one("CLOCK").status is status
