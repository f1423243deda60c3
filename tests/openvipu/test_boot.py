"""The boot of a controller's VM: one file has everything that an order needs."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from openvipu.clients.apply import apply
from openvipu.clients.config import Connection
from openvipu.clients.session import CommandError, Session
from openvipu.hardware.fabric import Fault
from openvipu.proto import admin_pb2, agent_pb2, agent_pb2_grpc
from openvipu.rpc import channel
from openvipu.sim.pod import PodConfig, SimulatedPod
from tests.openvipu.test_programs import ports, program, run, server
from tests.openvipu.vipuhouse import POD16, Controller


def owner_of(host: str, port: int) -> str:
    """The id of its controller, which an agent gives to any caller."""
    with channel(f"{host}:{port}") as link:
        agent = agent_pb2_grpc.AgentServiceStub(link)
        return agent.GetOwner(agent_pb2.GetOwnerRequest(), timeout=60).controller_id


def test_cloud_init_applies_a_file(tmp_path: Path) -> None:
    """What a controller's VM does at boot: init with a given key, serve, apply; apply again after an agent was late."""
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    (tmp_path / "admin.key").write_text("an-admin-key-of-the-order\n")
    init = (
        "--state",
        str(tmp_path / "state"),
        "--init",
        "--secure",
        "--admin-key-file",
        str(tmp_path / "admin.key"),
        "--controller-id",
        "order-1",
    )
    bad = run("openvipu-server", *init[:-1], "order/1")
    assert (bad.returncode, "--controller-id 'order/1' is not allowed" in bad.stderr) == (2, True)
    made = run("openvipu-server", *init)
    assert made.stdout.splitlines()[-1] == "create user (admin): success."
    with SimulatedPod(PodConfig(POD16, port=0)) as pod, program(*server(tmp_path / "state")) as (_, line):
        agents = [{"id": name, "host": agent.host, "port": agent.port} for name, agent in pod.agents.items()]
        names = [agent["id"] for agent in agents]
        wanted: dict[str, Any] = {
            "agents": agents,
            "clusters": [{"id": "c", "topology": "mesh", "agents": names}],
            "allocations": [{"id": "a", "cluster": "c", "agents": names}],
            "users": [{"id": "tenant", "allocations": ["a"], "access_key": "a-tenants-access-key"}],
        }
        file = tmp_path / "order.json"
        user_port, admin_port = ports(line)
        admin = ("-P", admin_port, "--api-user-id", "admin", "--api-access-key", "an-admin-key-of-the-order")

        def apply(*more: str) -> subprocess.CompletedProcess[str]:
            file.write_text(json.dumps(wanted))
            return run("vipu-admin", *admin, "apply", str(file), *more, env=env, cwd=tmp_path)

        pod.plant(Fault("agent-gone", "ipum3"))
        late = apply()
        assert (late.returncode, "create agent (ipum3): failed: agent ipum3" in late.stderr) == (1, True)
        timer = threading.Timer(1.0, pod.heal)
        timer.start()
        done = apply("--wait", "60")
        timer.join()
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "create agent (ipum1): there already.",
            "create agent (ipum2): there already.",
            "create agent (ipum3): success.",
            "create agent (ipum4): success.",
            "create cluster (c): success.",
            "create allocation (a): success.",
            "create user (tenant): success.",
        ]
        assert all(said.endswith("there already.") for said in apply().stdout.splitlines())
        assert {owner_of(agent.host, agent.port) for agent in pod.agents.values()} == {"order-1"}
        tenant = ("-P", user_port, "--api-user-id", "tenant", "--api-access-key", "a-tenants-access-key")
        assert run("vipu", *tenant, "create", "partition", "p", "--size", "16", env=env).returncode == 0
        wanted["allocations"][0]["agents"] = names[:2]
        differs = apply()
        assert (differs.returncode, "differs from the file" in differs.stderr) == (1, True)
        wanted["allocations"][0]["agents"] = 5
        wrong = apply()
        assert (wrong.returncode, "allocations[0]: agents must be a list" in wrong.stderr) == (2, True)


def test_apply_waits_for_a_controller_that_was_just_started(tmp_path: Path) -> None:
    """cloud-init starts the service and continues at once. Without --wait apply fails instead."""
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    file = tmp_path / "order.json"
    file.write_text("{}")
    state = tmp_path / "state"
    assert run("openvipu-server", "--state", str(state), "--init").returncode == 0
    with program(*server(state)) as (_, line):
        _, admin_port = ports(line)
    early = run("vipu-admin", "-P", admin_port, "apply", str(file), env=env, cwd=tmp_path)
    assert (early.returncode, "can't be reached" in early.stderr) == (1, True)
    words = [*server(state)]
    words[words.index("--admin-address") + 1] = f"127.0.0.1:{admin_port}"
    late: list[subprocess.CompletedProcess[str]] = []
    waiting = threading.Thread(
        target=lambda: late.append(
            run("vipu-admin", "-P", admin_port, "apply", str(file), "--wait", "60", env=env, cwd=tmp_path)
        )
    )
    waiting.start()
    with program(*words):
        waiting.join()
    assert late[0].returncode == 0, late[0].stderr


def test_apply_accepts_equal_objects_created_meanwhile(
    pod16: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object that another caller created since apply listed them is compared with the file: equal is no failure."""
    file = tmp_path / "order.json"
    agents = [{"id": n, "host": a.host, "port": a.port} for n, a in pod16.pod.agents.items()]
    clusters = [{"id": "c", "topology": "mesh", "agents": list(pod16.pod.agents)}]
    file.write_text(json.dumps({"agents": agents, "clusters": clusters}))
    arguments = argparse.Namespace(file=str(file), wait=0.0)
    connection = Connection("127.0.0.1", pod16.server.admin_port, "", "", "")
    blind = {
        "ListAgents": [admin_pb2.ListAgentsReply()] * 2,
        "ListClusters": [admin_pb2.ListClustersReply()],
    }
    for topology, fine in (("mesh", True), ("torus", False)):
        clusters[0]["topology"] = topology
        file.write_text(json.dumps({"agents": agents, "clusters": clusters}))
        session = Session(connection, False, True)
        with session.channel:
            for method, replies in blind.items():
                # apply lists before the other caller creates
                real, unseen = getattr(session.admin, method), iter(replies)
                monkeypatch.setattr(
                    session.admin, method, lambda *a, r=real, u=unseen, **k: next(u, None) or r(*a, **k)
                )
            if fine:
                apply(session, arguments)
            else:
                with pytest.raises(CommandError, match="differs from the file"):
                    apply(session, arguments)
