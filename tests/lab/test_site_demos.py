"""The hardware lists of `make demo DEMO=site` describe the same hardware as the lab's generated site."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from weft.app.hardwarelists import read_list
from weft.app.siteimport import import_site
from weft.model.errors import InputError
from weft.model.site import Site
from weft.model.specs import FlavorSpec, NetworkSpec, PortSpec, SegmentSpec
from weft.planning.site.graph import site_graph
from weftlab import gpusite, sitedemo
from weftlab.layout import Layout
from weftlab.site import make_site, settings

PROJECT = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def described() -> Site:
    return make_site(ASKED, Layout(Path("/lab"), Path("/cache"), 21000))


ASKED = settings(nodes=4, computes=1, ipus=64, fabric="both")


def imported(folder: Path, rows: str, head: dict[str, object]) -> Site:
    (folder / "list.csv").write_text(rows)
    (folder / "head.yaml").write_text(yaml.safe_dump(head))
    errors: list[InputError] = []
    found = import_site(str(folder / "head.yaml"), read_list(str(folder / "list.csv"), {}, errors), errors)
    assert not errors
    return found.site


def test_gpu_demo_list_gives_the_labs_nodes(described: Site, tmp_path: Path) -> None:
    site = imported(tmp_path, gpusite.hardware_list(described, ASKED), gpusite.head(described, PROJECT))
    assert [(n.name, n.rack) for n in site.nodes] == [
        *(("roce01", "roce-rack01"), ("roce02", "roce-rack01")),
        *(("roce03", "roce-rack02"), ("roce04", "roce-rack02")),
    ]
    own = {n.name: n for n in described.nodes}
    for node in site.nodes:
        theirs = own[node.name]
        assert [h.switch_port for h in node.hcas] == [h.switch_port for h in theirs.hcas]
        assert [(h.mac, h.pci, h.port_guid) for h in node.hcas] == [
            (h.mac, h.pci, h.port_guid) for h in theirs.hcas
        ]
        assert node.accelerators == theirs.accelerators
    specs = [r.spec for r in site_graph(site).resources]
    assert len([s for s in specs if isinstance(s, NetworkSpec)]) == 6
    # Two of each node's ports, one of each switch, and the filer's.
    assert len([s for s in specs if isinstance(s, PortSpec)]) == 4 * 2 + 4 + 1
    (segment,) = (s for s in specs if isinstance(s, SegmentSpec))
    assert (segment.number, len(segment.ports)) == (gpusite.VLAN, 4)
    (flavor,) = (s for s in specs if isinstance(s, FlavorSpec))
    assert flavor.extra_specs["pci_passthrough:alias"] == "a100:8"


def test_ipu_demo_list_gives_the_labs_machines(described: Site, tmp_path: Path) -> None:
    rows = sitedemo.hardware_list(described, sitedemo.bmc_ports(ASKED))
    site = imported(tmp_path, rows, sitedemo.head(described, PROJECT))
    assert [(m.name, m.position, m.rnic_mac, m.bmc_address, m.gw_address) for m in site.ipu_machines] == [
        (m.name, m.position, m.rnic_mac, m.bmc_address, m.gw_address) for m in described.ipu_machines
    ]
    (segment,) = (r.spec for r in site_graph(site).resources if isinstance(r.spec, SegmentSpec))
    assert (segment.number, len(segment.ports)) == (sitedemo.VLAN, 4)
