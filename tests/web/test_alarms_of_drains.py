"""The alarm for a drain whose time has come while pods are still on the node."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.helpers.consoles import Browser, Console

SHARED = {"count": 1, "accelerators": {"type": "h100", "count": 1}, "image": "tiny", "sharing": "shared"}


@pytest.mark.parametrize(
    ("changes", "expected"), [({}, "pod train is"), ({"nodes": SHARED}, "pods that share it are")]
)
def test_overdue_drain_is_an_alarm(
    pods_console: Console, browser: Browser, changes: dict[str, object], expected: str
) -> None:
    """Also if pods have only parts of the node; a node without pods gives no alarm."""
    pod = pods_console.order(fabric="none", **changes)
    used = {pod.placed[0].node, "gpu16"}
    with pods_console.house.database.transaction() as tx:
        past = tx.now() - timedelta(hours=1)
        nodes = sorted(used)
        given = {"by": "olga", "until": past, "reason": "fan", "public": "", "waits": False}
        tx.run("drain_nodes", nodes=nodes, at=past, **given)
        tx.run("touch_queue", at=tx.now())
    browser.sign_in("olga")
    browser.get("/ui/site/alarms")
    assert f"drain overdue: {expected} still there" in browser.text
    assert browser.text.count("drain overdue:") == 1
