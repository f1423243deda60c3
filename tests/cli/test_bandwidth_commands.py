"""`weft pod verify-bandwidth` and `weft node verify-bandwidth`, from plan to certificate to acceptance of a node."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from datetime import datetime
from itertools import permutations
from typing import Any

import pytest

from tests.helpers.desk import Desk
from weft.app.bandwidthverbs import BandwidthVerbs
from weft.engine.rows.holds import BY_WEFT
from weft.engine.store.bandwidth import store_certificate
from weft.engine.store.signing import Signer
from weft.model.bandwidth import BandwidthCertificate, BandwidthDocument, PlannedAdapter, PlannedNode
from weft.model.errors import ConflictError
from weft.model.fabric import PortErrors
from weft.model.site import AcceptancePolicy
from weft.planning.bandwidth.certify import certify
from weft.planning.bandwidth.expected import Planned
from weft.planning.fabric.linkmap import LinkMap
from weft.ports.fabric import FollowsRoutes
from weftlab.rdmanodes import RdmaNodes

pytestmark = pytest.mark.landing

DOCUMENT: dict[str, Any] = {
    "version": 1,
    "program": "weft-check 0.1.0",
    "measured_by": "ib_write_bw",
    "plan": "sha256:" + "0" * 64,
    "began": "2026-11-29T10:00:00Z",
    "ended": "2026-11-29T10:01:00Z",
    "seconds": 2,
    "size": 1048576,
    "memory": "host",
    "rails_together": True,
    "nodes": ["gpu01", "gpu02"],
    "pairs": [],
}


@pytest.fixture
def nodes(desk: Desk) -> RdmaNodes:
    return RdmaNodes(desk.folder / "nodes")


def _at(plan: Any) -> list[str]:
    """Addresses of the plan's nodes."""
    return [node["address"] or node["name"] for node in plan["nodes"]]


def _unproved(desk: Desk) -> str:
    """Code of the pod's condition BandwidthUnproved; empty if it doesn't have it."""
    conditions = desk.weft("pod", "show", "train", "--json").json["conditions"]
    return next((one["code"] for one in conditions if one["type"] == "BandwidthUnproved"), "")


def test_bandwidth_of_a_pod_is_measured_and_certified(desk: Desk, nodes: RdmaNodes) -> None:
    """A tenant needs no operator for it. The certificate can be verified and is compared with the previous one."""
    order = {"count": 3, "flavor": "gpu8", "image": "ubuntu-24.04"}
    file = desk.pod_file(nodes=order, verify="bandwidth", verify_floor=0.9)
    assert desk.weft("pod", "create", "-f", file).code == 0
    early = desk.weft("pod", "bandwidth-plan", "train")
    assert early.code != 0 and "in force" in early.err and early.out == ""
    desk.house.finish("train")
    assert _unproved(desk) == "BANDWIDTH_UNTESTED"
    none = desk.weft("pod", "bandwidth", "train")
    assert none.code == 2 and "no bandwidth test of train was reported" in none.err
    plan = desk.weft("pod", "bandwidth-plan", "train").json
    assert len(plan["nodes"]) == 3 and {node["user"] for node in plan["nodes"]} == {"ubuntu"}
    nodes.build(plan)
    passed = desk.weft("pod", "verify-bandwidth", "train", "--ssh", nodes.ssh)
    assert passed.code == 0 and "the pod's servers" in passed.out, passed.err
    assert _unproved(desk) == ""
    first = desk.weft("pod", "bandwidth", "train", "--json").json
    certificate = first["certificate"]
    rails = len(plan["nodes"][0]["adapters"])
    assert (certificate["result"], certificate["measured"], certificate["slow"]) == ("passed", 6 * rails, 0)
    assert certificate["floor_permille"] == 900
    assert {node["result"] for node in certificate["nodes"]} == {"passed"}
    slow = _at(plan)[1]
    for a, b in permutations(_at(plan), 2):
        if slow in (a, b):
            nodes.plant(a, 0, b, "50.0")
    desk.house.door_clock.go_on(11)
    failed = desk.weft("pod", "verify-bandwidth", "train", "--ssh", nodes.ssh, "--json")
    assert failed.code == 1 and _unproved(desk) == "BANDWIDTH_UNPROVED"
    found = failed.json["certificate"]
    (cause,) = found["causes"]
    assert (cause["kind"], cause["name"], cause["rail"]) == ("adapter", plan["nodes"][1]["name"], 0)
    assert found["previous"] == certificate["id"] and found["slower"]
    assert [node["result"] for node in found["nodes"]] == ["passed", "failed", "passed"]
    key = desk.weft("receipt", "key").out.strip()
    for signed, code in (
        (first, 0),
        (failed.json, 1),
        ({**first, "certificate": {**certificate, "slow": 1}}, 1),
    ):
        (desk.folder / "signed.json").write_text(json.dumps(signed))
        assert desk.weft("receipt", "verify", "signed.json", "--key", key, cloud=None).code == code
    assert desk.weft("pod", "bandwidth", "train", cloud="b-member").code == 2, "of another project"
    assert desk.weft("node", "bandwidth", "gpu01").code != 0, "a tenant may not"
    node = desk.weft("pod", "show", "train", "--json").json["placed"][0]["node"]
    free = next(
        one["name"]
        for one in desk.weft("node", "list", "--json", cloud="operator").json
        if one["state"] == "free"
    )
    for command in ("verify-bandwidth", "bandwidth-plan"):
        held = desk.weft("node", command, node, free, cloud="operator")
        assert (held.code, f"pods hold {node}: " in held.err, free in held.err) == (2, True, False)
    missing = desk.weft("node", "bandwidth", node, cloud="operator")
    assert missing.code == 2 and "no bandwidth test" in missing.err, "a project's word isn't an operator's"


def test_pairs_that_did_not_run_make_a_test_incomplete(desk: Desk, nodes: RdmaNodes) -> None:
    words = ("node", "bandwidth-plan", "gpu01", "gpu02", "gpu03")
    plan = desk.weft(*words, cloud="operator").json
    for as_json in (("--json",), ("-f", "json")):
        assert desk.weft(*words, *as_json, cloud="operator").json == plan
    nodes.build(plan)
    nodes.plant("gpu01", 0, "gpu02", "Failed to modify QP 17 to RTR")
    words = ("verify-bandwidth", "gpu01", "gpu02", "gpu03", "gpu04", "--ssh", nodes.ssh)
    run = desk.weft("node", *words, "--json", cloud="operator")
    found = run.json["certificate"]
    assert (run.code, found["result"], found["slow"]) == (1, "incomplete", 0)
    rails = len(plan["nodes"][0]["adapters"])
    assert found["not_run"] == {"NO_LOGIN": 6 * rails, "NO_PATH": 1}
    results = {node["name"]: node["result"] for node in found["nodes"]}
    assert results["gpu03"] == "passed" and results["gpu01"] == results["gpu04"] == "incomplete"


def test_node_is_not_accepted_without_the_test_that_the_site_wants(desk: Desk, nodes: RdmaNodes) -> None:
    """The test must be newer than the hold, and only weft's holds need it; `--without-test REASON` accepts a
    node without it and is recorded in its history."""
    house = desk.house
    site = house.store.site().site
    policy = AcceptancePolicy(after=("quarantine",), what="burn-in", tests=("bandwidth",))
    house.store.activate_site(site.model_copy(update={"acceptance": policy}), "operator")
    names = ("gpu01", "gpu02", "gpu03")
    nodes.build(desk.weft("node", "bandwidth-plan", *names, cloud="operator").json)
    verify = ("node", "verify-bandwidth", *names, "--ssh", nodes.ssh)
    assert desk.weft(*verify, cloud="operator").code == 0
    for name in names:
        assert desk.weft("node", "quarantine", name, "--reason", "flaps", cloud="operator").code == 0
        assert desk.weft("node", "clear", name, cloud="operator").code == 0
    held = desk.weft("node", "holds", "--json", cloud="operator").json
    assert {(one["what"], one["held_by"]) for one in held} == {("burn-in", BY_WEFT)}
    refused = desk.weft("node", "accept", "gpu01", cloud="operator")
    assert refused.code == 2 and "the last one is older" in refused.err
    nodes.plant("gpu01", 0, "gpu02", "50.0")
    nodes.plant("gpu02", 0, "gpu01", "50.0")
    assert desk.weft(*verify, cloud="operator").code == 1
    refused = desk.weft("node", "accept", "gpu01", cloud="operator")
    assert refused.code == 2 and "the last one is failed" in refused.err
    held = desk.weft("node", "holds", "--json", cloud="operator").json
    assert [one["node"] for one in held] == ["gpu01", "gpu02"], "gpu03 passed: its hold has ended by itself"
    assert desk.weft("node", "accept", "gpu02", "--without-test", "cable ordered", cloud="operator").code == 0
    history = desk.weft("node", "history", "gpu02", "--json", cloud="operator").json["entries"]
    assert "without a test that the site wants: cable ordered" in history[0]["message"]
    desk.weft("node", "hold", "gpu04", "--for", "my own", cloud="operator")
    assert desk.weft("node", "accept", "gpu04", cloud="operator").code == 0


def test_invalid_documents_are_refused(desk: Desk, nodes: RdmaNodes) -> None:
    """One line each and exit code 2; no certificate is made."""
    plan = desk.weft("node", "bandwidth-plan", "gpu01", "gpu02", cloud="operator").json
    nodes.build(plan)
    good = desk.weft(
        "node", "verify-bandwidth", "gpu01", "gpu02", "--ssh", nodes.ssh, "--json", cloud="operator"
    ).json
    pairs = [[0, 1, 0, 198.0, 1], [1, 0, 0, 198.0, 1]]
    document = {**DOCUMENT, "pairs": pairs}
    wrong = (
        {"pairs": [*pairs, pairs[0]]},
        {"pairs": [[0, 0, 0, 1.0, 1]]},
        {"pairs": [[0, 1, 99, 1.0, 1]]},
        {"pairs": [[0, 2, 0, 1.0, 1]]},
        {"pairs": [[0, 1, 0, -1.0, 1]]},
        {"pairs": [[0, 1, 0, True, 1]]},
        {"pairs": [[0, 1, 0, 10**400, 1]]},
        {"began": "2026-11-29T10:00:00"},
        {"began": "2026-11-29T10:02:00Z"},
        {"ended": "2199-01-01T00:00:00Z"},
        {"nodes": ["gpu01", "x" * 254]},
        {"pairs": [[0, 1, 0, "<b>hi</b>"]]},
        {"pairs": [[0, 1, 0]]},
        {"pairs": [[]]},
        {"pairs": "x"},
        {"nodes": ["gpu01", "gpu01"]},
        {"nodes": ["gpu01", "nix"]},
        {"nodes": ["gpu01"]},
        {"version": 2},
        {"version": True},
        {"measured_by": "my own"},
        {"more": 1},
    )
    for change in wrong:
        (desk.folder / "m.json").write_text(json.dumps({**document, **change}))
        run = desk.weft("node", "report-bandwidth", "m.json", cloud="operator")
        assert run.code == 2 and run.err and "Traceback" not in run.err and "defect" not in run.err, change
    for text in ("", "[", "[]", "NaN"):
        (desk.folder / "m.json").write_text(text)
        assert desk.weft("node", "report-bandwidth", "m.json", cloud="operator").code == 2
    assert desk.weft("node", "bandwidth", "gpu01", "--json", cloud="operator").json == good
    for names in (("gpu01",), ("gpu01", "gpu01"), ("gpu01", "nix")):
        assert desk.weft("node", "bandwidth-plan", *names, cloud="operator").code == 2
    (desk.folder / "m.json").write_text(json.dumps({**document, "pairs": []}))
    empty = desk.weft("node", "report-bandwidth", "m.json", "--json", cloud="operator")
    assert empty.code == 1 and empty.json["certificate"]["result"] == "incomplete", (
        "nothing measured is no pass"
    )


def test_slow_cable_between_switches_is_named_by_the_forwarding_tables(desk: Desk) -> None:
    """The test works out itself which pairs use the cable. A stored certificate that can't be read prevents no
    new one."""
    house = desk.house
    site = house.store.site().site
    fabric = next(iter(site.fabrics))
    driver = house.keeper.world().fabric(fabric)
    assert isinstance(driver, FollowsRoutes)
    map_ = LinkMap(site, fabric, driver.routes(0).routes)
    names = [node.name for node in site.nodes if node.hcas_on(fabric)]
    hcas = {name: site.node_by_name[name].hcas_on(fabric) for name in names}
    ways = {
        (names.index(a), names.index(b), rail): {
            end
            for end in map_.forwarding.path(hcas[a][rail].port_guid, hcas[b][rail].port_guid)
            if _between_switches(map_, end)
        }
        for a, b in permutations(names, 2)
        for rail in range(min(len(hcas[a]), len(hcas[b])))
    }
    slow_end = Counter(end for path in ways.values() for end in path).most_common(1)[0][0]
    link = map_.forwarding.link_of(*slow_end)
    assert link is not None
    cable = {map_.forwarding.end_of(one) for one in (link, map_.forwarding.back(link))}
    gbps = hcas[names[0]][0].rate_gbps
    pairs = [[*way, gbps * (0.5 if cable & path else 0.99), 1] for way, path in ways.items()]
    (desk.folder / "m.json").write_text(json.dumps({**DOCUMENT, "nodes": names, "pairs": pairs}))
    grown = {"SymbolErrorCounter": 500}
    a, b = map_.ends(link)
    guids = {s.name: s.guid for s in site.switches}
    house.fabric.manager("sm1").port_errors = tuple(
        PortErrors(
            node=one.name,
            port=one.port,
            peer=f"{other.name}[{other.port}]",
            guid=guids[one.name],
            peer_guid=guids[other.name],
            counters=grown,
            grown=grown,
            over=(*grown,),
        )
        for one, other in ((a, b), (b, a))
    )
    run = desk.weft("node", "report-bandwidth", "m.json", "--json", cloud="operator")
    found = run.json["certificate"]
    expected = {f"{end.name}:{end.port}" for end in map_.ends(link)}
    assert [(c["kind"], set(c["name"].split(" - "))) for c in found["causes"]] == [("link", expected)]
    assert found["causes"][0]["part"] == "cable" and len(found["causes"][0]["port_errors"]) == 2
    shown = desk.weft("node", "bandwidth", names[0], cloud="operator")
    assert "cable" in shown.out and "errors grew within the last hour" in shown.out
    (desk.folder / "signed.json").write_text(json.dumps(run.json))
    key = desk.weft("receipt", "key").out.strip()
    verified = desk.weft("receipt", "verify", "signed.json", "--key", key, cloud=None)
    assert verified.code == 1 and "valid: unchanged" in verified.out
    assert found["result"] == "failed" and "failed" not in {node["result"] for node in found["nodes"]}
    with house.database.transaction() as tx:
        tx._connection.execute("UPDATE bandwidth_certificate SET document = '{}'")  # pyright: ignore[reportPrivateUsage]
    assert desk.weft("node", "bandwidth", names[0], cloud="operator").code == 1
    assert desk.weft("node", "report-bandwidth", "m.json", cloud="operator").code == 1
    assert desk.weft("node", "bandwidth", names[0], cloud="operator").code == 0


def _between_switches(map_: LinkMap, end: tuple[int, int]) -> bool:
    link = map_.forwarding.link_of(*end)
    return link is not None and map_.forwarding.is_between_switches(link)


def test_concurrent_reports_are_compared_with_each_other(desk: Desk) -> None:
    """No lock is held while a certificate is made: if another was stored meanwhile, it is made again."""
    plan = desk.weft("node", "bandwidth-plan", "gpu01", "gpu02", cloud="operator").json
    document = BandwidthDocument.model_validate(DOCUMENT)
    nodes = tuple(PlannedNode.model_validate(node) for node in plan["nodes"])
    sign, database = Signer(desk.house.store).certificate, desk.house.database
    names, made = [node.name for node in nodes], list[str]()

    def make(id_: str, at: datetime, last: BandwidthCertificate | None) -> BandwidthCertificate:
        said = {"id": id_, "site": "s", "site_generation": 1, "reported_at": at, "reported_by": "o"}
        said["measured_in"] = "nodes, by operators"
        made.append(id_)
        if len(made) == 1:
            store_certificate(database, sign, make, nodes=names)
        return certify(document, Planned(nodes, {}, {}), said, previous=last)

    signed = store_certificate(database, sign, make, nodes=names)
    assert (len(made), signed.certificate.previous) == (3, made[1])


def test_node_with_an_unmeasured_adapter_does_not_pass(desk: Desk) -> None:
    """The adapter is alone on its rail, so no pair is missing."""
    plan = desk.weft("node", "bandwidth-plan", "gpu01", "gpu02", "gpu03", cloud="operator").json
    first, *rest = (PlannedNode.model_validate(node) for node in plan["nodes"])
    more = first.model_copy(
        update={"adapters": (*first.adapters, PlannedAdapter(rail=31, guid="0x1", gbps=200))}
    )
    planned = Planned((more, *rest), {}, {})
    rails = [adapter.rail for adapter in first.adapters]
    pairs = [[a, b, rail, 990.0, 1] for a, b in permutations(range(3), 2) for rail in rails]
    document = BandwidthDocument.model_validate(
        {**DOCUMENT, "nodes": [n.name for n in planned.nodes], "pairs": pairs}
    )
    said = {"id": "x", "site": "s", "site_generation": 1, "reported_at": document.ended, "reported_by": "o"}
    found = certify(document, planned, {**said, "measured_in": "nodes, by operators"})
    assert (found.result, found.not_run, found.without_partner) == ("incomplete", {}, ("gpu01, rail 31",))
    assert [node.result for node in found.nodes] == ["incomplete", "passed", "passed"]


def test_refused_report_keeps_the_measurements_in_a_file(desk: Desk, nodes: RdmaNodes) -> None:
    """Measuring may have taken an hour."""
    nodes.build(desk.weft("node", "bandwidth-plan", "gpu01", "gpu02", cloud="operator").json)
    desk.environment.setenv("TMPDIR", str(desk.folder))
    tempfile.tempdir = None
    words = ("verify-bandwidth", "gpu01", "gpu02", "--ssh", nodes.ssh)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BandwidthVerbs, "report_nodes", _refuses)
        run = desk.weft("node", *words, cloud="operator")
    tempfile.tempdir = None
    assert run.code == 2 and "for report-bandwidth" in run.err
    (kept,) = desk.folder.glob("weft-bandwidth-*.json")
    assert desk.weft("node", "report-bandwidth", str(kept), cloud="operator").code == 0


def _refuses(*given: object) -> None:
    raise ConflictError("not now")
