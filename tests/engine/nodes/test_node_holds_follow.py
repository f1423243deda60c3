"""Holds that follow from what nodes are now: new ones, other machines, other firmware; and whose hold one is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.house import House
from tests.engine.nodes.test_node_holds import states
from tests.engine.nodes.test_node_tests import choose, held, say
from tests.engine.timehouse import HandClock
from tests.helpers.hostchecks import document, result
from weft.model.change import Replacement
from weft.model.errors import ConflictError
from weft.model.hostchecks import MOST_PARTS, CheckDocument, new_firmware, next_known
from weft.model.site import Site

Report = Callable[..., None]
OK = result("CLOCK")


@pytest.fixture
def report(house: House, clock: HandClock) -> Report:
    tokens: dict[str, str] = {}

    def send(node: str, serial: str | None = None, bios: str | None = None, **parts: str) -> None:
        if node not in tokens:
            tokens[node] = house.service.checks.make_token(house.operator, node).token
        reporter = house.service.checks.reporter(tokens[node], node, "192.0.2.1", "req-1", "weft-check")
        rows = [
            {"kind": "adapter", "serial": name, "place": name, "firmware": firmware}
            for name, firmware in parts.items()
        ]
        host = {"serial": serial, "bios": bios}
        house.service.checks.report(reporter, document(OK, host=host, parts=rows))
        clock.seconds += 11

    return send


def activate(house: House, **changed: Any) -> None:
    house.store.activate_site(house.store.site().site.model_copy(update=changed), "test")


def with_serial(site: Site, name: str, serial: str) -> tuple[Any, ...]:
    return tuple(n.model_copy(update={"serial": serial}) if n.name == name else n for n in site.nodes)


def whys(house: House) -> dict[str, str]:
    return {hold.node: hold.why for hold in house.service.nodes.holds(house.operator)}


def test_other_firmware_holds_the_node(house: House, report: Report) -> None:
    """Firmware of an adapter or the BIOS; a version that isn't known says nothing, and the first report neither."""
    choose(house, after=("firmware",))
    report("gpu03", bios="1.1", mlx5_0="28.1")
    report("gpu03", bios="1.1", mlx5_0="28.1")
    report("gpu03", mlx5_0="", mlx5_1="7")
    assert not whys(house)
    report("gpu03", mlx5_0="28.1")
    report("gpu03", mlx5_0="28.2")
    assert "after their firmware changed" in whys(house)["gpu03"] and states(house)["gpu03"] == "held"
    report("gpu04", bios="1.1")
    report("gpu04", bios="1.2")
    assert whys(house).keys() == {"gpu03", "gpu04"}


def test_firmware_holds_nothing_unless_the_site_wants_it(house: House, report: Report) -> None:
    choose(house, after=("pod",))
    report("gpu03", mlx5_0="28.1")
    report("gpu03", mlx5_0="28.2")
    assert not whys(house)


def test_firmware_is_compared_part_by_part() -> None:
    """A part that moved to another place is the same one; one that came has no version before."""

    def made(*parts: tuple[str, str, str]) -> CheckDocument:
        rows = [{"kind": "gpu", "serial": s, "place": p, "firmware": f} for s, p, f in parts]
        return CheckDocument.model_validate(document(OK, parts=rows))

    before = made(("S1", "0000:01", "96.1"), ("S2", "0000:02", "96.1"))
    after = made(("S2", "0000:01", "96.1"), ("S1", "0000:02", "96.2"), ("S3", "0000:03", "90"))
    assert new_firmware(before, after) == ["0000:02"]


def test_new_nodes_are_held_before_their_first_pod(house: House, clock: HandClock) -> None:
    """Also one that comes back after it had left the site; those that were there aren't."""
    site = house.store.site().site
    choose(house, after=("new",))
    assert not whys(house)
    activate(house, nodes=tuple(n for n in site.nodes if n.name != "gpu05"))
    activate(house, nodes=site.nodes)
    assert set(whys(house)) == {"gpu05"} and "are new" in whys(house)["gpu05"]
    activate(house, nodes=site.nodes)
    clock.seconds = time.time() + 60  # triggers have PostgreSQL's own time
    say(house, "gpu05", "nccl")
    assert say(house, "gpu05", "disk").accepted
    activate(house, nodes=site.nodes)
    assert not whys(house)


def test_tests_before_new_firmware_do_not_count(house: House, clock: HandClock, report: Report) -> None:
    """Also of a node that the site holds for another reason already."""
    choose(house, after=("quarantine", "firmware"))
    report("gpu03", mlx5_0="28.1")
    house.store.quarantine("gpu03", "fan")
    house.service.nodes.clear(house.operator, "gpu03")
    clock.seconds = time.time() + 60  # triggers have PostgreSQL's own time
    say(house, "gpu03", "nccl")
    report("gpu03", mlx5_0="28.2")
    assert held(house) == {"nccl": "missing", "disk": "missing"}


def test_report_without_firmware_or_serial_number_hides_no_change(house: House, report: Report) -> None:
    """For example after an update of firmware, until its driver is loaded: what is known next is compared with what was
    known last."""
    choose(house, after=("new", "firmware"))
    report("gpu03", bios="1.1", mlx5_0="28.1")
    report("gpu03", mlx5_0="")
    report("gpu03")
    report("gpu03", mlx5_0="28.1")
    assert not whys(house)
    report("gpu03", bios="1.2")
    report("gpu04", serial="S1", mlx5_0="28.1")
    report("gpu04")
    report("gpu04", mlx5_0="28.2")
    report("gpu05", serial="S1")
    report("gpu05")
    report("gpu05", serial="S2")
    said = whys(house)
    assert "firmware changed" in said["gpu03"] and "firmware changed" in said["gpu04"]
    assert "another machine" in said["gpu05"]


def test_known_parts_are_bounded_and_those_of_another_machine_forgotten() -> None:
    def made(serial: str, *parts: str) -> CheckDocument:
        rows = [{"kind": "gpu", "serial": s, "place": s, "firmware": "1"} for s in parts]
        return CheckDocument.model_validate(document(OK, host={"serial": serial}, parts=rows))

    known = next_known(None, made("M1", "old"))
    known = next_known(known, made("M1", *(f"S{n}" for n in range(200))))
    assert len(known.parts) == 201
    known = next_known(known, made("M1", *(f"T{n}" for n in range(200))))
    assert len(known.parts) == MOST_PARTS and known.parts[0].serial == "T0"
    assert [p.serial for p in next_known(known, made("M2", "new")).parts] == ["new"]


@pytest.mark.parametrize("after", [(), ("new",)], ids=["replaced ones", "new ones"])
@pytest.mark.parametrize("by", ["report", "site"])
def test_tests_of_another_machine_do_not_count(
    house: House, report: Report, by: str, after: tuple[str, ...]
) -> None:
    """The mainboard was exchanged while the node was held: everything is tested again."""
    choose(house, after=after)
    activate(house, nodes=with_serial(house.store.site().site, "gpu03", "S1"))
    report("gpu03", serial="S1")
    house.service.nodes.hold(house.operator, "gpu03", "burn-in")
    say(house, "gpu03", "nccl", serial="S1")
    if by == "site":
        activate(house, nodes=with_serial(house.store.site().site, "gpu03", "S2"))
    else:
        activate(house, nodes=tuple(n.model_copy(update={"serial": None}) for n in house.site.nodes))
        assert held(house)["nccl"] == "passed", "a number that isn't known says nothing"
        report("gpu03", serial="s1")
        assert held(house)["nccl"] == "passed"
        report("gpu03", serial="S2")
    assert held(house) == {"nccl": "missing", "disk": "missing"}
    assert bool(whys(house)["gpu03"]) is bool(after), "the hold is the site's, too, if the site wants one"


def test_hold_ends_when_the_site_drops_its_last_open_test(house: House) -> None:
    choose(house)
    for node in ("gpu03", "gpu04"):
        house.service.nodes.hold(house.operator, node, "burn-in")
    say(house, "gpu03", "nccl")
    say(house, "gpu03", "disk", "failed")
    say(house, "gpu04", "disk")
    choose(house, tests=("nccl",))
    assert set(whys(house)) == {"gpu04"}
    entries = house.service.nodes.history(house.operator, "gpu03").entries
    assert entries[0].message == "accepted for burn-in: it passed nccl"
    choose(house, tests=())
    assert set(whys(house)) == {"gpu04"}, "without any test a person accepts it"


def test_tests_of_a_restored_backup_end_no_hold(house: House) -> None:
    """A site is activated before the database is accepted: pods may have had the node since the backup was taken."""
    choose(house)
    house.service.nodes.hold(house.operator, "gpu03", "burn-in")
    say(house, "gpu03", "nccl")
    say(house, "gpu03", "disk", "failed")
    house.behind()
    choose(house, tests=("nccl",))
    assert set(whys(house)) == {"gpu03"}


def test_hold_of_the_sites_name_becomes_the_sites(house: House) -> None:
    """An operator held it before it was cleared: the site's tests are wanted, and those before don't count."""
    choose(house, after=("quarantine",))
    house.store.quarantine("gpu03", "fan")
    house.service.nodes.hold(house.operator, "gpu03", "burn-in")
    say(house, "gpu03", "nccl")
    house.service.nodes.clear(house.operator, "gpu03")
    (hold,) = house.service.nodes.holds(house.operator)
    assert hold.held_by != "weft" and "after quarantine" in hold.why
    assert held(house) == {"nccl": "missing", "disk": "missing"}
    with pytest.raises(ConflictError, match="nccl"):
        house.service.nodes.accept(house.operator, "gpu03")


def test_hold_made_by_a_user_called_weft_is_not_wefts_own(house: House) -> None:
    choose(house)
    house.cloud.add_user("weft", project="admin", roles=("admin",))
    with house.database.transaction() as tx:
        tx.run("hold_for_acceptance", node="gpu03", what="burn-in", at=tx.now(), by="weft")
    house.service.nodes.accept(house.operator, "gpu03")
    assert not whys(house)


def test_node_that_was_held_for_repair_counts_for_its_project(house: House) -> None:
    """An operator held it for repair before a member replaced it: it is still one of the project's."""
    pod = house.ready()
    house.service.nodes.hold(house.operator, pod.nodes[0], "repair")
    house.service.pods.replace_node(house.request(), pod.order.name, Replacement(node=pod.nodes[0]))
    with house.database.statement() as tx:
        (row,) = tx.rows("count_unaccepted", project_id="team-a", node="gpu16", what="repair")
    assert row["number"] == 1 and "replaced in pod" in whys(house)[pod.nodes[0]]
