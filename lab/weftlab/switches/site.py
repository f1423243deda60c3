"""A planned fabric as the site that weft reads: each host is a node with one adapter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from weft.model.site import Site
from weftlab.layout import Layout
from weftlab.site import FABRIC, make_site, settings
from weftlab.switches.front import PARKING
from weftlab.switches.plan import FabricPlan

VLANS = {"first": 0x101, "last": 0x17E}


def ethernet_site(
    plan: FabricPlan, urls: Mapping[str, str], ca: Path | None, credentials: Path | None
) -> Site:
    """The fabric as weft's site. Args: urls: where each switch is managed."""
    document = make_site(settings(nodes=2), Layout(Path("/nowhere"), Path("/nowhere"), 23000)).model_dump(
        mode="json"
    )
    access = [{"name": s.name, "interface": s.speaks, "url": urls[s.name]} for s in plan.switches]
    links = [{"a": plan.port(c.a), "b": plan.port(c.b), "peer": c.peer} for c in plan.cables]
    bundles = [{"ports": [plan.port(e) for e in h.ends]} for h in plan.hosts if len(h.ends) > 1]
    switching = {"switches": access, "links": links, "bundles": bundles, "parking": PARKING}
    switching |= {"ca": str(ca) if ca else None, "credentials": str(credentials) if credentials else None}
    document["fabrics"] = {
        FABRIC: {
            "type": "ethernet",
            "physical_network": "rocenet",
            "segments": VLANS,
            "manager": {"driver": "switches", "switching": switching},
        }
    }
    document["switches"] = [
        {
            "name": s.name,
            "fabric": FABRIC,
            "level": "spine" if s.name.startswith("spine") else "leaf",
            "ports": s.ports,
        }
        for s in plan.switches
    ]
    document["links"] = [
        {"a": c.a.switch, "a_port": c.a.number, "b": c.b.switch, "b_port": c.b.number} for c in plan.cables
    ]
    document["nodes"] = [_node(plan, host.name, host.index, plan.port(host.ends[0])) for host in plan.hosts]
    document |= {"racks": [], "ipu_pods": {}, "ipu_machines": []}
    return Site.model_validate(document)


def _node(plan: FabricPlan, name: str, index: int, port: str) -> dict[str, object]:
    guid = 0x0002C90300300000 + 16 * index
    adapter = {"name": "mlx5_0", "fabric": FABRIC, "guid": guid, "port_guid": guid + 1, "pci": "0000:c1:00.0"}
    return {"name": name, "cloud": "lab", "hcas": [{**adapter, "switch_port": port}]}
