"""What tenants do with their servers through weft: reboot, rescue, consoles; and what is refused."""

from __future__ import annotations

import psycopg
import pytest

from tests.engine.house import House, policy
from tests.engine.ipuhouse import IpuHouse
from tests.engine.metalhouse import ORDER as METAL
from tests.engine.metalhouse import house as house
from tests.engine.metalhouse import members, ports, sized, visit
from weft.app.redact import redacted
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.model.errors import ConflictError, ForbiddenError, NotFoundError, UnknownError
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.views import AuditLogSearch
from weft.ports.servers import Action
from weft.testing.cloud import Fault


def server_on(house: House, pod: PodRecord, node: str) -> str:
    found = [r for r in house.store.pods.resources(pod.id) if r.key == f"server/{node}"]
    return str(found[0].outside_id)


@pytest.mark.parametrize("action", [Action.REBOOT, Action.RESET])
def test_server_is_rebooted_by_its_nodes_name_or_its_own(house: House, action: Action) -> None:
    pod = house.ready()
    node = pod.nodes[0]
    [name] = [s.name for s in house.service.pods.show(house.request(), "train").servers if s.node == node]
    for given in (node, name):
        done = house.service.pods.act_on_server(house.request(), "train", given, action)
        assert (done.node, done.server, done.password) == (node, name, None)
    assert house.cloud.acts == [(server_on(house, pod, node), action)] * 2
    verbs = redacted(house.service, policy())
    said = [e.message for e in verbs.pods.events(house.request(), "train")]
    assert f"{action} of {node} requested by team-a-member" in said, "a tenant reads it"
    with pytest.raises(ForbiddenError):
        house.service.audits.log(house.request(), AuditLogSearch())


def test_machine_in_rescue_leaves_the_segment_and_returns(house: House) -> None:
    """What it boots isn't what the tenant's server has on its disk."""
    pod = house.ready(METAL)
    node, other = pod.nodes
    machine = house.site.node_by_name[node].machine or ""
    done = house.service.pods.act_on_server(house.request(), "train", node, Action.RESCUE)
    assert done.password == "s3cret"
    house.cloud.offers.busy[machine] = "Ironic has it in state rescue"
    servers = {s.id for s in house.cloud.servers}
    pod = visit(house, pod, 3)
    assert pod.state is PodState.DEGRADED and members(house, pod) == ports(house, (other,))
    assert "its machine doesn't run the pod's server now" in pod.reason
    house.store.request_repair(pod.id)
    pod = visit(house, pod, 6)
    assert {s.id for s in house.cloud.servers} == servers, (
        "a tenant who saves its disk keeps it, whatever the repair"
    )
    assert members(house, pod) == ports(house, (other,))
    house.service.pods.act_on_server(house.request(), "train", node, Action.UNRESCUE)
    del house.cloud.offers.busy[machine]
    pod = house.run(pod, PodState.READY)
    assert members(house, pod) == ports(house, pod.nodes)
    written = str([e.message for e in house.store.records.events(pod.id, 0)]) + str(
        house.service.audits.log(house.operator, AuditLogSearch())
    )
    assert "s3cret" not in written, "the password is nowhere but in the answer"


def test_console_is_serial_for_machines_and_graphical_for_others(house: House) -> None:
    metal, virtual = house.ready(METAL), house.ready(METAL_FREE)
    for pod, kind in ((metal, "serial"), (virtual, "novnc")):
        node = pod.nodes[0]
        found = house.service.pods.console(house.request(), pod.order.name, node)
        assert found.type == kind and found.url.endswith(server_on(house, pod, node))
        messages = [e.message for e in house.store.records.events(pod.id, 0) if e.type == "action"]
        assert messages == [f"console of {node} requested by team-a-member"]
    log = str(house.service.audits.log(house.operator, AuditLogSearch()))
    assert "pod console" in log and "token=" not in log


METAL_FREE = METAL.model_copy(
    update={
        "name": "virtual",
        "nodes": METAL.nodes.model_copy(update={"kind": "virtual", "flavor": "gpu8"}),
    }
)


def test_impossible_operation_is_a_conflict_and_logged(house: House) -> None:
    pod = house.ready()
    with pytest.raises(ConflictError, match=r"the cloud refuses to unrescue server .* now: 409"):
        house.service.pods.act_on_server(house.request(), "train", pod.nodes[0], Action.UNRESCUE)
    assert "ConflictError" in str(house.service.audits.log(house.operator, AuditLogSearch()))
    house.cloud.plant(Fault.UNREACHABLE, verb="act", times=1)
    with pytest.raises(UnknownError):
        house.service.pods.act_on_server(house.request(), "train", pod.nodes[0], Action.REBOOT)
    said = [e.message for e in house.store.records.events(pod.id, 0) if e.type == "action"]
    assert said[-1] == f"reboot of {pod.nodes[0]} requested by team-a-member", "it may have been done"


def test_unanswered_request_delays_the_release(house: House) -> None:
    """Ironic's requests name a machine: it isn't given back before a rescue, whose password the tenant may get yet,
    can't take effect any more."""
    pod = house.ready(METAL)
    house.service.pods.act_on_server(house.request(), "train", pod.nodes[0], Action.REBOOT)
    house.cloud.plant(Fault.UNREACHABLE, verb="act", times=1)
    with pytest.raises(UnknownError):
        house.service.pods.act_on_server(house.request(), "train", pod.nodes[0], Action.RESET)
    house.service.pods.act_on_server(house.request(), "train", pod.nodes[1], Action.REBOOT)
    house.release(pod)
    pod = visit(house, pod, 8)
    assert pod.state is PodState.RELEASING and "outcome of a request is unknown" in pod.reason
    assert set(house.store.capacity().holds) == set(pod.nodes)
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE owner SET acts_until = now() - interval '1 s'")
    house.run(pod, PodState.RELEASED)


def test_answered_request_does_not_delay_release(house: House) -> None:
    pod = house.ready(METAL)
    for node in pod.nodes:
        house.service.pods.act_on_server(house.request(), "train", node, Action.REBOOT)
        with pytest.raises(ConflictError):
            house.service.pods.act_on_server(house.request(), "train", node, Action.UNRESCUE)
        house.service.pods.console(house.request(), "train", node)
    house.release(pod)
    pod = house.run(pod, PodState.RELEASED)
    receipt = house.store.records.receipt(pod.id)
    assert receipt is not None and receipt.receipt.late_until is None


@pytest.mark.parametrize("meanwhile", ["released", "changed"])
def test_server_being_removed_is_asked_for_nothing(house: House, meanwhile: str) -> None:
    """The requester had read its pod before, and was suspended since."""
    pod = house.ready(METAL)
    record = next(r for r in house.store.pods.resources(pod.id) if r.key == f"server/{pod.nodes[0]}")
    with house.store.pods.acting(pod, record) as fence:
        fence()
    if meanwhile == "released":
        house.release(pod)
    else:
        house.service.pods.apply(house.request(), "train", sized(1))
        gone = {r.key for r in house.store.pods.resources(pod.id) if not r.wanted}
        record = next(
            r for r in house.store.pods.resources(pod.id) if r.key in gone and r.kind is Kind.SERVER
        )
    reason = "is being released" if meanwhile == "released" else "isn't wanted any more"
    with pytest.raises(ConflictError, match=reason), house.store.pods.acting(pod, record) as fence:
        fence()


def test_other_projects_readers_and_nodes_are_refused(house: House) -> None:
    pod = house.ready()
    node = pod.nodes[0]
    with pytest.raises(NotFoundError):
        house.service.pods.act_on_server(house.request("team-b"), "train", node, Action.REBOOT)
    with pytest.raises(NotFoundError):
        house.service.pods.console(house.request("team-b"), str(pod.id), node)
    for do in ("act_on_server", "console"):
        more = (Action.REBOOT,) if do == "act_on_server" else ()
        with pytest.raises(ForbiddenError):
            getattr(house.service.pods, do)(house.request(role="reader"), "train", node, *more)
        with pytest.raises(NotFoundError, match="no server on a node 'gpu99'"):
            getattr(house.service.pods, do)(house.request(), "train", "gpu99", *more)
    assert not house.cloud.acts


def test_servers_can_be_operated_only_while_the_pod_is_in_use(house: House) -> None:
    """While it is built and released, rebooting its servers isn't the tenant's affair."""
    house.cloud.plant(Fault.STUCK, verb="create", kind=Kind.SERVER, times=2)
    pod = house.run(house.order(), PodState.BOOTING)
    node = pod.nodes[0]
    with pytest.raises(ConflictError, match="only servers of a READY or DEGRADED pod"):
        house.service.pods.act_on_server(house.request(), "train", node, Action.REBOOT)
    for thing in house.cloud.things():
        thing.stuck = ""
    pod = house.run(pod, PodState.READY)
    house.release(pod)
    with pytest.raises(ConflictError, match="being released"):
        house.service.pods.console(house.request(), "train", node)


@pytest.mark.parametrize("who", ["tenant", "operator"])
def test_sites_own_server_of_a_pod_cannot_be_operated(
    database: Database, database_url: str, who: str
) -> None:
    """A V-IPU controller has the keys of the pod's agents; its project is weft's own."""
    house = IpuHouse(database, database_url)
    pod = house.booted()
    request = house.request() if who == "tenant" else house.operator
    [controller] = [
        r for r in house.store.pods.resources(pod.id) if r.kind is Kind.SERVER and r.resource.owner == "site"
    ]
    for given in (controller.resource.name, controller.resource.node):
        with pytest.raises(NotFoundError, match="has no server"):
            house.service.pods.act_on_server(request, str(pod.id), given, Action.RESCUE)
        with pytest.raises(NotFoundError, match="has no server"):
            house.service.pods.console(request, str(pod.id), given)
    [own] = [s for s in house.service.pods.show(house.request(), "bert").servers if s.node == "poplar1"]
    assert (
        house.service.pods.act_on_server(house.request(), "bert", own.node, Action.REBOOT).server == own.name
    )
    assert [a for _, a in house.cloud.acts] == [Action.REBOOT]
    house.close()
