"""The lab's machines: rows of weft's site, from which Ironic's nodes and the emulated BMCs are made."""

from __future__ import annotations

from collections.abc import Callable
from uuid import NAMESPACE_DNS, uuid5

from weft.model.site import Accelerator, AcceleratorCount, Flavor, Hca, Node, Site
from weftlab.layout import LabError

GPU, GPUS = "h200", 8
FLAVOR = "metal8"
RESOURCE_CLASS = "baremetal-h200"
PHYSICAL_NETWORK = "physnet1"
HOST = "metal1"
"""Name of the nova-compute that has all machines."""
MOST = 16
GUID = 0x0002C90300500000
BIOS_SETTINGS = {"ProcTurboMode": "Enabled", "SecureBootStatus": "Enabled", "SriovGlobalEnable": "Enabled"}
FIRMWARE = {"bios": ("2.14.1",)}
"""BIOS settings that the site demands; the machines of `programs/bmc.py` have them."""


def check(count: int, fabric: str) -> None:
    """Raise `LabError` for a number of machines, or a fabric, that isn't possible."""
    if not 0 <= count <= MOST:
        raise LabError(f"--metal {count} is not allowed: 0 to {MOST}")
    if count and fabric == "ethernet":
        raise LabError("--metal is not allowed with --fabric ethernet: the machines are on InfiniBand")


def flavor() -> Flavor:
    """Flavor of whole machines with the lab's accelerators."""
    return Flavor(accelerators=AcceleratorCount(type=GPU, count=GPUS), bare_metal=True)


def machine_id(name: str) -> str:
    """Id of the node in Ironic, the same in every lab."""
    return str(uuid5(NAMESPACE_DNS, f"{name}.metal.weft-lab"))


def nodes(count: int, racks: int, cloud: str, hca: Callable[[str, int, int, int], Hca]) -> list[Node]:
    """Rows of weft's site. Args: hca: makes an adapter from its name, node GUID, bus and NUMA node."""
    return [
        Node(
            name=f"bm{i + 1:02d}",
            rack=f"rack{i % racks + 1:02d}",
            cloud=cloud,
            machine=machine_id(f"bm{i + 1:02d}"),
            hcas=(hca("mlx5_0", GUID + i * 0x10, 0x40, 0),),
            accelerators=tuple(
                Accelerator(type=GPU, pci=f"0000:{0x10 + g:02x}:00.0", numa=g // 4, switch=f"plx{g // 2}")
                for g in range(GPUS)
            ),
        )
        for i in range(count)
    ]


def novas_machines(site: Site) -> bool:
    """Whether the site's machines are deployed by Nova."""
    return any(site.clouds[str(n.cloud)].machines_by == "nova" for n in machines(site))


def machines(site: Site) -> tuple[Node, ...]:
    """Nodes with a machine in Ironic."""
    return tuple(n for n in site.nodes if n.machine is not None)


def mac(index: int) -> str:
    """MAC address of the management adapter of the machine with this place in the site."""
    return f"02:00:00:00:b0:{index + 1:02x}"
