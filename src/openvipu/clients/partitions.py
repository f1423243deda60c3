"""The partition commands, which ``vipu`` and ``vipu-admin`` share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from openvipu.clients import ipuof
from openvipu.clients.session import CommandError, Session, complain, ruled, say, table
from openvipu.proto import catalog_pb2
from openvipu.proto import vipuuser_pb2 as pb
from openvipu.rules.devices import SYNC_NAMES, device_table

ROUTINGS = {"dnc": pb.IRT_DNC, "swnc": pb.IRT_SWNC, "btnc": pb.IRT_BTNC, "ringswnc": pb.IRT_RINGSWNC}
GATEWAY_ROUTINGS = {"ring": pb.GRT_RING, "swring": pb.GRT_SWRING}
SYNC_BY_NUMBER = {int(value): name for value, name in SYNC_NAMES.items()}
SYNCS = {name: int(value) for value, name in SYNC_NAMES.items()}


def add_create_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``create partition``."""
    parser.add_argument("name")
    parser.add_argument("--size", type=count, required=True, help="IPUs, a power of two")
    parser.add_argument("--allocation", default="", help="the allocation to take the IPUs from")
    parser.add_argument("--cluster", default="", help="the cluster to take the IPUs from")
    parser.add_argument(
        "--reconfigurable", action="store_true", help="show every IPU, pair, quad … as a device"
    )
    parser.add_argument("--num-gcds", type=count, default=0, help="graph compilation domains (default 1)")
    parser.add_argument("--gcd-sync-replicas", type=count, default=0, help="replicas over all GCDs")
    parser.add_argument("--num-ilds", type=count, default=0, help="IPU-Link domains to spread over")
    parser.add_argument("--routing", type=str.lower, choices=ROUTINGS, help="of the IPU-Links")
    parser.add_argument("--gw-routing", type=str.lower, choices=GATEWAY_ROUTINGS, help="of the GW-Links")
    parser.add_argument("--sync-type", type=str.lower, choices=SYNCS, help="sync between GCDs")
    parser.add_argument("--index", type=count, help="the place, by its number in --options")
    parser.add_argument("--options", action="store_true", help="list the possible places, create nothing")
    parser.add_argument("--disable-auto-reset", action="store_true", help="don't reset on errors")
    parser.add_argument("--relocatable", action="store_true", help="may move to other IPUs on errors")


def count(text: str) -> int:
    """A whole number that fits the wire (uint32)."""
    if not text.isascii() or not text.isdigit() or int(text[:11]) > 0xFFFFFFFF:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def create(session: Session, arguments: argparse.Namespace, home: Path | None) -> None:
    """Create and wait; ``home`` gets the IPUoF files (vipu only)."""
    what = f"create partition ({arguments.name})"
    wanted = _requirements(arguments)
    if arguments.options:
        _show_options(session, what, wanted)
        return
    if arguments.index is not None:
        _choose(session, what, wanted, arguments.index)
    request = pb.CreatePartitionRequest(
        requirements=wanted,
        disable_auto_reset=arguments.disable_auto_reset,
        relocatable=arguments.relocatable,
    )
    reply = session.call(what, session.users.CreatePartition, request, timeout=600)
    wait_active(session, what, arguments.name)
    if home is not None:
        config = _config(session, what, arguments.name, None)
        try:
            ipuof.write(home, arguments.name, config)
        except OSError as error:
            complain(f"the IPUoF configuration wasn't written to {error.filename}: {error.strerror}")
    session.succeeded(what, reply)


def remove(session: Session, arguments: argparse.Namespace, home: Path | None) -> None:
    """Remove and wait until nothing is left."""
    what = f"remove partition ({arguments.name})"
    request = pb.RemovePartitionRequest(partition_id=arguments.name, force=arguments.force)
    reply = session.call(what, session.users.RemovePartition, request, timeout=600)

    def done() -> bool:
        try:
            status = _status(session, what, arguments.name)
        except CommandError as failure:
            if failure.cause == "missing":
                return True
            raise
        if status.operation_state == pb.POS_FAILED:
            raise CommandError(what, "; ".join(status.errors))
        return status.ready_state == pb.PS_REMOVED

    session.wait(done)
    if home is not None:
        ipuof.remove(home, arguments.name)
    session.succeeded(what, reply)


def reset(session: Session, arguments: argparse.Namespace, home: Path | None) -> None:
    """Reset and wait; a relocated partition gets new IPUoF files."""
    what = f"reset partition ({arguments.name})"
    request = pb.ResetPartitionRequest(partition_id=arguments.name, relocatable=arguments.relocatable)
    reply = session.call(what, session.users.ResetPartition, request, timeout=600)
    wait_active(session, what, arguments.name)
    if home is not None and (home / ipuof.FOLDER).is_dir():
        ipuof.write(home, arguments.name, _config(session, what, arguments.name, None))
    session.succeeded(what, reply)


def show_all(session: Session, arguments: argparse.Namespace) -> None:
    """The table of partitions."""
    request = pb.ListPartitionsRequest(allocation_id=arguments.allocation)
    reply = session.call("list partitions", session.users.ListPartitions, request)
    session.show(reply, lambda: partition_table(list(reply.partitions), session.is_admin))


def show(session: Session, arguments: argparse.Namespace) -> None:
    """One partition, or its IPUoF configuration."""
    what = f"get partition ({arguments.name})"
    if arguments.ipuof_configs:
        _show_configs(session, what, arguments)
        return
    listed = session.call(what, session.users.ListPartitions, pb.ListPartitionsRequest())
    partition = next((entry for entry in listed.partitions if entry.id == arguments.name), None)
    if partition is None:
        raise CommandError(what, f"partition {arguments.name!r} doesn't exist")
    status = _status(session, what, arguments.name)
    session.show(
        pb.ListPartitionsReply(partitions=[partition]),
        lambda: "\n".join([partition_table([partition], session.is_admin), *_details(partition, status)]),
    )


def partition_table(partitions: list[pb.Partition], for_admin: bool) -> str:
    """The columns that scripts read. The users' table is public: names, order and spelling.

    Administrators' scripts take the partition from the third column [C], where the first two say where it
    was cut from; which of them comes first is not public, the wider one is our choice. Every cell is one
    word, since scripts split lines at blanks too.
    """
    own = ["Cluster", "Allocation", "Partition"] if for_admin else ["Partition", "Cluster"]
    rows = [
        [
            *(
                [entry.spec.cluster_id, entry.spec.allocation_id or "-", entry.id]
                if for_admin
                else [entry.id, entry.spec.cluster_id]
            ),
            entry.spec.num_ipulink_segments,
            _short(pb.GatewayRoutingType.Name(entry.spec.gw_routing_type)),
            _short(pb.IpuLinkRoutingType.Name(entry.spec.ipulink_routing_type)),
            len(entry.spec.ipus),
            entry.spec.num_gcds,
            _short(pb.PartitionReadyState.Name(entry.ready_state)),
        ]
        for entry in partitions
    ]
    header = [*own, "ILDs", "GW Routing", "ILD Routing", "Size", "GCDs", "State"]
    return ruled(table(header, rows), below=True)


def wait_active(session: Session, what: str, name: str) -> None:
    """Return when the partition is ACTIVE and idle; CommandError when it has become FAILED or is gone."""

    def done() -> bool:
        status = _status(session, what, name)
        if status.operation_state == pb.POS_FAILED:
            raise CommandError(what, "; ".join(status.errors))
        if status.ready_state == pb.PS_REMOVED or status.operation_state == pb.POS_REMOVING:
            raise CommandError(what, "the partition was removed meanwhile")
        return status.ready_state == pb.PS_ACTIVE and status.operation_state == pb.POS_IDLE

    session.wait(done)


def _requirements(arguments: argparse.Namespace) -> pb.PartitionRequirements:
    return pb.PartitionRequirements(
        id=arguments.name,
        size=arguments.size,
        cluster_id=arguments.cluster,
        allocation_id=arguments.allocation,
        reconfigurable=arguments.reconfigurable,
        num_gcds=arguments.num_gcds,
        num_replicas=arguments.gcd_sync_replicas,
        num_ipulink_segments=arguments.num_ilds,
        ipulink_routing_type=ROUTINGS[arguments.routing] if arguments.routing else None,
        gw_routing_type=GATEWAY_ROUTINGS[arguments.gw_routing] if arguments.gw_routing else None,
        sync_type=pb.SyncType.Name(SYNCS[arguments.sync_type]) if arguments.sync_type else None,
    )


def _options(session: Session, what: str, wanted: pb.PartitionRequirements) -> Any:
    request = catalog_pb2.ListPartitionOptionsRequest(requirements=wanted)
    return session.call(what, session.catalog.ListPartitionOptions, request)


def _show_options(session: Session, what: str, wanted: pb.PartitionRequirements) -> None:
    reply = _options(session, what, wanted)
    header = ["Index", "Cluster", "Allocation", "ILD", "IPUs", "Agents", "Free", "Preferred"]
    rows = [
        [
            option.index,
            option.cluster_id,
            option.allocation_id or "-",
            option.ipus[0].ipulink_domain_topology_id,
            f"{option.ipus[0].topology_id}-{option.ipus[-1].topology_id}",
            " ".join(option.agent_ids),
            "yes" if option.free else "no",
            "*" if option.preferred else "",
        ]
        for option in reply.options
    ]
    session.show(reply, lambda: ruled(table(header, rows)))


def _choose(session: Session, what: str, wanted: pb.PartitionRequirements, index: int) -> None:
    """Turn ``--index`` into the exact choice of IPUs that the public API has a field for.

    A sync type that can't be reconfigurable is no error with an index [user guide]: the controller passes over it,
    so the places are asked for without it.
    """
    if wanted.reconfigurable:
        wanted.ClearField("sync_type")
    found = list(_options(session, what, wanted).options)
    option = next((entry for entry in found if entry.index == index), None)
    if option is None:
        raise CommandError(
            what, f"index {index} is not allowed; --options has the indices 0 to {len(found) - 1}", 2
        )
    wanted.cluster_id = option.cluster_id
    wanted.allocation_id = option.allocation_id
    wanted.ipus.extend(option.ipus)


def _show_configs(session: Session, what: str, arguments: argparse.Namespace) -> None:
    """Print IPUoF configurations: with ``--gcd`` one file alone; without it a header line, then one JSON document.

    Scripts drop the first line and read the rest [C]: an object for one GCD, a list of them for several (our choice).
    """
    config = _config(session, what, arguments.name, arguments.gcd)
    if arguments.gcd is not None:
        say(ipuof.text(config.gcd_configs[0]))
        return
    ids = [str(ipuof.gcd_id(gcd)) for gcd in config.gcd_configs]
    say(f"IPUoF configuration of partition {arguments.name}, GCD{'s' * (len(ids) > 1)} {', '.join(ids)}:")
    texts = [ipuof.text(gcd) for gcd in config.gcd_configs]
    say(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _config(session: Session, what: str, name: str, gcd: int | None) -> pb.PartitionConfig:
    wanted = None if gcd is None else pb.GetPartitionIpuofConfigRequest.GcdID(id=gcd)
    request = pb.GetPartitionIpuofConfigRequest(partition_id=name, gcd_id=wanted)
    return session.call(what, session.users.GetPartitionIpuofConfig, request).ipuof_config


def _status(session: Session, what: str, name: str) -> pb.PartitionStatus:
    request = pb.GetPartitionStatusRequest(partition_id=name)
    return session.call(what, session.users.GetPartitionStatus, request).status


def _details(partition: pb.Partition, status: pb.PartitionStatus) -> list[str]:
    spec = partition.spec
    gcd_size = len(spec.ipus) // max(1, spec.num_gcds)
    devices = device_table(gcd_size, spec.reconfigurable)
    lines = [
        "",
        f" Allocation      : {spec.allocation_id or '-'}",
        f" Replicas        : {spec.num_replicas}",
        f" Sync type       : {SYNC_BY_NUMBER.get(spec.sync_type, spec.sync_type)}",
        f" Reconfigurable  : {'yes' if spec.reconfigurable else 'no'}",
        f" Devices per GCD : {len(devices)}",
        f" Operation       : {_short(pb.PartitionOperationState.Name(status.operation_state))}",
        f" Auto-resets     : {status.auto_reset_retry_count} of {status.max_auto_reset_retries}",
    ]
    return lines + [f" Error           : {error}" for error in status.errors]


def _short(name: str) -> str:
    """An enumerator without its prefix; UNDEFINED is what was left to the controller: DEFAULT."""
    word = name.partition("_")[2]
    return "DEFAULT" if word == "UNDEFINED" else word
