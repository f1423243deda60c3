"""Nodes behind a stand-in for `ssh`: it runs what it is given here, with a sysfs and a perftest of the node's own.

What they print are the forms of the captures in `tests/data/bandwidth`; rates are planted by pair and device.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SSH = r"""#!/bin/sh
while [ "$1" != -- ]; do case "$*" in *"-O exit"*) exit 0;; esac; shift; done; shift
h=${1#*@}; shift; export NODE="@ROOT@/$h" PATH="@ROOT@/bin:$PATH"
[ -d "$NODE" ] || exit 255
case "$1" in
"sh -s") sed "s#/sys/class/infiniband#$NODE/infiniband#g" | exec sh -s;;
*) exec sh -c "$(printf '%s' "$*" | sed "s#/run/lock#$NODE#")";;
esac
"""
_TOOL = r"""#!/bin/sh
device=$2
for last; do :; done
[ -d "@ROOT@/$last" ] || { sleep 0.2; exit 0; } # the side that listens
said="$NODE/rates/$device-$last"
[ -f "$said" ] || said="$NODE/rates/default"
rate=$(cat "$said")
case "$rate" in [0-9]*) ;; *) echo "$rate"; exit 1;; esac
printf ' Link type       : IB\n rdma_cm QPs\t : OFF\n'
printf ' #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n'
printf ' 1048576    95000            0.00               %s   \t\t   0.04\n' "$rate"
"""


class RdmaNodes:
    """A folder with the stand-ins, and a folder for each node by its address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        for name, text in (("ssh", _SSH), ("ib_write_bw", _TOOL)):
            path = folder / "bin" / name
            path.write_text(text.replace("@ROOT@", str(folder)))
            path.chmod(0o755)

    @property
    def ssh(self) -> str:
        """The command of `--ssh`."""
        return shlex.quote(str(self.folder / "bin" / "ssh"))

    def build(self, plan: Mapping[str, Any], share: float = 0.98) -> None:
        """The nodes of a plan, each adapter at a share of its nominal rate."""
        for node in plan["nodes"]:
            home = self.folder / (node["address"] or node["name"])
            (home / "rates").mkdir(parents=True, exist_ok=True)
            for adapter in node["adapters"]:
                port = home / "infiniband" / f"mlx5_{adapter['rail']}" / "ports" / "1"
                guid = adapter["guid"].removeprefix("0x")
                words = ":".join(guid[i : i + 4] for i in range(0, 16, 4))
                files = {
                    "../../node_guid": words,
                    "state": "4: ACTIVE",
                    "link_layer": "InfiniBand",
                    "gids/0": f"fe80:0000:0000:0000:{words}",
                    "pkeys/0": "0x7fff",
                    "pkeys/1": plan["pkey"] or "0x0000",
                }
                for name, text in files.items():
                    (port / name).parent.mkdir(parents=True, exist_ok=True)
                    (port / name).write_text(text + "\n")
                (home / "rates" / "default").write_text(f"{share * adapter['gbps']:.2f}")

    def plant(self, sender: str, rail: int, receiver: str, said: str) -> None:
        """What one direction prints from now on: Gb/s, or an error. Nodes by address."""
        (self.folder / sender / "rates" / f"mlx5_{rail}-{receiver}").write_text(said)
