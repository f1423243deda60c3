"""`traffic.policy: refuse` where it can't be met is an error of the site, not a refusal of later orders."""

from __future__ import annotations

import pytest

from tests.engine.house import small_site
from tests.helpers.ownports import ethernet_lab
from weft.drivers.switches.capabilities import REFUSED, capabilities_of
from weft.model.fabrictypes import Level
from weft.model.site import Site
from weft.planning.site.check import check_site
from weft.planning.site.traffic import check_traffic
from weftlab.switches.labsite import FABRIC


def with_agents(nodes: list[str], policy: str) -> Site:
    document = ethernet_lab().model_dump(mode="json")
    agents = [{"name": f"a-{n}", "url": f"https://{n}.example:1", "nodes": [n]} for n in nodes]
    files = {"ca": "ca.pem", "certificate": "c.pem", "key": "k.pem"}
    document["fabrics"][FABRIC]["traffic"] = {"agents": agents, "policy": policy, **files}
    return Site.model_validate(document)


def test_refuse_policy_needs_an_agent_on_each_node() -> None:
    nodes = [n.name for n in ethernet_lab().nodes if n.hcas_on(FABRIC)]
    before = check_site(with_agents(nodes, "warn"))
    assert check_site(with_agents(nodes, "refuse")) == before == check_site(with_agents(nodes[:1], "warn"))
    [(path, value, allowed)] = [e for e in check_site(with_agents(nodes[:2], "refuse")) if e not in before]
    assert (path, value) == (("fabrics", FABRIC, "traffic", "policy"), "refuse")
    assert allowed == f"warn: no probe agent is beside {nodes[2]}, {nodes[3]}"


def test_plan_states_the_refuse_policy() -> None:
    nodes = [n.name for n in ethernet_lab().nodes if n.hcas_on(FABRIC)]
    assert REFUSED in capabilities_of(with_agents(nodes, "refuse"), FABRIC).limits
    assert REFUSED not in capabilities_of(with_agents(nodes, "warn"), FABRIC).limits


BLIND = "configuration: {} shows only the configuration, and there are no probe agents (`traffic`)"


@pytest.mark.parametrize(
    ("interface", "wanted", "allowed"),
    [
        ("eos", "operational", ""),
        ("sonic", "configuration", ""),
        (
            "sonic",
            "operational",
            BLIND,
        ),
        (
            "nvue",
            "operational",
            BLIND,
        ),
        ("eos", "frames", f"operational: fabric {FABRIC} has no probe agents (`traffic`)"),
    ],
)
def test_unreachable_evidence_level_is_refused(interface: str, wanted: str, allowed: str) -> None:
    """No release on the fabric could ever be clean."""
    document = ethernet_lab().model_dump(mode="json")
    fabric = document["fabrics"][FABRIC]
    switches = fabric["manager"]["switching"]["switches"]
    for n, switch in enumerate(switches):
        switch |= {"interface": "eos", "url": f"https://sw{n}.example"}
    switches[0]["interface"] = interface
    fabric |= {"traffic": None, "evidence": wanted}
    found = [e for e in check_site(Site.model_validate(document)) if e[0] == ("fabrics", FABRIC, "evidence")]
    said = [(wanted, allowed.format(switches[0]["name"]))] if allowed else []
    assert [(value, what) for _, value, what in found] == said


@pytest.mark.parametrize("vfs", [0, 2])
def test_operational_evidence_of_functions_on_ufm_is_refused(vfs: int) -> None:
    """Agents read the physical ports' tables and not those of virtual ports, so no release could be clean."""
    site = small_site()
    fabric = site.fabrics["ib0"]
    manager = fabric.manager.model_copy(update={"driver": "ufm"})
    fabric = fabric.model_copy(update={"manager": manager, "evidence": Level.OPERATIONAL})
    split = site.nodes[0]
    hcas = tuple(h.model_copy(update={"vfs": vfs}) for h in split.hcas)
    nodes = (split.model_copy(update={"hcas": hcas}), *site.nodes[1:])
    found = list(check_traffic(site.model_copy(update={"fabrics": {"ib0": fabric}, "nodes": nodes})))
    assert manager.agents and [p for p, _, _ in found] == [("fabrics", "ib0", "evidence")] * bool(vfs)
    assert all(split.name in why and "virtual functions" in why for _, _, why in found)
