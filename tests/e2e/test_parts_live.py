"""Parts of nodes on the lab's real Nova: pods of one accelerator share a host of eight, and give it back one by one."""

from __future__ import annotations

import pytest

from tests.e2e.people import Answer, People, Person, connection
from weft.planning.queue.queue import KEPT_FOR, KEPT_OFF
from weftlab.lab import Lab

pytestmark = pytest.mark.cloud

PART = """\
name: {name}
nodes: {{count: {count}, accelerators: {{type: h100, count: 1}}, image: tiny, sharing: shared}}
fabric: none
queue: {queue}
"""
WHOLE = """\
name: whole
nodes: {count: 1, flavor: gpu8, image: tiny}
fabric: none
queue: true
"""


def order(person: Person, name: str, count: int = 1, queue: bool = False) -> Answer:
    (person.folder / f"{name}.yaml").write_text(PART.format(name=name, count=count, queue=str(queue).lower()))
    return person.weft("pod", "create", "-f", f"{name}.yaml", "--json")


def until(person: Person, name: str, state: str) -> list[str]:
    """Wait for a state; gives the pod's nodes, one for each server."""
    waited = person.weft("pod", "wait", name, "--until", state, "--timeout", "180", "--json")
    assert waited.code == 0, waited.err
    return [n["node"] for n in waited.json["placed"]]


def test_a_flavor_that_nova_has_otherwise_is_refused(lab: Lab, people: People) -> None:
    """NUMA nodes that Nova's flavor has and the site's doesn't: the order says both."""
    admin, tenant = connection(lab, "operator"), people("team-b")
    flavor = admin.compute.find_flavor("gpu1")
    admin.compute.create_flavor_extra_specs(flavor, {"hw:numa_nodes": "1"})
    try:
        refused = order(tenant, "numa")
    finally:
        admin.compute.delete_flavor_extra_specs_property(flavor, "hw:numa_nodes")
    assert refused.code == 2, refused.err
    assert "nodes.flavor" in refused.err and "matches Nova's" in refused.err


def test_pods_of_one_accelerator_share_a_host(people: People) -> None:
    """Four pods on one host, one of four more; a ninth server is refused or waits, the whole host until it is empty."""
    tenant, operator = people("team-a"), people("operator")
    free = operator.weft("node", "list", "--state", "free", "--json").json
    nodes = [n["name"] for n in free if n["name"].startswith("gpu")]
    aside = [word for node in nodes[1:] for word in ("--node", node)]
    assert operator.weft("reservation", "create", "parts", "--project", "team-b", *aside).code == 0
    host, names = nodes[0], [f"part{i}" for i in range(4)]
    try:
        for name in names:
            made = order(tenant, name)
            assert made.code == 0, made.err
        for name in names:
            assert until(tenant, name, "READY") == [host]
        assert order(tenant, "four", 4).code == 0
        assert until(tenant, "four", "READY") == [host] * 4
        shown = next(n for n in operator.weft("node", "list", "--json").json if n["name"] == host)
        assert (shown["state"], shown["reason"]) == (
            "busy",
            f"shared by {', '.join(sorted([*names, 'four']))}",
        )
        assert operator.weft("audit", "--json").json["findings"] == []
        ninth = order(tenant, "ninth")
        assert ninth.code == 1 and "there is capacity for 0" in ninth.err
        assert order(tenant, "ninth", queue=True).code == 0
        (tenant.folder / "whole.yaml").write_text(WHOLE)
        assert tenant.weft("pod", "create", "-f", "whole.yaml", "--json").json["state"] == "PENDING"
        assert tenant.weft("pod", "release", "part0").code == 0
        until(tenant, "part0", "RELEASED")
        assert until(tenant, "ninth", "READY") == [host]
        # What is kept for the whole host goes to no later order, and the one that came before it has had its turn.
        assert order(tenant, "late", queue=True).code == 0
        for name in [*names[1:], "four"]:
            assert tenant.weft("pod", "release", name).code == 0
        for name in [*names[1:], "four"]:
            until(tenant, name, "RELEASED")
        whole, late = (tenant.weft("pod", "show", name, "--json").json for name in ("whole", "late"))
        assert (whole["state"], whole["reason"]) == ("PENDING", KEPT_FOR)
        assert (late["state"], late["reason"]) == ("PENDING", KEPT_OFF)
        assert tenant.weft("pod", "release", "ninth").code == 0
        until(tenant, "ninth", "RELEASED")
        for name in [*names, "four", "ninth"]:
            receipt = tenant.weft("pod", "receipt", name, "--json")
            assert receipt.code == 0, receipt.err
        assert until(tenant, "whole", "READY") == [host]
        assert tenant.weft("pod", "release", "whole").code == 0
        until(tenant, "whole", "RELEASED")
        assert until(tenant, "late", "READY") == [host]
        assert tenant.weft("pod", "release", "late").code == 0
        until(tenant, "late", "RELEASED")
    finally:
        assert operator.weft("reservation", "delete", "parts").code == 0
