"""`--site` of several processes that start at once makes one generation."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from tests.helpers.paths import SMALL
from weft.app.wiring import first_site
from weft.engine.base.database import Database
from weft.engine.rows.siteparts import SiteRecord
from weft.engine.store.store import Store
from weft.model.errors import NotFoundError

FILE = SMALL / "site.yaml"


class _Together(Store):
    """Asks for the site at the same time as the other, and both find none."""

    def __init__(self, database: Database, together: Barrier) -> None:
        super().__init__(database)
        self._together: Barrier | None = together

    def site(self) -> SiteRecord:
        try:
            return super().site()
        except NotFoundError:
            if self._together is not None:
                self._together.wait(30)
                self._together = None
            raise


def test_two_processes_with_a_site_file_make_one_generation(database: Database) -> None:
    """`weft serve --site` and `weft worker --site`: the second uses what the first activated."""
    together = Barrier(2)
    stores = [_Together(database, together) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda store: first_site(FILE, store), stores))
    assert [store.site().generation for store in stores] == [1, 1]


def test_site_file_is_ignored_if_there_is_a_site(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """A second start doesn't read it: it may be gone by then."""
    with caplog.at_level(logging.INFO):
        first_site(FILE, store)
        first_site(FILE, store)
        first_site(Path("/nowhere/site.yaml"), store)
        first_site(None, store)
    assert store.site().generation == 1
    assert caplog.text.count("activated site") == 1
