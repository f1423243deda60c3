"""The console at 16,000 nodes and 10,000 pods: pages that list or draw with 50 viewers, and 200 event streams.

The server is a process of its own: `python -m bench.console STATE` writes its address and cookies when it is ready, and
serves until its input ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import httpx
import uvicorn

from bench import impact
from bench.row import row
from bench.sites import regular_site
from bench.threads import served_by

NODES, PODS, PER_LEAF = 16_000, int(os.environ.get("CONSOLE_PODS", "10000")), 40
VIEWERS, EACH, SECONDS = 50, 5.0, float(os.environ.get("CONSOLE_SECONDS", "20"))
"""Each viewer loads a page every five seconds."""
STREAMS, WATCHED = 200, 20.0
PAGES = {
    "list of 16,000 nodes": "/ui/site/nodes",
    "list of 16,000 nodes by state, its 50th page": "/ui/site/nodes?sort=state&page=50",
    "pods of all projects": "/ui/site/pods",
    "the same by state": "/ui/site/pods?state=PLACED",
    "pods of the project": "/ui/",
    "one pod": f"/ui/pods/{UUID(int=5000)}",
    "change of a pod": f"/ui/pods/{UUID(int=5000)}/release",
    "order form": "/ui/order",
    "search by an address": "/ui/search?text=100.70.1.4",
    "capacity over time": "/ui/site/capacity",
    "queue": "/ui/site/queue",
    "reservations": "/ui/site/reservations",
    "holds and drains": "/ui/site/stops",
    "audit log": "/ui/site/log",
    "fabrics": "/ui/site/fabrics",
    "events of all projects": "/ui/events?all=true",
    "one node": "/ui/site/nodes/gpu7",
    "picture of the site": "/ui/site/picture",
    "what its canvas draws": "/ui/site/picture.json",
    "health of the site": "/ui/site/health",
    "alarms": "/ui/site/alarms",
}
GOAL_PAGE, GOAL_STREAMS = 100.0, 5.0
CLOUD = {"auth_url": "http://127.0.0.1:1/v3", "username": "x", "password": "x", "project_name": "x"}


def rows() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        (Path(folder) / "clouds.yaml").write_text(json.dumps({"clouds": {"main": {"auth": CLOUD}}}))
        os.environ["OS_CLIENT_CONFIG_FILE"] = f"{folder}/clouds.yaml"
        words = [sys.executable, "-W", "ignore", "-m", "bench.console", folder]
        with served_by(words, 300) as (server, first):
            url, *cookies = first.split()
            found = [
                one
                for name, path in PAGES.items()
                for one in asyncio.run(_viewed(url, cookies[0], server.pid, name, path))
            ]
            found += [
                asyncio.run(_followed(url, cookies, server.pid, each, what, api))
                for each, what in ((0.0, "without news"), (1.0, "one event a second to all"))
                for api in (False, True)
            ]
    return found


async def _viewed(url: str, cookie: str, pid: int, name: str, path: str) -> list[dict[str, Any]]:
    """A page alone, then with all viewers."""
    took: list[float] = []
    headers = {"Cookie": f"__Host-weft={cookie}"}
    limits = httpx.Limits(max_connections=VIEWERS)
    async with httpx.AsyncClient(
        base_url=url, trust_env=False, timeout=60, limits=limits, headers=headers
    ) as client:

        async def load() -> float:
            began = time.perf_counter()
            answer = await client.get(path)
            assert answer.status_code == 200, f"{path}: {answer.status_code}"
            return (time.perf_counter() - began) * 1000

        await load()
        await load()
        before = _processor(pid)
        alone = sorted([await load() for _ in range(10)])
        each = (_processor(pid) - before) / 10 * 1000

        async def view(number: int) -> None:
            await asyncio.sleep(EACH * number / VIEWERS)
            until = time.monotonic() + SECONDS
            while (now := time.monotonic()) < until:
                took.append(await load())
                await asyncio.sleep(max(0.0, EACH - (time.monotonic() - now)))

        before = _processor(pid)
        await asyncio.gather(*(view(number) for number in range(VIEWERS)))
        together = (_processor(pid) - before) / len(took) * 1000
    took.sort()
    p99 = took[int(len(took) * 0.99)]
    against = (
        f"alone {alone[len(alone) // 2]:.0f} ms, {each:.0f} ms of a processor; {len(took)} loads, "
        f"median {took[len(took) // 2]:.0f} ms, each {together:.0f} ms of a processor"
    )
    what = f"console, {name}, {VIEWERS} viewers, each every {EACH:.0f} s: p99"
    return [row(what, p99, "ms", f"≤ {GOAL_PAGE:.0f}", p99 <= GOAL_PAGE, against)]


async def _followed(
    url: str, cookies: list[str], pid: int, each: float, what: str, api: bool = False
) -> dict[str, Any]:
    """Processor use of the server while all streams are open, the console's or the API's."""
    got = [0]
    async with httpx.AsyncClient(
        base_url=url, trust_env=False, timeout=None, limits=httpx.Limits(max_connections=500)
    ) as client:
        page = await client.get("/ui/events?all=true", headers={"Cookie": f"__Host-weft={cookies[0]}"})
        source = page.text.partition('<weft-follow src="')[2].partition('"')[0].replace("&amp;", "&")

        async def follow(number: int) -> None:
            headers = {"Cookie": f"__Host-weft={cookies[number]}"}
            path = source
            if api:
                headers = {"X-Auth-Token": f"user-{number // 10}", "Accept": "text/event-stream"}
                path = f"/v1/events?all_projects=true&after={after}"
            async with client.stream("GET", path, headers=headers) as answer:
                assert answer.status_code == 200, answer.status_code
                async for line in answer.aiter_lines():
                    got[0] += line.startswith("id:")

        after = source.partition("after=")[2].partition("&")[0]
        tasks = [asyncio.create_task(follow(number)) for number in range(STREAMS)]
        await asyncio.sleep(10)
        if each:
            await client.post("/bench/events", params={"each": each, "number": int(WATCHED / each)})
        before, seen = _processor(pid), got[0]
        began = time.monotonic()
        await asyncio.sleep(WATCHED)
        share = (_processor(pid) - before) / (time.monotonic() - began) * 100
        dead = [one for one in tasks if one.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not dead, dead[0]
    whose = "API" if api else "console"
    name = f"{whose}, {STREAMS} event streams, {what}, of a processor"
    against = f"{got[0] - seen} messages in {WATCHED:.0f} s"
    return row(name, share, "%", f"≤ {GOAL_STREAMS:.0f}", share <= GOAL_STREAMS, against)


def _processor(pid: int) -> float:
    """Processor time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(state: Path) -> int:
    from weft.api.app import create_app
    from weft.api.connections import configured
    from weft.app.policy import Policy
    from weft.app.settings import ServeSettings
    from weft.app.wiring import shared_services
    from weft.engine.base.tuning import keep_survivors
    from weft.model.messages import pods
    from weft.testing.callers import tokens
    from weft.testing.keystone import FakeIdentity
    from weft.web.app import add_console
    from weft.web.sessions import SessionContents
    from weftlab.processes import interrupt_on_sigterm

    interrupt_on_sigterm()
    keep_survivors()
    impact.PODS, impact.PER_LEAF = PODS, PER_LEAF
    with shared_services(ServeSettings(state=state, worker=False)) as made:
        site = regular_site(NODES, per_leaf=PER_LEAF, many=True)
        made.store.activate_site(site, "bench")
        impact.fill(made.store, site)
        policy = Policy()
        olga = tokens()["operator"]
        users = {f"user-{n}": replace(olga, user_id=f"user-{n}") for n in range(STREAMS // 10)}
        app = create_app(made.service(policy), FakeIdentity(tokens() | users), policy)

        async def events(each: float, number: int) -> None:
            def write() -> None:
                for _ in range(number):
                    made.store.pods.note_event(UUID(int=1), "action", pods.RETRY_REQUESTED(), None)
                    time.sleep(each)

            threading.Thread(target=write, daemon=True).start()

        app.add_api_route("/bench/events", events, methods=["POST"])
        add_console(app, cast(Any, None), made.store.database)
        ends = datetime.now(UTC) + timedelta(hours=1)
        book = app.state.sessions
        keys = [
            book.begin(SessionContents("in", "operator", f"user-{n // 10}", "olga", "p", "admin"), ends).key
            for n in range(STREAMS)
        ]
        config = configured(app)
        config.timeout_keep_alive = 60  # a viewer's pause isn't the end of its connection
        server = uvicorn.Server(config)

        def follow_stdin() -> None:
            while not server.started:
                time.sleep(0.05)
            port = server.servers[0].sockets[0].getsockname()[1]
            print(f"http://127.0.0.1:{port}", *keys, flush=True)
            while os.read(0, 1):
                pass
            server.should_exit = True

        threading.Thread(target=follow_stdin, daemon=True).start()
        server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
