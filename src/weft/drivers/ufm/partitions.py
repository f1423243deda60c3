"""Partitions as UFM returns and accepts them. Pure.

Each answer contains its own proof: the default partition is always in the listing, and every partition has its list of
members, even if it is empty. Unknown fields are ignored; a missing one invalidates the whole answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from weft.model.fabrictypes import Mode
from weft.model.ids import DEFAULT_PKEY, format_guid, format_pkey, parse_guid, parse_pkey
from weft.model.specs import SegmentSpec

PKEYS = "/resources/pkeys"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class UfmPartition:
    """One partition.

    Attributes:
        members: GUID of a port, physical or virtual -> its membership.
        first: the members whose tables have the P_Key at index 0.
    """

    number: int
    name: str
    members: Mapping[int, Mode]
    ip_over_ib: bool = True
    first: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class PartitionListing:
    """All partitions.

    Attributes:
        default_membership: membership of every port in the default partition; None: this version doesn't say.
    """

    partitions: Mapping[int, UfmPartition]
    default_membership: Mode | None = None
    of_port: Mapping[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    """GUID -> the partitions it is in."""


def read_listing(document: object) -> PartitionListing:
    """GET /resources/pkeys?guids_data=true. Raises ValueError, saying why it isn't a listing."""
    if not isinstance(document, dict):
        raise ValueError(f"a {type(document).__name__} instead of partitions by their P_Key")
    found: dict[int, UfmPartition] = {}
    for key, entry in cast(dict[str, Any], document).items():
        number = _key(key)
        if number in found:
            raise ValueError(f"P_Key {format_pkey(number)} twice")
        found[number] = _partition(number, entry)
    default = found.pop(DEFAULT_PKEY, None)
    if default is None:
        raise ValueError("partitions without the default one, which is always there")
    entry = next(e for k, e in cast(dict[str, Any], document).items() if _key(k) == DEFAULT_PKEY)
    of_port: dict[int, set[int]] = {}
    for number, partition in found.items():
        for guid in partition.members:
            of_port.setdefault(guid, set()).add(number)
    word = cast(dict[str, Any], entry).get("membership")
    return PartitionListing(
        found, _mode(word) if word is not None else None, {g: frozenset(k) for g, k in of_port.items()}
    )


def read_one(document: object, number: int) -> UfmPartition | None:
    """GET /resources/pkeys/{pkey}?guids_data=true; None: it doesn't exist, which is `{}` or (document None) 404.

    Raises ValueError, saying why it isn't a partition.
    """
    if document is None or document == {}:
        return None
    if isinstance(document, dict) and len(cast(dict[str, Any], document)) == 1:
        [(key, inner)] = cast(dict[str, Any], document).items()
        if key.lower().startswith("0x") and _key(key) == number:
            return _partition(number, inner)
    return _partition(number, document)


def set_body(number: int, members: Mapping[int, Mode], current: UfmPartition | None) -> dict[str, Any]:
    """Body of the PUT that makes exactly these the members; other settings stay.

    Raises ValueError without members: UFM would delete the partition or refuse, depending on its version; and if some
    of those that stay have the P_Key at index 0 and others don't: a request sets this for all of its members.
    """
    if not members:
        raise ValueError("an empty list of members is never sent")
    guids, stay = sorted(members), current.members.keys() & members.keys() if current else set[int]()
    first = current.first & stay if current else set[int]()
    if first and first != stay:
        others = format_guid(min(stay - first))
        raise ValueError(
            f"member {format_guid(min(first))} has it at index 0 of its P_Key table and {others} hasn't (index0): one "
            "request can't keep both"
        )
    body: dict[str, Any] = {
        "pkey": format_pkey(number),
        "guids": [f"{g:016x}" for g in guids],
        "ip_over_ib": current.ip_over_ib if current else True,
        # Another P_Key index would cut off its current users, such as an IPoIB interface.
        "index0": bool(first),
    }
    modes = [str(members[g]) for g in guids]
    if len(set(modes)) == 1:
        body["membership"] = modes[0]
    else:
        body["memberships"] = modes
    return body


def difference(found: UfmPartition | None, members: Mapping[int, Mode]) -> str:
    """How a partition differs from one with these members, in words; empty: not at all. With no members, it must not
    exist."""
    if not members:
        return "it is still there" if found else ""
    if found is None:
        return "it is not there"
    given = found.members
    wrong = [g for g in sorted(members.keys() | given.keys()) if members.get(g) is not given.get(g)]
    more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    words = [
        f"{format_guid(g)} is {given.get(g, 'no')} member, wanted {members.get(g, 'none')}" for g in wrong
    ]
    return "; ".join(words[:_SHOWN]) + more


def members_of(spec: SegmentSpec) -> dict[int, Mode]:
    """GUID -> desired membership. Raises ValueError for anything that isn't a GUID."""
    return {parse_guid(m.port): m.mode for m in spec.members}


def _partition(number: int, entry: object) -> UfmPartition:
    if not isinstance(entry, dict):
        raise ValueError(f"P_Key {format_pkey(number)} is a {type(entry).__name__}")
    found = cast(dict[str, Any], entry)
    guids = found.get("guids")
    if not isinstance(guids, list):
        raise ValueError(f"P_Key {format_pkey(number)} without its list of members")
    members, first = dict[int, Mode](), set[int]()
    for member in cast(list[Any], guids):
        if not isinstance(member, dict):
            raise ValueError(f"P_Key {format_pkey(number)}: a member that is a {type(member).__name__}")
        row = cast(dict[str, Any], member)
        guid = guid_of(row.get("guid"))
        if guid in members and members[guid] is not _mode(row.get("membership")):
            raise ValueError(f"P_Key {format_pkey(number)}: member {guid:016x} twice")
        members[guid] = _mode(row.get("membership"))
        if _flag(row, "index0", False):
            first.add(guid)
    ip_over_ib = _flag(found, "ip_over_ib", True)
    return UfmPartition(number, str(found.get("partition") or ""), members, ip_over_ib, frozenset(first))


def _key(text: str) -> int:
    """`0x5`, `0x0005` and `0x8005` are the same; hex without the prefix is accepted, too."""
    return parse_pkey(text if text.lower().startswith("0x") else f"0x{text}")


def guid_of(value: object) -> int:
    """A GUID as UFM writes it, as a text. Raises ValueError for anything else: a JSON number might have been read as
    decimal."""
    if not isinstance(value, str):
        raise ValueError(f"GUID {value!r}: text of 16 hex digits")
    return parse_guid(value)


def _flag(row: Mapping[str, Any], name: str, default: bool) -> bool:
    value = row.get(name)
    word = default if value is None else {"true": True, "false": False}.get(str(value).lower())
    if word is None:
        raise ValueError(f"{name} {value!r}: true or false")
    return word


def _mode(word: object) -> Mode:
    text = str(word).lower()
    if text == "full":
        return Mode.FULL
    if text == "limited":
        return Mode.LIMITED
    raise ValueError(f"membership {word!r}: full or limited")
