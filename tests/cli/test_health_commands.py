"""`weft pod health`, `weft node health`, `weft site health`."""

from __future__ import annotations

from tests.helpers.desk import Desk


def test_health_is_shown_with_reasons_and_exit_codes(desk: Desk) -> None:
    """Nothing was read yet: unknown, exit code 1; the last row of counts is the total."""
    desk.weft("pod", "create", "-f", desk.pod_file())
    desk.house.finish("train")
    pod = desk.weft("pod", "health", "train")
    assert pod.code == 1 and "unknown" in pod.out
    assert desk.weft("pod", "health", "train", "--json").json["health"] == "unknown"
    one = desk.weft("node", "health", "gpu01", "--json", cloud="operator")
    assert (one.code, one.json["health"]) == (1, "unknown")
    listed = desk.weft("node", "health", "--health", "ok", "--json", cloud="operator")
    assert (listed.code, listed.json) == (0, [])
    counts = desk.weft("site", "health", "--by", "use", "-f", "csv", cloud="operator").out.splitlines()
    numbers = [int(line.split(",")[1]) for line in counts[1:]]
    assert sum(numbers[:-1]) == numbers[-1]
