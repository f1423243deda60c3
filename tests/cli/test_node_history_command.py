"""`weft node history`, `weft pod report`, and clearing reports."""

from __future__ import annotations

import csv
import io

from tests.helpers.desk import Desk


def test_history_is_paged_and_exported(desk: Desk) -> None:
    """As table and CSV; a page says that there is more; `--all` has all pages; unknown nodes and tenants are
    refused."""
    for number in range(3):
        desk.weft("node", "hold", "gpu01", "--for", f"check {number}", cloud="operator")
    shown = desk.weft("node", "history", "gpu01", cloud="operator")
    assert shown.code == 0 and "held for check 2" in shown.out and not shown.err
    table = desk.weft("node", "history", "gpu01", "-f", "csv", cloud="operator").out
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [row["Message"] for row in rows] == [f"held for check {number}" for number in (2, 1, 0)]
    page = desk.weft("node", "history", "gpu01", "--limit", "2", "-f", "csv", cloud="operator")
    assert len(page.out.splitlines()) == 3 and f"--before {rows[1]['Sequence']}" in page.err
    every = desk.weft("node", "history", "gpu01", "--limit", "2", "--all", "--json", cloud="operator").json
    assert len(every["entries"]) == 3 and every["next"] is None
    rest = desk.weft("node", "history", "gpu01", "--before", rows[1]["Sequence"], "--json", cloud="operator")
    assert [entry["message"] for entry in rest.json["entries"]] == ["held for check 0"]
    assert desk.weft("node", "history", "gpu01", "--limit", "0", cloud="operator").code == 2
    unknown = desk.weft("node", "history", "nix", cloud="operator")
    assert unknown.code != 0 and "the site has no node 'nix'" in unknown.err
    assert "nodes:history" in desk.weft("node", "history", "gpu01").err
    assert desk.weft("node", "history", "gpu01", cloud="system-reader").code == 0


def test_report_is_listed_and_cleared(desk: Desk) -> None:
    """A tenant reports nodes of its own pods only; operators see the report in the node's history and clear it."""
    assert desk.weft("pod", "create", "-f", desk.pod_file("train")).code == 0
    node = desk.weft("pod", "show", "train", "--json").json["servers"][0]["node"]
    done = desk.weft("pod", "report", "train", node, "--reason", "ECC errors")
    assert done.code == 0 and f"node {node} is reported" in done.out and "weft pod replace train" in done.out
    assert "ECC errors" in desk.weft("node", "reports", cloud="operator").out
    assert "ECC errors" in desk.weft("node", "show", node, cloud="operator").out
    assert desk.weft("node", "reports").code != 0
    for words in (("nix", "--reason", "x"), (node, "--reason", "another")):
        assert desk.weft("pod", "report", "train", *words).code != 0
    assert desk.weft("pod", "report", "train", node, "--reason", "x", cloud="b-member").code != 0
    cleared = desk.weft("node", "clear-report", node, cloud="operator")
    assert cleared.code == 0 and "cleared 1 report" in cleared.out
    again = desk.weft("node", "clear-report", node, cloud="operator")
    assert again.code == 2 and "no such report" in again.err
    history = desk.weft("node", "history", node, "-f", "value", "-c", "type", cloud="operator").out.split()
    assert history == ["report", "report", "pod"]
