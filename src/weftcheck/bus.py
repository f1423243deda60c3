"""Checks of PCI devices, NUMA and IOMMU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable

from weftcheck import pci
from weftcheck.expected import DISTANCES, Link
from weftcheck.host import UnreadableError
from weftcheck.machine import Machine, Named, named
from weftcheck.result import Found, Result

_GROUPS = "sys/kernel/iommu_groups"
_Check = Callable[[Machine, str, pci.Device], Result]


def counts(machine: Machine) -> Iterator[Result]:
    """GPU_COUNT, HCA_COUNT, NUMA_COUNT."""
    source, want = f"/{pci.FOLDER}", machine.expected
    for code, devices, expected in (
        ("GPU_COUNT", machine.gpus, want.gpus),
        ("HCA_COUNT", machine.all_hcas, want.hcas),
    ):
        yield Found(code, source).equal("host", len(devices), expected)
    folder = "sys/devices/system/node"
    nodes = [name for name in machine.host.names(folder) if name[:4] == "node" and name[4:].isdigit()]
    yield Found("NUMA_COUNT", f"/{folder}").equal("host", len(nodes), want.numa_nodes)


def answers(machine: Machine) -> Iterator[Result]:
    """PCI_DEVICE: every GPU and adapter answers."""
    for kind in (_gpus(machine), _hcas(machine)):
        yield from _each(machine, "PCI_DEVICE", kind, _answer)


def _answer(machine: Machine, name: str, device: pci.Device) -> Result:
    space = pci.space(machine.host, device.path)
    found = Found("PCI_DEVICE", space.source)
    if space.lost:
        return found.failed(name, "doesn't answer: its configuration space reads as 0xff", "0xff")
    return found.ok(name, "answers")


def links(machine: Machine) -> Iterator[Result]:
    """PCI_LINK: speed and lanes, against the expected link, or what the device and the port above it can do."""
    want = machine.expected
    for kind in (_gpus(machine, want.gpu_link), _hcas(machine, want.hca_link)):
        limit = want.gpu_link if kind[0] == "GPU" else want.hca_link
        yield from _each(machine, "PCI_LINK", kind, lambda m, n, d, e=limit: _link(m, n, d, e))


def _link(machine: Machine, name: str, device: pci.Device, expected: Link | None) -> Result:
    host, found = machine.host, Found("PCI_LINK", f"/{device.path}/current_link_speed")
    now, most = pci.link(host, device.path, "current"), pci.link(host, device.path, "max")
    if now is None or most is None:
        return found.unknown(name, "the kernel knows no link: a virtual function or emulated device")
    port = _port_above(machine, device)
    limit = expected or (_lower(most, port) if port else None)
    if limit is None and now == most:
        limit = most
    if limit is None:
        return found.unknown(
            name, f"{now}, of {most} that it can do; the port above it isn't visible", now, most
        )
    if now.width < limit.width:
        return found.failed(name, f"{now.width} lanes instead of {limit.width}", now, limit)
    if now.speed < limit.speed:
        if device.is_gpu:  # an idle GPU may lower its speed, never its lanes
            return found.unknown(
                name, f"{now}, of {limit}: an idle GPU lowers its speed; check it under load", now, limit
            )
        return found.failed(name, f"{now.speed:g} GT/s instead of {limit.speed:g}", now, limit)
    slot = "" if expected or limit == most else f"; its slot has no more, the device could do {most}"
    return found.ok(name, f"{now}{slot}", now, limit)


def _port_above(machine: Machine, device: pci.Device) -> Link | None:
    for folder in pci.bridges(machine.host, device):
        if machine.host.number(f"{folder}/vendor") == pci.QEMU:
            return None
        return pci.link(machine.host, folder, "max")
    return None


def _lower(one: Link, other: Link) -> Link:
    return Link(min(one.speed, other.speed), min(one.width, other.width))


def requests(machine: Machine) -> Iterator[Result]:
    """PCI_READ_REQUEST and PCI_PAYLOAD of adapters."""
    want = machine.expected
    yield from _each(machine, "PCI_READ_REQUEST", _hcas(machine, want.max_read_request), _request)
    for kind in (_gpus(machine), _hcas(machine, want.max_payload)):
        yield from _each(machine, "PCI_PAYLOAD", kind, _payload)


def _request(machine: Machine, name: str, device: pci.Device) -> Result:
    space = pci.space(machine.host, device.path)
    found = Found("PCI_READ_REQUEST", space.source)
    return found.equal(name, space.payload()[1], machine.expected.max_read_request)


def _payload(machine: Machine, name: str, device: pci.Device) -> Result:
    space = pci.space(machine.host, device.path)
    found, now = Found("PCI_PAYLOAD", space.source), space.payload()[0]
    folder = next(pci.bridges(machine.host, device), None)
    real = folder is not None and machine.host.number(f"{folder}/vendor") != pci.QEMU
    above = pci.space(machine.host, folder).payload()[0] if folder is not None and real else None
    if above is not None and above != now:
        return found.failed(name, f"{now} bytes, {above} at the port above it", now, above)
    if device.is_hca and machine.expected.max_payload is not None:
        return found.equal(name, now, machine.expected.max_payload)
    if above is None:
        return found.skipped(name, "no real port above it is visible", now)
    return found.ok(name, f"{now} bytes, as the port above it", now)


def translation(machine: Machine) -> Iterator[Result]:
    """PCI_ATS of adapters."""
    yield from _each(machine, "PCI_ATS", _hcas(machine, machine.expected.ats), _ats)


def _ats(machine: Machine, name: str, device: pci.Device) -> Result:
    space = pci.space(machine.host, device.path)
    found, expected = Found("PCI_ATS", space.source), machine.expected.ats
    if expected is None:
        return found.unexpected(name)
    now = space.ats()
    if now is None and expected:
        return found.failed(name, "the device doesn't offer ATS (firmware setting ATS_ENABLED)", None, True)
    return found.equal(name, bool(now), expected)


def redirection(machine: Machine) -> Iterator[Result]:
    """PCI_ACS of the bridges above GPUs and adapters."""
    expected, mode = machine.expected.acs, _mode(machine)
    devices = [*machine.gpus, *machine.hcas]
    folders = sorted({folder for device in devices for folder in pci.bridges(machine.host, device)})
    if not folders:
        yield _nothing(Found("PCI_ACS", f"/{pci.FOLDER}"), "no bridge above a GPU or adapter", expected)
    for folder in folders:
        yield _guarded("PCI_ACS", folder.rpartition("/")[2], lambda f=folder: _acs(machine, f, mode))


def _acs(machine: Machine, folder: str, mode: str) -> Result:
    space, name = pci.space(machine.host, folder), folder.rpartition("/")[2]
    found, expected = Found("PCI_ACS", space.source), machine.expected.acs
    kind, now = space.port_type(), space.acs()
    if now is None and kind == pci.UPSTREAM:
        return found.skipped(name, "the upstream port of a switch has no ACS")
    if expected is not None:
        return found.equal(name, bool(now), expected)
    if now and mode == "off":
        return found.failed(
            name, "redirects peer-to-peer traffic though no IOMMU is on that it would protect", "on", "off"
        )
    return found.unexpected(name, bool(now))


def distances(machine: Machine) -> Iterator[Result]:
    """PCI_DISTANCE of each GPU to its nearest adapter."""
    found, expected = Found("PCI_DISTANCE", f"/{pci.FOLDER}"), machine.expected.distance
    hcas = named(machine.hcas)
    if not hcas or not machine.gpus:
        yield _nothing(found, "no GPU, or no adapter", expected)
        return
    for name, gpu in named(machine.gpus):
        near = [
            (*pci.distance(gpu.chain, hca.chain, _same_node(machine, gpu, hca)), other) for other, hca in hcas
        ]
        kind, common, other = min(near, key=lambda one: DISTANCES.index(one[0]))
        text = f"{kind} to {other}, which has {common} in common"
        if expected is None:
            yield found.unexpected(name, kind, f"{text}; no expected value")
        elif DISTANCES.index(kind) > DISTANCES.index(expected):
            yield found.failed(name, text, kind, expected)
        else:
            yield found.ok(name, text, kind, expected)


def _same_node(machine: Machine, one: pci.Device, other: pci.Device) -> bool:
    node = machine.node_of(one)
    return node is not None and node == machine.node_of(other)


def nodes(machine: Machine) -> Iterator[Result]:
    """NUMA_NODE: the kernel knows the node of each device, if there are several."""
    folder = "sys/devices/system/node"
    several = machine.host.exists(f"{folder}/node1")
    if not _both(machine):
        yield Found("NUMA_NODE", f"/{folder}").skipped("host", "no GPU and no adapter")
    for name, device in _both(machine):
        found, node = Found("NUMA_NODE", f"/{device.path}/numa_node"), machine.node_of(device)
        if node is not None:
            yield found.ok(name, f"NUMA node {node}", node)
        elif several:
            yield found.failed(name, "the kernel doesn't know its NUMA node, though there are several", -1)
        else:
            yield found.skipped(name, "the machine has one NUMA node")


def iommu(machine: Machine) -> Iterator[Result]:
    """IOMMU: mode of the groups of GPUs and adapters."""
    found, expected = Found("IOMMU", f"/{_GROUPS}"), machine.expected.iommu
    if _mode(machine) == "off":
        yield found.equal("host", "off", expected)
        return
    if not _both(machine):
        yield _nothing(found, "no GPU and no adapter", expected)
    for name, device in _both(machine):
        yield _guarded("IOMMU", name, lambda n=name, d=device: _group(machine, n, d))


def _mode(machine: Machine) -> str:
    """`off` without groups, else `on`. Raises UnreadableError without sysfs."""
    machine.host.names("sys/kernel")
    return "on" if machine.host.exists(_GROUPS) and machine.host.names(_GROUPS) else "off"


_TYPES = {"identity": "passthrough", "DMA": "translated", "DMA-FQ": "translated"}


def _group(machine: Machine, name: str, device: pci.Device) -> Result:
    host, path = machine.host, f"{device.path}/iommu_group"
    found = Found("IOMMU", f"/{path}/type")
    if not host.exists(path):
        return found.equal(name, "off", machine.expected.iommu)
    group = host.target(path)
    text = host.text(f"{group}/type")
    mode = _TYPES.get(text)
    if mode is None and machine.expected.iommu is None:
        return found.unexpected(name, text)
    if mode is None:
        return found.unknown(name, f"its group has the type {text[:40]!r}, neither identity nor DMA", text)
    return found.equal(name, mode, machine.expected.iommu)


_Kind = tuple[str, list[Named], object]
"""Name of a kind of devices, the devices, and the value that is expected of them."""


def _gpus(machine: Machine, expected: object = None) -> _Kind:
    return "GPU", named(machine.gpus), expected


def _hcas(machine: Machine, expected: object = None) -> _Kind:
    return "adapter", named(machine.hcas), expected


def _both(machine: Machine) -> list[Named]:
    return named([*machine.gpus, *machine.hcas])


def _nothing(found: Found, reason: str, expected: object) -> Result:
    """The result without a device: skipped, or failed if a value is expected."""
    if expected is None:
        return found.skipped("host", reason)
    return found.failed("host", f"{reason}, but a value is expected", None, expected)


def _each(machine: Machine, code: str, kind: _Kind, check: _Check) -> Iterator[Result]:
    """Check each device; one that can't be read doesn't hide the others."""
    name, devices, expected = kind
    if not devices:
        yield _nothing(Found(code, f"/{pci.FOLDER}"), f"no {name}", expected)
    for subject, device in devices:
        yield _guarded(code, subject, lambda n=subject, d=device: check(machine, n, d))


def _guarded(code: str, name: str, check: Callable[[], Result]) -> Result:
    try:
        return check()
    except UnreadableError as error:
        return Found(code, error.source).unknown(name, error.reason)
