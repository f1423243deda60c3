"""`weft webhook`."""

from __future__ import annotations

from tests.helpers.desk import Desk


def test_webhook_is_made_listed_and_deleted(desk: Desk) -> None:
    """The secret is printed once; one that can't be reached fails its test with the reason."""
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
