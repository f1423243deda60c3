"""The Ethernet fabric of a whole lab: the tree that `weft lab up` asks for, as a plan and as rows of weft's site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weft.model.fabrictypes import FabricKind
from weft.model.ranges import Range
from weft.model.site import (
    Accelerator,
    Fabric,
    FabricManager,
    Hca,
    Node,
    ProbeAgent,
    Rack,
    Switch,
    SwitchAccess,
    Switching,
    SwitchLink,
    Traffic,
)
from weftlab.layout import LabError, Layout, Settings
from weftlab.switches.front import PARKING
from weftlab.switches.openvswitch import Ovs
from weftlab.switches.plan import Cable, End, FabricPlan, HostPlan, Speaks, SwitchPlan
from weftlab.switches.probejob import PROBE

FABRIC = "roce"
GPU = "a100"
SPINE_RACK = "roce-core"
GUID = 0x0002C90300400000
VIRTUAL_FUNCTIONS = 4
"""Virtual functions of each adapter."""
CORES, MEMORY_MIB = 128, 2048 * 1024
"""Cores and memory of a host."""
NO_COMPUTE = "this lab runs no nova-compute for it"
"""Why nodes beyond `--computes` can't be ordered: they are in the fabric only."""
PHYSICAL_NETWORK = "rocenet"
PORTS = 40
HARDWARE = 2
"""Hosts on the last ports of each leaf, without adapters of nodes: BMCs, for networks of the site's own."""
MOST_SWITCHES = 18
"""Most switches of a lab: `layout.PORT_OFFSETS` has a TCP port for each."""
KINDS: Mapping[str, tuple[Speaks, ...]] = {
    "eos": ("eos",),
    "nvue": ("nvue",),
    "sonic": ("sonic",),
    "ovs": ("ovs",),
    "mixed": ("eos", "nvue", "sonic", "ovs"),
}


@dataclass(frozen=True, slots=True)
class SwitchTree:
    """How many of everything."""

    nodes: int
    leaves: int
    spines: int
    hcas: int


BESIDE = SwitchTree(nodes=4, leaves=2, spines=2, hcas=2)
"""The Ethernet fabric of a lab that has both."""


def tree_of(settings: Settings) -> SwitchTree | None:
    """Sizes of the lab's Ethernet fabric; None if it has none."""
    if settings.fabric == "both":
        return BESIDE
    if settings.fabric == "ethernet":
        return SwitchTree(settings.nodes, settings.leaves, settings.spines, settings.hcas)
    return None


def check(settings: Settings) -> None:
    """Raise `LabError` for settings of an Ethernet fabric that isn't possible."""
    tree = tree_of(settings)
    if tree is None:
        return
    if settings.switches not in KINDS:
        raise LabError(f"--switches {settings.switches} is not allowed: one of {', '.join(KINDS)}")
    if tree.leaves + tree.spines > MOST_SWITCHES:
        raise LabError(
            f"{tree.leaves} leaves and {tree.spines} spines are not allowed on an Ethernet fabric: "
            f"{MOST_SWITCHES} switches at most"
        )
    if settings.fabric == "ethernet" and settings.fabric_manager != "opensm":
        raise LabError(
            "--fabric-manager is not allowed with --fabric ethernet: its switches are the managers"
        )


def host_name(node: str, adapter: str) -> str:
    """Name of the namespace that is an adapter of a node."""
    return f"{node}-{adapter}"


def lab_plan(settings: Settings) -> FabricPlan:
    """Every leaf is cabled to every spine; all adapters of a node are on one leaf, neighbours together.

    On the last ports of each leaf is `hardware`, in no VLAN and not in the lab's site.
    """
    tree = tree_of(settings)
    if tree is None:
        raise ValueError("this lab has no Ethernet fabric")
    leaves = [f"tor{i + 1:02d}" for i in range(tree.leaves)]
    spines = [f"agg{i + 1:02d}" for i in range(tree.spines)]
    kinds = KINDS[settings.switches]
    switches = [
        SwitchPlan(name, kinds[n % len(kinds)], PORTS, root=name == spines[0])
        for n, name in enumerate((*leaves, *spines))
    ]
    used = dict.fromkeys((*leaves, *spines), 0)

    def end(switch: str) -> End:
        used[switch] += 1
        return End(switch, used[switch])

    hosts: list[HostPlan] = []
    for index in range(tree.nodes):
        leaf = leaves[index * tree.leaves // tree.nodes]
        for h in range(tree.hcas):
            hosts.append(HostPlan(host_name(_node(index), f"mlx5_{h}"), len(hosts) + 1, (end(leaf),)))
    cables = [Cable(end(leaf), end(spine)) for leaf in leaves for spine in spines]
    for name in leaves:
        for n in range(HARDWARE):
            last = End(name, PORTS - HARDWARE + 1 + n)
            hosts.append(HostPlan(hardware(name, n + 1), len(hosts) + 1, (last,)))
    return FabricPlan(tuple(switches), tuple(cables), tuple(hosts))


def hardware(leaf: str, number: int) -> str:
    """Name of the namespace that is a BMC on a leaf."""
    return f"{leaf}-bmc{number}"


def _node(index: int) -> str:
    return f"roce{index + 1:02d}"


def _rack(leaf: str) -> str:
    return leaf.replace("tor", "roce-rack")


def lab_nodes(settings: Settings, plan: FabricPlan, cloud: str) -> tuple[Node, ...]:
    """Rows of the table of nodes: eight A100s each, so that no order means nodes of both fabrics."""
    found: list[Node] = []
    for index in range((tree_of(settings) or BESIDE).nodes):
        name = _node(index)
        mine = [h for h in plan.hosts if h.name.startswith(f"{name}-")]
        adapters = tuple(
            Hca(
                name=host.name.removeprefix(f"{name}-"),
                fabric=FABRIC,
                guid=GUID + 0x10 * host.index,
                port_guid=GUID + 0x10 * host.index + 1,
                pci=f"0000:{0x40 + n:02x}:00.0",
                numa=2 * n // len(mine),
                switch_port=plan.port(host.ends[0]),
                mac=host.mac,
                rate_gbps=100,
                vfs=VIRTUAL_FUNCTIONS,
                vf_pci=f"0000:{0x40 + n:02x}:00.2",
            )
            for n, host in enumerate(mine)
        )
        gpus = tuple(
            Accelerator(type=GPU, pci=f"0000:{0x10 + g:02x}:00.0", numa=g // 4, switch=f"plx{g // 2}")
            for g in range(8)
        )
        rack = _rack(mine[0].ends[0].switch)
        unused = settings.fabric == "ethernet" and not settings.fabric_only and index >= settings.computes
        found.append(
            Node(
                name=name,
                rack=rack,
                cloud=cloud,
                hcas=adapters,
                accelerators=gpus,
                cores=CORES,
                memory_mib=MEMORY_MIB,
                maintenance=NO_COMPUTE if unused else None,
            )
        )
    return tuple(found)


def lab_racks(plan: FabricPlan) -> tuple[Rack, ...]:
    """Racks of the plan's hosts and spines, as rows of weft's site."""
    return (
        Rack(name=SPINE_RACK),
        *(Rack(name=_rack(s.name)) for s in plan.switches if s.name.startswith("tor")),
    )


def lab_switches(plan: FabricPlan) -> tuple[Switch, ...]:
    """Rows of the table of switches."""
    return tuple(
        Switch(
            name=s.name,
            fabric=FABRIC,
            level="leaf" if s.name.startswith("tor") else "spine",
            ports=s.ports,
            rack=_rack(s.name) if s.name.startswith("tor") else SPINE_RACK,
        )
        for s in plan.switches
    )


def lab_fabric(layout: Layout, plan: FabricPlan, traffic: bool) -> Fabric:
    """How weft manages it: every switch by its own interface, on a port of the lab's."""
    folder = switches_folder(layout)
    switching = Switching(
        switches=tuple(
            SwitchAccess(name=s.name, interface=s.speaks, url=_url(layout, plan, s)) for s in plan.switches
        ),
        links=tuple(SwitchLink(a=plan.port(c.a), b=plan.port(c.b)) for c in plan.cables),
        parking=PARKING,
        credentials=str(folder / "switches.json"),
        ca=str(folder / "ca.pem"),
    )
    return Fabric(
        type=FabricKind.ETHERNET,
        physical_network=PHYSICAL_NETWORK,
        segments=Range(first=0x101, last=0x17E),
        mtu=plan.mtu,
        traffic=lab_traffic(layout, plan) if traffic else None,
        manager=FabricManager(driver="switches", switching=switching),
    )


def lab_traffic(layout: Layout, plan: FabricPlan) -> Traffic:
    """How weft tests frames: one agent is in all namespaces, since a running server's adapters are the guest's."""
    # Hardware on leaves' last ports is no node's.
    names = (host.name.rpartition("-mlx5_") for host in plan.hosts)
    nodes = tuple(dict.fromkeys(node for node, adapter, _ in names if adapter))
    folder = switches_folder(layout)
    return Traffic(
        agents=(ProbeAgent(name=PROBE, url=f"https://127.0.0.1:{layout.port('probe')}", nodes=nodes),),
        ca=str(folder / "ca.pem"),
        certificate=str(folder / "weft.pem"),
        key=str(folder / "weft.key"),
    )


def switches_folder(layout: Layout) -> Path:
    """Certificates, credentials and saved configurations of the switches."""
    return layout.data / "switches"


def lab_ovs(layout: Layout) -> Ovs:
    """The lab's own Open vSwitch."""
    return Ovs(layout.state / "ovs")


def ports_of(layout: Layout, plan: FabricPlan) -> dict[str, int]:
    """Switch -> TCP port of its management interface, for those that speak HTTPS."""
    return {
        s.name: layout.port(f"switch-{n}") for n, s in enumerate(plan.switches, start=1) if s.speaks != "ovs"
    }


def _url(layout: Layout, plan: FabricPlan, switch: SwitchPlan) -> str:
    if switch.speaks == "ovs":
        return f"unix:{lab_ovs(layout).socket}"
    return f"https://127.0.0.1:{ports_of(layout, plan)[switch.name]}"
