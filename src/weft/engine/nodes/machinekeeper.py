"""Observes every second which machines change, and every few seconds with which steps machines are cleaned.

A tenant's rebuild of its server deploys the machine again, and an operator may have it cleaned or rescued: meanwhile
the machine doesn't run the pod's server, and its adapters must be out of the pod's segment before it boots something
else. So its pod is visited at once, not only when its turn comes; that visit decides what to do.

All machines are listed every few seconds: nothing is missed, and the steps of cleanings are seen while they run, as
Ironic's history doesn't have them (`weft.planning.watching`). In between, while pods use machines, one short query a
second returns those whose state changed last, however many there are. One of all workers asks, as for booting servers
(`weft.engine.watch.bootkeeper`), and each cloud separately: one whose Ironic hangs doesn't endanger other clouds'
tenants.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from weft.engine.base.asking import CloudThreads
from weft.engine.base.database import Database, Row
from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.engine.base.world import World
from weft.engine.nodes.cleanings import write_down
from weft.model.errors import WeftError
from weft.model.site import Site
from weft.planning.kept import kept
from weft.planning.watching import CLEANING
from weft.ports.occupants import Occupants, SeenMachine

log = logging.getLogger(__name__)

BRIEFLY = 1.0
"""Seconds between looks. Ironic first switches a machine off, which then takes longer than this to boot."""
EVERY = 5.0
"""Seconds between listings of all machines of a cloud."""
WATCHING = 2.0
"""Seconds between listings while a machine is cleaned. Even the shortest step is shown for five seconds: it begins
and ends with an agent's heartbeats, at least that far apart (ironic-python-agent 11, `min_heartbeat_interval`)."""
SOONEST = 0.9
"""Share of that after which any worker may ask again."""
ANSWER = 15.0
"""Seconds that a cloud has for its answer; after that another worker asks, in case the first has died."""
LIMIT = 300.0
"""Seconds without a look after which the thread counts as stuck."""


class MachineKeeper(Periodic):
    """Observes machines. Any number may run: at worst a pod is visited twice."""

    def __init__(
        self,
        database: Database,
        world: Callable[[], World],
        site: Callable[[], Site],
        pulse: Pulse | None = None,
        every: float = EVERY,
        briefly: float = BRIEFLY,
    ) -> None:
        self._database, self._world, self._site = database, world, site
        self._every, self._briefly = every, min(every, briefly)
        self._asking = CloudThreads("machines")
        super().__init__("machines", self._look, pulse, LIMIT, again=every)

    def _look(self) -> float:
        self.look()
        return self._briefly

    def look(self) -> None:
        """Look once at every cloud with machines that no other worker asks and whose last answer isn't still
        awaited."""
        world = self._world()
        names = _machines(self._site())
        clouds = [cloud for cloud in self._asking.free(world.clouds) if cloud in names]
        if not clouds:
            return
        rows = self._database.rows("take_machine_looks", clouds=clouds, answer=ANSWER)
        self._asking.ask(
            {c: partial(self._ask, world.clouds[c], row, names[c]) for row in rows for c in [row["cloud"]]}
        )

    def _ask(self, facts: Occupants, row: Row, names: Mapping[str, str]) -> None:
        """Ask one cloud. Args: names: machine -> its node's name, of this cloud."""
        cloud, listing = row["cloud"], row["listing"]
        try:
            seen = self._listed(facts, cloud) if listing else self._changed(facts, cloud, names)
            self._wake({names[m]: one.use for m, one in seen.items() if one.use and m in names})
            every = None
            if listing:
                being = any(one.automated and one.state in CLEANING for one in seen.values())
                every = (min(self._every, WATCHING) if being else self._every) * SOONEST
            values = {"asked": row["at"], "answer": ANSWER, "again": self._briefly * SOONEST, "every": every}
            with self._database.transaction() as tx:
                ended = tx.row("end_machine_look", cloud=cloud, **values)
                if ended is not None and listing:  # otherwise another worker has looked since
                    write_down(tx, cloud, seen, row["at"], ended["at"])
        except WeftError as error:
            log.warning("cloud %s: the state of its machines can't be recorded: %s", cloud, error)
        except Exception:
            log.exception("cloud %s: defect in weft", cloud)

    def _listed(self, facts: Occupants, cloud: str) -> Mapping[str, SeenMachine]:
        """All machines; empty if the cloud can't be asked: weft isn't unhealthy for that, as pods' visits report it."""
        try:
            return facts.seen_machines()
        except WeftError as error:
            log.warning("cloud %s: the state of its machines is unknown: %s", cloud, error)
            return {}

    def _changed(self, facts: Occupants, cloud: str, names: Mapping[str, str]) -> Mapping[str, SeenMachine]:
        """Machines that changed last; not asked while no pod uses a machine."""
        used = self._database.row("machines_in_use", nodes=sorted(names.values()))
        if used is None or not used["used"]:
            return {}
        try:
            return facts.changed_machines()
        except WeftError as error:
            log.debug(
                "cloud %s: which machines changed is unknown: %s", cloud, error
            )  # the next listing shows it
            return {}

    def _wake(self, busy: dict[str, str]) -> None:
        if not busy:
            return
        rows = self._database.rows("wake_busy", nodes=sorted(busy))
        for row in rows:
            log.info("pod %s: machine %s: %s", row["id"], row["node"], busy[row["node"]])


@kept
def _machines(site: Site) -> Mapping[str, Mapping[str, str]]:
    """Cloud -> machine -> its node's name."""
    found: dict[str, dict[str, str]] = {}
    for node in site.nodes:
        if node.machine:
            found.setdefault(str(node.cloud), {})[node.machine] = node.name
    return found
