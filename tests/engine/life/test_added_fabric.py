"""A further type of fabric is one row, one driver, and their names: engine, app, API and commands know nothing of it.

The fabric is a token ring with a ring manager. Its driver is written against the ports alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.engine.house import House, small_site
from weft.app.drivers import FABRIC_DRIVERS, FabricDriverRow, open_fabrics, static_capabilities
from weft.app.livecheck import check_live
from weft.app.shown import shown
from weft.app.sitefile import load_site
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.generate.receipts import verify
from weft.model.errors import InputErrors, UnknownError
from weft.model.fabric import (
    Capabilities,
    Clean,
    Configured,
    EvidenceItem,
    FabricStatus,
    ManagerState,
    ManagerStatus,
    Place,
    PortSeen,
    SegmentCheck,
    Snapshot,
    Usage,
)
from weft.model.fabrictypes import AnyFabricKind, FabricType, Mode
from weft.model.livecheck import LiveCheck
from weft.model.mark import Mark
from weft.model.observedfabric import ObservedFabric
from weft.model.pod import PodState
from weft.model.problem import Problem, ProblemKind
from weft.model.resources import AnyKind, Difference, Kind, Marked, Observed, Outcome, Resource, Status
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.planning.shapes.plantext import plan_text
from weft.ports.fabric import FabricDriver
from weft.ports.ledger import NoLedger, SegmentLedger
from weft.ports.resources import Scope

CAN = Capabilities(virtual_functions=False, why_no_virtual_functions="a ring has no virtual functions")

# -- one row, one driver ----------------------------------------------------------------------------------------


class RingKind(AnyFabricKind):
    """The table of a program that has weft and token rings."""

    RING = (
        "token-ring",
        FabricType(
            word="ring",
            words="rings",
            text=lambda number: f"ring-{number}",
            number=lambda text: int(text.removeprefix("ring-")),
            first=1,
            last=4000,
            drivers=("ringmaster",),
            whole=Mode.FULL,
            shared=Mode.FULL,
        ),
    )


class Rings:
    """Driver of one fabric. `rings`: what the ring manager has; `away`: it doesn't answer."""

    def __init__(self, site: Site, fabric: str, ledger: SegmentLedger) -> None:
        self._site, self._fabric, self._ledger = site, fabric, ledger
        self.rings: dict[int, tuple[Mark, frozenset[str]]] = {}
        self.away = self.closed = False

    capabilities = CAN
    kinds: frozenset[AnyKind] = frozenset({Kind.SEGMENT})

    def status(self) -> FabricStatus:
        state = ManagerState.UNKNOWN if self.away else ManagerState.MASTER
        return FabricStatus(fabric=self._fabric, managers=(ManagerStatus(name="ringmaster", state=state),))

    def configured(self) -> Configured:
        return self.snapshot().configured

    def usage(self) -> Usage:
        return Usage(self.configured().numbers)

    def snapshot(self, max_age: float = 0.0, patient: bool = False) -> Snapshot:
        if self.away:
            raise UnknownError("read the rings", "the ring manager", "no answer")
        names = {number: mark.text() for number, (mark, _) in self.rings.items()}
        seen = {
            h.port_id: PortSeen(
                h.port_id, f"{n.name}/{h.name}", n.name, (Place("ring", self._in(h.port_id)),)
            )
            for n in self._site.nodes
            for h in n.hcas_on(self._fabric)
        }
        return Snapshot(
            self._fabric, time.monotonic(), Configured("ringmaster", {"ringmaster": names}), lambda: seen
        )

    def _in(self, port: str) -> frozenset[int]:
        return frozenset(number for number, (_, members) in self.rings.items() if port in members)

    def observe(self, mark: Mark, segment: SegmentSpec, snapshot: Snapshot) -> Observed:
        if snapshot.segments.get(segment.number) != mark.text():
            return Observed.absent("not among the manager's rings")
        lacks = sorted(segment.ports ^ snapshot.ports_in.get(segment.number, frozenset()))
        differences = tuple(Difference(field=p, wanted="as ordered", observed="otherwise") for p in lacks)
        return Observed(segment.text, Status.PENDING if lacks else Status.SETTLED, "", differences)

    def check(self, segment: SegmentSpec, snapshot: Snapshot) -> SegmentCheck:
        lacks = sorted(segment.ports - snapshot.ports_in.get(segment.number, frozenset()))
        detail = {"mode": "full", "segment": segment.named, "limited": ""}
        problems = [Problem(ProblemKind.NOT_MEMBER, p, self._fabric, detail=detail) for p in lacks]
        return SegmentCheck(tuple(problems), {"stations": len(snapshot.ports)})

    def clean(self, segment: SegmentSpec, snapshot: Snapshot) -> Clean:
        left = segment.number in snapshot.segments
        item = EvidenceItem(
            "ring", segment.named, "not clean" if left else "clean", "the manager's rings", whole=True
        )
        return Clean((item,))

    def topology(self) -> ObservedFabric:
        return ObservedFabric(nodes=(), links=())

    def live_check(self) -> LiveCheck:
        return LiveCheck(managers=1, notes=("the ring is closed",))

    def close(self) -> None:
        self.closed = True

    def find(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Observed]:
        seen = self.snapshot()
        return {r.key: self.observe(scope.mark(r.key), _segment(r), seen) for r in wanted}

    def create(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        for r in wanted:
            scope.fence()
            self.rings[_segment(r).number] = scope.mark(r.key), _segment(r).ports
        return {r.key: Outcome(_segment(r).text) for r in wanted}

    update = create

    def delete(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        for r in wanted:
            self.rings.pop(_segment(r).number, None)
        return {r.key: Outcome(_segment(r).text) for r in wanted}

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        return [
            Marked(Kind.SEGMENT, self._fabric, f"ring-{n}", mark.name(), mark.owner, None, {"number": n})
            for n, (mark, _) in self.rings.items()
        ]

    def remove_marked(self, things: Sequence[Marked]) -> Mapping[str, Outcome]:
        for thing in things:
            self.rings.pop(RingKind.RING.row.number(thing.id), None)
        return {t.id: Outcome(t.id) for t in things}


def _segment(resource: Resource) -> SegmentSpec:
    assert isinstance(resource.spec, SegmentSpec)
    return resource.spec


class Watched(Rings):
    """A ring's driver whose check raises `error`."""

    def __init__(self, fabric: str, error: Exception | None) -> None:
        super().__init__(small_site(), fabric, NoLedger())
        self._error = error

    def live_check(self) -> LiveCheck:
        if self._error is not None:
            raise self._error
        return super().live_check()


DRIVERS = {**FABRIC_DRIVERS, "ringmaster": FabricDriverRow(Rings, lambda site, fabric: CAN)}

# -- the house with them ----------------------------------------------------------------------------------------


def ringed(site: Site) -> Site:
    document = site.model_dump(mode="json")
    document["fabrics"]["ib0"] |= {"type": "token-ring", "manager": {"driver": "ringmaster"}}
    return Site.model_validate_json(json.dumps(document))


class RingHouse(House):
    fake: Rings


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[RingHouse]:
    house = RingHouse(database, database_url)
    house.site = ringed(house.site)
    driver: FabricDriver = open_fabrics(house.site, lambda _: NoLedger(), DRIVERS)["ib0"]
    assert isinstance(driver, Rings)
    house.fake = driver
    house.world = replace(
        house.world, resources={**house.world.resources, "ib0": driver}, fabrics={"ib0": driver}
    )
    house.store.activate_site(house.site, "test")
    yield house
    house.close()


def ports(house: House, pod: PodRecord) -> frozenset[str]:
    return frozenset(h.port_id for n in pod.nodes for h in house.site.node_by_name[n].hcas_on("ib0"))


def test_added_fabric_works_from_order_to_receipt(house: RingHouse) -> None:
    """READY with exactly its ports in its ring, called a ring everywhere; released, the ring is read back gone."""
    pod = house.ready()
    number = pod.plan.segment
    assert number is not None and pod.plan.allotment.segment == f"ring-{number}"
    assert house.fake.snapshot().ports_in[number] == ports(house, pod)
    assert house.service.pods.show(house.request(), str(pod.id)).segment == f"ring-{number}"
    assert f"ring-{number} on fabric ib0" in plan_text(pod.plan)
    shown_text = shown(pod.plan).model_dump_json()
    assert not any(port in shown_text for port in ports(house, pod))
    assert house.service.audits.run(house.operator).findings == ()
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and verify(signed.model_dump(mode="json")).valid
    assert signed.receipt.clean and signed.receipt.segment == f"ring-{number}"
    assert "ring" in [i.plane for i in signed.receipt.items] and not house.fake.rings


def test_added_fabric_is_repaired_audited_and_proved(house: RingHouse) -> None:
    """A missing member is restored, a foreign ring in weft's range is a finding, and silence prevents the receipt."""
    pod = house.ready()
    number = pod.plan.segment
    assert number is not None
    mark, members = house.fake.rings[number]
    house.fake.rings[number] = mark, members - {min(members)}
    house.store.wake(pod.id)
    house.worker.run_once()
    assert house.fake.rings[number] == (mark, members)
    foreign = replace(mark, key="elsewhere")
    house.fake.rings[number + 7] = foreign, frozenset()
    findings = house.service.audits.run(house.operator).findings
    assert any(f.id == f"ring-{number + 7}" for f in findings)
    house.release(pod)
    house.fake.away = True
    for _ in range(3):
        house.store.wake(pod.id)
        house.worker.run_once()
    assert house.store.pods.find(str(pod.id), None).state is PodState.RELEASING
    assert house.store.records.receipt(pod.id) is None


def test_added_fabric_has_its_site_file_checks(tmp_path: Path) -> None:
    """Read, refused in the row's own words, planned, and checked by the one table of drivers."""
    site = ringed(small_site())
    assert site.fabrics["ib0"].type is RingKind.RING
    assert Site.model_validate_json(site.model_dump_json()) == site
    assert static_capabilities(site, DRIVERS) == {"ib0": CAN}
    assert check_live(site, DRIVERS) == LiveCheck(managers=1, notes=("ib0: the ring is closed",))
    document = json.loads(site.model_dump_json(exclude_none=True))
    document["fabrics"]["ib0"]["manager"]["driver"] = "opensm"
    (file := tmp_path / "site.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(InputErrors, match="ringmaster on a fabric of type token-ring"):
        load_site(file)


@pytest.mark.parametrize("error", [KeyError("switchname"), UnknownError("read it", "the ring", "nothing")])
def test_uncheckable_manager_hides_no_other_and_all_are_closed(error: Exception) -> None:
    site = ringed(small_site())
    fabric = site.fabrics["ib0"]
    site = site.model_copy(update={"fabrics": {"a0": fabric, "ib0": fabric}})
    made: list[Watched] = []

    def opened(site: Site, fabric: str, ledger: SegmentLedger) -> FabricDriver:
        made.append(Watched(fabric, error if fabric == "a0" else None))
        return made[-1]

    drivers = {**DRIVERS, "ringmaster": replace(DRIVERS["ringmaster"], open=opened)}
    found = check_live(site, drivers)
    (problem,) = found.problems
    assert problem.startswith("a0: it can't be checked") and str(error) in problem
    assert found.notes == ("ib0: the ring is closed",)
    assert [d.closed for d in made] == [True, True]


def test_managers_are_closed_if_one_cannot_be_opened() -> None:
    site = ringed(small_site())
    fabric = site.fabrics["ib0"]
    site = site.model_copy(update={"fabrics": {"a0": fabric, "ib0": fabric}})
    first = Watched("a0", None)

    def opened(site: Site, fabric: str, ledger: SegmentLedger) -> FabricDriver:
        if fabric == "ib0":
            raise ValueError("a certificate")
        return first

    drivers = {**DRIVERS, "ringmaster": replace(DRIVERS["ringmaster"], open=opened)}
    with pytest.raises(ValueError, match="a certificate"):
        open_fabrics(site, lambda _: NoLedger(), drivers)
    assert first.closed
