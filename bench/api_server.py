"""The real service on the embedded PostgreSQL with many pods, for `bench.api`: no cloud, no fabric, no worker.

`python -m bench.api_server STATE PODS` writes its address when it is ready and serves until its stdin ends.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from uuid import UUID

import uvicorn

from weft.api.app import create_app
from weft.api.connections import configured
from weft.app.policy import Policy
from weft.app.settings import ServeSettings
from weft.app.wiring import SharedServices, shared_services
from weft.engine.base.tuning import keep_survivors
from weft.engine.book.claimrows import insert_pod
from weft.model.fabric import Capabilities
from weft.model.order import Order
from weft.model.placement import Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.planning.shapes.plan import NOT_ORDERED, make_plan
from weft.testing.callers import tokens
from weft.testing.keystone import FakeIdentity
from weftlab.layout import Layout
from weftlab.processes import interrupt_on_sigterm
from weftlab.site import make_site, settings

NODES_A_POD = 4
PROJECT = "id-of-team-a"


def fill(made: SharedServices, state: Path, pods: int) -> None:
    """Add pods of four nodes, each with all rows that an order writes."""
    site = make_site(settings(), Layout(state=state, cache=state, ports=1))
    made.store.activate_site(site, "bench")
    can = Capabilities(virtual_functions=False)
    capabilities = dict.fromkeys(site.fabrics, can)
    order = Order.model_validate(
        {"name": "pod-0000", "nodes": {"count": NODES_A_POD, "flavor": "gpu8", "image": "tiny"}}
    )
    plan = make_plan(NOT_ORDERED, PROJECT, order, site, Occupancy(), UsedNumbers(), capabilities)
    if isinstance(plan, Refusal):
        raise RuntimeError(plan.reason)
    for number in range(pods):
        with made.store.database.transaction() as tx:
            insert_pod(tx, _copy(plan, number), PROJECT, "alice")


def _copy(plan: Plan, number: int) -> Plan:
    """The same plan under another name and id, with other numbers, subnets and nodes."""
    nodes = tuple(
        node.model_copy(update={"node": f"gpu{number * NODES_A_POD + i:05}"})
        for i, node in enumerate(plan.placement.nodes)
    )
    return plan.model_copy(
        update={
            "pod_id": str(UUID(int=number + 1)),
            "order": plan.order.model_copy(update={"name": f"pod-{number:04}"}),
            "placement": plan.placement.model_copy(update={"nodes": nodes}),
            "allotment": plan.allotment.model_copy(
                update={
                    "numbers": dict.fromkeys(plan.allotment.numbers, number + 1),
                    "rdma_cidr": f"100.{64 + number // 256}.{number % 256}.0/24",
                    "management_cidr": f"10.{number // 256}.{number % 256}.0/24",
                }
            ),
        }
    )


def main(state: Path, pods: int) -> int:
    interrupt_on_sigterm()
    with shared_services(ServeSettings(state=state, worker=False)) as made:
        fill(made, state, pods)
        policy = Policy()
        app = create_app(made.service(policy), FakeIdentity(tokens()), policy)
        keep_survivors()
        server = uvicorn.Server(configured(app))
        threading.Thread(target=_follow_stdin, args=(server,), daemon=True).start()
        server.run()
    return 0


def _follow_stdin(server: uvicorn.Server) -> None:
    while not server.started:
        threading.Event().wait(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    print(f"http://127.0.0.1:{port}", flush=True)
    while os.read(0, 1):
        pass
    server.should_exit = True


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
