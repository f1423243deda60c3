"""`weft link show`, `weft pod links` and `weft site who-disturbs` on the command line."""

from __future__ import annotations

from tests.helpers.desk import Desk


def test_operators_see_names_of_a_pods_links_and_tenants_their_number(desk: Desk) -> None:
    """With rates for operators; refusals are one line with an exit code."""
    assert desk.weft("pod", "create", "-f", desk.pod_file("train")).code == 0
    early = desk.weft("pod", "links", "train")
    assert early.code != 0 and "no segment on a fabric" in early.err and early.out == ""
    desk.house.finish("train")
    shown = desk.weft("pod", "links", "train")
    assert shown.code == 0 and shown.err == "" and "shared_with" in shown.out.lower().replace(" ", "_")
    assert "spine" not in shown.out and "Gbps" not in shown.out
    own = desk.weft("pod", "links", "train", "--json").json
    assert own["reading"] is None and own["lost"] == 0 and own["links"]
    file = desk.folder / "links.svg"
    pictured = desk.weft("pod", "links", "train", "--svg", str(file))
    assert (
        "Shared With" in pictured.out
        and file.read_text().startswith("<svg")
        and "spine" not in file.read_text()
    )
    refused = desk.weft("pod", "links", "train", "--svg", str(desk.folder))
    assert refused.code == 2 and "--svg" in refused.err and refused.out == ""
    node = desk.weft("pod", "show", "train", "--json").json["placed"][0]["node"]
    link = desk.weft("link", "show", f"{node}/mlx5_0", cloud="operator")
    assert link.code == 0 and "train" in link.out and f"{node}/mlx5_0" in link.out
    both = desk.weft("link", "show", f"{node}/mlx5_0", "--json", cloud="operator").json["links"]
    assert len(both) == 2 and {p["name"] for one in both for p in one["pods"]} == {"train"}
    disturbed = desk.weft("site", "who-disturbs", own["id"], "--pattern", "ring", cloud="operator")
    assert disturbed.code == 0 and "ring" in disturbed.out
    assert desk.weft("site", "who-disturbs", own["id"], "--json", cloud="operator").json["others"] == []
    loads = desk.weft("site", "load", "-f", "value", cloud="operator")
    assert loads.code == 0 and f"{node} 0.0" in loads.out.splitlines()
    wrong = desk.weft("link", "show", "leaf1:1", cloud="operator")
    assert wrong.code == 2 and "Traceback" not in wrong.err
    for words in (("link", "show", "leaf01:1"), ("site", "who-disturbs", "train"), ("site", "load")):
        assert desk.weft(*words).code != 0, "a tenant may not"
