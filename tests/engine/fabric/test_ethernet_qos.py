"""Pods with ports not set for RoCE as the site wants: the policy decides, and the difference is named."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import replace

import pytest

from tests.engine.fabric.test_ethernet_life import EthernetHouse, ethernet, ports, visits
from weft.app.shown import shown
from weft.engine.base.database import Database
from weft.model.pod import PodState
from weft.model.site import Site
from weft.planning.fabric.qos import PortQos, SwitchQos
from weft.testing.ethernet import FakeEthernet

RIGHT = PortQos(frozenset({3}), frozenset({3}), frozenset({"dscp"}), {n: n // 8 for n in range(64)}, mtu=9216)
"""As `nv set qos roce` makes it."""


def house_with(database: Database, url: str, policy: str) -> EthernetHouse:
    house = EthernetHouse(database, url)
    document = ethernet(house.site).model_dump(mode="json")
    document["fabrics"]["ib0"]["qos"] = {"policy": policy}
    house.site = Site.model_validate(document)
    house.fake = FakeEthernet(house.site, "ib0")
    house.world = replace(
        house.world, resources={**house.world.resources, "ib0": house.fake}, fabrics={"ib0": house.fake}
    )
    house.store.activate_site(house.site, "test")
    set_all(house, RIGHT)
    return house


def set_all(house: EthernetHouse, settings: PortQos) -> None:
    for switch in house.fake.switches.values():
        switch.settings = SwitchQos(dict.fromkeys(switch.config.ports, settings))


@pytest.fixture(params=["warn", "refuse"])
def house(request: pytest.FixtureRequest, database: Database, database_url: str) -> Generator[EthernetHouse]:
    house = house_with(database, database_url, request.param)
    yield house
    house.close()


@pytest.fixture
def warned(database: Database, database_url: str) -> Generator[EthernetHouse]:
    house = house_with(database, database_url, "warn")
    yield house
    house.close()


@pytest.fixture
def refused(database: Database, database_url: str) -> Generator[EthernetHouse]:
    house = house_with(database, database_url, "refuse")
    yield house
    house.close()


def test_correct_port_settings_are_part_of_the_verification(house: EthernetHouse) -> None:
    pod = house.ready()
    assert pod.reason == "" and house.service.audits.run(house.operator).findings == ()
    [verified] = [e.message for e in house.store.records.events(pod.id, 0) if e.type == "verified"]
    assert "ports' settings for RoCE of ib0" in verified


def test_pod_is_ready_with_a_note_if_the_policy_is_warn(warned: EthernetHouse) -> None:
    """In its condition, its verification event and the audit; gone once the switch is corrected."""
    set_all(warned, replace(RIGHT, pfc=frozenset({3, 4})))
    pod = warned.ready()
    assert "PFC of " in pod.reason and "is on priority 3, 4, expected on priority 3" in pod.reason
    [verified] = [e.message for e in warned.store.records.events(pod.id, 0) if e.type == "verified"]
    assert "; but " in verified and "PFC of" in verified
    found = warned.service.audits.run(warned.operator).findings
    assert {f.category for f in found} == {"different"} and {f.pod for f in found} == {pod.name}
    assert any(port in f.what for f in found for port in ports(warned, pod))
    assert not any(f.repaired for f in warned.service.audits.run(warned.operator, repair=True).findings)
    view = warned.service.pods.show(warned.request(), str(pod.id))
    shown_text = shown(view).model_dump_json()
    assert not any(port in shown_text for port in ports(warned, pod)), "a tenant sees no switch port"
    set_all(warned, RIGHT)
    after = visits(warned, pod, 1)
    assert after.state is PodState.READY and after.reason == ""
    assert warned.service.audits.run(warned.operator).findings == ()


def test_silent_switch_is_noted_if_the_policy_is_warn(warned: EthernetHouse) -> None:
    for switch in warned.fake.switches.values():
        switch.settings = "it has none"
    pod = warned.ready()
    assert pod.state is PodState.READY and "are not known: it has none" in pod.reason
    assert {f.category for f in warned.service.audits.run(warned.operator).findings} == {"unknown"}


def test_flapping_switch_is_not_reported_if_the_policy_is_warn(warned: EthernetHouse) -> None:
    """Its last answer counts meanwhile: neither condition nor events change."""
    set_all(warned, replace(RIGHT, mtu=1500))
    pod = warned.ready()
    reason, events = pod.reason, len(warned.store.records.events(pod.id, 0))
    assert "MTU of" in reason
    for switch in warned.fake.switches.values():
        switch.no_settings = True
    for silent in (True, False, True):
        for switch in warned.fake.switches.values():
            switch.no_settings = silent
        assert visits(warned, pod, 1).reason == reason
    assert len(warned.store.records.events(pod.id, 0)) == events


def test_pod_waits_for_its_ports_if_the_policy_is_refuse(refused: EthernetHouse) -> None:
    set_all(refused, replace(RIGHT, mtu=1500))
    pod = visits(refused, refused.order(), 12)
    for _ in range(200):  # for a moment after the boot nothing is called wrong
        if pod.reason:
            break
        time.sleep(0.01)
        pod = visits(refused, pod, 1)
    assert pod.state is not PodState.READY and "MTU of" in pod.reason and "at least 9000" in pod.reason
    set_all(refused, RIGHT)
    assert refused.run(pod, PodState.READY).state is PodState.READY


def test_unknown_classes_of_a_port_are_unknown_if_the_policy_is_refuse(refused: EthernetHouse) -> None:
    """Such as one with a policy map on Arista: what is not read is not healthy."""
    why = "policy map REMARK may give its packets another class, and weft reads no policy maps"
    set_all(refused, replace(RIGHT, trust=None, dscp=None, unsure=(why,)))
    pod = visits(refused, refused.order(), 12)
    for _ in range(200):
        if pod.reason:
            break
        time.sleep(0.01)
        pod = visits(refused, pod, 1)
    assert pod.state is not PodState.READY and "unknown: " in pod.reason and why in pod.reason


def test_wrong_port_degrades_a_ready_pod_if_the_policy_is_refuse(refused: EthernetHouse) -> None:
    """Ports of other pods, or of none, don't matter to it."""
    pod = refused.ready()
    mine = ports(refused, pod)[0]
    switch, _, name = mine.partition("/")
    there = refused.fake.switches[switch]
    right = dict.fromkeys(there.config.ports, RIGHT)
    other = next(p for p in right if f"{switch}/{p}" not in ports(refused, pod))
    there.settings = SwitchQos({**right, other: replace(RIGHT, ecn=frozenset())})
    assert visits(refused, pod, 1).state is PodState.READY
    there.settings = SwitchQos({**right, name: replace(RIGHT, ecn=frozenset())})
    after = visits(refused, pod, 1)
    assert after.state is PodState.DEGRADED and f"ECN of {mine} is none" in after.reason
    there.settings = SwitchQos(right)
    assert refused.run(after, PodState.READY).state is PodState.READY


def test_release_does_not_check_settings(refused: EthernetHouse) -> None:
    """A switch with wrong settings, or a silent one, delays no receipt."""
    pod = refused.ready()
    set_all(refused, replace(RIGHT, pfc=frozenset()))
    refused.release(pod)
    refused.run(pod, PodState.RELEASED)
    signed = refused.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean
