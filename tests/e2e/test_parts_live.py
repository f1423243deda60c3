"""Parts of nodes on the lab's real Nova: pods of one accelerator share a host of eight, and give it back one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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


def resized(person: Person, name: str, count: int, *words: str) -> dict[str, str]:
    """Apply the same order with another count; gives the pod's servers, name -> id."""
    (person.folder / f"{name}.yaml").write_text(PART.format(name=name, count=count, queue="false"))
    done = person.weft("pod", "apply", "-f", f"{name}.yaml", "--wait", *words)
    assert done.code == 0, done.err
    pod = person.weft("pod", "show", name, "--json").json
    assert pod["state"] == "READY" and len(pod["placed"]) == count, pod
    rows = [r for r in pod["resources"] if r["kind"] == "server" and r["state"] == "settled"]
    return {r["name"]: r["id"] for r in rows}


def until(person: Person, name: str, state: str) -> list[str]:
    """Wait for a state; gives the pod's nodes, one for each server."""
    waited = person.weft("pod", "wait", name, "--until", state, "--timeout", "180", "--json")
    assert waited.code == 0, waited.err
    return [n["node"] for n in waited.json["placed"]]


def test_flavor_that_differs_in_nova_is_refused(lab: Lab, people: People) -> None:
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


@contextmanager
def one_host(operator: Person) -> Iterator[str]:
    """The only one that isn't kept for others."""
    free = operator.weft("node", "list", "--state", "free", "--json").json
    host, *others = [n["name"] for n in free if n["name"].startswith("gpu")]
    aside = [word for node in others for word in ("--node", node)]
    assert operator.weft("reservation", "create", "parts", "--project", "team-b", *aside).code == 0
    try:
        yield host
    finally:
        assert operator.weft("reservation", "delete", "parts").code == 0


def shared_by(operator: Person, host: str, names: list[str]) -> None:
    """Fail unless the list of nodes says that these pods share the host, and the audit finds nothing."""
    shown = next(n for n in operator.weft("node", "list", "--json").json if n["name"] == host)
    assert (shown["state"], shown["reason"]) == ("busy", f"shared by {', '.join(sorted(names))}")
    assert operator.weft("audit", "--json").json["findings"] == []


def released(tenant: Person, *names: str) -> None:
    for name in names:
        assert tenant.weft("pod", "release", name).code == 0
    for name in names:
        until(tenant, name, "RELEASED")
        receipt = tenant.weft("pod", "receipt", name, "--json")
        assert receipt.code == 0, receipt.err


@pytest.mark.nightly(
    reason="a minute of processor; by day its parts are taken, given back and refused on fakes"
)
def test_pods_of_one_accelerator_share_a_host(people: People) -> None:
    """Four pods on one host of eight accelerators; five more are refused. One of them gets all that is left, and gives
    a server back that another gets, while its others run on."""
    tenant, operator = people("team-a"), people("operator")
    names = [f"part{i}" for i in range(4)]
    with one_host(operator) as host:
        for name in names:
            made = order(tenant, name)
            assert made.code == 0, made.err
        for name in names:
            assert until(tenant, name, "READY") == [host]
        shared_by(operator, host, names)
        five = order(tenant, "five", 5)
        assert five.code == 1 and "there is capacity for 4" in five.err, five.err

        first = resized(tenant, "part0", 1)
        full = resized(tenant, "part0", 5)
        assert first.items() < full.items() and len(full) == 5
        (tenant.folder / "part1.yaml").write_text(PART.format(name="part1", count=2, queue="false"))
        refused = tenant.weft("pod", "apply", "-f", "part1.yaml")
        assert refused.code == 1 and "1 additional server for the 1 of the pod" in refused.err, refused.err
        gone = sorted(full.keys() - first.keys())[1]
        left = resized(tenant, "part0", 4, "--remove", gone)
        assert left == {name: id_ for name, id_ in full.items() if name != gone}
        shared_by(operator, host, names)
        assert len(resized(tenant, "part1", 2)) == 2
        for name in names:
            assert set(until(tenant, name, "READY")) == {host}
        released(tenant, *names)
        receipt = tenant.weft("pod", "receipt", "part0", "--json").json["receipt"]
        assert receipt["clean"] and receipt["given_back"] == [host]
        assert full[gone] in {word for item in receipt["items"] for word in item["subject"].split()}


@pytest.mark.nightly(reason="a minute of processor; by day four pods share one, and parts wait on fakes")
def test_orders_of_parts_and_whole_nodes_wait_for_a_full_host(people: People) -> None:
    """Four pods on one host, one of four more; a ninth server is refused or waits, the whole host until it is empty."""
    tenant, operator = people("team-a"), people("operator")
    names = [f"part{i}" for i in range(4)]
    with one_host(operator) as host:
        for name in names:
            assert order(tenant, name).code == 0
        assert order(tenant, "four", 4).code == 0
        assert until(tenant, "four", "READY") == [host] * 4
        for name in names:
            assert until(tenant, name, "READY") == [host]
        shared_by(operator, host, [*names, "four"])
        ninth = order(tenant, "ninth")
        assert ninth.code == 1 and "there is capacity for 0" in ninth.err
        assert order(tenant, "ninth", queue=True).code == 0
        (tenant.folder / "whole.yaml").write_text(WHOLE)
        assert tenant.weft("pod", "create", "-f", "whole.yaml", "--json").json["state"] == "PENDING"
        released(tenant, "part0")
        assert until(tenant, "ninth", "READY") == [host]
        # What is kept for the whole host goes to no later order, and the one that came before it has had its turn.
        assert order(tenant, "late", queue=True).code == 0
        released(tenant, *names[1:], "four")
        whole, late = (tenant.weft("pod", "show", name, "--json").json for name in ("whole", "late"))
        assert (whole["state"], whole["reason"]) == ("PENDING", KEPT_FOR)
        assert (late["state"], late["reason"]) == ("PENDING", KEPT_OFF)
        released(tenant, "ninth")
        assert until(tenant, "whole", "READY") == [host]
        released(tenant, "whole")
        assert until(tenant, "late", "READY") == [host]
        released(tenant, "late")
