"""`weft pod example [KIND]`: a pod file with comments, to begin with."""

from __future__ import annotations

import argparse

from weft.cli.common import Subparsers, leaf, say

_HEAD = """\
# {what}
# What can be ordered here: weft pod plan -f FILE changes nothing; weft capacity shows what is free.
name: {name}  # of the pod, unique in the project
"""
_ACCESS = """\
access:
  key_pair: my-key               # of Nova (openstack keypair list), or: ssh_key: ssh-ed25519 AAAA...
  floating_ip: first             # the first server gets a public address (each: all of them; none)
  ssh_from: [0.0.0.0/0]          # SSH is let in from here: give your own networks instead
# lease:
#   duration: 12h                # from READY; or end: 2036-06-30T18:00:00Z. Without it the pod stays
# queue: true                    # wait if there is no capacity now, instead of being refused
"""
_KINDS = {
    "gpu": (
        "Whole GPU nodes with an RDMA network of their own.",
        """\
nodes:
  count: 2
  accelerators: {type: h100, count: 8}   # the smallest flavor that has them; or flavor: NAME
  image: ubuntu-24.04            # of Glance (openstack image list)
  # spare: 1                     # held idle, to replace a node that fails
locality:
  required: site                 # all within one leaf, block, hall, building or the site
  preferred: leaf
"""
        + _ACCESS,
    ),
    "parts": (
        "Servers with some of a node's GPUs each, on nodes that other pods may share; no RDMA network.",
        """\
nodes:
  count: 2
  sharing: shared
  accelerators: {type: h100, count: 4}
  image: ubuntu-24.04            # of Glance (openstack image list)
fabric: none
"""
        + _ACCESS,
    ),
    "storage": (
        "GPU nodes with a share that stays when the pod is released, a volume each, and local disks.",
        """\
nodes:
  count: 2
  accelerators: {type: h100, count: 8}
  image: ubuntu-24.04            # of Glance (openstack image list)
storage:
  - {share: data, size: 100GiB, mount: /data, keep: true}   # Manila; keep: stays when the pod is released
  - {volume: work, size: 50GiB, mount: /work}               # Cinder; one for each server
  # - {export: home, mount: /mnt/home, read_only: true}     # of the site, if it describes one
  # - {scratch: nvme, mount: /scratch}                      # the nodes' own disks
"""
        + _ACCESS,
    ),
    "ipu": (
        "IPU-Machines with a V-IPU controller, and servers with Poplar.",
        """\
ipus: {count: 16}                # 4, 8, 16, 32 or 64: whole IPU-Machines of four
nodes:
  count: 1                       # Poplar servers, each on a different host
  flavor: poplar                 # of Nova (openstack flavor list)
  image: ubuntu                  # of Glance (openstack image list), with Poplar
"""
        + _ACCESS,
    ),
}
KINDS = tuple(_KINDS)


def add_commands(commands: Subparsers) -> None:
    """Register `weft pod example`."""
    what = "print a pod file with comments, to begin with"
    parser = leaf(commands, "example", example, what, api=False, json_=False)
    parser.add_argument("kind", metavar="KIND", nargs="?", choices=KINDS, default="gpu",
                        help=f"{', '.join(KINDS)} (default gpu)")  # fmt: skip


def example(args: argparse.Namespace) -> int:
    """`weft pod example`."""
    say(text(args.kind).rstrip())
    return 0


def text(kind: str) -> str:
    """The example file of a kind of pod."""
    what, body = _KINDS[kind]
    return _HEAD.format(what=what, name=f"my-{kind}") + body
