"""Bridges, cables and hosts of a planned fabric, made in Open vSwitch and in the namespaces that are held for them.

What was learnt by failing:

* Cables between bridges are veth pairs. With RSTP over patch ports vswitchd 3.1 hung, and every ovs-vsctl with it; and
  a veth can be cut (`ip link set … down`).
* A host's port is an admin edge port. With RSTP off on it, it learns but gets no flooded frame: ARP never arrives.
* Without `tx off` in the hosts, frames leave with incomplete checksums: ping works, and TCP hangs.
* LACP at its fast rate gives a link up after three seconds without a frame: on a busy machine vswitchd is late, and
  the bond comes and goes. At the slow rate (the default) it has 90 s, and a cut cable is still seen at once, by its
  carrier.
* A port without `tag` and `trunks` is a trunk of every VLAN. So ports start in none: `PARKED`.
"""

from __future__ import annotations

from collections.abc import Iterator

from weftlab.layout import LabError
from weftlab.switches.bridge import Vlans, settings
from weftlab.switches.openvswitch import SWITCHES, Ovs
from weftlab.switches.plan import Cable, End, FabricPlan, HostPlan, SwitchPlan

NO_OFFLOAD = ["tx", "off", "tso", "off", "gso", "off"]


def wire(ovs: Ovs, plan: FabricPlan) -> None:
    """Make everything. Raises `LabError` if a bridge or a port is not in the datapath in the end."""
    _clear(ovs, plan)
    ovs.inside(SWITCHES, ["ip", "-batch", "-"], "\n".join(_links(ovs, plan)))
    ovs.vsctl(*_bridges(plan))
    for host in plan.hosts:
        _configure(ovs, plan, host)
    missing = _missing(ovs, plan)
    if missing:
        raise LabError(f"vswitchd doesn't forward for {', '.join(missing)}: see its log in {ovs.folder}")


def _clear(ovs: Ovs, plan: FabricPlan) -> None:
    """Remove what an earlier attempt has left."""
    old = ovs.vsctl("list-br").split()
    if old:
        ovs.vsctl(*[word for bridge in old for word in ("--", "del-br", bridge)][1:])
    names = {_interface(plan, e) for e in plan.ends()}
    links = [
        line.split(":")[1].split("@")[0].strip()
        for line in ovs.inside(SWITCHES, ["ip", "-o", "link"]).splitlines()
    ]
    for name in names.intersection(links):
        ovs.inside(SWITCHES, ["ip", "link", "delete", "dev", name])


def is_wired(ovs: Ovs, plan: FabricPlan) -> bool:
    """Whether the whole fabric is there already."""
    try:
        return not _missing(ovs, plan)
    except LabError:
        return False


def _missing(ovs: Ovs, plan: FabricPlan) -> list[str]:
    """Bridges and ports that the datapath lacks: ovs-vsctl exits 0 also where vswitchd could not make one."""
    there = set(ovs.appctl("dpif/show").replace("/", " ").replace(":", " ").split())
    wanted = {s.name for s in plan.switches} | {_interface(plan, e) for e in plan.ends()}
    return sorted(wanted - there)


def _interface(plan: FabricPlan, end: End) -> str:
    return plan.by_name[end.switch].interface(end.number)


def _links(ovs: Ovs, plan: FabricPlan) -> Iterator[str]:
    yield "link set lo up"
    for cable in plan.cables:
        a, b = _interface(plan, cable.a), _interface(plan, cable.b)
        yield f"link add dev {a} mtu {plan.mtu} type veth peer name {b} mtu {plan.mtu}"
        yield f"link set dev {a} up"
        yield f"link set dev {b} up"
    for host in plan.hosts:
        for number, end in enumerate(host.ends):
            a = _interface(plan, end)
            # A bond's two legs stay here, on a bridge that is the host's: this kernel has no bonding.
            peer = "eth0" if len(host.ends) == 1 else leg(host, number)
            yield f"link add dev {a} mtu {plan.mtu} type veth peer name x{a} mtu {plan.mtu}"
            yield f"link set dev {a} up"
            yield (
                f"link set dev x{a} netns {ovs.space(host.name)} name {peer}"
                if peer == "eth0"
                else f"link set dev x{a} name {peer} up"
            )


def leg(host: HostPlan, number: int) -> str:
    """Name of a host's interface; Linux allows 15 characters."""
    return f"{host.name[:12]}-l{number}"


def _bridges(plan: FabricPlan) -> list[str]:
    """Arguments of one ovs-vsctl: all bridges and ports in one transaction."""
    commands: list[str] = []
    for number, switch in enumerate(plan.switches):
        commands += ["--", "add-br", switch.name, "--", "set", "bridge", switch.name]
        commands += ["datapath_type=netdev", "fail_mode=standalone", "rstp_enable=true"]
        commands += [f"other_config:hwaddr=02:00:00:01:00:{number:02x}"]
        commands += [f"other_config:rstp-priority={4096 if switch.root else 32768}"]
    hosts = {end: h for h in plan.hosts for end in h.ends}
    for end in plan.ends():
        commands += _port(plan.by_name[end.switch], end, hosts.get(end), plan.mtu)
    for host in plan.hosts:
        if len(host.ends) > 1:
            commands += _bond(host, plan.mtu)
    return commands[1:]


def _port(switch: SwitchPlan, end: End, host: HostPlan | None, mtu: int) -> list[str]:
    name = switch.interface(end.number)
    commands = ["--", "add-port", switch.name, name, "--", "set", "port", name, *settings(Vlans())]
    if host is not None:
        commands += ["other_config:rstp-port-admin-edge=true"]
    commands += ["--", "set", "interface", name, f"mtu_request={mtu}"]
    if end.number in switch.lags:
        # Both switches of a pair announce one LACP system; the key counts on the interface, and is ignored on the port.
        commands += [f"other_config:lacp-port-id={101 + host.ends.index(end) if host else 100}"]
        commands += [f"other_config:lacp-aggregation-key={end.number}"]
        commands += ["--", "set", "port", name, "lacp=active"]
        commands += [f"other_config:lacp-system-id={switch.lacp_system}"]
    return commands


def _bond(host: HostPlan, mtu: int) -> list[str]:
    """The host's end of a bond: a bridge of its own, with an internal port that is its eth0."""
    bridge, bond = f"{host.name[:12]}-br", f"{host.name[:12]}-bo"
    legs = [leg(host, n) for n in range(len(host.ends))]
    commands = [
        "--",
        "add-br",
        bridge,
        "--",
        "set",
        "bridge",
        bridge,
        "datapath_type=netdev",
        "fail_mode=standalone",
    ]
    commands += ["--", "add-bond", bridge, bond, *legs, "lacp=active", "bond_mode=balance-tcp"]
    for name in legs:
        commands += ["--", "set", "interface", name, f"mtu_request={mtu}"]
    inner = f"{host.name[:11]}-eth"
    commands += ["--", "add-port", bridge, inner, "--", "set", "interface", inner, "type=internal"]
    return [*commands, f"mtu_request={mtu}", f'mac="{host.mac}"']


def _configure(ovs: Ovs, plan: FabricPlan, host: HostPlan) -> None:
    if len(host.ends) > 1:
        inner = f"{host.name[:11]}-eth"
        ovs.inside(
            SWITCHES, ["ip", "link", "set", "dev", inner, "netns", ovs.space(host.name), "name", "eth0"]
        )
        # A real pair doesn't send what came over the peer link to a bond that both have; these bridges do. What the
        # host sent itself must not come back, or its bridge learns its own address on the bond.
        bridge = f"{host.name[:12]}-br"
        flows = f"priority=10,dl_src={host.mac},in_port={{}},actions=drop"
        for number in range(len(host.ends)):
            ovs.ofctl("add-flow", bridge, flows.format(leg(host, number)))
    batch = [
        "link set lo up",
        f"link set dev eth0 mtu {plan.mtu} address {host.mac} up",
        f"address add {host.address}/16 dev eth0",
    ]
    ovs.inside(host.name, ["ip", "-batch", "-"], "\n".join(batch))
    ovs.inside(host.name, ["ethtool", "-K", "eth0", *NO_OFFLOAD])


def cut(ovs: Ovs, plan: FabricPlan, cable: Cable, up: bool = False) -> None:
    """Pull a cable between switches, or put it back."""
    state = "up" if up else "down"
    ovs.inside(SWITCHES, ["ip", "link", "set", "dev", _interface(plan, cable.a), state])
