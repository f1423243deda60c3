"""Checks of RDMA ports: state, rate, GIDs, P_Keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

from weftcheck import rdma
from weftcheck.expected import Expected, Key
from weftcheck.host import MissingError, UnreadableError, shown
from weftcheck.machine import Machine
from weftcheck.result import Found, Result

_DEFAULT = 0x7FFF
_NCCL = "etc/nccl.conf"


def states(machine: Machine) -> Iterator[Result]:
    """PORT_STATE and PORT_RATE of each port."""
    want = machine.expected
    yield from _absent(machine, "PORT_STATE", None)
    yield from _absent(machine, "PORT_RATE", want.rate or want.width or want.link_layer)
    for port in machine.ports:
        yield _state(port)
        yield from _rate(port, want)


def _absent(machine: Machine, code: str, expected: object) -> Iterator[Result]:
    """Expected ports that aren't there; one result if there are none at all."""
    found, there = Found(code, f"/{rdma.FOLDER}"), {port.name for port in machine.ports}
    for name in machine.expected.ports or ():
        if name not in there:
            yield found.failed(name, "no such port", None, name)
    if not there and not machine.expected.ports:
        if expected is None:
            yield found.skipped("host", "no RDMA port")
        else:
            yield found.failed("host", "no RDMA port, but a value is expected", None, expected)


def _state(port: rdma.Port) -> Result:
    found = Found("PORT_STATE", port.source)
    if port.state is None:
        return found.unknown(port.name, "its state isn't understood")
    if port.state == "active":
        return found.ok(port.name, "active", port.state, "active")
    physical = f", physically {port.physical}" if port.physical else ""
    manager = ": no subnet manager has configured it" if port.state == "init" else ""
    return found.failed(port.name, f"{port.state}{physical}{manager}", port.state, "active")


def _rate(port: rdma.Port, want: Expected) -> Iterator[Result]:
    found = Found("PORT_RATE", port.source)
    text = "unknown" if port.rate is None else f"{port.rate:g} Gb/s"
    text += "" if port.width is None else f", {port.width}X"
    wanted = ", ".join(
        ([f"{want.rate:g} Gb/s"] if want.rate is not None else [])
        + ([f"{want.width}X"] if want.width is not None else [])
        + ([want.link_layer] if want.link_layer is not None else [])
    )
    if not wanted:
        yield found.unexpected(port.name, text)
    elif want.link_layer is not None and port.layer not in (None, want.link_layer):
        yield found.failed(port.name, f"{port.layer} instead of {want.link_layer}", port.layer, wanted)
    elif (want.rate is not None and port.rate is not None and port.rate < want.rate) or (
        want.width is not None and port.width is not None and port.width < want.width
    ):
        yield found.failed(port.name, f"{text}, expected {wanted}", text, wanted)
    elif (
        (want.rate is not None and port.rate is None)
        or (want.width is not None and port.width is None)
        or (want.link_layer is not None and port.layer is None)
    ):
        yield found.unknown(port.name, f"not all is shown here: {text}", text, wanted)
    elif port.state != "active":
        yield found.unknown(port.name, "the port isn't active: it has no rate yet", text, wanted)
    else:
        yield found.ok(port.name, text, text, wanted)


def gids(machine: Machine) -> Iterator[Result]:
    """PORT_GID: InfiniBand's at index 0; with RoCE the one of version 2 with an IPv4 address."""
    expected = machine.expected.gid_index
    ethernet = [port for port in machine.ports if port.layer == "Ethernet"]
    if not machine.ports or (expected is not None and not ethernet):
        found = Found("PORT_GID", f"/{rdma.FOLDER}")
        if expected is None:
            yield found.skipped("host", "no RDMA port")
        else:
            yield found.failed("host", "no Ethernet port, but a GID index is expected", None, expected)
    for port in machine.ports:
        if port.folder is None:
            yield Found("PORT_GID", port.source).unknown(port.name, "ibstat doesn't show GIDs")
            continue
        found = Found("PORT_GID", f"/{port.folder}/gids")
        try:
            table = rdma.table(machine.host, f"{port.folder}/gids")
            yield _roce(machine, port, found, table) if port.layer == "Ethernet" else _gid(found, port, table)
        except UnreadableError as error:
            yield Found("PORT_GID", error.source).unknown(port.name, error.reason)


def _gid(found: Found, port: rdma.Port, table: dict[int, str]) -> Result:
    first = table.get(0, "")
    if not re.fullmatch(r"[0-9a-f]{4}(:[0-9a-f]{4}){7}", first):
        return found.unknown(port.name, f"its GID isn't understood: {shown(first)}")
    if first.endswith(":0000:0000:0000:0000"):
        return found.failed(port.name, "its GID at index 0 has no port GUID", first)
    return found.ok(port.name, f"GID {first} at index 0", first)


def _roce(machine: Machine, port: rdma.Port, found: Found, table: dict[int, str]) -> Result:
    expected = machine.expected.gid_index
    types = rdma.table(machine.host, f"{port.folder}/gid_attrs/types")
    mapped = "0000:0000:0000:0000:0000:ffff:"
    there = [i for i, kind in sorted(types.items()) if "v2" in kind and table.get(i, "").startswith(mapped)]
    if not there:
        return found.failed(port.name, "no RoCE v2 GID with an IPv4 address", None, expected)
    text = ", ".join(map(str, there))
    if expected is not None and expected not in there:
        return found.failed(
            port.name, f"RoCE v2 with IPv4 at index {text}, expected {expected}", text, expected
        )
    return found.ok(port.name, f"RoCE v2 with IPv4 at index {text}", text, expected)


def pkeys(machine: Machine) -> Iterator[Result]:
    """PORT_PKEY: the pod's P_Keys in each InfiniBand port's table, and at which index."""
    keys = machine.expected.pkeys
    used = [port for port in machine.ports if port.layer == "InfiniBand"]
    odd = [port for port in machine.ports if port.layer is None]
    for port in odd:
        yield Found("PORT_PKEY", port.source).unknown(port.name, "its link layer isn't understood")
    if not used and not odd:
        found = Found("PORT_PKEY", f"/{rdma.FOLDER}")
        if keys:
            yield found.failed("host", "no InfiniBand port, but P_Keys are expected")
        else:
            yield found.skipped("host", "no InfiniBand port")
    indexes: dict[int, dict[str, int]] = {}
    for port in used:
        if port.folder is None:
            yield Found("PORT_PKEY", port.source).unknown(port.name, "ibstat doesn't show P_Keys")
            continue
        try:
            table = _table(machine, port)
        except UnreadableError as error:
            yield Found("PORT_PKEY", error.source).unknown(port.name, error.reason)
            continue
        found = Found("PORT_PKEY", f"/{port.folder}/pkeys")
        for key in keys or _own(table):
            result, index = _find(found, port, table, key)
            yield result
            if index is not None:
                indexes.setdefault(key.value, {})[port.name] = index
        if not keys and not _own(table):
            yield found.unexpected(
                port.name, reason="no P_Key but the default partition's, and none expected"
            )
    yield from _together(machine, indexes)


def _table(machine: Machine, port: rdma.Port) -> dict[int, int]:
    assert port.folder is not None
    found = rdma.table(machine.host, f"{port.folder}/pkeys")
    strange = [text for text in found.values() if not re.fullmatch(r"0x[0-9a-fA-F]{1,4}", text)]
    if strange:
        raise UnreadableError(f"/{port.folder}/pkeys", f"not understood: {shown(strange[0])}")
    return {index: int(text, 16) for index, text in found.items()}


def _own(table: dict[int, int]) -> list[Key]:
    """All keys of a table but the default partition's."""
    values = sorted({value & _DEFAULT for value in table.values()} - {0, _DEFAULT})
    return [Key(value, False, None) for value in values]


def _find(found: Found, port: rdma.Port, table: dict[int, int], key: Key) -> tuple[Result, int | None]:
    name = f"{key.value:#06x}"
    places = sorted(index for index, value in table.items() if value & _DEFAULT == key.value)
    if not places:
        return found.failed(port.name, f"P_Key {name} isn't in its table", None, name), None
    full = [index for index in places if table[index] & 0x8000]
    if key.full and not full:
        return found.failed(
            port.name, f"P_Key {name} is there as limited member only", "limited", "full"
        ), None
    index = (full or places)[0]
    if key.place is not None and key.place != index:
        reason = f"P_Key {name} is at index {index}, expected {key.place}"
        return found.failed(port.name, reason, index, key.place), index
    reason = f"P_Key {name} is at index {index}"
    if index:
        reason += f": programs that use index 0 by default need it (NCCL_IB_PKEY={index})"
    return found.ok(port.name, reason, index, key.place), index


def _together(machine: Machine, indexes: dict[int, dict[str, int]]) -> Iterator[Result]:
    """Check that each key is at one index, as NCCL takes one for all adapters, and NCCL's setting of it."""
    found = Found("PORT_PKEY", f"/{rdma.FOLDER}")
    for value, ports in sorted(indexes.items()):
        if len(set(ports.values())) > 1:
            text = ", ".join(f"{port}: {index}" for port, index in sorted(ports.items()))
            yield found.failed("host", f"P_Key {value:#06x} isn't at the same index everywhere: {text}", text)
    try:
        text = machine.host.text(_NCCL)
    except MissingError:
        return
    except UnreadableError as error:
        yield Found("PORT_PKEY", error.source).unknown("host", error.reason)
        return
    nccl = Found("PORT_PKEY", f"/{_NCCL}")
    match = re.search(r"^\s*NCCL_IB_PKEY\s*=\s*(\d+)\s*$", text, re.MULTILINE)
    right = {index for ports in indexes.values() for index in ports.values()}
    if match and right and int(match[1]) not in right:
        yield nccl.failed(
            "host", f"NCCL_IB_PKEY is {match[1]}, where no port has a P_Key of the pod", match[1]
        )
