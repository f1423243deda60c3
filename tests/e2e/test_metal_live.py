"""Pods of machines on a real Ironic, Neutron and OpenSM, by Nova's ironic driver and without Nova."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.people import People, Person, assert_clean, connection, wait_for
from tests.e2e.test_spine import on_database
from tests.helpers.cloudinit import read_by_cloud_init
from tests.helpers.ownlab import own_lab
from tests.helpers.spaces import network_space
from weft.drivers.opensm import OpenSmDriver
from weft.model.site import Node
from weft.planning.fabric.addressing import IPoIBAddress, mac_of_guid
from weft.ports.ledger import NoLedger
from weftlab import environment
from weftlab.hypervisor.image import NAME
from weftlab.hypervisor.login import Guests, SshClient, guests_of, make_key
from weftlab.lab import Lab
from weftlab.metal.config import emulator, secret_path
from weftlab.metal.enroll import list_path, system
from weftlab.metal.jobs import DISTRIBUTIONS, PINS, PROGRAMS
from weftlab.metal.machines import FLAVOR, mac, machines
from weftlab.metaldemo import SECRET, disk_of
from weftlab.switches.front import PARKING
from weftlab.switches.labsite import lab_ovs
from weftlab.switches.openvswitch import SWITCHES

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(
        reason="two labs of its own; the driver runs on a real Ironic by day, and both ways are demos"
    ),
]
POD = f"""\
name: metal
nodes: {{kind: bare_metal, count: 2, flavor: {FLAVOR}, image: {NAME}}}
fabric: {{isolation: partition}}
access: {{ssh_key: %s}}
"""
PATIENCE = 240.0


@pytest.fixture(scope="module", params=["ironic", "nova"])
def lab(request: pytest.FixtureRequest) -> Generator[Lab]:
    with own_lab(nodes=4, computes=1, ipus=0, metal=2, guests=True, machines_by=request.param) as lab:
        yield lab


def state(who: Person) -> str:
    return str(who.weft("pod", "show", "metal", "--json").json["state"])


def nodes(lab: Lab) -> dict[str, Any]:
    bare: Any = system(lab.layout).baremetal
    return {node.name: bare.get_node(node.machine) for node in machines(lab.site)}


def hardware(lab: Lab, node: Node) -> dict[str, str]:
    """Interface -> address, of a machine with an InfiniBand adapter, as its kernel would have them."""
    long = IPoIBAddress(0x48, node.hcas[0].port_guid, flags=0x80).text
    return {"eno1": mac(machines(lab.site).index(node)), "ib0": long}


@dataclass(frozen=True, slots=True)
class Sample:
    """A machine at one moment.

    Attributes:
        state: Ironic's, before and after.
        member: of another partition than the default one.
    """

    node: str
    state: str
    member: bool


@contextmanager
def watched(lab: Lab) -> Generator[list[Sample]]:
    """What is seen of each machine meanwhile, in Ironic and in its port's own table; only where Ironic's state was the
    same before and after."""
    seen, stop, ports = (
        list[Sample](),
        threading.Event(),
        {n.name: n.hcas[0].port_guid for n in machines(lab.site)},
    )
    fabric = OpenSmDriver(lab.site, "ib0", NoLedger())

    def look() -> None:
        while not stop.wait(0.2):
            before = {name: node.provision_state for name, node in nodes(lab).items()}
            keys = {name: {k & 0x7FFF for k in fabric.tables()[port].keys} for name, port in ports.items()}
            after = {name: node.provision_state for name, node in nodes(lab).items()}
            same = (name for name, was in before.items() if was == after[name])
            seen.extend(Sample(name, before[name], bool(keys[name] - {0x7FFF})) for name in same)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()
        fabric.close()
    assert seen, "nothing was seen"


def assert_members_only_when_active(seen: list[Sample], *states: str) -> None:
    """Fail unless machines were members only while active, and were seen in these states, too."""
    assert not [s for s in seen if s.member and s.state != "active"]
    assert {s.state for s in seen} >= {*states}
    assert {s.node for s in seen if s.member} == {s.node for s in seen}


def rebuilt(lab: Lab, tenant: Person, one: str) -> None:
    """The tenant has Nova deploy its server again: until the tenant's runs on it, the machine is no member."""
    compute: Any = connection(lab, "team-a").compute
    pod = tenant.weft("pod", "show", "metal", "--json").json
    server = next(r["id"] for r in pod["resources"] if r["key"] == f"server/{one}")
    images: Any = connection(lab, "team-a").image
    image = images.find_image(NAME, ignore_missing=False).id
    with watched(lab) as seen:
        answer = compute.post(f"/servers/{server}/action", json={"rebuild": {"imageRef": image}})
        assert answer.status_code == 202, answer.text
        wait_for(lambda: state(tenant) == "DEGRADED", PATIENCE)
        reason = tenant.weft("pod", "show", "metal", "--json").json["reason"]
        assert "doesn't run the pod's server now" in reason, reason
        wait_for(lambda: state(tenant) == "READY", PATIENCE)
    mine = [s for s in seen if s.node == one]
    *_, last = (s for s in mine if s.state == "deploying")
    assert not last.member and mine[-1] == Sample(one, "active", True)
    assert all(s.member for s in seen if s.node != one), "the other one is left alone"
    assert compute.get_server(server).status == "ACTIVE"


def quarantined_and_cleaned_at_last(lab: Lab, operator: Person, bad: str) -> None:
    """A machine whose cleaning failed is kept past the release's limit, the other is given back; later it's cleaned."""

    def shown() -> dict[str, Any]:
        return {n["name"]: n for n in operator.weft("node", "list", "--json").json}

    wait_for(lambda: nodes(lab)[bad].provision_state == "clean failed", PATIENCE)
    pod = wait_for(lambda: _if_reported(operator, "the disk can't be written"), PATIENCE)
    assert state(operator) == "RELEASING" and nodes(lab)[bad].extra["weft"]
    others = [n.name for n in machines(lab.site) if n.name != bad]
    # One that weft hasn't seen clean by the limit is kept, too.
    wait_for(lambda: not any(nodes(lab)[n].extra.get("weft") for n in others), PATIENCE)
    with on_database(lab) as database:  # a quarter of an hour later
        database.execute("UPDATE owner SET since = since - interval '1 hour' WHERE id = %s", [pod["id"]])
    wait_for(lambda: shown()[bad]["state"] == "quarantined", PATIENCE)
    assert "machine" in shown()[bad]["reason"]
    wait_for(lambda: all(shown()[n]["state"] == "free" for n in others), PATIENCE)
    assert operator.weft("pod", "receipt", "metal").code, "nothing is signed yet"
    disk_of(lab.layout, lab.site.node_by_name[bad]).with_name("broken").unlink()
    bare: Any = system(lab.layout).baremetal
    machine = str(lab.site.node_by_name[bad].machine)
    bare.set_node_provision_state(machine, "manage", wait=True, timeout=PATIENCE)
    bare.unset_node_maintenance(machine)
    bare.set_node_provision_state(machine, "provide")
    wait_for(lambda: state(operator) == "RELEASED", PATIENCE)
    assert operator.weft("node", "clear", bad).code == 0


OOB = 2990
"""A VLAN that weft doesn't give out, with BMCs in it."""
THERE, TAKEN = "10.66.66.1", "10.66.66.2/24"


@contextmanager
def another_bmc(lab: Lab, folder: Path) -> Generator[str]:
    """The emulator once more, in a namespace of its own, whose path this gives, and a VLAN of its own.

    The lab's own listens on this host's loopback, where no machine could reach it in any case.
    """
    layout, ovs = lab.layout, lab_ovs(lab.layout)
    env = environment.ensure_other(layout.cache, "ironic", PINS, DISTRIBUTIONS, print)
    file = folder / "emulator.conf"
    text = emulator(layout, lab.site).replace("LISTEN_IP = '127.0.0.1'", "LISTEN_IP = '0.0.0.0'")
    file.write_text(text.replace(str(layout.data / "bmc"), str(folder)))
    argv = [env / "bin/python", PROGRAMS / "bmc.py", file, secret_path(layout)]
    with network_space("sysctl -qw net.ipv6.conf.default.disable_ipv6=1; ip link set lo up", 600) as space:
        added = ["add-port", "mgmt", "bmcs", f"tag={OOB}", "--", "set", "interface", "bmcs", "type=internal"]
        ovs.vsctl(*added)
        ovs.inside(SWITCHES, ["ip", "link", "set", "dev", "bmcs", "netns", space])
        inside = ["nsenter", f"--net={space}"]
        ready = f"ip address add {THERE}/24 dev bmcs; ip link set bmcs up; ethtool -K bmcs tx off"
        subprocess.run([*inside, "sh", "-ec", ready], check=True, capture_output=True)
        running = subprocess.Popen([*inside, *argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield space
        finally:
            running.terminate()
            running.wait(60)
            ovs.vsctl("del-port", "bmcs")


def no_bmc_is_reached(lab: Lab, door: SshClient, guests: Guests, one: str, folder: Path) -> None:
    """Root on a machine takes an address of the BMCs' network, and forges their VLAN's tag in every way."""
    own, vlan, bmc = guests.addresses[one], guests.vlan, lab.layout.port("bmc")
    get = r"printf 'GET /redfish/v1 HTTP/1.0\r\n\r\n'"
    links = {
        "eth0": "true",
        "tagged": f"ip link add link eth0 name tagged type vlan id {OOB}",
        "service": f"ip link add link eth0 name service type vlan protocol 802.1ad id {OOB}",
        "outer": f"ip link add link eth0 name outer type vlan id {vlan}",
        "inner": f"ip link add link outer name inner type vlan id {OOB}",
        "zero": "ip link add link eth0 name zero type vlan id 0",
        "below": f"ip link add link zero name below type vlan id {OOB}",
    }

    def asks(link: str, seconds: int) -> bool:
        steps = (
            f"ip link set {link} up; ip address add {TAKEN} dev {link}; {get} | nc -w {seconds} {THERE} {bmc}"
        )
        answer = door.run(own, f"{steps}; ip address del {TAKEN} dev {link}")
        return "redfish" in answer.stdout.lower()

    with another_bmc(lab, folder) as space:

        def heard() -> int:
            row = subprocess.check_output(
                ["nsenter", f"--net={space}", "ip", "-j", "-s", "link", "show", "bmcs"]
            )
            return int(json.loads(row)[0]["stats64"]["rx"]["packets"])

        for link, made in links.items():
            door.awaited(own, made)
            sent = f"cat /sys/class/net/{link}/statistics/tx_packets"
            before = int(door.awaited(own, sent))
            assert not asks(link, 2), link
            assert int(door.awaited(own, sent)) > before, f"nothing was sent by {link}"
        assert heard() == 0
        lab_ovs(lab.layout).vsctl("set", "port", "bmcs", f"tag={vlan}")
        wait_for(lambda: asks("eth0", 10), PATIENCE)
        assert heard() > 0, "it was there all the time"
        for link in list(links)[:0:-1]:
            door.awaited(own, f"ip link del {link}")


def _if_reported(operator: Person, text: str) -> dict[str, Any]:
    """The pod, if its reason has this text; else empty."""
    pod = operator.weft("pod", "show", "metal", "--json").json
    return pod if text in pod.get("reason", "") else {}


def seen_on(serial: socket.socket) -> bytes:
    """What a machine says while it boots."""
    said = b""
    while b"Linux version" not in said and (more := serial.recv(4096)):
        said += more
    return said


def assert_bound(lab: Lab, ports: list[Any]) -> None:
    """InfiniBand and Ethernet: Neutron has both of each machine's adapters bound and up."""
    for index, node in enumerate(machines(lab.site)):
        adapters = {mac_of_guid(node.hcas[0].port_guid): "", mac(index): node.name}
        mine = {p.mac_address: p for p in ports if p.binding_host_id == node.machine}
        assert mine.keys() == adapters.keys()
        for address, port in mine.items():
            assert (port.status, port.binding_vif_type) == ("ACTIVE", "other"), port
            links = port.binding_profile.get("local_link_information") or [{}]
            assert links[0].get("port_id", "") == adapters[address], links


def test_bare_metal_pod_goes_from_order_to_receipt_with_reboot_and_rescue(
    lab: Lab, people: People, tmp_path: Path
) -> None:
    tenant, operator = people("team-a"), people("operator")
    lists = str(lab.layout.site_path), str(list_path(lab.layout))
    refused = tenant.weft("site", "enroll", *lists)
    assert refused.code == 1 and refused.out.count("HTTP 403") == 2, refused.out + refused.err
    key = make_key(tmp_path)
    (tenant.folder / "metal.yaml").write_text(POD % key.with_suffix(".pub").read_text().strip())
    with watched(lab) as seen:
        made = tenant.weft("pod", "create", "-f", str(tenant.folder / "metal.yaml"), "--wait", timeout=500)
        assert made.code == 0, made.err
    assert_members_only_when_active(seen, "available", "deploying", "active")
    by_nova = lab.site.clouds["lab"].machines_by == "nova"
    assert len(list(connection(lab, "team-a").compute.servers())) == (2 if by_nova else 0)

    ports: Any = list(connection(lab, "operator").network.ports())
    assert_bound(lab, ports)
    there = {str(p.mac_address): str(p.fixed_ips[0]["ip_address"]) for p in ports if p.fixed_ips}
    network: Any = connection(lab, "operator").network
    guests = guests_of(tenant.weft("pod", "show", "metal", "--json").json, network)
    door = SshClient(lab_ovs(lab.layout), key)
    with door.into(guests):
        for node in machines(lab.site):
            drive = door.awaited(guests.addresses[node.name], "cat /run/network_data.json", PATIENCE)
            read = read_by_cloud_init(json.loads(drive), hardware(lab, node), tmp_path / node.name)
            address = there[mac_of_guid(node.hcas[0].port_guid)]
            assert f"Address={address}/" in read.files["ib0"] and "DHCP=no" in read.files["ib0"]
        first, second = guests.addresses.values()
        assert door.pings(first, [second]) == {second}
        door.awaited(first, f"echo {SECRET} > /dev/vda; sync")
        one = machines(lab.site)[0].name
        if not by_nova:
            no_bmc_is_reached(lab, door, guests, one, tmp_path)
    with door.into(replace(guests, vlan=guests.vlan + 1)):
        assert not door.reaches(first)

    for how in (["--hard"], []):
        with door.into(guests):
            door.awaited(guests.addresses[one], "touch /run/before", PATIENCE)
        assert tenant.weft("pod", "reboot", "metal", one, *how).code == 0
        wait_for(lambda: nodes(lab)[one].power_state == "power on" and state(tenant) == "READY", PATIENCE)
        with door.into(guests):
            wait_for(
                lambda: door.run(guests.addresses[one], "test ! -e /run/before").returncode == 0, PATIENCE
            )
    rescued = tenant.weft("pod", "rescue", "metal", one)
    assert rescued.code == 0, rescued.err
    wait_for(lambda: nodes(lab)[one].provision_state == "rescue", PATIENCE)
    wait_for(lambda: state(tenant) == "DEGRADED", PATIENCE)
    ended = wait_for(lambda: tenant.weft("pod", "unrescue", "metal", one), PATIENCE)
    assert ended.code == 0, ended.err
    wait_for(lambda: state(tenant) == "READY", PATIENCE)
    if by_nova:
        rebuilt(lab, tenant, one)
    console = tenant.weft("pod", "console", "metal", one)
    assert (console.code == 0) is not by_nova, "this Nova has no serial proxy"
    if not by_nova:
        url = urlsplit(console.out.split()[-1])
        with socket.create_connection((url.hostname, url.port), timeout=PATIENCE) as serial:
            assert tenant.weft("pod", "reboot", "metal", one, "--hard").code == 0
            assert b"Linux version" in seen_on(serial)
        wait_for(lambda: state(tenant) == "READY", PATIENCE)
    assert_clean(operator)

    enabled = {one: nodes(lab)[one].is_console_enabled}
    assert enabled == {one: not by_nova}
    with watched(lab) as seen:
        wait_for(lambda: {s.node for s in seen if s.member} == {n.name for n in machines(lab.site)}, PATIENCE)
        disk_of(lab.layout, lab.site.node_by_name[one]).with_name("broken").touch()
        assert tenant.weft("pod", "release", "metal").code == 0
        quarantined_and_cleaned_at_last(lab, operator, one)
    assert_members_only_when_active(seen, "active", "cleaning", "clean failed", "available")
    receipt = tenant.weft("pod", "receipt", "metal", "--json").json["receipt"]
    assert receipt["clean"]
    assert len([i for i in receipt["items"] if i["plane"] == "machine" and "disks erased" in i["seen"]]) == 2
    assert len([i for i in receipt["items"] if i["plane"] == "adapter" and i["result"] == "clean"]) == 2
    assert not any(disk_of(lab.layout, node).exists() for node in machines(lab.site))
    tags = {lab_ovs(lab.layout).vsctl("get", "port", n.name, "tag").strip() for n in machines(lab.site)}
    assert tags == {str(PARKING)}
    assert {(n.provision_state, n.extra.get("weft"), n.instance_id) for n in nodes(lab).values()} == {
        ("available", None, None)
    }
    assert_clean(operator)
