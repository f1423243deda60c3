"""A further kind of resource is one row, one spec and one driver: nothing else of weft knows of it."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Literal
from uuid import uuid4

import pytest

from tests.engine.house import ORDER, House
from weft.app.drivers import static_capabilities
from weft.app.shown import shown as shown_to_tenants
from weft.app.tenanttext import HIDDEN
from weft.engine.base.database import Database
from weft.engine.book.claimrows import insert_pod
from weft.engine.rows.records import RowState
from weft.generate.receipts import verify
from weft.model.errors import TemporaryError
from weft.model.kindrow import AnyKind, KindRow
from weft.model.mark import Mark, outside_name
from weft.model.owner import Owner
from weft.model.placement import Occupancy
from weft.model.plan import Plan, UsedNumbers
from weft.model.pod import PodState
from weft.model.quota import needed_quota
from weft.model.resources import Graph, Marked, Observed, Outcome, Resource
from weft.model.specs import Spec
from weft.planning.shapes.graph import in_order
from weft.planning.shapes.plan import make_plan
from weft.planning.shapes.plantext import plan_text
from weft.ports.resources import Scope

# -- one spec and one row a kind, one driver for both -----------------------------------------------------------


class FolderSpec(Spec):
    """A folder of a filer."""

    kind: Literal["folder"] = "folder"
    size: int
    network: str
    filer: str

    def summary(self) -> str:
        return f"{self.size} GiB"

    def inside(self) -> str:
        return self.network

    def quota(self, vcpus: int, ram: int) -> Mapping[str, int]:
        return {"gigabytes": self.size}


class ExportSpec(Spec):
    """Mount permissions of a folder, which are the filer's own matter."""

    kind: Literal["export"] = "export"
    rule: str


class StorageKind(AnyKind):
    """The table of a program that has weft and filers."""

    FOLDER = (
        "folder",
        KindRow(
            spec=FolderSpec,
            one="folder",
            many="folders",
            quota="folders",
            settles=True,
            shown=frozenset({"size", "network"}),
        ),
    )
    EXPORT = "export", KindRow(spec=ExportSpec, one="export", many="exports", keeps_node=True)


class Filer:
    """Driver of folders and exports. What it has bears marks; `broken`: it can't be asked."""

    def __init__(self) -> None:
        self.has: dict[str, tuple[Mark, AnyKind]] = {}
        self.broken = False

    @property
    def kinds(self) -> frozenset[AnyKind]:
        return frozenset(StorageKind)

    def _ask(self) -> None:
        if self.broken:
            raise TemporaryError("ask the filer", "filer", "it is away", delay=0.0)

    def find(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Observed]:
        self._ask()
        return {
            r.key: Observed(r.name) if r.name in self.has else Observed.absent("not in the filer's list")
            for r in wanted
        }

    def create(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        self._ask()
        for resource in wanted:
            scope.fence()
            assert all(ids.get(need) for need in resource.needs), "what it needs has to be there first"
            self.has[resource.name] = scope.mark(resource.key), resource.kind
        return {r.key: Outcome(r.name) for r in wanted}

    update = create

    def delete(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        self._ask()
        for resource in wanted:
            self.has.pop(resource.name, None)
        return {r.key: Outcome(r.name) for r in wanted}

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        self._ask()
        return [
            Marked(kind, "filer", name, name, mark.owner, None, {"key": mark.key})
            for name, (mark, kind) in self.has.items()
        ]

    def remove_marked(self, things: Sequence[Marked]) -> Mapping[str, Outcome]:
        self._ask()
        for thing in things:
            self.has.pop(thing.id, None)
        return {t.id: Outcome(t.id) for t in things}


# -- the house with them ----------------------------------------------------------------------------------------


@pytest.fixture
def filer() -> Filer:
    return Filer()


@pytest.fixture
def house(database: Database, database_url: str, filer: Filer) -> Generator[House]:
    house = House(database, database_url)
    house.world = replace(house.world, resources={**house.world.resources, "filer": filer})
    yield house
    house.close()


def planned(house: House) -> Plan:
    """A pod of two nodes with a folder that the first node may mount."""
    can = static_capabilities(house.site)
    plan = make_plan(str(uuid4()), "team-a", ORDER, house.site, Occupancy(), UsedNumbers(), can)
    assert isinstance(plan, Plan)
    node = plan.placement.nodes[0].node
    folder = FolderSpec(size=500, network="network/management", filer="10.9.9.9")
    more = [
        Resource(
            key="folder",
            name=outside_name(plan.pod_id, "folder"),
            where="filer",
            spec=folder,
            needs=("network/management",),
        ),
        Resource(
            key=f"export/{node}",
            name=outside_name(plan.pod_id, f"export/{node}"),
            where="filer",
            node=node,
            spec=ExportSpec(rule="rw"),
            needs=("folder",),
        ),
    ]
    graph = Graph(resources=in_order((*plan.graph.resources, *more)))
    return plan.model_copy(update={"graph": graph})


def claim(house: House, plan: Plan) -> None:
    with house.database.transaction() as tx:
        tx.row("lock_capacity")
        insert_pod(tx, plan, "team-a", "team-a-member")


def test_added_kind_works_from_graph_to_receipt(house: House, filer: Filer) -> None:
    """It is created after what it needs, watched, removed, and listed in the signed receipt."""
    plan = planned(house)
    claim(house, plan)
    pod = house.run(house.store.pods.find(plan.pod_id, None), PodState.READY)
    assert sorted(kind for _, kind in filer.has.values()) == ["export", "folder"]
    rows = {r.key: r for r in house.store.pods.resources(pod.id)}
    assert rows["folder"].resource.spec == FolderSpec(
        size=500, network="network/management", filer="10.9.9.9"
    )
    assert rows["folder"].kind is StorageKind.FOLDER and rows["folder"].state is RowState.SETTLED
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert not filer.has
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean
    assert {("folder", "clean"), ("export", "clean")} <= {(i.plane, i.result) for i in signed.receipt.items}
    assert verify(signed.model_dump(mode="json"), signed.public_key).valid


def test_lost_resource_of_added_kind_is_repaired(house: House, filer: Filer) -> None:
    """Its row allows weft to recreate it without a request."""
    plan = planned(house)
    claim(house, plan)
    pod = house.run(house.store.pods.find(plan.pod_id, None), PodState.READY)
    filer.has.clear()
    house.store.wake(pod.id)
    house.worker.run_once()
    assert house.store.pods.find(str(pod.id), None).state is PodState.READY and len(filer.has) == 2


def test_unreadable_added_kind_keeps_its_node(house: House, filer: Filer) -> None:
    """A filer that is away leaves the pod RELEASING with its nodes held: unknown is not clean."""
    plan = planned(house)
    claim(house, plan)
    pod = house.run(house.store.pods.find(plan.pod_id, None), PodState.READY)
    house.release(pod)
    filer.broken = True
    for _ in range(3):
        house.store.wake(pod.id)
        house.worker.run_once()
    assert house.store.pods.find(str(pod.id), None).state is PodState.RELEASING
    assert set(house.store.capacity().holds) == set(pod.nodes)
    filer.broken = False
    house.run(pod, PodState.RELEASED)
    assert not house.store.capacity().holds


def test_audit_knows_the_owner_of_an_added_kind(house: House, filer: Filer) -> None:
    """A resource whose mark explains nothing is reported; the pod's own isn't."""
    plan = planned(house)
    claim(house, plan)
    pod = house.run(house.store.pods.find(plan.pod_id, None), PodState.READY)
    filer.has["weft-00000000-folder"] = (
        Mark(house.site.name, Owner.pod(str(uuid4())), "folder"),
        StorageKind.FOLDER,
    )
    found = [f for f in house.service.audits.run(house.operator).findings if f.kind == "folder"]
    assert [(f.category, f.id) for f in found] == [("orphan", "weft-00000000-folder")]
    assert pod.state is PodState.READY


def test_added_kind_has_its_own_words_quota_and_secrets(house: House) -> None:
    """A plan's text counts it in its own words; a tenant sees the fields of its row, and nothing of an export."""
    plan = planned(house)
    text = plan_text(plan)
    assert "1 folder, 1 export." in text and "500 GiB" in text
    needed = needed_quota(plan.graph, vcpus=8, ram=1024)
    assert (needed["folders"], needed["gigabytes"]) == (1, 500)
    shown = shown_to_tenants(plan)
    folder = shown.graph.by_key()["folder"].spec
    assert folder == FolderSpec(size=500, network="network/management", filer=HIDDEN)
    shown_text = shown.model_dump_json() + plan_text(shown)
    assert "10.9.9.9" not in shown_text and "export" not in shown_text
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_tenants_see_only_kinds_meant_for_them(house: House, filer: Filer) -> None:
    """The pod's own list of resources leaves out kinds that only operators see."""
    plan = planned(house)
    claim(house, plan)
    pod = house.run(house.store.pods.find(plan.pod_id, None), PodState.READY)
    view = house.service.pods.show(house.request(), str(pod.id))
    assert {r.kind for r in view.resources} >= {"folder", "export"}
    assert "export" not in {r.kind for r in shown_to_tenants(view).resources}
    unknown = view.resources[0].model_copy(update={"kind": "of-a-later-weft"})
    assert not shown_to_tenants(view.model_copy(update={"resources": (unknown,)})).resources


def test_document_of_unknown_kind_is_refused() -> None:
    """A stored document of another program's kind is never taken for something else."""
    with pytest.raises(ValueError, match="a kind of resource that this weft has"):
        Resource.model_validate({"key": "x", "name": "x", "where": "x", "spec": {"kind": "quantum"}})
