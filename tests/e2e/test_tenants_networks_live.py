"""What a tenant does to a pod's networks with its own token, and a foreign network on weft's numbers, on the lab."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.e2e.people import People, connection
from tests.e2e.pod_watch import PodWatch
from weft.app.sitefile import load_site
from weftlab.lab import Lab

pytestmark = pytest.mark.cloud


@pytest.mark.nightly(reason="by day on fakes; a tenant's marks and locks are tried on the lab")
def test_changes_by_a_tenant_to_its_pods_networks_are_repaired(lab: Lab, people: People) -> None:
    """Share and address pairs are taken off; the tenant's own port is named at the release, and goes with a repair."""
    tenant, operator = people("team-a"), people("operator")
    management = load_site(lab.site_path).clouds["lab"].management
    admin, own = connection(lab, "operator"), connection(lab, "team-a")
    other = connection(lab, "team-b").current_project_id
    taken = {n.provider_segmentation_id for n in admin.network.networks()}
    first = next(n for n in management.segments.numbers() if n not in taken)
    stranger = admin.network.create_network(
        name="stranger",
        provider_network_type="vlan",
        provider_physical_network=management.physical_network,
        provider_segmentation_id=first,
    )
    guest = None
    try:
        made = tenant.order("guests", 1, "--wait")
        assert made.code == 0, made.err
        pod = tenant.weft("pod", "show", "guests", "--json").json
        assert pod["vlan"] != first
        name = f"weft-{pod['id'][:8]}-"
        networks = {n.name.removeprefix(name): n for n in own.network.networks() if n.name.startswith(name)}
        (port,) = [
            p for p in own.network.ports() if p.name.startswith(name) and p.name.endswith("management")
        ]
        own.network.create_rbac_policy(
            object_type="network",
            object_id=networks["network-rdma"].id,
            action="access_as_shared",
            target_project_id=other,
        )
        own.network.update_port(port, allowed_address_pairs=[{"ip_address": "0.0.0.0/0"}])
        with closing(PodWatch(lab, pod["id"])) as watch:
            watch.visits_until(
                lambda: not list(own.network.rbac_policies(object_id=networks["network-rdma"].id)),
                "the share is taken back",
            )
            watch.visits_until(
                lambda: not own.network.get_port(port.id).allowed_address_pairs,
                "the address pairs are gone",
            )

        guest = own.network.create_port(network_id=networks["network-management"].id, name="guest")
        tenant.weft("pod", "release", "guests")

        def named() -> bool:
            reason = operator.weft("pod", "show", pod["id"], "--json").json["reason"]
            return guest.id in reason or "guest" in reason

        with closing(PodWatch(lab, pod["id"])) as watch:
            watch.visits_until(named, "the reason names the port in the way", 200.0)
        found = operator.weft("audit", "--json").json["findings"]
        assert guest.id in {f["id"] for f in found if f["category"] == "foreign"}
        operator.weft("audit", "--repair", timeout=400)
        ended = tenant.weft("pod", "release", "guests", "--wait")
        assert ended.code == 0, ended.err
        assert tenant.weft("pod", "receipt", pod["id"], "--json").json["receipt"]["clean"]
        guest = None
    finally:
        if guest is not None:
            own.network.delete_port(guest.id, ignore_missing=True)
        admin.network.delete_network(stranger.id)
