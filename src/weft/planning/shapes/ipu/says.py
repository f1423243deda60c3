"""Sentences about orders of IPUs that tenants may see."""

from __future__ import annotations

from weft.planning.shapes.shape import Sayings

SAYS = Sayings(
    places=("IPU-POD",),
    refusals=(
        "{place} has {n} Poplar servers with capacity, {n} are needed…",
        "{place} has {n} nodes for V-IPU controllers with capacity, {n} are needed…",
        *(
            f"{{place}} has no free run of {{n}} {what} ({{n}} IPUs): {{n}} are free, the longest run of them is {{n}}"
            for what in ("IPU-Machine", "neighbouring IPU-Machines")
        ),
        "{place}: all VLANs of its data network are in use",
        "{place}: all addresses for V-IPU controllers are in use",
    ),
    allowed=(
        "must be omitted with ipu: IPUs are always adjacent in one IPU-POD",
        "IPU-PODs of cloud {node}: {list}",
        "cloud {node} has no IPU-POD",
        "at most {n} Poplar servers",
        "virtual or omitted: Poplar servers are virtual machines",
        "dedicated or omitted: IPUs are assigned whole",
        "0 or omitted: orders of IPUs have no spares",
        "must be omitted: IPU pods use the IPU-POD's own data network",
        "must be omitted: IPUs are always adjacent in one IPU-POD",
        "must be omitted: the data network uses the IPU-POD's subnet",
        "at most {n} bytes besides what a Poplar server needs; it has {n}",
    ),
)
