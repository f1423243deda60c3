"""Checks of adapters' firmware settings, by `mstconfig -e query`.

Without -e it prints what the next boot will have, not what the adapter has now. Its `*` marks what differs from the
default too, so it isn't what shows a change that waits for a reset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from weftcheck.host import Host, MissingError, UnreadableError
from weftcheck.machine import Machine, named
from weftcheck.pci import MELLANOX
from weftcheck.result import Found, Result

_PROGRAMS = ("mstconfig", "mlxconfig")
_COLUMNS = ("default", "current", "next boot")


class Setting(NamedTuple):
    """Values as they are printed, such as `True(1)`; None: not printed."""

    current: str | None
    following: str | None


class Query(NamedTuple):
    """Settings by name, and how many lines weren't understood."""

    settings: dict[str, Setting]
    unread: int


def parse(text: str) -> Query:
    """The table of `mstconfig query`, with one or three columns."""
    columns: tuple[str, ...] = ()
    settings: dict[str, Setting] = {}
    unread = 0
    for line in text.splitlines():
        if line.strip().lower().startswith("configurations:"):
            names = line.lower().partition(":")[2]
            columns = tuple(name for name in _COLUMNS if name in names) or ("next boot",)
            continue
        words = line.split()
        while words and words[0] in ("*", "RO"):
            words.pop(0)
        if not columns or not words or not re.fullmatch(r"[A-Z][A-Z0-9_]*(\[[\d.]+\])?", words[0]):
            continue
        if len(words) != len(columns) + 1:
            unread += 1
            continue
        values = dict(zip(columns, words[1:]))
        settings[words[0]] = Setting(values.get("current"), values.get("next boot"))
    return Query(settings, unread)


def settings(machine: Machine) -> Iterator[Result]:
    """FIRMWARE_SETTING and FIRMWARE_PENDING of each adapter, if settings are expected."""
    expected = machine.expected.firmware
    if not expected:
        for code in ("FIRMWARE_SETTING", "FIRMWARE_PENDING"):
            yield Found(code, "mstconfig").unexpected("host", reason="no expected settings")
        return
    adapters = [(n, d) for n, d in named(machine.hcas) if d.vendor == MELLANOX and d.address.endswith(".0")]
    if not adapters:
        yield Found("FIRMWARE_SETTING", "mstconfig").failed("host", "no adapter, but settings are expected")
    for name, device in adapters:
        try:
            source, query = _query(machine.host, device.address)
        except UnreadableError as error:
            for code in ("FIRMWARE_SETTING", "FIRMWARE_PENDING"):
                yield Found(code, error.source).unknown(name, error.reason)
            continue
        for setting, allowed in expected.items():
            yield _judge(Found("FIRMWARE_SETTING", source), name, setting, query, allowed)
        yield _pending(Found("FIRMWARE_PENDING", source), name, query)


def _query(host: Host, address: str) -> tuple[str, Query]:
    missing: MissingError | None = None
    for program in _PROGRAMS:
        try:
            done = host.output(program, "-d", address, "-e", "query")
        except MissingError as error:
            missing = missing or error
            continue
        source = f"{program} -d {address} -e query"
        query = parse(done.text)
        if not query.settings or done.cut:
            raise UnreadableError(source, "no setting in its output is understood")
        return source, query
    assert missing is not None
    raise missing


def _judge(found: Found, adapter: str, name: str, query: Query, allowed: tuple[str, ...]) -> Result:
    subject, wanted = f"{adapter} {name}", " or ".join(allowed)
    setting = query.settings.get(name)
    if setting is None:
        unread = f"; {query.unread} lines aren't understood" if query.unread else ""
        hidden = "; hidden unless ADVANCED_PCI_SETTINGS is set" if name == "MAX_ACC_OUT_READ" else ""
        return found.unknown(subject, f"not among the settings that it prints{hidden}{unread}", None, wanted)
    if setting.current is None:
        return found.unknown(
            subject, "only the next boot's value is printed", f"next boot: {setting.following}", wanted
        )
    if any(_matches(setting.current, value) for value in allowed):
        return found.ok(subject, "as expected", setting.current, wanted)
    return found.failed(subject, f"{setting.current}, expected {wanted}", setting.current, wanted)


def _matches(printed: str, value: str) -> bool:
    """Whether a printed value such as `True(1)` is meant by `True(1)`, `True` or `1`."""
    both = re.fullmatch(r"(.*)\((\w+)\)", printed)
    texts = {printed, both[1], both[2]} if both else {printed}
    return value.lower() in {text.lower() for text in texts}


def _pending(found: Found, adapter: str, query: Query) -> Result:
    if any(setting.current is None for setting in query.settings.values()):
        return found.unknown(adapter, "only the next boot's values are printed")
    waiting = sorted(n for n, setting in query.settings.items() if setting.current != setting.following)
    if waiting:
        more = f" and {len(waiting) - 5} more" if len(waiting) > 5 else ""
        return found.failed(adapter, f"waits for a reset: {', '.join(waiting[:5])}{more}", len(waiting), 0)
    if query.unread:
        return found.unknown(adapter, f"{query.unread} lines aren't understood")
    return found.ok(adapter, "no change waits for a reset", 0)
