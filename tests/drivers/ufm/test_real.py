"""The stand-in as a program over real OpenSM: what REST sets arrives in the ports' tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers.opensm.rigs import FABRIC, scope, until
from tests.drivers.ufm.real_rigs import RealUfmRig
from tests.drivers.ufm.rigs import segment
from tests.fabricagent.test_hardening import UPSTREAM_LACKS, VENDORS
from weft.app.livecheck import check_live
from weft.drivers.ufm import Ufm
from weft.model.errors import UnknownError
from weft.model.fabric import ManagerState
from weft.model.resources import Resource, Status
from weft.ports.ledger import NoLedger

KEY = 0x101


@pytest.fixture
def rig(real_ufm: RealUfmRig) -> Iterator[RealUfmRig]:
    return real_ufm


pytestmark = pytest.mark.fabric


def status(rig: RealUfmRig, wanted: Resource) -> Status:
    return rig.driver.find(scope(), [wanted], {})[wanted.key].status


def made(rig: RealUfmRig, ports: list[str]) -> Resource:
    wanted = segment(KEY, ports)
    assert rig.driver.create(scope(), [wanted], {})["partition"].error is None
    until("it is settled", lambda: status(rig, wanted) is Status.SETTLED)
    return wanted


def test_partition_reaches_the_ports_tables(rig: RealUfmRig) -> None:
    """On hosts and leaves, of members only; after the release none has it."""
    ports = rig.ports()
    wanted = made(rig, ports[:2])
    for port in ports[:3]:
        inside = {KEY | 0x8000} if port in ports[:2] else set[int]()
        assert rig.keys(port) == ({0x7FFF} | inside,) * 2
    rig.driver.delete(scope(), [wanted], {})
    until("it is gone", lambda: status(rig, wanted) is Status.ABSENT)
    assert rig.keys(ports[0]) == ({0x7FFF},) * 2


def test_standby_takes_over(rig: RealUfmRig) -> None:
    """The other address answers with the partitions, and the ports kept them all the time."""
    wanted = made(rig, rig.ports()[:2])
    first = rig.driver.rest.active
    rig.control.do("failover")
    assert status(rig, wanted) is Status.SETTLED
    assert rig.driver.rest.active != first
    states = [m.state for m in rig.driver.status().managers]
    assert sorted(states) == [ManagerState.MASTER, ManagerState.STANDBY]
    rig.driver.update(scope(), [segment(KEY, rig.ports()[:3])], {})
    until("it is settled", lambda: status(rig, segment(KEY, rig.ports()[:3])) is Status.SETTLED)


def test_stopped_ufm_is_unknown(rig: RealUfmRig) -> None:
    """The ports keep their tables; nothing is absent or clean until UFM is back."""
    wanted = made(rig, rig.ports()[:2])
    rig.control.do("stop")
    with pytest.raises(UnknownError):
        status(rig, wanted)
    assert not rig.driver.status().known
    assert KEY | 0x8000 in rig.keys(rig.ports()[0])[0]
    rig.control.do("start")
    assert status(rig, wanted) is Status.SETTLED


def test_manager_that_missed_a_change_is_detected_on_the_wire(rig: RealUfmRig) -> None:
    """UFM accepted the change and its OpenSM never got it."""
    rig.control.plant(hold=True)
    wanted = segment(KEY, rig.ports()[:2])
    quick = Ufm(rig.site, FABRIC, NoLedger(), takes=0.2)
    assert quick.create(scope(), [wanted], {})["partition"].error is None
    assert quick.find(scope(), [wanted], {})["partition"].status is Status.PENDING
    rig.control.plant(hold=False)
    until("it is settled", lambda: status(rig, wanted) is Status.SETTLED)
    quick.close()


def test_ufm_certificate_must_be_of_the_sites_authority(rig: RealUfmRig, tmp_path: Path) -> None:
    """With another authority's, or one unknown to this host, nothing is sent, least of all credentials."""
    from weft.fabricagent.tls import make_certificates

    make_certificates(tmp_path, {"x": ["127.0.0.1"]})
    for ca in (str(tmp_path / "ca.pem"), None):
        more = {"ca": ca, "certificate": None, "key": None, "agents": ()}
        manager = rig.site.fabrics[FABRIC].manager.model_copy(update=more)
        fabric = rig.site.fabrics[FABRIC].model_copy(update={"manager": manager})
        asked = rig.control.status()["calls"]
        driver = Ufm(rig.site.model_copy(update={"fabrics": {FABRIC: fabric}}), FABRIC, NoLedger())
        with pytest.raises(UnknownError, match="certificate verify failed"):
            driver.configured()
        assert rig.control.status()["calls"] == asked
        driver.close()


def test_weft_signs_in_by_its_certificate(rig: RealUfmRig) -> None:
    more = {"authentication": "certificate", "credentials": None}
    manager = rig.site.fabrics[FABRIC].manager.model_copy(update=more)
    fabric = rig.site.fabrics[FABRIC].model_copy(update={"manager": manager})
    driver = Ufm(rig.site.model_copy(update={"fabrics": {FABRIC: fabric}}), FABRIC, NoLedger())
    assert driver.configured().numbers == frozenset()
    driver.close()


def test_topology_matches_the_site(rig: RealUfmRig) -> None:
    """Every switch, adapter and cable, by GUID and port, as UFM lists them."""
    site, observed = rig.site, rig.driver.topology()
    guids = {s.name: s.guid for s in site.switches}
    guids |= {f"{n.name}/{h.name}": h.guid for n in site.nodes for h in n.hcas}
    wanted = {frozenset({(guids[k.a], k.a_port), (guids[k.b], k.b_port)}) for k in site.links}
    assert {frozenset((e.guid, e.port) for e in link) for link in observed.links} == wanted
    assert {n.guid for n in observed.nodes} == set(guids.values())
    assert {g for n in observed.nodes for g in n.port_guids} == set(site.hca_by_port_guid)


def test_live_check_finds_the_labs_weaknesses(rig: RealUfmRig) -> None:
    """REST's settings are right; each agent's own opensm.conf isn't, and one doesn't replace the other."""
    live = check_live(rig.site)
    assert all(w.allows for w in live.weaknesses)
    by = {m: {w.setting for w in live.weaknesses if w.manager == m} for m in ("ufm", "sm1", "sm2")}
    assert by["ufm"] == set() and by["sm1"] == by["sm2"] == UPSTREAM_LACKS | VENDORS
    assert live.problems == ()
