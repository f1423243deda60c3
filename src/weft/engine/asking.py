"""Questions to several clouds at the same time: who takes long keeps no other waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

PATIENCE = 5.0
"""Seconds that is waited for the answers; a later one comes all the same."""


class Asking:
    """A thread for each cloud that is asked; of one object only one thread calls the methods."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._threads: dict[str, threading.Thread] = {}

    def free(self, clouds: Iterable[str]) -> list[str]:
        """Those of them whose last answer isn't awaited any more."""
        alive = {cloud for cloud, thread in self._threads.items() if thread.is_alive()}
        return sorted(set(clouds) - alive)

    def ask(self, questions: Mapping[str, Callable[[], None]]) -> None:
        """Args: questions: cloud -> asks it, and does what is to be done with the answer."""
        asked: list[threading.Thread] = []
        for cloud, question in questions.items():
            self._threads[cloud] = threading.Thread(target=question, name=self._name, daemon=True)
            asked.append(self._threads[cloud])
            asked[-1].start()
        deadline = time.monotonic() + PATIENCE
        for thread in asked:
            thread.join(max(0.0, deadline - time.monotonic()))
