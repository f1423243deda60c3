"""`weft pod topology`: where a pod's servers are, as a file for programs that place and start jobs."""

from __future__ import annotations

import argparse
import sys

from weft.cli.common import Subparsers, client_of, leaf, warn


def add_commands(commands: Subparsers) -> None:
    """Register the command."""
    parser = leaf(
        commands,
        "topology",
        topology,
        "write where a pod's servers are, for Slurm, Kubernetes, MPI, NCCL and others",
        json_=False,
    )
    parser.add_argument("name", metavar="NAME", help="name or id of the pod")
    parser.add_argument(
        "--format",
        dest="topology_format",
        metavar="FORMAT",
        default="json",
        help="slurm-conf, slurm-block-conf, slurm-yaml, kubernetes, nodefeature, kueue, topograph, hostfile, "
        "hostfile-mpich, rankfile, nccl-env, nccl-xml, ucx, weft-check or json (default json)",
    )


def topology(args: argparse.Namespace) -> int:
    """The file on stdout; on stderr, the servers that aren't in it."""
    text, left_out = client_of(args).pods.topology(args.name, args.topology_format)
    for one in left_out:
        warn(f"weft: left out: {one}")
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0
