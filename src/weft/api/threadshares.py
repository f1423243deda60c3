"""Threads of the API for verbs that ask external services: each project has a share of them.

Verbs that only use the database run in anyio's own threads. Verbs that ask a cloud or a fabric, or take long, run in
these threads: a cloud that hangs, or a project that exceeds its share, doesn't delay other callers.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar, cast

import anyio
from anyio import CapacityLimiter, WouldBlock, to_thread
from fastapi import Request as HttpRequest
from fastapi import Response

from weft.app.verbs import Request
from weft.model.errors import TemporaryError
from weft.ports.patience import waiting_at_most

THREADS = 48
SHARE = 8
"""Requests of one project that are answered at a time; more of them wait."""
WAITING = 64
"""Requests of one project that wait for its share, for at most `WAIT_SECONDS`; more are refused."""
WAIT_SECONDS = 15.0
READ_SECONDS = 10.0
"""Seconds for each answer of a cloud that a tenant's request waits for."""
RETRY_AFTER = 5.0
T = TypeVar("T")


class ThreadShares:
    """Shares of threads, for one event loop.

    Args:
        threads: number in total.
        share: threads for each caller.
        waiting: most requests of a caller that may wait for its share.
        most: most requests in total; None: no limit.
    """

    def __init__(
        self, threads: int = THREADS, share: int = SHARE, waiting: int = WAITING, most: int | None = None
    ) -> None:
        self._share, self._waiting, self._most = share, waiting, math.inf if most is None else most
        self._users = 0
        self._threads = CapacityLimiter(threads)
        self._of_its_own = CapacityLimiter(math.inf)
        self._shares: dict[str, tuple[CapacityLimiter, list[int]]] = {}

    async def run(self, who: str, work: Callable[[], T], seconds: float | None = None) -> T:
        """Run `work` in a thread as soon as `who`'s share has one free.

        Args:
            seconds: limit of each answer that it waits for; None: the driver's own.

        Raises:
            TemporaryError: too many requests of `who`, or of all, wait, or this one waited too long.
        """
        # Dropped when unused: callers choose their names, so entries must not accumulate.
        share, users = self._shares.setdefault(who, (CapacityLimiter(self._share), [0]))
        if users[0] >= self._share + self._waiting:
            raise _busy(f"{users[0]} requests are being answered or waiting, which is the limit")
        if self._users >= self._most:
            raise _busy(f"{self._users} requests are already being answered or waiting, which is the limit")
        users[0] += 1
        self._users += 1
        try:
            return await self._in_turn(share, work, seconds, who)
        finally:
            self._users -= 1
            users[0] -= 1
            if not users[0]:
                self._shares.pop(who, None)

    async def _in_turn(
        self, share: CapacityLimiter, work: Callable[[], T], seconds: float | None, who: str
    ) -> T:
        mine = object()
        held: list[CapacityLimiter] = []
        try:
            with anyio.move_on_after(WAIT_SECONDS):
                for limiter in (share, self._threads):
                    try:
                        limiter.acquire_on_behalf_of_nowait(mine)
                    except WouldBlock:
                        await limiter.acquire_on_behalf_of(mine)
                    held.append(limiter)
            if len(held) < 2:
                raise _busy(f"no thread was free for {WAIT_SECONDS:.0f} s")
            with waiting_at_most(seconds, who):
                return await to_thread.run_sync(work, limiter=self._of_its_own)
        finally:
            for limiter in held:
                limiter.release_on_behalf_of(mine)


def _busy(seen: str) -> TemporaryError:
    return TemporaryError("answer the request", "weft", seen, "repeat it later", RETRY_AFTER)


async def run_outside(
    http: HttpRequest, request: Request, work: Callable[[], T], seconds: float | None = READ_SECONDS
) -> T:
    """Run a verb that asks external services, in the share of the caller's project."""
    caller = request.caller
    return await cast(ThreadShares, http.app.state.shares).run(
        caller.project_id or caller.user_id, work, seconds
    )


def outside(
    seconds: float | None = READ_SECONDS,
) -> Callable[[Callable[..., Response]], Callable[..., Awaitable[Response]]]:
    """Decorate a route whose verb asks external services, or takes long; see `run_outside`.

    Args:
        seconds: limit of each answer; None: the drivers' own, for operators.
    """

    def decorate(route: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
        signature = inspect.signature(route, eval_str=True)

        async def served(http: HttpRequest, **given: Any) -> Response:
            return await run_outside(http, given["request"], partial(route, **given), seconds)

        served.__name__, served.__doc__, served.__module__ = route.__name__, route.__doc__, route.__module__
        one_more = inspect.Parameter("http", inspect.Parameter.KEYWORD_ONLY, annotation=HttpRequest)
        more = signature.replace(parameters=[*signature.parameters.values(), one_more])
        served.__signature__ = more  # pyright: ignore[reportFunctionMemberAccess] - what FastAPI reads
        return served

    return decorate
