"""Looks every second which servers have booted or failed, and has their pods visited at once.

A server takes half a minute or ten, and so do thousands of them at a time: one question about all that changed costs a
cloud and weft less than asking for each again and again, and it is known sooner. What it answers is only a hint:
whether a server runs is read in its pod's visit, which comes without a hint too, if later.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from weft.engine.database import Database
from weft.engine.periodic import Periodic
from weft.engine.pulse import Pulse
from weft.engine.world import World
from weft.model.errors import WeftError
from weft.ports.servers import Servers

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between looks; nothing is asked of a cloud in which none of weft's servers boots."""
OVERLAP = timedelta(seconds=30)
"""So far before its last look a cloud is asked for changes: clocks differ, its database may be behind, and a visit
of the pod may have read it before."""
LATEST = timedelta(seconds=60)
"""What changed before has had a visit of its own since."""
LONGEST = 900.0
"""Seconds after which a server that boots is left to its pod's visits: one that never does isn't asked for for ever."""
PATIENCE = 5.0
"""Seconds that a look waits for the clouds; who takes longer keeps no other waiting."""
LIMIT = 300.0
"""Seconds without a look after which the thread counts as stuck."""


class BootKeeper(Periodic):
    """Any number may run: a pod is woken once for what its visit hasn't written down yet."""

    def __init__(
        self,
        database: Database,
        world: Callable[[], World],
        pulse: Pulse | None = None,
        every: float = EVERY,
    ) -> None:
        self._database, self._world, self._every = database, world, every
        self._looked: dict[str, datetime] = {}
        self._asking: dict[str, threading.Thread] = {}
        super().__init__("boots", self._look, pulse or Pulse(), LIMIT, again=every)

    def _look(self) -> float:
        self.look()
        return self._every

    def look(self) -> None:
        """One look at every cloud in which servers boot, but those that haven't answered the last one yet."""
        with self._database.statement() as tx:
            rows = tx.rows("clouds_with_boots", longest=LONGEST)
        booting: dict[str, datetime] = {row["cloud"]: row["at"] for row in rows}
        world = self._world()
        self._looked = {cloud: at for cloud, at in self._looked.items() if cloud in booting}
        asked = [cloud for cloud in booting.keys() & world.clouds.keys() if not self._is_asking(cloud)]
        for cloud in asked:
            values = (world.clouds[cloud], cloud, booting[cloud])
            self._asking[cloud] = threading.Thread(target=self._ask, args=values, name="boots", daemon=True)
            self._asking[cloud].start()
        deadline = time.monotonic() + PATIENCE
        for cloud in asked:
            self._asking[cloud].join(max(0.0, deadline - time.monotonic()))

    def _is_asking(self, cloud: str) -> bool:
        return cloud in self._asking and self._asking[cloud].is_alive()

    def _ask(self, facts: Servers, cloud: str, at: datetime) -> None:
        """One that can't be asked is no reason to call weft unwell: pods' own visits say what isn't known of them."""
        try:
            built = facts.built(max(self._looked.get(cloud, at), at - LATEST) - OVERLAP)
            self._wake(sorted(built))
        except WeftError as error:
            log.warning("cloud %s: it isn't known which servers have booted: %s", cloud, error)
        except Exception:
            log.exception("cloud %s: defect in weft", cloud)
        else:
            self._looked[cloud] = at

    def _wake(self, servers: list[str]) -> None:
        if servers:
            with self._database.statement() as tx:
                tx.run("wake_built", servers=servers)
