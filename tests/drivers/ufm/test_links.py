"""Which links pods use on a fabric of UFM: its agents read the switches' tables, since UFM doesn't have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drivers.ufm.rigs import UfmRig
from weft.model.errors import ConflictError, UnknownError
from weft.planning.fabric.forwarding import Forwarding
from weft.ports.fabric import FollowsRoutes


def silent(*_: object) -> None:
    raise UnknownError("ask", "the agent", "no answer")


def test_agent_beside_ufm_reads_tables_and_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each agent sees the whole fabric; if none answers nothing is known."""
    rig = UfmRig(tmp_path, agents=True)
    assert isinstance(rig.driver, FollowsRoutes)
    monkeypatch.setattr(rig.fabric.managers[0], "routes", silent)
    monkeypatch.setattr(rig.fabric.managers[0], "counters", silent)
    found = rig.driver.routes(0).routes
    paths = Forwarding(found.tables, found.ports, found.cables)
    a, b, *_ = [node.hcas[0].port_guid for node in rig.site.nodes if node.role == "compute"]
    assert len(paths.path(a, b)) >= 2
    assert rig.driver.rates(0).unread == 0 and rig.driver.rates(0).ports
    for manager in rig.fabric.managers:
        monkeypatch.setattr(manager, "routes", silent)
    with pytest.raises(UnknownError, match="no answer"):
        rig.driver.routes(0)


def test_fabric_without_an_agent_has_no_links_to_follow(tmp_path: Path) -> None:
    rig = UfmRig(tmp_path, agents=False)
    for ask in (rig.driver.routes, rig.driver.rates):
        with pytest.raises(ConflictError, match="subnet manager read forwarding tables, and it has no agent"):
            ask(0)
