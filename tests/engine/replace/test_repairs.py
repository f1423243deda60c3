"""Nodes that fail are replaced by themselves where the order asks for it, if that is known, bounded and wanted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.changes.test_change_loop import held, settle
from tests.engine.house import House, policy
from tests.engine.nodes.test_host_watch import watch
from tests.engine.nodes.test_node_holds import states
from tests.engine.replace.test_replace import places, visit
from tests.engine.timehouse import HandClock, at_once, look, make, messages
from weft.app.desk import Desk
from weft.app.explain import validate
from weft.app.nodeverbs import NodeVerbs
from weft.app.redact import redacted
from weft.app.repairs import NodeRepairs, Replacer
from weft.app.verbs import Request
from weft.app.yamltext import Positions
from weft.engine.nodes.adapterwatch import AdapterWatch
from weft.engine.nodes.failures import claim_failure, refresh_failures, time_since_reset
from weft.engine.rows.records import PodRecord, ResourceRecord
from weft.model.change import Replacement
from weft.model.errors import ConflictError, InputError
from weft.model.messages import message
from weft.model.order import Order
from weft.model.pod import Aspect, PodState
from weft.model.site import RepairPolicy
from weft.model.views import AuditLogSearch, DrainRequest, PodSearch
from weft.planning.fabric.topology import Topology
from weft.ports.servers import Action
from weft.testing.cloud import Fault


def order(name: str = "train", count: int = 3, spare: int = 0, **more: Any) -> Order:
    made = make(name, count, on_failure="replace", **more)
    return made.model_copy(update={"nodes": made.nodes.model_copy(update={"spare": spare})})


def replacer(house: House) -> Replacer:
    return Replacer(Desk(house.store, house.keeper, policy(), house.time, house.listener, house.pulse))


def repairs(house: House) -> NodeRepairs:
    return NodeRepairs(replacer(house), house.database)


def limits(house: House, **fields: Any) -> None:
    site = house.store.site().site
    house.store.activate_site(site.model_copy(update={"repair": RepairPolicy.model_validate(fields)}), "test")


def down(house: House, *nodes: str) -> None:
    house.cloud.offers.hosts |= {house.site.node_by_name[n].nova_host: "down" for n in nodes}


def fail(house: House, clock: HandClock, *nodes: str) -> None:
    """Their hosts go down, and are reported after the site's limit."""
    down(house, *nodes)
    watch(house, clock, 11)


def said(house: House, pod: PodRecord) -> str:
    """Code of why a node isn't replaced, or of its failure; empty: neither."""
    conditions = house.service.pods.show(house.operator, str(pod.id)).conditions
    found = [c for c in conditions if c.type is Aspect.NODES_FAIL]
    if not found:
        return ""
    text = message(found[0].message)
    return message(text.params["why"]).code if "why" in text.params else text.code


def again(house: House, clock: HandClock, pod: PodRecord) -> PodRecord:
    """Take a later turn, after the hosts were read; returns the pod."""
    watch(house, clock, 11)
    repairs(house).tend()
    return look(house, pod)


def test_spare_takes_the_place_of_a_node_whose_host_is_down(house: House, clock: HandClock) -> None:
    """With its name and addresses, once the node is proved out; the node is held with the cause, and weft is named."""
    pod = house.ready(order(spare=1))
    failed, (spare,), was = pod.nodes[1], pod.spares, places(house)
    down(house, failed)
    watch(house, clock, 9)
    repairs(house).tend()
    assert look(house, pod).generation == 1
    watch(house, clock, 2)
    repairs(house).tend()
    repairs(house).tend()
    now = look(house, pod)
    assert (now.generation, now.nodes, now.spares) == (2, (pod.nodes[0], spare, pod.nodes[2]), ())
    house.cloud.offers.hosts[failed] = "up"
    now = settle(house, pod)
    assert places(house)[spare] == was[failed] and held(house, now) == set(now.nodes)
    assert states(house)[failed] == "held"
    (hold,) = house.service.nodes.holds(house.operator)
    assert (hold.what, hold.held_by) == ("repair", "weft")
    assert hold.why.startswith(
        f"replaced in pod train of project {pod.project_id} by weft: its host has been down since"
    )
    entries = house.service.nodes.history(house.operator, failed).entries
    (one,) = (e for e in entries if e.code == "NODE_REPLACED_BY")
    assert one.by == "weft" and "its host has been down" in one.message
    (logged,) = house.store.records.audit_log(AuditLogSearch(action="pod replace"))
    assert logged.user == "weft" and "its host has been down" in logged.outcome
    (event,) = messages(house, pod, "repair")
    assert event.startswith(
        f"node {failed} is replaced by {spare}, as the order asks for: its host has been down"
    )
    assert said(house, pod) == ""


def test_order_that_only_wants_reports_keeps_its_node(house: House, clock: HandClock) -> None:
    """The pod says which node fails; once its order asks for it, the node is replaced, without another change."""
    pod = house.ready(make("train", 2))
    fail(house, clock, pod.nodes[0])
    assert again(house, clock, pod).generation == 1 and said(house, pod) == "NODE_FAILS"
    tenant = redacted(house.service, policy()).pods.show(house.request(), "train")
    assert any(
        "its host has been down" in c.message for c in tenant.conditions if c.type is Aspect.NODES_FAIL
    )
    changed = house.service.pods.apply(house.request(), "train", order(count=2))
    assert changed.change is not None and [f.field for f in changed.change.fields] == ["on_failure"]
    now = again(house, clock, pod)
    assert now.generation == 3 and pod.nodes[0] not in now.nodes


def test_free_node_is_the_nearest_that_keeps_the_locality(house: House, clock: HandClock) -> None:
    """The last node of a leaf has none: that is said, tried again, and done once a node of the leaf is free."""
    pod = house.ready(order(count=3, locality={"required": "leaf"}))
    other = house.run(house.order(make("other", 1, locality={"required": "leaf"})), PodState.READY)
    leaf = {n.leaf for n in (*pod.plan.placement.nodes, *other.plan.placement.nodes)}
    assert len(leaf) == 1, "the second pod has the last node of the leaf"
    fail(house, clock, pod.nodes[2])
    repairs(house).tend()
    assert look(house, pod).generation == 1 and said(house, pod) == "NO_REPLACEMENT"
    alarmed = house.service.pods.list(house.operator, PodSearch(all_projects=True, alarmed=True))
    assert [p.name for p in alarmed] == ["train"]
    for _ in range(5):
        again(house, clock, pod)
    assert len(messages(house, pod, "alarm")) == 1, "the same reason is one event"
    house.release(other)
    house.run(other, PodState.RELEASED)
    now = again(house, clock, pod)
    assert now.nodes[2] == other.nodes[0]


def test_failing_repair_is_retried_at_growing_intervals(house: House, clock: HandClock) -> None:
    """A failure that can't be mended is tried a minute later, then at growing intervals."""
    pod = house.ready(order(count=2))
    house.order(make("rest", 14))
    fail(house, clock, pod.nodes[0])
    for _ in range(60):
        watch(house, clock, 1)
        repairs(house).tend()
    with house.database.statement() as tx:
        (row,) = tx.rows("failures_of", pod_id=pod.id)
    assert 6 <= row["tried"] <= 11


def unknown_cloud(house: House, clock: HandClock, pod: PodRecord) -> None:
    house.cloud.plant(Fault.UNREACHABLE, verb="facts", times=None)


def up_before_the_turn(house: House, clock: HandClock, pod: PodRecord) -> None:
    house.cloud.offers.hosts[pod.nodes[0]] = "up"


def not_listed(house: House, clock: HandClock, pod: PodRecord) -> None:
    del house.cloud.offers.hosts[pod.nodes[0]]


def old_reading(house: House, clock: HandClock, pod: PodRecord) -> None:
    clock.forward(minutes=6)


def closed_gate(house: House, clock: HandClock, pod: PodRecord) -> None:
    house.behind()


def changing(house: House, clock: HandClock, pod: PodRecord) -> None:
    house.service.pods.apply(house.request(), "train", order(count=3))


def releasing(house: House, clock: HandClock, pod: PodRecord) -> None:
    house.release(pod)


def lease_over(house: House, clock: HandClock, pod: PodRecord) -> None:
    clock.forward(minutes=2)


def deleted(house: House, clock: HandClock, pod: PodRecord) -> None:
    house.cloud.lose(house.cloud.thing(f"server/{pod.nodes[0]}"))


def other_deleted(house: House, clock: HandClock, pod: PodRecord) -> None:
    house.cloud.lose(house.cloud.thing(f"server/{pod.nodes[1]}"))


def only_reports(house: House, clock: HandClock, pod: PodRecord) -> None:
    house.service.pods.apply(house.request(), "train", make("train", 2, duration="12m"))


def switched_off(house: House, clock: HandClock, pod: PodRecord) -> None:
    limits(house, at_once=0)


def quota_lowered(house: House, clock: HandClock, pod: PodRecord) -> None:
    house.cloud.offers.quotas[pod.project_id, "servers"] = 1


def image_gone(house: House, clock: HandClock, pod: PodRecord) -> None:
    house.cloud.offers.images.discard("tiny")


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (unknown_cloud, None),
        (up_before_the_turn, "HOST_NOT_DOWN"),
        (not_listed, "HOST_NOT_DOWN"),
        (old_reading, ""),
        (closed_gate, ""),
        (changing, "POD_IS_CHANGED"),
        (releasing, ""),
        (lease_over, "LEASE_IS_OVER"),
        (deleted, "SERVERS_DELETED"),
        (other_deleted, "SERVERS_DELETED"),
        (only_reports, "NODE_FAILS"),
        (switched_off, "REPLACES_NOTHING"),
        (image_gone, "ORDER_NOT_SERVED"),
        (quota_lowered, "QUOTAS_EXCEEDED"),
    ],
)
def test_node_stays_unless_its_failure_is_known_and_its_change_is_wanted(
    house: House, clock: HandClock, happens: Any, code: str | None
) -> None:
    """Whatever comes between the report and the turn, the pod keeps its nodes and says why; None: any reason."""
    pod = house.ready(order(count=2, duration="12m"))
    fail(house, clock, pod.nodes[0])
    happens(house, clock, pod)
    generation = look(house, pod).generation
    repairs(house).tend()
    now = look(house, pod)
    assert now.generation == generation and pod.nodes[0] in now.nodes
    assert said(house, pod) == code if code is not None else said(house, pod) not in ("", "REPLACEMENT_DUE")
    assert not house.service.nodes.holds(house.operator)


def proved(house: House, pod: PodRecord, now: PodRecord) -> None:
    """Bring hosts that the pod has left up again, and have them read back."""
    for node in set(pod.nodes) - set(now.nodes):
        house.cloud.offers.hosts[house.site.node_by_name[node].nova_host] = "up"
    visit(house, pod, 8)


def test_site_limits_replacements_at_once_and_in_an_hour(house: House, clock: HandClock) -> None:
    """A leaf that fails is replaced node by node; what waits says so, to tenants without numbers, and goes on."""
    limits(house, at_once=1, per_hour=2)
    pod = house.ready(order(count=4))
    fail(house, clock, *pod.nodes[:3])
    repairs(house).tend()
    now = look(house, pod)
    assert now.generation == 2 and len(set(pod.nodes[:3]) & set(now.nodes)) == 2
    tenant = redacted(house.service, policy()).pods.show(house.request(), "train")
    (text,) = (c.message for c in tenant.conditions if c.type is Aspect.NODES_FAIL)
    assert "many nodes of the site are being replaced at once" in text and "at most" not in text
    proved(house, pod, now)
    now = again(house, clock, pod)
    assert now.generation == 3, "the new server is there: the next one follows"
    proved(house, pod, now)
    assert again(house, clock, pod).generation == 3 and said(house, pod) == "TOO_MANY_IN_AN_HOUR"
    watch(house, clock, 60)
    assert again(house, clock, pod).generation == 4


def test_two_workers_replace_a_node_once(house: House, clock: HandClock) -> None:
    """And together no more than the site allows."""
    limits(house, at_once=1)
    pods = [house.ready(order(count=2)), house.run(house.order(order("other", 2)), PodState.READY)]
    fail(house, clock, *(pod.nodes[0] for pod in pods))
    assert not at_once(*[repairs(house).tend for _ in range(3)])
    assert sorted(look(house, pod).generation for pod in pods) == [1, 2]


def test_node_that_its_tenant_reports_is_replaced(house: House, clock: HandClock) -> None:
    """Within the project's limit of replaced nodes: a tenant must not take a site out of service by reports."""
    limits(house, unaccepted=1)
    pod = house.ready(order(count=2))
    house.service.pods.report_node(house.request(), "train", pod.nodes[0], "slow")
    repairs(house).tend()
    now = settle(house, pod)
    assert now.generation == 2 and pod.nodes[0] not in now.nodes
    house.service.pods.report_node(house.request(), "train", now.nodes[1], "slow")
    clock.forward(minutes=1)
    repairs(house).tend()
    assert look(house, pod).generation == 2 and said(house, pod) == "REPLACED_UNACCEPTED"
    house.service.nodes.accept(house.operator, pod.nodes[0])
    clock.forward(minutes=5)
    repairs(house).tend()
    assert look(house, pod).generation == 3


@pytest.mark.parametrize("fields", [{"at_once": 2}, {"per_hour": 1}, {"at_once": 9, "per_hour": 2}])
def test_project_gets_half_of_the_limits_by_what_it_reports(house: House, fields: dict[str, int]) -> None:
    """Its new servers may never come, by its own doing: others are replaced meanwhile, within the site's limits."""
    limits(house, **fields)
    pod, request = house.ready(order()), house.request("team-b")
    other = house.run(
        house.store.pods.find(house.service.pods.order(request, order("other", 2)), None), PodState.READY
    )
    for node in pod.nodes[:2]:
        house.service.pods.report_node(house.request(), "train", node, "slow")
    repairs(house).tend()
    assert look(house, pod).generation == 2
    house.service.pods.report_node(request, "other", other.nodes[0], "slow")
    repairs(house).tend()
    if fields == {"per_hour": 1}:
        assert (look(house, other).generation, said(house, pod)) == (1, "TOO_MANY_IN_AN_HOUR")
        return
    assert (look(house, other).generation, said(house, pod)) == (2, "TOO_MANY_OF_PROJECT")
    tenant = redacted(house.service, policy()).pods.show(house.request(), "train")
    (text,) = (c.message for c in tenant.conditions if c.type is Aspect.NODES_FAIL)
    assert "is kept for other projects" in text and "at most" not in text


def test_report_without_on_failure_only_reports(house: House) -> None:
    pod = house.ready(make("train", 2))
    house.service.pods.report_node(house.request(), "train", pod.nodes[0], "slow")
    repairs(house).tend()
    assert look(house, pod).generation == 1 and said(house, pod) == "NODE_FAILS"
    house.service.nodes.clear_report(house.operator, pod.nodes[0])
    repairs(house).tend()
    assert said(house, pod) == ""


def test_order_of_ipus_that_wants_replacements_is_refused_by_its_code() -> None:
    nodes = {"count": 1, "flavor": "v", "image": "tiny"}
    wanted = {"name": "train", "on_failure": "replace", "nodes": nodes, "ipus": {"count": 4}}
    with pytest.raises(InputError) as refused:
        validate(Order, wanted, Positions())
    assert message(refused.value.allowed).code == "IPUS_ARE_WHOLE"


def drain(house: House, clock: HandClock, node: str, **more: Any) -> None:
    """Drain it by a time in ten minutes."""
    by = clock.now() + timedelta(minutes=10)
    house.service.nodes.drain(house.operator, DrainRequest(target=node, by=by, **more))


def test_drained_node_is_replaced_at_its_time(house: House, clock: HandClock) -> None:
    """Not before, and where the order asks for it; other pods stay and get one event. Nothing is held: it is sound."""
    pod, other = house.ready(order()), house.run(house.order(make("other", 2)), PodState.READY)
    leaving, stays = pod.nodes[1], other.nodes[0]
    drain(house, clock, leaving)
    drain(house, clock, stays)
    clock.forward(minutes=9)
    repairs(house).tend()
    assert look(house, pod).generation == 1 and not said(house, pod)
    clock.forward(minutes=2)
    for _ in range(3):
        repairs(house).tend()
    now = settle(house, pod)
    assert now.generation == 2 and leaving not in now.nodes
    assert look(house, other).generation == 1 and not said(house, other)
    due = f"{stays} should be empty by now: nothing is released by itself"
    assert messages(house, other, "drain")[1:] == [due]
    assert not house.service.nodes.holds(house.operator) and states(house)[leaving] == "drained"
    assert "weft" in {e.by for e in house.service.nodes.history(house.operator, leaving).entries}


@pytest.mark.parametrize("way", ["wait", "undrained", "later", "undrained before the write"])
def test_drained_node_stays_if_operators_wait(house: House, clock: HandClock, way: str) -> None:
    pod = house.ready(order())
    drain(house, clock, pod.nodes[0], wait=way == "wait")
    clock.forward(minutes=11)
    if way == "undrained before the write":
        refresh_failures(house.database, house.keeper.site())
        failure = claim_failure(house.database)
        assert failure is not None
        house.service.nodes.undrain(house.operator, pod.nodes[0])
        with pytest.raises(ConflictError, match="no longer fails"):
            replacer(house).replace_failed(failure)
    elif way == "undrained":
        house.service.nodes.undrain(house.operator, pod.nodes[0])
    elif way == "later":
        drain(house, clock, pod.nodes[0])
    repairs(house).tend()
    assert look(house, pod).generation == 1 and not said(house, pod)
    assert len(messages(house, pod, "drain")) == (2 if "undrained" in way or way == "later" else 1)
    if way == "later":
        clock.forward(minutes=11)
        repairs(house).tend()
        assert look(house, pod).generation == 2 and len(messages(house, pod, "drain")) == 3


def broken(house: House, clock: HandClock, pod: PodRecord, node: str) -> None:
    """Let Nova show the server on a node in ERROR, and observe that for so long that it counts."""
    house.cloud.thing(f"server/{node}").broken = "an error"
    visit(house, pod)
    clock.forward(minutes=11)


def test_server_in_an_error_is_reset_before_its_node_is_replaced(house: House, clock: HandClock) -> None:
    """Both are reported; the tenant can bring it about, so the project's limit of replaced nodes counts."""
    limits(house, unaccepted=1)
    pod = house.ready(order(count=2))
    broken(house, clock, pod, pod.nodes[0])
    repairs(house).tend()
    (act,) = house.cloud.acts
    assert act == (house.cloud.thing(f"server/{pod.nodes[0]}").id, Action.RESET)
    assert said(house, pod) == "SERVER_RESET" and look(house, pod).generation == 1
    assert messages(house, pod, "action") == [f"reset of {pod.nodes[0]} requested by weft"]
    assert messages(house, pod, "node")[0].startswith(
        f"node {pod.nodes[0]}: its server has been in an error since"
    )
    clock.forward(minutes=9)
    repairs(house).tend()
    assert said(house, pod) == "SERVER_RESET" and look(house, pod).generation == 1, (
        "Nova shows ERROR meanwhile"
    )
    clock.forward(minutes=4)
    repairs(house).tend()
    now = settle(house, pod)
    assert now.generation == 2 and pod.nodes[0] not in now.nodes and len(house.cloud.acts) == 1
    broken(house, clock, now, now.nodes[1])
    repairs(house).tend()
    clock.forward(minutes=11)
    repairs(house).tend()
    assert look(house, pod).generation == 2 and said(house, pod) == "REPLACED_UNACCEPTED"


@pytest.mark.parametrize("kind", ["host", "server", "other"])
def test_server_that_is_being_deleted_is_not_replaced(house: House, clock: HandClock, kind: str) -> None:
    """Nova keeps a deleted server while its host is down, and for `reclaim_instance_interval`, as in an error."""
    pod = house.ready(order(count=2))
    server = house.cloud.thing(f"server/{pod.nodes[1 if kind == 'other' else 0]}")
    if kind == "server":
        server.hidden = True
        visit(house, pod)
        clock.forward(minutes=11)
    else:
        fail(house, clock, pod.nodes[0])
        server.gone_at = float("inf")
    repairs(house).tend()
    assert look(house, pod).generation == 1 and not house.cloud.acts
    assert said(house, pod) == "SERVERS_DELETED"


def test_reset_stopped_by_the_gate_is_requested_later(
    house: House, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate closes right before the request: the reset is requested once it is open."""

    plain, opens = NodeVerbs.note, list[Callable[[], object]]()

    def late(self: NodeVerbs, request: Request, pod: PodRecord, record: ResourceRecord, what: str) -> None:
        plain(self, request, pod, record, what)
        opens.append(house.behind())

    monkeypatch.setattr(NodeVerbs, "note", late)

    pod = house.ready(order(count=2))
    broken(house, clock, pod, pod.nodes[0])
    repairs(house).tend()
    assert not house.cloud.acts
    assert time_since_reset(house.database, house.cloud.thing(f"server/{pod.nodes[0]}").id) is None
    monkeypatch.undo()
    opens[0]()
    house.gate.look()
    clock.forward(minutes=2)
    repairs(house).tend()
    assert [act for _, act in house.cloud.acts] == [Action.RESET]


@pytest.mark.parametrize("way", ["mended by the reset", "right before the turn", "refused", "no answer"])
def test_server_that_is_reset_is_looked_at_again(house: House, clock: HandClock, way: str) -> None:
    """One that runs again stays; a refused reset counts as tried, one without an answer doesn't."""
    pod = house.ready(order(count=2))
    server = house.cloud.thing(f"server/{pod.nodes[0]}")
    broken(house, clock, pod, pod.nodes[0])
    if way == "right before the turn":
        server.broken = ""
    if way in ("refused", "no answer"):
        house.cloud.plant(Fault.REFUSED if way == "refused" else Fault.UNREACHABLE, verb="act")
    repairs(house).tend()
    if way == "right before the turn":
        assert said(house, pod) == "SERVER_NOT_BROKEN" and not house.cloud.acts
        return
    if way == "mended by the reset":
        server.broken = ""
        visit(house, pod)
    clock.forward(minutes=2)
    repairs(house).tend()
    assert look(house, pod).generation == (2 if way == "refused" else 1)
    assert said(house, pod) == {"mended by the reset": "", "no answer": "SERVER_RESET"}.get(way, "")


def read_fabric(house: House, clock: HandClock, minutes: int) -> None:
    for _ in range(minutes):
        clock.forward(minutes=1)
        AdapterWatch(house.database, house.keeper.world, house.keeper.site).tend()


def port(house: House, node: str) -> int:
    return house.site.node_by_name[node].hcas_on("ib0")[0].port_guid


def test_adapter_that_its_fabric_does_not_show_is_reported_and_replaced(
    house: House, clock: HandClock
) -> None:
    """After whole readings for the site's limit; in the node's history, too."""
    pod, other = house.ready(order(count=2)), house.run(house.order(make("other", 1)), PodState.READY)
    for one in (pod, other):
        house.fabric.cut(port(house, one.nodes[0]))
    read_fabric(house, clock, 10)
    repairs(house).tend()
    assert not said(house, pod)
    read_fabric(house, clock, 2)
    repairs(house).tend()
    now = look(house, pod)
    assert now.generation == 2 and pod.nodes[0] not in now.nodes
    assert (look(house, other).generation, said(house, other)) == (1, "NODE_FAILS")
    entries = house.service.nodes.history(house.operator, other.nodes[0]).entries
    assert [e.code for e in entries if e.type == "failure"] == ["ADAPTER_GONE"]
    house.fabric.repair(port(house, other.nodes[0]))
    read_fabric(house, clock, 1)
    repairs(house).tend()
    assert not said(house, other)


@pytest.mark.parametrize("way", ["partial", "off", "gap", "back", "many", "free", "behind"])
def test_adapter_is_not_gone_unless_whole_readings_say_so(house: House, clock: HandClock, way: str) -> None:
    """Nor while its server is off, which takes it along, or while many are gone at once."""
    pod = house.ready(order(count=2))
    node, guid = pod.nodes[0], port(house, pod.nodes[0])
    match way:
        case "partial":
            house.fabric.overlook(guid)
        case "off":
            house.fabric.cut(guid)
            house.cloud.thing(f"server/{node}").stuck = "SHUTOFF"
            visit(house, pod)
        case "many":
            limits(house, outage=1)
            house.fabric.cut(guid)
            house.fabric.cut(port(house, pod.nodes[1]))
        case "free":
            free = next(n.name for n in house.site.nodes if n.is_whole and n.name not in pod.nodes)
            house.fabric.cut(port(house, free))
        case "behind":
            house.fabric.cut(guid)
            house.behind()
        case _:
            house.fabric.cut(guid)
    read_fabric(house, clock, 8 if way != "back" else 11)
    if way == "gap":
        clock.forward(minutes=6)
    if way == "back":
        house.fabric.repair(guid)
    read_fabric(house, clock, 4 if way != "back" else 1)
    repairs(house).tend()
    assert look(house, pod).generation == 1
    assert said(house, pod) == ("SERVER_NOT_RUNNING" if way == "off" else "")


@pytest.mark.parametrize("spare", [0, 1])
def test_replacement_is_never_a_node_whose_adapter_is_not_shown(
    house: House, clock: HandClock, spare: int
) -> None:
    """A leaf that died takes the adapters of free nodes and spares there, too: another leaf has the next node."""
    pod = house.ready(order(count=2, spare=spare))
    locations = Topology.of(house.site, "ib0").locations
    dead = {n for n, location in locations.items() if location.leaf == locations[pod.nodes[0]].leaf}
    assert {*pod.nodes, *pod.spares} < dead, "the nearest nodes are on the dead leaf"
    for node in dead - {pod.nodes[1]}:
        house.fabric.cut(port(house, node))
    read_fabric(house, clock, 12)
    plan = house.service.pods.plan_replacement(house.request(), "train", Replacement(node=pod.nodes[0]))
    assert plan.placement.nodes[0].node not in dead
    repairs(house).tend()
    now = look(house, pod)
    assert now.generation == 2 and now.nodes[0] not in dead


def test_outage_of_a_fabric_takes_back_what_was_gone_before(house: House, clock: HandClock) -> None:
    """It began with few adapters; once many are gone, none counts until the outage is over for the site's limit."""
    limits(house, outage=1)
    pod = house.ready(order(count=3))
    house.fabric.cut(port(house, pod.nodes[0]))
    read_fabric(house, clock, 10)
    house.fabric.cut(port(house, pod.nodes[1]))
    read_fabric(house, clock, 2)
    repairs(house).tend()
    assert look(house, pod).generation == 1 and not said(house, pod)
    house.fabric.repair(port(house, pod.nodes[1]))
    read_fabric(house, clock, 9)
    repairs(house).tend()
    assert look(house, pod).generation == 1
    read_fabric(house, clock, 3)
    repairs(house).tend()
    assert look(house, pod).generation == 2


def test_fabric_is_read_by_one_worker_at_a_time(house: House, clock: HandClock) -> None:
    """Each reading asks the whole fabric; another worker's turn a moment later reads nothing."""
    pod = house.ready(order(count=2))
    house.fabric.cut(port(house, pod.nodes[0]))
    for seconds, readings in ((0, 1), (30, 1), (30, 2)):
        clock.forward(seconds=seconds)
        for _ in range(2):
            AdapterWatch(house.database, house.keeper.world, house.keeper.site).tend()
        with house.database.statement() as tx:
            assert [row["readings"] for row in tx.rows("adapters_gone_now")] == [readings]
