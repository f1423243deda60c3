"""What tenants may be told of orders of IPUs."""

from __future__ import annotations

from weft.planning.shapes.shape import Sayings

SAYS = Sayings(
    places=("IPU-POD",),
    refusals=(
        "{place} has {n} Poplar servers with room, {n} are needed…",
        "{place} has {n} nodes for V-IPU controllers with room, {n} are needed…",
        *(
            f"{{place}} has no free run of {{n}} {what} ({{n}} IPUs): {{n}} are free, the longest run of them is {{n}}"
            for what in ("IPU-Machine", "neighbouring IPU-Machines")
        ),
        "{place}: all VLANs of its data network are in use",
        "{place}: all addresses for V-IPU controllers are in use",
    ),
    changes=(
        "ipus.count: {n}",
        "ipus.count: {n} instead of {n}",
        "no ipus.ipu_pod: another IPU-POD has room",
    ),
    allowed=(
        "left out with ipu: IPUs are always neighbours in one IPU-POD",
        "IPU-PODs of cloud {node}: {list}",
        "cloud {node} has no IPU-POD",
        "at most {n} Poplar servers",
        "0 or left out: orders of IPUs have no spares",
        "an order of IPUs has no fabric but the IPU-POD's own data network",
        "IPUs are always neighbours in one IPU-POD",
        "the subnet of the data network is the IPU-POD's own: leave it out",
        "it has {n} bytes; with what a Poplar server needs Nova takes {n}",
    ),
)
