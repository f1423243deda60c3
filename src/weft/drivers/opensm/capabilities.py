"""What OpenSM can do, known without asking one, for planning offline."""

from __future__ import annotations

from weft.model.fabric import Capabilities

CAPABILITIES = Capabilities(
    virtual_functions=False,
    why_no_virtual_functions=(
        "OpenSM has no virtual ports and ignores the GUIDs of virtual functions in its partitions"
    ),
)
