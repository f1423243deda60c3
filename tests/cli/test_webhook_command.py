"""`weft webhook`."""

from __future__ import annotations

from tests.helpers.desk import Desk


def test_webhook_is_created_listed_and_deleted(desk: Desk) -> None:
    """The secret is printed once; the test of an unreachable webhook fails with the reason."""
    made = desk.weft("webhook", "create", "ops", "https://hooks.invalid/weft", "--event", "state")
    assert made.code == 0 and made.out.splitlines()[-1].startswith("whsec_")
    listed = desk.weft("webhook", "list")
    assert listed.code == 0 and "https://hooks.invalid/weft" in listed.out
    tested = desk.weft("webhook", "test", "ops", "--json")
    assert (tested.code, tested.json["code"]) == (1, "RECEIVER_UNREACHABLE")
    assert desk.weft("webhook", "show", "ops", "--json").json["events"] == ["state"]
    rotated = desk.weft("webhook", "rotate", "ops", "--json")
    assert rotated.code == 0 and "whsec_" in rotated.out
    assert "enabled" in desk.weft("webhook", "enable", "ops").out
    assert "deleted" in desk.weft("webhook", "delete", "ops").out
    assert desk.weft("webhook", "show", "ops").code == 2
    refused = desk.weft("webhook", "create", "ops", "https://127.0.0.1/")
    assert refused.code == 2 and "public" in refused.err


def test_change_of_another_revision_changes_nothing(desk: Desk) -> None:
    """`--revision` for webhooks, reservations and holds."""
    first = str(
        desk.weft("webhook", "create", "ops", "https://hooks.invalid/weft", "--json").json["revision"]
    )
    assert desk.weft("webhook", "rotate", "ops", "--revision", first).code == 0
    for verb in ("rotate", "enable", "delete"):
        late = desk.weft("webhook", verb, "ops", "--revision", first)
        assert late.code == 2 and "webhook ops was changed in the meantime" in late.err, late.err
    now = str(desk.weft("webhook", "show", "ops", "--json").json["revision"])
    assert desk.weft("webhook", "delete", "ops", "--revision", now).code == 0
    operator = {"cloud": "operator"}
    made = desk.weft(
        *("reservation", "create", "course", "--project", "b" * 32, "--node", "gpu01", "--json"), **operator
    ).json
    assert desk.weft("reservation", "show", "course", "--json", **operator).json == made
    wrong = desk.weft("reservation", "delete", "course", "--revision", "0", **operator)
    assert wrong.code == 2 and "reservation course was changed" in wrong.err
    now = str(made["revision"])
    assert desk.weft("reservation", "delete", "course", "--revision", now, **operator).code == 0
    desk.weft("node", "hold", "gpu01", "--for", "burn-in", **operator)
    held = desk.weft("node", "holds", "-f", "value", "-c", "revision", **operator).out.strip()
    assert desk.weft("node", "accept", "gpu01", "--revision", "0", **operator).code == 2
    assert desk.weft("node", "accept", "gpu01", "--revision", held, **operator).code == 0
