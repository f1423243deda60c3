"""`weft capacity`, the queue, leases and reservations on the command line."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from tests.helpers.desk import Desk
from tests.helpers.doors import ORDER
from tests.helpers.paths import EXAMPLES
from weft.app.capacitykeeper import CapacityKeeper
from weft.cli.capacity import capacity
from weft.model.errors import PermanentError
from weft.model.pod import PodState

EXAMPLE = EXAMPLES / "sites"
UNTIL = {"end": "2027-01-31T18:00:00Z"}
START = datetime(2027, 1, 1, 18, tzinfo=UTC)
PROJECT = "0123456789abcdef0123456789abcdef"


def test_capacity_is_a_table_or_json(desk: Desk) -> None:
    """Sizes by level, and when more becomes free; the same in other formats; --json is the API's answer."""
    nodes = {**ORDER["nodes"], "count": 14}
    assert desk.weft("pod", "create", "-f", desk.pod_file("first", nodes=nodes, lease=UNTIL)).code == 0
    assert desk.weft("pod", "create", "-f", desk.pod_file("next", nodes=nodes, queue=True)).code == 0
    shown = desk.weft("capacity", "--accelerator", "h100")
    assert shown.code == 0
    assert "4 from 2027-01-31T18:00Z" in shown.out and "1 order in the queue" in shown.out
    assert "leaf0" not in shown.out
    words = ["capacity", "--accelerator", "h100", "--sort-column", "Largest", "-f", "value"]
    columns = ("Shape", "Accelerators", "Cloud", "Place", "Free", "Total", "Inside", "Largest")
    lines = desk.weft(*words, *(w for c in columns for w in ("-c", c))).out.splitlines()
    assert "nodes 8 x h100 lab ib0 2 16 site 2" in lines and "queue" not in "".join(lines)
    as_csv = desk.weft("capacity", "--accelerator", "h100", "-f", "csv").out
    assert as_csv.startswith('"Shape","Accelerators","Cloud","Place",') and "leaf0" not in as_csv
    bad = desk.weft("capacity", "-c", "colour")
    assert bad.code == 2 and "--column: 'colour' is not allowed: one of shape, accelerators" in bad.err
    found = desk.weft("capacity", "--level", "block", "--json").json
    assert [x["level"] for x in found["rows"][0]["largest"]] == ["block"]


class OlderServer:
    """A server whose capacity rows have no shape."""

    def __init__(self) -> None:
        self.capacity = self

    def show(self, *_: object) -> dict[str, object]:
        return {
            "rows": [{"fabric": "ib0", "free": 1}],
            "parts": [],
            "ipus": [],
            "duration": "24h",
            "waiting": 0,
        }


def test_capacity_of_an_older_server_gives_one_sentence() -> None:
    given: dict[str, object] = {
        "offline": False,
        "site": None,
        "history": False,
        "since": None,
        "until": None,
        "accelerator": None,
        "level": None,
    }
    with pytest.raises(PermanentError, match="the server is of an older version"):
        capacity(argparse.Namespace(client=OlderServer(), duration="24h", **given))


def test_capacity_counts_entirely_free_nvlink_domains(desk: Desk, tmp_path: Path) -> None:
    document = desk.house.site.model_dump(mode="json", exclude_none=True)
    nodes = [n for n in document["nodes"] if n["role"] == "compute"]
    for i, node in enumerate(nodes):
        node["nvlink_domain"] = f"nvl{1 + i // 2}"
    path = tmp_path / "site.yaml"
    path.write_text(yaml.safe_dump(document))
    words = ["capacity", "--offline", "--site", str(path), "--accelerator", "h100"]
    run = desk.weft(*words, cloud=None)
    assert run.code == 0, run.err
    half = len(nodes) // 2
    assert f"NVLink domains of 2 nodes: {half} of {half} free" in run.out
    count = {"name": "NVLink domains", "total": half, "free": half, "each": 2}
    assert count in desk.weft(*words, "--json", cloud=None).json["rows"][0]["counts"]


def test_capacity_of_ipus_is_shown(desk: Desk) -> None:
    """Machines, Poplar servers, the largest order and when larger ones fit; places for operators only; not by
    level."""
    desk.house.cloud.offers.hosts["poplar1"] = "up"
    shown = desk.weft("capacity", "--accelerator", "ipu")
    assert shown.code == 0 and "nodes" not in shown.out
    row = desk.weft("capacity", "--accelerator", "ipu", "-f", "json").json[0]
    asked = ("Shape", "Cloud", "Place", "Unit", "Free", "Total", "Orders", "Counts")
    assert [row[name] for name in asked] == [
        *("ipus", "lab", "ipupod1", "IPU-Machines", 4, 4, "IPUs"),
        "Poplar servers with capacity: 1 free",
    ]
    assert "1-4" not in shown.out and not row["Where"]
    rows = desk.weft("capacity", "--json").json["rows"]
    (largest,) = next(row for row in rows if row["shape"] == "ipus")["largest"]
    assert (largest["count"], largest["where"]) == (0, "")
    rows = desk.weft("capacity", "--level", "leaf", "--json").json["rows"]
    assert {row["shape"] for row in rows} == {"nodes"}


def test_capacity_of_an_ipu_pod_is_shown_offline(desk: Desk) -> None:
    """An empty IPU-POD64 is free as a whole; a level is refused for IPUs, and for a site with IPUs only."""
    words = ["capacity", "--offline", "--site", str(EXAMPLE / "ipupod64" / "site.yaml")]
    run = desk.weft(*words, "--json", cloud=None)
    assert run.code == 0, run.err
    (pod,) = run.json["rows"]
    assert (pod["total"], pod["free"], pod["counts"][0]["free"]) == (16, 16, 2)
    (largest,) = pod["largest"]
    assert (largest["count"], largest["where"]) == (64, "pod1 1-16") and pod["soon"] == []
    for more, says in (
        (
            ["--accelerator", "ipu", "--level", "leaf"],
            "level: 'leaf' is not allowed: must be omitted with ipu",
        ),
        (["--level", "leaf"], "level: 'leaf' is not allowed: levels of site ipupod64: none"),
        (["--accelerator", "h100"], "'h100' is not allowed: types of accelerators of site ipupod64: ipu"),
    ):
        bad = desk.weft(*words, *more, cloud=None)
        assert (bad.code, bad.out) == (2, "") and says in bad.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--accelerator", "abacus"], "types of accelerators of site lab: "),
        (["--level", "rack"], "rack"),
        (["--duration", "long"], "duration"),
        (["--offline"], "--offline and --site FILE require each other"),
        (["--site", "x.yaml"], "--offline and --site FILE require each other"),
        (["--offline", "--site", "nowhere.yaml"], "an existing file"),
    ],
)
def test_invalid_capacity_options_give_one_sentence(desk: Desk, words: list[str], says: str) -> None:
    """Exit code 2 with what is allowed, and nothing on stdout."""
    run = desk.weft("capacity", *words)
    assert (run.code, run.out) == (2, "") and says in run.err
    assert "Traceback" not in run.err


def test_capacity_of_a_site_file_is_shown_offline(desk: Desk) -> None:
    """The empty site, by accelerator and level."""
    site = next(
        p for p in sorted(EXAMPLE.glob("*/site.yaml")) if "gpu" in p.read_text() or "h100" in p.read_text()
    )
    run = desk.weft("capacity", "--offline", "--site", str(site), "--json", cloud=None)
    assert run.code == 0, run.err
    row = run.json["rows"][0]
    assert row["free"] == row["total"] == row["largest"][2]["count"] > 0 and row["soon"] == []
    bad = desk.weft("capacity", "--offline", "--site", str(site), "--duration", "1y", cloud=None)
    assert bad.code == 2 and "a whole number with a unit s, m, h or d" in bad.err
    bad = desk.weft("capacity", "--offline", "--site", str(site), "--accelerator", "abacus", cloud=None)
    assert bad.code == 2 and "types of accelerators" in bad.err


def test_capacity_of_shared_nodes_is_shown(desk: Desk) -> None:
    """A bond of an MLAG pair serves virtual functions but no whole node: parts are what can be ordered."""
    words = ["capacity", "--offline", "--site", str(EXAMPLE / "roce" / "site.yaml"), "--accelerator", "l40"]
    found = desk.weft(*words, "--json", cloud=None).json
    nodes = {"name": "nodes", "total": 1, "free": None, "each": None}
    assert [(row["shape"], row["counts"][0]) for row in found["rows"]] == [("parts", nodes)] * 2
    run = desk.weft(*words, "-f", "value", "-c", "Free", "-c", "Total", "-c", "Counts", cloud=None)
    assert run.code == 0
    assert "2 2 nodes: 1; nodes in part use: 0; virtual functions: 16 free" in run.out.splitlines()


def test_queued_pod_is_shown_listed_and_withdrawn(desk: Desk) -> None:
    """Position, reason and expected start in list and show; `release --wait` ends at once without a receipt."""
    desk.house.fill(end=START)
    made = desk.weft("pod", "create", "-f", desk.pod_file(queue=True))
    assert made.code == 0 and "PENDING" in made.out
    desk.house.worker.tend_queue()
    listed = desk.weft("pod", "list").out
    assert "Position" in listed and "Expected Start" in listed and "2027-01-01 18:00:00Z" in listed
    shown = desk.weft("pod", "show", "train").out
    assert "| position       | 1 " in shown and "waiting for capacity" in shown
    assert "waiting for capacity" in desk.weft("pod", "events", "train").out
    gone = desk.weft("pod", "release", "train", "--wait")
    assert gone.code == 0 and "nothing was claimed yet" in gone.out and "receipt:" not in gone.out


def test_wait_for_a_queued_pod_lasts_until_it_is_ready(desk: Desk) -> None:
    """`--wait` ends at its timeout and says that the order stays; once placed, the pod becomes READY."""
    full = desk.house.fill(end=START)
    file = desk.pod_file(queue=True)
    with desk.house.working():
        late = desk.weft("pod", "create", "-f", file, "--wait", "--timeout", "1")
    assert late.code == 1 and "the pod continues" in late.err and "waiting for capacity" in late.err
    desk.house.release(full)
    desk.house.run(full, PodState.RELEASED)
    desk.house.worker.tend_queue()
    desk.house.finish("train")
    assert desk.weft("pod", "list", "--json").json[0]["state"] == "READY"


def test_lease_is_extended(desk: Desk) -> None:
    """The new end is printed; an invalid time is one sentence."""
    desk.weft("pod", "create", "-f", desk.pod_file(lease={"end": "2027-01-31T18:00:00Z"}))
    done = desk.weft("pod", "extend", "train", "--until", "2027-02-01T18:00Z")
    assert (done.code, "2027-02-01 18:00:00Z" in done.out) == (0, True)
    bad = desk.weft("pod", "extend", "train", "--until", "tomorrow")
    assert bad.code == 2 and "until" in bad.err
    assert desk.weft("pod", "extend", "train").code == 2


def test_failed_pod_is_retried(desk: Desk) -> None:
    """`retry --wait` waits until it is READY; a pod that hasn't failed is refused."""
    broken = desk.house.break_servers()
    with desk.house.working():
        assert desk.weft("pod", "create", "-f", desk.pod_file(), "--wait").code == 1
        broken.left = 0
        done = desk.weft("pod", "retry", "train", "--wait")
    assert done.code == 0 and "READY" in done.out
    again = desk.weft("pod", "retry", "train")
    assert again.code == 2 and "only a FAILED pod" in again.err


def test_operator_reserves_nodes(desk: Desk) -> None:
    """`create`, `list` and `delete`; refused to a tenant."""
    words = ("reservation", "create", "block", "--project", PROJECT, "--node", "gpu01", "--node", "gpu02")
    made = desk.weft(*words, "--end", "2027-01-31T18:00Z", "--reason", "training", cloud="operator")
    assert made.code == 0 and f"2 nodes are reserved for project {PROJECT}: gpu01, gpu02" in made.out
    listed = desk.weft("reservation", "list", cloud="operator").out
    assert "block" in listed and "training" in listed
    assert desk.weft(*words).code == 2
    nothing = desk.weft("reservation", "create", "empty", "--project", PROJECT, cloud="operator")
    assert nothing.code == 2 and "nodes or leaves are required" in nothing.err
    assert desk.weft("reservation", "delete", "block", cloud="operator").code == 0
    assert desk.weft("reservation", "delete", "block", cloud="operator").code == 2
    assert desk.weft("reservation", "list", "--json", cloud="operator").json == []


def test_history_of_capacity_is_listed(desk: Desk) -> None:
    """A row for each type and moment; options about orders are refused with it."""
    CapacityKeeper(desk.house.store, lambda: desk.house.site).note()
    asked = (
        "capacity",
        "--history",
        "-f",
        "value",
        "-c",
        "type",
        "-c",
        "total",
        "-c",
        "free",
        "-c",
        "waiting",
    )
    assert "h100 16 16 0" in desk.weft(*asked, cloud="operator").out.splitlines()
    assert desk.weft("capacity", "--history", "--json", cloud="operator").json["points"][0]["waiting"] == 0
    assert "h100" in desk.weft("capacity", "--history", "--from", "2026-01-01", cloud="operator").out
    for wrong in (("--history", "--accelerator", "h100"), ("--from", "2026-01-01")):
        refused = desk.weft("capacity", *wrong, cloud="operator")
        assert refused.code == 2 and "--history" in refused.err
