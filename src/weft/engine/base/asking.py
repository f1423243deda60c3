"""Asks several clouds at the same time, so that a slow one doesn't delay the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

PATIENCE = 5.0
"""Seconds to wait for the answers; a later answer is still handled."""


class CloudThreads:
    """One thread for each cloud that is asked. Only one thread may call the methods of an object."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._threads: dict[str, threading.Thread] = {}

    def free(self, clouds: Iterable[str]) -> list[str]:
        """The clouds whose last question was answered, or that were never asked."""
        alive = {cloud for cloud, thread in self._threads.items() if thread.is_alive()}
        return sorted(set(clouds) - alive)

    def ask(self, questions: Mapping[str, Callable[[], None]]) -> None:
        """Ask the clouds. Args: questions: cloud -> function that asks it and handles the answer."""
        asked: list[threading.Thread] = []
        for cloud, question in questions.items():
            self._threads[cloud] = threading.Thread(target=question, name=self._name, daemon=True)
            asked.append(self._threads[cloud])
            asked[-1].start()
        deadline = time.monotonic() + PATIENCE
        for thread in asked:
            thread.join(max(0.0, deadline - time.monotonic()))
