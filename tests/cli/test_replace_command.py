"""`weft pod replace`."""

from __future__ import annotations

from tests.helpers.desk import Desk
from tests.helpers.doors import ORDER
from weft.testing.cloud import Fault


def test_replacement_is_planned_then_made(desk: Desk) -> None:
    """The plan changes nothing, and the replacement is the planned one."""
    nodes = {**ORDER["nodes"], "count": 2, "spare": 1}
    assert desk.weft("pod", "create", "-f", desk.pod_file("train", nodes=nodes)).code == 0
    pod = desk.weft("pod", "show", "train", "--json").json
    failed, spare = pod["servers"][0]["node"], pod["spares"][0]["node"]
    planned = desk.weft("pod", "replace", "train", failed, "--plan")
    assert planned.code == 0 and "Nothing was changed." in planned.out
    assert f"−  {failed}" in planned.out and f"~  {spare}" in planned.out
    assert planned.out.rstrip().endswith(
        f"{failed}: would be held for repair: no order gets it until an operator accepts it."
    )
    as_json = desk.weft("pod", "replace", "train", failed, "--plan", "--json").json
    assert as_json["change"]["spares_used"] == [spare] and as_json["generation"] == 2
    done = desk.weft("pod", "replace", "train", failed)
    assert done.code == 0 and "nodes.spare: 1 → 0" in done.out
    assert f"spares that get a server: {spare}" in done.out
    assert f"nodes that go: {failed}" in done.out and "being changed to generation 2" in done.out
    again = desk.weft("pod", "replace", "train", failed)
    assert again.code == 2 and "node: " in again.err and "nodes of the pod" in again.err
    late = desk.weft("pod", "replace", "train", spare, "--generation", "1")
    assert late.code != 0 and "generation 2" in late.err
    chosen = desk.weft("pod", "replace", "train", spare, "--with", "gpu16")
    assert chosen.code != 0 and "pods:choose_node" in chosen.err


def test_servers_are_listed_by_number_and_leaving_ones_last(desk: Desk) -> None:
    """Whatever their nodes are called: the first server is the one to log in to, and it exists."""
    nodes = {**ORDER["nodes"], "count": 4, "spare": 1}
    desk.weft("pod", "create", "-f", desk.pod_file(nodes=nodes))
    desk.house.finish("train")
    pod = desk.weft("pod", "show", "train", "--json").json
    failed, spare = pod["servers"][1]["node"], pod["spares"][0]["node"]
    assert spare < failed, "its server would come first by the name of its node"
    first = pod["servers"][0]["management_address"]
    desk.house.cloud.plant(Fault.UNDELETABLE, key=f"server/{failed}", times=None)
    planned = desk.weft("pod", "replace", "train", failed, "--plan")
    assert "Nodes: 3 stay, with their servers and addresses" in planned.out
    assert desk.weft("pod", "replace", "train", failed).code == 0
    pod = desk.weft("pod", "show", "train", "--json").json
    assert [(s["name"], s["node"]) for s in pod["servers"]] == [
        ("train-0", pod["placed"][0]["node"]),
        ("train-1", spare),
        ("train-2", pod["placed"][2]["node"]),
        ("train-3", pod["placed"][3]["node"]),
        ("train-1", failed),
    ]
    shown = desk.weft("pod", "show", "train", "-f", "json").json
    assert shown["server_names"] == "train-0, train-1, train-2, train-3"
    assert shown["ssh"] == f"ssh USER@{first}"
