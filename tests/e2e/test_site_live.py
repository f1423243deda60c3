"""A site's own networks on the lab's real Neutron: planned, applied, attacked, adopted and destroyed with a receipt."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from openstack.exceptions import ConflictException

from tests.e2e.people import Answer, People, Person, connection, wait_for
from tests.helpers.dhcpagent import dhcp_agent
from tests.helpers.sitenetworks import GATEWAYS, STORAGE
from tests.helpers.terraform import Json, terraform
from weft.app.sitefile import checked, load_site
from weft.model.site import (
    AcceleratorCount,
    Device,
    Flavor,
    FlavorInNova,
    ImageProperties,
    Interface,
    NfsExport,
    Site,
    SiteNetwork,
    Storage,
)
from weftlab.lab import Lab

pytestmark = pytest.mark.cloud

MACHINES = 4
SERVERS = "physnet1"
"""The physical network that the lab's servers are on."""


def networks(project: str) -> dict[str, SiteNetwork]:
    shared = {"physical_network": SERVERS, "shared_with": [project]}
    return {
        "site-gw": SiteNetwork.model_validate(GATEWAYS | {"physical_network": "sitenet"}),
        "site-storage": SiteNetwork.model_validate(STORAGE | shared),
    }


def interfaces() -> list[Interface]:
    rows = [
        {"device": "nas1", "name": "eth0", "network": "site-storage", "mac": "02:00:00:5e:0f:01"}
        | {"address": "10.212.0.5"}
    ]
    for n in range(1, MACHINES + 1):
        for i, (name, net) in enumerate((("bmc", 201), ("gw", 202))):
            rows.append(
                {
                    "device": f"m{n}",
                    "name": name,
                    "network": "site-gw",
                    "mac": f"02:00:00:5e:0{i}:{n:02x}",
                    "address": f"10.{net}.0.{10 + n}",
                }
            )
    return [Interface.model_validate(r) for r in rows]


def gpu_networks(project: str) -> dict[str, SiteNetwork]:
    """Networks of two racks of GPU nodes, one for each role."""

    def network(vlan: int, role: str, physical: str = "sitenet", **more: object) -> SiteNetwork:
        net = f"10.22{vlan % 10}.0"
        subnet = {
            "role": role,
            "addresses": f"{net}.0/24",
            "pool": {"first": f"{net}.100", "last": f"{net}.250"},
        }
        shared = {"shared_with": [project]} if role in ("tenant", "storage") else {}
        known = {"cloud": "lab", "physical_network": physical, "vlan": vlan, **shared}
        return SiteNetwork.model_validate({**known, "subnets": {role: {**subnet, **more}}})

    return {
        "site-internal-api": network(21, "internal-api"),
        "site-provisioning": network(22, "provisioning"),
        "site-cleaning": network(23, "cleaning"),
        "site-bmc": network(24, "bmc"),
        "site-tenant": network(25, "tenant", gateway="10.225.0.1", nat=True),
        "site-storage": network(26, "storage", SERVERS, gateway="10.226.0.1"),
        "site-external": network(27, "external", gateway="10.227.0.1", dhcp=False),
    }


def gpu_interfaces(lab: Lab) -> list[Interface]:
    """The BMCs of some nodes."""
    nodes = [n for n in load_site(lab.site_path).nodes if n.role == "compute"][:MACHINES]
    known = {"name": "bmc", "network": "site-bmc"}
    return [
        Interface.model_validate(
            {**known, "device": n.name, "mac": f"02:00:00:24:00:{i:02x}", "address": f"10.224.0.{10 + i}"}
        )
        for i, n in enumerate(nodes, 1)
    ]


def nova_things(site: Site) -> dict[str, object]:
    """A flavor of two NUMA nodes with huge pages, an image for it, and a flavor with an accelerator."""
    nova = FlavorInNova(extra_specs={"hw:mem_page_size": "large"})
    flavor = Flavor(cores=4, memory_mib=4096, numa_nodes=2, nova=nova)
    image = ImageProperties(properties={"hw_numa_nodes": "2", "trait:HW_NUMA_ROOT": "required"})
    h100 = AcceleratorCount(type="h100", count=1)
    part = Flavor(accelerators=h100, cores=8, memory_mib=64 * 1024, nova=FlavorInNova(disk_gib=10))
    flavors = {**site.clouds["lab"].flavors, "numa4": flavor, "part1": part}
    return {"flavors": flavors, "images": {"gpu-image": image}}


@pytest.fixture
def operator(lab: Lab, people: People, request: pytest.FixtureRequest) -> Generator[Person]:
    """The lab's operator, with the site described; in the end it is destroyed, and the lab's own site active."""
    person = people("operator")
    cloud = connection(lab, "operator")
    project = cloud.identity.find_project("team-a", ignore_missing=False).id
    devices = [Device(name="nas1", kind="storage")]
    devices += [Device(name=f"m{n}", kind="other") for n in range(1, MACHINES + 1)]
    whole = load_site(lab.site_path)
    filer = "10.226.0.5" if getattr(request, "param", "") == "gpu" else "10.212.0.5"
    exports = {"home": NfsExport(location=f"{filer}:/home")}
    storage = {"storage": Storage(network="site-storage", exports=exports)}
    update: dict[str, object] = {
        **{"networks": networks(project), "interfaces": tuple(interfaces()), "devices": tuple(devices)},
        "clouds": {"lab": whole.clouds["lab"].model_copy(update=storage)},
    }
    if getattr(request, "param", "") == "gpu":
        update |= {"networks": gpu_networks(project), "interfaces": tuple(gpu_interfaces(lab)), "devices": ()}
    if getattr(request, "param", "") == "nova":
        update = {"clouds": {"lab": whole.clouds["lab"].model_copy(update=nova_things(whole))}}
    site = checked(whole.model_copy(update=update))
    file = person.folder / "described.yaml"  # JSON is YAML
    file.write_text(site.model_dump_json())
    good(person.weft("site", "activate", str(file)))
    yield person
    for port in list(cloud.network.ports()):
        if port.name.startswith("theirs"):
            cloud.network.delete_port(port)
    person.weft("site", "destroy", "--wait", "--timeout", "120")
    good(person.weft("site", "activate", str(lab.site_path)))


def good(answer: Answer) -> Answer:
    assert answer.code == 0, answer.out + answer.err
    return answer


@pytest.mark.nightly(reason="half a minute; by day on fakes, whose contract the real services keep")
def test_site_goes_from_description_to_receipt(lab: Lab, people: People, operator: Person) -> None:
    """Each port has its MAC, address and name; tenants see the shared network alone; a second apply does nothing."""
    cloud, tenant = connection(lab, "operator").network, connection(lab, "team-a").network
    planned = good(operator.weft("site", "plan"))
    assert f"{2 * MACHINES + 1} ports" in planned.out and "2 networks" in planned.out
    good(operator.weft("site", "apply", "--wait"))
    storage = next(n for n in cloud.networks() if n.name == "site-storage")
    assert (storage.provider_segmentation_id, storage.mtu, storage.is_shared) == (12, 9000, False)
    assert {n.name for n in tenant.networks()} & {"site-storage", "site-gw"} == {"site-storage"}
    stranger = connection(lab, "team-b").network
    assert not {n.name for n in stranger.networks()} & {"site-storage", "site-gw"}
    ports = {p.name: p for p in cloud.ports()}
    bmc = ports["m3-bmc"]
    assert (bmc.mac_address, bmc.dns_name) == ("02:00:00:5e:00:03", "m3-bmc")
    assert bmc.dns_assignment[0]["fqdn"] == "m3-bmc.lab.example."
    assert [f["ip_address"] for f in bmc.fixed_ips] == ["10.201.0.13"]
    groups = {g.name: g for g in cloud.security_groups()}
    rules = groups["lab-bmc"].security_group_rules
    assert {(r["direction"], r["protocol"], r["port_range_min"]) for r in rules} >= {("egress", "tcp", 443)}
    assert not [r for r in rules if r["protocol"] is None], "a closed group allows what its rules say"
    assert "lab-storage" in {g.name for g in tenant.security_groups()}
    router = next(r for r in cloud.routers() if r.name == "lab-site-storage")
    assert router.external_gateway_info["network_id"]
    again = good(operator.weft("site", "apply", "--wait"))
    assert "Nothing to change" in again.out
    good(operator.weft("audit"))
    _taken_name(lab, operator, storage.id)
    _drift(lab, operator, bmc.id)
    _used(lab, operator, storage.id)
    operator.weft("site", "receipt", "--json")
    receipt = good(operator.weft("site", "receipt", "--json")).json["receipt"]
    assert receipt["clean"] and receipt["kind"] == "site"
    assert not {n.name for n in cloud.networks()} & {"site-storage", "site-gw"}
    assert not [p for p in cloud.ports() if p.name in ports and p.id == ports[p.name].id and "-bmc" in p.name]


def _taken_name(lab: Lab, operator: Person, network: str) -> None:
    """A tenant names its port after the filer; and after a BMC, though that is on another network."""
    tenant = connection(lab, "team-a").network
    for name in ("nas1-eth0", "NAS1-eth0.lab.example.", "m3-bmc"):
        port = tenant.create_port(network_id=network, name="theirs", dns_name=name)
        found = operator.weft("audit")
        output = found.out + found.err
        assert found.code == 1 and port.dns_name in found.out and port.id in found.out, (port, output)
        tenant.delete_port(port)
    good(operator.weft("audit"))


def _drift(lab: Lab, operator: Person, port: str) -> None:
    """An administrator deletes a port and renames another; both are planned and repaired."""
    cloud = connection(lab, "operator").network
    cloud.delete_port(port)
    other = next(p for p in cloud.ports() if p.name == "m4-bmc")
    cloud.update_port(other, dns_name="stranger")
    said = good(operator.weft("site", "plan")).out
    assert "+  port/m3/bmc" in said and "dns_name: stranger → m4-bmc" in said, said
    good(operator.weft("site", "apply", "--wait"))
    assert cloud.get_port(other.id).dns_name == "m4-bmc"
    assert "Nothing to change" in good(operator.weft("site", "plan")).out


def _used(lab: Lab, operator: Person, network: str) -> None:
    """A tenant's port, a subnet that an administrator made for it, and a port in the shared group on the tenant's own
    network: each makes `destroy` refuse, named, and nothing is removed. Agents' ports don't."""
    tenant, own = connection(lab, "team-a").network, connection(lab, "weft").network
    agents = own.create_port(network_id=network, device_owner="network:dhcp", device_id="dhcp-of-no-host")
    port = tenant.create_port(network_id=network, name="theirs-too")
    refused = operator.weft("site", "destroy", "--wait")
    assert refused.code == 2 and port.id in refused.err and "theirs-too" in refused.err, refused.err
    assert "Nothing to change" in good(operator.weft("site", "plan")).out
    tenant.delete_port(port)
    admin = connection(lab, "operator").network
    more = {"cidr": "192.0.2.0/24", "gateway_ip": None, "is_dhcp_enabled": False}
    subnet = admin.create_subnet(network_id=network, project_id=port.project_id, ip_version=4, **more)
    refused = operator.weft("site", "destroy", "--wait")
    said = f"subnet {subnet.id}, 192.0.2.0/24, of project {port.project_id} on site-storage"
    assert refused.code == 2 and said in refused.err, refused.err
    admin.delete_subnet(subnet)
    group = next(g for g in own.security_groups() if g.name == "lab-storage")
    alone = tenant.create_network(name="theirs-alone")
    port = tenant.create_port(network_id=alone.id, name="theirs-in", security_groups=[group.id])
    refused = operator.weft("site", "destroy", "--wait")
    said = f"port theirs-in ({port.id}) of project {port.project_id} in security group lab-storage"
    assert refused.code == 2 and said in refused.err, refused.err
    tenant.delete_port(port)
    tenant.delete_network(alone)
    good(operator.weft("site", "destroy", "--wait"))
    assert own.find_port(agents.id) is None


@pytest.mark.nightly(reason="a minute; by day on fakes")
def test_changed_site_is_updated(lab: Lab, operator: Person) -> None:
    """Another VLAN and one row less: recreated with what is on it, and removed; the rest stays."""
    cloud = connection(lab, "operator").network
    good(operator.weft("site", "apply", "--wait"))
    network = next(n for n in cloud.networks() if n.name == "site-storage").id
    before = {p.name: p.id for p in cloud.ports() if p.name.endswith(("-gw", "-eth0"))}
    file = operator.folder / "described.yaml"
    described = json.loads(file.read_text())
    described["networks"]["site-storage"]["vlan"] = 14
    rows = described["interfaces"]
    described["interfaces"] = [r for r in rows if (r["device"], r["name"]) != (f"m{MACHINES}", "gw")]
    file.write_text(json.dumps(described))
    good(operator.weft("site", "activate", str(file)))
    said = good(operator.weft("site", "plan")).out
    steps = [line.split()[:2] for line in said.splitlines()]
    assert ["−+", "network/site-storage"] in steps and ["−", f"port/m{MACHINES}/gw"] in steps, said
    good(operator.weft("site", "apply", "--wait"))
    made = next(n for n in cloud.networks() if n.name == "site-storage")
    assert made.provider_segmentation_id == 14 and made.id != network
    after = {p.name: p.id for p in cloud.ports() if p.name.endswith(("-gw", "-eth0"))}
    assert after.keys() == before.keys() - {f"m{MACHINES}-gw"}
    assert {n for n in after if after[n] != before[n]} == {"nas1-eth0"}
    good(operator.weft("site", "destroy", "--wait"))


@pytest.mark.nightly(reason="half a minute; by day on fakes, and flavors of the real Nova are adopted")
def test_existing_networks_are_adopted_or_left_alone(lab: Lab, operator: Person) -> None:
    """In the service user's project it is adopted, with its id; in another one it is in the way."""
    own, admin = connection(lab, "weft").network, connection(lab, "operator").network
    made = own.create_network(
        name="by-hand",
        provider_network_type="vlan",
        provider_physical_network="sitenet",
        provider_segmentation_id=13,
    )
    subnet = own.create_subnet(
        network_id=made.id, ip_version=4, cidr="10.201.0.0/24", is_dhcp_enabled=True, gateway_ip=None
    )
    fixed = [{"subnet_id": subnet.id, "ip_address": "10.201.0.11"}]
    port = own.create_port(network_id=made.id, mac_address="02:00:00:5e:00:01", fixed_ips=fixed)
    theirs = admin.create_network(
        name="other",
        provider_network_type="vlan",
        provider_physical_network=SERVERS,
        provider_segmentation_id=12,
    )
    try:
        planned = operator.weft("site", "plan")
        assert planned.code == 1 and made.id in planned.out and theirs.id in planned.out
        refused = operator.weft("site", "apply", "--adopt")
        assert refused.code == 2 and theirs.id in refused.err and "another project" in refused.err
        assert own.get_network(made.id).description == ""
    finally:
        admin.delete_network(theirs)
    nas = own.create_network(
        name="nas-net",
        provider_network_type="vlan",
        provider_physical_network=SERVERS,
        provider_segmentation_id=12,
    )
    planned = good(operator.weft("site", "plan", "--adopt"))
    assert f"adopts {made.id}" in planned.out and f"adopts {port.id}" in planned.out
    assert "name: nas-net → site-storage" in planned.out, planned.out
    good(operator.weft("site", "apply", "--adopt", "--wait"))
    assert own.get_network(made.id).description.startswith("weft site=lab owner=site:")
    assert own.get_port(port.id).dns_name == "m1-bmc"
    assert (own.get_network(made.id).name, own.get_network(nas.id).name) == ("site-gw", "site-storage")
    pools = own.get_subnet(subnet.id).allocation_pools
    assert pools == [{"start": "10.201.0.200", "end": "10.201.0.254"}]
    good(operator.weft("site", "destroy", "--wait"))
    assert own.find_network(made.id) is None


@pytest.mark.nightly(
    reason="45 s; by day a site of IPU-Machines goes the same way, flavors are made on Nova, and pods on the lab's site"
)
@pytest.mark.parametrize("operator", ["gpu"], indirect=True)
def test_pod_runs_on_an_applied_gpu_site(lab: Lab, people: People, operator: Person) -> None:
    """Tenants see their own network and storage alone, besides what is external; then a pod of GPU nodes, which has
    ports on the storage network: the site can't be destroyed as long as it is there."""
    cloud, tenant = connection(lab, "operator").network, connection(lab, "team-a").network
    good(operator.weft("site", "apply", "--wait"))
    seen = {n.name for n in tenant.networks() if n.name.startswith("site-")}
    assert seen == {"site-tenant", "site-storage", "site-external"}
    external = next(n for n in cloud.networks() if n.name == "site-external")
    assert external.is_router_external and not external.is_shared
    assert "Nothing to change" in good(operator.weft("site", "apply")).out
    _gateways_are_kept(lab)
    person = people("team-a")
    good(person.order("gpu", 1, "--wait", more="storage: [{export: home, mount: /home}]\n"))
    storage = cloud.find_network("site-storage", ignore_missing=False).id
    assert [
        p for p in connection(lab, "weft").network.ports(network_id=storage) if p.name.startswith("weft-")
    ]
    good(operator.weft("audit"))
    assert "gpu on site-storage" in operator.weft("site", "destroy").err
    good(person.weft("pod", "release", "gpu", "--wait"))
    good(operator.weft("site", "destroy", "--wait"))
    assert operator.weft("site", "receipt", "--json").json["receipt"]["clean"] is True
    assert not [n for n in cloud.networks() if n.name.startswith("site-")]


def _gateways_are_kept(lab: Lab) -> None:
    """Neutron lets a member's router take the gateway's address on a network that is shared with its project; on the
    site's it is taken: by weft's router, or by a port that keeps it."""
    tenant, admin = connection(lab, "team-a"), connection(lab, "operator").network
    router = tenant.network.create_router(name="theirs")
    plain = admin.create_network(name="plain")
    try:
        subnet = admin.create_subnet(network_id=plain.id, ip_version=4, cidr="10.228.0.0/24")
        shared = {"object_type": "network", "object_id": plain.id, "action": "access_as_shared"}
        admin.create_rbac_policy(target_project_id=tenant.current_project_id, **shared)
        tenant.network.add_interface_to_router(router, subnet=subnet.id)
        tenant.network.remove_interface_from_router(router, subnet=subnet.id)
        for network in (n for n in tenant.network.networks() if n.name in ("site-tenant", "site-storage")):
            (subnet,) = tenant.network.subnets(network_id=network.id)
            with pytest.raises(ConflictException, match=r"IpAddress|in use|already"):
                tenant.network.add_interface_to_router(router, subnet=subnet.id)
    finally:
        tenant.network.delete_router(router)
        admin.delete_network(plain)


def exported(operator: Person, *words: str) -> tuple[Answer, Path]:
    """The described site for Terraform, in a folder."""
    folder = operator.folder / "terraform"
    known = ("site", "export", str(operator.folder / "described.yaml"), "--format", "terraform")
    return operator.weft(*known, "--cloud-profile", "weft", "-o", str(folder), *words), folder


def addresses(folder: Path) -> set[str]:
    files = [json.loads(file.read_text()) for file in folder.glob("*.tf.json")]
    tables = [(of, named) for file in files for of, named in file.get("resource", {}).items()]
    return {f"{of}.{name}" for of, named in tables for name in named}


def imported(folder: Path) -> dict[str, str]:
    return {i["to"]: i["id"] for i in json.loads((folder / "imports.tf.json").read_text())["import"]}


def without_errors(lines: list[Json]) -> list[Json]:
    assert [line for line in lines if line["@level"] == "error"] == []
    return lines


@pytest.mark.nightly(reason="by day its files are validated, and import what weft made")
def test_weft_adopts_what_terraform_created(lab: Lab, operator: Person) -> None:
    """Terraform itself, in the order that it finds in the files; weft then finds no field that differs."""
    done, folder = exported(operator)
    good(done)
    with terraform(OS_CLIENT_CONFIG_FILE=str(lab.clouds_yaml)) as tool:
        lines = tool.apply(folder)
    try:
        _adopted(operator, folder, lines)
    finally:
        operator.weft("site", "apply", "--adopt", "--wait")  # so that `destroy` removes it
    good(operator.weft("site", "destroy", "--wait"))
    assert operator.weft("site", "receipt", "--json").json["receipt"]["clean"] is True


def _adopted(operator: Person, folder: Path, lines: list[Json]) -> None:
    changes = [line["changes"] for line in without_errors(lines) if line["type"] == "change_summary"]
    assert changes[-1]["add"] == len(addresses(folder))
    plan = operator.weft("site", "plan", "--adopt", "--json").json
    assert {step["action"] for step in plan["steps"]} == {"adopt"} and not plan["conflicts"]
    assert len(plan["steps"]) == plan["resources"]
    assert [(s["key"], s["fields"]) for s in plan["steps"] if s["fields"]] == []


@pytest.mark.nightly(reason="two minutes; by day Terraform validates the files, and names are read back")
def test_names_resolve_and_terraform_imports_wefts_resources(lab: Lab, operator: Person) -> None:
    """For one site: names of hardware, then Terraform: every rule, share and interface; its plan makes, removes and
    replaces nothing."""
    own, admin = connection(lab, "weft").network, connection(lab, "operator").network
    theirs = admin.create_network(
        name="other",
        provider_network_type="vlan",
        provider_physical_network=SERVERS,
        provider_segmentation_id=12,
    )
    refused, folder = exported(operator, "--live")
    admin.delete_network(theirs)
    assert refused.code == 2 and theirs.id in refused.err and not folder.exists(), refused.err
    good(operator.weft("site", "apply", "--wait"))
    _names_resolve(lab, operator)
    group = next(g for g in own.security_groups() if g.name == "lab-bmc")
    rule = own.create_security_group_rule(
        security_group_id=group.id, direction="ingress", ether_type="IPv4", protocol="tcp"
    )
    done, folder = exported(operator, "--live")
    own.delete_security_group_rule(rule)
    assert f"has a rule {rule.id} that the site doesn't have" in good(done).out
    ids = imported(folder)
    assert ids.keys() == addresses(folder)
    listed = {r["id"] for r in operator.weft("site", "resources", "--json").json["resources"]}
    assert listed <= set(ids.values())
    with terraform(OS_CLIENT_CONFIG_FILE=str(lab.clouds_yaml)) as tool:
        lines = tool.plan(folder)
    changes = {c["resource"]["addr"]: c for line in without_errors(lines) if (c := line.get("change"))}
    assert {a: c["importing"]["id"] for a, c in changes.items()} == ids
    # The provider doesn't read ports' fixed_ip: it says the same address again.
    assert {c["action"] for a, c in changes.items() if "_port_v2" not in a} == {"import"}, "and nothing else"
    assert {c["action"] for a, c in changes.items() if "_port_v2" in a} == {"update"}
    good(operator.weft("site", "destroy", "--wait"))
    done, _ = exported(operator, "--live")
    assert "removed: " in good(done).out, "nothing is there, and nothing is imported"
    assert operator.weft("site", "receipt", "--json").json["receipt"]["clean"] is True


def _names_resolve(lab: Lab, operator: Person) -> None:
    """The real neutron-dhcp-agent's dnsmasq resolves each device's name, and a name that a tenant takes, too."""
    cloud = connection(lab, "operator")
    networks = {n.name: n.id for n in cloud.network.networks() if n.name in ("site-gw", "site-storage")}
    wanted = {f"{i.device}-{i.name}": str(i.address) for i in interfaces()}
    with dhcp_agent(lab, cloud) as names:
        for network in networks.values():
            wait_for(lambda network=network: names.serve(network))
        wait_for(lambda: all(names.serves(n) for n in networks.values()))
        gateways, storage = networks["site-gw"], networks["site-storage"]
        hardware = {n: a for n, a in wanted.items() if not n.startswith("nas")}
        asked = [f"{name}.lab.example" for name in hardware]
        wait_for(lambda: all(a not in ([], ["?"]) for a in names.resolved(gateways, asked).values()))
        assert names.resolved(gateways, asked) == {f"{n}.lab.example": [a] for n, a in hardware.items()}
        assert names.resolved(gateways, list(hardware)) == {n: [a] for n, a in hardware.items()}
        filer = ["nas1-eth0.lab.example"]
        wait_for(lambda: names.resolved(storage, filer)[filer[0]] == ["10.212.0.5"])
        # It has no other server to ask, and refuses to answer for what it doesn't know.
        assert names.resolved(gateways, ["m99-bmc.lab.example"]) == {"m99-bmc.lab.example": ["?"]}
        good(operator.weft("audit"))
        tenant = connection(lab, "team-a").network
        port = tenant.create_port(network_id=storage, name="theirs", dns_name="nas1-eth0")
        wait_for(lambda: len(names.resolved(storage, filer)[filer[0]]) == 2)
        assert "nas1-eth0" in operator.weft("audit").out
        tenant.delete_port(port)
        wait_for(lambda: names.resolved(storage, filer)[filer[0]] == ["10.212.0.5"])
        # With the cloud's own domain it is the same name.
        port = tenant.create_port(network_id=storage, name="theirs", dns_name="nas1-eth0.lab.example.")
        wait_for(lambda: len(names.resolved(storage, filer)[filer[0]]) == 2)
        assert "nas1-eth0.lab.example." in operator.weft("audit").out
        tenant.delete_port(port)


@pytest.mark.nightly(
    reason="half a minute; by day each by the driver on the real Nova and Glance, and the site on fakes"
)
@pytest.mark.parametrize("operator", ["nova"], indirect=True)
def test_flavors_and_images_go_from_plan_to_receipt(lab: Lab, people: People, operator: Person) -> None:
    """From the plan to the receipt: flavors are made, an image's properties are set; drift is mended; a pod's server
    is booted of one with an accelerator; all is given back."""
    cloud = connection(lab, "operator")
    lacking = operator.weft("site", "plan")
    assert lacking.code == 1 and "no active images of that name" in lacking.out, lacking.out
    service: Any = connection(lab, "weft").current_project_id
    images: Any = cloud.image
    image = images.create_image(
        name="gpu-image",
        data=b"no disk",
        disk_format="raw",
        container_format="bare",
        owner=service,
        hw_numa_nodes="1",
        allow_duplicates=True,
    )
    try:
        _flavor_and_image(operator, cloud, image.id, people("team-a"))
    finally:
        images.delete_image(image.id)


def _booted(operator: Person, cloud: Any, tenant: Person) -> None:
    """A server of the flavor that has the accelerator by its alias, which stays while the pod lives."""
    nodes = "{count: 1, flavor: part1, image: tiny, sharing: shared}"
    (tenant.folder / "part.yaml").write_text(f"name: part\nnodes: {nodes}\nfabric: none\n")
    good(tenant.weft("pod", "create", "-f", "part.yaml", "--wait"))
    (server,) = [s for s in cloud.compute.servers(all_projects=True) if s.name == "part-0"]
    has = server.flavor
    assert (has["original_name"], has["extra_specs"]["pci_passthrough:alias"]) == ("part1", "h100:1")
    assert "part with flavor part1" in operator.weft("site", "destroy").err
    good(tenant.weft("pod", "release", "part", "--wait"))


def _flavor_and_image(operator: Person, cloud: Any, image: str, tenant: Person) -> None:
    planned = good(operator.weft("site", "plan")).out
    assert "+  flavor/lab/numa4" in planned and "hw:mem_page_size=large" in planned, planned
    good(operator.weft("site", "apply", "--wait"))
    flavor = next(f for f in cloud.compute.flavors(get_extra_specs=True) if f.name == "numa4")
    wanted = {"hw:mem_page_size": "large", "hw:numa_nodes": "2"}
    assert (flavor.vcpus, flavor.ram) == (4, 4096) and wanted.items() <= flavor.extra_specs.items()
    assert cloud.image.get(f"/images/{image}").json()["hw_numa_nodes"] == "2"
    assert "Nothing to change" in good(operator.weft("site", "apply", "--wait")).out
    good(operator.weft("audit"))
    cloud.compute.create_flavor_extra_specs(flavor, {"hw:numa_nodes": "8"})
    plan = good(operator.weft("site", "plan")).out
    assert "hw:numa_nodes=8 → hw:numa_nodes=2" in plan, plan
    good(operator.weft("site", "apply", "--wait"))
    wait_for(lambda: cloud.compute.fetch_flavor_extra_specs(flavor).extra_specs["hw:numa_nodes"] == "2")
    _booted(operator, cloud, tenant)
    good(operator.weft("site", "destroy", "--wait"))
    receipt = operator.weft("site", "receipt", "--json").json["receipt"]
    assert receipt["clean"] and {i["plane"]: i["result"] for i in receipt["items"]}["flavor"] == "clean"
    assert {i["result"] for i in receipt["items"] if i["plane"] == "image_properties"} == {"kept"}
    assert not [f for f in cloud.compute.flavors() if f.name == "numa4"]
    left = cloud.image.get(f"/images/{image}").json()
    assert left["hw_numa_nodes"] == "1" and not [k for k in left if k.startswith(("weft", "trait"))]
