"""Checks of PCI devices, NUMA nodes and the IOMMU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.weftcheck.machines import Rig
from weftcheck.result import Status
from weftlab.hostfolder import GPUS, HCAS, space

HARDWARE = """"gpus": 2, "hcas": 2, "numa_nodes": 2, "gpu_link": "32 GT/s x16", "hca_link": "32 GT/s x16",
"max_read_request": 4096, "max_payload": 256, "ats": false, "acs": false, "distance": "PIX", "iommu": "off" """
BUS = ("GPU_COUNT", "HCA_COUNT", "NUMA_COUNT", "PCI_DEVICE", "PCI_LINK", "PCI_READ_REQUEST", "PCI_PAYLOAD")
BUS += ("PCI_ATS", "PCI_ACS", "PCI_DISTANCE", "NUMA_NODE", "IOMMU")


def test_healthy_machine_is_ok_in_every_code(rig: Rig) -> None:
    """With expected values each code is judged; without them only those that can be wrong by themselves."""
    found = rig.look(HARDWARE, *BUS).statuses()
    assert set(found) == set(BUS)
    assert {code: s for code, s in found.items() if s != {"ok"}} == {"PCI_ACS": {"ok", "skipped"}}
    alone = rig.look("", *BUS).statuses()
    assert set(alone) == set(BUS) and set().union(*alone.values()) == {"ok", "skipped"}
    assert {code for code, statuses in alone.items() if "ok" in statuses} == {
        "PCI_DEVICE",
        "PCI_LINK",
        "PCI_PAYLOAD",
        "NUMA_NODE",
    }


def _slow(rig: Rig) -> None:
    (rig.device(HCAS[0]) / "current_link_speed").write_text("16.0 GT/s PCIe\n")


def _narrow(rig: Rig) -> None:
    (rig.device(GPUS[0]) / "current_link_width").write_text("8\n")


def _lost(rig: Rig) -> None:
    (rig.device(GPUS[0]) / "config").write_bytes(b"\xff" * 4096)


def _payload(rig: Rig) -> None:
    (rig.device(HCAS[0]) / "config").write_bytes(space(payload=512, ats=False))


def _redirects(rig: Rig) -> None:
    (rig.bridge(GPUS[0]) / "config").write_bytes(space(kind=6, acs=0b101))


def _no_node(rig: Rig) -> None:
    (rig.device(GPUS[0]) / "numa_node").write_text("-1\n")


@pytest.mark.parametrize(
    ("change", "code", "reason"),
    [
        (_slow, "PCI_LINK", "16 GT/s instead of 32"),
        (_narrow, "PCI_LINK", "8 lanes instead of 16"),
        (_lost, "PCI_DEVICE", "doesn't answer: its configuration space reads as 0xff"),
        (_payload, "PCI_PAYLOAD", "512 bytes, 256 at the port above it"),
        (_redirects, "PCI_ACS", "redirects peer-to-peer traffic though no IOMMU is on that it would protect"),
        (_no_node, "NUMA_NODE", "the kernel doesn't know its NUMA node, though there are several"),
    ],
)
def test_fault_is_named_without_expected_values(
    rig: Rig, change: Callable[[Rig], None], code: str, reason: str
) -> None:
    """Each planted fault fails its own code once, and no other code."""
    change(rig)
    found = rig.look("", *BUS)
    [failed] = [r for r in found if r.status is Status.FAILED]
    assert (failed.code, failed.reason) == (code, reason)
    assert failed.source.startswith("/sys/")


@pytest.mark.parametrize(
    ("expected", "code"),
    [
        ('"gpus": 8', "GPU_COUNT"),
        ('"hcas": 8', "HCA_COUNT"),
        ('"numa_nodes": 1', "NUMA_COUNT"),
        ('"hca_link": "64 GT/s x16"', "PCI_LINK"),
        ('"max_read_request": 512', "PCI_READ_REQUEST"),
        ('"max_payload": 512', "PCI_PAYLOAD"),
        ('"ats": true', "PCI_ATS"),
        ('"acs": true', "PCI_ACS"),
        ('"iommu": "passthrough"', "IOMMU"),
    ],
)
def test_value_other_than_expected_fails(rig: Rig, expected: str, code: str) -> None:
    """The result has both values."""
    failed = [r for r in rig.look(expected, *BUS) if r.status is Status.FAILED]
    assert {r.code for r in failed} == {code}
    assert all(r.found is not None and r.expected is not None for r in failed)


def test_expected_value_fails_if_the_hardware_is_missing(rig: Rig) -> None:
    """Without adapters no expected value of adapters is met."""
    for address in HCAS:
        (rig.root / "sys/bus/pci/devices" / address).unlink()
    found = rig.look(HARDWARE, *BUS)
    failed = {r.code for r in found if r.status is Status.FAILED}
    assert failed == {"HCA_COUNT", "PCI_READ_REQUEST", "PCI_PAYLOAD", "PCI_ATS", "PCI_DISTANCE", "PCI_LINK"}


def test_idle_gpu_with_lower_speed_is_unknown_not_ok(rig: Rig) -> None:
    """GPUs lower their link's speed when idle; the reason says that it can be judged under load."""
    (rig.device(GPUS[0]) / "current_link_speed").write_text("2.5 GT/s PCIe\n")
    result = rig.look("", "PCI_LINK").one("PCI_LINK", GPUS[0])
    assert result.status is Status.UNKNOWN and "under load" in result.reason


def test_narrow_slot_does_not_fail_the_device(rig: Rig) -> None:
    """The port above the device has 8 lanes: ok with a remark; failed only where more is expected."""
    for name in ("current_link_width", "max_link_width"):
        (rig.bridge(HCAS[0]) / name).write_text("8\n")
    (rig.device(HCAS[0]) / "current_link_width").write_text("8\n")
    result = rig.look("", "PCI_LINK").one("PCI_LINK", HCAS[0])
    assert result.status is Status.OK and result.reason.endswith("the device could do 32 GT/s x16")
    assert rig.look('"hca_link": "32 GT/s x16"', "PCI_LINK").one("PCI_LINK", HCAS[0]).status is Status.FAILED


def test_config_space_without_root_is_unknown(rig: Rig) -> None:
    """The kernel shows users 64 bytes of it; an emulated device has 256, without extended capabilities."""
    (rig.device(HCAS[0]) / "config").write_bytes(space()[:64])
    (rig.device(HCAS[1]) / "config").write_bytes(space()[:256])
    found = rig.look('"ats": true, "max_read_request": 4096', "PCI_ATS", "PCI_READ_REQUEST")
    short, emulated = (found.one("PCI_ATS", address) for address in HCAS)
    assert short.status is emulated.status is Status.UNKNOWN
    assert "needs root" in short.reason and "no extended capabilities" in emulated.reason
    assert [r.status for r in found if r.code == "PCI_READ_REQUEST"] == [Status.UNKNOWN, Status.OK]


def test_endless_capability_list_is_unknown(rig: Rig) -> None:
    """A broken device can't hang the program, with a loop in either list of capabilities."""
    data = bytearray(space(ats=True))
    data[0x101:0x104] = bytes([0, 0x01, 0x10])  # points at itself
    (rig.device(HCAS[0]) / "config").write_bytes(data)
    loop = bytearray(space())
    loop[0x48:0x4A] = bytes([5, 0x48])
    (rig.device(HCAS[1]) / "config").write_bytes(loop)
    found = rig.look('"ats": true', "PCI_ATS")
    assert [r.status for r in found] == [Status.UNKNOWN] * 2
    assert "doesn't end" in found[0].reason and "no PCI Express capability" in found[1].reason


def test_distance_names_the_nearest_common_bridge(rig: Rig) -> None:
    """PIX below one switch; SYS once only the other socket's adapter is left."""
    near = rig.look('"distance": "PXB"', "PCI_DISTANCE").one("PCI_DISTANCE", GPUS[0])
    assert near.status is Status.OK
    assert near.reason == f"PIX to mlx5_0 ({HCAS[0]}), which has bridge 0000:16:00.0 in common"
    (rig.root / "sys/bus/pci/devices" / HCAS[0]).unlink()
    far = rig.look('"distance": "PXB"', "PCI_DISTANCE").one("PCI_DISTANCE", GPUS[0])
    assert (far.status, far.found) == (Status.FAILED, "SYS")


def test_virtual_functions_of_the_host_are_not_counted_as_adapters(rig: Rig) -> None:
    """They belong to guests and have no link of their own."""
    (rig.device(HCAS[1]) / "physfn").symlink_to(rig.device(HCAS[0]))
    found = rig.look('"hcas": 1', *BUS, "PORT_STATE")
    assert found.one("HCA_COUNT").status is Status.OK
    assert not any(HCAS[1] in r.subject or "mlx5_1" in r.subject for r in found)


@pytest.mark.parametrize(
    ("text", "mode"), [("identity", "passthrough"), ("DMA", "translated"), ("DMA-FQ", "translated")]
)
def test_iommu_mode_is_that_of_the_device_groups(rig: Rig, text: str, mode: str) -> None:
    """The mode is read from the devices' IOMMU groups, not from the kernel's command line."""
    for number, address in enumerate((*GPUS, *HCAS)):
        rig.write(f"sys/kernel/iommu_groups/{number}/type", f"{text}\n")
        rig.link(
            str((rig.device(address) / "iommu_group").relative_to(rig.root.resolve())),
            f"sys/kernel/iommu_groups/{number}",
        )
    found = rig.look('"iommu": "passthrough"', "IOMMU")
    assert {r.found for r in found} == {mode} and len(found) == 4
    assert {r.status for r in found} == {Status.OK if mode == "passthrough" else Status.FAILED}


def test_missing_sysfs_is_unknown_in_every_code(rig: Rig) -> None:
    (rig.root / "sys").rename(rig.root / "elsewhere")
    assert rig.look("", *BUS).statuses() == {code: {"unknown"} for code in BUS}


def test_guest_with_emulated_ports_is_judged_by_the_device(rig: Rig) -> None:
    """QEMU's ports have made-up links and payloads, so nothing is compared with them."""
    (rig.bridge(HCAS[0]) / "vendor").write_text("0x1b36\n")
    (rig.bridge(HCAS[0]) / "config").write_bytes(space(kind=4, payload=128, acs=0))
    (rig.bridge(HCAS[0]) / "max_link_width").write_text("1\n")
    found = rig.look("", "PCI_LINK", "PCI_PAYLOAD")
    assert found.one("PCI_PAYLOAD", HCAS[0]).status is Status.SKIPPED
    assert found.one("PCI_LINK", HCAS[0]).status is Status.OK
    (rig.device(HCAS[0]) / "current_link_width").write_text("8\n")
    assert rig.look("", "PCI_LINK").one("PCI_LINK", HCAS[0]).status is Status.UNKNOWN
