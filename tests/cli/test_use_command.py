"""`weft site use`."""

from __future__ import annotations

import csv

from tests.helpers.desk import Desk


def test_use_is_shown_by_pod_and_by_type(desk: Desk) -> None:
    """As CSV for accounting; operators see all projects, a tenant its own."""
    desk.weft("pod", "create", "-f", desk.pod_file())
    desk.house.finish("train")
    period = ("--from", "2026-12-01", "--to", "2027-03-01T00:00Z")
    shown = desk.weft("site", "use", *period, "-f", "csv")
    assert shown.code == 0
    (row,) = csv.DictReader(shown.out.splitlines())
    assert {"train", "used"} <= set(row.values())
    every = desk.weft("site", "use", *period, "--by", "type", "--all-projects", "--json", cloud="operator")
    assert every.json["kept"] == "1095d" and every.json["rows"][0]["project_id"] is None
    assert desk.weft("site", "use", "--all-projects", "--from", "2026-12-01").code == 2
    refused = desk.weft("site", "use", "--from", "soon")
    assert refused.code == 2 and "since" in refused.err
