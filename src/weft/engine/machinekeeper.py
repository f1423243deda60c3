"""Looks every few seconds whether something is done with machines of pods in use that weft didn't ask for.

A tenant's rebuild of its server deploys the machine again, an operator may have it cleaned or rescued: for as long what
runs on it isn't the pod's server, and its adapters must be out of the pod's segment. Its pod is looked at at once, and
not only when its turn comes; what is to be done, that look decides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from weft.engine.database import Database
from weft.engine.periodic import Periodic
from weft.engine.pulse import Pulse
from weft.engine.world import World
from weft.model.errors import WeftError
from weft.model.site import Site

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between looks: one listing of each cloud. A machine takes longer to boot what it is deployed with."""
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
        super().__init__("machines", self._look, pulse or Pulse(), LIMIT, again=every)

    def _look(self) -> float:
        self.look()
        return self._every

    def look(self) -> None:
        """One look at every cloud with machines.

        One that can't be asked is no reason to call weft unwell: the pods' own visits say what isn't known of them.
        """
        world = self._world()
        nodes = {n.machine: n for n in self._site().nodes if n.machine is not None}
        for cloud in sorted({n.cloud for n in nodes.values() if n.cloud is not None} & world.clouds.keys()):
            try:
                busy = world.clouds[cloud].busy()
            except WeftError as error:
                log.warning("cloud %s: the state of its machines is unknown: %s", cloud, error)
                continue
            self._wake({nodes[m].name: why for m, why in busy.items() if m in nodes})

    def _wake(self, busy: dict[str, str]) -> None:
        if not busy:
            return
        with self._database.statement() as tx:
            rows = tx.rows("wake_busy", nodes=sorted(busy))
        for row in rows:
            log.info("pod %s: machine %s: %s", row["id"], row["node"], busy[row["node"]])
