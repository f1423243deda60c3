"""One machine, each part of it read once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Callable

from weftcheck import pci, rdma, smi
from weftcheck.expected import Expected
from weftcheck.host import Host, UnreadableError


def _kept(read: Callable[[], object]) -> object:
    """The value that was read, or the error: a command that hangs is waited for only once."""
    try:
        return read()
    except UnreadableError as error:
        return error


class Machine:
    """One machine. A property that can't be read raises UnreadableError, each time with the same reason."""

    def __init__(self, host: Host, expected: Expected) -> None:
        self.host = host
        self.expected = expected

    @cached_property
    def _devices(self) -> list[pci.Device] | UnreadableError:
        return _kept(lambda: pci.devices(self.host))  # pyright: ignore[reportReturnType]

    @cached_property
    def _ports(self) -> list[rdma.Port] | UnreadableError:
        return _kept(lambda: rdma.ports(self.host))  # pyright: ignore[reportReturnType]

    @cached_property
    def _report(self) -> smi.Report | UnreadableError:
        return _kept(lambda: smi.read(self.host))  # pyright: ignore[reportReturnType]

    @property
    def devices(self) -> list[pci.Device]:
        """All PCI functions."""
        if isinstance(self._devices, UnreadableError):
            raise self._devices
        return self._devices

    @property
    def gpus(self) -> list[pci.Device]:
        """NVIDIA's GPUs on PCI."""
        return [device for device in self.devices if device.is_gpu]

    @property
    def all_hcas(self) -> list[pci.Device]:
        """RDMA adapters, without virtual functions of this host."""
        return [device for device in self.devices if device.is_hca and not device.virtual]

    @property
    def hcas(self) -> list[pci.Device]:
        """The adapters of the ports that the pod uses."""
        wanted = self.expected.ports
        if wanted is None:
            return self.all_hcas
        names = {port.partition("/")[0] for port in wanted}
        return [device for device in self.all_hcas if names & set(device.rdma)]

    @property
    def all_ports(self) -> list[rdma.Port]:
        """All RDMA ports."""
        if isinstance(self._ports, UnreadableError):
            raise self._ports
        return self._ports

    @property
    def ports(self) -> list[rdma.Port]:
        """The ports that the pod uses; by default all but those of virtual functions."""
        wanted = self.expected.ports
        if wanted is not None:
            return [port for port in self.all_ports if port.name in wanted]
        virtual = {name for device in self.devices if device.virtual for name in device.rdma}
        return [port for port in self.all_ports if port.device not in virtual]

    @property
    def report(self) -> smi.Report:
        """nvidia-smi's report."""
        if isinstance(self._report, UnreadableError):
            raise self._report
        return self._report

    def given_away(self) -> bool:
        """Whether there are GPUs and all of them are bound to vfio-pci, for guests."""
        gpus = self.gpus
        return bool(gpus) and all((pci.driver(self.host, gpu) or "").startswith("vfio") for gpu in gpus)

    def node_of(self, device: pci.Device) -> int | None:
        """Its NUMA node; None: the kernel doesn't know it."""
        try:
            number = self.host.number(f"{device.path}/numa_node")
        except UnreadableError:
            return None
        return number if number >= 0 else None


Named = tuple[str, pci.Device]


def named(devices: Iterable[pci.Device]) -> list[Named]:
    """Each device with what people call it: `mlx5_0 (0000:17:00.0)`, or its address."""
    return [(f"{'+'.join(d.rdma)} ({d.address})" if d.rdma else d.address, d) for d in devices]
