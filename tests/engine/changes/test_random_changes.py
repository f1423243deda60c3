"""Random orders, changes, faults, failing nodes, releases, by two workers: orders are realized and released."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.engine.house import QUICK, House
from tests.engine.life.test_functions import furnished, with_functions
from tests.engine.replace.test_repairs import repairs
from tests.engine.storagehouse import storage_house
from tests.helpers.amounts import examples, seeded
from weft.engine.base.database import Database
from weft.engine.nodes.drains import end_pods_on_drains
from weft.engine.nodes.hostwatch import HostWatch
from weft.engine.rows.records import PodRecord
from weft.engine.watch.retention import Retention, RetentionSettings
from weft.model.change import Replacement
from weft.model.errors import WeftError
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.specs import SegmentSpec
from weft.model.views import DrainRequest, UseSearch
from weft.planning.fabric.functions import guid_of, mac_of
from weft.testing.cloud import Fault
from weft.testing.fabric import FakeFabric

STEPS = 40
NAMES = "abc"
STORAGE = (
    {"share": "data", "size": "1TiB", "mount": "/data"},
    {"share": "more", "size": "2TiB", "mount": "/more"},
    {"volume": "work", "size": "100GiB", "mount": "/work"},
)
FAULTS = (
    *((f, k) for k in Kind for f in (Fault.LOST_ANSWER, Fault.ERROR_500, Fault.UNREACHABLE)),
    (Fault.BROKEN, Kind.SERVER),
)


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = storage_house(database, database_url)
    yield furnished(
        house, with_functions(house.site), lambda site: FakeFabric(site, "ib0", virtual_functions=True)
    )
    house.close()


class Tenant:
    """Acts at random. `said`: what it did, for the reader of a failure."""

    def __init__(self, house: House, dice: random.Random) -> None:
        self.house, self.dice = house, dice
        self.workers = [house.worker, house.new_worker("second")]
        self.ordered: dict[str, Order] = {}
        self.said: list[str] = []

    def pod(self, name: str) -> PodRecord:
        return self.house.store.pods.find(name, "team-a")

    def act(self) -> None:
        dice, name = self.dice, self.dice.choice(NAMES)
        act = dice.choices(
            [
                self.apply,
                self.visits,
                self.fault,
                self.release,
                self.repair,
                self.age,
                self.dark,
                self.replace,
                self.stop,
                self.fail,
                self.empty,
            ],
            [45, 40, 4, 7, 2, 2, 3, 8, 8, 14, 8],
        )[0]
        self.said.append(f"{act.__name__} {name}")
        act(name)
        capacity = self.house.store.capacity()
        held = {self.house.site.node_by_name[n].nova_host for n in capacity.held}
        assert {t.fields.get("host") for t in self.house.cloud.things(Kind.SERVER)} <= held
        holds = {(one.node, one.pod.id) for one in (*capacity.holds.values(), *capacity.shared)}
        assert self.wired() <= holds, "a node left its pod's hold with the pod's key on it"
        places = Counter((t.project_id, t.name) for t in self.house.cloud.things(Kind.SERVER))
        assert not [place for place, count in places.items() if count > 1], "two servers in one place"

    def wired(self) -> set[tuple[str, UUID]]:
        """Pairs of node and pod: the pod's key is on the wire at an adapter of the node, or at one of its functions."""
        whose = {pod.plan.segment: pod.id for pod in map(self.pod, self.ordered) if pod.placed is not None}
        on = {
            guid: node.name
            for node in self.house.site.nodes
            for hca in node.hcas_on("ib0")
            for guid in (hca.port_guid, *(guid_of(mac_of(hca, i)) for i in range(hca.vfs)))
        }
        wire = self.fabric.wire
        keys = ((g, key & 0x7FFF) for table in (wire.hosts, wire.leaves) for g in table for key in table[g])
        return {(on[guid], whose[key]) for guid, key in keys if guid in on and key in whose}

    @property
    def fabric(self) -> FakeFabric:
        fabric = self.house.world.fabric("ib0")
        assert isinstance(fabric, FakeFabric)
        return fabric

    def dark(self, _: str) -> None:
        """No manager answers for a while; releases may be overdue before one does."""
        for manager in self.fabric.managers:
            manager.stop()
        overdue = self.house.new_worker(
            "overdue", replace(QUICK, limits={**QUICK.limits, PodState.RELEASING: 0.0})
        )
        for name in self.ordered:
            self.house.store.wake(self.pod(name).id)
            overdue.run_once()
        for manager in self.fabric.managers:
            manager.start()

    def apply(self, name: str) -> None:
        """A plan says what the apply then does, or refuses; a second one does nothing."""
        order, remove = self.order(name), self.some_nodes(name)
        self.said.append(f"  {order.model_dump(mode='json', exclude_defaults=True)} {remove}")
        house, request = self.house, self.house.request()
        before = {row: hold.pod.id for row, hold in house.store.capacity().holds.items()}
        stopped = self.stopped()
        try:
            planned = house.service.pods.plan(request, order, remove).change
            refused = planned is not None and bool(planned.impossible)
        except WeftError:
            planned, refused = None, True
        try:
            done = house.service.pods.apply(request, name, order, remove)
        except WeftError as error:
            assert refused, f"it was planned, and then: {error}"
            assert before == {row: hold.pod.id for row, hold in house.store.capacity().holds.items()}
            return
        assert not refused
        new = self.pod(name).plan.placement.held if done.change is None else done.change.nodes_added
        assert not stopped & set(new), "a node that is held, drained or reported was assigned"
        if planned is not None and done.change is not None:
            ways = [
                (c.fields, c.nodes_added, c.nodes_removed, sorted(c.added)) for c in (planned, done.change)
            ]
            assert ways[0] == ways[1]
        assert house.service.pods.apply(request, name, order, remove).outcome == "unchanged"
        self.ordered[name] = order

    def replace(self, name: str) -> None:
        """A plan says what the replacement then does, or refuses; the order has a spare less if that was used."""
        if name not in self.ordered:
            return
        pod, house, request = self.pod(name), self.house, self.house.request()
        asked = Replacement(node=self.dice.choice([*pod.nodes, *pod.spares, f"{name}-0"]))
        self.said.append(f"  {asked.node}")
        try:
            planned = house.service.pods.plan_replacement(request, name, asked).change
        except WeftError as error:
            with pytest.raises(type(error)):
                house.service.pods.replace_node(request, name, asked)
            assert self.pod(name).generation == pod.generation
            return
        stopped = self.stopped()
        done = house.service.pods.replace_node(request, name, asked).change
        assert done is None or not stopped & {*done.nodes_added, *done.spares_used}
        assert planned is not None and done is not None
        shared = pod.order.nodes.sharing == "shared"  # on a shared node all of the pod's servers
        assert planned.nodes_removed == done.nodes_removed and (shared or len(done.nodes_removed) == 1)
        assert (planned.nodes_added, planned.spares_used) == (done.nodes_added, done.spares_used)
        if shared:  # the new servers have numbers of their own
            return
        before, after = pod.plan.server_numbers, self.pod(name).plan.server_numbers
        (failed,), (new,) = done.nodes_removed, (*done.nodes_added, *done.spares_used)
        assert {n: after[n] for n in pod.nodes if n != failed} | {failed: after[new]} == {
            n: before[n] for n in pod.nodes
        }
        spare = self.pod(name).order.nodes.spare
        ordered = self.ordered[name]
        self.ordered[name] = ordered.model_copy(
            update={"nodes": ordered.nodes.model_copy(update={"spare": spare})}
        )

    def stopped(self) -> set[str]:
        """Nodes that no order of the project may get now."""
        return set(self.house.store.capacity().stops)

    def stop(self, name: str) -> None:
        """An operator holds, drains or frees a node, or the tenant reports its own: pods stay as they are."""
        house, operator, service = self.house, self.house.operator, self.house.service
        before = house.store.capacity().held
        stops = house.store.capacity().stops
        for node, one in stops.items() if len(stops) > 2 else ():
            if one.holds:
                service.nodes.accept(operator, node, every=True)
            if one.drain:
                service.nodes.undrain(operator, node)
            if one.reports:
                service.nodes.clear_report(operator, node)
        way, node = (
            self.dice.choice("hdr"),
            self.dice.choice([n.name for n in house.site.nodes if n.is_whole]),
        )
        self.said.append(f"  {way} {node}")
        if way == "h":
            service.nodes.hold(operator, node, "burn-in")
        elif way == "d":
            service.nodes.drain(operator, DrainRequest(target=node))
        elif name in self.ordered and self.pod(name).nodes:
            service.pods.report_node(house.request(), name, self.dice.choice(self.pod(name).nodes), "slow")
        assert house.store.capacity().held == before

    def fail(self, name: str) -> None:
        """The host of a node goes down, is reported, and weft replaces what it may: none of a pod whose order doesn't
        ask for it, and no node that doesn't fail. Then it is up again: a guest that was deleted while its host is down
        is never proved gone, and receipts are to be clean here."""
        house = self.house
        if name in self.ordered and self.pod(name).placed is not None:
            if self.dice.random() < 0.7:  # a pod that is being changed keeps its nodes
                self.settle(name)
            node = self.dice.choice(self.pod(name).nodes)
            self.said.append(f"  {node}")
            house.cloud.offers.hosts[house.site.node_by_name[node].nova_host] = "down"
        before = {one: self.pod(one) for one in self.ordered}
        self.watch_hosts()
        repairs(house).tend()
        failing = {row.node for row in house.service.nodes.reports(house.operator)} | {
            n.name for n in house.site.nodes if house.cloud.offers.hosts.get(n.nova_host) == "down"
        }
        for one, was in before.items():
            now = self.pod(one)
            gone = {*was.nodes} - {*now.nodes} if was.placed is not None else set[str]()
            assert gone <= failing and (not gone or was.order.on_failure == "replace")
            if gone and now.order.nodes.spare != was.order.nodes.spare:
                ordered = self.ordered[one]
                less = ordered.nodes.model_copy(update={"spare": now.order.nodes.spare})
                self.ordered[one] = ordered.model_copy(update={"nodes": less})
        house.cloud.offers.hosts |= dict.fromkeys(house.cloud.offers.hosts, "up")
        self.watch_hosts()

    def empty(self, name: str) -> None:
        """A drain's time is over at a node: pods there whose orders say so are released, no other one. Not those that
        are leaving it, or have an idle spare there."""
        if name not in self.ordered or self.pod(name).placed is None:
            return
        house, pod = self.house, self.pod(name)
        node = self.dice.choice(sorted(pod.plan.placement.held))
        self.said.append(f"  {node}")
        by, operator = house.database.now() + timedelta(hours=1), house.operator
        house.service.nodes.drain(operator, DrainRequest(target=node, by=by))
        assert end_pods_on_drains(house.database) == [], "it isn't time"
        with psycopg.connect(house.database.url, autocommit=True) as connection:
            connection.execute("UPDATE drain SET until_at = now() WHERE node = %s", [node])
            rows = connection.execute(
                "SELECT pod_id FROM node_hold WHERE node = %s AND leaving IS NULL AND NOT spare", [node]
            ).fetchall()
        there = {row[0] for row in rows}
        pods = {one: self.pod(one) for one in self.ordered}
        due = {one for one, was in pods.items() if was.id in there and was.order.on_drain == "release"}
        assert set(end_pods_on_drains(house.database)) == {pods[one].id for one in due}
        house.service.nodes.undrain(operator, node)
        for one in due:
            del self.ordered[one]
            self.ended(pods[one])
            signed = house.store.records.receipt(pods[one].id)
            assert signed is not None and node in (signed.receipt.cause or "")

    def watch_hosts(self) -> None:
        """Two readings of the hosts; what is down in both was for an hour."""
        watch = HostWatch(self.house.database, self.house.keeper.world, self.house.keeper.site)
        watch.tend()
        with psycopg.connect(self.house.database.url, autocommit=True) as connection:
            connection.execute("UPDATE host_down SET since = since - interval '1 hour'")
            connection.execute("UPDATE node_failure SET next_at = now()")
        watch.tend()

    def check_histories(self) -> None:
        """By the histories, each pod that got a node has freed it, unless it holds it now."""
        capacity = self.house.store.capacity()
        holds = {(one.node, one.pod.id) for one in (*capacity.holds.values(), *capacity.shared)}
        with psycopg.connect(self.house.database.url) as connection:
            rows = connection.execute(
                "SELECT node, pod_id, sum(CASE message ->> 'code' WHEN 'NODE_GIVEN' THEN 1"
                " WHEN 'NODE_KEPT_AS_SPARE' THEN 1 WHEN 'NODE_FREED' THEN -1"
                " WHEN 'NODE_FREED_UNCLEAN' THEN -1 ELSE 0 END)"
                " FROM node_history WHERE type = 'pod' GROUP BY node, pod_id"
            ).fetchall()
        assert {(node, pod) for node, pod, open_ in rows if open_} == holds
        assert all(open_ in (0, 1) for _, _, open_ in rows)
        self.check_hours()

    def check_hours(self) -> None:
        """Hours match the holds: what is held counts now, a whole node for one pod at a time, and a report has the sum
        of all spans."""
        capacity = self.house.store.capacity()
        holds = {(one.node, one.pod.id, None) for one in capacity.holds.values()}
        parts = {(one.node, one.pod_id, one.server) for one in capacity.parts}
        with psycopg.connect(self.house.database.url) as connection:
            open_ = connection.execute(
                "SELECT node, pod_id, server FROM use_span WHERE until IS NULL"
            ).fetchall()
            (overlaps,) = connection.execute(
                "SELECT count(*) FROM use_span a JOIN use_span b ON a.node = b.node AND a.id < b.id"
                " AND a.server IS NULL AND b.server IS NULL"
                " AND tstzrange(a.since, a.until) && tstzrange(b.since, b.until)"
            ).fetchone() or (None,)
        assert sorted(open_, key=str) == sorted(holds | parts, key=str) and overlaps == 0
        since = self.house.database.now() - timedelta(days=1)
        search = UseSearch(since=since, by="pod", all_projects=True)
        report = self.house.service.use(self.house.operator, search)
        with psycopg.connect(self.house.database.url) as connection:
            rows = connection.execute(
                "SELECT node, devices, since, coalesce(until, %s) FROM use_span", [report.at]
            )
            spans = rows.fetchall()
        size = {n.name: len(n.accelerators) for n in self.house.site.nodes}
        book = sum((size[n] if d is None else d) * max(0.0, (b - a).total_seconds()) for n, d, a, b in spans)
        assert abs(sum((one.accelerator_hours or 0) * 3600 for one in report.rows) - book) < 1

    def order(self, name: str) -> Order:
        dice, before = self.dice, self.ordered.get(name)
        access = {
            "ssh_from": dice.choice([[], ["10.0.0.0/8"], ["9.0.0.0/8", "8.0.0.0/8"]]),
            "floating_ip": dice.choice(["none", "first", "each"]),
        }
        document: dict[str, Any] = {"name": name, "access": access}
        shared = before.nodes.sharing == "shared" if before else dice.random() < 0.25
        if shared:
            parts = {"sharing": "shared", "accelerators": {"type": "h100", "count": 1}, "image": "tiny"}
            document["nodes"] = {"count": dice.randint(1, 10), **parts}
            alone = before.fabric.isolation == "none" if before else dice.random() < 0.5
            document["fabric"] = "none" if alone else {"hcas": "shared"}
        else:
            whole = {"spare": dice.choice([0, 0, 0, 1, 2]), "flavor": "gpu8", "image": "tiny"}
            document["nodes"] = {"count": dice.randint(1, 5), **whole}
            document["on_failure"] = dice.choice(["report", "replace"])
            if before.fabric.isolation == "none" if before else dice.random() < 0.2:
                document["fabric"] = "none"
        if dice.random() < 0.3:
            document["on_drain"] = "release"
        if dice.random() < 0.3:
            document["lease"] = {"duration": dice.choice(["2h", "5h"])}
        if dice.random() < 0.5:
            document["storage"] = dice.sample(STORAGE, dice.randint(1, 2))
        if shared and not any("volume" in entry for entry in document.get("storage", ())):
            document["on_failure"] = dice.choice(["report", "replace"])
        return Order.model_validate(document)

    def some_nodes(self, name: str) -> tuple[str, ...]:
        held = list(self.pod(name).nodes) if name in self.ordered and self.dice.random() < 0.3 else []
        return tuple(self.dice.sample(held, min(len(held), self.dice.randint(1, 2))))

    def visits(self, _: str) -> None:
        for _number in range(self.dice.randint(1, 4)):
            for name in self.ordered:
                if self.dice.random() < 0.5:
                    self.house.store.wake(self.pod(name).id)
            self.dice.choice(self.workers).run_once()

    def fault(self, _: str) -> None:
        fault, kind = self.dice.choice(FAULTS)
        self.said.append(f"  {fault} of a {kind}")
        self.house.cloud.plant(fault, kind=kind)

    def repair(self, name: str) -> None:
        if name in self.ordered:
            self.house.store.request_repair(self.pod(name).id)

    def age(self, _: str) -> None:
        """Let forty days pass for whatever is gone."""
        with psycopg.connect(self.house.database.url, autocommit=True) as connection:
            connection.execute("UPDATE resource SET finished_at = finished_at - interval '40 days'")
            connection.execute("UPDATE owner SET created_at = created_at - interval '40 days'")
        settings = RetentionSettings(pause=0.0)
        Retention(self.house.database, self.house.keeper.site, settings).run(self.house.site.retention)

    def release(self, name: str) -> None:
        if self.ordered.pop(name, None) is None:
            return
        pod = self.pod(name)
        self.house.release(pod)
        self.ended(pod)

    def ended(self, pod: PodRecord) -> None:
        """Visit until the requested release has ended with a clean receipt."""
        self.house.run(pod, PodState.RELEASED, 80)
        signed = self.house.store.records.receipt(pod.id)
        assert signed is not None and signed.receipt.clean, signed

    def settle(self, name: str) -> None:
        """Visit until the pod is what was ordered last, and nothing else."""
        order, pod = self.ordered[name], self.pod(name)
        for _ in range(80):
            pod = self.pod(name)
            if (
                pod.state is PodState.READY
                and pod.changed_at is None
                and pod.ready_generation == pod.generation
            ):
                break
            if pod.state is PodState.FAILED:
                self.house.service.pods.retry(self.house.request(), str(pod.id))
            self.house.store.wake(pod.id)
            self.house.worker.run_once()
        else:
            raise AssertionError(
                f"{pod.state} {pod.reason}, generation {pod.ready_generation} of {pod.generation}"
            )
        placed, count = pod.plan.placement, order.nodes.count
        assert (len(placed.nodes), len(placed.spares)) == (count, order.nodes.spare)
        held = [row.leaving for row in self.house.store.capacity().parts if row.pod_id == pod.id]
        assert held == [False] * (count if order.nodes.sharing == "shared" else 0)
        if pod.plan.segment is not None:
            (segment,) = (r.spec for r in pod.plan.graph.resources if isinstance(r.spec, SegmentSpec))
            assert self.house.world.fabric("ib0").snapshot().ports_in[pod.plan.segment] == segment.ports
        there = [t.kind for t in self.house.cloud.things() if t.mark and str(t.mark.owner.id) == str(pod.id)]
        assert there.count(Kind.SERVER) == count
        assert (
            there.count(Kind.FLOATING_IP) == {"none": 0, "first": 1, "each": count}[order.access.floating_ip]
        )
        assert there.count(Kind.SHARE) == sum(e.kind == "share" for e in order.storage)
        assert there.count(Kind.VOLUME) == count * sum(e.kind == "volume" for e in order.storage)


@pytest.mark.parametrize("number", range(examples(16)))
def test_random_orders_are_realized_and_released(house: House, number: int) -> None:
    tenant = Tenant(house, seeded(number))
    try:
        for _ in range(STEPS):
            tenant.act()
        for name in tenant.ordered:
            tenant.settle(name)
        tenant.check_histories()
        assert house.service.audits.run(house.operator).findings == ()
        for name in list(tenant.ordered):
            tenant.release(name)
        assert not house.store.capacity().held
        tenant.check_histories()
        assert not [t for t in house.cloud.things() if t.mark]
    except BaseException:
        print("\n".join(tenant.said))
        raise
