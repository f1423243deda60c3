"""The lab's site: a two-level fat tree with GPU nodes, as the value that weft itself reads.

The cloud's hosts and the simulated fabric are both made from this value, so they can't disagree.
GUIDs follow ibsim: the port GUID of an adapter is its node GUID plus the port's number (sim_net.c, `new_port`).
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import yaml

from weft.model.ranges import Range
from weft.model.site import (
    Accelerator,
    AcceleratorCount,
    Cloud,
    Fabric,
    FabricAgent,
    FabricManager,
    Flavor,
    Hca,
    Link,
    ManagementNetwork,
    Node,
    Rack,
    Site,
    Storage,
    Switch,
)
from weftlab import ipu
from weftlab.layout import LabError, Layout, Settings
from weftlab.metal import machines as metal
from weftlab.storage.config import OFFER
from weftlab.switches import labsite
from weftlab.ufm.service import ufm_manager

FABRIC = "ib0"
CLOUD = "lab"
SWITCH_PORTS = 40
HOSTS_A_LEAF = 20
GPUS = 8
VIRTUAL_FUNCTIONS = labsite.VIRTUAL_FUNCTIONS
"""Virtual functions of each adapter where UFM manages the fabric."""
CORES, MEMORY_MIB = labsite.CORES, labsite.MEMORY_MIB
"""Cores and memory of a host, as `weftlab.programs.weftlab_driver` reports them to Nova."""
SUBNET_MANAGERS = ("sm1", "sm2")

LEAF_GUID = 0x0002C90300100000
SPINE_GUID = 0x0002C90300200000
NODE_GUID = 0x0002C90300300000
SM_GUID = 0x0002C90300F00000


def settings(
    nodes: int = 16,
    leaves: int | None = None,
    spines: int | None = None,
    hcas: int | None = None,
    computes: int | None = None,
    ipus: int | None = None,
    **rest: Any,
) -> Settings:
    """Settings with defaults filled in: 4 leaves and 2 spines up to 16 nodes; beyond, 20 nodes a leaf (never fewer than
    4 leaves) and half as many spines as leaves, so that 800 nodes are the reference's 40 leaves and 20 spines.
    Two HCAs a node where a leaf has room for them, else one.

    Raises `LabError` for a tree that can't be cabled.
    """
    for name, value in (("nodes", nodes), ("leaves", leaves), ("spines", spines), ("hcas", hcas)):
        if value is not None and value < 1:
            raise LabError(f"--{name} {value} is not allowed: 1 or more")
    leaves = leaves or max(4, -(-nodes // HOSTS_A_LEAF))
    spines = spines or min(HOSTS_A_LEAF, max(2, -(-leaves // 2)))
    per_leaf = -(-nodes // leaves)
    if hcas is None:
        hcas = 2 if 2 * per_leaf + 1 + spines <= SWITCH_PORTS else 1
    computes = min(nodes, 16) if computes is None else computes
    if not 1 <= computes <= nodes:
        raise LabError(f"--computes {computes} is not allowed: 1 to the number of nodes, {nodes}")
    ipus = ipu.check_size(16 if ipus is None else ipus)
    if leaves > SWITCH_PORTS:
        raise LabError(f"--leaves {leaves} is not allowed: a spine has {SWITCH_PORTS} ports")
    if hcas > 16:
        raise LabError(f"--hcas {hcas} is not allowed: 1 to 16")
    # The two leaves with a subnet manager may lose one uplink to it, no more.
    if per_leaf * hcas + spines > SWITCH_PORTS:
        raise LabError(
            f"{per_leaf} nodes a leaf with {hcas} HCAs each and {spines} uplinks need "
            f"{per_leaf * hcas + spines} ports, a switch has {SWITCH_PORTS}: give fewer --hcas, or more --leaves"
        )
    if leaves < 2:
        raise LabError(f"--leaves {leaves} is not allowed: the two subnet managers are on different leaves")
    found = Settings(
        nodes=nodes, leaves=leaves, spines=spines, hcas=hcas, computes=computes, ipus=ipus, **rest
    )
    labsite.check(found)
    metal.check(found.metal, found.fabric)
    if found.guests and found.fabric == "ethernet":
        raise LabError(
            "--guests is not allowed with --fabric ethernet: servers of nodes on switches don't run"
        )
    return found


def make_site(settings: Settings, layout: Layout) -> Site:
    """The whole site. Equal settings and layout give an equal site."""
    fabrics: dict[str, Fabric] = {}
    racks: list[Rack] = []
    switches: list[Switch] = []
    links: list[Link] = []
    nodes: list[Node] = []
    if settings.fabric != "ethernet":
        fabrics[FABRIC] = _fabric(layout, settings)
        racks += [Rack(name="core"), *(Rack(name=_rack(i)) for i in range(settings.leaves))]
        bare = () if settings.fabric_only else metal.nodes(settings.metal, settings.leaves, CLOUD, _hca)
        nodes += [*_gpu_nodes(settings), *bare, *_sm_nodes(settings)]
        switches += _switches(settings)
        links += _links(settings, nodes)
    if settings.fabric != "infiniband":
        plan = labsite.lab_plan(settings)
        probes = settings.probes and not settings.fabric_only
        fabrics[labsite.FABRIC] = labsite.lab_fabric(layout, plan, probes)
        racks += labsite.lab_racks(plan)
        nodes += labsite.lab_nodes(settings, plan, CLOUD)
        switches += labsite.lab_switches(plan)
    cloud_nodes = () if settings.fabric_only or not settings.ipus else ipu.nodes(settings.ipus)
    there = bool(cloud_nodes)
    return Site(
        name="lab",
        clouds={CLOUD: _cloud({a.type for n in nodes for a in n.accelerators}, settings)},
        fabrics=fabrics,
        racks=(*racks, *((Rack(name=ipu.RACK),) if there else ())),
        switches=tuple(switches),
        links=tuple(links),
        nodes=(*nodes, *cloud_nodes),
        ipu_pods={ipu.IPU_POD: ipu.ipu_pod(layout, settings.ipus, "cpu1", "tiny")} if there else {},
        ipu_machines=ipu.machines(layout, settings.ipus) if there else (),
    )


def _cloud(gpus: set[str], settings: Settings) -> Cloud:
    """The cloud of the site. Args: gpus: types that its nodes have; flavors with others are left out."""
    machines = settings.metal > 0
    flavors = {
        "gpu8": Flavor(accelerators=AcceleratorCount(type="h100", count=8)),
        "gpu1": Flavor(accelerators=AcceleratorCount(type="h100", count=1), cores=8, memory_mib=64 * 1024),
        "a100x8": Flavor(accelerators=AcceleratorCount(type=labsite.GPU, count=8)),
        "a100x2": Flavor(
            accelerators=AcceleratorCount(type=labsite.GPU, count=2), cores=16, memory_mib=128 * 1024
        ),
        metal.FLAVOR: metal.flavor(),
        "cpu1": Flavor(),
    }
    return Cloud(
        profile="weft",
        machines_by="ironic" if settings.machines_by == "ironic" else "nova",
        bios_settings=metal.BIOS_SETTINGS if machines else {},
        firmware=metal.FIRMWARE if machines else {},
        firmware_unchanged=bool(machines),
        management=ManagementNetwork(
            physical_network="physnet1",
            segments=Range(first=1000, last=1999),
            addresses=IPv4Network("10.64.0.0/12"),
        ),
        external_network="public",
        rdma_addresses=IPv4Network("10.128.0.0/12"),
        hosts_kept_free="otherwise",  # tests have many flavors
        storage=OFFER if settings.storage else Storage(),
        flavors={n: f for n, f in flavors.items() if f.accelerators is None or f.accelerators.type in gpus},
    )


def _fabric(layout: Layout, settings: Settings) -> Fabric:
    tls = layout.state / "tls"
    opensm = FabricManager(
        driver="opensm",
        agents=tuple(
            FabricAgent(name=name, url=f"https://127.0.0.1:{layout.port(f'agent-{name}')}", node=name)
            for name in SUBNET_MANAGERS
        ),
        ca=str(tls / "ca.pem"),
        certificate=str(tls / "weft.pem"),
        key=str(tls / "weft.key"),
    )
    return Fabric(
        physical_network="ibnet",
        segments=Range(first=0x101, last=0x17E),
        manager=ufm_manager(layout, opensm) if settings.fabric_manager == "ufm" else opensm,
        tenant_networks=settings.tenant_networks,
    )


def _rack(leaf: int) -> str:
    return f"rack{leaf + 1:02d}"


def _leaf_of(settings: Settings, index: int) -> int:
    """Nodes are spread evenly, neighbours together."""
    return index * settings.leaves // settings.nodes


def _hca(name: str, node_guid: int, bus: int, numa: int, vfs: int = 0) -> Hca:
    port_guid = node_guid + 1
    mac = f"{port_guid >> 40:06x}{port_guid & 0xFFFFFF:06x}"
    return Hca(
        name=name,
        fabric=FABRIC,
        guid=node_guid,
        port_guid=port_guid,
        pci=f"0000:{bus:02x}:00.0",
        numa=numa,
        mac=":".join(mac[i : i + 2] for i in range(0, 12, 2)),
        vfs=vfs,
        vf_pci=f"0000:{bus:02x}:00.2" if vfs else None,
    )


def _gpu_nodes(settings: Settings) -> list[Node]:
    width = max(2, len(str(settings.nodes)))
    vfs = VIRTUAL_FUNCTIONS if settings.fabric_manager == "ufm" else 0  # OpenSM can't partition them
    return [
        Node(
            name=f"gpu{index + 1:0{width}d}",
            rack=_rack(_leaf_of(settings, index)),
            cloud=CLOUD,
            maintenance=None if settings.fabric_only or index < settings.computes else labsite.NO_COMPUTE,
            hcas=tuple(
                _hca(f"mlx5_{h}", NODE_GUID + (index * 16 + h) * 0x10, 0x40 + h, 2 * h // settings.hcas, vfs)
                for h in range(settings.hcas)
            ),
            accelerators=tuple(
                Accelerator(
                    type="h100", pci=f"0000:{0x10 + g:02x}:00.0", numa=2 * g // GPUS, switch=f"plx{g // 2}"
                )
                for g in range(GPUS)
            ),
            cores=CORES,
            memory_mib=MEMORY_MIB,
        )
        for index in range(settings.nodes)
    ]


def _sm_nodes(settings: Settings) -> list[Node]:
    """The subnet managers' nodes: one on the first leaf, one on the last."""
    return [
        Node(
            name=name,
            rack=_rack(leaf),
            role="subnet-manager",
            hcas=(_hca("mlx5_0", SM_GUID + index * 0x10, 0x40, 0),),
        )
        for index, (name, leaf) in enumerate(zip(SUBNET_MANAGERS, (0, settings.leaves - 1), strict=True))
    ]


def _switches(settings: Settings) -> list[Switch]:
    leaves = [
        Switch(
            name=f"leaf{i + 1:02d}",
            fabric=FABRIC,
            level="leaf",
            ports=SWITCH_PORTS,
            guid=LEAF_GUID + i * 0x10,
            rack=_rack(i),
        )
        for i in range(settings.leaves)
    ]
    spines = [
        Switch(
            name=f"spine{i + 1:02d}",
            fabric=FABRIC,
            level="spine",
            ports=SWITCH_PORTS,
            guid=SPINE_GUID + i * 0x10,
            rack="core",
        )
        for i in range(settings.spines)
    ]
    return [*leaves, *spines]


def _links(settings: Settings, nodes: Sequence[Node]) -> list[Link]:
    """Hosts from port 1 up, then the uplinks, dealt to the spines in turn, as many as hosts if there is room."""
    rack_leaf = {_rack(i): i for i in range(settings.leaves)}
    used = [0] * settings.leaves
    links: list[Link] = []
    for node in nodes:
        leaf = rack_leaf[node.rack or ""]
        for hca in node.hcas:
            used[leaf] += 1
            links.append(
                Link(a=f"leaf{leaf + 1:02d}", a_port=used[leaf], b=f"{node.name}/{hca.name}", b_port=1)
            )
    hosts = max(used)
    cables = max(
        1, min((SWITCH_PORTS - hosts) // settings.spines, -(-hosts // settings.spines), _spine_room(settings))
    )
    for leaf in range(settings.leaves):
        for spine in range(settings.spines):
            for cable in range(cables):
                if used[leaf] == SWITCH_PORTS:
                    continue  # the subnet manager's host has the last uplink's port
                used[leaf] += 1
                links.append(
                    Link(
                        a=f"leaf{leaf + 1:02d}",
                        a_port=used[leaf],
                        b=f"spine{spine + 1:02d}",
                        b_port=leaf * cables + cable + 1,
                    )
                )
    return links


def _spine_room(settings: Settings) -> int:
    return SWITCH_PORTS // settings.leaves


def write_site(site: Site, folder: Path) -> Path:
    """`site.yaml` and its tables as CSV files beside it; returns the path of `site.yaml`."""
    folder.mkdir(parents=True, exist_ok=True)
    document = site.model_dump(mode="json", exclude_none=True)
    own = ("switches", "links", "ipu_machines")
    tables: dict[str, list[dict[str, Any]]] = {name: rows for name in own if (rows := document.pop(name))}
    # A list has no place in a cell: the lab's nodes have none but those that are tables of their own.
    tables["nodes"] = [{k: v for k, v in row.items() if v != []} for row in document.pop("nodes")]
    for name in ("hcas", "accelerators"):
        tables[name] = [
            {"node": node["name"], **row} for node in tables["nodes"] for row in node.pop(name, [])
        ]
    for name, rows in tables.items():
        _write_table(folder / f"{name}.csv", rows)
        document[name] = {"csv": f"{name}.csv"}
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False, default_flow_style=False))
    return path


def _write_table(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
