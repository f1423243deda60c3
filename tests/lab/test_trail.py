"""Neutron's audit trail in the lab: the place of its filter, and how events are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from weftlab import trail
from weftlab.layout import LabError, Layout

PASTE = "keystone = cors authtoken keystonecontext extensions neutronapiapp_v2_0\n"
EVENT = (
    "2026-11-30 08:51:00.1 7 INFO oslo.messaging.notification.audit.http.request [None req-1 a - - - -] "
    '{"event_type": "audit.http.request", "payload": {"action": "create", "outcome": "pending"}}'
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "lab", tmp_path / "cache", 0)
    for folder in (made.etc / "neutron", made.log("x").parent, tmp_path / "env/etc/neutron"):
        folder.mkdir(parents=True)
    return made


def test_audit_filter_is_placed_after_the_one_that_authenticates(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "env/etc/neutron/api-paste.ini").write_text(PASTE)
    trail.write(layout, tmp_path / "env")
    text = trail.paste_path(layout).read_text()
    assert "keystonecontext audit extensions neutronapiapp" in text
    assert f"audit_map_file = {tmp_path}/env/etc/pycadf/neutron_api_audit_map.conf" in text


def test_unexpected_pipeline_is_reported(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "env/etc/neutron/api-paste.ini").write_text("keystone = cors\n")
    with pytest.raises(LabError, match="no place"):
        trail.write(layout, tmp_path / "env")


def test_trail_lists_the_events_of_the_log(layout: Layout) -> None:
    layout.log("neutron").write_text(f"2026 7 INFO neutron.wsgi [None] {{}}\n{EVENT}\n")
    assert trail.events(layout) == [{"action": "create", "outcome": "pending"}]
