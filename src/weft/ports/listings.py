"""Listings that several drivers' calls share while they observe one owner at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class SharedListings:
    """What is asked while an owner is observed once: each listing is read once, for all calls that need it.
    Thread-safe.

    Args:
        size: how many resources the owner has: long listings may be split.
    """

    def __init__(self, size: int = 0) -> None:
        self.size = size
        self._lock = threading.Lock()
        self._answers: dict[Hashable, Future[Any]] = {}

    def once(self, key: Hashable, ask: Callable[[], T]) -> T:
        """The answer to the first call with this key; later ones wait for it. An error is raised in all calls that wait
        for the answer, and the next call asks again.

        Args:
            key: of what is asked, and with whose token.
        """
        with self._lock:
            answer = self._answers.get(key)
            if is_first := answer is None:
                answer = self._answers[key] = Future[T]()
        if is_first:
            try:
                answer.set_result(ask())
            except BaseException as error:
                with self._lock:
                    del self._answers[key]
                answer.set_exception(error)
        return answer.result()
