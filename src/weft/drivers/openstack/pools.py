"""Threads of one cloud's driver, by service, so that waiting for one service doesn't block another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, NamedTuple


class Carrying(ThreadPoolExecutor):
    """Runs work in the context of the submitting thread, such as its time limit."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call that runs with the caller's context variables."""
        return super().submit(copy_context().run, fn, *args, **kwargs)


class Threads(NamedTuple):
    """Pools of one service. Work on a kind may wait for requests, but requests wait for nothing, so that
    there are no deadlocks."""

    kinds: Carrying
    requests: Carrying


class Pools:
    """A pair of pools for each service; threads are started on demand.

    Args:
        name: of the cloud.
        services: types of its services, such as `compute`.
        threads: of each pool.
    """

    def __init__(self, name: str, services: frozenset[str], threads: int) -> None:
        self._threads = {
            service: Threads(
                Carrying(threads, thread_name_prefix=f"{name}-{service}-kinds"),
                Carrying(threads, thread_name_prefix=f"{name}-{service}-requests"),
            )
            for service in services
        }

    def of(self, service: str) -> Threads:
        """The threads of a service, by its type."""
        return self._threads[service]

    def close(self) -> None:
        for threads in self._threads.values():
            for pool in threads:
                pool.shutdown(wait=False, cancel_futures=True)
