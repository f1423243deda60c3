"""Looks every few seconds at what is done with machines, and with which steps they are cleaned.

A tenant's rebuild of its server deploys the machine again, an operator may have it cleaned or rescued: for as long what
runs on it isn't the pod's server, and its adapters must be out of the pod's segment. Its pod is looked at at once, and
not only when its turn comes; what is to be done, that look decides. The same listing shows the steps of cleanings while
they run, which Ironic's history doesn't have (`weft.planning.watching`). Of all workers one asks, as of what boots
(`weft.engine.bootkeeper`); each cloud for itself, since one whose Ironic hangs keeps no other's tenants apart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from weft.engine.asking import Asking
from weft.engine.cleanings import write_down
from weft.engine.database import Database, Row
from weft.engine.periodic import Periodic
from weft.engine.pulse import Pulse
from weft.engine.world import World
from weft.model.errors import WeftError
from weft.model.site import Site
from weft.planning.watching import CLEANING
from weft.ports.occupants import Occupants, SeenMachine

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between looks: one listing of each cloud. A machine takes longer to boot."""
WATCHING = 2.0
"""The same while a machine is cleaned. Steps of a moment are shown for five seconds: an agent's heartbeats, with which
they begin and end, are no less apart (ironic-python-agent 11, `min_heartbeat_interval`)."""
SOONEST = 0.9
"""Share of that after which anybody may ask again."""
ANSWER = 15.0
"""Seconds that a cloud has for its answer. Who has asked may have died: then another one does."""
LIMIT = 300.0
"""Seconds without a look after which the thread counts as stuck."""


class MachineKeeper(Periodic):
    """Any number may run: a pod that is looked at twice is looked at twice."""

    def __init__(
        self,
        database: Database,
        world: Callable[[], World],
        site: Callable[[], Site],
        pulse: Pulse | None = None,
        every: float = EVERY,
    ) -> None:
        self._database, self._world, self._site, self._every = database, world, site, every
        self._asking = Asking("machines")
        self._cleaned: set[str] = set()
        super().__init__("machines", self._look, pulse or Pulse(), LIMIT, again=every)

    def _look(self) -> float:
        self.look()
        return self._until_next(*self._cleaned)

    def _until_next(self, *clouds: str) -> float:
        """Until the next look at these clouds: sooner if a machine of any was being cleaned at the last one."""
        return min(self._every, WATCHING) if self._cleaned.intersection(clouds) else self._every

    def look(self) -> None:
        """One look at every cloud with machines, if nobody else looks and the last answer isn't awaited."""
        world = self._world()
        free = self._asking.free(world.clouds)
        machines = {n.machine: n for n in self._site().nodes if n.machine and n.cloud in free}
        if not machines:
            return
        names = {machine: node.name for machine, node in machines.items()}
        clouds = sorted({str(node.cloud) for node in machines.values()})
        with self._database.statement() as tx:
            rows = tx.rows("take_machine_looks", clouds=clouds, answer=ANSWER)
        self._asking.ask(
            {row["cloud"]: partial(self._ask, world.clouds[row["cloud"]], row, names) for row in rows}
        )

    def _ask(self, facts: Occupants, row: Row, names: Mapping[str, str]) -> None:
        """Args: names: machine -> its node's name."""
        cloud = row["cloud"]
        try:
            seen = self._seen(facts, cloud)
            self._wake({names[m]: one.use for m, one in seen.items() if one.use and m in names})
            being = any(one.automated and one.state in CLEANING for one in seen.values())
            (self._cleaned.add if being else self._cleaned.discard)(cloud)
            with self._database.transaction() as tx:
                values = {"asked": row["at"], "answer": ANSWER, "every": self._until_next(cloud) * SOONEST}
                ended = tx.row("end_machine_look", cloud=cloud, **values)
                if ended is not None:  # else others have looked since
                    write_down(tx, cloud, seen, row["at"], ended["at"])
        except WeftError as error:
            log.warning("cloud %s: what is done with its machines can't be written down: %s", cloud, error)
        except Exception:
            log.exception("cloud %s: defect in weft", cloud)

    def _seen(self, facts: Occupants, cloud: str) -> Mapping[str, SeenMachine]:
        """One that can't be asked is no reason to call weft unwell: pods' own visits say what isn't known of them."""
        try:
            return facts.seen_machines()
        except WeftError as error:
            log.warning("cloud %s: the state of its machines is unknown: %s", cloud, error)
            return {}

    def _wake(self, busy: dict[str, str]) -> None:
        if not busy:
            return
        with self._database.statement() as tx:
            rows = tx.rows("wake_busy", nodes=sorted(busy))
        for row in rows:
            log.info("pod %s: machine %s: %s", row["id"], row["node"], busy[row["node"]])
