"""How much of each quota a graph needs."""

from __future__ import annotations

from weft.model.resources import Graph, Kind

_COUNTED = {
    Kind.NETWORK: "networks",
    Kind.SUBNET: "subnets",
    Kind.PORT: "ports",
    Kind.ROUTER: "routers",
    Kind.FLOATING_IP: "floating IPs",
    Kind.SECURITY_GROUP: "security groups",
    Kind.KEY_PAIR: "key pairs",
    Kind.SERVER: "servers",
}

RULES_OF_A_GROUP = 4
"""Security group rules that a group has without any for SSH: out (IPv4, IPv6) and inside the group (the same)."""


def needed_quota(graph: Graph, vcpus: int, ram: int) -> dict[str, int]:
    """Quota's name -> how much of the tenant's the graph needs; zeros left out.

    Args:
        vcpus: virtual CPUs of the flavor.
        ram: memory of the flavor in MiB.
    """
    needed: dict[str, int] = {}

    def add(name: str, amount: int) -> None:
        if amount:
            needed[name] = needed.get(name, 0) + amount

    for resource in graph.resources:
        if resource.owner == "site":
            continue  # in the project of weft's service user
        spec = resource.spec
        if spec.kind in _COUNTED:
            add(_COUNTED[spec.kind], 1)
        if spec.kind is Kind.SERVER:
            add("cores", vcpus)
            add("RAM (MiB)", ram)
        elif spec.kind is Kind.SECURITY_GROUP:
            add("security group rules", RULES_OF_A_GROUP + len(spec.ssh_from) + len(spec.ingress))
        elif spec.kind is Kind.ROUTER:
            # An interface for each subnet and one on the external network are ports too; that last one
            # belongs to no project.
            add("ports", len(spec.subnets))
    return needed
