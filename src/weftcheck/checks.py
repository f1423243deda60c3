"""All checks, one after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Callable

from weftcheck import bus, firmware, gpu, kernel, ports
from weftcheck.catalog import CODES
from weftcheck.expected import Expected
from weftcheck.host import Host, UnreadableError
from weftcheck.machine import Machine
from weftcheck.result import Found, Result, Status

Group = tuple[tuple[str, ...], Callable[[Machine], Iterator[Result]]]
_GPU = tuple(code for code in CODES if code.startswith("GPU_") and code != "GPU_COUNT")
GROUPS: Sequence[Group] = (
    (("GPU_COUNT", "HCA_COUNT", "NUMA_COUNT"), bus.counts),
    (("PCI_DEVICE",), bus.answers),
    (("PCI_LINK",), bus.links),
    (("PCI_READ_REQUEST", "PCI_PAYLOAD"), bus.requests),
    (("PCI_ATS",), bus.translation),
    (("PCI_ACS",), bus.redirection),
    (("PCI_DISTANCE",), bus.distances),
    (("NUMA_NODE",), bus.nodes),
    (("IOMMU",), bus.iommu),
    (("MODULE",), kernel.modules),
    (("MODULE_PARAMETER",), kernel.parameters),
    (("KERNEL_ARGUMENT",), kernel.arguments),
    (("GPUDIRECT",), kernel.gpudirect),
    (("FIRMWARE_SETTING", "FIRMWARE_PENDING"), firmware.settings),
    (_GPU, gpu.health),
    (("XID",), kernel.log),
    (("PORT_STATE", "PORT_RATE"), ports.states),
    (("PORT_GID",), ports.gids),
    (("PORT_PKEY",), ports.pkeys),
    (("CLOCK",), kernel.clock),
)
"""Codes that come from one function, in the order in which they are checked."""
_SHOWN = 500
"""Most characters of a text in a result."""


def check(host: Host, expected: Expected, codes: Collection[str] | None = None) -> list[Result]:
    """As `check_machine`, of a host."""
    return check_machine(Machine(host, expected), codes)


def check_machine(machine: Machine, codes: Collection[str] | None = None) -> list[Result]:
    """All results, or those of some codes. Never raises: a check that fails itself is unknown, with why."""
    results: list[Result] = []
    for group, function in GROUPS:
        wanted = [code for code in group if codes is None or code in codes]
        if not wanted:
            continue
        made: list[Result] = []
        try:
            made.extend(function(machine))  # so that results before an error are kept
        except UnreadableError as error:
            made += _rest(group, made, error.source, error.reason)
        except Exception as error:  # a defect of this program: the other checks still run
            made += _rest(
                group, made, "weft-check", f"the check itself failed: {type(error).__name__}: {error}"
            )
        results += [_bounded(result) for result in made if result.code in wanted]
    return results


def _rest(group: Sequence[str], made: Sequence[Result], source: str, reason: str) -> list[Result]:
    """An unknown result for each code that has none; for the last one that has, if all have."""
    done = {result.code for result in made}
    missing = [code for code in group if code not in done] or [group[-1]]
    return [Found(code, source).unknown("host", reason) for code in missing]


def _bounded(result: Result) -> Result:
    return Result(*(_cut(value) for value in result))


def _cut(value: Any) -> Any:
    if not isinstance(value, str) or isinstance(value, Status) or len(value) <= _SHOWN:
        return value
    return value[: _SHOWN - 1] + "…"
