"""What benches on a lab share: a lab of their own, and orders by weft in turn with a script on the same cloud."""

from __future__ import annotations

import os
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openstack.config import OpenStackConfig
from openstack.connection import Connection

from bench.row import row
from weft.client import Client, of_cloud
from weft.model.pod import PodState
from weftlab.lab import Lab
from weftlab.layout import free_ports


@contextmanager
def bench_lab(**settings: Any) -> Generator[Lab]:
    """A running lab, which is taken down afterwards. Args: settings: of `Lab`."""
    with tempfile.TemporaryDirectory(prefix="weft-b-") as folder:
        lab = Lab(Path(folder) / "lab", ports=free_ports(), say=print, **settings)
        try:
            lab.up()
            yield lab
        finally:
            _down(lab)


def _down(lab: Lab) -> None:
    """Take the lab down, also if this is interrupted meanwhile."""
    try:
        lab.down()
    except KeyboardInterrupt:
        lab.down()
        raise


def spent(lab: Lab) -> dict[str, float]:
    """Processor time in seconds of each service, its processes and weft's database so far."""
    ticks = os.sysconf("SC_CLK_TCK")
    parents, seconds, roots = dict[int, int](), dict[int, float](), dict[int, str]()
    for state in lab.status():
        if state.pid is not None:
            roots[state.pid] = state.name
    folder = str(lab.layout.data / "weft")
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            command = (place / "cmdline").read_text()
        except OSError:
            continue  # it has ended
        pid = int(place.name)
        parents[pid], seconds[pid] = int(fields[1]), (int(fields[11]) + int(fields[12])) / ticks
        if command.startswith("/") and "postgres" in command and folder in command:
            roots[pid] = "weft's database"
    found: dict[str, float] = {}
    for pid, took in seconds.items():
        at = pid
        while at not in roots and at in parents:
            at = parents[at]
        if at in roots:
            found[roots[at]] = found.get(roots[at], 0.0) + took
    return found


SCRIPT = "byhand"
"""The script's User-Agent."""
_ANSWERED = re.compile(r"^request \d{3} \S+ (?P<method>\S+) (?P<path>[^ ?]*)\S* by (?P<agent>\S*)")


def connections(lab: Lab) -> tuple[Connection, Client]:
    """The script's connection and a tenant's client of weft. The script is the service user in the tenant's project: it
    may name hosts, and the tenant's quota applies, as with weft.
    """
    files = [str(lab.clouds_yaml)]
    own = Connection(config=OpenStackConfig(config_files=files, app_name=SCRIPT).get_one("weft"))
    tenant = OpenStackConfig(config_files=files).get_one("team-a")
    return own.connect_as_project("team-b"), of_cloud(tenant)


class Asked:
    """Requests that OpenStack's APIs have answered, by their own logs, and processor time of each service, since
    `begin`.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._sizes, self._spent = dict[Path, int](), dict[str, float]()

    def begin(self) -> None:
        self._sizes = {log: log.stat().st_size for log in self._logs()}
        self._spent = spent(self._lab)

    def requests(self, agent: str) -> Counter[str]:
        """Service, method and path of each request of a program, ids left out."""
        found = Counter[str]()
        for log in self._logs():
            with log.open(errors="replace") as lines:
                lines.seek(self._sizes.get(log, 0))
                for line in lines:
                    one = _ANSWERED.match(line)
                    if one and one["agent"].partition("/")[0] == agent:
                        path = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}", "ID", one["path"])
                        found[f"{log.stem.removesuffix('-uwsgi')} {one['method']} {path}"] += 1
        return found

    def worked(self) -> dict[str, float]:
        """Service -> processor time in seconds, the busiest first."""
        took = {name: now - self._spent.get(name, 0.0) for name, now in spent(self._lab).items()}
        return dict(sorted(took.items(), key=lambda one: -one[1]))

    def _logs(self) -> list[Path]:
        return sorted(self._lab.layout.log("").parent.glob("*-uwsgi.log"))


@dataclass(frozen=True, slots=True)
class Rounds:
    """Seconds of each round (weft's order to ACTIVE and to READY, its release, the script to ACTIVE), and the requests
    of weft until READY and of the script.
    """

    active: list[float]
    ready: list[float]
    release: list[float]
    script: list[float]
    asked: list[float]
    asked_by_script: list[float]

    def ratio(self, ours: list[float]) -> float:
        """Median of the rounds' ratios to the script."""
        return statistics.median(a / b for a, b in zip(ours, self.script, strict=True))

    def request_rows(self, what: str) -> list[dict[str, Any]]:
        """Rows of the numbers of requests, weft's against the script's."""
        mine, theirs = statistics.median(self.asked), statistics.median(self.asked_by_script)
        return [
            row(
                f"{what}: requests of weft until READY",
                mine,
                "requests",
                "< script's",
                mine < theirs,
                "script",
            ),
            row(f"{what}: requests of the script until ACTIVE", theirs, "requests"),
        ]


def in_turn(
    lab: Lab,
    client: Client,
    nodes: dict[str, Any],
    script: Callable[[Callable[[], None]], float],
    rounds: int,
    before: Callable[[], object] = lambda: None,
) -> Rounds:
    """Run weft, the script, weft, the script …; before them the script once, whose time doesn't count.

    A new cloud does some things for the first time then (images are fetched, policies and catalogs read), which would
    otherwise be counted as weft's. What weft itself does for the first time counts.

    Args:
        script: calls its argument when its servers are ACTIVE.
        before: called before each of them; its time doesn't count.
    """
    found, asked = Rounds([], [], [], [], [], []), Asked(lab)

    def note(agent: str, into: list[float]) -> None:
        requests, worked = asked.requests(agent), asked.worked()
        into.append(float(requests.total()))
        print(f"{agent}: {requests.total()} requests", flush=True)
        for what, number in sorted(requests.items()):
            print(f"  {number:4} {what}", flush=True)
        busiest = ", ".join(f"{name} {took:.1f}" for name, took in list(worked.items())[:8])
        print(f"  processor time in seconds: {busiest}", flush=True)

    before()
    print(f"not counted: script {script(lambda: None):.1f} s", flush=True)
    for number in range(rounds):
        before()
        asked.begin()
        order = {"name": f"bench{number}", "nodes": nodes}
        active, ready, release = by_weft(client, order, lambda: note("weft", found.asked))
        before()
        asked.begin()
        seconds = script(lambda: note(SCRIPT, found.asked_by_script))
        for known, new in zip(
            (found.active, found.ready, found.release, found.script),
            (active, ready, release, seconds),
            strict=True,
        ):
            known.append(new)
        said = f"weft {active:.1f} s to ACTIVE, {ready:.1f} s to READY; script {seconds:.1f} s"
        print(f"round {number + 1}: {said}", flush=True)
    return found


def by_weft(
    client: Client, order: dict[str, Any], at_ready: Callable[[], None] = lambda: None
) -> tuple[float, float, float]:
    """Seconds from the request until all servers are ACTIVE, until READY, and of the release. Args: at_ready: called
    when READY.
    """
    name = order["name"]
    began = time.monotonic()
    client.pods.create(order)
    active = _until(client, name, lambda state: state in (PodState.VERIFYING, PodState.READY), began)
    whole = _until(client, name, lambda state: state is PodState.READY, began)
    at_ready()
    began = time.monotonic()
    client.pods.release(name)
    return active, whole, _until(client, name, lambda state: state is PodState.RELEASED, began)


def _until(client: Client, name: str, done: Callable[[PodState], bool], began: float) -> float:
    """Follow the events as the command line does: polling would interfere."""
    after = 0
    for _ in range(200):
        for event in client.pods.events(name, after=after, wait=20.0):
            after = event["sequence"]
            state = event["message"].split(":")[0].strip() if event["type"] == "state" else ""
            if state == PodState.FAILED:
                raise RuntimeError(f"pod {name}: {event['message']}")
            if state in PodState.__members__ and done(PodState(state)):
                return time.monotonic() - began
    raise RuntimeError(f"pod {name} didn't get to that state")
