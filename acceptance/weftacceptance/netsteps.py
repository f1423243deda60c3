"""Steps of the suite network about networks, subnets and addresses: Neutron, as a project's member."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

from weftacceptance.cloud import Caller, Json, LostError
from weftacceptance.steps import PREFIX, Run, Tests, groups, networks, ports, routers, skip, step, subnets


def make_network(caller: Caller, name: str, *cidrs: str, **more: Any) -> Json:
    """A network with subnets, as read back: id, name and subnets. Raises `LostError` if it isn't there."""
    key = networks(caller).make(name=PREFIX + name)
    made = [
        subnets(caller).make(name=f"{PREFIX}{name}-{n}", network_id=key, ip_version=4, cidr=cidr, **more)
        for n, cidr in enumerate(cidrs)
    ]
    found = networks(caller).find(key)
    rows = [subnets(caller).find(one) for one in made]
    if found is None or [row and row["cidr"] for row in rows] != list(cidrs):
        raise LostError(f"network {name} and its subnets can't be read back as they were made")
    return {"id": key, "name": found["name"], "subnets": rows, "tenant": found.get("project_id")}


def drop_network(caller: Caller, key: str) -> bool:
    """Deletes a network with its ports; whether Neutron has it no longer."""
    for port in ports(caller).rows(f"?network_id={key}"):
        ports(caller).delete(port["id"])
    networks(caller).delete(key)
    return networks(caller).find(key) is None


@step("create_network", "network")
def create_network(run: Run) -> Json:
    """Creates a network with two subnets, and a security group, which later steps use."""
    made = make_network(
        run.tenant, "shared", "10.201.0.0/24", "10.201.1.0/24", dns_nameservers=["10.201.0.2"]
    )
    group = groups(run.tenant).make(name=PREFIX + "shared")
    run.kept["network"] = made
    shown = [{"subnet_id": s["id"], "cidr": s["cidr"], "az": ""} for s in made["subnets"]]
    return {"network_id": made["id"], "cidr": "10.201.0.0/16", "subnets": shown, "security_group_id": group}


@step("list_vpcs", "network")
def list_vpcs(run: Run) -> Json:
    """Lists networks; whether the created one is among them."""
    made, rows = run.need("network"), networks(run.tenant).rows()
    there = [one for one in rows if one["id"] == made["id"]]
    vpcs = [{"vpc_id": one["id"], "name": one["name"]} for one in rows]
    return {"vpcs": vpcs, "count": len(rows), "found_target": len(there) == 1, "target_vpc": made["id"]}


@step("get_vpc", "network")
def get_vpc(run: Run) -> Json:
    """Reads the network by its id. Raises `LostError`."""
    found = networks(run.tenant).find(run.need("network")["id"])
    if found is None:
        raise LostError("Neutron doesn't have the network")
    return {"vpc_id": found["id"], "vpc_name": found["name"], "state": found["status"]}


@step("subnet_assignment", "network")
def subnet_assignment(run: Run) -> Json:
    """Passes if the network lists its subnets, and no others."""
    made, tests = run.need("network"), Tests()
    listed = set((networks(run.tenant).find(made["id"]) or {}).get("subnets", ()))
    mine = {s["id"] for s in made["subnets"]}
    tests.add("subnet_assigned", mine == listed, "the network lists its subnets")
    return {"vpc_id": made["id"], "tests": tests}


@step("vpc_crud", "network")
def vpc_crud(run: Run) -> Json:
    """Creates, reads, renames and deletes a network, each read back."""
    caller, tests = run.tenant, Tests()
    key = networks(caller).make(name=PREFIX + "crud")
    found = networks(caller).find(key)
    tests.add("create_vpc", found is not None, "Neutron has the network")
    tests.add("read_vpc", found is not None and found["name"] == PREFIX + "crud", "with its name")
    caller.ask("network", "PUT", f"/v2.0/networks/{key}/tags/acceptance")
    tests.add(
        "update_tags", "acceptance" in ((networks(caller).find(key) or {}).get("tags") or ()), "has the tag"
    )
    subnet = subnets(caller).make(name=PREFIX + "crud", network_id=key, ip_version=4, cidr="10.202.0.0/24")
    subnets(caller).change(subnet, dns_nameservers=["192.0.2.53"])
    dns = (subnets(caller).find(subnet) or {}).get("dns_nameservers")
    tests.add("update_dns", dns == ["192.0.2.53"], "its subnet has the name server")
    tests.add("delete_vpc", drop_network(caller, key), "Neutron no longer has it")
    return {"network_id": key, "tests": tests}


@step("subnet_config", "network")
def subnet_config(run: Run) -> Json:
    """Four disjoint subnets. Without agents, Neutron's networks have no availability zones, and the configuration
    requires none: `require_multi_az: false`."""
    cidrs, tests = [f"10.203.{n}.0/24" for n in range(4)], Tests()
    made = make_network(run.tenant, "subnets", *cidrs)
    try:
        rows = subnets(run.tenant).rows(f"?network_id={made['id']}")
        tests.add("create_subnets", sorted(r["cidr"] for r in rows) == cidrs, "four, as they were asked for")
        tests.add("subnets_available", all(r["allocation_pools"] for r in rows), "each with addresses")
        shown = [{"subnet_id": r["id"], "cidr": r["cidr"]} for r in rows]
        return {"network_id": made["id"], "subnets": shown, "tests": tests}
    finally:
        drop_network(run.tenant, made["id"])


def _paths_of(caller: Caller, key: str) -> list[str]:
    """Connections of a network to others: routers' ports, and routes of its subnets."""
    found = [
        p["device_id"] for p in ports(caller).rows(f"?network_id={key}") if "router" in p["device_owner"]
    ]
    for row in subnets(caller).rows(f"?network_id={key}"):
        found += [route["destination"] for route in row["host_routes"]]
    return found


@step("vpc_isolation", "network")
def vpc_isolation(run: Run) -> Json:
    """Two networks of a project have no router, no route, and security groups that let nothing in from the other."""
    caller, tests = run.tenant, Tests()
    a, b = (make_network(caller, f"apart-{n}", f"10.204.{i}.0/24") for i, n in enumerate("ab"))
    try:
        found = {row["id"]: row for row in networks(caller).rows()}
        joined = [r["id"] for r in routers(caller).rows() if r["name"].startswith(PREFIX)]
        there = a["id"] in found and b["id"] in found
        tests.add("no_peering", there and not joined, "no router joins them")
        for letter, one in (("a", a), ("b", b)):
            tests.add(f"no_cross_routes_{letter}", not _paths_of(caller, one["id"]), "no way out of it")
        default = [g for g in groups(caller).rows("?name=default") if g["project_id"] == caller.project_id]
        inward = [r for g in default for r in g["security_group_rules"] if r["direction"] == "ingress"]
        own = {g["id"] for g in default}
        closed = bool(default) and all(r["remote_group_id"] in own for r in inward)
        tests.add("sg_isolation_default", closed, "the default security group lets in its own members alone")
        vpcs = {f"vpc_{letter}": {"id": one["id"]} for letter, one in (("a", a), ("b", b))}
        return {**vpcs, "tests": tests}
    finally:
        for one in (a, b):
            drop_network(caller, one["id"])


@step("vpc_ip_config", "network")
def vpc_ip_config(run: Run) -> Json:
    """The network's subnets with gateway, DNS servers, DHCP and addresses in use."""
    caller, made = run.tenant, run.need("network")
    rows = subnets(caller).rows(f"?network_id={made['id']}")
    taken = [
        ip["subnet_id"] for p in ports(caller).rows(f"?network_id={made['id']}") for ip in p["fixed_ips"]
    ]
    shown = []
    for row in rows:
        pools = row["allocation_pools"]
        size = sum(int(ip_address(p["end"])) - int(ip_address(p["start"])) + 1 for p in pools)
        free = size - taken.count(row["id"])
        shown.append(
            {
                "subnet_id": row["id"],
                "cidr": row["cidr"],
                "available_ips": free,
                "auto_assign_public_ip": False,
            }
        )
    servers = sorted({server for row in rows for server in row["dns_nameservers"]})
    options = {"domain_name_servers": servers, "domain_name": ""}
    return {"vpc_id": made["id"], "cidr": "10.201.0.0/16", "subnets": shown, "dhcp_options": options}


def _overlap(one: str, other: str) -> bool:
    return ip_network(one).overlaps(ip_network(other))


@step("byoip_test", "network")
def byoip(run: Run) -> Json:
    """A subnet with the tenant's own addresses beside one with private ones."""
    caller, tests, own = run.tenant, Tests(), "198.51.100.0/24"
    key = networks(caller).make(name=PREFIX + "byoip")
    try:
        custom = subnets(caller).make(name=PREFIX + "own", network_id=key, ip_version=4, cidr=own)
        found = subnets(caller).find(custom)
        tests.add("custom_cidr_create", found is not None, "Neutron has the subnet")
        tests.add(
            "custom_cidr_verify", (found or {}).get("cidr") == own, "with the addresses that were asked for"
        )
        standard = subnets(caller).make(
            name=PREFIX + "std", network_id=key, ip_version=4, cidr="10.205.0.0/24"
        )
        other = (subnets(caller).find(standard) or {}).get("cidr")
        tests.add("standard_cidr_create", other == "10.205.0.0/24", "a private one beside it")
        apart = found is not None and other is not None and not _overlap(found["cidr"], other)
        tests.add("no_conflict", apart, "they don't overlap")
        port = ports(caller).make(name=PREFIX + "own", network_id=key, fixed_ips=[{"subnet_id": custom}])
        fixed = (ports(caller).find(port) or {}).get("fixed_ips") or []
        inside = len(fixed) == 1 and ip_address(fixed[0]["ip_address"]) in ip_network(own)
        tests.add("custom_cidr_subnet", inside, "a port has one of its addresses")
        return {"network_id": key, "tests": tests}
    finally:
        drop_network(caller, key)


@step("teardown", "network")
def teardown(run: Run) -> Json:
    """Deletes the network and its security groups; passes if Neutron has none of them afterwards."""
    made, tests = run.need("network"), Tests()
    tests.add("network_gone", drop_network(run.tenant, made["id"]), "Neutron no longer has the network")
    for group in groups(run.tenant).rows():
        if group["name"].startswith(PREFIX):
            groups(run.tenant).delete(group["id"])
    left = [one["name"] for kind in (networks, groups, ports) for one in kind(run.tenant).rows()]
    tests.add("nothing_left", not any(name.startswith(PREFIX) for name in left), "nothing of the run is left")
    return {"tests": tests}


skip("wants deny rules: Neutron has them with FWaaS, which the lab lacks", "security_blocking")
skip("Neutron's name service isn't in the lab (Designate)", "dns_test")
skip(
    "routers and floating IPs are only records in the lab: no L3 agent carries traffic",
    "peering_test",
    "floating_ip_test",
)
skip("the lab has no storage network with routes", "storage_l3_routing")
skip("no server of the lab has a way out to measure", "stable_egress_ip_test", "traffic_validation")
