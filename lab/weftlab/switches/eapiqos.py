"""QoS of an imitated Arista switch: commands of an interface, and how `show running-config` writes them.

By the EOS manual, chapters "Quality of Service" and "DCBX and Flow Control".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

MTU = 9214
"""MTU of a switched port by default."""
ECN = re.compile(
    r"random-detect ecn minimum-threshold \d+ (?:kbytes|segments|bytes) maximum-threshold \d+ (?:kbytes|segments|bytes)"
    r"(?: max-mark-probability \d+)?"
)


class InQueue(Protocol):
    """Position of the command line, within an interface's queue."""

    queue: int | None


@dataclass
class PortQos:
    mtu: int = MTU
    trust: str = ""  # as configured; a switched port trusts CoS
    paused: bool = False
    no_drop: set[int] = field(default_factory=set[int])
    ecn: dict[int, str] = field(default_factory=dict[int, str])

    def lines(self) -> Iterator[str]:
        """The lines of `show running-config` about the interface's QoS."""
        if self.mtu != MTU:
            yield f"   mtu {self.mtu}"
        if self.trust:
            yield f"   {self.trust}"
        if self.paused:
            yield "   priority-flow-control on"
        yield from (f"   priority-flow-control priority {n} no-drop" for n in sorted(self.no_drop))
        for queue, line in sorted(self.ecn.items()):
            yield from ("   !", f"   tx-queue {queue}", f"      {line}")


def apply_qos(qos: PortQos, at: InQueue, line: str) -> bool:
    """Apply a command of QoS; False if it isn't one."""
    if at.queue is not None and ECN.fullmatch(line):
        qos.ecn[at.queue] = line
    elif at.queue is not None and line == "no random-detect ecn":
        qos.ecn.pop(at.queue, None)
    elif match := re.fullmatch(r"tx-queue ([0-7])", line):
        at.queue = int(match[1])
    elif match := re.fullmatch(r"mtu (\d+)", line):
        qos.mtu = int(match[1])
    elif re.fullmatch(r"(no )?qos trust(?: (?:cos|dscp))?", line):
        qos.trust = "" if line == "default qos trust" else line
    elif line in ("priority-flow-control on", "no priority-flow-control"):
        qos.paused = not line.startswith("no")
    elif match := re.fullmatch(r"priority-flow-control priority ([0-7]) (no-drop|drop)", line):
        (qos.no_drop.add if match[2] == "no-drop" else qos.no_drop.discard)(int(match[1]))
    else:
        return False
    return True
