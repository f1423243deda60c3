"""`weft lab up|status|down|env|lie|lies|truth`, also as `python -m weftlab`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weftlab import liarcli
from weftlab.layout import DEFAULT_PORTS, LabError


def add_commands(subparsers: Any) -> None:
    """Add `lab` with its own sub-commands; each sets `run`, a function of the parsed arguments to the exit code."""
    lab = subparsers.add_parser("lab", help="an AI cloud on this machine, for trying and testing weft")
    commands = lab.add_subparsers(dest="lab_command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start the lab")
    _size_options(up)
    _kind_options(up)
    _cloud_options(up)
    status = commands.add_parser("status", help="show the state of each service; exit code 1 if one is down")
    status.add_argument("--json", action="store_true")
    down = commands.add_parser("down", help="stop the lab and remove its state")
    env = commands.add_parser("env", help="print shell commands that point OpenStack clients at the lab")
    lying = liarcli.add_commands(commands, lambda args: _lab(args).liar())
    for parser in (up, status, down, env, *(parser for parser, _ in lying)):
        parser.add_argument(
            "--state", type=Path, help="state directory (default $WEFT_LAB_STATE, or the user's)"
        )
        parser.add_argument(
            "--cache", type=Path, help="directory for programs and databases (default ~/.cache/weft)"
        )
    for parser, run in ((up, _up), (status, _status), (down, _down), (env, _env), *lying):
        parser.set_defaults(run=_guarded(run))


def _size_options(up: argparse.ArgumentParser) -> None:
    """Add the options for the size of a lab."""
    up.add_argument("--nodes", type=int, default=16, help="GPU nodes in the fabric (default 16)")
    up.add_argument("--leaves", type=int, help="leaf switches (default 4; more from 81 nodes on)")
    up.add_argument("--spines", type=int, help="spine switches (default 2; half as many as leaves)")
    up.add_argument("--hcas", type=int, help="HCAs per node (default 2; 1 if a leaf has too few ports)")
    up.add_argument(
        "--computes", type=int, help="how many of the nodes are in Nova (default: all, at most 16)"
    )
    up.add_argument("--ipus", type=int, help="IPUs of the IPU-POD: 0, 4, 16 or 64 (default 16)")
    up.add_argument("--ports", type=int, help=f"first TCP port, on 127.0.0.1 (default {DEFAULT_PORTS})")
    up.add_argument("--without", nargs="+", default=[], metavar="SERVICE", help="services to leave out")


def _kind_options(up: argparse.ArgumentParser) -> None:
    """Add the options for the kind of fabric."""
    up.add_argument(
        "--fabric-manager",
        choices=["opensm", "ufm"],
        default="opensm",
        help="fabric manager that weft uses: OpenSM (default), or a stand-in for NVIDIA UFM in front of it",
    )
    up.add_argument(
        "--fabric",
        choices=["infiniband", "ethernet", "both"],
        default="infiniband",
        help="infiniband: simulated, with OpenSM (default); ethernet: Open vSwitch switches that forward frames; "
        "both: InfiniBand, and four more nodes on Ethernet",
    )
    up.add_argument(
        "--switches",
        choices=["mixed", "eos", "nvue", "sonic", "ovs"],
        default="mixed",
        help="API of the Ethernet switches: Arista eAPI, NVUE, SONiC RESTCONF, OVSDB, or one of each (default)",
    )
    up.add_argument("--only", choices=["fabric"], help="only the fabric, without OpenStack")
    up.add_argument(
        "--tenant-networks",
        action="store_true",
        help="partitions for tenants' own InfiniBand networks; networking-mlnx's driver in Neutron notifies weft",
    )


def _cloud_options(up: argparse.ArgumentParser) -> None:
    """Add the options for further services of OpenStack, machines and guests."""
    up.add_argument("--metal", type=int, default=0, metavar="N", help="bare-metal machines in a real Ironic")
    up.add_argument(
        "--machines-by",
        choices=["nova", "ironic"],
        default="nova",
        help="service that deploys the machines: Nova with its ironic driver (default), or Ironic without Nova",
    )
    up.add_argument(
        "--guests",
        action="store_true",
        help="boot servers of GPU nodes on InfiniBand as small virtual machines, on the management network, "
        "and bare-metal machines",
    )
    up.add_argument(
        "--storage",
        action="store_true",
        help="a real Cinder with its fake driver, and a real Manila whose shares NFS-Ganesha exports",
    )
    up.add_argument(
        "--ldap",
        action="store_true",
        help="a customer's LDAP directory (slapd), and a Keystone with domain-specific configuration",
    )
    up.add_argument(
        "--liar",
        action=argparse.BooleanOptionalAction,
        help="a fault-injecting proxy between weft and OpenStack (`weft lab lie`); also for a running lab",
    )


def _guarded(run: Any) -> Any:
    def guarded(args: argparse.Namespace) -> int:
        from weftlab.liar import LiarError
        from weftlab.supervisor import JobError

        try:
            return run(args)
        except (LabError, LiarError) as error:
            print(f"weft lab: {error}", file=sys.stderr)
            return 2
        except JobError as error:
            print(f"weft lab: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("weft lab: interrupted", file=sys.stderr)
            return 130

    return guarded


def _lab(args: argparse.Namespace, **more: Any) -> Any:
    from weftlab.lab import Lab

    return Lab(args.state, args.cache, say=_say, **more)


def _say(line: str) -> None:
    """Print a line in one write: several threads report."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _up(args: argparse.Namespace) -> int:
    lab = _lab(
        args,
        ports=args.ports,
        nodes=args.nodes,
        leaves=args.leaves,
        spines=args.spines,
        hcas=args.hcas,
        computes=args.computes,
        ipus=args.ipus,
        left_out=tuple(args.without),
        fabric_only=args.only == "fabric",
        fabric_manager=args.fabric_manager,
        fabric=args.fabric,
        switches=args.switches,
        liar=bool(args.liar),
        tenant_networks=args.tenant_networks,
        metal=args.metal,
        machines_by=args.machines_by,
        guests=args.guests,
        storage=args.storage,
        ldap=args.ldap,
    )
    other = lab.running and args.liar is not None and lab.set_liar(args.liar)
    if not lab.up() and not other:
        print(f"the lab in {lab.state} is up already")
        return 0
    nodes = [n for n in lab.site.nodes if n.role == "compute"]
    lab.say(f"up: {len(nodes)} nodes, {sum(n.maintenance is None for n in nodes)} of them in Nova")
    where = f" --state {shlex.quote(str(lab.state))}" if args.state else ""
    print(f"site:        {lab.site_path}")
    if not lab.settings.fabric_only:
        print(f"clouds.yaml: {lab.clouds_yaml}")
        print(f'shell:       eval "$(weft lab env{where})"')
    if lab.settings.liar:
        print(f"liar:        weft lab lies --names{where}")
    return 0


def _status(args: argparse.Namespace) -> int:
    lab = _lab(args)
    states = lab.status()
    if args.json:
        print(json.dumps({"state": str(lab.state), "services": [asdict(s) for s in states]}, indent=1))
    elif not states:
        print(f"no lab in {lab.state}")
    else:
        for s in states:
            print(f"{s.name:24} {'up' if s.up else 'DOWN':5} {s.pid or '':>8}  {s.why}".rstrip())
        for s in states:
            if not s.up and s.logs:
                print(f"\n{s.name}: {s.why}\n{s.logs}")
    return 0 if states and all(s.up for s in states) else 1


def _down(args: argparse.Namespace) -> int:
    lab = _lab(args)
    print(f"the lab in {lab.state} is down" if lab.down() else f"no lab in {lab.state}")
    return 0


def _env(args: argparse.Namespace) -> int:
    lab = _lab(args)
    if not lab.running:
        raise LabError(f"no lab in {lab.state}: `weft lab up` starts one")
    print(f"export OS_CLIENT_CONFIG_FILE={lab.clouds_yaml}")
    print("export OS_CLOUD=team-a")
    print(f"export WEFT_SITE={lab.site_path}")
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run a command of the lab; returns its exit code."""
    parser = argparse.ArgumentParser(prog="weftlab")
    add_commands(parser.add_subparsers(required=True, metavar="COMMAND"))
    args = parser.parse_args(argv)
    return args.run(args)
