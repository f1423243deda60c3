"""`GET /metrics` of a fabric agent: ports' counters in Prometheus' text format.

Names and labels are those of `infiniband_exporter` (treydock), which existing dashboards use. Labels only name
hardware: tenants come and go, and would start new series each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.fabricagent.counters import WORD, CountersReading, Port, PortCounts
from weft.model.agentlinks import PlainText
from weft.model.ids import format_guid
from weft.model.observedfabric import ObservedNode

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_DATA = (
    ("transmit_data_bytes", "PortXmitData"),
    ("receive_data_bytes", "PortRcvData"),
    ("transmit_packets", "PortXmitPkts"),
    ("receive_packets", "PortRcvPkts"),
    ("transmit_wait", "PortXmitWait"),
)
_ERRORS = (
    ("symbol_error", "SymbolErrorCounter"),
    ("link_error_recovery", "LinkErrorRecoveryCounter"),
    ("link_downed", "LinkDownedCounter"),
    ("receive_errors", "PortRcvErrors"),
    ("receive_remote_physical_errors", "PortRcvRemotePhysicalErrors"),
    ("receive_switch_relay_errors", "PortRcvSwitchRelayErrors"),
    ("transmit_discards", "PortXmitDiscards"),
    ("transmit_constraint_errors", "PortXmitConstraintErrors"),
    ("receive_constraint_errors", "PortRcvConstraintErrors"),
    ("local_link_integrity_errors", "LocalLinkIntegrityErrors"),
    ("excessive_buffer_overrun_errors", "ExcessiveBufferOverrunErrors"),
    ("vl15_dropped", "VL15Dropped"),
)
"""In the order of `weft.fabricagent.mad.ERROR_COUNTERS`."""
_KINDS = {"switch": "switch", "ca": "hca"}


def metrics(reading: CountersReading, age: float, ends: Mapping[str, float] | None = None) -> PlainText:
    """The agent's metrics: a reading of the counters, and the ends of its certificates.

    Args:
        age: seconds since it began.
        ends: name of a certificate of the agent -> when it ends, in seconds since 1970.
    """
    lines = [*_lines(reading, age), *_certificates(ends or {})]
    return PlainText(media_type=MEDIA_TYPE, text="\n".join(lines) + "\n")


def _certificates(ends: Mapping[str, float]) -> Iterator[str]:
    """Ends of the certificates, under the name that weft's API uses for its own."""
    metric = "weft_certificate_not_after_seconds"
    if ends:
        yield from _family(metric, "When a certificate of the agent's ends, in seconds since 1970.", "gauge")
    yield from (f'{metric}{{certificate="{name}"}} {end:.0f}' for name, end in sorted(ends.items()))


def _lines(reading: CountersReading, age: float) -> Iterator[str]:
    nodes = {node.guid: node for node in reading.discovery.fabric.nodes if node.kind in _KINDS}
    for kind, name in _KINDS.items():
        mine = {guid: node for guid, node in nodes.items() if node.kind == kind}
        ports = [(end, counted) for end, counted in sorted(reading.ports.items()) if end[0] in mine]
        yield from _family(f"infiniband_{name}_info", f"Name of the {name}.", "gauge")
        yield from (
            f'infiniband_{name}_info{{guid="{format_guid(guid)}",{name}="{_escaped(node.name)}"}} 1'
            for guid, node in sorted(mine.items())
        )
        yield from _uplinks(reading, nodes, kind)
        yield from _counters(name, ports)
    yield from _family("infiniband_counters_age_seconds", "Seconds since the counters were read.", "gauge")
    yield f"infiniband_counters_age_seconds {age:.3f}"
    yield from _family("infiniband_ports_unread", "Cabled ports whose counters weren't read.", "gauge")
    yield f"infiniband_ports_unread {reading.unread}"


def _counters(name: str, ports: list[tuple[Port, PortCounts]]) -> Iterator[str]:
    labels = [f'{{guid="{format_guid(guid)}",port="{port}"}}' for (guid, port), _ in ports]
    for i, (suffix, counter) in enumerate((*_DATA, *_ERRORS)):
        metric = f"infiniband_{name}_port_{suffix}_total"
        yield from _family(metric, f"{counter} since it was last reset.", "counter")
        for label, (_, counted) in zip(labels, ports, strict=True):
            value = _value(counted, i)
            if value is not None:
                yield f"{metric}{label} {value}"


def _value(counted: PortCounts, index: int) -> int | None:
    if index >= len(_DATA):
        return counted.errors[index - len(_DATA)]
    value = (
        counted.sent * WORD,
        counted.received * WORD,
        counted.sent_packets,
        counted.received_packets,
        counted.wait,
    )
    return value[index]


def _uplinks(reading: CountersReading, nodes: dict[int, ObservedNode], kind: str) -> Iterator[str]:
    """What each port is cabled to."""
    metric = f"infiniband_{_KINDS[kind]}_uplink_info"
    yield from _family(metric, "What a port is cabled to.", "gauge")
    for link in reading.discovery.fabric.links:
        for end, other in (link, link[::-1]):
            node, beyond = nodes.get(end.guid), nodes.get(other.guid)
            if node is not None and beyond is not None and node.kind == kind:
                yield (
                    f'{metric}{{guid="{format_guid(end.guid)}",port="{end.port}",uplink="{_escaped(beyond.name)}",'
                    f'uplink_guid="{format_guid(other.guid)}",uplink_port="{other.port}"}} 1'
                )


def _family(name: str, help_: str, kind: str) -> tuple[str, str]:
    return f"# HELP {name} {help_}", f"# TYPE {name} {kind}"


def _escaped(text: str) -> str:
    """A text escaped as the format requires for values of labels."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
