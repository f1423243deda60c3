"""How deleted servers ended, by Nova's record of each nova-compute that ever had them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud, tiny_cloud
from weft.drivers.openstack import Sessions
from weft.drivers.openstack.endings import MOST_READ, NEWEST, ending
from weft.drivers.openstack.occupants import OpenStackOccupants
from weft.model.errors import UnknownError
from weft.ports.occupants import Ended, Ending

SERVER = "5f0c4a4e-0000-4000-8000-000000000001"
MACHINE = "5c435abb-55d9-5c17-8131-5edcbcd52777"
ADMIN = "ad" * 16
Step = tuple[str, tuple[tuple[str, str, str], ...], str]
"""Action, its events (name, host, result), and the project that requested it."""


def step(action: str, *events: tuple[str, str, str], project: str = PROJECT) -> Step:
    return action, events, project


BUILT = step("create", ("_do_build_and_run_instance", "a", "Success"))
EVACUATED = step("evacuate", ("rebuild_instance", "b", "Success"), project=ADMIN)
ENDED_ON_A = step("delete", ("terminate_instance", "a", "Success"))
ENDED_ON_B = step("delete", ("terminate_instance", "b", "Success"))
RESIZED = step(
    "migrate",
    ("prep_resize", "b", "Success"),
    ("resize_instance", "a", "Success"),
    ("finish_resize", "b", "Success"),
    project=ADMIN,
)
CONFIRMED = step("confirmResize", ("confirm_resize", "a", "Success"))
REVERTED = step("revertResize", ("revert_resize", "b", "Success"), ("finish_revert_resize", "a", "Success"))
RESIZED_IN_PLACE = step(
    "resize",
    ("prep_resize", "a", "Success"),
    ("resize_instance", "a", "Success"),
    ("finish_resize", "a", "Success"),
)
MOVING = (
    ("check_can_live_migrate_destination", "b", "Success"),
    ("check_can_live_migrate_source", "a", "Success"),
    ("pre_live_migration", "b", "Success"),
    ("live_migration", "a", "Success"),
)
ARRIVED = ("post_live_migration_at_destination", "b", "Success")
ROLLED_BACK = ("rollback_live_migration_at_destination", "b", "Success")
SHELVED = step("shelve", ("shelve_instance", "a", "Success"), ("shelve_offload_instance", "a", "Success"))


@dataclass(frozen=True)
class Rig:
    cloud: TinyCloud
    facts: OpenStackOccupants

    def ending(self, *steps: Step, whole: bool = False) -> Ending:
        for action, events, project in steps:
            self.cloud.act(SERVER, action, *events, project=project)
        return self.facts.endings(PROJECT, [SERVER], {SERVER: MACHINE} if whole else None)[SERVER]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TinyCloud, Sessions]]:
    with tiny_cloud() as (cloud, text):
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        yield cloud, sessions
        sessions.close()


@pytest.fixture(params=["hashes", "names"])
def rig(made: tuple[TinyCloud, Sessions], request: pytest.FixtureRequest) -> Rig:
    """Hosts as Nova shows them to the server's owner, and to administrators."""
    cloud, sessions = made
    cloud.reset()
    cloud.shows_hosts = request.param == "names"
    cloud.things["hypervisors"] = [
        {"id": f"id-{h}", "hypervisor_type": "QEMU", "service": {"host": h}, "state": "up"}
        for h in ("a", "b", "c")
    ]
    return Rig(cloud, OpenStackOccupants(sessions))


@pytest.mark.parametrize(
    "steps",
    [
        (BUILT, ENDED_ON_A),
        (BUILT, RESIZED, CONFIRMED, ENDED_ON_B),
        (BUILT, RESIZED, REVERTED, ENDED_ON_A),
        (BUILT, RESIZED_IN_PLACE, CONFIRMED, ENDED_ON_A),
        (BUILT, step("live-migration", *MOVING, ARRIVED, project=ADMIN), ENDED_ON_B),
        (BUILT, step("live-migration", *MOVING, ROLLED_BACK, project=ADMIN), ENDED_ON_A),
        (BUILT, SHELVED, step("unshelve", ("unshelve_instance", "b", "Success")), ENDED_ON_B),
        (
            BUILT,
            EVACUATED,
            step("migrate", ("finish_resize", "a", "Success"), project=ADMIN),
            ENDED_ON_B,
            ENDED_ON_A,
        ),
    ],
)
def test_server_has_ended_once_every_host_removed_it(rig: Rig, steps: tuple[Step, ...]) -> None:
    """However it moved between them, and whichever project requested that."""
    found = rig.ending(*steps)
    assert (found.how, found.hosts) == (Ended.DESTROYED, ()), found
    assert found.at is not None


@pytest.mark.parametrize(
    ("steps", "hosts"),
    [
        ((BUILT, EVACUATED, ENDED_ON_B), ("a",)),
        ((BUILT, EVACUATED, step("shelve", ("shelve_offload_instance", "b", "Success"))), ("a",)),
        ((BUILT, RESIZED, ENDED_ON_B), ("a",)),
        ((BUILT, RESIZED, ENDED_ON_B, CONFIRMED), ("a",)),
        ((BUILT, RESIZED, step("confirmResize", ("confirm_resize", "a", "Error")), ENDED_ON_B), ("a",)),
        ((BUILT, step("live-migration", *MOVING, project=ADMIN), ENDED_ON_A), ("b",)),
        ((BUILT, step("live-migration", *MOVING, project=ADMIN), ENDED_ON_B), ("a",)),
        (
            (BUILT, EVACUATED, step("evacuate", ("rebuild_instance", "c", "Success"), project=ADMIN)),
            ("a", "b", "c"),
        ),
    ],
)
def test_host_that_never_removed_a_server_may_still_run_it(
    rig: Rig, steps: tuple[Step, ...], hosts: tuple[str, ...]
) -> None:
    """Even if another host removed it. A resize that is confirmed after the end removes nothing."""
    found = rig.ending(*steps)
    assert (found.how, found.hosts) == (Ended.LEFT_BEHIND, hosts), found


def test_resize_within_a_host_removes_nothing_from_it(rig: Rig) -> None:
    """Nova deleted the server from its database later, while the host was down."""
    found = rig.ending(BUILT, RESIZED_IN_PLACE, CONFIRMED, step("delete"))
    assert (found.how, found.hosts) == (Ended.NOT_DESTROYED, ("a",))


def test_unfinished_removal_is_unknown(rig: Rig) -> None:
    """nova-compute was killed meanwhile, so the event never ends."""
    found = rig.ending(BUILT, step("delete", ("terminate_instance", "a", "")))
    assert (found.how, found.hosts) == (Ended.UNKNOWN, ("a",))
    assert "hasn't ended yet on a" in found.text


REBOOTING = step("reboot", ("reboot_instance", "a", ""))
ENDING_ON_A = step("delete", ("terminate_instance", "a", ""))
ENDING_ON_B = step("delete", ("terminate_instance", "b", ""))


@pytest.mark.parametrize(
    ("steps", "hosts"),
    [
        ((BUILT, REBOOTING, step("delete")), ("a",)),
        ((BUILT, REBOOTING, EVACUATED, ENDED_ON_B), ("a",)),
        ((BUILT, EVACUATED, ENDING_ON_B), ("a", "b")),
        ((BUILT, ENDING_ON_A, EVACUATED), ("a", "b")),
        ((BUILT, step("migrate", ("resize_instance", "a", ""), project=ADMIN), step("delete")), ("a",)),
    ],
)
def test_host_without_a_removal_may_still_run_the_server(
    rig: Rig, steps: tuple[Step, ...], hosts: tuple[str, ...]
) -> None:
    """An event that never ended on a host that was cut off, or a removal that never ended on another host."""
    found = rig.ending(*steps)
    assert (found.how, found.hosts) == (Ended.LEFT_BEHIND, hosts), found


def test_removal_that_ended_outweighs_an_event_that_never_did(rig: Rig) -> None:
    """The same host removed the server after it was restarted."""
    assert rig.ending(BUILT, REBOOTING, ENDED_ON_A).how is Ended.DESTROYED


def test_host_no_longer_listed_is_named_by_its_hash(rig: Rig) -> None:
    """Another host's removal doesn't count for it."""
    rig.cloud.things["hypervisors"] = [
        r for r in rig.cloud.things["hypervisors"] if r["service"]["host"] == "b"
    ]
    found = rig.ending(BUILT, EVACUATED, ENDED_ON_B)
    assert found.how is Ended.LEFT_BEHIND
    assert found.hosts == ("a",) if rig.cloud.shows_hosts else len(found.hosts[0]) == 56


def test_machine_is_removed_by_any_nova_compute(rig: Rig) -> None:
    """Ironic has the machine, and which nova-compute serves it changes."""
    rig.cloud.lies.append(machine("cleaning"))
    assert rig.ending(BUILT, ENDED_ON_B, whole=True).how is Ended.DESTROYED


@pytest.mark.parametrize(
    ("state", "instance", "how"),
    [
        ("available", None, Ended.DESTROYED),
        ("clean failed", None, Ended.DESTROYED),
        ("active", "another-server", Ended.DESTROYED),
        ("error", None, Ended.NOT_DESTROYED),
        ("deleting", SERVER, Ended.NOT_DESTROYED),
        ("active", None, Ended.NOT_DESTROYED),
        ("manageable", None, Ended.UNKNOWN),
    ],
)
def test_machine_that_ironic_could_not_tear_down_may_run_what_nova_terminated(
    rig: Rig, state: str, instance: str | None, how: Ended
) -> None:
    """As on the lab: its BMC is dead, Ironic removes the instance anyway, and Nova records a success."""
    rig.cloud.lies.append(machine(state, instance))
    found = rig.ending(BUILT, ENDED_ON_B, whole=True)
    assert found.how is how, found
    assert how is Ended.DESTROYED or f"is {state} in Ironic, power on" in found.text


def machine(state: str, instance: str | None = None) -> tuple[str, Reply]:
    node = {"uuid": MACHINE, "provision_state": state, "instance_uuid": instance, "power_state": "power on"}
    return f"GET /baremetal/v1/nodes/{MACHINE}", Reply(200, {**node, "instance_info": {}})


def test_every_page_of_a_record_is_read(rig: Rig) -> None:
    """A tenant that restarts its server a thousand times hides no evacuation and invalidates no proof."""
    rig.cloud.page = 50
    reboots = [step("reboot", ("reboot_instance", "b", "Success"))] * 120
    assert rig.ending(BUILT, EVACUATED, *reboots, ENDED_ON_B).how is Ended.LEFT_BEHIND
    read = [a for a in rig.cloud.asked if f"os-instance-actions/req-{SERVER}" in a]
    assert len(read) < 60
    rig.cloud.actions.clear()
    assert rig.ending(BUILT, *reboots, ENDED_ON_A).how is not Ended.DESTROYED
    rig.cloud.actions.clear()
    assert (
        rig.ending(BUILT, *[step("reboot", ("reboot_instance", "a", "Success"))] * 120, ENDED_ON_A).how
        is Ended.DESTROYED
    )


@pytest.mark.parametrize("action", ["lock", "rebuild"])
def test_harmless_actions_do_not_make_a_record_too_long(rig: Rig, action: str) -> None:
    """Any member of a project can cause thousands of them, on many pages."""
    rig.cloud.page = 10
    host = (("rebuild_instance", "b", "Success"),) if action == "rebuild" else ()
    many = [step(action, *host)] * (MOST_READ + 60)
    assert rig.ending(
        step("create", ("_do_build_and_run_instance", "b", "Success")), *many, ENDED_ON_B
    ).how is (Ended.DESTROYED)
    rig.cloud.actions.clear()
    found = rig.ending(BUILT, EVACUATED, *many, ENDED_ON_B)
    assert (found.how, found.hosts) == (Ended.LEFT_BEHIND, ("a",))


def test_slowly_read_record_is_unknown(rig: Rig, made: tuple[TinyCloud, Sessions]) -> None:
    """The pages that were read in time don't count alone."""
    rig.cloud.page = 10
    rig.ending(BUILT, *[step("lock")] * 20, ENDED_ON_A)
    project = made[1].project(PROJECT)
    found = ending(project, PROJECT, SERVER, False, lambda _: ("a",), patience=0.0)
    assert found.how is Ended.UNKNOWN and "more than 10 actions" in found.text
    assert ending(project, PROJECT, SERVER, False, lambda _: ("a",)).how is Ended.DESTROYED


SHELVED_AND_BACK = (
    SHELVED,
    step("unshelve", ("unshelve_instance", "a", "Success")),
)


def test_overlong_record_is_unknown(rig: Rig) -> None:
    """It is reported as too long, and that the guest may still run."""
    found = rig.ending(BUILT, *[EVACUATED] * MOST_READ, ENDED_ON_B)
    assert (found.how, found.cut) == (Ended.UNKNOWN, True)
    assert f"more than {MOST_READ} actions that may have moved it" in found.text
    assert len([a for a in rig.cloud.asked if f"os-instance-actions/req-{SERVER}" in a]) == NEWEST
    more = rig.ending(step("reboot", ("reboot_instance", "c", "")))
    assert (more.how, more.hosts) == (Ended.LEFT_BEHIND, ("c",)), (
        "the newest actions count whatever was before"
    )


def test_shelving_hundreds_of_times_hides_nothing(rig: Rig) -> None:
    """Any member can do so with its server; an earlier evacuation is still found."""
    many = SHELVED_AND_BACK * 130
    assert rig.ending(BUILT, *many, ENDED_ON_A).how is Ended.DESTROYED
    rig.cloud.actions.clear()
    rig.cloud.act(SERVER, "create", ("_do_build_and_run_instance", "c", "Success"))
    for action, events, project in (EVACUATED, *many, ENDED_ON_A, ENDED_ON_B):
        rig.cloud.act(SERVER, action, *events, project=project)
    found = rig.ending()
    assert (found.how, found.hosts, found.cut) == (Ended.LEFT_BEHIND, ("c",), False)


def test_slowly_read_events_are_unknown(rig: Rig, made: tuple[TinyCloud, Sessions]) -> None:
    """The newest are read first."""
    rig.ending(BUILT, *SHELVED_AND_BACK * 5, ENDED_ON_A)
    found = ending(made[1].project(PROJECT), PROJECT, SERVER, False, lambda _: ("a",), patience=0.0)
    assert (found.how, found.cut) == (Ended.UNKNOWN, True) and "were read in time" in found.text


@pytest.mark.parametrize(
    "answer",
    [
        Reply(200, {}),
        Reply(200, {"instanceActions": [{}]}),
        Reply(200, {"instanceActions": [{"action": "lock", "request_id": "r"}], "links": [{"rel": "next"}]}),
        Reply(503),
        Reply(404, "no"),
    ],
)
def test_unreadable_record_is_unknown(rig: Rig, answer: Reply) -> None:
    """Whatever a proxy answers in Nova's place."""
    rig.cloud.lies = [(f"GET /compute/servers/{SERVER}/os-instance-actions", answer)]
    assert rig.ending(BUILT, ENDED_ON_A).how is Ended.UNKNOWN


def test_servers_of_different_projects_are_distinguished(rig: Rig) -> None:
    """By Nova's answer for each id; a missing server has no project, and an unreadable one is unknown."""
    row = {"name": "x", "created": "2026-11-23T01:00:00Z", "status": "ACTIVE"}
    rig.cloud.things["servers"] = [
        {"id": "mine", "tenant_id": PROJECT, **row},
        {"id": "theirs", "tenant_id": ADMIN, **row},
        {"id": "odd", "tenant_id": PROJECT},
    ]
    made = rig.facts.made_by(PROJECT, ["mine", "theirs", "gone"])
    assert made == {"mine": datetime(2026, 11, 23, 1, tzinfo=UTC)}
    with pytest.raises(UnknownError):
        rig.facts.made_by(PROJECT, ["odd"])
