"""Port: keys of a pod, the same whenever and wherever they are asked for."""

from __future__ import annotations

from typing import Protocol


class PodKeys(Protocol):
    def key(self, pod_id: str, name: str) -> str:
        """The pod's key of that name: 32 letters, digits, `-` and `_`. Also of a pod that was released long ago."""
        ...
