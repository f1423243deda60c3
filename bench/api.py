"""API latency with 1,000 and 10,000 pods in the real service and database, and the cost of an idle `weft serve`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from bench.row import row
from bench.threads import served_by

PODS = ((1000, 30.0), (10_000, 60.0))
"""Number of pods, and the goal for the 99th percentile of list and show in milliseconds."""
ROUNDS = 200
SETTLE = 10.0
IDLE = 30.0
TICKS = os.sysconf("SC_CLK_TCK")


def rows() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        found: list[dict[str, Any]] = []
        for pods, goal in PODS:
            with _server(Path(folder) / f"state{pods}", pods) as url:
                found += answers(url, "a-member", pods, goal, operator="operator")
        return [*found, *idle(Path(folder) / "idle")]


@contextmanager
def _server(state: Path, pods: int) -> Generator[str]:
    words = [sys.executable, "-m", "bench.api_server", str(state), str(pods)]
    with served_by(words) as (_, url):
        yield url


def answers(
    url: str, token: str, there: int, goal: float, rounds: int = ROUNDS, operator: str = ""
) -> list[dict[str, Any]]:
    """p50 and p99 of lists (one page each: the first, one in the middle, by state, by node, of all projects) and of
    show, one request after the other on one connection.

    Args:
        url: address of any weft API; token: of a member of the project whose pods are listed.
        there: number of pods.
        goal: of the 99th percentile, in milliseconds.
        operator: token of a caller who may list all projects; empty: that isn't measured.

    Each alternates with `/healthz` of the same server, which shows the cost of HTTP alone.
    """
    with httpx.Client(base_url=url, headers={"X-Auth-Token": token}, trust_env=False, timeout=60) as client:
        pods = client.get("/v1/pods").raise_for_status().json()["pods"]
        middle = _marker(client, there)
        node = client.get(f"/v1/pods/{pods[0]['name']}").raise_for_status().json()["placed"][0]["node"]
        paths: dict[str, Callable[[int], str]] = {
            "list": lambda _: "/v1/pods",
            "list in the middle": lambda _: f"/v1/pods?marker={middle}",
            "list by state": lambda _: f"/v1/pods?state={pods[0]['state']}",
            "list by node": lambda _: f"/v1/pods?node={node}",
            "show": lambda i: f"/v1/pods/{pods[i * 37 % len(pods)]['name']}",
            "healthz": lambda _: "/healthz",
        }
        if operator:
            paths["list of all projects"] = lambda _: "/v1/pods?all_projects=true"
        headers = {"list of all projects": {"X-Auth-Token": operator}}
        seconds: dict[str, list[float]] = {name: [] for name in paths}
        for i in range(rounds):
            for name, path in paths.items():
                began = time.perf_counter()
                client.get(path(i), headers=headers.get(name)).raise_for_status()
                seconds[name].append(time.perf_counter() - began)
    found: list[dict[str, Any]] = []
    for name in (n for n in paths if n != "healthz"):
        what = f"API: {f'list, a page of {len(pods)},' if name == 'list' else name} with {there:,} pods"
        for percent in (50, 99):
            floor = _percentile(seconds["healthz"], percent)
            value = _percentile(seconds[name], percent)
            against = f"/healthz of the same server: {floor * 1000:.1f} ms"
            made = row(f"{what}, p{percent}", value * 1000, "ms", compared_with=against)
            if percent == 99:
                made |= {"goal": f"≤ {goal:.0f}", "met": value * 1000 <= goal}
            found.append(made)
    return found


def _marker(client: httpx.Client, there: int) -> str:
    """The marker of the page in the middle of the list."""
    limit, marker = min(1000, max(1, there // 10)), ""
    for _ in range(there // 2 // limit):
        page = client.get("/v1/pods", params={"limit": limit, **({"marker": marker} if marker else {})})
        marker = page.raise_for_status().json()["next"]
    return marker


def idle(folder: Path) -> list[dict[str, Any]]:
    """CPU and memory of `weft serve` with workers, site and embedded PostgreSQL, and nothing to do."""
    folder.mkdir()
    auth = {
        "auth_url": "http://127.0.0.1:9/v3",
        "username": "weft",
        "password": "x",
        "project_name": "service",
    }
    (folder / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"weft": {"auth": auth}}}))
    words = [sys.executable, "-m", "weft.cli.main", "serve", "--state", str(folder / "state")]
    words += ["--listen", "127.0.0.1:0", "--cloud-profile", "weft", "--site", str(_site(folder))]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            words,
            stdout=log,
            stderr=log,
            env={**os.environ, "OS_CLIENT_CONFIG_FILE": str(folder / "clouds.yaml")},
        )
    try:
        _wait_for(folder / "state" / "postgres" / "postmaster.pid", process)
        time.sleep(SETTLE)
        parts = {"weft serve": [process.pid], "its PostgreSQL": database_of(folder / "state" / "postgres")}
        before = {name: ticks(pids) for name, pids in parts.items()}
        time.sleep(IDLE)
        if process.poll() is not None:
            raise RuntimeError(f"weft serve ended: {(folder / 'log').read_text()[-500:]}")
        found: list[dict[str, Any]] = []
        for name, pids in parts.items():
            percent = 100 * (ticks(pids) - before[name]) / TICKS / IDLE
            found.append(row(f"idle: CPU of {name}", percent, "% of one core"))
            found.append(row(f"idle: memory of {name}", _megabytes(pids), "MiB (PSS)"))
        return found
    finally:
        process.terminate()
        process.wait(60)


def _site(folder: Path) -> Path:
    from weftlab.layout import Layout
    from weftlab.site import make_site, settings, write_site

    site = folder / "site"
    site.mkdir()
    return write_site(make_site(settings(), Layout(state=folder, cache=folder, ports=1)), site)


def _wait_for(file: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while not file.is_file():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("weft serve did not start")
        time.sleep(0.2)


def database_of(folder: Path) -> list[int]:
    """The server process of the database in `folder`, and its children."""
    master = int((folder / "postmaster.pid").read_text().split()[0])
    children = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and _parent(p) == master]
    return [master, *children]


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def ticks(pids: Iterable[int]) -> int:
    """User and system time in ticks; processes that have ended don't count."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total


def processor(pids: Iterable[int]) -> float:
    """Processor time in seconds of all threads that these processes have now: exact, where `ticks` samples."""
    total = 0
    for pid in pids:
        for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total += int(file.read_text().split()[0])
            except OSError:
                continue
    return total / 1e9


def _megabytes(pids: Iterable[int]) -> float:
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
