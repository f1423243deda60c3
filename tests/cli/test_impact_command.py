"""`weft site impact` on the command line."""

from __future__ import annotations

from tests.helpers.desk import Desk


def test_impact_of_a_node_shows_its_pods_and_where_they_would_fit(desk: Desk) -> None:
    assert desk.weft("pod", "create", "-f", desk.pod_file("train")).code == 0
    node = desk.weft("pod", "show", "train", "--json").json["placed"][0]["node"]
    shown = desk.weft("site", "impact", node, cloud="operator")
    assert shown.code == 0 and shown.err == ""
    assert "everything" in shown.out and "train" in shown.out and "yes" in shown.out
    found = desk.weft("site", "impact", f"{node}/mlx5_0", "--no-place", "-f", "json", cloud="operator").json
    assert found["nodes"][0]["what"] == "ib0: 1 of 2 adapters (mlx5_0)"
    assert "elsewhere" not in found["pods"][0] or found["pods"][0]["elsewhere"] is None
    document = desk.weft("site", "impact", node, "--json", cloud="operator").json
    assert document["pods"][0]["elsewhere"]["fits"] is True
    spine = desk.weft("site", "impact", "spine01", cloud="operator")
    assert spine.code == 0 and "gbps" in spine.out.lower() and "train" not in spine.out
    refused = desk.weft("site", "impact", "leaf1", cloud="operator")
    assert refused.code == 2 and "such as leaf01" in refused.err and "Traceback" not in refused.err
    assert desk.weft("site", "impact", node).code != 0, "a tenant may not"
