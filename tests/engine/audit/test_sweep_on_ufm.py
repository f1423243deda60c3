"""The sweep on a fabric of UFM, whose list of members any writer may restore: there are no conditional writes."""

from __future__ import annotations

from pathlib import Path

from tests.engine.audit.test_sweep import alarms, corrections, released, sweep
from tests.engine.house import House
from tests.engine.life.test_functions import furnished
from tests.engine.ufmhouse import UfmOfAHouse, managed_by_ufm
from weftlab.ufm.control import foreign


def test_partition_restored_by_a_stale_writer_is_removed_again(house: House, tmp_path: Path) -> None:
    """A client that read the list before the release writes all of it afterwards: in UFM, and so on the ports."""
    ufm = UfmOfAHouse(house, house.site)
    furnished(house, managed_by_ufm(house.site, tmp_path), ufm.driver)
    pod = released(house)
    number = pod.plan.segment or 0
    assert number and number not in ufm.ufm.pkeys
    ports = [h.port_guid for n in pod.nodes for h in house.site.node_by_name[n].hcas_on("ib0")]
    other = house.site.fabrics["ib0"].segments.last + 1
    for key in (number, other):  # the other one isn't in weft's range: it stays someone else's
        ufm.ufm.set_pkeys(foreign(f"{key:#x}", {f"{g:016x}": "full" for g in ports}))
    assert all(number | 0x8000 in ufm.fabric.wire.hosts[g] for g in ports)
    sweep(house)
    assert set(ufm.ufm.pkeys) == {other}
    assert not any(number | 0x8000 in keys for keys in ufm.fabric.wire.hosts.values())
    assert len(alarms(house, pod)) == 1 and f"{number:#x}" in alarms(house, pod)[0]
    sweep(house)
    (correction,) = corrections(house, pod)
    assert correction.gone_at is not None and len(alarms(house, pod)) == 1
    ufm.ufm.calls.clear()
    assert sweep(house) == [] and [c for c in ufm.ufm.calls if c[0] != "GET"] == []
