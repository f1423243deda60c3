"""SONiC's YANG models of all ages, as served by RESTCONF; and what its errors mean. Pure.

The models of 2019, which vendors' images still have, call a port `ifname` wherever it is. Since the management
framework takes sonic-buildimage's, it is `name` in its own row and `port` in one that refers to it; the tables of QoS
settings kept `ifname`.

Sources: sonic-mgmt-framework, `models/yang/sonic/sonic-vlan.yang` (2e204e2), `rest/server/error.go` (3c3384c),
`router.go` (54f4e2a); sonic-mgmt-common, `models/yang/sonic/import.mk` (0b51536); sonic-buildimage, `sonic-vlan.yang`
(0bd5a1b), `sonic-portchannel.yang` (02ab327).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

MEDIA = "application/yang-data+json"
"""Media type of bodies: any other is answered with 415."""

Leaf = Literal["ifname", "port"]
"""The field of a row of VLAN_MEMBER that names its port."""
Entry = Mapping[str, Any]


def own_name(row: Entry) -> str:
    """A port's name, from its row. Raises KeyError, TypeError."""
    return _text(row["ifname"] if "ifname" in row else row["name"])


def member_leaf(row: Entry) -> Leaf:
    """The field that names ports, judged by any row with a port."""
    return "ifname" if "ifname" in row else "port"


def member(row: Entry) -> str:
    """The port that a row refers to. Raises KeyError, TypeError."""
    return _text(row[member_leaf(row)])


def is_untagged(row: Entry) -> bool:
    """Whether a row of VLAN_MEMBER is for untagged frames. Raises KeyError, ValueError."""
    mode = str(row["tagging_mode"]).lower()
    if mode not in ("tagged", "untagged", "priority_tagged"):
        raise ValueError(f"tagging_mode {mode[:40]!r}")
    return mode == "untagged"


def _text(name: object) -> str:
    """A port's name. Raises TypeError for anything but a text."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"{name!r} instead of a port's name")
    return name


def error_of(body: Any) -> tuple[str, str]:
    """Type and tag of the first error in an answer; empty if there is none."""
    try:
        first = body["ietf-restconf:errors"]["error"][0]
        return str(first["error-type"]), str(first["error-tag"])
    except (KeyError, TypeError, IndexError):
        return "", ""


def is_empty(status: int, body: Any) -> bool:
    """Whether an answer says that a table which the server knows is empty."""
    return status == 404 and error_of(body)[0] == "application"


def is_busy(status: int, body: Any) -> bool:
    """Whether another transaction was in the way of this one."""
    return status == 409 and error_of(body)[1] == "in-use"


def is_refused(status: int, body: Any) -> bool:
    """Whether a request was understood and had no effect; violated constraints of the models have status
    500."""
    return status in (400, 404, 405, 409, 415) or (status == 500 and error_of(body)[1] == "invalid-value")
