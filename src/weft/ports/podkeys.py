"""Port: keys of a pod, derived so that they are the same every time and in every process."""

from __future__ import annotations

from typing import Protocol


class PodKeys(Protocol):
    """Derives the keys of pods from the site's secret."""

    def key(self, pod_id: str, name: str) -> str:
        """The pod's key of that name: 32 letters, digits, `-` and `_`. Also for pods that were released long ago."""
        ...
