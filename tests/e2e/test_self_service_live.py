"""A pod whose management network Neutron itself picks, on the lab: a VXLAN, with servers on it, and gone in the end."""

from __future__ import annotations

import pytest

from tests.e2e.people import People, connection
from weft.app.sitefile import load_site
from weft.model.site import ManagementNetwork
from weftlab.lab import Lab

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(
        reason="a minute and a half; by day on fakes, and Neutron's networks in the contract"
    ),
]


def test_pod_on_a_self_service_network_goes_from_order_to_receipt(lab: Lab, people: People) -> None:
    """No number of weft's, the same isolation of RDMA, a floating IP through the router, a clean audit and receipt."""
    tenant, operator, cloud = people("team-a"), people("operator"), connection(lab, "operator")
    site = load_site(lab.site_path)
    block = site.clouds["lab"].management.addresses
    management = ManagementNetwork(type="self-service", addresses=block)
    changed = site.clouds["lab"].model_copy(update={"management": management})
    file = operator.folder / "self-service.yaml"  # JSON is YAML
    file.write_text(site.model_copy(update={"clouds": {"lab": changed}}).model_dump_json())
    active = operator.weft("site", "activate", str(file))
    assert active.code == 0, active.err
    try:
        made = tenant.order("overlay", 2, "--wait", floating="first")
        assert made.code == 0, made.err
        pod = tenant.weft("pod", "show", "overlay", "--json").json
        assert pod["state"] == "READY" and pod["vlan"] is None
        mark = f"weft-{pod['id'][:8]}-"
        network = next(n for n in cloud.network.networks() if n.name == f"{mark}network-management")
        assert (network.provider_network_type, network.provider_physical_network) == ("vxlan", None)
        ports = [p for p in cloud.network.ports(network_id=network.id) if p.name.startswith(mark)]
        assert {p.binding_vif_type for p in ports} == {"ovs"} and len(ports) == 2
        audit = operator.weft("audit")
        assert audit.code == 0, audit.out
        assert tenant.weft("pod", "release", "overlay", "--wait").code == 0
        assert tenant.weft("pod", "receipt", "overlay", "--json").json["receipt"]["clean"] is True
        assert not [n for n in cloud.network.networks() if n.name.startswith(mark)]
    finally:
        tenant.weft("pod", "release", "overlay", "--wait")
        back = operator.weft("site", "activate", str(lab.site_path))
        assert back.code == 0, back.err
