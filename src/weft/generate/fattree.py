"""A fat-tree design as files: a site file with its tables, the wiring list, a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from weft.planning.fattree import FatTree, adapter, server

_SITE = """\
# {summary}
# Made by `weft site design`. GUIDs and PCI addresses are placeholders: put in the real ones, or wire the site and
# run `weft site check` against what ibnetdiscover says. Addresses, networks and ranges are examples.
name: {name}
clouds:
  cloud1:
    management:
      physical_network: physnet1
      segments: {{first: 1001, last: 2000}}
      addresses: 10.100.0.0/14
    rdma_addresses: 10.128.0.0/14
fabrics:
  {fabric}:
    type: infiniband
    physical_network: {fabric}
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
            ("name", "fabric", "level", "ports", "pod"),
            ((s.name, s.fabric, s.level, s.ports, s.pod or "") for s in tree.switches),
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


WIDTH, HEIGHT, MARGIN = 1600, 640, 20
MOST_LINES = 4000
_COLOUR = {"core": "#7a4fbf", "spine": "#2f6fb7", "leaf": "#2a8f5c"}


def picture(tree: FatTree) -> str:
    """The tree as SVG: cores above spines above leaves, a line for each pair of switches, its width the cables."""
    rows = {level: [s.name for s in tree.switches if s.level == level] for level in ("core", "spine", "leaf")}
    levels = [level for level, names in rows.items() if names]
    place: dict[str, tuple[float, float]] = {}
    for depth, level in enumerate(levels):
        names = rows[level]
        for i, name in enumerate(names):
            x = MARGIN + (WIDTH - 2 * MARGIN) * (i + 0.5) / len(names)
            place[name] = (x, 70 + depth * (HEIGHT - 170) / max(1, len(levels) - 1))
    cables: dict[tuple[str, str], int] = {}
    servers: dict[str, int] = {}
    for link in tree.links:
        if link.a in place:
            cables[link.a, link.b] = cables.get((link.a, link.b), 0) + 1
        else:
            servers[link.b] = servers.get(link.b, 0) + 1
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
            f"<title>{tree.summary()}</title>",
            f'<text x="{MARGIN}" y="30" font-size="18">{tree.summary()}</text>',
            *_lines(cables, place),
            *_boxes(rows, place, servers),
            "</svg>",
            "",
        ]
    )


def _lines(cables: Mapping[tuple[str, str], int], place: Mapping[str, tuple[float, float]]) -> list[str]:
    """At most MOST_LINES of them, evenly chosen: more can't be told apart anyway."""
    step = -(-len(cables) // MOST_LINES)
    return [
        f'<line x1="{place[a][0]:.1f}" y1="{place[a][1]:.1f}" x2="{place[b][0]:.1f}" y2="{place[b][1]:.1f}" '
        f'stroke="#888" stroke-opacity="0.35" stroke-width="{min(4.0, 0.4 + 0.2 * n):.1f}"/>'
        for (a, b), n in list(cables.items())[:: max(1, step)]
    ]


def _boxes(
    rows: Mapping[str, Sequence[str]], place: Mapping[str, tuple[float, float]], servers: Mapping[str, int]
) -> list[str]:
    found: list[str] = []
    for level, names in rows.items():
        width = min(60.0, 0.8 * (WIDTH - 2 * MARGIN) / max(1, len(names)))
        for name in names:
            x, y = place[name]
            below = f": {servers[name]} servers" if name in servers else ""
            found.append(
                f'<rect x="{x - width / 2:.1f}" y="{y - 10:.1f}" width="{width:.1f}" height="20" rx="2" '
                f'fill="{_COLOUR[level]}"><title>{name}{below}</title></rect>'
            )
            if width >= 30:
                found.append(
                    f'<text x="{x:.1f}" y="{y + 4:.1f}" font-size="9" fill="#fff" text-anchor="middle">{name}</text>'
                )
                if below:
                    found.append(
                        f'<text x="{x:.1f}" y="{y + 30:.1f}" font-size="11" text-anchor="middle">{servers[name]}</text>'
                    )
    return found
