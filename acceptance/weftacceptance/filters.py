"""Steps of the suite network about security groups: what they let through, by the rules that Neutron reads back.

No packet is sent: a rule that is read back says what Neutron's agents are to do. The suite's own providers prove it in
the same way.
"""

from __future__ import annotations

import time
from ipaddress import ip_address, ip_network
from typing import Any

from weftacceptance.cloud import Caller, Json, soon
from weftacceptance.netsteps import drop_network, make_network
from weftacceptance.steps import PREFIX, Run, Tests, groups, ports, rules, step

_OBSERVED = 10.0
"""Seconds within which the suite expects to see a change."""


def permits(caller: Caller, port: str, number: int, remote: str, direction: str = "ingress") -> bool:
    """Whether the security groups that a port has now let TCP to a number through. Raises `LostError`.

    Args:
        remote: address of the other end.
    """
    found = ports(caller).find(port)
    if found is None or found.get("port_security_enabled") is False:
        return found is not None
    for key in found["security_groups"]:
        for rule in (groups(caller).find(key) or {}).get("security_group_rules", ()):
            if rule["direction"] != direction or rule["protocol"] not in (None, "tcp", "6"):
                continue
            first, last = rule["port_range_min"], rule["port_range_max"]
            if first is not None and not first <= number <= last:
                continue
            prefix = rule["remote_ip_prefix"]
            if rule["remote_group_id"] is None and (
                prefix is None or ip_address(remote) in ip_network(prefix)
            ):
                return True
    return False


def _rule(caller: Caller, group: str, number: int, **more: Any) -> str:
    given = {"direction": "ingress", "ethertype": "IPv4", "protocol": "tcp"} | more
    return rules(caller).make(security_group_id=group, port_range_min=number, port_range_max=number, **given)


def _group(caller: Caller, name: str) -> str:
    """A security group without rules."""
    key = groups(caller).make(name=PREFIX + name)
    for rule in (groups(caller).find(key) or {}).get("security_group_rules", ()):
        rules(caller).delete(rule["id"])
    return key


def _port(caller: Caller, network: Json, name: str, group: str, subnet: int = 0) -> tuple[str, str]:
    """A port in a subnet of the network: its id and address."""
    fixed = [{"subnet_id": network["subnets"][subnet]["id"]}]
    key = ports(caller).make(
        name=PREFIX + name, network_id=network["id"], fixed_ips=fixed, security_groups=[group]
    )
    found = ports(caller).find(key) or {}
    return key, found["fixed_ips"][0]["ip_address"]


def _clean(caller: Caller, tests: Tests, network: str, *keys: str) -> None:
    gone = drop_network(caller, network)
    for key in keys:
        groups(caller).delete(key)
    left = [key for key in keys if groups(caller).find(key) is not None]
    tests.add("cleanup", gone and not left, "Neutron has neither network nor group any more")


@step("sg_crud", "network")
def sg_crud(run: Run) -> Json:
    """Neutron can't change rules: a changed rule is another one in its place."""
    caller, tests = run.tenant, Tests()

    def numbers(key: str) -> list[int]:
        found = groups(caller).find(key) or {}
        return sorted(
            r["port_range_min"] for r in found.get("security_group_rules", ()) if r["port_range_min"]
        )

    network = make_network(caller, "sg", "10.206.0.0/24")
    tests.add("create_vpc", True, "read back with its subnet")
    key = groups(caller).make(name=PREFIX + "sg", description="first")
    found = groups(caller).find(key)
    tests.add("create_sg", found is not None, "Neutron has the group")
    tests.add("read_sg", (found or {}).get("name") == PREFIX + "sg", "with its name")
    rule = _rule(caller, key, 8080)
    tests.add("update_sg_add_rule", numbers(key) == [8080], "has the rule")
    rules(caller).delete(rule)
    rule = _rule(caller, key, 8443)
    tests.add("update_sg_modify_rule", numbers(key) == [8443], "another rule in its place")
    rules(caller).delete(rule)
    tests.add("update_sg_remove_rule", numbers(key) == [], "no longer has it")
    deleted = groups(caller).delete(key)
    tests.add("delete_sg", deleted.is_done, "deleted")
    gone = groups(caller).find(key) is None and drop_network(caller, network["id"])
    tests.add("verify_deleted", gone, "Neutron has neither group nor network any more")
    return {"group_id": key, "tests": tests}


@step("sg_workload_scoping", "network")
def sg_workload_scoping(run: Run) -> Json:
    """A group applies to the port that has it, and to no other in the same subnet."""
    caller, tests = run.tenant, Tests()
    network = make_network(caller, "workload", "10.207.0.0/24")
    group, empty = _group(caller, "workload"), _group(caller, "workload-none")
    tests.add("create_sg", groups(caller).find(group) is not None, "Neutron has the group")
    (mine, _), (other, _) = (_port(caller, network, n, empty) for n in ("mine", "other"))
    _rule(caller, group, 8080, remote_ip_prefix="192.0.2.0/24")
    before = permits(caller, mine, 8080, "192.0.2.7")
    ports(caller).change(mine, security_groups=[group])
    has = (ports(caller).find(mine) or {}).get("security_groups") == [group]
    tests.add("apply_workload_rule", has and not before, "its port has the group, and let nothing in before")
    tests.add("workload_allowed", permits(caller, mine, 8080, "192.0.2.7"), "as its rules say")
    tests.add("other_workload_blocked", not permits(caller, other, 8080, "192.0.2.7"), "as its rules say")
    _clean(caller, tests, network["id"], group, empty)
    return {"tests": tests}


@step("sg_node_scoping", "network")
def sg_node_scoping(run: Run) -> Json:
    """A rule for one node's address."""
    return _by_source(
        run, "node", "apply_node_rule", "target_node_allowed", "other_node_blocked", lambda ip, _: f"{ip}/32"
    )


@step("sg_subnet_scoping", "network")
def sg_subnet_scoping(run: Run) -> Json:
    """A rule for one subnet's addresses."""
    return _by_source(
        run, "subnet", "apply_subnet_rule", "subnet_allowed", "other_subnet_blocked", lambda _, cidr: cidr
    )


def _by_source(run: Run, name: str, applied: str, allowed: str, blocked: str, prefix: Any) -> Json:
    """A port that lets in one of two sources, each in a subnet of its own."""
    caller, tests = run.tenant, Tests()
    network = make_network(caller, name, "10.208.0.0/24", "10.208.1.0/24", "10.208.2.0/24")
    group, empty = _group(caller, name), _group(caller, f"{name}-none")
    tests.add("create_sg", groups(caller).find(group) is not None, "Neutron has the group")
    mine, _ = _port(caller, network, "mine", group)
    (_, near), (_, far) = (_port(caller, network, f"from-{n}", empty, n) for n in (1, 2))
    before = permits(caller, mine, 8080, near)
    source = prefix(near, network["subnets"][1]["cidr"])
    rule = rules(caller).find(_rule(caller, group, 8080, remote_ip_prefix=source))
    has = rule is not None and rule["remote_ip_prefix"] == source
    tests.add(applied, has and not before, f"a rule for {source}; nothing was let in before")
    tests.add(allowed, permits(caller, mine, 8080, near), f"{near}, as the port's rules say")
    tests.add(blocked, not permits(caller, mine, 8080, far), f"{far}, as the port's rules say")
    _clean(caller, tests, network["id"], group, empty)
    return {"tests": tests}


@step("sg_service_scoping", "network")
def sg_service_scoping(run: Run) -> Json:
    """A rule for one service: its address and port."""
    caller, tests = run.tenant, Tests()
    network, group = make_network(caller, "service", "10.209.0.0/24"), _group(caller, "service")
    tests.add("create_sg", groups(caller).find(group) is not None, "Neutron has the group")
    mine, _ = _port(caller, network, "mine", group)
    before = permits(caller, mine, 443, "192.0.2.10", "egress")
    key = _rule(caller, group, 443, direction="egress", remote_ip_prefix="192.0.2.10/32")
    has = rules(caller).find(key) is not None
    tests.add(
        "apply_service_rule", has and not before, "a rule for 192.0.2.10, port 443; nothing got out before"
    )
    tests.add(
        "service_endpoint_allowed", permits(caller, mine, 443, "192.0.2.10", "egress"), "as its rules say"
    )
    others = [permits(caller, mine, *to, "egress") for to in ((443, "192.0.2.11"), (80, "192.0.2.10"))]
    tests.add("other_endpoint_blocked", not any(others), "neither another address nor another port")
    _clean(caller, tests, network["id"], group)
    return {"tests": tests}


@step("sg_port_security_policy", "network")
def sg_port_security_policy(run: Run) -> Json:
    """A group of one virtual interface lets in one TCP port."""
    caller, tests = run.tenant, Tests()
    network = make_network(caller, "vif", "10.210.0.0/24")
    group, empty = _group(caller, "vif"), _group(caller, "vif-none")
    (mine, _), (other, _) = (_port(caller, network, n, empty) for n in ("mine", "other"))
    tests.add("create_virtual_interface", ports(caller).find(mine) is not None, "Neutron has the port")
    _rule(caller, group, 8443)
    ports(caller).change(mine, security_groups=[group])
    has = (ports(caller).find(mine) or {}).get("security_groups") == [group]
    tests.add("apply_port_policy", has, "it has the group")
    tests.add(
        "allowed_port_permitted", permits(caller, mine, 8443, "192.0.2.7"), "TCP 8443, as its rules say"
    )
    tests.add("unlisted_port_blocked", not permits(caller, mine, 22, "192.0.2.7"), "TCP 22, as its rules say")
    kept = (ports(caller).find(other) or {}).get("security_groups") == [empty]
    untouched = kept and not permits(caller, other, 8443, "192.0.2.7")
    tests.add("other_interface_unaffected", untouched, "another port of the network is as it was")
    _clean(caller, tests, network["id"], group, empty)
    return {"tests": tests}


@step("sg_policy_propagation", "network")
def sg_policy_propagation(run: Run) -> Json:
    """How long until Neutron shows a new rule at the group, and no longer shows a deleted one."""
    caller, tests = run.tenant, Tests()
    network, group = make_network(caller, "timing", "10.211.0.0/24"), _group(caller, "timing")
    mine, _ = _port(caller, network, "mine", group)
    began = time.monotonic()
    key = _rule(caller, group, 8080)
    tests.add("create_probe_rule", rules(caller).find(key) is not None, "Neutron has the rule")
    seen = soon(lambda: permits(caller, mine, 8080, "192.0.2.7"), _OBSERVED)
    added = time.monotonic() - began
    tests.add("rule_observed", seen, "the port's groups let it in")
    began = time.monotonic()
    rules(caller).delete(key)
    tests.add("revoke_probe_rule", rules(caller).find(key) is None, "Neutron no longer has it")
    gone = soon(lambda: not permits(caller, mine, 8080, "192.0.2.7"), _OBSERVED)
    removed = time.monotonic() - began
    tests.add("removal_observed", gone, "the port's groups no longer let it in")
    _clean(caller, tests, network["id"], group)
    times = {"add_observed_seconds": round(added, 2), "remove_observed_seconds": round(removed, 2)}
    return {"target_rule_id": key, **times, "max_propagation_seconds": int(_OBSERVED), "tests": tests}
