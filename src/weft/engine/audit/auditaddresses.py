"""The audit of other projects' ports that have MAC addresses which weft chose for pods, or may send from these, or from
pods' IP addresses on the same network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.engine.audit.findings import Findings
from weft.engine.base.world import World
from weft.engine.proof.duplicatemacs import DuplicateMac, addresses, duplicate_mac, ports_by_mac, same_among
from weft.engine.proof.membership import members_of
from weft.engine.rows.records import PodRecord, ResourceRecord
from weft.model.errors import WeftError
from weft.model.kinds import Kind
from weft.ports.tenantnetworks import End, TenantPort

_REPAIR = "nothing here: it is removed if it is on a network that is a pod's alone, as a finding of that pod"

_PAIR = "nothing: its owner, or an operator, takes the pair off it"


@dataclass(frozen=True, slots=True)
class AddressedPod:
    """A pod and its rows by key, and the MAC addresses that weft chose for it, in lower case."""

    pod: PodRecord
    records: Mapping[str, ResourceRecord]
    macs: frozenset[str]

    @classmethod
    def of(cls, pod: PodRecord, records: Sequence[ResourceRecord]) -> AddressedPod:
        """From a pod's row and those of its resources."""
        by_key = {r.key: r for r in records}
        return cls(pod, by_key, addresses(by_key, members_of(pod, records)))


def report_addresses(
    found: Findings, one: AddressedPod, ports: Mapping[str, Sequence[TenantPort]] | WeftError
) -> None:
    """Report others' ports with a pod's addresses. Args: ports: by MAC address, on all networks of its cloud."""
    if not one.macs:
        return
    pod = one.pod
    cloud, mine = pod.plan.cloud, {"pod": pod.name, "pod_id": str(pod.id)}
    if isinstance(ports, WeftError):
        seen: Sequence[DuplicateMac] | WeftError = ports
    else:
        its = [port for mac in sorted(one.macs) for port in ports.get(mac, ())]
        seen = same_among(pod, one.records, sorted(its, key=lambda p: p.id))
    if isinstance(seen, WeftError):
        found.add("unknown", "port", cloud, pod.name, str(seen), **mine)
        return
    for other in seen:
        what, thing = other.problem.text(), other.problem.detail["thing"]
        found.add("foreign", "port", cloud, thing, what, id=other.port.id, repair=_REPAIR, **mine)


def audit_pairs(
    found: Findings, pods: Iterable[tuple[PodRecord, Sequence[ResourceRecord]]], world: World
) -> None:
    """Check the addresses of all pods; a cloud's ports are listed once."""
    by_cloud: dict[str, list[tuple[PodRecord, Mapping[str, ResourceRecord]]]] = {}
    for pod, records in pods:
        by_cloud.setdefault(pod.plan.cloud, []).append((pod, {r.key: r for r in records}))
    for cloud, here in sorted(by_cloud.items()):
        owned = {mac: (pod, rows) for pod, rows in here for mac in _addresses(pod, rows)}
        ends = {end: (pod, r) for pod, rows in here for r in rows.values() if (end := _end(r)) is not None}
        if not (owned or ends) or cloud not in world.clouds:
            continue
        try:
            macs, there = world.clouds[cloud].pairs_with(here[0][0].project_id, owned.keys(), ends.keys())
        except WeftError as error:
            found.add("unknown", "port", cloud, "address pairs", str(error))
            continue
        ids = {p.id: frozenset(r.outside_id for r in rows.values()) for p, rows in here}
        for mac, ports in sorted(macs.items()):
            pod, rows = owned[mac]
            for port in (p for p in ports if p.id not in ids[pod.id]):
                one = duplicate_mac(port, mac, ports_by_mac(rows), pod, _HOW)
                _say(found, pod, port, one.problem.detail["thing"], one.problem.text())
        for end, ports in sorted(there.items()):
            pod, record = ends[end]
            for port in (p for p in ports if p.id not in ids[pod.id]):
                thing = duplicate_mac(port, "", {}, pod, _HOW).problem.detail["thing"]
                what = f"port {record.resource.name} is not the only one with its address {end[1]}: {thing}"
                _say(found, pod, port, thing, what)


_HOW = " that may send from it (allowed_address_pairs)"


def _say(found: Findings, pod: PodRecord, port: TenantPort, thing: str, what: str) -> None:
    mine = {"pod": pod.name, "pod_id": str(pod.id)}
    found.add("foreign", "port", pod.plan.cloud, thing, what, id=port.id, repair=_PAIR, **mine)


def _end(record: ResourceRecord) -> End | None:
    """Network and address of a pod's port, as last observed; None: not a port, or never observed."""
    network, address = record.facts.get("network"), record.facts.get("address")
    seen = record.kind is Kind.PORT and record.wanted and network and address
    return (str(network), str(address)) if seen else None


def _addresses(pod: PodRecord, records: Mapping[str, ResourceRecord]) -> frozenset[str]:
    return addresses(records, members_of(pod, records.values()))
