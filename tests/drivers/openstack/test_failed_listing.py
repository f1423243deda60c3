"""A failed listing of hosts doesn't keep what its callers have read."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from tests.drivers.openstack.tinycloud import Reply, tiny_cloud
from weft.drivers.openstack import OpenStackFacts, Sessions
from weft.model.errors import UnknownError


class Read:
    """An object that a caller holds."""


def ask(facts: OpenStackFacts) -> weakref.ref[Read]:
    """Let a listing fail; a weak reference to the caller's object."""
    mine = Read()
    try:
        facts.servers_on_hosts()
    except UnknownError:
        return weakref.ref(mine)
    raise AssertionError("the listing didn't fail")


def test_failed_listing_keeps_nothing_of_its_callers(tmp_path: Path) -> None:
    """No reference cycle of the error and its traceback keeps callers' objects until Python's collector runs."""
    with tiny_cloud() as (tiny, text):
        (tmp_path / "clouds.yaml").write_text(text)
        sessions = Sessions("weft", [tmp_path / "clouds.yaml"])
        facts = OpenStackFacts(sessions)
        gc.disable()
        try:
            tiny.lies = [("GET /compute/os-hypervisors/detail", Reply(200, {"hypervisors": None}))]
            kept = ask(facts)
            tiny.lies = [("GET /compute/os-hypervisors/detail", Reply(200, {"hypervisors": []}))]
            assert facts.servers_on_hosts() == {}  # replaces the error of the failed listing
            assert kept() is None
        finally:
            gc.enable()
            sessions.close()
