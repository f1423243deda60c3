"""A site's networks for Terraform: the files' contents, and Terraform's own validation of them and of broken ones."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.terraform import Json, Terraform, terraform, written
from tests.planning.site.test_site_graph import PROJECTS, ipupod64, subnet
from weft.model.errors import InputError
from weft.model.resources import Difference, Observed, Status
from weft.model.site import Device, Flavor, FlavorInNova, ImageProperties, Interface, Site, SiteNetwork
from weft.model.specs import PortSpec, RouterSpec, SecurityGroupSpec
from weft.planning.export.formats import export
from weft.planning.export.terraform import differing, graph_of, unknown_parts
from weft.planning.export.terraformtext import tf_name
from weft.planning.site.graph import site_graph
from weft.ports.existing import ExistingResources, ResourcePart

RULE = "openstack_networking_secgroup_rule_v2"
NETWORK = "openstack_networking_network_v2"


def network(vlan: int | None, subnets: Json, **more: object) -> SiteNetwork:
    known: Json = {"cloud": "main", "physical_network": "physnet-data", "subnets": subnets}
    return SiteNetwork.model_validate({**known, **more} | ({} if vlan is None else {"vlan": vlan}))


def full(own_external: bool = True) -> Site:
    """An IPU-POD64 and a network of each kind: shared, open, routed, untagged and external."""
    site = ipupod64()
    nat = subnet("tenant", gateway="10.9.0.1", nat=True, dns=["10.9.0.2"])
    more = {
        "storage": network(
            21,
            {"nas": {**subnet("storage"), "addresses": "10.10.0.0/16", "gateway": "10.10.0.1"}},
            shared_with=PROJECTS,
        ),
        "management": network(22, {"m.1": {**subnet("management"), "addresses": "10.11.0.0/16"}}),
        "ten_ant": network(23, {"t": nat}, mtu=9000, shared_with=PROJECTS[:1]),
    }
    if own_external:
        out = {**subnet("external"), "addresses": "192.0.2.0/24", "gateway": "192.0.2.1"}
        more["public"] = network(None, {"p": out}, physical_network="ext")
    return site.model_copy(update={"networks": {**site.networks, **more}})


def documents(site: Site, there: ExistingResources | None = None) -> dict[str, Json]:
    files = export(site, "terraform", None, there or ExistingResources())
    return {name: json.loads(text) for name, text in files.items() if name.endswith(".json")}


def resources(found: Mapping[str, Json]) -> dict[str, Json]:
    """Address -> fields, of all files."""
    return {
        f"{of}.{name}": fields
        for document in found.values()
        for of, named in document.get("resource", {}).items()
        for name, fields in named.items()
    }


@pytest.fixture(scope="module")
def tool() -> Generator[Terraform]:
    with terraform() as one:
        yield one


# -- contents ------------------------------------------------------------------------------------------------------


def test_every_graph_resource_has_its_own_block() -> None:
    """Shares, rules and interfaces have blocks of their own."""
    site, found = full(), resources(documents(full()))
    graph = site_graph(site).resources
    named = [f["name"] for f in found.values() if "name" in f]
    assert sorted(named) == sorted(r.name for r in graph)
    routers = [r.spec for r in graph if isinstance(r.spec, RouterSpec)]
    assert sum("_router_interface_v2" in a for a in found) == sum(len(r.subnets) for r in routers) == 1
    shared = [p for r in graph for p in getattr(r.spec, "shared_with", ())]
    assert sorted(f["target_tenant"] for a, f in found.items() if "_rbac_policy_v2" in a) == sorted(shared)


def test_hardware_named_like_a_network_has_its_own_port() -> None:
    """Next to the port that reserves the network's gateway address."""
    site = full()
    device = Device(name="storage", kind="storage")
    filer = Interface.model_validate(
        {
            "device": "storage",
            "name": "nas",
            "network": "storage",
            "mac": "02:00:00:00:00:77",
            "address": "10.10.0.77",
        }
    )
    more = {"devices": (*site.devices, device), "interfaces": (*site.interfaces, filer)}
    site = site.model_copy(update=more)
    wanted = {r.name for r in site_graph(site).resources if isinstance(r.spec, PortSpec)}
    assert {"storage-nas", "storage-nas-gateway"} <= wanted
    found = resources(documents(site))
    assert {f["name"] for a, f in found.items() if "_port_v2" in a} == wanted


def test_flavors_and_images_are_left_out() -> None:
    """weft alone makes them, since it remembers what was there before."""
    site = full()
    name, cloud = next(iter(site.clouds.items()))
    flavor = Flavor(cores=4, memory_mib=4096, nova=FlavorInNova())
    image = ImageProperties(properties={"hw_numa_nodes": "2"})
    update = {"flavors": {**cloud.flavors, "numa4": flavor}, "images": {"gpu": image}}
    other = site.model_copy(update={"clouds": {**site.clouds, name: cloud.model_copy(update=update)}})
    assert "flavor/" in str(site_graph(other).by_key()) and documents(other) == documents(site)


def test_hardware_ports_have_mac_and_name_and_no_filter() -> None:
    """A port that reserves a gateway's address has no MAC and no name."""
    site, found = full(), resources(documents(full()))
    ports = {r.name: r.spec for r in site_graph(site).resources if isinstance(r.spec, PortSpec)}
    blocks = [f for a, f in found.items() if "_port_v2" in a]
    assert len(blocks) == len(ports)
    for fields in blocks:
        spec = ports[fields["name"]]
        assert (fields.get("mac_address"), fields.get("dns_name")) == (spec.mac, spec.dns_name)
        assert fields["fixed_ip"][0]["ip_address"] == spec.address
        assert fields["port_security_enabled"] is False and fields["no_security_groups"] is True


def test_closed_group_has_only_its_rules_and_open_group_has_neutrons_defaults() -> None:
    site, found = full(), resources(documents(full()))
    for resource in site_graph(site).resources:
        if not isinstance(spec := resource.spec, SecurityGroupSpec):
            continue
        role = resource.key.rpartition("/")[2]
        rules = [f for a, f in found.items() if a.startswith(f"{RULE}.main_{role}_")]
        closed = spec.egress is not None
        assert len(rules) == len(spec.ssh_from) + len(spec.ingress) + (
            len(spec.egress or ()) if closed else 4
        )
        assert all(r.get("remote_ip_prefix") for r in rules) is closed
        assert found[f"openstack_networking_secgroup_v2.main_{role}"]["delete_default_rules"] is True


def test_router_has_no_snat_setting() -> None:
    """By default only administrators may set it."""
    off = Difference(field="nat", wanted="yes", observed="no")
    seen = {"router/ten_ant": Observed("r1", Status.SETTLED, "", (off,))}
    assert list(differing(graph_of(full(), "main"), seen)) == [
        "router/ten_ant r1 has nat no, not yes as in the site: Terraform leaves it"
    ]
    assert "snat" not in json.dumps(resources(documents(full()))["openstack_networking_router_v2.ten__ant"])


def test_router_uses_the_sites_or_the_clouds_external_network() -> None:
    own = resources(documents(full()))["openstack_networking_router_v2.ten__ant"]
    assert own["external_network_id"] == f"${{{NETWORK}.public.id}}"
    assert own["depends_on"] == ["openstack_networking_subnet_v2.public_p"], (
        "the router's gateway has an address there"
    )
    others = documents(full(own_external=False))
    assert others["main.tf.json"]["data"] == {NETWORK: {"external": {"name": "public", "external": True}}}
    router = resources(others)["openstack_networking_router_v2.ten__ant"]
    assert router["external_network_id"] == f"${{data.{NETWORK}.external.id}}" and "depends_on" not in router


def test_site_text_is_never_an_expression() -> None:
    """Terraform reads every JSON string as a template."""
    site = full(own_external=False)
    cloud = site.clouds["main"].model_copy(update={"external_network": '${file("/etc/shadow")}%{if true}'})
    main = documents(site.model_copy(update={"clouds": {"main": cloud}}))["main.tf.json"]
    assert main["data"][NETWORK]["external"]["name"] == '$${file("/etc/shadow")}%%{if true}'


NAMES = st.from_regex(r"[a-c0-1]([a-c0-1._-]{0,4}[a-c0-1])?", fullmatch=True)


@given(st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=2, max_size=2, unique_by=tuple))
def test_different_keys_have_different_names(keys: list[list[str]]) -> None:
    one, other = (tf_name("/".join(key)) for key in keys)
    assert one != other
    assert all(c.isascii() and (c.isalnum() or c in "_-") for c in one) and not one[0].isdigit()


def test_cloud_must_be_named_if_ambiguous() -> None:
    with pytest.raises(InputError, match="--cloud: 'other' is not allowed: one of the clouds with networks"):
        export(full(), "terraform", "other")
    bare = full().model_copy(update={"networks": {}, "interfaces": ()})
    with pytest.raises(InputError, match="there are none"):
        export(bare, "terraform")


def test_files_contain_only_the_credentials_profile() -> None:
    main = documents(full())["main.tf.json"]
    assert main["provider"] == {"openstack": {"cloud": "main"}}
    given_one = json.loads(export(full(), "terraform", profile="weft-main")["main.tf.json"])
    assert given_one["provider"] == {"openstack": {"cloud": "weft-main"}}


def everything_there(site: Site) -> ExistingResources:
    """As if all of the site were in the cloud, with one rule and one share more."""
    ids = {r.key: f"id-of-{r.key}" for r in site_graph(site).resources}
    by_block = {f"${{{NETWORK}.public.id}}": ids["network/public"]}
    parts: list[ResourcePart] = []
    for address, fields in resources(documents(site)).items():
        of = address.partition(".")[0]
        if of == RULE:
            group = fields["security_group_id"].rpartition("main_")[2].removesuffix(".id}")
            own = ids[f"security_group/main/{group}"]
            rule = {
                k: own if k == "remote_group_id" else v for k, v in fields.items() if k != "security_group_id"
            }
            parts.append(ResourcePart("rule", own, f"id-of-{address}", rule))
        elif of.endswith("rbac_policy_v2"):
            key = next(
                k for k in ids if tf_name(f"{k}/{fields['target_tenant']}") == address.partition(".")[2]
            )
            known = {name: fields[name] for name in ("action", "target_tenant")}
            parts.append(ResourcePart("share", ids[key], f"id-of-{address}", known))
        elif of.endswith("router_interface_v2"):
            parts.append(
                ResourcePart(
                    "interface", ids["router/ten_ant"], "a-port", {"subnet_id": ids["subnet/ten_ant/t"]}
                )
            )
    assert by_block
    return ExistingResources(ids, parts)


def test_existing_resources_are_imported_with_their_parts() -> None:
    site = full()
    found = documents(site, everything_there(site))
    imports = {one["to"]: one["id"] for one in found["imports.tf.json"]["import"]}
    assert imports.keys() == resources(found).keys()
    assert imports[f"{NETWORK}.ipu-gw"] == "id-of-network/ipu-gw"
    assert len(set(imports.values())) == len(imports)
    assert {k: v for k, v in found.items() if k != "imports.tf.json"} == documents(site), (
        "other resources are the same"
    )


def test_parts_with_other_owner_or_fields_do_not_match() -> None:
    site, group = full(), "security_group/main/bmc"
    rule = {"direction": "egress", "ethertype": "IPv4", "protocol": "icmp", "remote_ip_prefix": "10.1.0.0/16"}
    wider = {**rule, "remote_ip_prefix": "0.0.0.0/0"}
    there = ExistingResources(
        {group: "g1"}, [ResourcePart("rule", "g1", "r1", rule), ResourcePart("rule", "g1", "r2", wider)]
    )
    imports = documents(site, there)["imports.tf.json"]["import"]
    assert [i["id"] for i in imports] == ["g1", "r1"]
    (note,) = unknown_parts(site, "main", there)
    assert note == (
        "security_group/main/bmc has a rule r2 that the site doesn't have (direction egress, ethertype IPv4, protocol "
        "icmp, remote_ip_prefix 0.0.0.0/0): Terraform leaves it"
    )


# -- Terraform's validation ----------------------------------------------------------------------------------------


@pytest.mark.cloud
@pytest.mark.parametrize("own_external", [True, False])
def test_terraform_validates_the_files(tool: Terraform, tmp_path: Path, own_external: bool) -> None:
    site = full(own_external)
    for name, there in (("new", ExistingResources()), ("there", everything_there(full()))):
        folder = written(tmp_path / name, export(site, "terraform", None, there))
        assert tool.validate(folder) == []


@pytest.mark.cloud
def test_plan_imports_existing_resources_and_creates_the_rest(tool: Terraform, tmp_path: Path) -> None:
    site = full()
    whole = everything_there(site)
    ids = {k: v for k, v in whole.ids.items() if k.startswith(("network/", "security_group/"))}
    there = ExistingResources(ids, [p for p in whole.parts if p.of in ids.values()])
    found = documents(site, there)
    imports = {one["to"]: one["id"] for one in found["imports.tf.json"]["import"]}
    lines = tool.plan(written(tmp_path, export(site, "terraform", None, there)))
    (changes,) = [line["changes"] for line in lines if line["type"] == "change_summary"]
    assert (changes["import"], changes["add"]) == (len(imports), len(resources(found)) - len(imports))
    assert changes["remove"] == 0
    imported = {
        line["change"]["resource"]["addr"]: line["change"]["importing"]["id"]
        for line in lines
        if line["type"] == "planned_change" and "importing" in line["change"]
    }
    assert imported == imports


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of every field inside, but not of a list's elements."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*path, name)
            yield from paths(inner, (*path, name))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from paths(value[0], (*path, 0))


def at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def misspelt(parent: Json, name: str) -> None:
    parent[f"{name}x"] = parent.pop(name)


def of_another_type(parent: Json, name: str) -> None:
    match parent[name]:
        case bool() | int():
            parent[name] = "many"
        case str():
            parent[name] = ["several"]
        case _:
            parent[name] = 7


def of_nothing(parent: Json, name: str) -> None:
    """A reference to a resource that doesn't exist."""
    parent[name] = parent[name].replace(".id}", "-nobody.id}")


def left_out(parent: Json, name: str) -> None:
    del parent[name]


REQUIRED = {
    "openstack_networking_subnet_v2": {"network_id"},
    "openstack_networking_port_v2": {"network_id"},
    "openstack_networking_router_interface_v2": {"router_id"},
    "openstack_networking_secgroup_v2": {"name"},
    RULE: {"direction", "ethertype", "security_group_id"},
    "openstack_networking_rbac_policy_v2": {"action", "object_id", "object_type", "target_tenant"},
}
"""By the provider's schema; and both ends of a pool."""
REQUIRED_INSIDE = {("allocation_pool", "start"), ("allocation_pool", "end")}


def mutants(found: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Each field of each type wrong in each way: its description and a file with one such resource."""
    seen: set[tuple[str, tuple[str | int, ...]]] = set()
    for address, fields in resources(found).items():
        of = address.partition(".")[0]
        for path in paths(fields):
            if (of, path) in seen:
                continue
            seen.add((of, path))
            value, name = at(fields, path), str(path[-1])
            ways: list[Callable[[Json, str], None]] = [misspelt, of_another_type]
            if isinstance(value, str) and value.startswith("${"):
                ways.append(of_nothing)
            inside = (path[0], name) in REQUIRED_INSIDE
            if inside or (len(path) == 1 and name in REQUIRED.get(of, ())):
                ways.append(left_out)
            for way in ways:
                wrong = copy.deepcopy(fields)
                way(at(wrong, path[:-1]), name)
                what = f"{of}.{'.'.join(map(str, path))} {way.__name__}"
                yield what, {"resource": {of: {f"mutant{len(seen)}{way.__name__}": wrong}}}


@pytest.mark.cloud
def test_validation_finds_each_wrong_field(tool: Terraform, tmp_path: Path) -> None:
    """Misspelt, of another type, a reference to nothing, or a missing required field."""
    folder = written(tmp_path, export(full(), "terraform"))
    wrong = {f"wrong{n:03d}.tf.json": one for n, one in enumerate(mutants(documents(full())))}
    assert len(wrong) > 100
    for name, (_, document) in wrong.items():
        (folder / name).write_text(json.dumps(document))
    # Terraform reports its own findings before it asks the provider, so validate again without the files found.
    while wrong:
        places = {d["range"]["filename"] for d in tool.validate(folder) if d.get("range")}
        assert places, f"not found: {[what for what, _ in wrong.values()]}"
        assert places <= wrong.keys(), "a correct file is reported"
        for name in places:
            del wrong[name]
            (folder / name).unlink()


@pytest.mark.cloud
@pytest.mark.nightly(
    reason="Terraform validates twenty times; by day once with every wrong field of a resource"
)
def test_validation_finds_each_wrong_field_outside_resources(tool: Terraform, tmp_path: Path) -> None:
    """Versions, the provider, the external network that isn't the site's, imports; and a cycle."""
    site = full(own_external=False)
    there = ExistingResources({"network/ipu-gw": "an-id"})
    files = export(site, "terraform", None, there)

    def wrong(name: str, path: Sequence[str | int], way: Callable[[Json, str], None]) -> list[Json]:
        document = json.loads(files[name])
        way(at(document, path[:-1]), str(path[-1]))
        folder = tmp_path / f"{name}-{'-'.join(map(str, path))}-{way.__name__}"
        return tool.validate(written(folder, {**files, name: json.dumps(document)}))

    def nonsense(parent: Json, name: str) -> None:
        parent[name] = "nonsense of all sorts"

    main, looked = "main.tf.json", ("data", NETWORK, "external")
    cases: list[tuple[str, Sequence[str | int], Callable[[Json, str], None]]] = [
        (main, ("terraform",), misspelt),
        (main, ("terraform", "required_version"), misspelt),
        (main, ("terraform", "required_version"), nonsense),
        (main, ("terraform", "required_providers", "openstack", "source"), nonsense),
        (main, ("terraform", "required_providers", "openstack", "source"), misspelt),
        (main, ("terraform", "required_providers", "openstack", "version"), nonsense),
        (main, ("terraform", "required_providers", "openstack", "version"), misspelt),
        (main, ("provider", "openstack", "cloud"), misspelt),
        (main, ("provider", "openstack", "cloud"), of_another_type),
        (main, (*looked, "name"), misspelt),
        (main, (*looked, "name"), of_another_type),
        (main, (*looked, "external"), misspelt),
        (main, (*looked, "external"), of_another_type),
        (main, looked, misspelt),
        ("imports.tf.json", ("import", 0, "to"), nonsense),
        ("imports.tf.json", ("import", 0, "to"), left_out),
        ("imports.tf.json", ("import", 0, "id"), left_out),
        ("imports.tf.json", ("import", 0, "id"), misspelt),
        ("imports.tf.json", ("import",), misspelt),
    ]
    assert [(name, path, way.__name__) for name, path, way in cases if not wrong(name, path, way)] == []

    def cycle(parent: Json, name: str) -> None:
        parent[name] = "${openstack_networking_port_v2.lr75-ipum1_bmc.id}"

    path = ("resource", NETWORK, "ipu-gw", "name")
    assert "Cycle" in json.dumps(wrong("networks.tf.json", path, cycle))
