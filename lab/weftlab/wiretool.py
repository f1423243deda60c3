"""A client of the simulator beside the agents: reads a table, or writes an entry behind the subnet manager's back.

Not in `weftlab.fabric`: importing that takes longer than the tool.
"""

from __future__ import annotations

import sys

from weft.fabricagent.config import DiagnosticPrograms, ManagerPort
from weft.fabricagent.wire import Wire


def main(arguments: list[str]) -> int:
    """Read keys, or write one; prints JSON. Returns the exit code."""
    wire = Wire(ManagerPort(), DiagnosticPrograms())
    try:
        if arguments[0] == "read-keys":
            found = {r.port_guid: r for r in wire.read([int(guid, 0) for guid in arguments[1:]])}
            for guid in arguments[1:]:
                reading = found[int(guid, 0)]
                for table in (reading.host, reading.leaf or ()):
                    print(" ".join(f"{k:#06x}" for k in table if k))
        else:
            _write(
                wire, int(arguments[1], 0), int(arguments[2]), int(arguments[3], 0), arguments[4] == "leaf"
            )
    finally:
        wire.close()
    return 0


def _write(wire: Wire, guid: int, index: int, key: int, leaf: bool) -> None:
    at = wire.hosts()[guid]
    lid, port = (at.peer_lid, at.peer_port) if leaf else (at.lid, 0)
    entries = list(wire.client.read_block(lid, index // 32, port))
    entries[index % 32] = key
    wire.client.write_block(lid, index // 32, tuple(entries), port)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
