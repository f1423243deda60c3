"""Keeps the drivers in sync with the active site: a new generation gets a new `World`."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol, runtime_checkable

from weft.engine.base.world import World
from weft.engine.rows.siteparts import SiteRecord
from weft.engine.store.store import Store
from weft.model.site import Site

CLOSED_AFTER = 600.0
"""Seconds after the last use of an old generation: longer than any single request to a cloud or fabric."""


@runtime_checkable
class Closable(Protocol):
    """A driver with threads or connections of its own."""

    def close(self) -> None:
        """End its threads and connections."""


class WorldKeeper:
    """Creates drivers when first needed, and again when the site has changed; closes those of old sites.

    Args:
        build: creates the drivers of a site; opens no connection itself.
    """

    def __init__(
        self,
        store: Store,
        build: Callable[[Site], World],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._build, self._monotonic = store, build, monotonic
        self._lock = threading.Lock()
        self._stamp: tuple[int, datetime] | None = None
        self._world: World | None = None
        # Filled by finalizers, which run in whichever thread drops the last reference: a deque needs no lock for that.
        self._unused: deque[tuple[float, list[Closable]]] = deque()

    def world(self) -> World:
        """The drivers of the active site. Raises `NotFoundError` before the first site."""
        return self.world_of(self._store.site())

    def world_of(self, record: SiteRecord) -> World:
        """The drivers of the active site as just read."""
        with self._lock:
            if self._world is None or record.stamp != self._stamp:
                self._world, self._stamp = self._build(record.site), record.stamp
                weakref.finalize(self._world, self._retire, _closable(self._world)).atexit = False
            world, ended = self._world, self._ended()
        _close(ended)
        return world

    def site(self) -> Site:
        """The active site. Raises `NotFoundError` if there is none."""
        return self._store.site().site

    def close(self) -> None:
        """Close everything; for the end of the process."""
        with self._lock:
            world, self._world = self._world, None
            unused = [drivers for _, drivers in self._unused]
        _close([*(_closable(world) if world else []), *(d for drivers in unused for d in drivers)])

    def _retire(self, drivers: list[Closable]) -> None:
        """Close later: the world is unused, but one of its drivers may still be in a request."""
        self._unused.append((self._monotonic(), drivers))

    def _ended(self) -> list[Closable]:
        found: list[Closable] = []
        while self._unused and self._unused[0][0] < self._monotonic() - CLOSED_AFTER:
            found += self._unused.popleft()[1]
        return found


def _closable(world: World) -> list[Closable]:
    parts = (world.resources, world.fabrics, world.clouds, world.machines, world.probers)
    drivers = {id(d): d for part in parts for d in part.values()}
    return [d for d in drivers.values() if isinstance(d, Closable)]


def _close(drivers: Iterable[Closable]) -> None:
    for driver in drivers:
        driver.close()
