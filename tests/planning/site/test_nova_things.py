"""Flavors and aggregates that weft makes, and images whose properties it sets: the graph, and mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.ownports import ethernet_lab
from weft.model.site import Flavor, ImageProperties, Site
from weft.model.specs import AggregateSpec, FlavorSpec, ImagePropertiesSpec
from weft.planning.site.graph import site_graph
from weft.planning.site.novathings import check_nova_things

GPU: dict[str, Any] = {
    "accelerators": {"type": "a100", "count": 2},
    "cores": 16,
    "memory_mib": 65536,
    "numa_nodes": 1,
    "dedicated_cores": True,
    "pci_affinity": "required",
}


def site(flavor: dict[str, Any], properties: dict[str, str] | None = None) -> Site:
    whole = ethernet_lab()
    images = {"gpu": ImageProperties(properties=properties)} if properties else {}
    update = {"flavors": {"gpu2": Flavor.model_validate(flavor)}, "images": images}
    return whole.model_copy(update={"clouds": {"lab": whole.clouds["lab"].model_copy(update=update)}})


def test_extra_specs_combine_derived_and_site_values() -> None:
    nova = {"extra_specs": {"hw:mem_page_size": "large", "hw:numa_nodes": "1"}, "disk_gib": 20}
    whole = site({**GPU, "nova": nova}, {"hw_vif_multiqueue_enabled": "true"})
    assert list(check_nova_things(whole)) == []
    graph = site_graph(whole).by_key()
    assert graph["flavor/lab/gpu2"].spec == FlavorSpec(
        vcpus=16,
        ram=65536,
        disk=20,
        extra_specs={
            "hw:cpu_policy": "dedicated",
            "hw:mem_page_size": "large",
            "hw:numa_nodes": "1",
            "hw:pci_numa_affinity_policy": "required",
            "pci_passthrough:alias": "a100:2",
        },
    )
    wanted = ImagePropertiesSpec(properties={"hw_vif_multiqueue_enabled": "true"})
    assert graph["image_properties/lab/gpu"].spec == wanted


def test_flavor_without_nova_section_is_left_to_operators() -> None:
    assert not [k for k in site_graph(site(GPU)).by_key() if k.startswith("flavor/")]


@pytest.mark.parametrize(
    ("change", "path", "said"),
    [
        ({"cores": 0}, "nova.vcpus", "required without cores"),
        ({"memory_mib": 0}, "nova.ram_mib", "required without memory_mib"),
        ({"nova": {"vcpus": 8}}, "nova.extra_specs", "Nova's has 8 vcpus, the site's 16 cores"),
        ({"nova": {"extra_specs": {"hw:numa_nodes": "4"}}}, "extra_specs.hw:numa_nodes", "1, which follows"),
        ({"nova": {"extra_specs": {"weft:made": "no"}}}, "extra_specs.weft:made", "none of weft's own"),
        (
            {"nova": {"extra_specs": {"hw:cpu_thread_policy": "isolate"}}},
            "nova.extra_specs",
            "takes other cores of a host",
        ),
    ],
)
def test_flavor_mistakes_are_reported(change: dict[str, Any], path: str, said: str) -> None:
    found = [
        (".".join(map(str, where)), allowed)
        for where, _, allowed in check_nova_things(site({**GPU, "nova": {}, **change}))
    ]
    assert any(where.endswith(path) and said in allowed for where, allowed in found), found


def test_property_that_nova_ignores_is_refused() -> None:
    [(path, value, allowed)] = check_nova_things(site(GPU, {"colour": "red"}))
    assert path[-1] == "colour" and value == "red" and "a property that Nova reads" in allowed


def keeping(how: str, **flavors: dict[str, Any]) -> Site:
    whole = ethernet_lab()
    described = {n: Flavor.model_validate(f) for n, f in flavors.items()}
    cloud = whole.clouds["lab"].model_copy(update={"hosts_kept_free": how, "flavors": described})
    return whole.model_copy(update={"clouds": {"lab": cloud}})


def test_aggregate_has_the_hosts_and_flavors_of_a_machine_type() -> None:
    """Without bare-metal flavors and those that request more or other accelerators than the machines have."""
    more = {"accelerators": {"type": "a100", "count": 64}}
    whole = keeping("aggregate", gpu2=GPU, cpu={}, metal={"bare_metal": True}, more=more)
    graph = site_graph(whole).by_key()
    aggregates = {k: r for k, r in graph.items() if k.startswith("aggregate/")}
    nodes = [n for n in whole.nodes if n.role == "compute" and n.machine is None]
    [(key, made)] = aggregates.items()
    assert isinstance(made.spec, AggregateSpec)
    assert key == f"aggregate/lab/a100x{len(nodes[0].accelerators)}" and made.name == key.replace(
        "aggregate/lab/", "lab-"
    )
    assert made.spec.instance_type == "cpu,gpu2"
    assert made.spec.hosts == tuple(sorted(n.nova_host for n in nodes))


def test_aggregate_is_omitted_if_unneeded() -> None:
    for whole in (keeping("otherwise", gpu2=GPU), keeping("aggregate", metal={"bare_metal": True})):
        assert not [k for k in site_graph(whole).by_key() if k.startswith("aggregate/")]


def test_flavors_whose_names_are_too_long_for_nova_are_named() -> None:
    names = {f"{'x' * 60}{n}": GPU for n in range(5)}
    [(path, value, said)] = check_nova_things(keeping("aggregate", **names))
    assert path == ("clouds", "lab", "flavors") and str(value).startswith("309 characters")
    assert said == "at most 255 characters with commas, or hosts_kept_free: otherwise"
    assert list(check_nova_things(keeping("otherwise", **names))) == []
