"""Attempts to query the subnet administrator from a whole adapter: a real OpenSM refuses them, and operators see it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.drivers.opensm.rigs import FABRIC, RealRig, until
from weft.model.ids import format_guid
from weft.planning.fabric.hardening import RULES
from weftlab.layout import LabError

LATELY = "opensm's log, lately: "


def reported(real: RealRig) -> list[str]:
    """Attempts in the first manager's status."""
    problems = real.another_driver().status().managers[0].problems
    return [p for p in problems if p.startswith(LATELY)]


def lid_of(real: RealRig, guid: int) -> int:
    found = re.search(r"LID start (\w+)", real.faults.ask("ibaddr", "-l", "-G", format_guid(guid)))
    assert found, "output of ibaddr"
    return int(found[1], 0)


@pytest.fixture
def rig(real: RealRig) -> Iterator[RealRig]:
    """Restart the agent afterwards, since other tests need a status without problems and a new agent ignores the old
    log.
    """
    yield real
    for agent in real.agents:
        real.stop(f"agent-{agent}")
        real.start(f"agent-{agent}")


@pytest.mark.fabric
def test_default_sa_key_shows_a_tenant_others_tables(rig: RealRig) -> None:
    """From a tenant's host, as the live check says of `sa_key`: tables of ports that share a partition with its own,
    such as a manager's. None without the key; another tenant's with neither.
    """
    (allows,) = {r.allows for r in RULES if r.setting == "sa_key"}
    assert "others' P_Key tables" in allows
    mine, other = (n for n in rig.site.nodes[:2] if n.role == "compute")
    end = f"{mine.name}/{mine.hcas[0].name}"

    def table(guid: int, key: str = "1") -> str:
        return rig.faults.ask("saquery", "-t", "500", "--smkey", key, "PKTR", f"{lid_of(rig, guid)}", end=end)

    manager = rig.site.fabrics[FABRIC].manager.agents[0]
    theirs = rig.site.node_by_name[manager.node or manager.name].hcas_on(FABRIC)[0].port_guid
    assert "0xffff" in table(theirs)
    assert table(other.hcas[0].port_guid) == ""
    with pytest.raises(LabError):
        table(theirs, "0")


@pytest.mark.fabric
def test_refused_attempts_are_in_the_status(rig: RealRig) -> None:
    """Wrong keys from a tenant's host, as OpenSM logs them, without the keys; a LID is reported as its port's GUID."""
    real = rig
    node = next(n for n in real.site.nodes if n.role == "compute")
    end, guid = f"{node.name}/{node.hcas[0].name}", node.hcas[0].port_guid
    before = reported(real)  # ignore the log so far
    assert not any("0x5" in p for p in before)
    for key, said in (("0x5ec2e7", "ERR 1A04"), ("0", "ERR 4608")):
        with pytest.raises(LabError):
            real.faults.ask("saquery", "-t", "500", "--smkey", key, "PKTR", end=end)
        until(f"{said} is reported", lambda said=said: any(said in p for p in reported(real)))
    assert not any("5ec2e7" in p.lower() for p in reported(real))
    lid = lid_of(real, guid)
    log = real.faults.place.of(real.agents[0]) / "opensm.log"
    with log.open("a") as file:  # the simulator's adapters send no traps
        file.write(
            f"Nov 23 -> log_trap_info: Bad P_Key:0x8101 on SL:0 from LID1:{lid} QP1:0x1 to LID2:9 QP2:0x48\n"
        )
    until("the trap is reported", lambda: any("Bad P_Key" in p for p in reported(real)))
    (trap,) = [p for p in reported(real) if "Bad P_Key" in p]
    assert f"LID1:{lid} ({format_guid(guid)})" in trap
