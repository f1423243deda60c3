"""What can be watched from outside: health, reflection, metrics, discovery, the proxy; and that nothing grows."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from openvipu import proxy
from openvipu.agent.beacon import Beacon, encode
from openvipu.clients.config import Connection
from openvipu.clients.session import Session
from openvipu.controller.discovery import LONGEST_LIST, REMEMBERED, AnnouncedAgent, Discovery
from openvipu.hardware.simulated import pod_plan
from openvipu.proto import admin_pb2
from openvipu.rules import lifecycle
from openvipu.sim.pod import PodConfig, SimulatedPod
from openvipu.store import KINDS
from tests.openvipu.vipuhouse import LONGEST_WAIT, POD4, Controller, controlling, house, new_config, until

PAGE = 4096
"""Bytes of a page of SQLite's file."""


def test_health_reflection_and_version_are_served(pod16: Controller) -> None:
    """Both APIs answer the standard health check and list their services by reflection."""
    for link, extra in ((pod16.user_channel, set()), (pod16.channels[1], {"openvipu.admin.v1.AdminService"})):
        reply = health_pb2_grpc.HealthStub(link).Check(
            health_pb2.HealthCheckRequest(service="virmgrpc.UserService")
        )
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
        database = ProtoReflectionDescriptorDatabase(link)
        expected = {
            "virmgrpc.UserService",
            "virmgrpc.VersionService",
            "openvipu.catalog.v1.CatalogService",
            *extra,
        }
        found = set(database.get_services())
        assert expected <= found
        assert ("openvipu.admin.v1.AdminService" in found) == bool(extra)
        assert database.FindFileContainingSymbol("virmgrpc.UserService").package == "virmgrpc"


def _get(url: str, body: bytes | None = None) -> tuple[int, Any]:
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=LONGEST_WAIT) as reply:
            text = reply.read().decode()
            status = reply.status
    except urllib.error.HTTPError as error:
        text, status = error.read().decode(), error.code
    return status, json.loads(text) if text.startswith("{") else text


def test_metrics_of_controller_and_machines_are_served(tmp_path: Path) -> None:
    """Port 2113 counts IPUs, partitions and calls; a machine's page has sensors, health and links."""
    with (
        SimulatedPod(PodConfig(POD4, base="127.87.0.0", port=0, exporters=0)) as pod,
        controlling(pod, replace(new_config(tmp_path), metrics_port=0)) as controller,
    ):
        controller.add_agents()
        controller.add_cluster("c")
        controller.create_active("p", 2)
        _, page = _get(f"http://127.0.0.1:{controller.server.metrics.server_address[1]}/metrics")
        assert 'vipu_ipus{cluster="c",use="used"} 2.0' in page
        assert 'vipu_partitions{state="ACTIVE"} 1.0' in page
        assert 'vipu_calls_total{method="CreatePartition",status="OK"} 1.0' in page
        assert 'vipu_agents{reachable="true"} 1.0' in page
        _, page = _get(f"http://127.87.0.1:{pod.exporter_ports['ipum1']}/metrics")
        assert 'ipum_ipu_healthy{machine="ipum1",unit="ipu0"} 1.0' in page
        assert 'ipum_temperature_celsius{machine="ipum1",unit="board"}' in page
        assert 'ipum_partitions{machine="ipum1"} 1.0' in page


def test_discovery_lists_announced_agents(tmp_path: Path) -> None:
    """Beacons are listed with address and name; agents that were added have their id."""
    config = replace(new_config(tmp_path), discovery=("lo:0", "127.0.0.1:0"))
    with SimulatedPod(PodConfig(POD4, port=0)) as pod, controlling(pod, config) as controller:
        controller.add_agents()
        agent = pod.agents["ipum1"]
        assert controller.server.discovery is not None
        bodies = [encode(agent.host, agent.port, "ipum1"), encode("127.0.0.9", 8080, "new"), b"junk"]
        by_name, by_address = controller.server.discovery.addresses
        beacon = Beacon(by_name, bodies, interval=0.05)

        def discovered() -> list[tuple[str, int, str, str]]:
            reply = controller.admin.DiscoverAgents(admin_pb2.DiscoverAgentsRequest())
            return [
                (entry.host, entry.port, entry.suggested_id, entry.agent_id) for entry in reply.discovered
            ]

        until(lambda: len(discovered()) == 2)
        beacon.close()
        reply = controller.admin.DiscoverAgents(admin_pb2.DiscoverAgentsRequest())
        assert {entry.interface for entry in reply.discovered} == {"lo:0"}
        Beacon(by_address, [encode("127.0.0.7", 8080, "late")]).close()
        until(lambda: len(discovered()) == 3)
        assert set(discovered()) == {
            (agent.host, agent.port, "ipum1", "ipum1"),
            ("127.0.0.9", 8080, "new", ""),
            ("127.0.0.7", 8080, "late", ""),
        }


def test_flood_of_beacons_hides_no_agent() -> None:
    """Beacons aren't authenticated: after twice as many as are listed, an agent that sends one is still listed."""
    discovery = Discovery(["127.0.0.1:0"])
    try:
        for number in range(2 * LONGEST_LIST):
            discovery.note(
                AnnouncedAgent(f"127.0.{number >> 8}.{number & 255}", 8080, "junk", "lo", time.monotonic())
            )
        discovery.note(AnnouncedAgent("127.0.0.1", 8080, "real", "lo", time.monotonic()))
        assert len(discovery.seen()) == LONGEST_LIST
        assert "real" in {entry.name for entry in discovery.seen()}
        # an agent without a recent beacon isn't listed
        discovery.note(AnnouncedAgent("127.0.0.1", 8080, "real", "lo", time.monotonic() - REMEMBERED))
        assert "real" not in {entry.name for entry in discovery.seen()}
    finally:
        discovery.close()


def test_proxy_serves_stats_and_query(tmp_path: Path) -> None:
    """/stats counts used and available IPUs, /query the partitions that fit; invalid requests get 400 or 404."""
    with house(tmp_path) as controller:
        controller.add_allocation("default", 8)
        controller.create_active("p", 4, allocation_id="default")
        session = Session(Connection("127.0.0.1", controller.server.user_port, "", "", ""), False, False)
        http = proxy.start(proxy.Proxy(session), "127.0.0.1", 0)
        url = f"http://127.0.0.1:{http.server_address[1]}"
        try:
            assert _get(f"{url}/stats") == (
                200,
                {"default": {"used": 4, "available": 4}, "total": {"used": 4, "available": 12}},
            )
            assert _get(f"{url}/query", b'{"size":2}') == (
                200,
                {"available": True, "numOfPartitions": 6, "message": ""},
            )
            assert _get(f"{url}/query", b'{"size":16}')[1]["numOfPartitions"] == 0
            status, reply = _get(f"{url}/query", b'{"size":3}')
            assert (status, reply["available"], "size 3 is not allowed" in reply["message"]) == (
                200,
                False,
                True,
            )
            for body in (b"", b"x", b"[]", b'{"size":"2"}', b'{"size":-1}', b'{"size":true}'):
                assert _get(f"{url}/query", body)[0] == 400
            assert _get(f"{url}/other")[0] == 404
        finally:
            http.shutdown()
            http.server_close()
            session.channel.close()


def test_pod256_runs_in_one_process(tmp_path: Path) -> None:
    """Sixty-four agents become one cluster of four domains and give 256 IPUs to one partition."""
    with house(tmp_path, pod_plan(256)) as controller:
        assert len(controller.state.agents) == 64
        controller.create_active("p", 256)
        assert controller.pod.probe(("ipum1", 0), ("ipum64", 3)) is not None
        assert {entry.ready for entry in controller.state.partitions.values()} == {2}


def test_many_create_and_remove_cycles_leave_no_state(
    pod16: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They add neither rows nor bytes to the state, apart from the removed names that are remembered."""
    monkeypatch.setattr(lifecycle, "REMEMBERED", 16)

    def cycle(begin: int, end: int) -> tuple[dict[str, int], int]:
        for number in range(begin, end):
            pod16.create(f"p{number:04}", 4)
            pod16.remove(f"p{number:04}")
        until(lambda: not pod16.state.partitions)
        rows = {kind: len(getattr(pod16.state, kind)) for kind in KINDS}
        return rows, pod16.config.state.stat().st_size

    before, size = cycle(0, 20)
    after, larger = cycle(20, 80)
    assert after == before
    assert after["removed"] == 16
    assert larger - size <= PAGE, (
        "how full SQLite's pages are depends on the order in which rows came and went"
    )
