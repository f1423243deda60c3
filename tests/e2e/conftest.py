"""What the end-to-end tests share: the lab (tests/conftest.py) and people who type `weft`."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.e2e.people import People, Person
from weftlab.lab import Lab


@pytest.fixture
def people(lab: Lab, tmp_path: Path) -> Generator[People]:
    """`people("team-a")`. Whatever pods a test leaves are released after it."""

    def person(cloud: str) -> Person:
        return Person(lab, cloud, tmp_path)

    yield person
    operator = person("operator")
    for pod in operator.weft("pod", "list", "--all-projects", "--json").json:
        if pod["state"] != "RELEASED":
            operator.weft("pod", "release", pod["id"], "--wait")
