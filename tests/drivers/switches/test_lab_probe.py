"""The lab's own switches with its probe agent, as `weft lab up` starts them, asked as weft does, without OpenStack."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.drivers.switches.probed import quiet
from tests.drivers.switches.rigs import scope, vlan
from weft.app.livecheck import check_live
from weft.drivers.probes import FrameProber
from weft.drivers.switches import open_fabric
from weft.model.problem import render
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.ports.ledger import NoLedger
from weftlab.layout import Layout, free_ports, save
from weftlab.site import make_site, settings
from weftlab.supervisor import Supervisor
from weftlab.switches.hosts import Hosts
from weftlab.switches.jobs import lab_switch_jobs
from weftlab.switches.labsite import FABRIC, host_name, lab_ovs, lab_plan

pytestmark = pytest.mark.fabric


@pytest.fixture
def lab() -> Generator[tuple[Site, Hosts]]:
    with tempfile.TemporaryDirectory(prefix="weft-lp-") as folder:
        chosen = settings(nodes=2, leaves=2, spines=2, ipus=0, fabric="ethernet", ports=free_ports())
        layout = Layout(Path(folder), Path(folder) / "cache", chosen.ports)
        save(layout, chosen)
        plan, supervisor = lab_plan(chosen), Supervisor(layout.run)
        try:
            supervisor.run(lab_switch_jobs(layout, plan, cloud=False, probes=True))
            yield make_site(chosen, layout), Hosts(lab_ovs(layout), plan)
        finally:
            supervisor.stop()


def test_probe_rounds_run_on_the_labs_switches(lab: tuple[Site, Hosts]) -> None:
    """Two nodes' adapters in a VLAN on switches of different vendors: packets of the network's 9,000 bytes pass and
    no other adapter hears them; without the VLAN none hears any. `weft site check --live` asks the agent.
    """
    site, hosts = lab
    traffic = site.fabrics[FABRIC].traffic
    assert traffic is not None
    ends = {h.port_id: host_name(n.name, h.name) for n in site.nodes for h in n.hcas_on(FABRIC)}
    mine = {port: name for port, name in ends.items() if name.endswith("mlx5_0")}
    wanted = vlan(0x101, sorted(mine))
    wanted = wanted.model_copy(update={"where": FABRIC})
    assert isinstance(wanted.spec, SegmentSpec)
    with (
        contextlib.closing(open_fabric(site, FABRIC, NoLedger())) as driver,
        contextlib.closing(FrameProber(site, FABRIC, traffic)) as prober,
    ):
        assert driver.create(scope(), [wanted], {})["partition"].error is None
        first, second = mine.values()
        hosts.await_reach([(first, second)], seconds=40)
        addresses = {port: hosts.by_name[name].address for port, name in mine.items()}
        found = quiet(prober, wanted.spec, addresses)
        assert (found.problems, found.notes) == ((), ()), render((*found.problems, *found.notes))
        assert found.looked_at[f"adapters of {FABRIC} that hear each other"] == 2
        assert found.looked_at[f"others of {FABRIC} that hear none of them"] == len(ends) - 2
        assert driver.delete(scope(), [wanted], {})["partition"].error is None
        [item] = prober.clean(wanted.spec)[0].items
        assert item.result == "clean", item.seen
    assert not [p for p in check_live(site).problems if "probe agent" in p]
