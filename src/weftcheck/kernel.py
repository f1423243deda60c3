"""Checks of kernel modules, parameters, arguments, GPUDirect, the kernel log and the clock."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from weftcheck.host import Host, UnreadableError, shown
from weftcheck.machine import Machine
from weftcheck.result import Found, Result

_NVIDIA = "proc/driver/nvidia"


def modules(machine: Machine) -> Iterator[Result]:
    """MODULE: each expected kernel module."""
    found, host = Found("MODULE", "/sys/module"), machine.host
    if not machine.expected.modules:
        yield found.unexpected("host", reason="no expected modules")
    if not host.exists("sys/module"):
        raise UnreadableError("/sys/module", "doesn't exist")
    for name in machine.expected.modules:
        if _loaded(host, name):
            yield found.ok(name, "loaded")
        else:
            yield found.failed(name, "not loaded", "not loaded", "loaded")


def _loaded(host: Host, name: str) -> bool:
    return host.exists(f"sys/module/{name.replace('-', '_')}")


def parameters(machine: Machine) -> Iterator[Result]:
    """MODULE_PARAMETER: those of the `nvidia` module are in /proc/driver/nvidia/params."""
    host = machine.host
    if not machine.expected.parameters:
        yield Found("MODULE_PARAMETER", "/sys/module").unexpected("host", reason="no expected parameters")
    for name, expected in (machine.expected.parameters or {}).items():
        module, _, parameter = name.partition(".")
        path = f"sys/module/{module.replace('-', '_')}/parameters/{parameter}"
        try:
            if module == "nvidia" and not host.exists(path):
                path = f"{_NVIDIA}/params"
                value = _nvidia_parameter(host, path, parameter)
            else:
                value = host.text(path)
        except UnreadableError as error:
            yield Found("MODULE_PARAMETER", error.source).unknown(name, error.reason, None, expected)
            continue
        yield Found("MODULE_PARAMETER", f"/{path}").equal(name, value, expected)


def _nvidia_parameter(host: Host, path: str, name: str) -> str:
    lines = (line.partition(":") for line in host.text(path).splitlines())
    values = {key.strip(): value.strip().strip('"') for key, _, value in lines}
    found = values.get(name, values.get(name.replace("NVreg_", "")))
    if found is None:
        raise UnreadableError(f"/{path}", f"has no {name}")
    return found


def arguments(machine: Machine) -> Iterator[Result]:
    """KERNEL_ARGUMENT: each expected word of the kernel's command line."""
    found = Found("KERNEL_ARGUMENT", "/proc/cmdline")
    if not machine.expected.kernel_arguments:
        yield found.unexpected("host", reason="no expected arguments")
        return
    there = machine.host.text("proc/cmdline").split()
    for word in machine.expected.kernel_arguments:
        if word in there:
            yield found.ok(word, "there")
        else:
            yield found.failed(word, "not on the kernel's command line")


def gpudirect(machine: Machine) -> Iterator[Result]:
    """GPUDIRECT: a way for adapters to GPU memory, nvidia-peermem or dma-buf."""
    host, found = machine.host, Found("GPUDIRECT", "/sys/module")
    if not machine.gpus or not machine.hcas:
        yield found.skipped("host", "no GPU, or no adapter")
        return
    if machine.given_away():
        yield found.skipped("host", "its GPUs are bound to vfio-pci, for guests")
        return
    loaded = [name for name in ("nvidia_peermem", "nv_peer_mem") if _loaded(host, name)]
    if len(loaded) == 2:
        yield found.failed("host", "nv_peer_mem and nvidia_peermem are both loaded", " ".join(loaded))
        return
    if loaded:
        yield found.ok("host", f"{loaded[0]} is loaded", loaded[0])
        return
    version = host.text(f"{_NVIDIA}/version").splitlines()[:1]
    source = Found("GPUDIRECT", f"/{_NVIDIA}/version")
    kernel = re.match(r"(\d+)\.(\d+)", host.text("proc/sys/kernel/osrelease"))
    if kernel is None:
        yield source.unknown("host", "the kernel's version isn't understood")
    elif "Open Kernel Module" in "".join(version) and (int(kernel[1]), int(kernel[2])) >= (5, 12):
        yield source.ok(
            "host", "by dma-buf: the driver's open kernel modules, Linux 5.12 or newer", "dma-buf"
        )
    else:
        yield found.failed("host", "nvidia_peermem isn't loaded, and this driver and kernel have no dma-buf")


class Xid(NamedTuple):
    """Meaning of a code. `fault` None: it is only about the program that ran, not the GPU."""

    fault: str | None
    meaning: str


XIDS: Mapping[int, Xid] = {
    13: Xid(None, "exception of a program"),
    31: Xid(None, "page fault of a program"),
    43: Xid(None, "a program was stopped"),
    45: Xid(None, "a program was stopped, often after another error"),
    63: Xid(None, "a memory row or page was marked for replacement"),
    68: Xid(None, "exception of the video decoder"),
    69: Xid(None, "exception of a program"),
    109: Xid(None, "a program didn't switch in time"),
    48: Xid("memory", "uncorrectable memory error"),
    64: Xid("memory", "a memory row or page couldn't be replaced"),
    74: Xid("NVLink", "NVLink error"),
    79: Xid("bus", "the GPU has fallen off the bus"),
    92: Xid("memory", "many corrected memory errors"),
    94: Xid("memory", "contained uncorrectable memory error"),
    95: Xid("memory", "uncontained uncorrectable memory error"),
    119: Xid("firmware", "the GPU's firmware (GSP) doesn't answer"),
    120: Xid("firmware", "error of the GPU's firmware (GSP)"),
    140: Xid("memory", "unrecovered memory error"),
    143: Xid("firmware", "the GPU can't be initialized"),
    149: Xid("NVLink", "fatal NVLink error"),
    154: Xid("recovery", "the GPU needs an action to recover"),
}
"""NVIDIA's Xid codes that are judged; others are reported as unknown."""
_DRIVER = re.compile(r"(?:\[[ \d.]+\] *)?(?:\S+ kernel: *)?(?:NVRM|nvidia-nvswitch\d+): ")
"""How lines of NVIDIA's drivers begin, of journalctl and dmesg; names of processes in other lines are users' text."""
_XID = re.compile(r"\bXid\s*\(([^)]*)\)\s*:\s*(\d+)(.*)")
_SXID = re.compile(r"\bSXid\s*\(([^)]*)\)\s*:\s*(\d+)\s*,\s*(Fatal|Non-fatal)?", re.IGNORECASE)
_SUBJECTS = 512
"""Most GPUs and codes that are reported; more make the result unknown."""


def log(machine: Machine) -> Iterator[Result]:
    """XID: errors of GPUs and NVSwitches in this boot's kernel log."""
    source, text, cut = _log(machine.host)
    found, unread = Found("XID", source), 0
    counted: dict[str, Result] = {}
    for line in text.splitlines():
        if "Xid" not in line or not _DRIVER.match(line):
            continue
        result = _line(found, line)
        unread += result is None
        if result is not None and len(counted) < _SUBJECTS:
            counted.setdefault(f"{result.subject} {result.found} {result.status}", result)
    yield from counted.values()
    if unread:
        yield found.unknown("host", f"{unread} lines with Xid aren't understood")
    if cut or len(counted) >= _SUBJECTS:
        yield found.unknown("host", "the log is longer than what is read")
    elif not counted and not unread:
        yield found.ok("host", "no Xid in this boot's kernel log")


def _log(host: Host) -> tuple[str, str, bool]:
    reasons: dict[str, str] = {}
    for command in (("journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-monotonic"), ("dmesg",)):
        name = " ".join(command)
        try:
            done = host.output(*command)
        except UnreadableError as error:
            reasons[name] = error.reason
            continue
        if done.text.strip():
            return name, done.text, done.cut
        reasons[name] = "printed nothing"
    raise UnreadableError("journalctl -k, dmesg", "; ".join(f"{n}: {r}" for n, r in reasons.items()))


def _line(found: Found, line: str) -> Result | None:
    if switch := _SXID.search(line):
        kind = (switch[3] or "").lower()
        subject, code = _place(switch[1]), f"SXid {switch[2]}"
        if kind == "fatal":
            return found.failed(subject, f"{code}: fatal error of an NVSwitch", code)
        if kind == "non-fatal":
            return found.ok(subject, f"{code}: error of an NVSwitch, not fatal", code)
        return found.unknown(subject, f"{code}: neither fatal nor non-fatal", code)
    match = _XID.search(line)
    if match is None:
        return None
    number, subject = int(match[2]), _place(match[1])
    known = XIDS.get(number)
    if known is None:
        return found.unknown(subject, f"Xid {number} isn't in this program's table", f"Xid {number}")
    if known.fault is None or (number == 154 and re.search(r"to 0x0\b", match[3])):
        return found.ok(subject, f"Xid {number}: {known.meaning}", f"Xid {number}")
    return found.failed(subject, f"Xid {number}: {known.meaning}", f"Xid {number}")


def _place(text: str) -> str:
    """`PCI:0000:1b:00` as an address."""
    found = re.match(r"(?:PCI:)?([0-9a-fA-F:.]{4,20})$", text.strip())
    return found[1].lower() if found else shown(text, 40)


_OFFSET_LIMIT = 1.0
_CHRONY = ("chronyc", "-n", "tracking")
_TIMEDATE = ("timedatectl", "show", "--property=NTPSynchronized", "--value")


def clock(machine: Machine) -> Iterator[Result]:
    """CLOCK: synchronized, by chrony, or by the kernel's flag for every other program."""
    try:
        text = machine.host.output(*_CHRONY).text
    except UnreadableError as error:
        yield _kernel_clock(machine, error)
        return
    found, limit = Found("CLOCK", " ".join(_CHRONY)), machine.expected.clock_offset
    leap = re.search(r"^Leap status\s*: *(.+?)\s*$", text, re.MULTILINE)
    offset = re.search(r"^System time\s*: *(\d+(?:\.\d+)?) seconds", text, re.MULTILINE)
    if leap is None or offset is None:
        yield found.unknown("host", f"not understood: {shown(text.strip())}")
    elif leap[1] not in ("Normal", "Insert second", "Delete second"):
        yield found.failed("host", f"chrony's leap status is {shown(leap[1])}", leap[1], "Normal")
    elif float(offset[1]) > (limit or _OFFSET_LIMIT):
        limit_ = limit or _OFFSET_LIMIT
        yield found.failed("host", f"{float(offset[1]):g} s off, more than {limit_:g} s", offset[1], limit_)
    else:
        yield found.ok("host", f"synchronized, {float(offset[1]):g} s off", offset[1], limit)


def _kernel_clock(machine: Machine, first: UnreadableError) -> Result:
    source = " ".join(_TIMEDATE)
    try:
        text = machine.host.output(*_TIMEDATE).text.strip()
    except UnreadableError as error:
        return Found("CLOCK", "chronyc, timedatectl").unknown("host", f"{first.reason}; {error.reason}")
    found, limit = Found("CLOCK", source), machine.expected.clock_offset
    if text == "no":
        return found.failed("host", "the kernel's clock isn't synchronized", text, "yes")
    if text != "yes":
        return found.unknown("host", f"not understood: {shown(text)}")
    if limit is not None:
        return found.unknown("host", f"synchronized, but its offset is known to chrony alone: {first.reason}")
    return found.ok("host", "synchronized", text)
