"""Checks of GPUs by nvidia-smi."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Callable

from weftcheck import smi
from weftcheck.host import UnreadableError, shown
from weftcheck.machine import Machine
from weftcheck.result import Found, Result

SOURCE = " ".join(smi.COMMAND)
_Check = Callable[[Machine, smi.Gpu], Iterator[Result]]


def health(machine: Machine) -> Iterator[Result]:
    """Every code that nvidia-smi answers, for each GPU."""
    if not machine.gpus:
        yield from _none(machine, "no NVIDIA GPU on PCI")
        return
    if machine.given_away():
        yield from _none(machine, "the GPUs are bound to vfio-pci, for guests")
        return
    try:
        report = machine.report
    except UnreadableError as error:
        yield from _unread(error)
        return
    yield _attached(machine, report)
    yield Found("GPU_DRIVER", SOURCE).equal("host", report.driver, machine.expected.gpu_driver)
    for gpu in report.gpus:
        if lost := gpu.lost():
            yield Found("GPU_STATE", SOURCE).failed(gpu.address, f"nvidia-smi says {shown(lost)}", lost)
            for code, _ in _CHECKS[1:]:
                yield Found(code, SOURCE).unknown(gpu.address, "the driver lost this GPU")
            continue
        for _, check in _CHECKS:
            yield from check(machine, gpu)


def _none(machine: Machine, reason: str) -> Iterator[Result]:
    want = machine.expected
    expected = {
        "GPU_DRIVER": want.gpu_driver,
        "GPU_ECC": want.ecc,
        "GPU_SETTING": want.persistence,
        "GPU_PCIE_REPLAY": want.pcie_replays,
        "GPU_FABRIC": want.fabric_clique,
    }
    for code in ("GPU_ATTACHED", "GPU_DRIVER", *(code for code, _ in _CHECKS)):
        found = Found(code, SOURCE)
        if expected.get(code) is None:
            yield found.skipped("host", reason)
        else:
            yield found.unknown("host", f"{reason}, but a value is expected", None, expected[code])


def _unread(error: UnreadableError) -> Iterator[Result]:
    lost = "lost" in error.reason.lower() or "unknown error" in error.reason.lower()
    for code in ("GPU_ATTACHED", "GPU_DRIVER", *(code for code, _ in _CHECKS)):
        found = Found(code, error.source)
        make = found.failed if lost and code == "GPU_STATE" else found.unknown
        yield make("host", error.reason)


def _attached(machine: Machine, report: smi.Report) -> Result:
    """GPU_ATTACHED: the driver has every GPU that PCI has, but those that are given to guests."""
    found = Found("GPU_ATTACHED", SOURCE)
    there = {gpu.address for gpu in report.gpus}
    if report.attached is not None and report.attached != len(report.gpus):
        return found.unknown("host", f"says {report.attached} GPUs, and describes {len(report.gpus)}")
    missing = sorted(device.address for device in machine.gpus if device.address not in there)
    if missing:
        return found.failed(
            "host", f"not known to the driver: {', '.join(missing)}", len(there), len(machine.gpus)
        )
    return found.ok("host", f"{len(there)} GPUs, all of those on PCI", len(there), len(machine.gpus))


def _state(machine: Machine, gpu: smi.Gpu) -> Iterator[Result]:
    """GPU_STATE: no recovery action is due (drivers to 550: no reset)."""
    found = Found("GPU_STATE", SOURCE)
    action = gpu.get("gpu_recovery_action")
    resets = [
        gpu.get(f"gpu_reset_status/{name}") for name in ("reset_required", "drain_and_reset_recommended")
    ]
    if action is not None and action != "None":
        yield found.failed(gpu.address, f"recovery action: {shown(action)}", action, "None")
    elif "Yes" in resets:
        yield found.failed(gpu.address, "needs a reset", "reset", "None")
    elif action is None and set(resets) != {"No"}:
        yield found.unknown(gpu.address, "this driver doesn't say whether the GPU needs a reset")
    else:
        yield found.ok(gpu.address, "no recovery action is due", action)


def _counter(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _ecc(machine: Machine, gpu: smi.Gpu) -> Iterator[Result]:
    """GPU_ECC: mode, uncorrectable errors since the driver was loaded, thresholds and repairs (newer drivers)."""
    found, mode = Found("GPU_ECC", SOURCE), gpu.get("ecc_mode/current_ecc")
    expected = machine.expected.ecc
    if mode is None:
        if expected:
            yield found.failed(gpu.address, "the board reports no ECC mode", None, expected)
        else:
            yield found.skipped(gpu.address, "the board reports no ECC mode")
        return
    if expected is not None and mode != ("Enabled" if expected else "Disabled"):
        yield found.failed(gpu.address, f"ECC is {shown(mode)}", mode, "Enabled" if expected else "Disabled")
        return
    if mode != "Enabled":
        yield found.skipped(gpu.address, f"ECC is {shown(mode)}", mode)
        return
    yield _flags(
        found,
        gpu,
        _uncorrectable(gpu),
        (
            ("ecc_errors/aggregate/sram_threshold_exceeded", "too many uncorrectable errors in SRAM"),
            ("ecc_errors/channel_repair_pending", "a memory channel waits for repair"),
            ("ecc_errors/tpc_repair_pending", "a processing cluster waits for repair"),
            ("ecc_errors/unrepairable_memory", "memory that can't be repaired"),
        ),
    )


def _uncorrectable(gpu: smi.Gpu) -> list[tuple[str, str]]:
    """Name and text of the counters; before 2019's boards they are below `double_bit`."""
    members = [
        (one.tag, one.text) for one in gpu.members("ecc_errors/volatile") if "uncorrectable" in one.tag
    ]
    if not members:
        members = [("double_bit total", gpu.get("ecc_errors/volatile/double_bit/total"))]
    return [(name, text.strip()) for name, text in members if text and text.strip() not in ("", "N/A")]


def _flags(
    found: Found, gpu: smi.Gpu, counters: Sequence[tuple[str, str]], flags: Sequence[tuple[str, str]]
) -> Result:
    """Failed if a counter isn't 0 or a flag is Yes; unknown if one isn't understood or none is reported."""
    values = [(name, meaning, gpu.get(name)) for name, meaning in flags]
    wrong = [f"{name} {text}" for name, text in counters if (_counter(text) or 0) > 0]
    wrong += [meaning for _, meaning, value in values if value == "Yes"]
    strange = [f"{name} {shown(text)}" for name, text in counters if _counter(text) is None]
    strange += [f"{name} {shown(value)}" for name, _, value in values if value not in (None, "Yes", "No")]
    if wrong:
        return found.failed(gpu.address, "; ".join(wrong), "; ".join(wrong))
    if strange:
        return found.unknown(gpu.address, f"not understood: {'; '.join(strange)}")
    if not counters and all(value is None for _, _, value in values):
        return found.unknown(gpu.address, "the driver reports no values")
    return found.ok(gpu.address, "none")


def _rows(machine: Machine, gpu: smi.Gpu) -> Iterator[Result]:
    """GPU_ROWS: remapped rows (from Ampere), retired pages (older boards)."""
    found = Found("GPU_ROWS", SOURCE)
    flags = (
        ("remapped_rows/remapped_row_failure", "a row couldn't be remapped"),
        ("remapped_rows/remapped_row_pending", "a row waits for a reset to be remapped"),
        ("retired_pages/pending_retirement", "a page waits for a reset to be retired"),
        ("retired_pages/pending_blacklist", "a page waits for a reset to be retired"),
    )
    if all(gpu.get(name) is None for name, _ in flags):
        yield found.skipped(gpu.address, "the board reports neither remapped rows nor retired pages")
        return
    yield _flags(found, gpu, (), flags)


_SLOW = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")


def _clocks(machine: Machine, gpu: smi.Gpu) -> Iterator[Result]:
    """GPU_CLOCKS: nothing slows the GPU down but its load; `clocks_throttle_reasons` in drivers before 535."""
    found = Found("GPU_CLOCKS", SOURCE)
    values = {
        name: gpu.get(
            f"clocks_event_reasons/clocks_event_reason_{name}",
            f"clocks_throttle_reasons/clocks_throttle_reason_{name}",
        )
        for name in _SLOW
    }
    active = [name for name, value in values.items() if value == "Active"]
    strange = [n for n, value in values.items() if value not in (None, "Active", "Not Active")]
    if active:
        yield found.failed(gpu.address, f"slowed down: {', '.join(active)}", ", ".join(active))
    elif strange or all(value is None for value in values.values()):
        yield found.unknown(gpu.address, f"not understood: {', '.join(strange) or 'no reasons reported'}")
    else:
        yield found.ok(gpu.address, "not slowed down by heat or power")


def _setting(machine: Machine, gpu: smi.Gpu) -> Iterator[Result]:
    """GPU_SETTING: persistence mode."""
    found, expected = Found("GPU_SETTING", SOURCE), machine.expected.persistence
    mode = gpu.get("persistence_mode")
    if mode is None and expected is not None:
        yield found.unknown(gpu.address, "persistence mode isn't reported", None, expected)
    else:
        now = {"Enabled": True, "Disabled": False}.get(mode or "", mode)
        yield found.equal(gpu.address, now, expected)


def _replay(machine: Machine, gpu: smi.Gpu) -> Iterator[Result]:
    """GPU_PCIE_REPLAY: replays of the PCIe link since the GPU's reset."""
    found, limit = Found("GPU_PCIE_REPLAY", SOURCE), machine.expected.pcie_replays
    text, wrapped = gpu.get("pci/replay_counter"), gpu.get("pci/replay_rollover_counter")
    count = _counter(text or "")
    if wrapped not in (None, "0"):
        yield found.failed(gpu.address, f"the counter overflowed: {shown(wrapped or '')} times", wrapped, 0)
    elif count is None:
        reason = "not reported" if text is None else f"not understood: {shown(text)}"
        yield found.unknown(gpu.address, reason) if limit is not None else found.skipped(gpu.address, reason)
    elif limit is None:
        yield found.unexpected(gpu.address, count)
    elif count > limit:
        yield found.failed(gpu.address, f"{count} replays, more than {limit}", count, limit)
    else:
        yield found.ok(gpu.address, f"{count} replays", count, limit)


_HEALTH: Mapping[str, tuple[str, str]] = {
    "summary": ("Healthy", ""),
    "bandwidth": ("Full", "Degraded"),
    "route_unhealthy": ("False", "True"),
    "route_recovery_in_progress": ("False", "True"),
    "access_timeout_recovery": ("False", "True"),
    "incorrect_configuration": ("None", ""),
}
"""Member of `fabric/health` -> its value when well, and when ill; empty: every other value."""


def _fabric(machine: Machine, gpu: smi.Gpu) -> Iterator[Result]:
    """GPU_FABRIC: registered with the NVLink fabric, healthy there, in the right partition."""
    found, expected = Found("GPU_FABRIC", SOURCE), machine.expected.fabric_clique
    state, status = gpu.get("fabric/state"), gpu.get("fabric/status")
    clique = gpu.get("fabric/cliqueId")
    health = {one.tag: (one.text or "").strip() for one in gpu.members("fabric/health")}
    if state is None:
        if expected is None:
            yield found.skipped(gpu.address, "the board reports no NVLink fabric")
        else:
            yield found.failed(gpu.address, "the board reports no NVLink fabric", None, expected)
        return
    wrong = [] if state == "Completed" else [f"state {shown(state)}"]
    wrong += [] if status in (None, "Success") else [f"status {shown(status)}"]
    strange: list[str] = []
    for name, (well, ill) in _HEALTH.items():
        value = health.get(name, "N/A")
        if value not in ("N/A", "", well):
            (wrong if ill in ("", value) else strange).append(f"{name} {shown(value)}")
    if wrong:
        yield found.failed(gpu.address, "; ".join(wrong), "; ".join(wrong))
    elif strange:
        yield found.unknown(gpu.address, f"not understood: {'; '.join(strange)}")
    elif expected is not None and clique != expected:
        yield found.failed(
            gpu.address, f"in NVLink partition {clique}, expected {expected}", clique, expected
        )
    else:
        yield found.ok(gpu.address, f"registered, in NVLink partition {clique}", clique, expected)


_CHECKS: Sequence[tuple[str, _Check]] = (
    ("GPU_STATE", _state),
    ("GPU_ECC", _ecc),
    ("GPU_ROWS", _rows),
    ("GPU_CLOCKS", _clocks),
    ("GPU_SETTING", _setting),
    ("GPU_PCIE_REPLAY", _replay),
    ("GPU_FABRIC", _fabric),
)
"""GPU_STATE is the first: a lost GPU fails it, and has no other values."""
