"""Notes what is free, by type of accelerators, and how many orders wait: a record every ten minutes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from weft.app.nodepages import node_states
from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.engine.book.samples import EVERY, note_capacity
from weft.engine.store.store import Store
from weft.model.site import Site
from weft.planning.site.kinds import kinds_of

LIMIT = 3600.0
"""Seconds without a record after which the thread counts as stuck."""


class CapacityKeeper(Periodic):
    """Any number may run: the first one of each period notes it."""

    def __init__(self, store: Store, site: Callable[[], Site], pulse: Pulse | None = None) -> None:
        self._store, self._site = store, site
        super().__init__("capacity", self.note, pulse, LIMIT, every=EVERY.total_seconds() / 2, again=60.0)

    def note(self) -> None:
        """By weft's own rows: servers that weft didn't make aren't seen. A node that pods share is busy."""
        site = self._site()
        kinds, found = kinds_of(site), dict[str, Counter[str]]()
        for name, state in node_states(site, self._store.capacity(), {}).items():
            if state != "not-compute":
                found.setdefault(kinds[name][0], Counter())[state] += 1
        note_capacity(self._store.database, found)
