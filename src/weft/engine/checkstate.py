"""What a node's last report of its own checks means now. Pure."""

from __future__ import annotations

from datetime import datetime

from weft.engine.stops import Checked
from weft.model.hostchecks import CheckState
from weft.model.ids import span
from weft.model.site import ChecksPolicy


def check_state(checked: Checked | None, policy: ChecksPolicy, now: datetime | None) -> CheckState:
    """The state of a node by its own checks. What failed stays failed, however old; an old result is never ok."""
    if checked is None:
        return "never"
    if checked.failed:
        return "failed"
    if now is None or now - checked.at > span(policy.age):
        return "old"
    return "unknown" if checked.problems or checked.status != "ok" else "ok"
