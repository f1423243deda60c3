"""Port forwardings of floating IPs, which any member of a floating IP's project may set.

While a floating IP has one, Neutron refuses to delete it, keeps its router whatever its port is set to, and refuses to
remove the router's interface that it goes through (neutron, `services.portforwarding.pf_plugin`, `db.l3_db`:
`_check_and_get_fip_assoc`, `_check_router_interface_not_in_use`).
"""

from __future__ import annotations

from weft.drivers.openstack.session import Project

FORWARDING = "floating-ip-port-forwarding"
"""Neutron's extension."""


def end_forwardings(project: Project, floating_ip: str) -> None:
    """Delete the port forwardings of one floating IP of the project. Raises the error."""
    if FORWARDING not in project.extensions.of(project.network):
        return
    asked, path = (
        f"list port forwardings of floating IP {floating_ip}",
        f"/floatingips/{floating_ip}/port_forwardings",
    )
    for row in project.network.listing(asked, path, "port_forwardings", {"fields": ("id",)}):
        gone = f"delete port forwarding {row['id']} of floating IP {floating_ip}"
        project.network.ask(gone, "DELETE", f"{path}/{row['id']}", ok=(404,))
