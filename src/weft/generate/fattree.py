"""A fat-tree design as files: a site file with its tables, of which one is the wiring list, and a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from weft.generate.fattreepicture import picture
from weft.planning.site.fattree import FatTree, adapter, server

_SITE = """\
# {summary}
# Made by `weft site design`. GUIDs and PCI addresses are placeholders: put in the real ones, or wire the site and
# run `weft site check` against what ibnetdiscover says. Addresses, networks and ranges are examples.
name: "{name}"
clouds:
  cloud1:
    management:
      physical_network: physnet1
      segments: {{first: 1001, last: 2000}}
      addresses: 10.100.0.0/14
    rdma_addresses: 10.128.0.0/14
fabrics:
  "{fabric}":
    type: infiniband
    physical_network: "{fabric}"
    segments: {{first: 2, last: 126}}
    manager:
      driver: opensm
switches:
  csv: switches.csv
links:
  csv: links.csv
nodes:
  csv: nodes.csv
hcas:
  csv: hcas.csv
"""
_GUID = 0x0200_0000_0000_0000
"""Locally administered, so that a placeholder is never somebody's GUID."""


def site_files(tree: FatTree, name: str, fabric: str) -> dict[str, str]:
    """File name -> text: `site.yaml` and its tables, of which `links.csv` is the wiring list, and `site.svg`."""
    return {
        "site.yaml": _SITE.format(summary=tree.summary(), name=name, fabric=fabric),
        "switches.csv": _csv(
            ("name", "fabric", "level", "ports", "block"),
            ((s.name, s.fabric, s.level, s.ports, s.block or "") for s in tree.switches),
        ),
        "links.csv": _csv(
            ("a", "a_port", "b", "b_port"), ((x.a, x.a_port, x.b, x.b_port) for x in tree.links)
        ),
        "nodes.csv": _csv(("name", "cloud"), ((server(i), "cloud1") for i in range(tree.servers))),
        "hcas.csv": _csv(("node", "name", "fabric", "guid", "port_guid", "pci"), _hcas(tree, fabric)),
        "site.svg": picture(tree),
    }


def _hcas(tree: FatTree, fabric: str) -> Iterable[Sequence[object]]:
    for i in range(tree.servers):
        for r in range(tree.rails):
            guid = _GUID + 2 * (i * tree.rails + r) + 2
            yield (
                server(i),
                adapter(r),
                fabric,
                f"0x{guid:016x}",
                f"0x{guid + 1:016x}",
                f"0000:{0x10 + r:02x}:00.0",
            )


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()
