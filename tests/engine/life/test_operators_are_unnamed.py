"""What operators do with a tenant's pod: the tenant reads that it was an operator, operators read which one."""

from __future__ import annotations

from datetime import timedelta

from tests.engine.house import ORDER, House, policy
from tests.engine.metalhouse import house as house
from tests.engine.metalhouse import visit
from weft.app.redact import redacted
from weft.model.change import Replacement
from weft.model.order import LeaseOrder
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.views import EventView
from weft.ports.servers import Action
from weft.testing.cloud import Fault

OPERATOR = "admin-admin"


def said(house: House, pod: str, asker: str) -> list[EventView]:
    verbs = redacted(house.service, policy())
    return verbs.pods.events(house.operator if asker == "operator" else house.request(), pod)


def test_operators_who_act_in_a_tenants_pod_are_unnamed_to_it(house: House) -> None:
    """Every verb that an operator has with others' pods, one after the other, then the tenant's own release."""
    order = ORDER.model_copy(update={"lease": LeaseOrder(duration="1h")})
    pod, verbs = house.ready(order), house.service
    assert pod.lease_end is not None
    verbs.pods.extend(house.operator, str(pod.id), pod.lease_end + timedelta(hours=2))
    verbs.pods.act_on_server(house.operator, str(pod.id), pod.nodes[0], Action.REBOOT)
    verbs.pods.console(house.operator, str(pod.id), pod.nodes[0])
    verbs.pods.report_node(house.operator, str(pod.id), pod.nodes[0], "hums")
    pod = house.run(pod, PodState.READY)
    verbs.pods.replace_node(house.operator, str(pod.id), Replacement(node=pod.nodes[0]))
    pod = house.run(pod, PodState.READY)
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.SERVER, times=None)
    verbs.pods.release(house.operator, str(pod.id))
    pod = visit(house, pod, 1)
    verbs.pods.abandon(house.operator, str(pod.id), "fire in hall 2")
    visit(house, pod, 6)
    tenants = "\n".join(e.model_dump_json() for e in said(house, str(pod.id), "tenant"))
    assert OPERATOR not in tenants and "fire" not in tenants
    for does in (
        "extended until",
        "reboot of",
        "console of",
        "reported by",
        "release requested by",
        "abandon",
    ):
        lines = [e.message for e in said(house, str(pod.id), "tenant") if does in e.message]
        assert lines and all("an operator" in line for line in lines), does
        assert any(f"{OPERATOR} (operator)" in e.message for e in said(house, str(pod.id), "operator")), does
    generations = [e.message for e in said(house, str(pod.id), "tenant") if "generation" in e.message]
    assert [g for g in generations if " by " in g] and not [g for g in generations if "team-a" in g]


def test_own_user_is_named_to_its_tenant(house: House) -> None:
    house.ready(ORDER)
    house.service.pods.release(house.request(), "train")
    lines = [e.message for e in said(house, "train", "tenant") if "release requested" in e.message]
    assert lines == ["release requested by team-a-member"]


def test_operator_who_reported_a_node_before_its_tenant_is_unnamed_to_it(house: House) -> None:
    """The same report again changes nothing, and is answered with what there is."""
    pod = house.ready(ORDER)
    house.service.pods.report_node(house.operator, str(pod.id), pod.nodes[0], "ECC errors")
    verbs = redacted(house.service, policy())
    assert (
        verbs.pods.report_node(house.request(), "train", pod.nodes[0], "ECC errors").reported_by
        == "an operator"
    )
    (one,) = verbs.nodes.reports(house.operator)
    assert one.reported_by == f"{OPERATOR} (operator)"
