"""Nova's flavors compared with the site's, where servers share nodes."""

from __future__ import annotations

from typing import Any

import pytest

from weft.model.novaflavor import NovaFlavor, extra_specs, miscounted
from weft.model.site import AcceleratorCount, Flavor

SITE = Flavor(accelerators=AcceleratorCount(type="a100", count=2), cores=8, memory_mib=1024)
ALIAS = {"pci_passthrough:alias": "a100:2"}


def found(
    site: dict[str, Any], specs: dict[str, Any], image: dict[str, Any] | None = None, **nova: int
) -> str | None:
    offered = NovaFlavor(nova.get("vcpus", 8), nova.get("ram", 1024), {**ALIAS, **specs}, image or {})
    return miscounted(SITE.model_copy(update=site), offered)


@pytest.mark.parametrize(
    ("site", "specs"),
    [
        ({}, {}),
        ({}, {"hw:pci_numa_affinity_policy": "required"}),  # without NUMA nodes Nova ignores it
        ({"cores": 0, "memory_mib": 0}, {}),
        ({"numa_nodes": 2}, {"hw:numa_nodes": "2"}),
        ({"numa_nodes": 1}, {"hw:mem_page_size": "large"}),
        ({"dedicated_cores": True}, {"hw:cpu_policy": "dedicated"}),
        ({"dedicated_cores": True, "numa_nodes": 2}, {"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2"}),
        ({"one_numa": True}, {"hw:numa_nodes": "1", "hw:pci_numa_affinity_policy": "required"}),
        ({"one_numa": True}, {"hw:numa_nodes": 1}),
        (
            {"numa_nodes": 1, "pci_affinity": "socket"},
            {"hw:numa_nodes": "1", "hw:pci_numa_affinity_policy": "socket"},
        ),
        ({}, {"hw:cpu_policy": "shared", "hw:cpu_thread_policy": "prefer"}),
    ],
)
def test_matching_flavors_have_no_difference(site: dict[str, Any], specs: dict[str, Any]) -> None:
    """What Nova implies counts as set; `legacy` equals `required` where a device's NUMA node is known."""
    assert found(site, specs) is None


@pytest.mark.parametrize(
    ("site", "specs", "why"),
    [
        ({}, {"pci_passthrough:alias": "a100:1"}, "Nova's has a100:1 (pci_passthrough:alias), the site's 2"),
        ({}, {"pci_passthrough:alias": ""}, "Nova's has no PCI devices"),
        (
            {},
            {"hw:numa_nodes": "2"},
            "Nova's has 2 NUMA nodes (hw:numa_nodes, or what implies one), the site's no NUMA",
        ),
        ({"numa_nodes": 2}, {"hw:numa_nodes": "1"}, "Nova's has 1 NUMA node "),
        ({"numa_nodes": 2}, {}, "Nova's has no NUMA nodes"),
        ({"one_numa": True}, {"hw:pci_numa_affinity_policy": "required"}, "Nova's has no NUMA nodes"),
        ({}, {"hw:mem_page_size": "1GB"}, "Nova's has 1 NUMA node"),
        ({}, {"hw:numa_nodes": "two"}, "Nova's has 0 NUMA nodes"),
        ({}, {"hw:cpu_policy": "dedicated"}, "hw:cpu_policy dedicated, the site's no dedicated_cores"),
        ({"dedicated_cores": True}, {"hw:numa_nodes": "1"}, "no hw:cpu_policy, the site's dedicated_cores"),
        ({"dedicated_cores": True}, {"hw:cpu_policy": "mixed"}, "hw:cpu_policy mixed"),
        (
            {"dedicated_cores": True},
            {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"},
            "hw:cpu_thread_policy isolate",
        ),
        (
            {"dedicated_cores": True},
            {"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"},
            "hw:emulator_threads_policy isolate",
        ),
        ({"numa_nodes": 2}, {"hw:numa_nodes": "2", "hw:numa_cpus.0": "0,1"}, "Nova's has hw:numa_cpus.0"),
        (
            {"numa_nodes": 1},
            {"hw:numa_nodes": "1", "hw:pci_numa_affinity_policy": "preferred"},
            "hw:pci_numa_affinity_policy preferred, the site's pci_affinity legacy",
        ),
    ],
)
def test_flavor_that_differs_from_nova_is_reported(
    site: dict[str, Any], specs: dict[str, Any], why: str
) -> None:
    """One sentence with what Nova's flavor has and what the site says."""
    assert why in (found(site, specs) or "")


def test_image_properties_count_like_extra_specs() -> None:
    """The image's requirements of NUMA nodes and CPUs change what a server uses, like the flavor's."""
    assert "Nova's has 2 NUMA nodes" in (found({}, {}, {"hw_numa_nodes": 2}) or "")
    assert "hw:cpu_policy dedicated" in (found({}, {}, {"hw_cpu_policy": "dedicated"}) or "")
    assert "hw:numa_mem.1" in (found({}, {}, {"hw_numa_mem.1": "512"}) or "")
    assert found({}, {}, {"hw_architecture": "x86_64", "min_ram": 0}) is None


def test_cores_and_memory_are_compared_where_they_are_counted() -> None:
    """Zero in the site means not counted, and so not compared."""
    assert "9 vcpus" in (found({}, {}, vcpus=9) or "")
    assert "2048 MiB" in (found({}, {}, ram=2048) or "")
    assert found({"cores": 0, "memory_mib": 0}, {}, vcpus=99, ram=99) is None


@pytest.mark.parametrize("accelerators", [None, AcceleratorCount(type="a100", count=4)])
@pytest.mark.parametrize("affinity", ["required", "legacy", "socket", "preferred"])
@pytest.mark.parametrize("dedicated", [False, True])
@pytest.mark.parametrize(
    ("numa_nodes", "one_numa"), [(None, False), (None, True), (1, False), (2, False), (16, False)]
)
def test_derived_extra_specs_match_nova(
    accelerators: AcceleratorCount | None,
    affinity: Any,
    dedicated: bool,
    numa_nodes: int | None,
    one_numa: bool,
) -> None:
    site = SITE.model_copy(
        update={
            "accelerators": accelerators,
            "pci_affinity": affinity,
            "dedicated_cores": dedicated,
            "numa_nodes": numa_nodes,
            "one_numa": one_numa,
        }
    )
    specs = extra_specs(site)
    assert miscounted(site, NovaFlavor(site.cores, site.memory_mib, specs, {})) is None
    for key in specs:
        if key == "hw:pci_numa_affinity_policy" and site.affinity in ("required", "legacy"):
            continue  # the same for devices whose NUMA node is known
        if key == "hw:numa_nodes" and specs[key] == "1" and dedicated:
            continue  # dedicated cores imply one NUMA node
        without = {k: v for k, v in specs.items() if k != key}
        assert miscounted(site, NovaFlavor(site.cores, site.memory_mib, without, {})), (
            f"{key} makes no difference"
        )
