"""A listing of hosts that fails: what its callers had read ends with them."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from tests.drivers.openstack.tinycloud import Reply, tiny_cloud
from weft.drivers.openstack import OpenStackFacts, Sessions
from weft.model.errors import UnknownError


class Read:
    """What a caller has read before."""


def ask(facts: OpenStackFacts) -> weakref.ref[Read]:
    mine = Read()
    try:
        facts.servers_on_hosts()
    except UnknownError:
        return weakref.ref(mine)
    raise AssertionError("it was listed")


def test_failed_listing_keeps_nothing_of_its_callers(tmp_path: Path) -> None:
    """No cycle of the error and its traceback waits for Python's collector with all that they had read."""
    with tiny_cloud() as (tiny, text):
        (tmp_path / "clouds.yaml").write_text(text)
        sessions = Sessions("weft", [tmp_path / "clouds.yaml"])
        facts = OpenStackFacts(sessions)
        gc.disable()
        try:
            tiny.lies = [("GET /compute/os-hypervisors/detail", Reply(200, {"hypervisors": None}))]
            kept = ask(facts)
            tiny.lies = [("GET /compute/os-hypervisors/detail", Reply(200, {"hypervisors": []}))]
            assert facts.servers_on_hosts() == {}  # it replaces the error that was kept
            assert kept() is None
        finally:
            gc.enable()
            sessions.close()
