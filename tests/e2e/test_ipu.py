"""An order of IPUs on the lab: real Neutron and Nova, real openvipu booted by the cloud-init that Nova carries."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import grpc
import openstack
import pytest

from openvipu.proto import agent_pb2, agent_pb2_grpc
from openvipu.rpc import Tls, channel
from tests.e2e.people import Person, assert_clean, servers_of
from weft.model.site import IpuMachine
from weftlab.guests import guests_folder
from weftlab.ipu import agents_tls, here
from weftlab.lab import Lab

pytestmark = [pytest.mark.cloud, pytest.mark.landing]

ORDER = """\
name: {name}
ipus: {{count: 16}}
nodes: {{count: 1, flavor: cpu1, image: tiny}}
access: {{ssh_from: [10.0.0.0/8]}}
"""


def connection(lab: Lab, cloud: str) -> openstack.connection.Connection:
    config = openstack.config.OpenStackConfig(config_files=[str(lab.clouds_yaml)])
    return openstack.connection.Connection(config=config.get_one(cloud))


def order(person: Person, name: str, *words: str) -> None:
    (person.folder / f"{name}.yaml").write_text(ORDER.format(name=name))
    answer = person.weft("pod", "create", "-f", f"{name}.yaml", *words)
    assert answer.code == 0, answer.err


def agent_of(lab: Lab, machine: IpuMachine) -> grpc.Channel:
    """The machine's agent, verified by the authority in the site file."""
    trusting = Tls.trusting(agents_tls(lab.layout) / "ca.crt")
    return channel(f"{machine.gw_address}:{machine.agent_port}", trusting, "openvipu-agent")


def plain(target: str) -> grpc.StatusCode:
    """How a call without TLS to this address ends."""
    with grpc.insecure_channel(target) as link, pytest.raises(grpc.RpcError) as refused:
        link.unary_unary("/openvipu.admin.v1.AdminService/ListUsers")(b"", timeout=10)
    return refused.value.code()


def owner(lab: Lab, machine: IpuMachine) -> str:
    """What the machine's agent says: which controller it is bound to."""
    with agent_of(lab, machine) as link:
        stub = agent_pb2_grpc.AgentServiceStub(link)
        return str(stub.GetOwner(agent_pb2.GetOwnerRequest(), timeout=10).controller_id)


def vipu(guest: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`vipu` as on the Poplar server, with what cloud-init wrote there."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("vipu")), "--config", str(guest / "vipu-cli.hcl"), *words],
        env={"HOME": str(guest), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_pod_of_sixteen_ipus_goes_from_order_to_receipt(lab: Lab, people: Callable[[str], Person]) -> None:
    """Order, what is really there on every plane, a partition by the tenant, release with it, what is really gone."""
    tenant, operator = people("team-a"), people("operator")
    order(tenant, "bert", "--wait")
    shown = tenant.weft("pod", "show", "bert", "--json")
    pod = shown.json
    assert pod["state"] == "READY", pod["reason"]
    assert [n["node"] for n in pod["placed"]] == ["ipum1", "ipum2", "ipum3", "ipum4"]
    mark, machines = f"weft-{pod['id'][:8]}-", lab.site.ipu_machines
    assert {owner(lab, m) for m in machines} == {f"weft-{pod['id']}"}

    cloud, own = connection(lab, "operator"), connection(lab, "team-a")
    assert [s.name for s in own.compute.servers()] == ["bert-0"]
    assert "ipu-gw" not in {n.name for n in own.network.networks()}
    servers = {s.name: s for s in servers_of(cloud, pod["id"])}
    controller = servers[f"{mark}server-controller"]
    assert controller.project_id != own.current_project_id and controller.compute_host == "generic1"
    ports = {p.name.removeprefix(f"{mark}port-"): p for p in cloud.network.ports() if p.name.startswith(mark)}
    data = ports["poplar1-data"]
    assert (data.binding_vnic_type, data.binding_vif_type, data.status) == ("direct", "hw_veb", "ACTIVE")
    assert {ports[f"{m.name}-rnic"].mac_address for m in machines} == {m.rnic_mac for m in machines}
    network = cloud.network.get_network(data.network_id)
    assert network.provider_physical_network == "datanet" and 1100 <= network.provider_segmentation_id <= 1199

    # on the gateways' network no server takes a key without TLS; the tenant's API on its own network does
    gateway = ports["controller-gateway"].fixed_ips[0]["ip_address"]
    management = here(lab.layout, ports["controller-management"].fixed_ips[0]["ip_address"])
    doors = [f"{gateway}:8090", f"{gateway}:8091", *(f"{m.gw_address}:{m.agent_port}" for m in machines)]
    assert {plain(door) for door in doors} == {grpc.StatusCode.UNAVAILABLE}
    assert plain(f"{management}:8090") is grpc.StatusCode.UNIMPLEMENTED

    guest = guests_folder(lab.layout) / servers["bert-0"].id
    profile = (guest / "etc/profile.d/vipu.sh").read_text()
    assert f"IPUOF_VIPU_API_HOST={ports['controller-management'].fixed_ips[0]['ip_address']}" in profile
    made = vipu(guest, "create", "partition", "p16", "--size", "16")
    assert made.returncode == 0 and "create partition (p16): success." in made.stdout, made.stderr
    assert (guest / ".ipuof.conf.d/p16_gcd0_ipuof.conf").exists()

    seen = cloud.compute.get(f"/servers/{controller.id}", microversion="2.74").json()["server"]
    carried = base64.b64decode(seen["OS-EXT-SRV-ATTR:user_data"]).decode()
    key = (guests_folder(lab.layout) / controller.id / "etc/openvipu/admin.key").read_text().strip()
    assert key in carried
    events = tenant.weft("pod", "events", "bert", "--json").out
    logs = "".join(f.read_text(errors="replace") for f in (lab.state / "log").glob("*.log"))
    assert key not in events + shown.out + logs and "127." not in shown.out + events
    assert_clean(operator)

    (tenant.folder / "more.yaml").write_text(ORDER.format(name="more"))
    refused = tenant.weft("pod", "create", "-f", "more.yaml")
    assert refused.code == 1 and "no free run of 4 neighbouring IPU-Machines (16 IPUs)" in refused.err
    seen = tenant.weft("capacity", "--accelerator", "ipu", "--json").json
    assert [(r["total"], r["free"], r["largest"][0]["count"]) for r in seen["rows"]] == [(4, 0, 0)]
    (tenant.folder / "next.yaml").write_text(ORDER.format(name="next") + "queue: true\n")
    waiting = tenant.weft("pod", "create", "-f", "next.yaml", "--json")
    assert waiting.code == 0 and waiting.json["state"] == "PENDING", waiting.err
    assert tenant.weft("pod", "release", "next", "--wait").code == 0

    assert tenant.weft("pod", "release", "bert", "--wait").code == 0
    receipt = tenant.weft("pod", "receipt", "bert", "--json")
    (tenant.folder / "receipt.json").write_text(receipt.out)
    assert tenant.verify("receipt.json").code == 0
    planes = {i["plane"] for i in receipt.json["receipt"]["items"]}
    assert planes >= {
        "vipu_user",
        "vipu_allocation",
        "vipu_cluster",
        "vipu_agent",
        "server",
        "port",
        "network",
    }
    assert {owner(lab, m) for m in machines} == {""}
    assert not servers_of(cloud, pod["id"])
    assert not [p for p in cloud.network.ports() if p.name.startswith(mark)]
    assert_clean(operator)


def test_machine_bound_to_an_unknown_pod_is_reported_and_untouched(
    lab: Lab, people: Callable[[str], Person]
) -> None:
    """The audit names it; an order that needs it is refused; what weft has no key of, it doesn't touch."""
    tenant, operator = people("team-a"), people("operator")
    machine, gone = lab.site.ipu_machines[0], str(uuid.uuid4())
    metadata = (("openvipu-controller", f"weft-{gone}"), ("openvipu-key", "an-unknown-key"))
    with agent_of(lab, machine) as link:
        agent = agent_pb2_grpc.AgentServiceStub(link)
        agent.Claim(agent_pb2.ClaimRequest(), metadata=metadata)
        try:
            found = operator.weft("audit", "--json")
            orphan = next(f for f in found.json["findings"] if f["kind"] == "vipu_agent")
            assert found.code == 1 and machine.name in orphan["subject"] and gone in orphan["what"]
            (tenant.folder / "late.yaml").write_text(ORDER.format(name="late"))
            refused = tenant.weft("pod", "create", "-f", "late.yaml")
            assert refused.code == 1 and "3 are free" in refused.err
            repaired = operator.weft("audit", "--repair", "--json").json["findings"]
            assert [f["repaired"] for f in repaired if f["kind"] == "vipu_agent"] == [False]
        finally:
            agent.Release(agent_pb2.ReleaseRequest(), metadata=metadata)
    assert_clean(operator)
