"""Every code: what is checked, when it fails without an expected value, what that costs, and how to mend it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Entry(NamedTuple):
    """One code, in words."""

    what: str
    reads: str
    alone: str
    """When it fails without an expected value; empty: never."""
    member: str
    """Members of the expected values that it is compared with, by commas."""
    cost: str
    mend: str


CODES: Mapping[str, Entry] = {
    "GPU_COUNT": Entry(
        "number of NVIDIA GPUs on PCI",
        "/sys/bus/pci/devices",
        "",
        "gpus",
        "Programs that want all GPUs don't start.",
        "Power off completely and on again; if the GPU is still missing, reseat or replace it.",
    ),
    "HCA_COUNT": Entry(
        "number of RDMA adapters on PCI",
        "/sys/bus/pci/devices",
        "",
        "hcas",
        "A rail is missing: collective operations run at the rate of the rest, or not at all.",
        (
            "Check that the driver is loaded; power off completely and on again; reseat or replace the "
            "adapter."
        ),
    ),
    "NUMA_COUNT": Entry(
        "number of NUMA nodes",
        "/sys/devices/system/node",
        "",
        "numa_nodes",
        "Processes run far from their GPU and adapter.",
        "On hosts the BIOS settings of NUMA (NPS, SNC); in guests the flavor's `hw:numa_nodes`.",
    ),
    "PCI_DEVICE": Entry(
        "GPUs and adapters answer on PCI",
        "`config` of each device in sysfs",
        "the configuration space reads as 0xff",
        "",
        "The device is lost until a reset; programs that use it hang.",
        "Reset or power-cycle the machine; if it happens again, replace the device or its riser.",
    ),
    "PCI_LINK": Entry(
        "speed and lanes of the PCIe link of GPUs and adapters",
        "`current_link_*` and `max_link_*` in sysfs, of the device and of the port above it",
        (
            "less than the device and the port above it can do. A GPU's lower speed is `unknown`, because "
            "idle GPUs lower it"
        ),
        "gpu_link, hca_link",
        "Transfers run at the fraction of the rate that is left, and the whole pod with them.",
        (
            "Reseat the device and its riser or cable; look for PCIe errors (AER) in the kernel log; check "
            "the BIOS setting of the slot."
        ),
    ),
    "PCI_READ_REQUEST": Entry(
        "MaxReadReq of adapters",
        "`config` of each adapter in sysfs",
        "",
        "max_read_request",
        "RDMA reads and sends of large messages below the link's rate.",
        "`setpci -s ADDRESS CAP_EXP+8.w` (bits 14 to 12: 5 is 4096) at each boot, or the BIOS setting.",
    ),
    "PCI_PAYLOAD": Entry(
        "MaxPayload of GPUs and adapters",
        "`config` of each device and of the port above it in sysfs",
        "differs from the port above it",
        "max_payload",
        "Malformed packets, which the kernel logs as PCIe errors; a lost device at worst.",
        "Boot with `pci=pcie_bus_safe`, or set MaxPayload in the BIOS.",
    ),
    "PCI_ATS": Entry(
        "adapters translate addresses themselves (ATS)",
        "`config` of each adapter in sysfs",
        "",
        "ats",
        (
            "In guests, peer-to-peer traffic between GPU and adapter goes through the root complex, at half "
            "the rate or less; where it isn't needed, it costs latency."
        ),
        (
            "`mstconfig -d ADDRESS set ATS_ENABLED=1` (or 0), then a reset; on hosts `intel_iommu=on` or "
            "`amd_iommu=on` too."
        ),
    ),
    "PCI_ACS": Entry(
        "bridges above GPUs and adapters redirect peer-to-peer traffic (ACS)",
        "`config` of the bridges in sysfs",
        "redirects, and no IOMMU is on",
        "acs",
        (
            "Redirected traffic goes through the root complex, at half the rate or less. Without redirection,"
            " a hypervisor's guests can reach each other's devices."
        ),
        (
            "On bare metal: disable ACS in the BIOS, or `setpci -s BRIDGE ECAP_ACS+6.w=0` at each boot. On "
            "hypervisors: enable it."
        ),
    ),
    "PCI_DISTANCE": Entry(
        (
            "distance of each GPU to its nearest adapter: PIX (one PCIe switch), PXB (several), PHB (the host"
            " bridge), NODE, SYS"
        ),
        "/sys/bus/pci/devices",
        "",
        "distance",
        "GPUDirect RDMA at a fraction of the rate, or not used by NCCL at all.",
        (
            "Move the adapter to a slot at the GPU's switch; in guests give the PCI topology (a virtual "
            "switch for each pair)."
        ),
    ),
    "NUMA_NODE": Entry(
        "the kernel knows the NUMA node of GPUs and adapters",
        "`numa_node` in sysfs",
        "unknown, and there are several nodes",
        "",
        "Processes and buffers are placed on the wrong node.",
        "Update the BIOS (ACPI `_PXM`); in guests use a PCI expander bridge for each node.",
    ),
    "IOMMU": Entry(
        "mode of the IOMMU for GPUs and adapters: off, passthrough, translated",
        "/sys/kernel/iommu_groups",
        "",
        "iommu",
        "Translated: GPUDirect is slow or fails. Off: a hypervisor can't give devices to guests.",
        "Kernel arguments `iommu=pt`, `intel_iommu=on`; or `iommu=off` on bare metal.",
    ),
    "MODULE": Entry(
        "kernel modules are loaded",
        "/sys/module",
        "",
        "modules",
        "What needs the module fails, or falls back to something slower.",
        "`modprobe NAME`, and its name in /etc/modules-load.d.",
    ),
    "MODULE_PARAMETER": Entry(
        "parameters of kernel modules",
        "/sys/module/NAME/parameters, /proc/driver/nvidia/params",
        "",
        "parameters",
        "Depends on the parameter.",
        "`options NAME PARAMETER=VALUE` in /etc/modprobe.d, a new initramfs, a reboot.",
    ),
    "KERNEL_ARGUMENT": Entry(
        "words of the kernel's command line",
        "/proc/cmdline",
        "",
        "kernel_arguments",
        "Depends on the argument.",
        "The boot loader's configuration, a reboot.",
    ),
    "GPUDIRECT": Entry(
        "adapters can reach GPU memory: by nvidia-peermem or dma-buf",
        "/sys/module, /proc/driver/nvidia/version",
        "neither is possible, or nv_peer_mem and nvidia_peermem are both loaded",
        "",
        "All traffic goes through host memory, at a third of the rate or less.",
        "`modprobe nvidia_peermem` (load the RDMA drivers first), or the driver's open kernel modules.",
    ),
    "FIRMWARE_SETTING": Entry(
        "settings of adapters' firmware, such as MAX_ACC_OUT_READ",
        "`mstconfig -d ADDRESS -e query`, or mlxconfig",
        "",
        "firmware",
        "Depends on the setting: too small a MAX_ACC_OUT_READ limits reads from GPU memory.",
        "`mstconfig -d ADDRESS set NAME=VALUE`, then `mstfwreset -d ADDRESS reset` or a power cycle.",
    ),
    "FIRMWARE_PENDING": Entry(
        "no change of a firmware setting waits for a reset; checked if settings are expected",
        "`mstconfig -d ADDRESS -e query`, or mlxconfig",
        "a setting's current value differs from the next boot's",
        "",
        "The adapter doesn't have yet what was set; it changes at the next reset.",
        "`mstfwreset -d ADDRESS reset`, or a power cycle.",
    ),
    "GPU_ATTACHED": Entry(
        "the driver has every GPU that is on PCI",
        "`nvidia-smi -q -x`",
        "a GPU is missing",
        "",
        "Programs don't see the GPU.",
        "The kernel log says why; reset the GPU or power-cycle the machine.",
    ),
    "GPU_DRIVER": Entry(
        "version of NVIDIA's driver",
        "`nvidia-smi -q -x`",
        "",
        "gpu_driver",
        "Programs that need a newer one don't start; nodes of a pod differ.",
        "Install the driver; reboot.",
    ),
    "GPU_STATE": Entry(
        "no GPU is lost or needs a recovery action",
        "`nvidia-smi -q -x`",
        "an action is due, or the driver lost the GPU",
        "",
        "The next program on this GPU fails, or all of them.",
        "Do what the action says: `nvidia-smi --gpu-reset`, a reboot, or drain first.",
    ),
    "GPU_ECC": Entry(
        "ECC mode, uncorrectable memory errors since the driver was loaded, repairs that are due",
        "`nvidia-smi -q -x`",
        "an uncorrectable error, a threshold exceeded, a repair due",
        "ecc",
        "Programs end with an error, or compute nonsense without ECC.",
        "Reset the GPU; replace it if it happens again or the threshold is exceeded.",
    ),
    "GPU_ROWS": Entry(
        "remapped rows and retired pages of GPU memory",
        "`nvidia-smi -q -x`",
        "a row couldn't be remapped, or a reset is needed to do so",
        "",
        "Pending: the bad row is still used. Failed: no spare row is left.",
        "Pending: reset the GPU. Failed: replace it.",
    ),
    "GPU_CLOCKS": Entry(
        "GPUs aren't slowed down by heat or power supply",
        "`nvidia-smi -q -x`",
        "hardware or thermal slowdown, power brake",
        "",
        "The pod runs at the rate of its slowest GPU.",
        "Check fans, inlet temperature and power supplies.",
    ),
    "GPU_SETTING": Entry(
        "persistence mode",
        "`nvidia-smi -q -x`",
        "",
        "persistence",
        "Each first use of a GPU takes seconds, and settings are lost in between.",
        "`systemctl enable --now nvidia-persistenced`.",
    ),
    "GPU_PCIE_REPLAY": Entry(
        "replays of GPUs' PCIe links",
        "`nvidia-smi -q -x`",
        "the counter overflowed",
        "pcie_replays",
        "Replays cost bandwidth, and announce a failing link.",
        "Reseat the GPU and its riser or cable.",
    ),
    "GPU_FABRIC": Entry(
        "GPUs are registered with the NVLink fabric, healthy there, and in the right NVLink partition",
        "`nvidia-smi -q -x`",
        "not registered, or unhealthy",
        "fabric_clique",
        "No NVLink between GPUs, or at reduced rate; CUDA doesn't start at all on HGX boards.",
        "Check nvidia-fabricmanager (HGX) or the NVLink controller (NVL72), and their logs.",
    ),
    "XID": Entry(
        "errors of GPUs (Xid) and NVSwitches (SXid) since boot",
        "`journalctl -k -b`, or `dmesg`",
        "a code that means a fault of hardware or firmware; codes that aren't known are `unknown`",
        "",
        "The GPU may fail again under the next tenant.",
        "NVIDIA's catalogue of Xid codes says the action; the log is empty of it after the next boot.",
    ),
    "PORT_STATE": Entry(
        "RDMA ports are active",
        "/sys/class/infiniband, or `ibstat`",
        "a port isn't active; name the ports in `ports` if others have no cable",
        "ports",
        "A rail is missing.",
        (
            "`init`: no subnet manager. `polling`: no signal; check the cable and the switch's port. "
            "`disabled`: enable it."
        ),
    ),
    "PORT_RATE": Entry(
        "rate, width and link layer of RDMA ports",
        "/sys/class/infiniband, or `ibstat`",
        "",
        "rate, width, link_layer",
        "The pod runs at the rate of its slowest link.",
        (
            "Clean or replace the cable; compare with the switch's port; LINK_TYPE_P1 of the firmware for the"
            " link layer."
        ),
    ),
    "PORT_GID": Entry(
        (
            "GIDs of RDMA ports: InfiniBand's at index 0; of Ethernet ports the RoCE v2 GID with an IPv4 "
            "address"
        ),
        "`gids` and `gid_attrs` in /sys/class/infiniband",
        "none",
        "gid_index",
        "Connections fail, or use RoCE v1, which switches don't route.",
        "Give the interface its address. Set NCCL_IB_GID_INDEX to the index that the result says.",
    ),
    "PORT_PKEY": Entry(
        "the pod's P_Keys in each InfiniBand port's table, and their index",
        "`pkeys` in /sys/class/infiniband, /etc/nccl.conf",
        "a key isn't at the same index in all ports, or /etc/nccl.conf names another index",
        "pkeys",
        "Programs that use the wrong index set up their queue pairs in another partition, and hang.",
        (
            "Set NCCL_IB_PKEY, `--pkey_index` (perftest) to the index that the result says. Missing: the "
            "subnet manager hasn't made this port a member."
        ),
    ),
    "CLOCK": Entry(
        "the clock is synchronized",
        "`chronyc -n tracking`, or `timedatectl show`",
        "not synchronized, or more than 1 s off by chrony",
        "clock_offset",
        "Certificates and tokens are refused; logs of nodes can't be compared.",
        "Start chrony, and check that it reaches its servers.",
    ),
}
