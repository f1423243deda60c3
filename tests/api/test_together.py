"""One reading shared by all who ask for the same at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from weft.api.together import SharedReadings
from weft.app.policy import Policy
from weft.testing.callers import tokens


class Reading:
    """Counts its calls; each returns once `go` is set."""

    def __init__(self) -> None:
        self.turns = 0
        self.go = asyncio.Event()

    async def __call__(self) -> int:
        self.turns += 1
        mine = self.turns
        await self.go.wait()
        if mine == 13:
            raise ValueError("unlucky")
        return mine


async def started() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_later_askers_share_the_next_reading() -> None:
    """A reading that began before they asked may be out of date."""

    async def story() -> None:
        shared, read = SharedReadings(), Reading()
        first = asyncio.create_task(shared.read("a", read))
        await started()
        later = [asyncio.create_task(shared.read("a", read)) for _ in range(20)]
        joined = asyncio.create_task(shared.read("a", read, joins=True))
        other = asyncio.create_task(shared.read("b", read))
        await started()
        read.go.set()
        assert await first == 1 and await joined == 1
        assert await other == 2
        assert {await one for one in later} == {3}
        assert await shared.read("a", read) == 4, "nothing is kept"

    asyncio.run(story())


def test_failed_reading_fails_only_for_those_who_share_it() -> None:
    async def story() -> None:
        shared, read = SharedReadings(), Reading()
        read.turns = 12
        asks = [asyncio.create_task(shared.read("a", read)) for _ in range(3)]
        await started()
        read.go.set()
        found = await asyncio.gather(*asks, return_exceptions=True)
        assert all(isinstance(one, ValueError) for one in found) and read.turns == 13
        assert await shared.read("a", read) == 14

    asyncio.run(story())


def test_cancelled_asker_leaves_the_reading_to_the_others() -> None:
    async def story() -> None:
        shared, read = SharedReadings(), Reading()
        first, second = (asyncio.create_task(shared.read("a", read)) for _ in range(2))
        await started()
        first.cancel()
        await started()
        read.go.set()
        assert await second == 1 and first.cancelled()

    asyncio.run(story())


def test_callers_share_only_if_policy_would_decide_the_same(tmp_path: Path) -> None:
    alice = tokens()["a-member"]
    other = replace(alice, user_id="other", user_name="other")
    usual = Policy()
    assert usual.rights(alice) == usual.rights(other)
    for field, value in (
        ("roles", frozenset({"reader"})),
        ("project_id", "p"),
        ("project_name", "p"),
        ("project_domain_id", "d"),
        ("user_domain_id", "d"),
        ("system", True),
    ):
        assert usual.rights(alice) != usual.rights(replace(alice, **{field: value})), field
    file = tmp_path / "policy.yaml"
    file.write_text('"nodes:list": "user_id:other"\n')
    assert Policy(file).rights(alice) != Policy(file).rights(other)
    file.write_text('"nodes:list": "http://127.0.0.1:1/decide"\n')
    assert Policy(file).rights(alice) != Policy(file).rights(other), "an outside service decides by user"
