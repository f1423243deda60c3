"""The history of parts by serial number: a GPU that moves to another node keeps its failures."""

from __future__ import annotations

from typing import Any

import psycopg
from httpx import Client

from tests.helpers.doors import DoorsHouse
from tests.helpers.hostchecks import document, make_token, report, result
from weft.testing.callers import by

GPU, PCI = "1650424000123", "0000:06:00.0"


def reported(
    api: Client,
    doors: DoorsHouse,
    node: str,
    place: str,
    *results: dict[str, Any],
    gpu: str = GPU,
    kind: str = "gpu",
) -> None:
    """Sends a node's report with one part, by default a GPU, in it."""
    parts = [{"kind": kind, "serial": gpu, "place": place, "model": "H100", "newer": 1}]
    host = {"hostname": node, "serial": None, "product_uuid": None}
    given = document(*results, parts=parts, host=host)
    answer = report(api, make_token(api, node)["token"], given, node)
    assert answer.status_code == 200, answer.text
    doors.door_clock.go_on(60)


def history(api: Client, serial: str = GPU) -> dict[str, Any]:
    return api.get(f"/v1/parts/{serial}/history", headers=by("operator")).raise_for_status().json()


def test_gpu_that_moves_keeps_its_failures(api: Client, doors: DoorsHouse) -> None:
    """Where the part was and when; failures of other parts aren't in it."""
    failed = result("XID", PCI, "failed", cost="jobs", mend="replace it")
    reported(api, doors, "gpu01", PCI, result("GPU_ECC", PCI))
    reported(api, doors, "gpu01", PCI, failed, result("GPU_ECC", "0000:07:00.0", "failed"))
    reported(api, doors, "gpu01", PCI, failed)
    reported(api, doors, "gpu02", "0000:65:00.0", result("GPU_ECC", "0000:65:00.0"))
    reported(api, doors, "gpu02", "0000:65:00.0", result("GPU_ECC", "0000:65:00.0", "failed"))
    found = history(api)
    assert (found["kind"], found["model"]) == ("gpu", "H100")
    assert [(s["node"], s["place"]) for s in found["stays"]] == [("gpu02", "0000:65:00.0"), ("gpu01", PCI)]
    assert found["stays"][1]["seen_at"] > found["stays"][1]["since"]
    assert [(f["node"], f["check"]) for f in found["failures"]] == [("gpu02", "GPU_ECC"), ("gpu01", "XID")]
    reported(api, doors, "gpu01", PCI, result("GPU_ECC", PCI))
    assert [s["node"] for s in history(api)["stays"]] == ["gpu01", "gpu02", "gpu01"]


def test_cable_that_a_program_reports_has_a_history(api: Client, doors: DoorsHouse) -> None:
    """weft-check reads no cables; another program adds them to the report, at the port of the end."""
    port = "mlx5_0/1"
    reported(api, doors, "gpu01", port, result("PORT_STATE", port), gpu="MT2312VS01234", kind="cable")
    reported(
        api, doors, "gpu01", port, result("PORT_STATE", port, "failed"), gpu="MT2312VS01234", kind="cable"
    )
    reported(api, doors, "gpu02", port, result("PORT_STATE", port), gpu="MT2312VS01234", kind="cable")
    found = history(api, "MT2312VS01234")
    assert (found["kind"], [s["node"] for s in found["stays"]]) == ("cable", ["gpu02", "gpu01"])
    assert [(f["node"], f["check"]) for f in found["failures"]] == [("gpu01", "PORT_STATE")]


def test_unknown_part_is_not_found_and_parts_are_for_operators(api: Client, doors: DoorsHouse) -> None:
    """A tenant gets the same answer whether the part exists or not."""
    reported(api, doors, "gpu01", PCI, result("XID", PCI))
    assert api.get("/v1/parts/nix/history", headers=by("operator")).status_code == 404
    refused = [api.get(f"/v1/parts/{serial}/history") for serial in ("nix", GPU)]
    assert {one.status_code for one in refused} == {403}


def test_report_without_parts_or_with_a_part_twice_is_accepted(api: Client, doors: DoorsHouse) -> None:
    """Earlier versions of weft-check report no parts."""
    token = make_token(api)["token"]
    twice = [{"kind": "adapter", "serial": "0c42:a103:0000:1234", "place": "mlx5_0"}] * 2
    host = {"hostname": "gpu01", "serial": None, "product_uuid": None}
    assert report(api, token, document(result("XID"), parts=twice, host=host)).status_code == 200
    assert len(history(api, "0c42:a103:0000:1234")["stays"]) == 1
    doors.door_clock.go_on(60)
    assert report(api, token, document(result("XID"), host=host)).status_code == 200
    with psycopg.connect(doors.database.url) as connection:
        assert connection.execute("SELECT count(*) FROM part_stay").fetchone() == (1,)
