"""VLAN of 32 ports on 8 leaves made and taken away, until it is read back, by each driver: weft against the switches.

The switches' own time is that of a script that knows the very requests: those that weft made are sent again, to all
switches at once over connections that are open, followed by one reading of each switch. The interfaces are the lab's,
in front of Open vSwitch; both sides alternate in one run, and the ratio is the median of those of each turn.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.partition import SCOPE, check
from bench.row import row
from weft.drivers.switches import EthernetFabric, open_fabric
from weft.drivers.switches.access import Api, Reply
from weft.drivers.switches.ovs import Ovs as OvsSession
from weft.drivers.switches.switch import Session
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricKind, Mode
from weft.model.resources import Resource, SegmentSpec
from weft.ports.ledger import NoLedger
from weftlab.site import FABRIC
from weftlab.supervisor import Supervisor
from weftlab.switches import Ovs, leaf_spine, switch_jobs
from weftlab.switches.fronts import Fronts
from weftlab.switches.plan import Speaks
from weftlab.switches.site import ethernet_site

ROUNDS = 9
GOAL = 1.3
LEAVES, HOSTS, NUMBER = 8, 4, 0x101
KINDS: tuple[Speaks, ...] = ("eos", "nvue", "sonic", "ovs")
Request = tuple[Any, ...]


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    what = f"VLAN of {LEAVES * HOSTS} ports on {LEAVES} switches changed and read back"
    for kind in KINDS:
        with _fabric(kind) as (driver, wanted):
            both = _measure(driver, wanted)
            own, weft = (statistics.median(s) for s in both)
            ratio = statistics.median(b / a for a, b in zip(*both, strict=True))
        found += [
            row(f"{what}, {kind}: the switches' own", 1000 * own, "ms"),
            row(f"{what}, {kind}: weft", 1000 * weft, "ms"),
            row(
                f"{what}, {kind}: ratio",
                ratio,
                "x",
                f"<= {GOAL}",
                ratio <= GOAL,
                "the switches' own",
            ),
        ]
    return found


@contextmanager
def _fabric(kind: Speaks) -> Generator[tuple[EthernetFabric, Resource]]:
    """Leaves and a spine of one kind, and the VLAN of all hosts' ports."""
    with tempfile.TemporaryDirectory(prefix="weft-b-") as folder:
        state, plan = Path(folder), leaf_spine(kind, leaves=LEAVES, spines=1, hosts_each=HOSTS)
        ovs, supervisor = Ovs(state / "ovs"), Supervisor(state / "run")
        try:
            supervisor.run(switch_jobs(ovs, plan, state / "log"))
            fronts = Fronts(state / "fronts", plan, ovs)
            fronts.reset()
            site = ethernet_site(plan, fronts.urls, fronts.ca, fronts.credentials)
            driver = open_fabric(site, FABRIC, NoLedger())
            ports = sorted(h.port_id for n in site.nodes for h in n.hcas)
            members = tuple(Membership(port=p, mode=Mode.ACCESS) for p in ports)
            spec = SegmentSpec(number=NUMBER, fabric_type=FabricKind.ETHERNET, members=members)
            try:
                yield driver, Resource(key="partition", name="weft-bench", where=FABRIC, spec=spec)
            finally:
                driver.close()
                fronts.close()
        finally:
            supervisor.stop()


def _measure(driver: EthernetFabric, wanted: Resource) -> tuple[list[float], list[float]]:
    """Seconds of each change: the switches' own, weft's."""
    sessions = [s for s in map(driver.session, driver.cabling.switches) if isinstance(s, Session)]
    tapes = [Tape(s) for s in sessions]
    own: list[float] = []
    weft: list[float] = []
    with ThreadPoolExecutor(len(tapes)) as pool:
        for round_ in range(ROUNDS + 1):
            for present in (True, False):
                took_weft = _timed(lambda p=present: _by_weft(driver, wanted, p))
                recorded = [tape.cut() for tape in tapes]
                check(driver, wanted, present)
                _by_weft(driver, wanted, not present)  # as it was before, and not on the tapes
                for tape in tapes:
                    tape.cut()
                took_own = _timed(lambda r=recorded: list(pool.map(Tape.play, tapes, r)))
                for session in sessions:
                    session.read()  # what weft remembers of its own changes is brought up to date
                check(driver, wanted, present)
                if round_:  # the first opens connections on both sides
                    own.append(took_own)
                    weft.append(took_weft)
    return own, weft


def _timed(change: Callable[[], object]) -> float:
    begun = time.perf_counter()
    change()
    return time.perf_counter() - begun


def _by_weft(driver: EthernetFabric, wanted: Resource, present: bool) -> None:
    """A change that is read back on each switch that it is made on."""
    outcome = (driver.create if present else driver.delete)(SCOPE, [wanted], {})[wanted.key]
    if outcome.error is not None:
        raise outcome.error


@dataclass
class Tape:
    """Records the requests of one session that change something, and plays them again, with one reading after that."""

    session: Session
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
        """NVUE's revisions get new names: what was recorded of one is sent for the one that is made now."""
        old, new = "", ""
        for request in requests:
            if isinstance(self.session, OvsSession):
                self._run(*request)
                continue
            method, path, *rest = request
            reply = self._ask(method, path.replace(old, new) if old else path, *rest[:-1])
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
        if asked not in ("read the configuration", "watch a revision") or path.startswith(
            "/nvue_v1/revision/"
        ):
            self.requests.append((method, path, body, asked, reply))
        return reply
