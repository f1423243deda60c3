"""Texts of the real engine as a tenant reads them: all of a pod's life, and nothing of others."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.engine.house import House
from tests.engine.timehouse import HandClock, make, queue
from weft.app.policy import Policy
from weft.app.redact import redacted
from weft.app.service import Service
from weft.model.errors import RefusedError, UnknownError, WeftError
from weft.model.messages import OPERATORS, withheld
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault

SECRET = "sesame"


def verbs(house: House) -> Service:
    return redacted(house.service, Policy())


def test_every_event_of_a_pods_life_has_a_tenants_text(house: House) -> None:
    """None is hidden from order to receipt."""
    tenant, door = house.request(), verbs(house)
    pod = house.ready(make("train", 2))
    waiting = queue(house, "waits", 16, duration="1h")
    house.worker.tend_queue()
    door.pods.release(tenant, pod.name)
    house.run(pod, PodState.RELEASED)
    seen = [e.message for p in (pod, waiting) for e in door.pods.events(tenant, str(p.id))]
    seen += [p.reason for p in door.pods.list(tenant)]
    seen += [r.reason for r in door.pods.show(tenant, str(pod.id)).resources]
    assert len(seen) > 20
    assert [s for s in seen if OPERATORS in s or str(withheld.EVENT()) in s] == []


def test_tenant_reads_why_its_own_server_failed(house: House) -> None:
    """The tenant reads that no host accepted its server, but not which ones."""
    pod = house.order()
    house.cloud.plant(Fault.BROKEN, kind=Kind.SERVER, times=None)
    house.run(pod, PodState.FAILED)
    shown = verbs(house).pods.show(house.request(), pod.name)
    assert "create train-0 " in shown.reason and "it failed" in shown.reason
    hosts = {n.nova_host for n in house.site.nodes}
    text = shown.model_dump_json(include={"reason", "resources"})
    assert not [h for h in hosts if f"on {h}" in text]


def test_tenant_does_not_read_operators_and_others_words(house: House) -> None:
    """Reasons of a quarantine, other pods and projects are in no refusal, plan, capacity or error."""
    tenant, door = house.request("team-b"), verbs(house)
    house.order(make(f"{SECRET}-pod", 10, duration="1h"))
    house.service.nodes.quarantine(house.operator, "gpu16", f"{SECRET} fan, ask Ms {SECRET}")
    answers: list[str] = [door.capacity.show(tenant).model_dump_json()]
    answers.append(door.pods.plan(tenant, make("fits", 2)).model_dump_json(exclude={"order"}))
    for order in (make("much", 8), make("near", 4, locality={"required": "leaf"}), make("all", 16)):
        with pytest.raises(RefusedError) as refused:
            door.pods.plan(tenant, order)
        answers.append(f"{refused.value} {refused.value.detail}")
        assert OPERATORS not in answers[-1]
        assert "quarantine" not in answers[-1] and "maintenance" not in answers[-1]
    assert not [a for a in answers if SECRET in a or "team-a" in a]


def test_tenant_does_not_read_details_of_a_silent_fabric(house: House) -> None:
    """The P_Key, the agent and the remedy are for operators."""
    for manager in house.fabric.managers:
        manager.reachable = False
    with pytest.raises(UnknownError) as error:
        verbs(house).pods.plan(house.request(), make("x", 1))
    with pytest.raises(WeftError) as whole:
        verbs(house).pods.plan(house.operator, make("x", 1))
    assert str(error.value) != str(whole.value)
    assert (error.value.of, error.value.answer) == ("the site", OPERATORS)


def test_reason_of_a_resource_keeps_its_code(house: House) -> None:
    """The tenant reads the service's answer to its creation, and which fields differ, for its own resource."""
    pod = house.order()
    house.cloud.plant(Fault.BROKEN, kind=Kind.SERVER, times=None)
    house.run(pod, PodState.FAILED)
    broken = [r for r in verbs(house).pods.show(house.request(), pod.name).resources if r.state == "broken"]
    assert broken and {r.code for r in broken} == {"SERVER_FAULT"}
    assert all(r.reason == "No valid host was found" for r in broken)


def test_rows_of_an_earlier_version_get_codes_at_the_next_visit(house: House, clock: HandClock) -> None:
    """Operators read the same text; tenants read nothing of the old row."""
    tenant, door = house.request(), verbs(house)
    house.cloud.plant(Fault.UNREACHABLE, kind=Kind.SERVER, times=None)
    pod = house.run(house.order(make("train", 12, duration="8h")), PodState.BOOTING)
    waiting = queue(house, "waits", 8)
    house.worker.tend_queue()
    house.store.wake(pod.id)
    house.worker.run_once()
    before = {p.name: (p.reason, p.code) for p in door.pods.list(tenant)}
    assert before["waits"][1] == "STARTS_BY" and before["train"][1], before
    events = len(door.pods.events(tenant, str(waiting.id)))
    with psycopg.connect(house.database.url) as connection:
        for now in (house.store.pods.find(str(one.id), None) for one in (pod, waiting)):
            rows = [c.model_dump(mode="json", exclude={"code", "params"}) for c in now.conditions]
            connection.execute(
                "UPDATE pod SET reason = to_jsonb(%s::text), conditions = %s WHERE id = %s",
                [str(now.reason), Jsonb(rows), now.id],
            )
    assert all(OPERATORS in p.reason for p in door.pods.list(tenant))
    clock.forward(minutes=5)
    house.worker.tend_queue()
    house.store.wake(pod.id)
    house.worker.run_once()
    assert {p.name: (p.reason, p.code) for p in door.pods.list(tenant)} == before
    assert len(door.pods.events(tenant, str(waiting.id))) == events
