"""A database restored from a dump changes nothing outside before an operator has accepted it."""

from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.engine.audit.test_sweep import sweep, sweeper
from tests.engine.changes.test_change_loop import apply, members, settle, sized
from tests.engine.dumps import dump, restore
from tests.engine.fabric.test_ethernet_life import EthernetHouse, ethernet, ports
from tests.engine.house import ORDER, House
from tests.engine.life.test_functions import furnished
from tests.engine.timehouse import HandClock, look, make, messages
from tests.engine.ufmhouse import UfmOfAHouse, managed_by_ufm
from weft.app.metrics import StoreCollector
from weft.drivers.switches.vlans import Batch
from weft.engine.audit import audit
from weft.engine.audit.sweep import EVERY as EVERY_SWEEP
from weft.engine.base import asking
from weft.engine.base.database import Database
from weft.engine.base.epoch import accept_database, check_epoch
from weft.engine.base.gate import EVERY, ClosedError, Gate
from weft.engine.hold.heldpod import HeldPod
from weft.engine.rows.ledger import FabricLedger
from weft.engine.rows.records import PodRecord, RowState
from weft.engine.watch.fabrickeeper import FabricKeeper
from weft.model.errors import ConflictError
from weft.model.kinds import Kind
from weft.model.nodetests import NodeTestReceipt, NodeTestReport
from weft.model.pod import PodState
from weft.model.site import AcceptancePolicy
from weft.ports.servers import Action
from weft.ports.witness import Witness
from weft.testing.cloud import FakeCloud, Fault
from weft.testing.ethernet import FakeEthernet, FakeSwitch


def another(house: House, name: str, count: int) -> PodRecord:
    """A READY pod of another tenant."""
    view = house.service.pods.create(house.request("team-b"), make(name, count))
    return house.run(house.store.pods.find(view.id, None), PodState.READY)


def visit(house: House, pod: PodRecord, times: int = 4) -> PodRecord:
    for _ in range(times):
        house.store.wake(pod.id)
        house.worker.run_once()
    return look(house, pod)


def released(house: House, order: Any = ORDER) -> PodRecord:
    pod = house.ready(order)
    house.release(pod)
    return house.run(pod, PodState.RELEASED)


def number_of(pod: PodRecord) -> int:
    number = pod.plan.segment
    assert number is not None
    return number


def outside(house: House) -> list[str]:
    """Everything in the cloud and on the wire."""
    things = [repr((t.id, t.name, t.mark, t.fields, t.gone_at)) for t in house.cloud.things()]
    return [*sorted(things), repr(sorted(house.fabric.tables().items()))]


# -- fabrics that keep no marks -----------------------------------------------------------------------------------


def on_ufm(house: House, folder: Path) -> UfmOfAHouse:
    ufm = UfmOfAHouse(house, house.site)
    furnished(house, managed_by_ufm(house.site, folder), ufm.driver)
    return ufm


def inside(ufm: UfmOfAHouse, number: int) -> set[int]:
    made = ufm.ufm.pkeys.get(number)
    return {int(g, 16) for g in made.guids} if made else set()


def guids(house: House, pod: PodRecord) -> set[int]:
    return {h.port_guid for n in pod.nodes for h in house.site.node_by_name[n].hcas_on("ib0")}


def test_sweep_on_ufm_keeps_the_partition_of_a_pod_that_the_dump_lacks(house: House, tmp_path: Path) -> None:
    """In the dump: a released pod that had the number. Its partition isn't taken for remains once the database is
    accepted."""
    ufm = on_ufm(house, tmp_path)
    old = released(house)
    dump(house.database.url)
    live = another(house, "live", 2)
    number = number_of(live)
    assert number == number_of(old)
    restore(house.database.url)
    house.restart()
    with pytest.raises(ConflictError, match="--accept"):
        house.order(make("next", 1))
    assert any("--accept" in said for said in sweep(house))
    assert inside(ufm, number) == guids(house, live)
    house.service.audits.accept_database(house.operator)
    sweep(house)
    assert inside(ufm, number) == guids(house, live)
    signed = house.store.records.receipt(old.id)
    assert signed is not None and not house.service.pods.receipt(house.request(), str(old.id)).corrections


def test_visits_on_ufm_leave_the_number_of_the_dumps_pod_to_its_successor(
    house: House, tmp_path: Path
) -> None:
    """In the dump: a READY pod, which was released since; then its tenant releases it once more."""
    ufm = on_ufm(house, tmp_path)
    old = house.ready(make("old", 2))
    dump(house.database.url)
    house.release(old)
    house.run(old, PodState.RELEASED)
    live = another(house, "live", 2)
    number = number_of(live)
    assert number == number_of(old)
    restore(house.database.url)
    house.restart()
    assert "--accept" in visit(house, old).reason
    house.release(old)
    assert "--accept" in visit(house, old).reason
    assert inside(ufm, number) == guids(house, live) and house.store.records.receipt(old.id) is None


def test_accepted_database_takes_nothing_from_a_released_pods_successor(house: House, tmp_path: Path) -> None:
    """Same number, same nodes: it isn't recreated, nor removed, and ends when it is abandoned."""
    ufm = on_ufm(house, tmp_path)
    old = house.ready(make("old", 2))
    kept = house.ready(make("kept", 1))
    dump(house.database.url)
    house.release(old)
    house.run(old, PodState.RELEASED)
    live = another(house, "live", 2)
    number, things = number_of(live), len(house.cloud.things())
    assert number == number_of(old) and live.nodes == old.nodes
    restore(house.database.url)
    assert isinstance(house.clock, HandClock)
    house.clock.forward(minutes=1)
    house.restart()
    house.service.audits.accept_database(house.operator)
    assert "weft pod abandon" in visit(house, old).reason
    house.release(old)
    assert "weft pod abandon" in visit(house, old).reason
    house.service.pods.abandon(house.operator, str(old.id), "released after the dump")
    house.run(old, PodState.RELEASED)
    assert visit(house, kept).state is PodState.READY
    sweep(house)
    assert inside(ufm, number) == guids(house, live) and len(house.cloud.things()) == things
    signed = house.store.records.receipt(old.id)
    assert signed is not None and not signed.receipt.clean
    assert set(house.store.capacity().quarantines) == set(old.nodes)


class Nameless(FakeSwitch):
    """A switch on which no VLAN has a name, as SONiC's, NVUE's and generic ones."""

    keeps_names = False

    def _make(self, batch: Batch) -> None:
        super()._make(batch)
        self.config.vlans = dict.fromkeys(self.config.vlans, "")


class NamelessEthernet(FakeEthernet):
    """The real driver on nameless switches."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        for switch in self.switches.values():
            switch.__class__ = Nameless
        self._nameless = True


@pytest.fixture
def switched(database: Database, database_url: str) -> Generator[EthernetHouse]:
    house = EthernetHouse(database, database_url, clock=HandClock())
    house.site = ethernet(house.site)
    ledger = FabricLedger(database, "ib0", house.site.fabrics["ib0"].words)
    house.fake = NamelessEthernet(house.site, "ib0", ledger)
    resources = {**house.world.resources, "ib0": house.fake}
    house.world = replace(house.world, resources=resources, fabrics={"ib0": house.fake})
    house.store.activate_site(house.site, "test")
    yield house
    house.close()


@pytest.mark.parametrize("ended", [True, False], ids=["released in the dump", "ready in the dump"])
def test_unnamed_vlan_of_a_pod_that_the_dump_lacks_is_kept(switched: EthernetHouse, ended: bool) -> None:
    """Whatever the dump knows of the pod that had the VLAN before."""
    house = switched
    old = house.ready(make("old", 2))
    if not ended:
        dump(house.database.url)
    house.release(old)
    house.run(old, PodState.RELEASED)
    if ended:
        dump(house.database.url)
    live = another(house, "live", 2)
    number = number_of(live)
    restore(house.database.url)
    house.restart()
    sweep(house)
    visit(house, old)
    assert house.fake.snapshot().ports_in.get(number) == frozenset(ports(house, live))


# -- every fabric -------------------------------------------------------------------------------------------------


def test_node_that_joined_after_the_dump_keeps_its_place(house: House) -> None:
    """Its server runs: its adapters stay in the pod's partition."""
    pod = house.ready()
    dump(house.database.url)
    apply(house, sized(3))
    grown = settle(house, pod)
    restore(house.database.url)
    house.restart()
    visit(house, pod)
    sweep(house)
    assert members(house, grown) == set(grown.nodes) and len(grown.nodes) == 3


def test_restored_database_changes_nothing_outside_until_accepted(house: House) -> None:
    """Visits, releases, lease ends, the sweep, repairs, the fabric keeper and users' actions only observe, and say why;
    then they go on."""
    kept = house.ready(make("kept", 2))
    leased = house.ready(make("leased", 1, duration="1h"))
    revived = house.ready(make("revived", 1))
    building = house.order(make("building", 1))
    dump(house.database.url)
    house.release(revived)
    house.run(revived, PodState.RELEASED)
    house.run(building, PodState.READY)
    house.cloud.thing(f"server/{kept.nodes[0]}").name = "strange"
    restore(house.database.url)
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE pod SET lease_end = '2026-01-01' WHERE id = %s", [leased.id])
    house.restart()
    before = outside(house)
    house.release(kept)
    house.worker.tend_queue()
    for pod in (kept, leased, revived, building):
        seen = visit(house, pod, 3)
        assert "--accept" in seen.reason, f"{pod.name} {seen.state}: {seen.reason}"
        assert any("--accept" in said for said in messages(house, pod, "alarm")), pod.name
    assert look(house, leased).wanted == "present" and look(house, kept).state is not PodState.RELEASED
    assert any("--accept" in said for said in sweep(house))
    FabricKeeper(house.database, house.keeper.world).tend()
    report = house.service.audits.run(house.operator, repair=True, unknown_pods=["all"])
    assert [f.subject for f in report.findings if f.kind == "database"] == ["weft's database"]
    stopped = [m for m in StoreCollector(house.store).collect() if m.name == "weft_changes_stopped"]
    assert stopped[0].samples[0].value == 1
    assert report.findings and all("--accept" in f.repair for f in report.findings)
    with pytest.raises(ConflictError, match="--accept"):
        house.service.pods.act_on_server(house.request(), "revived", revived.nodes[0], Action.REBOOT)
    health = house.service.health()
    assert health.ready and "--accept" in health.checks["changes outside"]
    assert outside(house) == before and house.store.records.receipt(kept.id) is None

    house.service.audits.accept_database(house.operator)
    house.run(kept, PodState.RELEASED)
    house.worker.tend_queue()
    assert look(house, leased).wanted == "absent"
    assert house.service.health().checks["changes outside"] == "ok"


# -- what is counted ----------------------------------------------------------------------------------------------


def test_database_that_lacks_only_a_quarantine_is_detected(house: House) -> None:
    """Otherwise the node would be assigned to the next tenant."""
    pod = house.ready()
    dump(house.database.url)
    house.service.nodes.quarantine(house.operator, "gpu09", "smokes")
    house.gate.tend()
    restore(house.database.url)
    house.restart()
    with pytest.raises(ConflictError, match="--accept"):
        house.order(make("next", 1))
    assert "--accept" in visit(house, pod, 1).reason


@pytest.mark.parametrize("by", ["an operator", "a release"])
def test_quarantine_is_noted_before_it_is_written(house: House, by: str) -> None:
    """The process dies right after it, without a turn of the gate's keeper, and the dump is older."""
    pod = house.ready()
    dump(house.database.url)
    house.release(pod)
    if by == "an operator":
        house.service.nodes.quarantine(house.operator, "gpu09", "smokes")
    else:
        house.database.gate.look()
        known = house.cloud.witnesses[house.site.name]
        held = house.store.claim_owner(pod.id, "w9")
        assert isinstance(held, HeldPod)
        held.quarantine.add({"gpu09": "a guest may run on it"})
        held.hand_back_unwritten(0.0)
        assert house.cloud.witnesses[house.site.name].number > known.number
    assert "gpu09" in house.store.capacity().quarantines
    restore(house.database.url)
    house.restart()
    with pytest.raises(ConflictError, match="--accept"):
        house.order(make("next", 1))


def test_process_killed_before_writing_a_quarantine_closes_no_gate(house: House) -> None:
    """What the cloud has noted is counted in the database; the next visit quarantines the node."""
    house.ready()
    house.gate.look()
    known = house.cloud.witnesses[house.site.name]
    house.gate.foretell()
    assert house.cloud.witnesses[house.site.name].number > known.number
    house.restart()
    house.gate.look()
    assert house.gate.closed() is None and not house.store.capacity().quarantines


def test_quarantine_with_a_silent_cloud_is_written_anyway(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits a moment for the cloud; the keeper notes it once the cloud answers."""
    monkeypatch.setattr(asking, "PATIENCE", 0.1)
    house.ready()
    wait = threading.Event()
    late = Late(house.cloud, wait)
    gate = Gate(house.database, lambda: (house.site.name, {"lab": late}))
    known = house.cloud.witnesses[house.site.name]
    house.store.quarantine("gpu09", "smokes")
    assert "gpu09" in house.store.capacity().quarantines
    assert house.cloud.witnesses[house.site.name] == known
    wait.set()
    for thread in [t for t in threading.enumerate() if t.name == "note"]:
        thread.join(20)
    gate.tend()
    assert house.cloud.witnesses[house.site.name].number > known.number


def test_database_that_lacks_only_a_release_revives_no_pod(house: House) -> None:
    """The release was noted before anything was removed for it."""
    pod = house.ready()
    dump(house.database.url)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    restore(house.database.url)
    house.restart()
    before = outside(house)
    assert "--accept" in visit(house, pod).reason
    assert outside(house) == before


# -- when the note is read -----------------------------------------------------------------------------------------


def notes_read(house: House) -> int:
    return house.cloud.calls["witness"]


def test_note_is_read_once_for_many_visits_and_again_after_a_lost_connection(house: House) -> None:
    """It is also read again when it is old."""
    seconds = [0.0]
    clouds = house.world.clouds
    gate = Gate(house.database, lambda: (house.site.name, clouds), lambda: seconds[0])
    pod = house.ready()
    first = notes_read(house)
    visit(house, pod, 5)
    assert notes_read(house) == first
    house.database.losses += 1
    visit(house, pod, 3)
    assert notes_read(house) == first + 1
    seconds[0] += EVERY
    visit(house, pod, 3)
    assert notes_read(house) == first + 2
    assert gate.says() == "ok"


def test_cloud_that_was_never_read_closes_the_gate(house: House) -> None:
    """The unknown isn't healthy: the pod is only observed, and continues when the cloud is back."""
    pod = house.ready()
    house.restart()
    house.cloud.plant(Fault.UNREACHABLE, verb="witness", times=None)
    house.release(pod)
    before = outside(house)
    assert "how far weft's database had come" in visit(house, pod, 2).reason
    assert outside(house) == before and "unknown" in house.database.gate.says()
    house.cloud.faults.clear()
    house.database.gate.forget()
    house.run(pod, PodState.RELEASED)


def test_failed_look_keeps_the_gate_open_for_the_same_server(house: House) -> None:
    """A database that has served its connections without a break can't have been replaced; after a break the note
    doesn't count."""
    pod = house.ready()
    house.cloud.plant(Fault.UNREACHABLE, verb="witness", times=None)
    house.database.gate.look()
    house.database.gate.check()
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    house.database.losses += 1
    assert house.database.gate.closed() is not None


def test_lease_in_an_unread_cloud_does_not_end(house: House) -> None:
    """A restored database may not know that it was extended; a cloud that answers again lets it end."""
    pod = house.ready(make("leased", 1, duration="1h"))
    waiting = house.order(make("later", 1, start=house.clock.now() + timedelta(minutes=10), duration="30m"))
    assert isinstance(house.clock, HandClock)
    house.clock.forward(hours=2)
    house.restart()
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="witness", times=None)
    house.worker.tend_queue()
    assert house.gate.unread() == {"lab"}
    assert look(house, pod).wanted == "present" and look(house, waiting).state is not PodState.RELEASED
    assert house.store.end_leases(["other"]) == [pod.id], "another cloud's silence keeps no lease here"
    planted.lift()


def test_lease_ends_once_its_cloud_is_read_again(house: House) -> None:
    """In the same process, without a restart."""
    pod = house.ready(make("leased", 1, duration="1h"))
    assert isinstance(house.clock, HandClock)
    house.clock.forward(hours=2)
    house.restart()
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="witness", times=None)
    house.worker.tend_queue()
    assert look(house, pod).wanted == "present"
    planted.lift()
    house.gate.look()
    house.worker.tend_queue()
    assert look(house, pod).wanted == "absent"


class Late:
    """A cloud whose note comes only after the gate's patience, or never."""

    def __init__(self, cloud: FakeCloud, wait: threading.Event) -> None:
        self._cloud, self._wait = cloud, wait

    def witness(self, site: str) -> Witness | None:
        self._wait.wait(20)
        return self._cloud.witness(site)

    def testify(self, site: str, witness: Witness) -> None:
        self._cloud.testify(site, witness)


def test_repair_ends_no_use_once_the_gate_is_closed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was open when the repair began; the comparison took its time."""
    house.ready()
    network = house.cloud.thing("network/rdma").id
    port = house.cloud.add(
        Kind.PORT, "guest", "team-b", network=network, address="10.9.9.9", owner="compute:nova"
    )
    real = audit.clear_pod

    def late(*given: Any) -> dict[str, str]:
        house.gate.found_behind("lab")
        return real(*given)

    monkeypatch.setattr(audit, "clear_pod", late)
    with pytest.raises(ClosedError):
        house.service.audits.run(house.operator, repair=True)
    assert port in house.cloud.things()


@pytest.mark.parametrize("behind", [False, True], ids=["good", "behind"])
def test_late_answer_leaves_the_last_one_valid(
    house: House, behind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow answer, even an error, isn't a lost one while the connections are the same; a database that was behind
    stays so."""
    monkeypatch.setattr(asking, "PATIENCE", 0.1)
    house.ready(make("pod", 1))
    if behind:
        house.cloud.testify(house.site.name, Witness(uuid4(), 99))
    wait = threading.Event()
    wait.set()
    late = Late(house.cloud, wait)
    gate = Gate(house.database, lambda: (house.site.name, {"lab": late}))
    gate.look()
    assert gate.is_behind() is behind and not gate.unread()
    wait.clear()
    gate.look()
    assert gate.is_behind() is behind and not gate.unread()
    house.cloud.plant(Fault.UNREACHABLE, verb="witness", times=None)
    wait.set()
    for thread in [t for t in threading.enumerate() if t.name == "gate"]:
        thread.join(20)
    assert gate.is_behind() is behind and not gate.unread()
    house.database.losses += 1
    gate.look()
    assert gate.is_behind() is behind and gate.unread() == (frozenset() if behind else {"lab"})


def test_restored_database_is_behind_before_any_cloud_answers(house: House) -> None:
    """That of `weft restore`, on a host that doesn't reach the cloud: what is in no cloud, as a tenant's network on
    a fabric, isn't changed either, and no webhook is sent."""
    pod = house.ready(make("pod", 1))
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("INSERT INTO restored VALUES (true, now(), now(), 'olga@ctl1')")
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="witness", times=None)
    started = Gate(house.database, lambda: (house.site.name, house.world.clouds))
    for places in (None, (), ("ib0",)):
        assert isinstance(started.closed(places), ClosedError)
    house.release(pod)
    assert visit(house, pod).state is not PodState.RELEASED and house.store.records.receipt(pod.id) is None
    planted.lift()
    started.look()
    assert isinstance(started.closed(()), ClosedError)
    accept_database(house.database, house.world.clouds, house.site.name)
    started.look()
    assert started.closed() is None


@pytest.mark.parametrize("found", ["by a look", "by a claim"])
def test_database_behind_a_silent_cloud_stays_behind(house: House, found: str) -> None:
    """After a lost connection, and for a process that starts only then; the next reading decides."""
    pod = house.ready(make("pod", 1))
    known = dict(house.cloud.witnesses)
    house.cloud.witnesses[house.site.name] = Witness(uuid4(), 99)
    if found == "by a look":
        house.gate.look()
    else:
        with pytest.raises(ConflictError):
            check_epoch(house.database, house.cloud, house.site.name, "lab")
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="witness", times=None)
    house.database.losses += 1
    assert house.gate.is_behind() and not house.gate.unread()
    started = Gate(house.database, lambda: (house.site.name, house.world.clouds))
    assert started.is_behind() and isinstance(started.closed(["elsewhere"]), ClosedError)
    house.release(pod)
    assert visit(house, pod).state is not PodState.RELEASED and house.store.records.receipt(pod.id) is None
    planted.lift()
    house.cloud.witnesses.update(known)
    started.look()
    assert started.closed() is None
    house.run(pod, PodState.RELEASED)


def test_sweep_stopped_midway_by_the_gate_ends_its_turn(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next sweep comes at its time, not when another worker would take over an unfinished one."""
    own = sweeper(house)
    assert isinstance(house.clock, HandClock)
    house.clock.forward(hours=24 * 365)

    def stopped(*_: object) -> None:
        raise ClosedError

    monkeypatch.setattr(own, "_take_back", stopped)
    assert own.run_due() == EVERY_SWEEP
    with house.database.statement() as tx:
        row = tx.row("sweep")
        assert row is not None and (row["next_at"] - tx.now()).total_seconds() <= EVERY_SWEEP
        assert "--accept" in row["unread"]


def test_note_replaced_while_it_is_read_is_not_taken_for_a_restore(house: House) -> None:
    """Another process writes the next note, and a third forgets the name of the last."""
    pod = house.ready(make("pod", 1))
    current = house.cloud.witnesses[house.site.name]
    old, answers = Witness(uuid4(), current.number), []

    class Moving(Late):
        def witness(self, site: str) -> Witness | None:
            answers.append(site)
            return old if len(answers) == 1 or stuck else current

    stuck = False
    moving = Moving(house.cloud, threading.Event())
    check_epoch(house.database, moving, house.site.name, "lab")
    assert len(answers) == 2 and look(house, pod).state is PodState.READY
    stuck = True
    with pytest.raises(ConflictError, match="--accept"):
        check_epoch(house.database, moving, house.site.name, "lab")


def test_pod_begun_in_the_dump_needs_an_operator_if_its_server_is_missing(house: House) -> None:
    """It may have been built and released after the dump."""
    pod = house.order(make("pod", 2))
    house.cloud.plant(Fault.ERROR_500, verb="create", kind=Kind.SERVER, times=None)
    visit(house, pod, 2)
    begun = [r for r in house.store.pods.resources(pod.id) if r.state is not RowState.WANTED]
    assert begun and not any(r.outside_id for r in begun if r.kind.row.on_host)
    assert isinstance(house.clock, HandClock)
    house.clock.forward(minutes=1)
    house.cloud.testify(house.site.name, Witness(uuid4(), 99))
    house.restart()
    house.service.audits.accept_database(house.operator)
    house.cloud.faults.clear()
    assert "weft pod abandon" in visit(house, pod).reason


def accepted(house: House) -> None:
    """The dump is restored, and an operator has accepted it a minute later."""
    restore(house.database.url)
    assert isinstance(house.clock, HandClock)
    house.clock.forward(minutes=1)
    house.restart()
    house.service.audits.accept_database(house.operator)


def test_pod_not_begun_in_the_dump_regains_its_resources(house: House) -> None:
    """It was READY when the database was lost: nothing is created a second time."""
    pod = house.order(make("pod", 2))
    dump(house.database.url)
    house.run(pod, PodState.READY)
    before = sorted(t.id for t in house.cloud.things())
    accepted(house)
    assert house.run(pod, PodState.READY).nodes == pod.nodes
    assert sorted(t.id for t in house.cloud.things()) == before
    known = {r.outside_id for r in house.store.pods.resources(pod.id)}
    assert known.issuperset(before)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert house.cloud.things() == []


def test_pod_not_begun_in_the_dump_is_released_with_its_resources(house: House) -> None:
    """Its tenant releases it before any visit: servers, networks and its P_Key go."""
    pod = house.order(make("pod", 2))
    dump(house.database.url)
    house.run(pod, PodState.READY)
    accepted(house)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert house.cloud.things() == []
    assert number_of(pod) not in house.fabric.snapshot().ports_in
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean and set(signed.receipt.nodes) == set(pod.nodes)


def test_pod_not_begun_in_the_dump_is_doubted_if_its_number_is_in_use(house: House, tmp_path: Path) -> None:
    """It was built and released since, and the number is another tenant's by now."""
    ufm = on_ufm(house, tmp_path)
    old = house.order(make("old", 2))
    dump(house.database.url)
    house.run(old, PodState.READY)
    house.release(old)
    house.run(old, PodState.RELEASED)
    live = another(house, "live", 2)
    number, things = number_of(live), len(house.cloud.things())
    assert number == number_of(old) and live.nodes == old.nodes
    accepted(house)
    assert "weft pod abandon" in visit(house, old).reason
    house.release(old)
    assert "weft pod abandon" in visit(house, old).reason
    house.service.pods.abandon(house.operator, str(old.id), "released after the dump")
    house.run(old, PodState.RELEASED)
    assert inside(ufm, number) == guids(house, live) and len(house.cloud.things()) == things


def test_pod_not_begun_in_the_dump_continues_after_an_error(house: House) -> None:
    """Nothing of it is outside; an error at its first step isn't taken for something from before."""
    pod = house.order(make("pod", 1))
    house.cloud.testify(house.site.name, Witness(uuid4(), 99))
    dump(house.database.url)
    accepted(house)
    house.cloud.plant(Fault.ERROR_500, verb="create", times=2)
    house.run(pod, PodState.READY)


def test_pod_being_built_continues_once_the_database_is_accepted(
    house: House,
) -> None:
    """The note of its claim reveals it after the gate was seen open: the pod doesn't fail because of that."""
    pod = house.order(make("pod", 1))
    house.database.gate.check()
    house.cloud.testify(house.site.name, Witness(uuid4(), 9))
    seen = visit(house, pod, 1)
    assert seen.state is not PodState.FAILED and "--accept" in seen.reason and not house.cloud.things()
    house.service.audits.accept_database(house.operator)
    house.run(pod, PodState.READY)


# -- tests of held nodes ------------------------------------------------------------------------------------------


def test_results_of_a_restored_database_do_not_count(house: House) -> None:
    """Pods may have had the node since the dump: nothing counts before the database is accepted, and then all tests
    run again."""
    tests = AcceptancePolicy.model_validate({"what": "burn-in", "tests": ["nccl", "disk"]})
    site = house.store.site().site
    house.store.activate_site(site.model_copy(update={"acceptance": tests}), "test")
    house.service.nodes.hold(house.operator, "gpu09", "burn-in")

    def say(test: str) -> NodeTestReceipt:
        given = NodeTestReport.model_validate({"status": "passed", "started": house.database.now()})
        return house.service.checks.report_test(house.operator, "gpu09", test, given)

    say("nccl")
    dump(house.database.url)
    another(house, "live", 1)
    restore(house.database.url)
    house.restart()
    house.gate.tend()
    with pytest.raises(ConflictError, match="--accept"):
        say("disk")
    house.service.audits.accept_database(house.operator)
    assert [one.status for one in say("disk").tests] == ["missing", "passed"]
    house.service.audits.accept_database(house.operator)
    assert say("nccl").accepted, "a database that is in order keeps its results when it is accepted again"
