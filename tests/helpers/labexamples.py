"""The orders of `examples/pods` in a lab: its site with the flavors they name, and their texts with the lab's
names."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.paths import EXAMPLES
from weft.model.site import AcceleratorCount, Flavor, Site

IMAGES = ("ubuntu-24.04", "ubuntu-20.04-poplar")
KEY_PAIR = "team-key"
REFUSED = {"05-shared": "shared adapters are not possible on fabric ib0"}
"""Example -> reason why a lab with OpenSM refuses it: it needs virtual functions."""
FLAVORS = {
    "h100.8": Flavor(accelerators=AcceleratorCount(type="h100", count=8), nvme=4),
    "h100.4": Flavor(accelerators=AcceleratorCount(type="h100", count=4), cores=8, memory_mib=64 * 1024),
    "poplar": Flavor(),
}
NOVA = {
    "h100.8": (96, 1024 * 1024, {"pci_passthrough:alias": "h100:8"}),
    "h100.4": (8, 64 * 1024, {"pci_passthrough:alias": "h100:4"}),
    "poplar": (4, 4 * 1024, {}),
}
"""Flavor -> (processors, MiB of memory, extra specs) in Nova."""


def orders() -> list[Path]:
    return sorted((EXAMPLES / "pods").glob("*.yaml"))


def on_lab(path: Path) -> str:
    """Text of an order with the lab's cloud and fabric."""
    text = path.read_text()
    for old, new in (("cloud: main\n", "cloud: lab\n"), ("name: ib\n", "name: ib0\n"), ("10TiB", "500GiB")):
        text = text.replace(old, new)
    return text


def with_examples(site: Site) -> Site:
    """The lab's site with the orders' flavors in place of its own with the same accelerators."""
    cloud = site.clouds["lab"]
    flavors = {name: flavor for name, flavor in cloud.flavors.items() if name != "gpu8"} | FLAVORS
    return site.model_copy(update={"clouds": {"lab": cloud.model_copy(update={"flavors": flavors})}})
