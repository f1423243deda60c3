"""Networks that a tenant made itself on a lab's InfiniBand, as Neutron, weft, the manager and the ports have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from openstack.connection import Connection

from tests.e2e.people import People, Person, connection, wait_for
from weft.model.site import Hca, Site
from weftlab.fabric.faults import Faults
from weftlab.lab import Lab

LAST = 0x17E
"""Last number of the lab's range; weft gives out the first ones."""


@dataclass
class Cloud:
    """Networks of team-b on the fabric's physical network, as Neutron has them."""

    lab: Lab
    admin: Connection
    tenant: Connection
    person: Person
    faults: Faults
    networks: list[Any] = field(default_factory=list[Any])

    @property
    def site(self) -> Site:
        return self.lab.site

    def network(self, number: int) -> Any:
        made = self.admin.network.create_network(
            name=f"own-{number}",
            project_id=self.tenant.current_project_id,
            provider_network_type="vlan",
            provider_physical_network="ibnet",
            provider_segmentation_id=number,
            port_security_enabled=False,
        )
        self.networks.append(made)
        self.admin.network.create_subnet(
            network_id=made.id,
            project_id=self.tenant.current_project_id,
            ip_version=4,
            cidr=f"198.18.{(number % 32) * 4}.0/22",
            enable_dhcp=False,
        )
        return made

    def bare_metal(self, network: Any, host: str, hca: Hca) -> Any:
        """As Ironic binds it: host, and a client-id that names the adapter."""
        guid = hca.port_guid.to_bytes(8, "big").hex(":")
        return self.admin.network.create_port(
            network_id=network.id,
            project_id=self.tenant.current_project_id,
            device_owner="baremetal:none",
            binding_vnic_type="baremetal",
            binding_host_id=host,
            extra_dhcp_opts=[
                {"opt_name": "client-id", "opt_value": f"ff:00:00:00:00:00:02:00:00:02:c9:00:{guid}"}
            ],
        )

    def server(self, network: Any, vnic_type: str) -> tuple[Any, Any]:
        """A server that is up, and its port, which Nova found a device for."""
        tenant: Any = self.tenant
        port = tenant.network.create_port(network_id=network.id, binding_vnic_type=vnic_type)
        image, flavor = tenant.image.find_image("tiny"), tenant.compute.find_flavor("cpu1")
        server = tenant.compute.create_server(
            name="own", image_id=image.id, flavor_id=flavor.id, networks=[{"port": port.id}]
        )
        return tenant.compute.wait_for_server(server, wait=120), port

    def end(self, server: Any) -> None:
        self.tenant.compute.delete_server(server)
        self.tenant.compute.wait_for_delete(server)

    def journal(self, *more: str) -> Any:
        """`weft network journal` beside Neutron: its exit code, and the rows that are stuck."""
        config = self.lab.layout.etc / "neutron" / "neutron.conf"
        shown = self.person.weft(
            "network", "journal", "--neutron-config", str(config), "--json", "--older", "20", *more
        )
        return shown.code, shown.json

    def wanted(self, network: Any) -> set[int]:
        """GUIDs by Neutron's database alone: bound ports, by client-id or by host and PCI address."""
        found: set[int] = set()
        for port in self.admin.network.ports(network_id=network.id):
            node = next((n for n in self.site.nodes if n.nova_host == port.binding_host_id), None)
            if node is None or port.binding_vif_type not in ("other", "hostdev_physical"):
                continue
            options = [o["opt_value"] for o in port.extra_dhcp_opts if o["opt_name"] == "client-id"]
            slot = (port.binding_profile or {}).get("pci_slot")
            found |= {int(text.replace(":", "")[-16:], 16) for text in options}
            found |= {h.port_guid for h in node.hcas_on("ib0") if slot and h.pci == slot}
        return found

    def wired(self, number: int) -> set[int]:
        """GUIDs of the host ports that have the P_Key as full members, each with its leaf's, read from the ports."""
        tables = self.faults.read_tables([h.port_guid for n in self.site.nodes for h in n.hcas_on("ib0")])
        for host, leaf in tables.values():
            assert (0x8000 | number in host) == (0x8000 | number in leaf)
        return {guid for guid, (host, _) in tables.items() if 0x8000 | number in host}

    def is_wired(self, network: Any, number: int) -> bool:
        """Whether the wire is what Neutron's database says; not while a change is under way."""
        try:
            return self.wired(number) == self.wanted(network)
        except AssertionError:
            return False

    def settled(self, network: Any, number: int) -> set[int]:
        """Wait until weft says that exactly Neutron's are in; the wire must be what Neutron's database says."""

        def said() -> bool:
            shown = self.person.weft("network", "show", network.id, "--json")
            if not shown.out or shown.code == 1:
                return False
            members = {int(p["member"], 16) for p in shown.json.get("ports", ()) if p["state"] == "in"}
            return members == self.wanted(network)

        wait_for(said)
        wired = self.wired(number)
        assert wired == self.wanted(network)
        return wired


def adapters(site: Site, first: int, count: int) -> list[tuple[str, Hca]]:
    """Host and adapter, of GPU nodes from the `first` on."""
    nodes = [n for n in site.nodes if n.role == "compute"][first:]
    return [(n.nova_host, h) for n in nodes for h in n.hcas_on("ib0")][:count]


def cloud_of(lab: Lab, people: People) -> Iterator[Cloud]:
    """A lab's networks of tenants; all of them are gone at the end."""
    assert lab.settings.tenant_networks, "WEFT_TEST_LAB: that lab is without --tenant-networks"
    with closing(connection(lab, "operator")) as admin, closing(connection(lab, "team-b")) as tenant:
        faults = Faults(lab.layout, lab.site, lab.supervisor)
        made = Cloud(lab, admin, tenant, people("operator"), faults)
        yield made
        lab.up()
        for network in made.networks:
            for port in admin.network.ports(network_id=network.id):
                if port.device_id and port.device_owner.startswith("compute:"):
                    tenant.compute.delete_server(port.device_id, ignore_missing=True)
                    tenant.compute.wait_for_delete(tenant.compute.get_server(port.device_id))
                admin.network.delete_port(port.id, ignore_missing=True)
            admin.network.delete_network(network.id, ignore_missing=True)
