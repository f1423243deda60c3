"""A pod's topology through HTTP."""

from __future__ import annotations

from typing import Any

from httpx import Client, Response

from tests.helpers.doors import ORDER, DoorsHouse
from weft.generate.topology.formats import FORMATS
from weft.testing.callers import by

PATH = "/v1/pods/train/topology"


def _ask(api: Client, format_: str, **headers: str) -> tuple[int, str]:
    answer = api.get(PATH, params={"format": format_}, headers=headers)
    return answer.status_code, answer.text


def test_topology_is_written_in_each_format(api: Client, doors: DoorsHouse) -> None:
    """With its media type and ETag, and a header that counts servers left out; readers may have it, too."""
    api.post("/v1/pods", json=ORDER)
    doors.finish("train")
    tags: set[str] = set()
    for name in FORMATS.keys() - {"nccl-xml", "slurm-block-conf", "rankfile"}:
        answer = api.get(PATH, params={"format": name})
        assert (answer.status_code, answer.headers["content-type"]) == (200, FORMATS[name].media_type), name
        assert answer.headers["weft-left-out"] == "" and answer.headers["etag"].startswith('"1-')
        same = api.get(
            PATH, params={"format": name}, headers={"If-None-Match": f'"x", {answer.headers["etag"]}'}
        )
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", answer.headers["etag"])
        assert api.get(PATH, params={"format": name}, headers={"If-None-Match": '"1-0"'}).text == answer.text
        tags.add(answer.headers["etag"])
    assert len(tags) == len(FORMATS) - 3
    answer = api.get(PATH).json()
    shown = api.get("/v1/pods/train").json()
    assert [s["name"] for s in answer["servers"]] == [s["name"] for s in shown["servers"]]
    assert [s["node"] for s in answer["servers"]] == [s["node"] for s in shown["servers"]]
    leaves = {n["node"]: n["leaf"] for n in shown["placed"]}
    assert {s["node"]: s["path"][-1] for s in answer["servers"]} == leaves
    assert answer["pkey_index"] is None
    assert api.get(PATH, headers=by("a-reader")).status_code == 200


def test_topology_is_refused_with_code_and_allowed_values(api: Client, doors: DoorsHouse) -> None:
    """400 for an unknown format, 409 for a topology that isn't known or in force yet, 404 for other projects'
    pods, 403 without a role."""
    assert _ask(api, "json")[0] == 404
    api.post("/v1/pods", json=ORDER)
    early = api.get(PATH)
    assert early.status_code == 409 and early.json()["code"] == "TOPOLOGY_NOT_IN_FORCE"
    doors.finish("train")
    wrong = api.get(PATH, params={"format": "slurm\nevil"})
    assert wrong.status_code == 400 and wrong.json()["errors"][0]["field"] == "format"
    assert "slurm-conf" in wrong.text
    for name, code in (("nccl-xml", "TOPOLOGY_UNREAD"), ("slurm-block-conf", "TOPOLOGY_NO_NVLINK")):
        refused = api.get(PATH, params={"format": name})
        assert (refused.status_code, refused.json()["code"]) == (409, code)
    assert api.get(PATH, headers=by("b-member")).status_code == 404
    assert api.get(PATH, headers=by("roleless")).status_code in (403, 404)
    api.post("/v1/pods/train/release")
    late = api.get(PATH)
    assert late.status_code == 409 and "being released" in late.json()["detail"]


def test_topology_of_a_changing_pod_omits_new_and_leaving_servers(api: Client, doors: DoorsHouse) -> None:
    """Servers that aren't built yet and servers that are being removed; the ETag changes each time."""
    api.post("/v1/pods", json=ORDER)
    doors.finish("train")
    before = api.get(PATH, params={"format": "hostfile"})
    api.put("/v1/pods/train", json={**ORDER, "nodes": {**ORDER["nodes"], "count": 3}})
    grows = api.get(PATH, params={"format": "hostfile"})
    assert "not built yet" in grows.headers["weft-left-out"] and "train-2: " in grows.headers["weft-left-out"]
    assert "# left out: train-2: " in grows.text and "\ntrain-2" not in grows.text
    assert grows.headers["etag"] not in (before.headers["etag"], "")
    doors.finish_change("train")
    whole = api.get(PATH, params={"format": "hostfile"})
    assert whole.headers["weft-left-out"] == "" and "\ntrain-2" in whole.text
    api.put("/v1/pods/train", json=ORDER, params={"remove": "train-0"})
    shrinks = api.get(PATH, params={"format": "hostfile"})
    assert "train-0: " in shrinks.headers["weft-left-out"] and "\ntrain-0" not in shrinks.text
    doors.finish_change("train")
    assert "train-0" not in api.get(PATH, params={"format": "hostfile"}).text


def test_node_added_again_counts_once_its_server_is_built(api: Client, doors: DoorsHouse) -> None:
    """That an earlier server of the node was READY says nothing about the new one."""
    two = {**ORDER, "nodes": {**ORDER["nodes"], "count": 2}}
    api.post("/v1/pods", json=two)
    pod = doors.finish("train")
    api.put(
        "/v1/pods/train",
        json={**ORDER, "nodes": {**ORDER["nodes"], "count": 1}},
        params={"remove": "train-1"},
    )
    doors.finish_change("train")
    doors.break_servers()
    api.put("/v1/pods/train", json=two)
    found = api.get(PATH).json()
    assert [s["node"] for s in found["servers"]] == [pod.nodes[0]] and "not built yet" in found["left_out"][
        "train-1"
    ]
    for _ in range(5):
        doors.store.wake(pod.id)
        doors.worker.run_once()
    found = api.get(PATH).json()
    assert [s["name"] for s in found["servers"]] == ["train-0"] and "not built yet" in found["left_out"][
        "train-1"
    ]


def test_replaced_server_is_left_out_until_it_is_built(api: Client, doors: DoorsHouse) -> None:
    """Its name stays but its leaf may change: the old place isn't written any more."""
    api.post("/v1/pods", json=ORDER)
    doors.finish("train")
    old, *_ = api.get(PATH).json()["servers"]
    api.post("/v1/pods/train/replace", json={"node": old["node"]})
    between = api.get(PATH).json()
    assert [s["name"] for s in between["servers"]] == ["train-1"] and list(between["left_out"]) == [
        old["name"]
    ]
    assert "not built yet" in between["left_out"][old["name"]]
    doors.finish_change("train")
    new = {s["name"]: s["node"] for s in api.get(PATH).json()["servers"]}
    assert new.keys() == {"train-0", "train-1"} and new[old["name"]] != old["node"]


def test_topology_is_the_same_while_a_server_is_broken(api: Client, doors: DoorsHouse) -> None:
    """In a DEGRADED pod the broken server stays in the file, byte for byte; one that its tenant deleted is left
    out."""
    api.post("/v1/pods", json=ORDER)
    pod = doors.finish("train")
    before = {
        name: api.get(PATH, params={"format": name}) for name in ("slurm-conf", "hostfile", "kubernetes")
    }
    server = doors.cloud.thing(f"server/{pod.nodes[0]}")
    server.fields["host"] = "gpu16"
    doors.store.wake(pod.id)
    doors.worker.run_once()
    assert api.get("/v1/pods/train").json()["state"] == "DEGRADED"
    for name, first in before.items():
        now = api.get(PATH, params={"format": name}, headers={"If-None-Match": first.headers["etag"]})
        assert now.status_code == 304, name
    doors.cloud.lose(server)
    doors.store.wake(pod.id)
    doors.worker.run_once()
    assert "train-0: " in api.get(PATH, params={"format": "hostfile"}).headers["weft-left-out"]


def test_pod_without_rdma_network_has_host_files(api: Client, doors: DoorsHouse) -> None:
    """Formats with places are refused, with the names of those without."""
    api.post("/v1/pods", json={**ORDER, "fabric": "none"})
    doors.finish("train")
    refused = api.get(PATH, params={"format": "slurm-conf"})
    assert refused.status_code == 409 and refused.json()["code"] == "TOPOLOGY_NO_FABRIC"
    assert "hostfile" in refused.json()["params"]["formats"]
    assert _ask(api, "hostfile")[0] == 200


def _topograph(api: Client, path: str, token: str = "a-reader", **query: str | int) -> Response:
    """A request of topograph's provider, without X-Auth-Token."""
    headers = {"Authorization": f"Bearer {token}", "X-Organization": "any", "X-Region": "any"}
    with Client(base_url=api.base_url, trust_env=False, timeout=60) as client:
        return client.get(f"/v1/pods/train/topograph{path}", params=query, headers=headers)


def test_topograph_reads_a_pod_page_by_page(api: Client, doors: DoorsHouse) -> None:
    """The contract of its provider `nscale`: rows in `results`, root first, an empty page at the end, names as
    a bare list."""
    api.post("/v1/pods", json={**ORDER, "nodes": {**ORDER["nodes"], "count": 3}})
    early = _topograph(api, "/v1/topology")
    assert early.status_code == 409 and early.json()["code"] == "TOPOLOGY_NOT_IN_FORCE"
    doors.finish("train")
    found: list[dict[str, Any]] = []
    while page := _topograph(api, "/v1/topology", limit=2, offset=len(found)).json()["results"]:
        found += page
        assert len(page) <= 2
    answer = {s["id"]: s for s in api.get(PATH).json()["servers"]}
    assert {row["instance_id"]: row["network_node_path"] for row in found} == {
        id_: s["path"] for id_, s in answer.items()
    }
    assert found[0]["network_node_path"][0] == "ib0" and len(found) == 3
    names = _topograph(api, "/v2/instances", organizationID="any", regionID="any").json()
    assert {one["metadata"]["id"]: one["metadata"]["name"] for one in names} == {
        id_: s["name"] for id_, s in answer.items()
    }
    newer = _topograph(api, "/v2/topology", limit=10**9).json()["results"]
    assert [row["server_id"] for row in newer] == [row["instance_id"] for row in found]


def test_topograph_is_authorized_by_its_token_alone(api: Client, doors: DoorsHouse) -> None:
    """The organization that it names gives no access; other routes don't accept the token in this header."""
    api.post("/v1/pods", json=ORDER)
    doors.finish("train")
    for path in ("/v1/topology", "/v2/topology", "/v2/instances"):
        assert _topograph(api, path).status_code == 200
        assert _topograph(api, path, token="b-member").status_code == 404
        assert _topograph(api, path, token="unknown").status_code == 401
    assert _topograph(api, "/v1/topology", limit=0).status_code == 400
    assert _topograph(api, "/v1/topology", offset=-1).status_code == 400
    with Client(base_url=api.base_url, trust_env=False) as client:
        other = client.get("/v1/pods/train", headers={"Authorization": "Bearer a-reader"})
        none = client.get("/v1/pods/train/topograph/v1/topology")
        for other_token in ("Bearer unknown", "Basic a-reader"):
            both = {"X-Auth-Token": "a-reader", "Authorization": other_token}
            two = client.get("/v1/pods/train/topograph/v1/topology", headers=both)
            assert two.status_code == 401, "one of two tokens would go unchecked"
        basic = client.get(
            "/v1/pods/train/topograph/v1/topology", headers={"Authorization": "Basic a-reader"}
        )
    assert [answer.status_code for answer in (other, none, basic)] == [401, 401, 401]
