"""Access: users with keys, two controllers over one POD, mutual TLS."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from openvipu import renewal
from openvipu.agent.binding import Binding
from openvipu.clients.main import vipu, vipu_admin
from openvipu.controller import authority
from openvipu.model.codec import encode
from openvipu.model.errors import BadRequest, Forbidden, StateError
from openvipu.proto import admin_pb2, admin_pb2_grpc, agent_pb2, agent_pb2_grpc, catalog_pb2, version_pb2
from openvipu.proto import vipuuser_pb2 as pb
from openvipu.proto import vipuuser_pb2_grpc as pb_grpc
from openvipu.rpc import CONTROLLER_HEADER, CONTROLLER_KEY_HEADER, Tls, channel
from openvipu.rules import users
from openvipu.server import ControllerServer
from openvipu.sim.pod import PodConfig, SimulatedPod
from openvipu.store import Store
from tests.helpers.stamps import rewrite
from tests.openvipu.vipuhouse import POD4, POD16, POD64, Controller, controlling, new_config, refused

ADMIN = (("api-user-id", "admin"), ("api-access-key", "admin-key"))


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Controller]:
    """A secure controller: alice has the allocation of two machines, bob that of the other two."""
    config = new_config(tmp_path, secure=True)
    store = Store.open(config.state)
    store.save(store.state.with_user(users.make(store.state, "admin", "salt", "admin-key", (), True)))
    store.close()
    with SimulatedPod(PodConfig(POD16, port=0)) as pod, controlling(pod, config) as controller:
        controller.metadata = ADMIN
        controller.add_agents()
        controller.add_cluster("c")
        controller.add_allocation("red", 8)
        controller.add_allocation("blue", 8)
        yield controller


def user(controller: Controller, id_: str, *allocations: str) -> tuple[tuple[str, str], ...]:
    request = admin_pb2.CreateUserRequest(id=id_, allocation_ids=allocations)
    key = controller.admin.CreateUser(request, metadata=ADMIN).access_key
    return (("api-user-id", id_), ("api-access-key", key))


def wanting(id_: str, size: int = 4, **more: str) -> pb.CreatePartitionRequest:
    return pb.CreatePartitionRequest(requirements=pb.PartitionRequirements(id=id_, size=size, **more))


def test_request_without_a_valid_key_is_refused(secure: Controller) -> None:
    """UNAUTHENTICATED, and the same sentence for an unknown user as for a wrong key. The version needs no key."""
    calls = [
        lambda metadata: secure.users.ListPartitions(pb.ListPartitionsRequest(), metadata=metadata),
        lambda metadata: secure.users.ListIPUAttributes(pb.ListIPUAttributesRequest(), metadata=metadata),
        lambda metadata: secure.users.CreatePartition(wanting("p"), metadata=metadata),
        lambda metadata: secure.catalog.ListAllocations(
            catalog_pb2.ListAllocationsRequest(), metadata=metadata
        ),
        lambda metadata: secure.admin.ListAgents(admin_pb2.ListAgentsRequest(), metadata=metadata),
    ]
    alice = user(secure, "alice", "red")
    wrong = [(), (("api-user-id", "mallory"), ("api-access-key", "x")), (alice[0], ("api-access-key", "x"))]
    for call in calls:
        for metadata in wrong:
            code, words = refused(lambda call=call, metadata=metadata: call(metadata))
            assert code is grpc.StatusCode.UNAUTHENTICATED, words
            assert ("is not right, or there is no such user" if metadata else "needs a user") in words
    assert secure.versions.GetVersion(version_pb2.VersionRequest()).version == "1.18.0"
    assert not secure.state.partitions


def test_admin_api_refuses_every_call_of_a_user(secure: Controller) -> None:
    alice = user(secure, "alice", "red")
    before = secure.state
    for method in admin_pb2.DESCRIPTOR.services_by_name["AdminService"].methods:
        request = getattr(admin_pb2, method.input_type.name)()
        call = getattr(secure.admin, method.name)
        code, _ = refused(lambda call=call, request=request: call(request, metadata=alice))
        assert code is grpc.StatusCode.PERMISSION_DENIED, method.name
    assert secure.state is before


def test_users_share_an_allocation_and_others_see_nothing(secure: Controller) -> None:
    """alice and anna share the red partitions; bob can neither see nor change them, nor use red machines."""
    alice, anna = user(secure, "alice", "red"), user(secure, "anna", "red")
    bob = user(secure, "bob", "blue")
    secure.users.CreatePartition(wanting("p", 8), metadata=alice)
    listed = secure.users.ListPartitions(pb.ListPartitionsRequest(), metadata=anna).partitions
    assert [(entry.id, entry.spec.allocation_id) for entry in listed] == [("p", "red")]
    assert not secure.users.ListPartitions(pb.ListPartitionsRequest(), metadata=bob).partitions
    for call in [
        lambda: secure.users.GetPartitionStatus(pb.GetPartitionStatusRequest(partition_id="p"), metadata=bob),
        lambda: secure.users.RemovePartition(
            pb.RemovePartitionRequest(partition_id="p", force=True), metadata=bob
        ),
        lambda: secure.users.ResetPartition(pb.ResetPartitionRequest(partition_id="p"), metadata=bob),
        lambda: secure.users.GetPartitionIpuofConfig(
            pb.GetPartitionIpuofConfigRequest(partition_id="p"), metadata=bob
        ),
        lambda: secure.users.ListPartitions(pb.ListPartitionsRequest(allocation_id="red"), metadata=bob),
        lambda: secure.users.CreatePartition(wanting("q", allocation_id="red"), metadata=bob),
        lambda: secure.users.ListIPUAttributes(pb.ListIPUAttributesRequest(agents=["ipum1"]), metadata=bob),
    ]:
        code, words = refused(call)
        assert code is grpc.StatusCode.NOT_FOUND
        assert "doesn't exist" in words
    ipu = pb.PartitionIpu(topology_id=0)
    exact = pb.PartitionRequirements(id="q", cluster_id="c", ipus=[ipu])
    code, _ = refused(
        lambda: secure.users.CreatePartition(pb.CreatePartitionRequest(requirements=exact), metadata=bob)
    )
    assert code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
    secure.users.CreatePartition(wanting("q", 8), metadata=bob)
    assert secure.state.partitions["q"].agent_ids == ("ipum3", "ipum4")
    agents = [
        entry.agent
        for entry in secure.users.ListIPUAttributes(pb.ListIPUAttributesRequest(), metadata=bob).entries
    ]
    assert agents == ["ipum3", "ipum4"]


def test_removed_partition_stays_invisible_to_others(secure: Controller) -> None:
    """The status REMOVED is for users who could see the partition; for others it never existed."""
    alice, bob = user(secure, "alice", "red"), user(secure, "bob", "blue")
    secure.users.CreatePartition(wanting("p"), metadata=alice)
    secure.users.RemovePartition(pb.RemovePartitionRequest(partition_id="p"), metadata=alice)
    request = pb.GetPartitionStatusRequest(partition_id="p")
    while secure.users.GetPartitionStatus(request, metadata=alice).status.ready_state != pb.PS_REMOVED:
        pass
    assert (
        refused(lambda: secure.users.GetPartitionStatus(request, metadata=bob))[0]
        is grpc.StatusCode.NOT_FOUND
    )


def test_last_administrator_is_not_removed(secure: Controller) -> None:
    """Other users can be changed and removed; their keys aren't stored."""
    alice = user(secure, "alice", "red")
    text = secure.config.state.read_bytes()
    assert alice[1][1].encode() not in text
    update = admin_pb2.UpdateUserRequest(id="alice", allocation_ids=["blue"])
    assert list(secure.admin.UpdateUser(update, metadata=ADMIN).user.allocation_ids) == ["blue"]
    secure.admin.RemoveUser(admin_pb2.RemoveUserRequest(id="alice"), metadata=ADMIN)
    code, _ = refused(lambda: secure.users.ListPartitions(pb.ListPartitionsRequest(), metadata=alice))
    assert code is grpc.StatusCode.UNAUTHENTICATED
    code, words = refused(
        lambda: secure.admin.RemoveUser(admin_pb2.RemoveUserRequest(id="admin"), metadata=ADMIN)
    )
    assert (code, "last administrator" in words) == (grpc.StatusCode.FAILED_PRECONDITION, True)


def test_controllers_of_one_pod_are_isolated(tmp_path: Path) -> None:
    """Each has half of a POD64: no request to one reads or changes the other's machines or partitions."""
    with (
        SimulatedPod(PodConfig(POD64, port=0)) as pod,
        controlling(pod, new_config(tmp_path, "red")) as red,
        controlling(pod, new_config(tmp_path, "blue")) as blue,
    ):
        names = list(pod.agents)
        red.add_agents(*names[:8])
        blue.add_agents(*names[8:])
        red.add_cluster("c", *names[:8])
        blue.add_cluster("c", *names[8:])
        red.create_active("p", 32)
        blue.create_active("p", 16)
        blue.create_active("q", 16)
        assert pod.probe(("ipum1", 0), ("ipum8", 3)) is not None
        for machine in names[8:]:
            assert pod.probe(("ipum8", 0), (machine, 3)) is None
            assert pod.probe((machine, 3), ("ipum8", 0)) is None
        assert pod.probe(("ipum12", 0), ("ipum13", 3)) is None
        seen = {entry.id for entry in red.admin.ListAgents(admin_pb2.ListAgentsRequest()).agents}
        assert seen == set(names[:8])
        blue_before = {name: pod.agents[name].machine.status() for name in names[8:]}
        for name in names[8:]:
            assert refused(lambda name=name: red.add_agents(name))[0] is grpc.StatusCode.PERMISSION_DENIED
        code, words = refused(lambda: red.add_cluster("d", *names[8:]))
        assert code is grpc.StatusCode.NOT_FOUND, words
        red.remove_whole("p", force=True)
        red.server.watch.poll()
        assert {name: pod.agents[name].machine.status() for name in names[8:]} == blue_before
        assert blue.status("p").ready_state == pb.PS_ACTIVE


def test_agent_answers_only_its_owner(tmp_path: Path) -> None:
    """A stranger's call of any method but GetOwner is refused and changes nothing, owned or not."""
    with SimulatedPod(PodConfig(POD4, port=0)) as pod:
        agent = pod.agents["ipum1"]
        setting = agent_pb2.Setting(partition_id="x", generation=9, ipus=[agent_pb2.IpuSetting(number=0)])
        requests = {"Configure": {"setting": setting}, "Reset": {"setting": setting}}
        every = agent_pb2.DESCRIPTOR.services_by_name["AgentService"].methods
        methods = [method for method in every if method.name != "GetOwner"]

        def try_all(*metadata: tuple[str, str]) -> None:
            before = agent.machine.status()
            with channel(f"{agent.host}:{agent.port}") as link:
                stub = agent_pb2_grpc.AgentServiceStub(link)
                assert "key" not in str(stub.GetOwner(agent_pb2.GetOwnerRequest(), metadata=metadata))
                for method in methods:
                    request = getattr(agent_pb2, method.input_type.name)(**requests.get(method.name, {}))
                    call = getattr(stub, method.name)
                    code, _ = refused(lambda call=call, request=request: call(request, metadata=metadata))
                    allowed = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT)
                    assert code in allowed, method.name
            assert agent.machine.status() == before

        try_all()
        with controlling(pod, new_config(tmp_path)) as controller:
            controller.add_agents()
            controller.add_cluster("c")
            controller.create_active("p", 4)
            try_all()
            try_all((CONTROLLER_HEADER, "controller-b"), (CONTROLLER_KEY_HEADER, "key-of-controller-b"))
            try_all((CONTROLLER_HEADER, "controller-a"), (CONTROLLER_KEY_HEADER, "guess"))
            assert controller.status("p").ready_state == pb.PS_ACTIVE


def test_binding_survives_an_agents_restart(tmp_path: Path) -> None:
    """The owner is read back from the file; a damaged file authorizes no controller."""
    path = tmp_path / "binding"
    Binding(path).claim("red", "key")
    again = Binding(path)
    again.check("red", "key")
    with pytest.raises(Forbidden, match="belongs to another controller"):
        again.claim("blue", "key2")
    assert "key" not in path.read_text().replace("key_hash", "")
    # corrupted on disk
    path.write_text(path.read_text().replace("red", "rad"))
    with pytest.raises(StateError, match="doesn't fit its digest"):
        Binding(path)
    # written by an older agent, without a digest
    path.write_text(json.dumps(encode(again.owner)))
    assert Binding(path).owner == again.owner
    again.release()
    assert Binding(path).owner is None
    path.write_text("{")
    with pytest.raises(StateError, match="can't be read"):
        Binding(path)
    prepared = Binding(preset_key="right")
    with pytest.raises(Forbidden, match="prepared for another controller's key"):
        prepared.claim("red", "wrong")
    prepared.claim("red", "right")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of two certificate authorities, of the controllers red and blue."""
    folders = tmp_path_factory.mktemp("red"), tmp_path_factory.mktemp("blue")
    for folder in folders:
        authority.create(folder, ["controller.example"])
    return folders


@pytest.mark.parametrize(
    "host", ["10.0.0.1:8090", "https://vipu", "[fd00::1]", "10.0.0.256", "s\u00fcd.example", "a b"]
)
def test_certificate_for_an_invalid_host_is_refused(tmp_path: Path, host: str) -> None:
    """No client would accept it; nothing is written."""
    with pytest.raises(BadRequest, match="no host name and no address"):
        authority.create(tmp_path / "tls", [host])
    assert not (tmp_path / "tls").exists()


def test_mutual_tls_admits_only_the_right_roles(tmp_path: Path, certificates: tuple[Path, Path]) -> None:
    """The user API takes user and admin certificates, the admin API admin ones, an agent its controller's."""
    red, blue = certificates
    agent_tls = Tls.read(red, "agent")
    with SimulatedPod(PodConfig(POD4, port=0, tls=agent_tls)) as pod:
        server = ControllerServer(replace(new_config(tmp_path), tls=red))
        try:
            _add_over_tls(server, pod, Tls.read(red, "admin"))
            assert _list(server.user_port, Tls.read(red, "user")) == []
            assert _list(server.admin_port, Tls.read(red, "admin")) == []
            assert (
                refused(lambda: _list(server.admin_port, Tls.read(red, "user")))[0]
                is grpc.StatusCode.PERMISSION_DENIED
            )
            assert (
                refused(lambda: _list(server.user_port, Tls.read(red, "agent")))[0]
                is grpc.StatusCode.PERMISSION_DENIED
            )
            for folder, status in ((red, 0), (blue, 1)):
                assert (
                    vipu(["-P", str(server.user_port), "--tls", str(folder), "list", "partitions"]) == status
                )
            for stranger in (Tls.read(blue, "user"), None):
                code, _ = refused(lambda stranger=stranger: _list(server.user_port, stranger))
                assert code is grpc.StatusCode.UNAVAILABLE
            agent = pod.agents["ipum1"]
            for other in (Tls.read(blue, "controller"), None):
                code, _ = refused(lambda other=other: _describe(agent.host, agent.port, other))
                assert code is grpc.StatusCode.UNAVAILABLE
            code, words = refused(lambda: _describe(agent.host, agent.port, Tls.read(red, "user")))
            assert code is grpc.StatusCode.PERMISSION_DENIED
            assert "use one of controller" in words
        finally:
            server.close()


def test_certificate_corrected_in_place_is_used(
    tmp_path: Path,
    certificates: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A pair that doesn't fit is logged once and tried again at each look."""
    monkeypatch.setattr(renewal, "LOOK_SECONDS", 0.0)
    used, key = shutil.copytree(certificates[0], tmp_path / "used"), certificates[1] / "agent.key"
    renewed = renewal.Renewal(Tls.read(used, "agent"))
    first = renewed.newest()
    shutil.copytree(certificates[1], used, dirs_exist_ok=True)
    rewrite(used / "agent.key", b"x" * key.stat().st_size)
    assert renewed.newest() is first and renewed.newest() is first
    rewrite(used / "agent.key", key.read_bytes())
    assert renewed.newest() is not first and caplog.text.count("can't be used") == 1


def test_replaced_certificates_are_used_without_restart(
    tmp_path: Path,
    certificates: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By both servers, the agents, and the controller's calls to these. A certificate without its key isn't used."""
    monkeypatch.setattr(renewal, "LOOK_SECONDS", 0.0)
    red, blue = certificates
    used = shutil.copytree(red, tmp_path / "used")
    with SimulatedPod(PodConfig(POD4, port=0, tls=Tls.read(used, "agent"))) as pod:
        server = ControllerServer(replace(new_config(tmp_path), tls=used))
        try:
            _add_over_tls(server, pod, Tls.read(red, "admin"))
            for role in ("controller", "agent"):
                shutil.copy(blue / f"{role}.crt", used)
            assert _list(server.user_port, Tls.read(red, "user")) == []
            assert "the old ones stay in use" in caplog.text
            shutil.copytree(blue, used, dirs_exist_ok=True)
            for port in (server.user_port, server.admin_port):
                assert _list(port, Tls.read(blue, "admin")) == []
                code, _ = refused(lambda port=port: _list(port, Tls.read(red, "admin")))
                assert code is grpc.StatusCode.UNAVAILABLE
            agent = pod.agents["ipum1"]
            code, words = refused(lambda: _describe(agent.host, agent.port, Tls.read(blue, "controller")))
            assert code is grpc.StatusCode.PERMISSION_DENIED and "another controller" in words
            state = server.core.state.agents["ipum1"]
            assert server.core.fleet.call(state, "Describe", agent_pb2.DescribeRequest())
            assert server.core.fleet._left  # pyright: ignore[reportPrivateUsage]
        finally:
            server.close()


def _list(port: int, tls: Tls | None, metadata: tuple[tuple[str, str], ...] = ()) -> list[pb.Partition]:
    with channel(f"127.0.0.1:{port}", tls) as link:
        stub = pb_grpc.UserServiceStub(link)
        reply = stub.ListPartitions(pb.ListPartitionsRequest(), timeout=60, metadata=metadata)
        return list(reply.partitions)


def _describe(host: str, port: int, tls: Tls | None) -> None:
    with channel(f"{host}:{port}", tls, "openvipu-agent") as link:
        agent_pb2_grpc.AgentServiceStub(link).Describe(agent_pb2.DescribeRequest(), timeout=60)


def _add_over_tls(
    server: ControllerServer, pod: SimulatedPod, tls: Tls, metadata: tuple[tuple[str, str], ...] = ()
) -> None:
    agent = pod.agents["ipum1"]
    with channel(f"127.0.0.1:{server.admin_port}", tls) as link:
        spec = admin_pb2.AgentSpec(host=agent.host, port=agent.port)
        request = admin_pb2.CreateAgentRequest(id="ipum1", spec=spec)
        stub = admin_pb2_grpc.AdminServiceStub(link)
        assert stub.CreateAgent(request, metadata=metadata).agent.status.serial


def test_keys_work_over_tls_without_client_certificates(
    tmp_path: Path, certificates: tuple[Path, Path]
) -> None:
    """Servers and agents have certificates, clients have keys; Poplar's plain address has no admin API."""
    red, blue = certificates
    config = new_config(tmp_path, secure=True)
    store = Store.open(config.state)
    store.save(store.state.with_user(users.make(store.state, "admin", "salt", "admin-key", (), True)))
    store.close()
    config = replace(config, tls=red, client_certificates=False, plain_user_address="127.0.0.1:0")
    agents = PodConfig(POD4, port=0, tls=Tls.read(red, "agent", mutual=False))
    with SimulatedPod(agents) as pod:
        server = ControllerServer(replace(config, agents_ca=red / "ca.crt"))
        try:
            trusting, stranger = Tls.trusting(red / "ca.crt"), Tls.trusting(blue / "ca.crt")
            _add_over_tls(server, pod, trusting, ADMIN)
            code, _ = refused(lambda: _list(server.admin_port, trusting))
            assert code is grpc.StatusCode.UNAUTHENTICATED
            for door in (server.admin_port, server.user_port):
                assert _list(door, trusting, ADMIN) == []
                for other in (stranger, None):
                    code, _ = refused(lambda door=door, other=other: _list(door, other, ADMIN))
                    assert code is grpc.StatusCode.UNAVAILABLE
            assert _list(server.plain_user_port, None, ADMIN) == []
            with channel(f"127.0.0.1:{server.plain_user_port}") as link:
                asked = admin_pb2_grpc.AdminServiceStub(link).ListUsers
                code, _ = refused(lambda: asked(admin_pb2.ListUsersRequest(), metadata=ADMIN))
            assert code is grpc.StatusCode.UNIMPLEMENTED
            agent = pod.agents["ipum1"]
            code, words = refused(lambda: _describe(agent.host, agent.port, trusting))
            assert (code, "belongs to another" in words) == (grpc.StatusCode.PERMISSION_DENIED, True)
            for other in (stranger, None):
                code, _ = refused(lambda other=other: _describe(agent.host, agent.port, other))
                assert code is grpc.StatusCode.UNAVAILABLE
            only_ca = tmp_path / "only-ca"
            only_ca.mkdir()
            (only_ca / "ca.crt").write_bytes((red / "ca.crt").read_bytes())
            typed = ["-P", str(server.admin_port), "--tls", str(only_ca), "--api-user-id", "admin"]
            assert vipu_admin([*typed, "--api-access-key", "admin-key", "list", "agents"]) == 0
        finally:
            server.close()
        # a controller that trusts another authority sends the agent no key
        server = ControllerServer(replace(config, agents_ca=blue / "ca.crt"))
        try:
            _, lost = server.core.health.counts(server.core.state.agents)
            assert lost == 1
        finally:
            server.close()


def test_controller_without_client_certificates_and_users_does_not_start(
    tmp_path: Path, certificates: tuple[Path, Path]
) -> None:
    """No caller could be identified."""
    config = replace(new_config(tmp_path), tls=certificates[0], client_certificates=False)
    with pytest.raises(BadRequest, match="can't be identified: create the state"):
        ControllerServer(config)


def test_second_certificate_authority_in_a_folder_is_refused(tmp_path: Path) -> None:
    """The keys are private, and a missing file is named."""
    authority.create(tmp_path / "tls", ["10.2.1.1", "controller.example"])
    assert (tmp_path / "tls" / "ca.key").stat().st_mode & 0o077 == 0
    with pytest.raises(BadRequest, match="has a certificate authority already"):
        authority.create(tmp_path / "tls", [])
    with pytest.raises(BadRequest, match=r"ca\.crt can't be read"):
        Tls.read(tmp_path / "nowhere", "user")
