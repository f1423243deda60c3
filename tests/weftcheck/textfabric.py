"""Nodes without SSH for `weftcheck.bandwidth`: they print what sysfs and perftest print, with planted faults.

The texts have the form of the captures in `tests/data/bandwidth`.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable

from weftcheck.found import SCRIPT
from weftcheck.remote import Ended

HEAD = (
    "---------------------------------------------------------------------------------------\n"
    " Link type       : IB\n"
    " rdma_cm QPs\t : OFF\n"
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
)
Speed = Callable[[str, str, int], "float | str"]
"""Sender, receiver and rail -> Gb/s, or what the program prints instead, with exit code 1."""


class _Process:
    """A process that has already printed its output and ended."""

    def __init__(self, text: str) -> None:
        self.stdout = io.BytesIO(text.encode())

    def poll(self) -> int:
        return 0

    def wait(self, timeout: float | None = None) -> int:
        return 0

    def kill(self) -> None:
        pass


class TextSession:
    """A node, with the methods of `weftcheck.remote.Session`."""

    def __init__(self, name: str, speed: Speed, rails: int = 8, pkey: int = 0x8101) -> None:
        self.name, self.lost = name, False
        self.refused: str | None = None
        self._speed, self._rails, self._pkey = speed, rails, pkey
        self.scripts: list[str] = []
        self.running = 0
        self.most_at_once = 0
        self._lock = threading.Lock()

    def hold(self) -> str | None:
        return self.refused

    def close(self) -> None:
        self.lost = True

    def start(self, script: str) -> _Process:
        self.scripts.append(script)
        return _Process("".join(f"{rail}> rc=0\n" for rail in re.findall(r"^m (\d+) ", script, re.M)))

    def run(self, script: str, seconds: float) -> Ended:
        if script == SCRIPT:
            return Ended(0, self._sysfs())
        with self._lock:
            self.running += 1
            self.most_at_once = max(self.most_at_once, self.running)
        self.scripts.append(script)
        lines: list[str] = []
        for rail, words in re.findall(r"^m (\d+) (.*) </dev/null &$", script, re.M):
            said = self._speed(self.name, words.split()[-1], int(rail))
            if isinstance(said, str):
                text, code = said, 1
            else:
                text, code = (
                    f"{HEAD} 1048576    95000            0.00               {said:.2f}   \t\t   0.04\n",
                    0,
                )
            lines += [f"{rail}> {line}" for line in [*text.splitlines(), f"rc={code}"]]
        with self._lock:
            self.running -= 1
        return Ended(0, "\n".join(lines))

    def _sysfs(self) -> str:
        lines: list[str] = []
        for rail in range(self._rails):
            guid = f"{int(self.name[1:]):04x}:0000:0000:{rail:04x}"
            lines += [
                f"device mlx5_{rail} 1",
                f"node_guid {guid}",
                "state 4: ACTIVE",
                "link_layer InfiniBand",
            ]
            lines += ["pkey 0 0x7fff", f"pkey 3 {self._pkey:#06x}", f"gid 0 fe80:0000:0000:0000:{guid} -"]
        return "\n".join([*lines, "end", ""])


def plan_of(names: list[str], rails: int = 8, **more: object) -> dict[str, object]:
    """A plan for these nodes with adapters of 400 Gb/s; `more` are further members."""
    nodes = [
        {
            "name": name,
            "leaf": f"leaf{place // 16}",
            "adapters": [
                {"rail": rail, "guid": f"0x{int(name[1:]):04x}00000000{rail:04x}", "gbps": 400}
                for rail in range(rails)
            ],
        }
        for place, name in enumerate(names)
    ]
    return {"version": 1, "pkey": "0x8101", "nodes": nodes, **more}
