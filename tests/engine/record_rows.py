"""Record a database of this version with the outside beside it, for `test_recorded_rows.py`.

Run it in the root of a work tree of the version that is to be recorded, with its own interpreter and sources:

    PYTHONPATH=src:lab:. python record_rows.py OUT

It drives the engine's own code over the fakes until there is a pod in every state, and writes two files into the folder
OUT: `tables.json`, all rows by table, and `outside.json`, what the fakes hold. The signing key among the rows was made
for the recording and is used nowhere else.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg

from tests.engine.ipuhouse import IpuHouse
from tests.engine.ipuhouse import order as ipu_order
from tests.engine.timehouse import HandClock, make
from weft.engine.audit.sweep import Sweeper
from weft.engine.base.database import Database
from weft.engine.base.embedded import embedded
from weft.engine.rows.records import PodRecord
from weft.model.errors import ForbiddenError
from weft.model.pod import PodState
from weft.model.reservation import Reservation
from weft.model.resources import Kind
from weft.testing.cloud import Fault

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExample01 alice"


class OneAtATime(IpuHouse):
    """A house in which only the pod that is asked for is due."""

    def run(self, pod: PodRecord, until: PodState, visits: int = 40) -> PodRecord:
        with psycopg.connect(self.database.url) as connection:
            connection.execute("UPDATE pod SET next_at = now() + interval '1 hour' WHERE id <> %s", [pod.id])
        return super().run(pod, until, visits)


def story(house: IpuHouse) -> None:
    """Make a pod in every state, in an order in which none is in another's way."""
    request, operator = house.request(), house.operator
    house.request("team-b")
    comes_back(house)
    standby_away(house)
    abandoned(house)
    ready = make("ready", 2, access={"ssh_key": KEY, "ssh_from": ["192.0.2.0/24"], "floating_ip": "first"})
    house.run(house.order(ready), PodState.READY)
    house.booted(ipu_order("bert", 4))
    degraded = house.run(house.order(make("degraded", 2)), PodState.READY)
    house.cloud.lose(house.cloud.thing(f"server/{degraded.nodes[0]}"))
    house.run(degraded, PodState.DEGRADED)
    house.cloud.plant(Fault.REFUSED, kind=Kind.SECURITY_GROUP, key="*", reason="policy says no")
    house.run(house.order(make("failed", 1)), PodState.FAILED)
    house.cloud.faults.clear()
    house.order(make("placed", 1))
    leaving = house.run(house.order(make("releasing", 1)), PodState.READY)
    house.cloud.plant(Fault.UNDELETABLE, key=f"server/{leaving.nodes[0]}", times=None)
    house.release(leaving)
    house.run(leaving, PodState.RELEASING)
    end = house.clock.now().replace(year=2027).isoformat()
    house.service.capacity.reserve(
        operator,
        Reservation.model_validate(
            {"name": "course", "project_id": "team-b", "nodes": ["gpu15"], "start": end, "reason": "a course"}
        ),
    )
    house.service.nodes.quarantine(operator, "gpu16", "its fan is loud")
    house.order(make("booked", 2, start=end, duration="2h"))
    house.order(make("waiting", 12, queue=True))
    house.order(make("withdrawn", 12, queue=True))
    house.worker.tend_queue()
    release(house, "withdrawn")
    house.store.activate_site(house.store.site().site, "operator")
    house.service.audits.run(operator)
    with contextlib.suppress(ForbiddenError):
        house.service.audits.run(request)


def release(house: IpuHouse, name: str) -> None:
    pod = house.store.pods.find(name, "team-a")
    house.release(pod)
    house.run(pod, PodState.RELEASED)


def comes_back(house: IpuHouse) -> None:
    """Two pods whose servers came back after the receipt: one correction is closed, the other still open."""
    pod = house.ready(make("corrected", 1))
    server = house.cloud.thing(f"server/{pod.nodes[0]}")
    release(house, "corrected")
    server.gone_at = None
    house.cloud.bring_back(server)
    sweep(house)
    sweep(house)
    open_one = house.ready(make("haunted", 1))
    server = house.cloud.thing(f"server/{open_one.nodes[0]}")
    release(house, "haunted")
    server.gone_at, server.undeletable = None, True
    house.cloud.bring_back(server)
    sweep(house)
    house.cloud.lose(server)  # gone by now, which no sweep has seen yet


def sweep(house: IpuHouse) -> None:
    house.clock.sleep(300.0)
    Sweeper(house.store, house.keeper.world, house.keeper.site, house.time).sweep()


def standby_away(house: IpuHouse) -> None:
    """Release a pod while a standby manager can't be asked: its P_Key stays held."""
    pod = house.ready(make("stale", 1))
    standby = next(m for m in house.fabric.managers if not m.rules)
    standby.reachable = False
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    standby.reachable = True


def abandoned(house: IpuHouse) -> None:
    """Abandon a release: the receipt isn't clean, and numbers stay held."""
    pod = house.ready(make("abandoned", 1))
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.NETWORK, times=None)
    house.release(pod)
    house.worker.run_once()
    house.service.pods.abandon(house.operator, str(pod.id), "the project is gone")
    house.run(pod, PodState.RELEASED)
    house.cloud.faults.clear()


def tables(url: str) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables; generated columns are left out, bytes are hex."""
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"
        ).fetchall()
        found: dict[str, list[dict[str, Any]]] = {}
        for (table,) in names:
            made = connection.execute(
                "SELECT column_name FROM information_schema.columns"
                " WHERE table_name = %s AND is_generated = 'ALWAYS'",
                [table],
            ).fetchall()
            rows = connection.execute(f'SELECT row_to_json(t) FROM "{table}" t')  # type: ignore[arg-type]
            left_out = {name for (name,) in made}
            found[table] = [{k: v for k, v in row.items() if k not in left_out} for (row,) in rows]
        return found


def outside(house: IpuHouse) -> dict[str, Any]:
    """Everything that the fakes hold."""
    things = [
        {
            "kind": t.kind,
            "id": t.id,
            "name": t.name,
            "project_id": t.project_id,
            "mark": t.mark.text() if t.mark else None,
            "fields": t.fields,
            "facts": t.facts,
            "broken": t.broken,
            "gone": t.gone_at is not None,
            "created": t.created and t.created.isoformat(),
        }
        for t in house.cloud.things()
    ]
    return {
        "now": house.clock.now().isoformat(),
        "things": things,
        "endings": {server: asdict(ending) for server, ending in house.cloud._endings.items()},  # pyright: ignore[reportPrivateUsage]
        "witnesses": {site: asdict(w) for site, w in house.cloud.witnesses.items()},
        "partition_files": {m.name: m.text for m in house.fabric.managers},
        "machines": house.vipu.owners,
        "controllers": {pod: sorted(c.has) for pod, c in house.vipu.controllers.items()},
    }


def lines(content: Mapping[str, Any]) -> str:
    """JSON text with one line for each row."""
    parts: list[str] = []
    for name, value in sorted(content.items()):
        if isinstance(value, list):
            rows = ",\n".join(json.dumps(row, sort_keys=True, default=str) for row in value)
            parts.append(f"{json.dumps(name)}: [\n{rows}\n]")
        else:
            parts.append(f"{json.dumps(name)}: {json.dumps(value, sort_keys=True, default=str)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="weft-pg-") as place, embedded(Path(place)) as url:
        database = Database(url)
        house = OneAtATime(database, url, HandClock())
        try:
            story(house)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "outside.json").write_text(lines(outside(house)))
            (folder / "tables.json").write_text(lines(tables(url)))
        finally:
            house.close()
            database.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
