"""Whether the site counts a flavor as Nova does, where servers share nodes.

The keys are those of Nova's extra specs and, with `hw_` for `hw:`, of images; what follows from them is as in
`nova.virt.hardware` (`numa_get_constraints`) and `nova.pci.stats`: a server without NUMA nodes has no PCI affinity
either, whatever the policy says. No API shows the `numa_policy` of a PCI alias in nova.conf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from weft.model.site import Flavor


@dataclass(frozen=True, slots=True)
class NovaFlavor:
    """A flavor in Nova, with what the image adds to it.

    Attributes:
        vcpus, ram: MiB.
        extra_specs: of the flavor; `image`: the image as Glance shows it.
    """

    vcpus: int
    ram: int
    extra_specs: Mapping[str, Any]
    image: Mapping[str, Any]

    @property
    def alias(self) -> str:
        """The extra spec `pci_passthrough:alias`; empty: no PCI devices."""
        return str(self.extra_specs.get("pci_passthrough:alias") or "")

    def hw(self, key: str) -> str:
        """An extra spec `hw:…`, or that of the image; empty: neither has it."""
        found = self.extra_specs.get(f"hw:{key}") or self.image.get(f"hw_{key}") or ""
        return str(found).strip().lower()

    @property
    def numa(self) -> int | None:
        """NUMA nodes of a server; None: it has no NUMA topology. A policy for memory pages or CPUs implies one."""
        if nodes := self.hw("numa_nodes"):
            return int(nodes) if nodes.isdecimal() else 0
        implied = (
            self.hw("cpu_policy") in ("dedicated", "mixed") or self.hw("mem_page_size") or self.hw("pmem")
        )
        return 1 if implied else None

    @property
    def uneven(self) -> str:
        """A key that spreads cores or memory over NUMA nodes by hand."""
        keys = chain(self.extra_specs, (k.replace("hw_", "hw:", 1) for k in self.image))
        return min((k for k in keys if k.startswith(("hw:numa_cpus.", "hw:numa_mem."))), default="")


def accelerators_of(alias: str) -> int:
    """How many PCI devices `pci_passthrough:alias` requests: `h100:8` and `a:4,b:4` are 8."""
    counts = [part.rpartition(":")[2] for part in alias.split(",") if part]
    return sum(int(c) for c in counts if c.isdecimal())


def extra_specs(counted: Flavor) -> dict[str, str]:
    """The extra specs of a Nova flavor for virtual machines that uses exactly what the site's flavor says.

    `miscounted` finds nothing wrong with it. Devices are requested by the alias that is named like their type
    (`weft site export`). What the site doesn't say, such as the size of memory pages, is left to the operator.
    """
    specs: dict[str, str] = {}
    if counted.accelerators:
        specs["pci_passthrough:alias"] = f"{counted.accelerators.type}:{counted.accelerators.count}"
    if counted.dedicated_cores:
        specs["hw:cpu_policy"] = "dedicated"
    if counted.numa is not None:
        specs["hw:numa_nodes"] = str(counted.numa)
        specs["hw:pci_numa_affinity_policy"] = counted.affinity
    return specs


def miscounted(counted: Flavor, nova: NovaFlavor) -> str | None:
    """Where the site's flavor differs from Nova's in what a server uses of a shared node; None: nowhere.

    Args:
        counted: the flavor in the site; zero cores or memory means not counted.
    """
    return next(chain(_amounts(counted, nova), _cpus(counted, nova), _numa(counted, nova)), None)


def _amounts(counted: Flavor, nova: NovaFlavor) -> Iterator[str]:
    devices = counted.accelerators.count if counted.accelerators else 0
    if accelerators_of(nova.alias) != devices:
        has = nova.alias or "no PCI devices"
        yield f"Nova's has {has} (pci_passthrough:alias), the site's {devices} accelerators"
    if counted.cores and counted.cores != nova.vcpus:
        yield f"Nova's has {nova.vcpus} vcpus, the site's {counted.cores} cores"
    if counted.memory_mib and counted.memory_mib != nova.ram:
        yield f"Nova's has {nova.ram} MiB of RAM, the site's {counted.memory_mib}"


def _cpus(counted: Flavor, nova: NovaFlavor) -> Iterator[str]:
    policy = nova.hw("cpu_policy")
    if policy == "mixed":
        yield "Nova's has hw:cpu_policy mixed, and weft counts all cores of a server as dedicated, or none"
    if (policy == "dedicated") != counted.dedicated_cores:
        site = "dedicated_cores" if counted.dedicated_cores else "no dedicated_cores"
        yield f"Nova's has {f'hw:cpu_policy {policy}' if policy else 'no hw:cpu_policy'}, the site's {site}"
    for key, one in (
        ("cpu_thread_policy", ("isolate", "require")),
        ("emulator_threads_policy", ("isolate",)),
    ):
        if (value := nova.hw(key)) in one:
            yield f"Nova's has hw:{key} {value}, which takes other cores of a host than a server's vcpus"


def _numa(counted: Flavor, nova: NovaFlavor) -> Iterator[str]:
    if nova.uneven:
        yield f"Nova's has {nova.uneven}, and weft counts servers that are spread evenly over their NUMA nodes"
    if nova.numa != counted.numa:
        yield (
            f"Nova's has {_nodes(nova.numa)} (hw:numa_nodes, or what implies one), the site's "
            f"{_nodes(counted.numa)} (numa_nodes, or what implies one)"
        )
    policy = nova.hw("pci_numa_affinity_policy") or "legacy"
    if counted.numa is not None and _strict(policy) != _strict(counted.affinity):
        yield f"Nova's has hw:pci_numa_affinity_policy {policy}, the site's pci_affinity {counted.affinity}"


def _nodes(count: int | None) -> str:
    if count is None:
        return "no NUMA nodes"
    return "1 NUMA node" if count == 1 else f"{count} NUMA nodes"


def _strict(policy: str) -> str:
    """`legacy` is `required` for devices whose NUMA node is known, as a site's are."""
    return "required" if policy == "legacy" else policy
