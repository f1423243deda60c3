"""Settings for RoCE from each vendor's own answers: each difference is named. Without Open vSwitch: no frames."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from weft.app.livecheck import check_live
from weft.drivers.switches import EthernetFabric, access, open_fabric
from weft.drivers.switches.looks import AGAIN_SECONDS, KEPT_SECONDS, QosReading, Silent
from weft.drivers.switches.sonicqos import TABLES
from weft.model.errors import UnknownError
from weft.model.site import Qos, Site
from weft.planning.fabric.qos import SwitchQos, differences
from weft.ports.ledger import NoLedger
from weftlab.site import FABRIC
from weftlab.switches import leaf_spine
from weftlab.switches.front import PASSWORD, USER, Answer, Front
from weftlab.switches.fronts import Fronts
from weftlab.switches.plan import Speaks
from weftlab.switches.site import ethernet_site

WANTED = Qos()
KINDS: tuple[Speaks, ...] = ("eos", "nvue", "sonic")


class Switch:
    """One leaf of a kind, changed by the vendor's own API, and weft's session to it."""

    def __init__(self, folder: Path, speaks: Speaks) -> None:
        self.speaks = speaks
        plan = leaf_spine(speaks, leaves=2, spines=1, hosts_each=2, mlag=True)
        self.fronts = Fronts(folder, plan, None)
        site = ethernet_site(plan, self.fronts.urls, self.fronts.ca, self.fronts.credentials)
        self.site = with_qos(site)
        self.fabric: EthernetFabric = open_fabric(self.site, FABRIC, NoLedger(), confirm=0.6)
        self.front: Front = self.fronts.by_name["leaf1"]
        self.session = self.fabric.session("leaf1")
        leaf = plan.by_name["leaf1"]
        self.port, self.lag, self.link = leaf.port(1), leaf.port(3), leaf.link(3)
        self.named = [leaf.port(n) for n in (1, 2)] + [self.link] + [leaf.port(n) for n in (4, 5)]
        context = ssl.create_default_context(cafile=str(self.fronts.ca))
        self.client = httpx.Client(base_url=self.fronts.urls["leaf1"], auth=(USER, PASSWORD), verify=context)

    def close(self) -> None:
        self.client.close()
        self.fabric.close()
        self.fronts.close()

    def settings(self) -> SwitchQos:
        settings = self.session.qos()
        assert isinstance(settings, SwitchQos)
        return settings

    def differing(self, port: str) -> list[str]:
        return [
            f"{d.field}: {d.observed}, expected {d.wanted}"
            for one in self.settings().of(port).values()
            for d in differences(WANTED, one)
        ]

    # -- the operator

    def eos(self, *commands: str) -> None:
        params = {"version": 1, "cmds": ["enable", "configure", *commands], "format": "json"}
        body = {"jsonrpc": "2.0", "method": "runCmds", "params": params, "id": "operator"}
        answer = self.client.post("/command-api", json=body).json()
        assert "result" in answer, answer

    def nvue(self, patch: Mapping[str, Any]) -> None:
        (revision,) = self.client.post("/nvue_v1/revision").json()
        answer = self.client.patch(f"/nvue_v1/?rev={revision}", json=patch)
        assert answer.status_code == 200, answer.text
        body = {"state": "apply", "auto-prompt": {"ays": "ays_yes"}}
        done = self.client.patch(f"/nvue_v1/revision/{revision}", json=body).json()
        assert self.client.get(f"/nvue_v1/revision/{revision}").json()["state"] == "applied", done

    def sonic(self, table: str, *rows: Mapping[str, Any]) -> None:
        model = TABLES[table]
        body = {f"{model.partition(':')[0]}:{table}": {f"{table}_LIST": list(rows)}}
        media = {"Content-Type": "application/yang-data+json"}
        answer = self.client.patch(f"/restconf/data/{model}/{table}", json=body, headers=media)
        assert answer.status_code == 204, answer.text

    def make_right(self) -> None:
        """Configure the port for RoCE as the vendor's documents do."""
        if self.speaks == "eos":
            ecn = "random-detect ecn minimum-threshold 256 kbytes maximum-threshold 512 kbytes"
            lines = ["qos trust dscp", "priority-flow-control on", "priority-flow-control priority 3 no-drop"]
            for port in self.named:
                self.eos(f"interface {port}", *lines, "tx-queue 3", ecn, "exit", "exit")
        elif self.speaks == "nvue":
            self.nvue({"qos": {"roce": {"enable": "on", "mode": "lossless"}}})
        else:
            dscp = [{"dscp": str(n), "tc": "3" if n in (24, 26) else "0"} for n in range(64)]
            self.sonic("DSCP_TO_TC_MAP", {"name": "ROCE", "DSCP_TO_TC_MAP": dscp})
            self.sonic("WRED_PROFILE", {"name": "ROCE", "ecn": "ecn_all", "green_min_threshold": "1048576"})
            maps = [{"ifname": p, "dscp_to_tc_map": "ROCE", "pfc_enable": "3"} for p in self.named]
            self.sonic("PORT_QOS_MAP", *maps)
            self.sonic("QUEUE", *({"ifname": p, "qindex": "3-4", "wred_profile": "ROCE"} for p in self.named))


def with_qos(site: Site, **qos: Any) -> Site:
    document = site.model_dump(mode="json")
    document["fabrics"][FABRIC]["qos"] = qos
    return Site.model_validate(document)


@pytest.fixture(params=KINDS)
def switch(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Switch]:
    made = Switch(tmp_path, request.param)
    yield made
    made.close()


def test_factory_default_switch_differs_and_configured_one_does_not(switch: Switch) -> None:
    """Also if the port is a link aggregation, whose links have the queues and pauses."""
    before = switch.differing(switch.port)
    assert "PFC: none, expected on priority 3" in before
    assert any(line.startswith("ECN: ") and line.endswith("expected on priority 3") for line in before)
    assert any(line.startswith("trust: ") for line in before)
    assert switch.differing(switch.lag)
    switch.make_right()
    assert not switch.differing(switch.port)
    assert set(switch.settings().of(switch.lag)) == {switch.lag, switch.link}
    assert not switch.differing(switch.lag)


BREAK: Mapping[tuple[Speaks, str], Callable[[Switch], None]] = {
    ("eos", "PFC"): lambda s: s.eos(f"interface {s.port}", "priority-flow-control priority 4 no-drop"),
    ("eos", "ECN"): lambda s: s.eos(f"interface {s.port}", "tx-queue 3", "no random-detect ecn"),
    ("eos", "trust"): lambda s: s.eos(f"interface {s.port}", "qos trust cos"),
    ("eos", "DSCP 26"): lambda s: s.eos("qos map dscp 26 to traffic-class 5"),
    ("eos", "MTU"): lambda s: s.eos(f"interface {s.port}", "mtu 1500"),
    ("nvue", "PFC"): lambda s: s.nvue(
        {
            "qos": {"pfc": {"storage": {"switch-priority": {"3": {}, "4": {}}}}},
            "interface": {s.port: {"qos": {"pfc": {"profile": "storage"}}}},
        }
    ),
    ("nvue", "ECN"): lambda s: s.nvue(
        {"qos": {"congestion-control": {"default-global": {"traffic-class": {"3": {"ecn": "disable"}}}}}}
    ),
    ("nvue", "trust"): lambda s: s.nvue({"qos": {"mapping": {"default-global": {"trust": "l2"}}}}),
    ("nvue", "DSCP 26"): lambda s: s.nvue(
        {"qos": {"mapping": {"default-global": {"dscp": {"26": {"switch-priority": 0}}}}}}
    ),
    ("nvue", "MTU"): lambda s: s.nvue({"interface": {s.port: {"link": {"mtu": 1500}}}}),
    ("sonic", "PFC"): lambda s: s.sonic("PORT_QOS_MAP", {"ifname": s.port, "pfc_enable": "3,4"}),
    ("sonic", "ECN"): lambda s: s.sonic("WRED_PROFILE", {"name": "ROCE", "ecn": "ecn_red"}),
    ("sonic", "trust"): lambda s: s.sonic(
        "PORT_QOS_MAP", {"ifname": s.port, "dscp_to_tc_map": None, "dot1p_to_tc_map": "AZURE"}
    ),
    ("sonic", "DSCP 26"): lambda s: s.sonic(
        "DSCP_TO_TC_MAP", {"name": "ROCE", "DSCP_TO_TC_MAP": [{"dscp": "26", "tc": "1"}]}
    ),
    ("sonic", "MTU"): lambda s: s.sonic("PORT", {"name": s.port, "mtu": 1500}),
}


@pytest.mark.parametrize("field", ["PFC", "ECN", "trust", "DSCP 26", "MTU"])
def test_each_wrong_setting_is_found_alone(switch: Switch, field: str) -> None:
    switch.make_right()
    BREAK[switch.speaks, field](switch)
    fields = [line.partition(":")[0] for line in switch.differing(switch.port)]
    # without its map SONiC maps the value to no priority
    assert fields == (["trust", "DSCP 26"] if (switch.speaks, field) == ("sonic", "trust") else [field])


def test_malformed_answer_is_unknown(switch: Switch) -> None:
    rows = {"PORT_LIST": [{"alias": "no name"}]}
    for wrong in (["a list"], {"result": [{"interfaces": 3}]}, {"interface": []}, {"sonic-port:PORT": rows}):
        answer = Answer(200, wrong)
        switch.front.faults.instead = lambda *_, answer=answer: answer
        if switch.speaks == "nvue" and "interface" not in wrong and isinstance(wrong, dict):
            continue  # a tree without interfaces: no port is known
        if switch.speaks == "sonic" and wrong in ({"result": [{"interfaces": 3}]}, {"interface": []}):
            continue  # a table that isn't in the answer is an empty one
        with pytest.raises(UnknownError):
            switch.session.qos()


@pytest.mark.parametrize("number", ["1e999", "Infinity", "NaN", "[" * 100_000])
def test_malformed_number_is_unknown(number: str) -> None:
    api = access.Api("leaf1", "https://127.0.0.1", lambda: ("", ""), None)
    with pytest.raises(UnknownError, match="isn't JSON"):
        api._json(200, f'{{"mtu": {number}}}'.encode(), "read")  # pyright: ignore[reportPrivateUsage]


def test_live_check_names_differences_and_silent_switches(tmp_path: Path) -> None:
    """Open vSwitch has no such settings, which is a note and no problem."""
    kinds: Mapping[str, Speaks] = {"leaf1": "eos", "leaf2": "nvue", "spine1": "sonic", "spine2": "ovs"}
    plan = leaf_spine(kinds, hosts_each=1)
    fronts = Fronts(tmp_path, plan, None)
    try:
        site = with_qos(ethernet_site(plan, fronts.urls, fronts.ca, fronts.credentials))
        found = check_live(site)
        assert not found.good
        text = "\n".join(found.problems)
        assert "leaf1/Ethernet1: PFC is none, expected on priority 3" in text
        assert "leaf2/swp1: trust is pcp, expected dscp" in text
        assert "spine1/Ethernet0: trust is none, expected dscp" in text
        assert any(
            n.startswith("ib0: settings for RoCE of spine2 are not known: Open vSwitch") or "spine2" in n
            for n in found.notes
        )
        assert any(
            "of leaf1: what its configuration doesn't say is taken from EOS's defaults" in n
            for n in found.notes
        )
        fronts.by_name["leaf1"].faults.down = True
        assert any("settings for RoCE of leaf1 are not known" in p for p in check_live(site).problems)
    finally:
        fronts.close()


# -- readings of settings


class Teller:
    """A switch that counts how often it is asked."""

    name: str = "leaf1"
    asked = 0
    answer: SwitchQos | str | Exception = SwitchQos({})

    def qos(self) -> SwitchQos | str:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_settings_are_cached_and_a_silent_switch_is_not_retried_at_once() -> None:
    teller, clock = Teller(), [0.0]
    with ThreadPoolExecutor(1) as pool:
        reading = QosReading([teller], pool, 60.0, lambda: clock[0])  # type: ignore[list-item]
        teller.answer = UnknownError("read", "switch leaf1", "no answer")
        assert reading.get() == reading.get() == {"leaf1": Silent("no answer", True)}
        assert teller.asked == 1, "else every visit of every pod would wait for it"
        clock[0], teller.answer = AGAIN_SECONDS, SwitchQos({})
        assert reading.get() == {"leaf1": SwitchQos({})}
        clock[0] += 59.0
        reading.get()
        assert teller.asked == 2
        clock[0] += 1.0
        reading.get()
        assert teller.asked == 3
        reading.get(0.0)
        assert teller.asked == 4, "a check by hand reads again"
        teller.answer = "it has none"
        reading.get(0.0)
        reading.get()
        assert teller.asked == 5, "a switch without settings isn't asked again at once"


def test_last_answer_of_a_silent_switch_counts_for_a_while() -> None:
    """Else its differences would come and go with its answers, and be reported each time."""
    teller, clock = Teller(), [0.0]
    with ThreadPoolExecutor(1) as pool:
        reading = QosReading([teller], pool, 60.0, lambda: clock[0])  # type: ignore[list-item]
        reading.get()
        clock[0], teller.answer = 60.0, UnknownError("read", "switch leaf1", "no answer")
        assert reading.get() == {"leaf1": Silent("no answer", True, SwitchQos({}))}
        clock[0] = KEPT_SECONDS
        assert reading.get() == {"leaf1": Silent("no answer", True)}


class Slow(Teller):
    """A switch that answers when the test lets it."""

    def __init__(self, name: str) -> None:
        self.name, self.begun, self.go = name, threading.Event(), threading.Event()

    def qos(self) -> SwitchQos | str:
        self.begun.set()
        assert self.go.wait(60)
        return super().qos()


def test_slow_switch_does_not_block_known_settings() -> None:
    slow, quick, clock = Slow("leaf1"), Teller(), [0.0]
    quick.name = "leaf2"
    with ThreadPoolExecutor(4) as pool:
        reading = QosReading([slow, quick], pool, 60.0, lambda: clock[0])  # type: ignore[list-item]
        slow.go.set()
        known = reading.get()
        slow.go.clear()
        slow.begun.clear()
        clock[0] = 60.0
        first = pool.submit(reading.get)
        assert slow.begun.wait(60)
        assert reading.get() == known, "it doesn't wait for the reading under way"
        slow.go.set()
        assert first.result(60) == known and slow.asked == 2


@pytest.mark.parametrize("switch", ["nvue"], indirect=True)
def test_lab_refuses_requests_outside_the_schema(switch: Switch) -> None:
    with pytest.raises(AssertionError, match="no such field"):
        switch.nvue({"qos": {"roce": {"enabled": "on"}}})
    assert json.loads(switch.client.get("/nvue_v1/?rev=applied").text).get("qos") is None
