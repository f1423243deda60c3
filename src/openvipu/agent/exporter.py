"""The machine exporter (port 2112): sensors, IPU health and links in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from openvipu.hardware.protocol import Hardware
from openvipu.scrape import start_page


class MachineCollector(Collector):
    """Reads the machine at every scrape; keeps nothing."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware

    def collect(self) -> Iterator[GaugeMetricFamily]:
        machine, status = self._hardware.describe(), self._hardware.status()
        labels = ["machine", "unit"]
        for name, values in self._hardware.sensors().items():
            family = GaugeMetricFamily(f"ipum_{name}", f"Reading of {name} by unit", labels=labels)
            for unit, value in values.items():
                family.add_metric([machine.name, unit], value)
            yield family
        health = GaugeMetricFamily("ipum_ipu_healthy", "1 if the IPU responds", labels=labels)
        for ipu in status.ipus:
            health.add_metric([machine.name, f"ipu{ipu.number}"], float(ipu.healthy))
        yield health
        links = GaugeMetricFamily("ipum_link_up", "1 if the cabled link is up", labels=["machine", "port"])
        for port in machine.ports:
            if port.peer_serial:
                links.add_metric([machine.name, port.name], float(port.up))
        yield links
        partitions = GaugeMetricFamily("ipum_partitions", "Partitions configured here", labels=["machine"])
        partitions.add_metric([machine.name], float(len(status.settings)))
        yield partitions


def start_exporter(hardware: Hardware, host: str, port: int) -> Any:
    """Serve ``/metrics`` at the address; returns the HTTP server, whose ``shutdown`` ends it."""
    return start_page(MachineCollector(hardware), "exporter", host, port)
