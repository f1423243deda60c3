"""Records what is free, by type of accelerators, and how many orders wait, every ten minutes."""

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
    """Writes the records. Any number may run: the first one of each period writes."""

    def __init__(self, store: Store, site: Callable[[], Site], pulse: Pulse | None = None) -> None:
        self._store, self._site = store, site
        super().__init__("capacity", self.note, pulse, LIMIT, every=EVERY.total_seconds() / 2, again=60.0)

    def note(self) -> None:
        """Write this period's record, if there is none yet, from weft's own rows: servers that weft didn't create
        aren't in it, and a node that pods share counts as busy."""
        site = self._site()
        kinds, found = kinds_of(site), dict[str, Counter[str]]()
        for name, state in node_states(site, self._store.capacity(), {}).items():
            if state != "not-compute":
                found.setdefault(kinds[name][0], Counter())[state] += 1
        note_capacity(self._store.database, found)
