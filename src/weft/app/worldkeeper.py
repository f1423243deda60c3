"""Keeps the drivers in step with the site in force: a new generation of the site makes a new `World`."""

from __future__ import annotations

import threading
from collections.abc import Callable

from weft.engine.store import Store
from weft.engine.world import World
from weft.model.site import Site


class WorldKeeper:
    """Makes drivers when they are first needed, and again when the site has changed.

    Args:
        build: makes the drivers of a site; opens no connection by itself.
    """

    def __init__(self, store: Store, build: Callable[[Site], World]) -> None:
        self._store, self._build = store, build
        self._lock = threading.Lock()
        self._generation = -1
        self._world: World | None = None

    def world(self) -> World:
        """Raises `NotFoundError` before the first site."""
        record = self._store.site()
        with self._lock:
            if self._world is None or record.generation != self._generation:
                self._world, self._generation = self._build(record.site), record.generation
            return self._world

    def site(self) -> Site:
        return self._store.site().site
