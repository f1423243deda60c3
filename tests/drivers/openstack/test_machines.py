"""Machines in Ironic: claimed when free, freed when clean, even if others write their marks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.drivers.openstack.machinerig import MACHINE, OTHER, SCOPE, Rig, strictly
from tests.drivers.openstack.machinerig import house as house
from tests.drivers.openstack.machinerig import rig as rig
from tests.drivers.openstack.tinycloud import PROJECT, Reply
from tests.drivers.openstack.tinyironic import NODE
from weft.drivers.openstack.cleaning import Demands
from weft.model.errors import NotYetError, TemporaryError, UnknownError
from weft.model.resources import Status


def test_machine_is_claimed_used_cleaned_and_freed_with_its_record(rig: Rig) -> None:
    claimed = rig.claim()
    assert rig.see(claimed).status is Status.SETTLED
    rig.use()
    assert rig.see(claimed).status is Status.SETTLED
    assert isinstance(rig.free(claimed), NotYetError)  # it still has its server
    rig.empty("cleaning")
    assert rig.see(claimed).status is Status.PENDING
    assert isinstance(rig.free(claimed), NotYetError)
    rig.empty()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    assert rig.free(claimed) is None
    seen = rig.see(claimed)
    assert seen.status is Status.ABSENT
    assert "deploy.erase_devices, deploy.verify_erased; disks erased" in seen.reason
    assert "from 2026-11-22T21:30:00" in seen.reason and "conductor ironic1 is alive" in seen.reason
    assert rig.node["extra"] == {}


def test_claiming_a_machine_is_idempotent_after_a_lost_answer(rig: Rig) -> None:
    assert rig.claim() == rig.claim()
    assert rig.see("").id == rig.claim()  # without knowing the id


def test_machine_of_another_pod_is_not_claimed(rig: Rig) -> None:
    rig.claim(OTHER)
    with pytest.raises(TemporaryError, match="carries the mark"):
        rig.claim()
    assert rig.see("").status is Status.ABSENT


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"provision_state": "active"}, "in state active"),
        ({"provision_state": "clean failed", "last_error": "disk sda"}, "disk sda"),
        ({"maintenance": True, "maintenance_reason": "bad fan"}, "in maintenance: bad fan"),
        ({"maintenance": True, "fault": "power failure"}, "in maintenance: power failure"),
        ({"instance_uuid": "srv-9"}, "has instance srv-9"),
        ({"power_state": None}, "power state is unknown"),
    ],
)
def test_machine_that_is_not_free_is_not_claimed(rig: Rig, change: dict[str, object], why: str) -> None:
    rig.node.update(change)
    with pytest.raises(TemporaryError, match=why):
        rig.claim()
    assert rig.node["extra"] == {}
    assert why.split()[-1] in rig.facts.hosts()[NODE]


@pytest.mark.parametrize("lasting", [True, False])
def test_ironic_lock_is_not_reported_as_an_error(rig: Rig, lasting: bool) -> None:
    """Ironic locks a node briefly, as for its power state; the request is repeated."""
    locked = Reply(409, {"error_message": f"Node {NODE} is locked by host ironic1, please retry"})
    rig.node["reservation"] = "ironic1" if lasting else None
    rig.ironic.lies = [] if lasting else [(f"PATCH /baremetal/v1/nodes/{NODE}", locked)]
    with pytest.raises(NotYetError):
        rig.claim()
    rig.node["reservation"], rig.ironic.lies = None, []
    claimed = rig.claim()
    rig.node["reservation"] = "ironic1"
    assert isinstance(rig.free(claimed), NotYetError)
    rig.node["reservation"] = None
    assert rig.free(claimed) is None and rig.node["extra"] == {}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"provision_state": "clean failed", "last_error": "sda"}, Status.BROKEN),
        ({"provision_state": "deploy failed", "last_error": "x"}, Status.BROKEN),
        ({"provision_state": "error"}, Status.BROKEN),
        ({"provision_state": "a state of tomorrow"}, Status.BROKEN),
        ({"provision_state": "clean wait"}, Status.PENDING),
    ],
)
def test_ironic_states_map_to_statuses(rig: Rig, change: dict[str, object], status: Status) -> None:
    claimed = rig.claim()
    rig.node.update(change)
    assert rig.see(claimed).status is status
    assert rig.free(claimed) is not None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"maintenance": True, "maintenance_reason": "bad fan"}, "in maintenance: bad fan"),
        ({"power_state": None}, "power state is unknown"),
    ],
)
def test_temporary_hindrance_is_waited_for_with_an_alarm(
    rig: Rig, change: dict[str, object], why: str
) -> None:
    """The pod doesn't fail because of it, and its server isn't replaced."""
    before = dict(rig.node)
    rig.node.update(change)
    with pytest.raises(TemporaryError, match=why) as caught:
        rig.claim()
    assert caught.value.alarming
    rig.node.update(before)
    claimed = rig.claim()
    rig.use()
    used = dict(rig.node)
    rig.node.update(change)
    seen = rig.see(claimed)
    assert (seen.status, seen.differences) == (Status.PENDING, ()) and why in seen.reason
    rig.node.update(used)
    assert rig.see(claimed).status is Status.SETTLED
    rig.node.update(change)
    rig.empty()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    error = rig.free(claimed)
    assert isinstance(error, TemporaryError) and error.alarming and why in str(error)
    rig.node.update(before, extra=rig.node["extra"], provision_updated_at="2026-11-22T21:30:00+00:00")
    assert rig.free(claimed) is None


def test_machine_with_another_sites_mark_is_not_offered(rig: Rig) -> None:
    rig.claim()
    assert rig.facts.hosts()[NODE] == "up", "a machine of this site's pod stays listed"
    rig.node.update(extra={"weft": replace(SCOPE, site="elsewhere").mark(MACHINE.key).text()})
    assert rig.facts.hosts()[NODE] == "marked as site elsewhere's"


def test_worker_that_lost_its_pod_while_reading_claims_nothing(rig: Rig) -> None:
    lost: list[bool] = []

    def fence() -> None:
        if lost:
            raise RuntimeError("another worker has it")

    rig.ironic.asides = [(f"GET /baremetal/v1/nodes/{NODE}/history", lambda: lost.append(True))]
    with pytest.raises(RuntimeError, match="another worker"):
        rig.claim(replace(SCOPE, fence=fence))
    assert rig.node["extra"] == {}


def test_late_worker_leaves_the_next_pods_mark(rig: Rig) -> None:
    """While it reads, another worker frees the machine and the next pod claims it."""
    claimed = rig.claim()
    theirs = {"weft": OTHER.mark(MACHINE.key).text()}
    rig.ironic.asides = [(f"GET /baremetal/v1/nodes/{NODE}/history", lambda: rig.node.update(extra=theirs))]
    error = rig.free(claimed)
    assert isinstance(error, TemporaryError) and "changed meanwhile" in str(error)
    assert rig.node["extra"] == theirs


def test_next_pods_machine_is_not_touched_by_the_first_pod(rig: Rig) -> None:
    first = rig.claim()
    assert rig.free(first) is None
    second = rig.claim(OTHER)
    assert rig.see(first).status is Status.ABSENT
    assert rig.free(first) is None
    assert rig.see(second, OTHER).status is Status.SETTLED
    rig.use()
    assert rig.see(first).there, "a machine in use is there, but the first pod doesn't look any more"


def test_mark_written_by_the_tenant_is_corrected_and_proves_nothing(rig: Rig) -> None:
    """A lessee's members may write `extra`; by its id the machine is the pod's until it is free and clean."""
    claimed = rig.claim()
    rig.use()
    theirs = {"weft": OTHER.mark(MACHINE.key).text()}
    rig.node.update(extra=theirs)
    seen = rig.see(claimed)
    assert seen.there and [d.field for d in seen.differences] == ["mark"]
    assert rig.driver.update(SCOPE, [MACHINE], {MACHINE.key: claimed})[MACHINE.key].error is None
    assert rig.node["extra"] == {"weft": SCOPE.mark(MACHINE.key).text()}
    rig.node.update(extra=theirs)
    for state in ("active", "deleting", "cleaning", "clean failed", "available"):
        rig.empty(state)
        assert rig.see(claimed).there, state
        if state != "active":
            assert rig.free(claimed) is not None, state
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    assert rig.free(claimed) is None
    seen = rig.see(claimed)
    assert seen.status is Status.ABSENT
    assert "with another mark; cleaned from 2026-11-22T21:30:00" in seen.reason
    assert rig.node["extra"] == theirs, "it may belong to the next pod by now"


def test_mark_written_during_the_proof_of_absence_is_detected(rig: Rig) -> None:
    """By a lost worker, whose request arrives after the machine was read without a mark."""
    ours = {"weft": SCOPE.mark(MACHINE.key).text()}
    rig.ironic.asides = [("GET /baremetal/v1/conductors", lambda: rig.node.update(extra=ours))]
    with pytest.raises(UnknownError, match="a moment ago"):
        rig.see("")
    assert rig.see("").there


def test_audit_finds_marked_machines_and_frees_only_clean_ones(rig: Rig) -> None:
    rig.claim()
    (found,) = rig.driver.marked("lab", [])
    assert found.owner == SCOPE.owner and found.id.startswith(NODE)
    rig.use()
    assert rig.driver.remove_marked([found])[found.id].error is not None
    rig.empty()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    assert rig.driver.remove_marked([found])[found.id].error is None
    assert rig.driver.marked("lab", []) == []


def test_machine_in_rescue_is_neither_broken_nor_freed(rig: Rig) -> None:
    """Its tenant started the rescue and ends it, so no operator must act."""
    claimed = rig.claim()
    rig.use()
    rig.node.update(provision_state="rescue")
    seen = rig.see(claimed)
    assert (seen.status, seen.reason) == (Status.PENDING, "rescue")
    assert isinstance(rig.free(claimed), NotYetError)
    rig.node.update(provision_state="rescue failed", last_error="no agent")
    assert rig.see(claimed).status is Status.BROKEN


THEIRS = "77777777777777777777777777777777"


@pytest.mark.parametrize(
    ("field", "said"), [("owner", "owned by project 7777"), ("lessee", "leased to project 7777")]
)
def test_machine_others_may_act_on_is_not_free(rig: Rig, field: str, said: str) -> None:
    """By Ironic's default policy an owner's members may rescue it, read its console and change its BMC's address,
    and a lessee's may switch it off, whichever pod it belongs to.
    """
    rig.node[field] = THEIRS
    with pytest.raises(TemporaryError, match=said) as refused:
        rig.claim()
    assert refused.value.alarming and said in rig.facts.hosts()[NODE]
    assert said in rig.facts.seen_machines()[NODE].others
    rig.node[field] = PROJECT  # weft's own project in this cloud
    assert rig.facts.seen_machines()[NODE].others == ""
    claimed = rig.claim()
    rig.node[field] = THEIRS
    error = rig.free(claimed)
    assert error is not None and said in str(error) and rig.see_mark()
    rig.node[field] = None
    assert rig.free(claimed) is None


def test_pod_reports_that_others_may_act_on_its_machine(rig: Rig) -> None:
    """Its tenant may be the lessee, as Ironic makes it by default while it has the machine, but not the owner."""
    scope = replace(SCOPE, project_id=THEIRS)
    claimed = rig.claim(scope)
    rig.use()
    rig.node["lessee"] = THEIRS
    assert rig.see(claimed, scope).status is Status.SETTLED
    assert "leased" in rig.facts.seen_machines()[NODE].others, "the audit still reports it"
    for node in ({"lessee": "8" * 32, "owner": None}, {"lessee": None, "owner": THEIRS}):
        rig.node.update(node)
        seen = rig.see(claimed, scope)
        assert seen.status is Status.PENDING and "whichever pod has it" in seen.reason
    assert rig.see_mark()


def test_operators_projects_may_own_machines(rig: Rig, tmp_path: Path) -> None:
    """A machine belongs to the project whose administrator enrolled it, so the site lists only operators' projects."""
    rig.node["owner"] = THEIRS
    with strictly(rig, tmp_path, Demands(owners=frozenset({THEIRS}))) as listed:
        claimed = listed.claim()
        assert listed.see(claimed).status is Status.SETTLED and listed.free(claimed) is None
