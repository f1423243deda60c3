"""From requirements to a shape: every "choose for me" is decided, every impossible request refused."""

from __future__ import annotations

from openvipu.model.errors import BadRequest
from openvipu.model.names import check_id
from openvipu.model.partition import GatewayRouting, Requirements, Routing, Shape, SyncType
from openvipu.model.site import IPUS_PER_MACHINE, Cluster, ClusterTopology, Topology
from openvipu.rules.board import is_power_of_two

LARGEST = 1 << 16
"""Refused above this before any arithmetic: far beyond every POD that was built. Our choice."""

DNC_LIMIT = 16
"""DNC was seen for 4 and 16 IPUs and not beyond [seen]; larger segments slide. Our choice of the edge."""


def check_requirements(wanted: Requirements) -> None:
    """Refuse what no cluster could ever give, field by field.

    Sizes are powers of two [user guide]; so are the numbers of GCDs and replicas, which divide it.
    An exact choice of IPUs names its cluster [API].
    """
    check_id("partition id", wanted.id)
    for field, value in (("cluster_id", wanted.cluster_id), ("allocation_id", wanted.allocation_id)):
        if value:
            check_id(field, value)
    if wanted.ipus and not wanted.cluster_id:
        raise BadRequest("ipus were given without cluster_id; an exact choice of IPUs needs its cluster")
    if wanted.ipus and wanted.size not in (0, len(wanted.ipus)):
        raise BadRequest(
            f"size is {wanted.size} but {len(wanted.ipus)} ipus were given; give one or the same"
        )
    _check_count("size", wanted.size or len(wanted.ipus))
    for field, value in (
        ("num_gcds", wanted.gcds),
        ("num_replicas", wanted.replicas),
        ("num_ipulink_segments", wanted.segments),
    ):
        if value:
            _check_count(field, value)


def resolve(wanted: Requirements, cluster: Cluster) -> Shape:
    """The shape of ``wanted`` in ``cluster``, or BadRequest with the field and what is allowed."""
    check_requirements(wanted)
    size = wanted.size or len(wanted.ipus)
    segments = _segments(wanted, size, cluster)
    gcds = wanted.gcds or 1
    if gcds > size:
        raise BadRequest(f"num_gcds {gcds} is more than the {size} IPUs of the partition")
    return Shape(
        size=size,
        segments=segments,
        gcds=gcds,
        replicas=_replicas(wanted, gcds, size),
        reconfigurable=wanted.reconfigurable,
        routing=_routing(wanted, size // segments, cluster),
        gw_routing=_gateway_routing(wanted, segments, cluster),
        sync_type=_sync_type(wanted),
    )


def _check_count(field: str, value: int) -> None:
    if not is_power_of_two(value) or value > LARGEST:
        raise BadRequest(f"{field} {value} is not allowed; use a power of two from 1 to {LARGEST}")


def _segments(wanted: Requirements, size: int, cluster: Cluster) -> int:
    """One segment by default [API]; more when the size needs several IPU-Link domains, as 128 IPUs of two
    POD64 without the option do [seen]. The GW-Links belong to the machine and not to an IPU, so that
    a segment of several has whole machines: our choice, since two tenants can't share a gateway.
    """
    segments = wanted.segments or max(1, size // cluster.ild_size)
    if segments > cluster.ilds:
        raise BadRequest(
            f"size {size} needs {segments} IPU-Link domains; cluster {cluster.id!r} has {cluster.ilds} "
            f"of {cluster.ild_size} IPUs"
        )
    if size // segments > cluster.ild_size:
        raise BadRequest(
            f"num_ipulink_segments {segments} puts {size // segments} IPUs in one IPU-Link domain; "
            f"those of cluster {cluster.id!r} have {cluster.ild_size}"
        )
    if segments > 1 and size // segments < IPUS_PER_MACHINE:
        raise BadRequest(
            f"num_ipulink_segments {segments} is too many for {size} IPUs; a segment of several "
            f"has at least the {IPUS_PER_MACHINE} IPUs of a machine"
        )
    return segments


def _replicas(wanted: Requirements, gcds: int, size: int) -> int:
    """As many replicas as GCDs by default [API]; each GCD holds equally many, each at least one IPU."""
    replicas = wanted.replicas or gcds
    if not gcds <= replicas <= size:
        raise BadRequest(
            f"num_replicas {replicas} is not allowed; use {gcds} (the GCDs) to {size} (the IPUs)"
        )
    return replicas


def _routing(wanted: Requirements, segment: int, cluster: Cluster) -> Routing:
    """RINGSWNC needs the loop, so a whole torus domain [seen for 64 of 64]; DNC was seen up to 16.

    BTNC only on request, from two machines on: with less there is nothing to twist. Our choice.
    """
    whole_ring = cluster.topology is Topology.TORUS and segment == cluster.ild_size
    looped = whole_ring and cluster.machines_per_ild > 1
    if wanted.routing is Routing.UNDEFINED:
        if looped:
            return Routing.RINGSWNC
        return Routing.DNC if segment <= DNC_LIMIT else Routing.SWNC
    if wanted.routing is Routing.RINGSWNC and not looped:
        raise BadRequest(
            f"ipulink_routing_type RINGSWNC needs a whole torus IPU-Link domain; the segment has {segment} of "
            f"{cluster.ild_size} IPUs of a {cluster.topology.value}"
        )
    if wanted.routing is Routing.DNC and segment > DNC_LIMIT:
        raise BadRequest(
            f"ipulink_routing_type DNC reaches {DNC_LIMIT} IPUs; the segment has {segment}; use SWNC"
        )
    least = {Routing.SWNC: IPUS_PER_MACHINE, Routing.BTNC: 2 * IPUS_PER_MACHINE}.get(wanted.routing, 1)
    if segment < least:
        raise BadRequest(
            f"ipulink_routing_type {wanted.routing.name} needs {least} IPUs in a segment; it has {segment}"
        )
    return wanted.routing


def _gateway_routing(wanted: Requirements, segments: int, cluster: Cluster) -> GatewayRouting:
    """RING for looped GW-Links, SWRING for switched ones [seen]; none with one segment [API]."""
    if segments == 1:
        if wanted.gw_routing is not GatewayRouting.UNDEFINED:
            raise BadRequest(
                f"gw_routing_type {wanted.gw_routing.name} is for several segments; this partition has one"
            )
        return GatewayRouting.UNDEFINED
    fitting = {
        ClusterTopology.LOOPED: GatewayRouting.RING,
        ClusterTopology.SWITCHED: GatewayRouting.SWRING,
    }[cluster.gateway]
    if wanted.gw_routing not in (GatewayRouting.UNDEFINED, fitting):
        raise BadRequest(
            f"gw_routing_type {wanted.gw_routing.name} doesn't fit the {cluster.gateway.value} GW-Links "
            f"of cluster {cluster.id!r}; use {fitting.name}"
        )
    return fitting


def _sync_type(wanted: Requirements) -> SyncType:
    """Reconfigurable partitions are c2-compatible (GS2_DEFAULT), and only they default to it [user guide].

    Any other sync type is refused for them, unless the place was chosen (``--index``): then it is passed over
    without a word [user guide]. Independent rails are marked as unsupported in the public API, so they are
    refused here.
    """
    if wanted.reconfigurable and wanted.ipus:
        return SyncType.GS2_DEFAULT
    if wanted.sync_type is SyncType.GS2_INDEPENDENT_RAILS:
        raise BadRequest(
            "sync_type GS2_INDEPENDENT_RAILS is not supported; use GS2_DEFAULT or a POD_NATIVE one"
        )
    if wanted.reconfigurable:
        if wanted.sync_type not in (SyncType.UNDEFINED, SyncType.GS2_DEFAULT):
            raise BadRequest(
                f"sync_type {wanted.sync_type.name} can't be reconfigurable; only c2-compatible (GS2_DEFAULT) can"
            )
        return SyncType.GS2_DEFAULT
    return wanted.sync_type or SyncType.POD_NATIVE_DEFAULT
