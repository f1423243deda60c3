"""`weft pod reboot`, `rescue`, `unrescue` and `console`."""

from __future__ import annotations

from tests.helpers.desk import Desk


def test_server_is_rebooted_rescued_and_has_a_console(desk: Desk) -> None:
    with desk.house.working():
        assert desk.weft("pod", "create", "-f", desk.pod_file(), "--wait").code == 0
    node = desk.weft("pod", "show", "train", "--json").json["servers"][0]["node"]
    done = desk.weft("pod", "reboot", "train", node)
    assert done.code == 0 and "reboot of train-0 on" in done.out and f"on {node} was requested" in done.out
    assert desk.weft("pod", "reboot", "train", node, "--hard", "--json").json["action"] == "reset"
    rescued = desk.weft("pod", "rescue", "train", "train-0")
    assert rescued.code == 0 and "password of the rescue system, shown this once: s3cret" in rescued.out
    again = desk.weft("pod", "rescue", "train", node)
    assert (
        again.code == 2 and "the cloud refuses to rescue server" in again.err and "Traceback" not in again.err
    )
    assert "password" not in desk.weft("pod", "unrescue", "train", node).out
    found = desk.weft("pod", "console", "train", node)
    assert found.code == 0 and found.out.startswith("https://cloud.example/novnc")
    assert desk.weft("pod", "console", "train", node, "--json").json["type"] == "novnc"


def test_missing_argument_or_pod_is_reported(desk: Desk) -> None:
    assert desk.weft("pod", "reboot", "train").code == 2
    gone = desk.weft("pod", "console", "train", "gpu01")
    assert gone.code == 2 and "train" in gone.err
