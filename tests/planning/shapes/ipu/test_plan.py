"""An order of IPUs: the plan, what it refuses, and what no tenant may reach or read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from email import message_from_string
from typing import Any

import pytest
import yaml

from tests.helpers.offers import offers
from tests.helpers.paths import EXAMPLES
from tests.helpers.smallsite import POD_ID
from weft.app.sitefile import load_site
from weft.model.errors import InputError
from weft.model.order import Order
from weft.model.placement import Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.model.quota import needed_quota
from weft.model.resources import Graph
from weft.model.site import Site, SiteNetwork, Storage
from weft.model.specs import NetworkSpec, PortSpec, ServerSpec
from weft.planning.place.slots import slot
from weft.planning.shapes.ipu.init import NOVA_LIMIT
from weft.planning.shapes.ipu.plan import check_reach
from weft.planning.shapes.plan import make_plan
from weft.planning.shapes.plantext import plan_text

SITE = load_site(EXAMPLES / "sites" / "ipupod64" / "site.yaml")
ORDER: dict[str, Any] = {
    "name": "bert",
    "ipus": {"count": 16},
    "nodes": {"count": 1, "flavor": "poplar", "image": "ubuntu"},
}


def planned(
    used: UsedNumbers | None = None, site: Site = SITE, occupancy: Occupancy | None = None, **changed: Any
) -> Plan | Refusal:
    order = Order.model_validate({**ORDER, **changed})
    return make_plan(POD_ID, "team", order, site, occupancy or Occupancy(), used or UsedNumbers(), {})


def good(**changed: Any) -> Plan:
    plan = planned(**changed)
    assert isinstance(plan, Plan), plan.reason
    return plan


def user_data(plan: Plan, key: str) -> str:
    spec = plan.graph.by_key()[key].spec
    assert isinstance(spec, ServerSpec) and spec.user_data is not None
    return spec.user_data


def written(config: Mapping[str, Any]) -> dict[str, str]:
    return {f["path"]: f["content"] for f in config["write_files"]}


def test_tenant_resources_are_not_on_closed_networks() -> None:
    """Only the controller has a port on the gateways' network; port and server aren't in the tenant's project."""
    plan = good()
    on_gateway = [r for r in plan.graph.resources if isinstance(r.spec, PortSpec) and r.spec.site_network]
    assert [(r.key, r.owner) for r in on_gateway] == [("port/controller/gateway", "site")]
    assert {r.key for r in plan.graph.resources if r.owner == "site"} >= {
        "server/controller",
        "port/controller/management",
    }
    poplar = user_data(plan, "server/poplar1")
    assert "10.2." not in poplar and "10.1." not in poplar


@pytest.mark.parametrize("change", ["port", "vlan"])
def test_graph_that_reaches_closed_networks_is_refused(change: str) -> None:
    """The plan's check finds a tenant's port there, and a tenant's network with that VLAN."""
    plan = good()
    resources = plan.graph.by_key()
    if change == "port":
        key = "port/controller/gateway"
        resources[key] = resources[key].model_copy(update={"owner": "tenant"})
    else:
        spec = NetworkSpec(physical_network="physnet-1g", segment=13, port_security=True)
        resources["network/data"] = resources["network/data"].model_copy(update={"spec": spec})
    with pytest.raises(ValueError, match="a tenant would reach one of the site's own networks"):
        check_reach(Graph(resources=tuple(resources.values())), SITE, "pod1")


def test_controller_cloud_init_has_the_whole_order() -> None:
    """Agents in cable order, cluster, allocation, user; the admin API on the gateways' network only."""
    plan = good()
    config = yaml.safe_load(user_data(plan, "server/controller"))
    order = json.loads(written(config)["/etc/openvipu/order.json"])
    assert [a["host"] for a in order["agents"]] == [f"10.2.1.{n}" for n in (1, 2, 3, 4)]
    assert order["clusters"][0]["topology"] == "mesh" and order["allocations"][0]["cluster"] == "bert"
    unit = written(config)["/etc/systemd/system/openvipu.service"]
    assert "--admin-address 10.2.250.1:8091" in unit and "--user-address 10.2.250.1:8090" in unit
    # TLS on the gateways' network; on the tenant's management network the user API, which Poplar can use
    assert "--tls /etc/openvipu/tls --no-client-certificates --agents-ca /etc/openvipu/agents-ca.crt" in unit
    assert "--plain-user-address 10.64." in unit
    assert written(config)["/etc/openvipu/agents-ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
    assert f"weft-{POD_ID}" in config["runcmd"][1]
    whole = good(ipus={"count": 64})
    order = json.loads(
        written(yaml.safe_load(user_data(whole, "server/controller")))["/etc/openvipu/order.json"]
    )
    assert order["clusters"][0]["topology"] == "torus" and len(order["agents"]) == 16


def test_plan_contains_no_keys() -> None:
    """It has placeholders for keys; each server gets only its own key."""
    plan = good()
    specs = {r.key: r.spec for r in plan.graph.resources if isinstance(r.spec, ServerSpec)}
    assert specs["server/poplar1"].secrets == ("vipu-tenant-key",)
    assert "${weft:vipu-admin-key}" in user_data(plan, "server/controller")
    assert "admin-key" not in user_data(plan, "server/poplar1")
    config = yaml.safe_load(user_data(plan, "server/controller"))
    secret = [f for f in config["write_files"] if "${weft:" in f["content"]]
    assert len(secret) == 7 and {f["permissions"] for f in secret} == {"0600"}


def test_poplar_config_files_are_written() -> None:
    """The controller's address for Poplar and for `vipu`, and the tenant's own user data."""
    plan = good()
    files = written(yaml.safe_load(user_data(plan, "server/poplar1")))
    assert "export IPUOF_VIPU_API_HOST=10.64.0.17\n" in files["/etc/profile.d/vipu.sh"]
    assert "export IPUOF_VIPU_API_PARTITION_ID=bert\n" in files["/etc/profile.d/vipu.sh"]
    assert 'api-host="10.64.0.17"' in files["/etc/vipu/vipu-cli.hcl"]
    own = "#cloud-config\nwrite_files: [{path: /mine, content: x}]\n"
    both = message_from_string(user_data(good(access={"user_data": own}), "server/poplar1"))
    parts = [p.get_payload() for p in both.walk() if not p.is_multipart()]
    assert str(parts[0]).strip() == own.strip() and "vipu-cli.hcl" in str(parts[1])
    with pytest.raises(InputError, match=r"access\.user_data.*besides what a Poplar server needs"):
        good(access={"user_data": "x" * (NOVA_LIMIT - 10)})


def test_poplar_servers_mount_storage_beside_config_files() -> None:
    """The script comes after Poplar's files and the tenant's user data; only Poplar servers have storage."""
    cloud = SITE.clouds["main"].model_copy(update={"storage": Storage(shares=True, volumes=True)})
    site = SITE.model_copy(update={"clouds": {"main": cloud}})
    storage = [
        {"share": "data", "size": "1TiB", "mount": "/data"},
        {"volume": "v", "size": "1GiB", "mount": "/v"},
    ]
    plan = good(site=site, storage=storage, access={"user_data": "#cloud-config\nx: 1\n"})
    parts = message_from_string(user_data(plan, "server/poplar1")).walk()
    kinds = [p.get_content_type() for p in parts if not p.is_multipart()]
    assert kinds == ["text/plain", "text/cloud-config", "text/x-shellscript"]
    there = plan.graph.by_key()
    assert {
        "share/data",
        "share_access/data/poplar1",
        "volume/v/0",
        "volume_attachment/v/poplar1",
    } <= there.keys()
    assert not any("controller" in key for key in there if key.startswith(("share", "volume")))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"ipus": {"count": 16, "ipu_pod": "pod9"}}, "'pod9' is not allowed: IPU-PODs of cloud main: pod1"),
        (
            {"nodes": {**ORDER["nodes"], "spare": 1}},
            "nodes.spare: 1 is not allowed: 0 or omitted: orders of IPUs have no spares",
        ),
        ({"locality": {"exclusive": True}}, "locality: 'given' is not allowed: must be omitted: IPUs are always "
            "adjacent"),
        ({"fabric": {"hcas": "shared"}}, "fabric: 'given' is not allowed: must be omitted: IPU pods use"),
        ({"locality": {"required": "leaf"}}, "locality: 'given' is not allowed: must be omitted: IPUs are always "
            "adjacent"),
        ({"network": {"rdma": "10.9.0.0/24"}}, "network.rdma: '10.9.0.0/24' is not allowed: must be omitted: the data "
            "network"),
        ({"network": {"management": "10.2.9.0/24"}}, "must not overlap the IPU-Gateway network 10.2.0.0/16"),
        ({"network": {"management": "10.1.9.0/24"}}, "must not overlap the BMC network 10.1.0.0/16"),
        ({"nodes": {**ORDER["nodes"], "count": 17}}, "nodes.count: 17 is not allowed: at most 16 Poplar servers"),
        ({"nodes": {**ORDER["nodes"], "flavor": "gpu"}}, "nodes.flavor: 'gpu' is not allowed: flavors of cloud main"),
    ],
)  # fmt: skip
def test_invalid_order_is_an_input_error(changed: dict[str, Any], sentence: str) -> None:
    """With field, value and what is allowed."""
    with pytest.raises(InputError) as raised:
        planned(**changed)
    assert sentence in str(raised.value)


def test_order_without_ipu_pods_is_refused() -> None:
    """The reason says that the site has no IPU-POD."""
    with pytest.raises(InputError, match="cloud main has no IPU-POD"):
        planned(site=SITE.model_copy(update={"ipu_pods": {}, "ipu_machines": ()}))


@pytest.mark.parametrize(
    ("used", "sentence"),
    [
        ({"data/pod1": range(1100, 1200)}, "all VLANs of its data network are in use"),
        ({"controller/pod1": range(1, 255)}, "all addresses for V-IPU controllers are in use"),
    ],
)
def test_exhausted_numbers_are_refused(used: dict[str, range], sentence: str) -> None:
    """The refusal names the range."""
    refused = planned(UsedNumbers(spaces={space: frozenset(n) for space, n in used.items()}))
    assert isinstance(refused, Refusal) and sentence in refused.reason and offers(refused)


def places(**taken: int) -> dict[str, str]:
    """The first places of these hosts, held by a pod."""
    return {slot(host, n): "other" for host, count in taken.items() for n in range(1, count + 1)}


@pytest.mark.parametrize(
    ("taken", "sentence"),
    [
        (places(poplar1=8, poplar2=8), "0 Poplar servers with capacity, 1 are needed"),
        (places(generic1=8, generic2=16), "0 nodes for V-IPU controllers with capacity"),
    ],
)
@pytest.mark.parametrize("field", ["busy", "reserved"])
def test_shared_hosts_have_limited_slots(taken: dict[str, str], sentence: str, field: str) -> None:
    """Held, booked and set-aside places count; the refusal names what is exhausted."""
    refused = planned(occupancy=Occupancy().model_copy(update={field: taken}))
    assert isinstance(refused, Refusal) and sentence in refused.reason and offers(refused)
    one_left = {name: why for name, why in taken.items() if not name.endswith("/8")}
    assert isinstance(planned(occupancy=Occupancy().model_copy(update={field: one_left})), Plan)


def test_ipu_pod_without_room_for_servers_is_skipped() -> None:
    """The better run is skipped if no Poplar server has room; the reason is reported if no other run fits."""
    pod = SITE.ipu_pods["pod1"]
    second = tuple(
        m.model_copy(update={"name": f"second{m.position}", "ipu_pod": "pod2"}) for m in SITE.ipu_machines
    )
    hosts = [n.model_copy(update={"ipu_pod": "pod2"}) if n.role == "poplar" else n for n in SITE.nodes]
    site = SITE.model_copy(
        update={
            "ipu_pods": {"pod1": pod, "pod2": pod},
            "ipu_machines": (*SITE.ipu_machines, *second),
            "nodes": tuple(hosts),
        }
    )
    assert good(site=site).fabric == "pod2"
    refused = planned(site=site, ipus={"count": 16, "ipu_pod": "pod1"})
    assert isinstance(refused, Refusal)
    assert refused.reason == "IPU-POD pod1 has 0 Poplar servers with capacity, 1 are needed"


def test_shared_hosts_fill_evenly_and_skip_what_is_down() -> None:
    """The host with the most room first; two Poplar servers of one pod never share a host."""
    two = good(nodes={**ORDER["nodes"], "count": 2})
    assert {"server/poplar1", "server/poplar2"} <= set(two.graph.by_key())
    down = good(occupancy=Occupancy(down={"poplar1": "Nova host poplar1 is down"}))
    assert "server/poplar2" in down.graph.by_key()
    refused = planned(nodes={**ORDER["nodes"], "count": 3})
    assert isinstance(refused, Refusal) and offers(refused) == ("nodes.count: 2 instead of 3",)


def test_tenants_quota_is_not_charged_for_the_controller() -> None:
    """It is charged for one server and its ports, the machines' ports and its own group."""
    needed = needed_quota(good().graph, 4, 1024)
    assert needed == {
        "networks": 2,
        "subnets": 2,
        "ports": 6,
        "servers": 1,
        "cores": 4,
        "RAM (MiB)": 1024,
        "security groups": 1,
        "security group rules": 5,
    }


def test_plan_text_is_deterministic() -> None:
    """It has machines, reasons, VLANs and resources, and no P_Key."""
    text = plan_text(good())
    assert text == plan_text(good())
    assert "IPU-Machines: 4 (16 IPUs) of IPU-POD pod1" in text and "P_Key" not in text
    assert "IPU data    VLAN 1100 on physnet-data, 10.5.1.0/24" in text
    assert "4 V-IPU agents, 1 V-IPU cluster, 1 V-IPU allocation, 1 V-IPU user" in text


@pytest.mark.parametrize("cloud", ["main", "other", None])
def test_rnics_have_host_names_where_the_site_has_them(cloud: str | None) -> None:
    """Only in the cloud of the site's networks: elsewhere Neutron may not support names."""
    known: dict[str, Any] = {"cloud": cloud, "physical_network": "sitenet", "vlan": 13}
    known["subnets"] = {"bmc": {"role": "bmc", "addresses": "10.201.0.0/16"}}
    network = SiteNetwork.model_validate(known)
    plan = planned(site=SITE.model_copy(update={"networks": {"bmc": network} if cloud else {}}))
    assert isinstance(plan, Plan), plan.reason
    specs = {r.node: r.spec for r in plan.graph.resources if isinstance(r.spec, PortSpec) and r.spec.mac}
    assert len(specs) == 4 and specs.keys() <= {m.name for m in SITE.ipu_machines}
    assert all(s.dns_name == (f"{name}-rnic" if cloud == "main" else None) for name, s in specs.items())
