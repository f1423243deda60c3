"""What a guest checks about itself, on trees of files as the kernel has them: correct ones, and each deviation."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "images/elements/weft-host-checks/static/usr/local/bin/weft-host-checks"
MAIN = runpy.run_path(str(SCRIPT))["main"]
IB = "sys/devices/pci0000:00/0000:00:05.0"
GPU = "sys/devices/pci0000:00/0000:00:07.0"
PORT = f"{IB}/infiniband/mlx5_0/ports/1"
NET = f"{IB}/net/ibp0s5"
CONFIG = "etc/weft/host-checks.conf"

EXPECTED = """[expect]
link_type = InfiniBand
ports = 1
guids = 0x7cfe:9003:0029:2652
pkeys = 0x8001
vfs = 8
gpus = 1
gpu_driver = nvidia
pcie = full
numa_nodes = 2
hugepages = 1G=64 2M=1024
modules = ib_ipoib nvidia-peermem
kernel_arguments = iommu=pt
"""

FILES = {
    CONFIG: EXPECTED,
    "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=LABEL=root iommu=pt\n",
    "sys/module/ib_ipoib/refcnt": "0",
    "sys/module/nvidia_peermem/refcnt": "0",
    "sys/devices/system/node/node0/meminfo": "",
    "sys/devices/system/node/node1/meminfo": "",
    "sys/devices/system/node/possible": "0-1",
    "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "64",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "1024",
    f"{IB}/class": "0x020700",
    f"{IB}/vendor": "0x15b3",
    f"{IB}/numa_node": "0",
    f"{IB}/sriov_totalvfs": "8",
    f"{NET}/type": "32",
    f"{NET}/dev_port": "0",
    f"{NET}/operstate": "up",
    f"{PORT}/link_layer": "InfiniBand",
    f"{PORT}/state": "4: ACTIVE",
    f"{PORT}/gids/0": "fe80:0000:0000:0000:7cfe:9003:0029:2652",
    f"{PORT}/pkeys/0": "0x7fff",
    f"{PORT}/pkeys/1": "0x8001",
    f"{PORT}/pkeys/2": "0x0000",
    f"{GPU}/class": "0x030200",
    f"{GPU}/vendor": "0x10de",
    f"{GPU}/numa_node": "1",
    **{f"{IB}/{which}_link_speed": "32.0 GT/s PCIe" for which in ("current", "max")},
    **{f"{IB}/{which}_link_width": "16" for which in ("current", "max")},
    **{f"{GPU}/{which}_link_speed": "32.0 GT/s PCIe" for which in ("current", "max")},
    **{f"{GPU}/{which}_link_width": "16" for which in ("current", "max")},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A guest with an InfiniBand adapter and a GPU, all as expected."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text if text.endswith("\n") else text + "\n")
    (tmp_path / IB / "infiniband/mlx5_0/device").symlink_to("../../../0000:00:05.0")
    (tmp_path / "sys/class/infiniband").mkdir(parents=True)
    (tmp_path / "sys/class/infiniband/mlx5_0").symlink_to(tmp_path / IB / "infiniband/mlx5_0")
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/drivers/nvidia").mkdir(parents=True)
    (tmp_path / GPU / "driver").symlink_to(tmp_path / "sys/bus/pci/drivers/nvidia")
    for device in (IB, GPU):
        (tmp_path / "sys/bus/pci/devices" / Path(device).name).symlink_to(tmp_path / device)
    return tmp_path


def run(root: Path, *more: str) -> tuple[int, list[str], str]:
    """Exit code, lines of stdout, and stderr."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as errors,
    ):
        code = MAIN(["--root", str(root), *more])
    return code, out.getvalue().splitlines(), errors.getvalue()


def test_matching_host_passes(root: Path) -> None:
    code, lines, errors = run(root)
    assert [line for line in lines if not line.startswith("ok    ")] == []
    assert (code, errors) == (0, "")
    assert [line[6:].partition(": ")[0] for line in lines] == [
        "ports",
        "link mlx5_0/1",
        "guid 7cfe900300292652",
        "pkey 0x8001 mlx5_0/1",
        "ipoib mlx5_0/1",
        "vfs mlx5_0",
        "gpus",
        "gpu_driver 0000:00:07.0",
        "pcie mlx5_0",
        "pcie 0000:00:07.0",
        "numa_nodes",
        "numa_node mlx5_0",
        "numa_node 0000:00:07.0",
        "hugepages-2048kB",
        "hugepages-1048576kB",
        "module ib_ipoib",
        "module nvidia-peermem",
        "kernel_argument iommu=pt",
    ]


def write(name: str, text: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")

    return change


def remove(name: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        path = root / name
        if path.is_symlink() or path.is_file():
            path.unlink()
        else:
            shutil.rmtree(path)

    return change


WRONG = {
    "Ethernet": (write(f"{PORT}/link_layer", "Ethernet"), {"link mlx5_0/1", "pkeys"}),
    "link type unreadable": (remove(f"{PORT}/link_layer"), {"link mlx5_0/1", "pkeys"}),
    "no subnet manager": (write(f"{PORT}/state", "2: INIT"), {"link mlx5_0/1"}),
    "no cable": (write(f"{PORT}/state", "1: DOWN"), {"link mlx5_0/1"}),
    "state unreadable": (remove(f"{PORT}/state"), {"link mlx5_0/1"}),
    "another GUID": (
        write(f"{PORT}/gids/0", "fe80:0000:0000:0000:7cfe:9003:0029:2653"),
        {"guid 7cfe900300292652", "guid 7cfe900300292653"},
    ),
    "GUID unreadable": (remove(f"{PORT}/gids"), {"guid 7cfe900300292652", "guid unknown"}),
    "no P_Key": (write(f"{PORT}/pkeys/1", "0x0000"), {"pkey 0x8001 mlx5_0/1"}),
    "limited member": (write(f"{PORT}/pkeys/1", "0x0001"), {"pkey 0x8001 mlx5_0/1"}),
    "P_Keys unreadable": (remove(f"{PORT}/pkeys"), {"pkey 0x8001 mlx5_0/1"}),
    "a foreign P_Key": (write(f"{PORT}/pkeys/2", "0x8005"), {"pkey 0x8005 mlx5_0/1"}),
    "no module ib_ipoib": (
        lambda root: (remove(NET)(root), remove("sys/module/ib_ipoib")(root)),
        {"ipoib mlx5_0/1", "module ib_ipoib"},
    ),
    "interface down": (write(f"{NET}/operstate", "down"), {"ipoib mlx5_0/1"}),
    "interface without an address": (
        write("proc/net/route", "Iface\tDestination\neno1\t00000000\n"),
        {"ipoib mlx5_0/1"},
    ),
    "interface of another port": (write(f"{NET}/dev_port", "1"), {"ipoib mlx5_0/1"}),
    "interface isn't IPoIB": (write(f"{NET}/type", "1"), {"ipoib mlx5_0/1"}),
    "SR-IOV off": (remove(f"{IB}/sriov_totalvfs"), {"vfs mlx5_0"}),
    "few virtual functions": (write(f"{IB}/sriov_totalvfs", "4"), {"vfs mlx5_0"}),
    "GPU is gone": (remove("sys/bus/pci/devices/0000:00:07.0"), {"gpus", "gpu_driver"}),
    "GPU of another vendor": (write(f"{GPU}/vendor", "0x1002"), {"gpus", "gpu_driver"}),
    "GPU for virtual machines": (remove(f"{GPU}/driver"), {"gpu_driver 0000:00:07.0"}),
    "adapter with half its lanes": (write(f"{IB}/current_link_width", "8"), {"pcie mlx5_0"}),
    "GPU at half its speed": (write(f"{GPU}/current_link_speed", "16.0 GT/s PCIe"), {"pcie 0000:00:07.0"}),
    "lanes unreadable": (remove(f"{GPU}/max_link_width"), {"pcie 0000:00:07.0"}),
    "one NUMA node": (remove("sys/devices/system/node/node1"), {"numa_nodes"}),
    "no NUMA nodes": (remove("sys/devices/system/node"), {"numa_nodes"}),
    "NUMA node of the GPU unknown": (write(f"{GPU}/numa_node", "-1"), {"numa_node 0000:00:07.0"}),
    "too few pages": (
        write("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "63"),
        {"hugepages-1048576kB"},
    ),
    "no pages of the size": (remove("sys/kernel/mm/hugepages/hugepages-2048kB"), {"hugepages-2048kB"}),
    "no nvidia-peermem": (remove("sys/module/nvidia_peermem"), {"module nvidia-peermem"}),
    "IOMMU translates": (write("proc/cmdline", "root=LABEL=root iommu=pt2"), {"kernel_argument iommu=pt"}),
    "command line unreadable": (remove("proc/cmdline"), {"kernel_argument iommu=pt"}),
}


@pytest.mark.parametrize(("change", "fails"), WRONG.values(), ids=WRONG)
def test_single_difference_is_reported(root: Path, change: Callable[[Path], object], fails: set[str]) -> None:
    change(root)
    code, lines, errors = run(root)
    assert (code, errors) == (1, "")
    assert {line[6:].partition(": ")[0] for line in lines if line.startswith("FAIL  ")} == fails


@pytest.mark.parametrize("line", EXPECTED.splitlines()[1:])
def test_empty_machine_fails_each_expectation(tmp_path: Path, line: str) -> None:
    write(CONFIG, f"[expect]\n{line}")(tmp_path)
    code, lines, _ = run(tmp_path)
    assert code == 1
    assert [text[:6] for text in lines] == ["FAIL  "] * len(lines)


def test_expected_pkey_without_an_infiniband_port_fails(root: Path) -> None:
    write(CONFIG, "[expect]\npkeys = 0x8001")(root)
    write(f"{PORT}/link_layer", "Ethernet")(root)
    code, lines, _ = run(root)
    assert code == 1
    assert "FAIL  pkeys: no InfiniBand port" in lines


def test_missing_adapter_fails_each_check_of_it(root: Path) -> None:
    remove("sys/class/infiniband")(root)
    code, lines, _ = run(root)
    assert code == 1
    assert {
        "FAIL  ports: 0, expected 1",
        "FAIL  link_type: no RDMA port, expected InfiniBand",
        "FAIL  guid 7cfe900300292652: no port",
        "FAIL  pkeys: no InfiniBand port",
        "FAIL  vfs: no adapter",
    } <= set(lines)


def test_additional_adapter_is_reported(root: Path) -> None:
    shutil.copytree(root / IB / "infiniband/mlx5_0", root / "sys/class/infiniband/mlx5_1", symlinks=True)
    write("sys/class/infiniband/mlx5_1/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0bad")(root)
    code, lines, _ = run(root)
    assert code == 1
    assert "FAIL  ports: 2, expected 1" in lines
    assert "FAIL  guid 0000000000000bad: mlx5_1/1, not expected" in lines


NO_FILE = "ok    file: there is no /etc/weft/host-checks.conf: nothing is expected"


def test_missing_file_is_reported_and_hardware_still_checked(root: Path) -> None:
    remove(CONFIG)(root)
    assert run(root)[:2] == (
        0,
        [NO_FILE, "ok    link mlx5_0/1: InfiniBand, ACTIVE", "ok    ipoib mlx5_0/1: ibp0s5 is up"],
    )
    write(f"{NET}/operstate", "down")(root)
    assert run(root)[0] == 1


def test_machine_without_adapters_only_lacks_the_file(tmp_path: Path) -> None:
    assert run(tmp_path) == (0, [NO_FILE], "")


def test_late_port_is_waited_for(root: Path) -> None:
    """The P_Key is first read from a pipe, so that the test knows when the first look was."""
    key, pipe = root / PORT / "pkeys/1", root / "pipe"
    os.mkfifo(pipe)
    key.unlink()
    key.hardlink_to(pipe)
    with subprocess.Popen(
        [sys.executable, SCRIPT, "--root", root, "--wait", "600"], stdout=subprocess.PIPE, text=True
    ) as started:
        key.write_text("0x0000\n")
        (root / "joined").write_text("0x8001\n")
        (root / "joined").replace(key)
        with contextlib.suppress(OSError):  # lets a second look end that waits for a writer
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        assert started.stdout is not None
        lines = started.stdout.read().splitlines()
    assert started.returncode == 0
    assert lines.count("ok    pkey 0x8001 mlx5_0/1: there") == 1


def test_wait_times_out_and_reports_the_last_reading_once(root: Path) -> None:
    write(f"{NET}/operstate", "down")(root)
    code, lines, _ = run(root, "--wait", "0.1")
    assert code == 1
    assert lines.count("FAIL  ipoib mlx5_0/1: ibp0s5 is down") == 1


BAD_FILES = {
    "": "sections are none; allowed is [expect] alone",
    "ports = 1": "can't be read",
    "[expected]\nports = 1": "sections are expected; allowed is [expect] alone",
    "[DEFAULT]\nports = 1\n[expect]\n": "allowed is [expect] alone",
    "[expect]\nport = 1": "port is no expectation; allowed are link_type, ports,",
    "[expect]\nports = 1\nports = 2": "can't be read",
    "[expect]\nports = some": "ports is 'some'; allowed: a whole number",
    "[expect]\nports = -1": "ports is '-1'; allowed: a whole number",
    "[expect]\nports = ²": "allowed: a whole number",
    "[expect]\nports =": "ports is ''; allowed: a whole number",
    "[expect]\nlink_type = IB": "link_type is 'IB'; allowed: InfiniBand or Ethernet",
    "[expect]\nguids =": "allowed: GUIDs of 16 hexadecimal digits",
    "[expect]\nguids = 7cfe": "allowed: GUIDs of 16 hexadecimal digits",
    "[expect]\npkeys = 8001": "allowed: P_Keys such as 0x8001",
    "[expect]\npkeys =": "allowed: P_Keys such as 0x8001",
    "[expect]\nhugepages = 64": "allowed: sizes and numbers such as 1G=64 2M=1024",
    "[expect]\nhugepages =": "allowed: sizes and numbers such as 1G=64 2M=1024",
    "[expect]\npcie = half": "allowed: full",
    "[expect]\nmodules =": "modules is ''; allowed: at least one name",
    "[expect]\ngpu_driver =": "gpu_driver is ''; allowed: one name",
}


@pytest.mark.parametrize(("text", "says"), BAD_FILES.items())
def test_unusable_file_is_reported(root: Path, text: str, says: str) -> None:
    (root / CONFIG).write_text(text + "\n", encoding="utf-8")
    code, lines, errors = run(root)
    assert (code, lines) == (2, [])
    assert says in errors
    assert errors.startswith("weft-host-checks: ")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("content", [b"\xff\xfe[expect]\n", b"[expect]\nports = 1\x00\n"])
def test_binary_file_is_reported(root: Path, content: bytes) -> None:
    (root / CONFIG).write_bytes(content)
    assert run(root)[0] == 2


def test_folder_in_place_of_the_file_is_reported(root: Path) -> None:
    (root / CONFIG).unlink()
    (root / CONFIG).mkdir()
    code, _, errors = run(root)
    assert code == 2
    assert "Is a directory" in errors


def test_interface_with_an_address_passes(root: Path) -> None:
    """For its own network the kernel adds a route; a host may need no other."""
    route = root / "proc/net/route"
    route.parent.mkdir(parents=True, exist_ok=True)
    route.write_text("Iface\tDestination\tGateway\nibp0s5\t0000400A\t00000000\n")
    assert run(root)[0] == 0
    route.write_text("Iface\tDestination\tGateway\n")
    assert (
        "FAIL  ipoib mlx5_0/1: ibp0s5 is up, without an IPv4 address (netplan leaves InfiniBand out)"
        in run(root)[1]
    )
    (root / CONFIG).write_text(EXPECTED + "ipoib = up\n")
    assert run(root)[0] == 0
