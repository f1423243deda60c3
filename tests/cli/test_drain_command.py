"""`weft node drain`, `drains` and `undrain` on the command line."""

from __future__ import annotations

from tests.helpers.desk import Desk
from weft.engine.nodes.failures import refresh_failures

BY = "2027-02-01T00:00:00Z"


def test_drained_nodes_in_use_are_listed(desk: Desk) -> None:
    """With time and reason; `weft node list` shows such nodes as busy, not drained."""
    desk.weft("pod", "create", "-f", desk.pod_file())
    node = desk.weft("pod", "show", "train", "--json").json["placed"][0]["node"]
    done = desk.weft("node", "drain", node, "--by", BY, "--reason", "new fans", cloud="operator")
    assert done.code == 0
    assert not desk.weft("node", "list", "--state", "drained", "--json", cloud="operator").json
    listed = desk.weft("node", "drains", "-f", "csv", cloud="operator")
    assert listed.code == 0
    head, *rows = listed.out.splitlines()
    assert head == '"Node","By","Wait","Since","Drained By","Reason","Public"'
    assert len(rows) == 1 and rows[0].startswith(f'"{node}","{BY}"') and "new fans" in rows[0]
    refused = desk.weft("node", "drains")
    assert refused.code != 0 and "nodes:list" in refused.err
    assert desk.weft("node", "undrain", node, cloud="operator").code == 0
    assert desk.weft("node", "drains", "--json", cloud="operator").json == []


def test_drain_plan_does_not_promise_to_keep_a_node_that_is_replaced(desk: Desk) -> None:
    desk.weft("pod", "create", "-f", desk.pod_file(on_failure="replace"))
    node = desk.weft("pod", "show", "train", "--json").json["placed"][0]["node"]
    without = desk.weft("node", "drain", node, "--plan", cloud="operator").out
    assert without.endswith("these pods keep their nodes: nothing is released by itself\n")
    at = desk.weft("node", "drain", node, "--plan", "--by", BY, cloud="operator").out
    assert f"weft replaces {node} then" in at
    assert at.splitlines()[-1] == "nothing is released by itself"


def test_report_says_what_it_leads_to(desk: Desk) -> None:
    """For orders with on_failure: replace, too."""
    desk.weft("pod", "create", "-f", desk.pod_file(on_failure="replace"))
    node = desk.weft("pod", "show", "train", "--json").json["placed"][0]["node"]
    said = desk.weft("pod", "report", "train", node, "--reason", "slow").out
    assert "keeps it, unless its order has on_failure: replace" in said
    assert f"`weft pod replace train {node}` puts another in its place" in said
    assert "bare metal" not in said and "shared" not in said


def test_drain_names_the_pods_that_are_released_at_its_time(desk: Desk) -> None:
    """Without a time, and with --wait, no pod is released."""
    desk.weft("pod", "create", "-f", desk.pod_file(on_drain="release"))
    node = desk.weft("pod", "show", "train", "--json").json["placed"][0]["node"]
    for more, said in (
        (("--by", BY, "--plan"), "1 pod is released at that time, by on_drain: release: train"),
        (("--by", BY), "1 pod is released at that time, by on_drain: release: train"),
        (("--by", BY, "--wait"), "nothing is released by itself"),
        ((), "these pods keep their nodes: nothing is released by itself"),
    ):
        out = desk.weft("node", "drain", node, *more, cloud="operator").out
        assert out.splitlines()[-1] == said, more
    assert "on_drain" in desk.weft("pod", "show", "train", "--json").out


def test_unknown_value_of_on_drain_is_refused(desk: Desk) -> None:
    refused = desk.weft("pod", "create", "-f", desk.pod_file(on_drain="replace"))
    assert refused.code == 2 and "on_drain" in refused.err and "release" in refused.err
    assert "Traceback" not in refused.err


def test_short_view_of_a_pod_shows_a_drain_and_the_command_to_run(desk: Desk) -> None:
    """One line with the time and what happens then; none while no node is drained."""
    desk.weft("pod", "create", "-f", desk.pod_file(on_drain="release"))
    before = desk.weft("pod", "show", "train").out
    node = desk.weft("pod", "show", "train", "--json").json["placed"][0]["node"]
    desk.weft("node", "drain", node, "--by", BY, "--public", "new fans", cloud="operator")
    (said,) = desk.weft("pod", "show", "train", "-f", "value", "-c", "maintenance").out.splitlines()
    assert said.startswith(
        f"maintenance of {node} from 2027-02-01T00:00Z: new fans; the pod is released at that time"
    )
    assert said.endswith(f"; weft pod replace train {node}")
    assert "aintenance" not in before and "aintenance" in desk.weft("pod", "show", "train").out


def test_pod_with_a_failing_node_says_so_in_list_and_short_view(desk: Desk) -> None:
    """Its state is unchanged; the column appears only if a pod needs it."""
    desk.weft("pod", "create", "-f", desk.pod_file())
    assert "failing" not in desk.weft("pod", "list", "-f", "csv").out.lower()
    node = desk.weft("pod", "show", "train", "--json").json["placed"][0]["node"]
    assert desk.weft("pod", "report", "train", node, "--reason", "slow").code == 0
    refresh_failures(desk.house.database, desk.house.site)
    (one,) = desk.weft("pod", "list", "--json").json
    assert one["nodes_failing"] == 1
    assert '"Nodes Failing"' in desk.weft("pod", "list", "-f", "csv").out
    (said,) = desk.weft("pod", "show", "train", "-f", "value", "-c", "nodes_fail").out.splitlines()
    assert said.startswith(f"node {node}: its project reported it") and said.endswith(
        f"weft pod replace train {node}"
    )
