"""A VLAN of 32 ports on 8 leaves created and deleted, until it is read back, by each driver: weft against the switches.

The switches' own time is that of a script that already knows the requests: those of weft that change something are
sent again, to all switches at once over open connections, followed by one reading of each switch. The interfaces are
the lab's, in front of Open vSwitch, in a process of their own. Both sides alternate in one run, as does which of them
goes first. Creating and deleting are listed separately; the ratio is that of their sums.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.partition import SCOPE
from bench.row import row
from bench.threads import threads
from weft.drivers.switches import EthernetFabric, open_fabric
from weft.drivers.switches.access import Api, Reply
from weft.drivers.switches.ovs import Ovs as OvsSession
from weft.drivers.switches.switch import SwitchSession
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricKind, Mode
from weft.model.resources import Resource, Status
from weft.model.specs import SegmentSpec
from weft.ports.ledger import NoLedger
from weftlab.site import FABRIC
from weftlab.supervisor import Supervisor
from weftlab.switches import Ovs, leaf_spine, switch_jobs
from weftlab.switches.fronts import Fronts
from weftlab.switches.plan import FabricPlan, Speaks
from weftlab.switches.site import ethernet_site

ROUNDS = 9
GOAL = 1.3
LEAVES, HOSTS, NUMBER = 8, 4, 0x101
KINDS: tuple[Speaks, ...] = ("eos", "nvue", "sonic", "ovs")
SLOW: tuple[tuple[Speaks, float], ...] = (("eos", 0.3), ("nvue", 0.3))
"""Interfaces that are measured again with a commit that takes this many seconds, as on real switches."""
LOOKS = ("read the configuration", "read the interfaces", "list the revisions", "watch a revision")
"""What weft asks for besides its changes; a script needs to know when a revision has ended."""
POLL = 0.05
"""Seconds after which the script asks again whether a revision has ended."""
Request = tuple[Any, ...]
Side = dict[bool, list[float]]
"""Seconds of each creation (True) and deletion (False) of the VLAN."""


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    fabrics: list[tuple[Speaks, float]] = [*((k, 0.0) for k in KINDS), *SLOW]
    for kind, slow in fabrics:
        with _fabric(kind, slow) as (driver, wanted):
            own, weft = _measure(driver, wanted)
        late = f", commits take {slow:g} s" if slow else ""
        what = f"VLAN of {LEAVES * HOSTS} ports on {LEAVES} switches changed and read back, {kind}{late}"
        for present, verb in ((True, "created"), (False, "deleted")):
            found += [
                row(f"{what}: {verb}, the switches' own", 1000 * statistics.median(own[present]), "ms"),
                row(f"{what}: {verb}, weft", 1000 * statistics.median(weft[present]), "ms"),
            ]
        ratio = sum(map(sum, weft.values())) / sum(map(sum, own.values()))
        found.append(row(f"{what}: ratio", ratio, "x", f"<= {GOAL}", ratio <= GOAL, "the switches' own"))
    return found


@contextmanager
def _fabric(kind: Speaks, slow: float) -> Generator[tuple[EthernetFabric, Resource]]:
    """Leaves and a spine of one kind, and the VLAN of all hosts' ports."""
    with tempfile.TemporaryDirectory(prefix="weft-b-") as folder:
        state, plan = Path(folder), leaf_spine(kind, leaves=LEAVES, spines=1, hosts_each=HOSTS)
        ovs, supervisor = Ovs(state / "ovs"), Supervisor(state / "run")
        spawn = multiprocessing.get_context("spawn")
        here, there = spawn.Pipe()
        fronts = spawn.Process(target=_serve, args=(state, plan, slow, there), daemon=True)
        try:
            supervisor.run(switch_jobs(ovs, plan, state / "log"))
            fronts.start()
            urls, ca, credentials = here.recv()
            site = ethernet_site(plan, urls, ca, credentials)
            driver = open_fabric(site, FABRIC, NoLedger())
            ports = sorted(h.port_id for n in site.nodes for h in n.hcas)
            members = tuple(Membership(port=p, mode=Mode.ACCESS) for p in ports)
            spec = SegmentSpec(number=NUMBER, fabric_type=FabricKind.ETHERNET, members=members)
            try:
                yield driver, Resource(key="partition", name="weft-bench", where=FABRIC, spec=spec)
            finally:
                driver.close()
        finally:
            if fronts.pid is not None:
                fronts.terminate()
                fronts.join()
            supervisor.stop()


def _serve(state: Path, plan: FabricPlan, slow: float, answer: Connection) -> None:
    """Serve the switches' interfaces, in a process whose time isn't weft's."""
    fronts = Fronts(state / "fronts", plan, Ovs(state / "ovs"))
    fronts.reset()
    for front in fronts.by_name.values():
        front.faults.slow_commit = slow
    answer.send((fronts.urls, fronts.ca, fronts.credentials))
    time.sleep(3600)


def _measure(driver: EthernetFabric, wanted: Resource) -> tuple[Side, Side]:
    """Seconds of each change: the switches' own, weft's."""
    sessions = [s for s in map(driver.session, driver.cabling.switches) if isinstance(s, SwitchSession)]
    tapes = [Tape(s) for s in sessions]
    own: Side = {True: [], False: []}
    weft: Side = {True: [], False: []}
    recorded: dict[bool, list[list[Request]]] = {}
    with threads(len(tapes)) as pool:

        def by_weft(present: bool) -> float:
            took = _timed(lambda: _by_weft(driver, wanted, present))
            recorded[present] = [tape.cut() for tape in tapes]
            return took

        def by_script(present: bool) -> float:
            took = _timed(lambda: list(pool.map(Tape.play, tapes, recorded[present])))
            for session in sessions:
                session.read()  # so that what weft remembers of the switches is current
            return took

        for present in (True, False):  # opens connections, and records what the script sends
            by_weft(present)
        for round_ in range(ROUNDS):
            sides = ((by_weft, weft), (by_script, own))
            for change, side in sides if round_ % 2 else sides[::-1]:
                for present in (True, False):
                    side[present].append(change(present))
                    _check(driver, wanted, present)
    return own, weft


def _check(driver: EthernetFabric, wanted: Resource, present: bool) -> None:
    """Check by a full reading that the change was made."""
    found = driver.find(SCOPE, [wanted], {}).get(wanted.key)
    if (found is not None and found.status is Status.SETTLED) is not present:
        raise RuntimeError(f"{wanted.name} is not as asked: {found}")


def _timed(change: Callable[[], object]) -> float:
    begun = time.perf_counter()
    change()
    return time.perf_counter() - begun


def _by_weft(driver: EthernetFabric, wanted: Resource, present: bool) -> None:
    """Make a change; it is read back on each switch that it is made on."""
    outcome = (driver.create if present else driver.delete)(SCOPE, [wanted], {})[wanted.key]
    if outcome.error is not None:
        raise outcome.error


@dataclass
class Tape:
    """Records the changing requests of a session, and replays them, followed by one reading."""

    session: SwitchSession
    requests: list[Request] = field(default_factory=list[Request])

    def __post_init__(self) -> None:
        session = self.session
        if isinstance(session, OvsSession):
            self._run = session._run  # pyright: ignore[reportPrivateUsage]
            session._run = self._record_run  # type: ignore[method-assign]
        else:
            api: Api = session._api  # type: ignore[attr-defined]
            self._ask = api.ask
            api.ask = self._record_ask  # type: ignore[method-assign]

    def cut(self) -> list[Request]:
        requests, self.requests = self.requests, []
        return requests

    def play(self, requests: list[Request]) -> None:
        """Send recorded requests. NVUE's revisions get new names: what was recorded for one is sent for the new one."""
        old, new = "", ""
        for request in requests:
            if isinstance(self.session, OvsSession):
                self._run(*request)
                continue
            method, path, *rest = request
            sent = (method, path.replace(old, new) if old else path, *rest[:-1])
            reply = self._ask(*sent)
            while method == "GET" and reply.body.get("state") in ("apply", "save"):
                time.sleep(POLL)
                reply = self._ask(*sent)
            if reply.status != rest[-1].status:
                raise RuntimeError(f"{method} {path}: HTTP {reply.status}, {rest[-1].status} was recorded")
            if path.endswith("/revision") and method == "POST":
                old, new = next(iter(rest[-1].body)), next(iter(reply.body))
        self.session._read()  # pyright: ignore[reportPrivateUsage] - no more than a script would read
        self.requests.clear()

    def _record_run(self, arguments: list[str], asked: str) -> str:
        self.requests.append((arguments, asked))
        return self._run(arguments, asked)

    def _record_ask(
        self, method: str, path: str, body: object = None, asked: str = "read the configuration"
    ) -> Reply:
        reply = self._ask(method, path, body, asked)
        again = bool(self.requests) and method == "GET" and self.requests[-1][:2] == (method, path)
        if not again and (asked not in LOOKS or path.startswith("/nvue_v1/revision/")):
            self.requests.append((method, path, body, asked, reply))
        return reply
