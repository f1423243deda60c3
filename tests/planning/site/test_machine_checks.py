"""A site's bare-metal machines, as Nova and Ironic require them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.fabric.test_ethernet_life import ethernet
from tests.engine.metalhouse import site
from weft.model.site import Site
from weft.planning.site.check import check_site, hints


def changed(by: str, network: str) -> Site:
    document: dict[str, Any] = ethernet(site()).model_dump(mode="json")
    document["clouds"]["lab"] |= {"machines_by": by}
    document["clouds"]["lab"]["management"]["physical_network"] = network
    return Site.model_validate(document)


@pytest.mark.parametrize(
    ("by", "same", "refused"), [("nova", True, True), ("nova", False, False), ("ironic", True, False)]
)
def test_nova_machines_need_separate_management_physical_network(by: str, same: bool, refused: bool) -> None:
    """Ironic would attach the management port to an adapter for RDMA, or the reverse."""
    network = ethernet(site()).fabrics["ib0"].physical_network if same else "elsewhere"
    path = ("clouds", "lab", "management", "physical_network")
    found = [allowed for where, _, allowed in check_site(changed(by, network)) if where == path]
    assert bool(found) is refused
    assert all("any of its adapters on the same one" in allowed for allowed in found)


def test_machine_owners_give_a_hint() -> None:
    """Only operators know whose projects they are."""
    document = site().model_dump(mode="json")
    assert not [h for h in hints(site()) if "owns in Ironic" in h]
    document["clouds"]["lab"]["machine_owners"] = ["f00d"]
    [hint] = [h for h in hints(Site.model_validate(document)) if "owns in Ironic" in h]
    assert "members of project f00d may act on machines" in hint
