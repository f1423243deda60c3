"""`weft pod apply`, and `weft pod plan` of an existing pod."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.desk import Desk


def larger(file: str, count: int) -> str:
    """Writes the pod file again with another count of nodes."""
    text = Path(file).read_text()
    assert "count: 2" in text
    other = Path(f"larger-{count}.yaml")
    other.write_text(text.replace("count: 2", f"count: {count}"))
    return str(other)


def test_apply_creates_then_does_nothing_then_changes(desk: Desk) -> None:
    """Three runs, three sentences, exit code 0; the last one shows the difference."""
    file = desk.pod_file()
    first = desk.weft("pod", "apply", "-f", file)
    assert (first.code, "pod train is ordered" in first.out) == (0, True)
    again = desk.weft("pod", "apply", "-f", file)
    assert again.code == 0
    assert again.out == "pod train already matches the file (generation 1): nothing to change\n"
    more = desk.weft("pod", "apply", "-f", larger(file, 3))
    assert more.code == 0
    assert "~  nodes.count: 2 → 3" in more.out
    assert "is being changed to generation 2" in more.out
    assert "generation" in desk.weft("pod", "show", "train").out


def test_plan_of_an_existing_pod_shows_the_difference(desk: Desk) -> None:
    """With `~` for a changed field, and the pod stays as it is; for the same order nothing would change."""
    file = desk.pod_file()
    desk.weft("pod", "create", "-f", file)
    same = desk.weft("pod", "plan", "-f", file)
    assert same.out == "Pod train already matches the order (generation 1). Nothing to change.\n"
    found = desk.weft("pod", "plan", "-f", larger(file, 3))
    assert found.code == 0
    assert "Change of pod train" in found.out
    assert "~  nodes.count  2 → 3" in found.out
    assert desk.weft("pod", "show", "train", "--json").json["generation"] == 1


def test_apply_with_an_old_generation_is_a_conflict(desk: Desk) -> None:
    """Exit code 2, one sentence with the current generation; with --json a problem document."""
    file = desk.pod_file()
    desk.weft("pod", "apply", "-f", file)
    assert desk.weft("pod", "apply", "-f", larger(file, 3), "--generation", "1").code == 0
    late = desk.weft("pod", "apply", "-f", larger(file, 4), "--generation", "1")
    assert (late.code, late.out) == (2, "")
    assert "was changed to generation 2 in the meantime" in late.err
    assert (
        desk.weft("pod", "apply", "-f", larger(file, 4), "--generation", "1", "--json").json["status"] == 412
    )


def test_apply_waits_and_prints_json(desk: Desk) -> None:
    """--wait ends when the pod is as the file says; --json has the outcome and the pod."""
    file = desk.pod_file()
    with desk.house.working():
        assert desk.weft("pod", "apply", "-f", file, "--wait", "--json").json["state"] == "READY"
        assert desk.weft("pod", "apply", "-f", file, "--json").json["outcome"] == "unchanged"
        assert desk.weft("pod", "apply", "-f", larger(file, 3), "--wait").code == 0


def test_apply_of_an_unchanged_pod_waits_until_it_is_ready(desk: Desk) -> None:
    """As after an interrupted first run; only new events are shown."""
    file = desk.pod_file()
    assert desk.weft("pod", "apply", "-f", file).code == 0
    with desk.house.working():
        again = desk.weft("pod", "apply", "-f", file, "--wait")
        assert again.code == 0 and desk.weft("pod", "show", "train", "--json").json["state"] == "READY"
    assert "PENDING: ordered" not in again.out + again.err
    assert "already matches the file" in desk.weft("pod", "apply", "-f", file, "--wait").out


def test_reader_may_plan_but_not_apply(desk: Desk) -> None:
    """Exit code 2, without a traceback."""
    file = desk.pod_file()
    assert desk.weft("pod", "plan", "-f", file, cloud="a-reader").code == 0
    run = desk.weft("pod", "apply", "-f", file, cloud="a-reader")
    assert run.code == 2
    assert "Traceback" not in run.err
