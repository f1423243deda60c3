"""What UFM says about the fabric and itself: inventory, alarms, versions, settings."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.drivers.opensm.rigs import scope
from tests.drivers.ufm.rigs import UfmRig, create, seen, segment, spec
from tests.helpers.waiting import wait_for
from weft.drivers.ufm import inventory as module
from weft.drivers.ufm.besides import besides
from weft.drivers.ufm.inventory import (
    UfmInventory,
    VirtualPort,
    alarm_text,
    read_ports,
    read_virtual,
    topology,
    unhealthy_text,
)
from weft.drivers.ufm.partitions import read_listing, read_one, set_body
from weft.drivers.ufm.versions import differences, parse_version, troubles, why_not_change
from weft.model.agentapi import AgentStatus, RepairQuery, RepairResult
from weft.model.errors import UnknownError
from weft.model.fabric import ManagerState, PortErrors
from weft.model.fabrictypes import Mode
from weft.model.livecheck import Weakness
from weft.model.problem import ProblemKind
from weft.model.resources import Status
from weftlab.ufm import Dialect
from weftlab.ufm.inventory import VirtualPort as VirtualPortOfUfm
from weftlab.ufm.ufm import SAFE_SMCONF

KEY, LONG = 0x101, 60.0
ROW = {
    "name": "0002c903000e0b72_1", "guid": "0002c903000e0b73", "systemID": "0002c903000e0b72", "number": 1,
    "description": "Computer IB Port", "logical_state": "Active", "physical_state": "Link Up",
    "node_description": "gpu01 mlx5_0", "peer": "e41d2d0300000010_7",
}  # fmt: skip


@pytest.fixture
def rig(tmp_path: Path) -> UfmRig:
    return UfmRig(tmp_path)


# -- what is read --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["0x5", "0x0005", "0X5", "5", "0x8005"])
def test_key_is_recognized_in_every_notation(key: str) -> None:
    document = {"0x7fff": {"guids": []}, key: {"guids": [{"guid": "0002C903000E0B72", "membership": "full"}]}}
    assert read_listing(document).partitions[5].members == {0x0002C903000E0B72: Mode.FULL}


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (["0x5", "0x7fff"], "list"),
        ({"0x5": {"guids": []}}, "default"),
        ({"0x7fff": {"guids": []}, "0x5": {}}, "without its list"),
        ({"0x7fff": {"guids": []}, "0x5": {"guids": [{"guid": "5", "membership": "both"}]}}, "both"),
        ({"0x7fff": {"guids": []}, "0x5": {"guids": [{"guid": "0", "membership": "full"}]}}, "GUID"),
        ({"0x7fff": {"guids": []}, "0x5": {"guids": []}, "0x8005": {"guids": []}}, "twice"),
        ({"0x7fff": {"guids": []}, "x": {"guids": []}}, "P_Key"),
    ],
)
def test_malformed_listing_names_the_reason(document: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_listing(document)


def test_unknown_fields_are_ignored() -> None:
    extra = {"guid": "5", "membership": "limited", "index0": True, "lid": 65535, "state": "Unknown"}
    document = {"0x7fff": {"guids": [], "membership": "limited"}, "0x5": {"guids": [extra], "sharp": None}}
    listing = read_listing(document)
    assert listing.partitions[5].members == {5: Mode.LIMITED} and listing.default_membership is Mode.LIMITED


def test_empty_answer_and_none_both_mean_absent() -> None:
    assert read_one({}, 5) is None and read_one(None, 5) is None
    with pytest.raises(ValueError, match="list of members"):
        read_one({"partition": "p"}, 5)


def test_empty_list_is_never_sent() -> None:
    with pytest.raises(ValueError, match="never sent"):
        set_body(5, {}, None)
    body = set_body(5, {2: Mode.LIMITED, 1: Mode.FULL}, None)
    assert body["guids"] == ["0" * 15 + "1", "0" * 15 + "2"] and body["memberships"] == ["full", "limited"]
    assert "membership" not in body and set_body(5, {1: Mode.FULL}, None)["membership"] == "full"


def test_port_numbers_may_be_text() -> None:
    assert read_ports([ROW]) == read_ports([{**ROW, "number": "1", "lid": None, "new": []}])
    with pytest.raises(ValueError, match="GUID"):
        read_ports([{"name": "x"}])


def test_host_with_an_exchanged_adapter_is_missing() -> None:
    """It stays in UFM's list with the old GUID, without a live port or peer; a description proves nothing."""
    stale = {**ROW, "name": "0a_1", "guid": "0b", "systemID": "0a", "logical_state": "Down", "peer": "N/A"}
    switch = {
        **ROW, "name": "e41d2d0300000010_7", "guid": "e41d2d0300000010", "systemID": "e41d2d0300000010", "number": "7",
        "description": "Switch IB Port", "peer": "0002c903000e0b72_1", "node_description": "localhost",
    }  # fmt: skip
    found = topology(read_ports([ROW, stale, switch]))
    assert [n.guid for n in found.nodes] == [0x0002C903000E0B72, 0xE41D2D0300000010]
    assert len(found.links) == 1


def test_list_with_fewer_ports_than_before_is_doubted_until_a_later_one_agrees(
    rig: UfmRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UFM answers while it still discovers; a port that is down stays in its list."""
    inventory, now = UfmInventory(rig.driver.rest, quiet=30.0), [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    whole = inventory.ports()
    fewer = [p for p in whole if p.node != whole[0].node]
    down = [replace(p, active=False, down=True, peer=None) if p.node == whole[0].node else p for p in whole]
    assert inventory.topology().partial == ()
    monkeypatch.setattr(inventory, "ports", lambda: fewer)
    for at, partial in ((60.0, True), (75.0, True), (90.0, False)):
        now[0] = at
        assert bool(inventory.topology().partial) is partial
    monkeypatch.setattr(inventory, "ports", lambda: down)
    assert inventory.topology().partial == ()


def test_virtual_ports_without_a_guid_are_ignored() -> None:
    zeros = {"virtual_port_guid": "0" * 16, "port_guid": "5"}
    one = {"virtual_port_guid": "00a1", "port_guid": "5", "virtual_port_state": "Active"}
    assert read_virtual([zeros, one]) == {0xA1: (VirtualPort(0xA1, 5, "Active"),)}


def test_guid_of_two_adapters_is_ambiguous() -> None:
    rows = [{"virtual_port_guid": "a1", "port_guid": str(n)} for n in (5, 6)]
    assert [v.physical for v in read_virtual(rows)[0xA1]] == [5, 6] and not read_virtual(rows)[0xA1][0].active


def test_long_list_comes_in_pages(rig: UfmRig, monkeypatch: pytest.MonkeyPatch) -> None:
    import weft.drivers.ufm.inventory as inventory

    whole = rig.driver.topology()
    monkeypatch.setattr(inventory, "PAGE", 7)
    assert rig.driver.topology() == whole
    assert {h.port_guid for n in rig.site.nodes for h in n.hcas} <= {
        g for n in whole.nodes for g in n.port_guids
    }


def virtual_ports(rig: UfmRig, count: int) -> list[int]:
    """Add this many virtual ports behind the first adapter; their GUIDs."""
    physical = rig.ports()[0][2:]
    rig.ufm.inventory.virtual = [VirtualPortOfUfm(f"{n:016x}", physical) for n in range(1, count + 1)]
    return list(range(1, count + 1))


def of_page(number: int, rig: UfmRig, then: Callable[[], object], times: int = 1) -> None:
    """Call `then` right before this page of virtual ports is read, this many times."""
    left = [times]

    def before(request: httpx.Request) -> None:
        if "vports" in str(request.url) and request.url.params["page_number"] == str(number) and left[0]:
            left[0] -= 1
            then()

    rig.before = before


@pytest.mark.parametrize("change", ["less", "more", "one for another"])
def test_list_that_changes_between_its_pages_is_read_again(
    rig: UfmRig, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Others are unplugged meanwhile, so rows move up and one is on no page."""
    monkeypatch.setattr(module, "PAGE", 2)
    guids, ports = virtual_ports(rig, 5), rig.ufm.inventory.virtual
    first, new = ports[0], VirtualPortOfUfm(f"{9:016x}", ports[0].physical)

    def happens() -> None:
        if change != "more":
            ports.remove(first)
        if change != "less":
            ports.insert(3, new)

    of_page(2, rig, happens)
    found = UfmInventory(rig.driver.rest).virtual().by_guid
    assert set(found) >= {guids[2], *guids[3:]} and (9 in found) is (change != "less")


def test_constantly_changing_list_is_unknown(rig: UfmRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    virtual_ports(rig, 12)
    of_page(2, rig, rig.ufm.inventory.virtual.pop, times=9)
    with pytest.raises(UnknownError, match="the list changed during each of 4 readings"):
        UfmInventory(rig.driver.rest).virtual()


@pytest.mark.parametrize("name", ["num_of_pages", "total_resources"])
def test_page_without_a_total_is_not_the_whole_list(
    rig: UfmRig, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nor is a page with fewer rows than its total."""
    virtual_ports(rig, 3)
    answers = iter(
        [{"num_of_pages": 1, "total_resources": 3, "data": []} for _ in range(4)]
        + [{n: 1 for n in ("num_of_pages", "total_resources") if n != name} | {"data": []}]
    )
    monkeypatch.setattr(rig.driver.rest, "get", lambda *_, **__: next(answers))
    inventory = UfmInventory(rig.driver.rest)
    with pytest.raises(UnknownError, match="changed during"):
        inventory.virtual()
    with pytest.raises(UnknownError, match="doesn't say how many rows"):
        inventory.virtual()


# -- alarms and unhealthy ports --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["6.16.1", "6.17.0"])
def test_alarms_in_both_shapes_are_in_the_status(tmp_path: Path, version: str) -> None:
    rig = UfmRig(tmp_path, dialect=Dialect(version=version))
    rig.ufm.health.alarms += [("leaf01", "Critical", "a fan failed"), ("leaf02", "Info", "nothing")]
    rig.ufm.health.unhealthy["0002c903000e0b72_1"] = "UNRESPONSIVE"
    said = " ".join(rig.driver.status().managers[0].problems)
    assert "leaf01: a fan failed" in said and "leaf02" not in said and "UNRESPONSIVE" in said


def test_answer_shapes_of_both_routes_are_read() -> None:
    assert "on leaf01" in alarm_text({"related_object_name": "leaf01", "severity": "Minor", "type": 352})
    assert "FLAPPING" in unhealthy_text({"Condition": ["FLAPPING"], "UnhealthyPort": 3, "UnhealthyGUID": "a"})


def test_many_alarms_are_counted(rig: UfmRig) -> None:
    rig.ufm.health.alarms += [(f"leaf{i}", "Warning", "x") for i in range(30)]
    problems = rig.driver.status().managers[0].problems
    assert len(problems) == 21 and "and 10 more" in problems[-1]


# -- agents beside UFM -----------------------------------------------------------------------------------------------


def test_agent_that_is_away_is_in_the_status(rig: UfmRig) -> None:
    """The other agent is enough to read the ports, so nothing else shows it."""
    assert rig.driver.status().problems == ()
    rig.fabric.manager("sm2").reachable = False
    status = rig.driver.status()
    assert status.known
    [problem] = status.problems
    assert problem.startswith("agent sm2: ") and "no answer" in problem


def test_agents_readings_are_in_the_status(rig: UfmRig) -> None:
    """Lines of opensm's log and error counters, which UFM's REST doesn't have."""
    errors = PortErrors(
        node="leaf01", port=3, counters={"SymbolErrorCounter": 9}, over=("SymbolErrorCounter",)
    )
    master = rig.fabric.manager("sm1")
    master.port_errors = (errors,)
    rig.fabric.wire.log = ["ERR 0512: Failed to set PKey"]
    status = rig.driver.status()
    assert (status.port_errors, status.bad_ports) == ((errors,), 1)
    assert status.problems == ("agent sm1: opensm's log: ERR 0512: Failed to set PKey",)
    assert [m.name for m in status.managers] == ["ufm1.lab", "ufm2.lab"]


def test_agents_alone_do_not_prove_a_managed_fabric(rig: UfmRig) -> None:
    """OpenSM runs, but UFM can't be asked, so nothing can be changed or proved."""
    rig.ufm.plant({"statuses": [500] * 8})
    assert not rig.driver.status().known


def test_node_where_ufm_runs_no_opensm_is_a_standby() -> None:
    """UFM starts it only on its active node; the agent's certificate is reported there too."""
    guid = 0x0002C90300000001
    stopped = "opensm does not run on this host: start it"
    old = "certificate agent-sm2.pem expired at 2026-11-01 00:00 UTC: renew it with `weft fabric-agent certs --renew`"
    itself = (
        f"partitions.conf: this subnet manager's port {guid:#x} is not a full member of the default partition"
    )
    open_ = "partitions.conf: the default partition has every port as full member: pods aren't isolated"
    active = AgentStatus(
        name="sm1", state=ManagerState.MASTER, process=9, problems=(open_,), takeover_problems=(itself,)
    )
    standby = AgentStatus(
        name="sm2", state=ManagerState.DOWN, problems=(stopped, "p.conf is missing"), own_problems=(old,)
    )
    found = besides({"sm1": active, "sm2": standby})
    assert found.problems == (f"agent sm1: {open_}", f"agent sm2: {old}")
    assert found.port_errors is None and found.bad_ports is None


# -- versions --------------------------------------------------------------------------------------------------------


def test_each_ufm_version_has_its_differences_and_troubles() -> None:
    assert parse_version("6.14.5-2") == (6, 14, 5, 2) and parse_version(" 6.19\n") == (6, 19, 0, 0)
    assert parse_version("None") is None and parse_version("") is None
    assert (
        why_not_change((6, 15, 1, 4))
        and not why_not_change((6, 15, 6, 4))
        and not why_not_change((6, 12, 0, 0))
    )
    assert troubles((6, 25, 0, 0)) and not troubles((6, 21, 0, 8))
    assert all(d.since < d.before for d in differences((6, 19, 1, 5)))


def test_server_that_is_not_ufm_is_reported(rig: UfmRig) -> None:
    rig.ufm.plant({"texts": ['{"product": "something else"}']})
    assert "no version" in rig.driver.status().managers[0].problems[0]


# -- hardening ---------------------------------------------------------------------------------------------------------

HARDENED = {
    "m_key": "(set)", "m_key_protection_level": "2", "m_key_per_port": "TRUE", "sm_key": "(set)",
    "allowed_sm_guids": "0x0002c90300f00001", "sm_priority": "15", "sa_key": "(set)", "sa_enhanced_trust_model": "TRUE",
    "no_partition_enforcement": "FALSE", "part_enforce": "both", "allow_both_pkeys": "FALSE", "console": "off",
    "cc_key_enable": "2", "vs_key_enable": "2", "n2n_key_enable": "2",
}  # fmt: skip
"""A hardened opensm.conf as an agent reports it."""


def weak_settings(rig: UfmRig) -> list[Weakness]:
    """The findings of `weft site check --live`."""
    return list(rig.driver.live_check().weaknesses)


def test_open_default_partition_is_an_alarm(tmp_path: Path) -> None:
    """default_membership=full joins all tenants: the status reports it and no pod is well, with and without agents."""
    for agents in (True, False):
        rig = UfmRig(tmp_path, agents=agents, default_membership="full")
        assert any("joins all tenants" in p for p in rig.driver.status().managers[0].problems)
        wanted = segment(KEY, rig.ports()[:2])
        rig.driver.create(scope(), [wanted], {})
        kinds = {p.kind for p in rig.driver.check(spec(wanted), rig.driver.snapshot()).problems}
        assert ProblemKind.FAILED_OPEN in kinds


def test_version_without_the_setting_is_reported_unchecked(tmp_path: Path) -> None:
    rig = UfmRig(tmp_path, agents=False, dialect=Dialect(version="6.18.0"))
    settings = rig.driver.settings()
    assert "default_membership" not in settings.names
    assert any("default_membership" in p for p in settings.problems)


@pytest.mark.parametrize(
    ("setting", "value", "found"),
    [
        ("m_key", "0x0", "(not set)"),
        ("sm_key", "0x1", "(the well-known default)"),
        ("sa_key", "0x0000000000000001", "(the well-known default)"),
        ("m_key_per_port", "false", "false"),
        ("no_partition_enforcement", "true", "true"),
    ],
)
def test_each_missing_setting_is_found(tmp_path: Path, setting: str, value: str, found: str) -> None:
    """With what it allows a tenant; of a secret only whether it is set."""
    rig = UfmRig(tmp_path, agents=False, smconf={**SAFE_SMCONF, setting: value})
    [weak] = weak_settings(rig)
    assert (weak.manager, weak.setting, weak.found) == ("ufm", setting, found) and weak.allows
    settings = rig.driver.settings()
    assert not any(secret in str(settings) for secret in SAFE_SMCONF.values() if secret.startswith("0x"))


def test_open_default_partition_is_a_weakness(tmp_path: Path) -> None:
    """Only UFM has this setting (gv.cfg), so it alone is named, with agents too."""
    rig = UfmRig(tmp_path, default_membership="full")
    for name in ("sm1", "sm2"):
        rig.fabric.manager(name).settings = dict(HARDENED)
    [weak] = weak_settings(rig)
    assert (weak.manager, weak.setting, weak.found) == ("ufm", "default_membership", "full")
    assert "limited" in weak.wanted and "every other tenant" in weak.allows


def test_weak_settings_of_one_node_are_reported_although_the_others_are_not(rig: UfmRig) -> None:
    """Each node of a pair has its own opensm.conf, which counts after a failover; neither the other agent's file nor
    REST replaces it.
    """
    sm1, sm2 = rig.fabric.manager("sm1"), rig.fabric.manager("sm2")
    for weak, strong in ((sm1, sm2), (sm2, sm1)):
        strong.settings = dict(HARDENED)
        weak.settings = {**HARDENED, "m_key": "(not set)"}
        [found] = weak_settings(rig)
        assert (found.manager, found.setting, found.found) == (weak.name, "m_key", "(not set)")
    sm1.settings, sm2.settings = dict(HARDENED), {}
    found = weak_settings(rig)
    assert {w.manager for w in found} == {"sm2"} and {"m_key", "cc_key_enable"} <= {w.setting for w in found}


def test_rest_options_are_judged_next_to_hardened_agents(tmp_path: Path) -> None:
    """UFM writes its own value to opensm.conf at its next start."""
    rig = UfmRig(tmp_path, smconf={**SAFE_SMCONF, "sm_key": "0x1"})
    for name in ("sm1", "sm2"):
        rig.fabric.manager(name).settings = dict(HARDENED)
    [weak] = weak_settings(rig)
    assert (weak.manager, weak.setting, weak.found) == ("ufm", "sm_key", "(the well-known default)")


def test_agent_supplies_options_missing_in_rest(rig: UfmRig) -> None:
    """The other agent's file is unknown, and reported as unknown."""
    rig.fabric.manager("sm1").settings = dict(HARDENED)
    rig.fabric.manager("sm2").reachable = False
    settings = rig.driver.settings()
    assert weak_settings(rig) == [] and len(settings.problems) == 1 and "agent sm2" in settings.problems[0]


def test_unreadable_settings_are_a_problem(rig: UfmRig) -> None:
    rig.ufm.plant({"statuses": [500] * 4})
    rig.fabric.manager("sm1").reachable = False
    settings = rig.driver.settings()
    assert any("UFM's settings can't be read" in p for p in settings.problems)
    assert any("next to agent sm1" in p for p in settings.problems)


# -- the second proof --------------------------------------------------------------------------------------------


def test_one_agent_suffices_and_none_is_unknown(rig: UfmRig) -> None:
    wanted = segment(KEY, rig.ports()[:2])
    rig.driver.create(scope(), [wanted], {})
    rig.fabric.manager("sm1").reachable = False
    assert rig.driver.find(scope(), [wanted], {})["partition"].status is Status.SETTLED
    rig.fabric.manager("sm2").reachable = False
    with pytest.raises(UnknownError, match=r"sm1.*sm2"):
        rig.driver.find(scope(), [wanted], {})


def test_drift_unknown_to_the_manager_is_detected_and_repaired(rig: UfmRig) -> None:
    """A key written to a port from outside: UFM doesn't know it, the tables show it, an update repairs it."""
    wanted = segment(KEY, rig.ports()[:2])
    rig.driver.create(scope(), [wanted], {})
    guid = int(rig.ports()[1], 16)
    rig.fabric.erase_key(guid, KEY | 0x8000)
    assert rig.driver.find(scope(), [wanted], {})["partition"].status is Status.PENDING
    rig.driver.update(scope(), [wanted], {})
    assert rig.driver.find(scope(), [wanted], {})["partition"].status is Status.SETTLED


def test_pods_that_drifted_at_the_same_time_are_repaired_together(rig: UfmRig) -> None:
    """The agents beside UFM repair one request after the other."""
    wanted = [segment(KEY + n, rig.ports()[2 * n : 2 * n + 2]) for n in range(3)]
    for n, one in enumerate(wanted):
        create(rig, one, pod=n)
        rig.fabric.erase_key(int(rig.ports()[2 * n], 16), KEY + n | 0x8000)
    agent, sent, begun, goes_on = rig.fabric.manager("sm1"), list[int](), threading.Event(), threading.Event()
    repair, line = agent.repair, rig.driver._eyes._repairs.line  # pyright: ignore[reportPrivateUsage]

    def slowly(query: RepairQuery) -> RepairResult:
        sent.append(len(query.port_guids))
        begun.set()
        assert goes_on.wait(LONG)
        return repair(query)

    agent.repair = slowly  # type: ignore[method-assign]
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(rig.driver.update, scope(0), [wanted[0]], {})
        assert begun.wait(LONG)
        others = [pool.submit(rig.driver.update, scope(n), [wanted[n]], {}) for n in (1, 2)]
        wait_for(lambda: line.waiting == 2)
        goes_on.set()
        assert all(made.result(LONG)["partition"].error is None for made in (first, *others))
    assert sent == [1, 2]
    assert [seen(rig, one, pod=n).status for n, one in enumerate(wanted)] == [Status.SETTLED] * 3


def test_full_table_is_reported(rig: UfmRig) -> None:
    """The sizes of ports are known where an agent reads them."""
    for number in range(62):
        rig.foreign(0x2000 + number, {rig.ports()[0]: "full"})
    [tight] = rig.driver.usage().tight
    assert tight.port == rig.ports()[0] and tight.entries == 64 and len(tight.numbers) == 63
