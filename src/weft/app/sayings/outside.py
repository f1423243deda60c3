"""What tenants see of failures of external services: what was asked, of which service, and known answers."""

from __future__ import annotations

import re

from weft.app.sayings.forms import GAPS, OPERATORS
from weft.model.errors import NO_ROLE
from weft.model.kinds import Kind
from weft.model.uses import NAME_SHOWN

_ASKED = re.compile(
    r"(?:create|update|delete|tag|boot|read|find|look at|look for|wait for|read back|list|serve) "
    rf"(?:{GAPS['name']}(?:, {GAPS['name']})*(?: and \d+ more)?(?: to settle| to go)?"
    rf"|(?:partitions?|{'|'.join(f'{k.row.one}|{k.row.many}' for k in Kind)})"
    rf"(?: {GAPS['name']})?|what was removed|what was taken away|the order)"
    r"|check a caller's token|talk to the database|write to the database"
)
_SERVICES = {
    "PostgreSQL": "the database",
    "compute": "Nova",
    "network": "Neutron",
    "image": "Glance",
    "identity": "Keystone",
    "placement": "Placement",
    "nova": "Nova",
    "neutron": "Neutron",
    "glance": "Glance",
    "keystone": "Keystone",
}
_COUNTED = (
    "(?:cores|ram|instances|injected_files|metadata_items|key_pairs|server_groups"
    "|network|subnet|port|router|floatingip|security_group|security_group_rule)"
)
_COUNTS = r"\d{1,9}(?:, \d{1,9})*"
_ANSWERS = (
    re.compile(rf"Quota exceeded for resources: \['{_COUNTED}'(?:, '{_COUNTED}')*\]"),
    re.compile(
        rf"Quota exceeded for {_COUNTED}(?:, {_COUNTED})*: Requested {_COUNTS}, "
        rf"but already used {_COUNTS} of {_COUNTS} {_COUNTED}(?:, {_COUNTED})*"
    ),
    re.compile(r"No valid host was found"),
    re.compile(r"it (?:failed|broke) \d{1,9} times"),
    re.compile(r"\AHTTP \d{3}\b"),
    re.compile(r"\Anot yet\b"),
    re.compile(r"\Ano answer in time\b"),
    re.compile(r"\A(?:blocked by others|others were in the way) for too long\b"),
    re.compile(r"\Ano connection was free\b"),
    re.compile(r"\Ait is read-only\b"),
)
_USES = rf"uses the (?:pod|network|site)'s (?:{'|'.join(k.row.one for k in Kind)})"
_THINGS = "(?:port|subnet|trunk|floating ip|attachment|snapshot|backup|replica|group|share group)"
_TITLE = rf"'{NAME_SHOWN}'"
_OWN_USE = re.compile(
    rf", ({_THINGS} [0-9a-f-]{{36}}(?: {_TITLE})?(?: of server {_TITLE})? {_USES}: remove it)"
    rf"(?=\Z|, (?:{_THINGS} [0-9a-f-]{{36}} |and \d+ more\Z))"
)
"""A use that the tenant's own members can end (`weft.model.uses.Use.sentence`)."""
_FOREIGN_USE = re.compile(rf", {_THINGS} [0-9a-f-]{{36}} of project [0-9a-zA-Z_-]{{1,64}} ({_USES})(?=\Z|, )")
_NO_ROLE = re.compile(rf"\b{re.escape(NO_ROLE)}\b")
_THEN = frozenset(
    {
        "will be retried",
        "try again later",
        "raise the project's quota or order less",
        "check the reason, then release the pod",
        "look into the reason, then release the pod",
        "change the order",
    }
)
_ASK = "operators see what to do"
_ALARMED = "operators are alarmed"
_OUTSIDE = re.compile(
    r"(?P<asked>[^()]{1,500}) \((?P<of>[^()]{1,300})\): (?P<answer>.*); (?P<then>[^;]{1,300})", re.DOTALL
)


def outside(asked: str, of: str, answer: str, then: str) -> tuple[str, str, str, str]:
    """The four parts of an `OutsideError`; of the answer only what is in the table."""
    service = _SERVICES.get(of.partition(" ")[0].rstrip(","), "the site")
    found = [one.group() for pattern in (*_ANSWERS, _NO_ROLE) if (one := pattern.search(answer))]
    found = [*_in_the_way(answer), *found]
    ask = _ALARMED if _NO_ROLE.search(answer) else _ASK
    return (
        asked if _ASKED.fullmatch(asked) else "do what was asked",
        service,
        ", ".join(reversed(found)) or OPERATORS,
        then if then in _THEN else ask,
    )


def _in_the_way(answer: str) -> list[str]:
    """What uses the thing, last first: the tenant's own with what to do, of others only that there is something."""
    foreign = [f"something of another project {one[1]}" for one in _FOREIGN_USE.finditer(answer)]
    own = [one[1] for one in _OWN_USE.finditer(answer)]
    others = [f"{foreign[0]} (operators see what)"] if foreign else []
    return [*others, *reversed(own)]


def outside_text(text: str) -> str | None:
    """An `OutsideError` from its text."""
    found = _OUTSIDE.fullmatch(text)
    if found is None:
        return None
    asked, of, answer, then = outside(*found.groups())
    return f"{asked} ({of}): {answer}; {then}"
