"""Messages about refused orders and requests: what is wrong with a value, and what the current state excludes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, LiteralString

from weft.model.messages.message import MESSAGE, Code, Component
from weft.model.messages.values import (
    COUNT,
    NODE,
    NODES,
    POD,
    PODS,
    SERVER,
    SPAN,
    TEXT,
    TIME,
    Value,
    word,
)

_STATE = word("[A-Z]{4,12}|being released")
_NAMES = word(r"[A-Za-z0-9 ._:,'-]{1,2000}")


class _Public(Value):
    """Text that only `instead` makes."""

    def valid(self, value: Any) -> bool:
        return isinstance(value, str)


_ALLOWED = Code(
    "ALLOWED",
    Component.ORDER,
    "{text}[{more}]",
    "{text}",
    "invalid-value",
    {"text": _Public(), "more": TEXT},
)
_VALUE = word(r"[\w .:,/()*'@\"=+…-]{0,2000}")
_LONGEST = 2000


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def instead(form: LiteralString, more: str = "", **values: str | int | datetime) -> str:
    """What is allowed instead of a refused value, for operators and tenants.

    Args:
        form: the end of a sentence, with the names of values in braces.
        values: what the caller gave, or what the site offers to all tenants. If one has characters other than letters,
            digits and the punctuation of lists, the sentence is plain text, for operators.
        more: follows it, for operators only.
    """
    texts = {
        name: TIME.text(value) if isinstance(value, datetime) else _cut(str(value))
        for name, value in values.items()
    }
    text = form.format(**texts)
    return _ALLOWED(text=text, more=more) if all(map(_VALUE.valid, texts.values())) else f"{text}{more}"


# -- what the current state excludes ---------------------------------------------------------------------------------

POD_EXISTS = Code(
    "POD_EXISTS",
    Component.ORDER,
    "name: pod '{pod}' already exists; release it first or use another name",
    True,
    "conflicts",
    {"pod": POD},
)
POD_NOT_FOUND = Code(
    "POD_NOT_FOUND",
    Component.ORDER,
    "there is no pod '{pod}' in this project",
    True,
    "conflicts",
    {"pod": word(r"[^\s'\"\\]{1,80}")},
)
SERVER_NOT_FOUND = Code(
    "SERVER_NOT_FOUND",
    Component.POD,
    "pod {pod} has no server on a node '{server}', and none of that name; its servers are on {nodes}",
    True,
    "conflicts",
    {"pod": POD, "server": NODE, "nodes": NODES},
)
NO_SITE = Code(
    "NO_SITE",
    Component.SITE,
    "no site has been described yet: an operator must run `weft site activate FILE` first",
    True,
    "conflicts",
)
AMBIGUOUS_POD = Code(
    "AMBIGUOUS_POD",
    Component.ORDER,
    "several projects have a pod '{pod}': give its id",
    True,
    "conflicts",
    {"pod": POD},
)
_POD = {"pod": POD, "state": _STATE, "now": COUNT, "generation": COUNT}
NO_LEASE_END = Code(
    "NO_LEASE_END", Component.LEASE, "pod {pod} has no end to extend", True, "conflicts", _POD
)
LEASE_FROM_START = Code(
    "LEASE_FROM_START",
    Component.LEASE,
    "pod {pod} is waiting for a lease of {span} from its start and has no end to extend: release it and order it with "
    "a longer duration",
    True,
    "conflicts",
    {"pod": POD, "span": SPAN},
)
NOT_WAITING = Code(
    "NOT_WAITING", Component.ORDER, "pod {pod} is no longer waiting: try again", True, "conflicts", _POD
)
NOT_EXTENDABLE = Code(
    "NOT_EXTENDABLE",
    Component.LEASE,
    "pod {pod} is {state}: it can no longer be extended",
    True,
    "conflicts",
    _POD,
)
BOOKED_BY_OTHERS = Code(
    "BOOKED_BY_OTHERS",
    Component.LEASE,
    "some of its nodes are booked by others from {start}",
    "some of its nodes are booked by others",
    "conflicts",
    {"start": TIME},
)
NOT_LONGER = Code(
    "NOT_LONGER",
    Component.LEASE,
    "pod {pod} can't be extended to {end}: {why}",
    "pod {pod} can't be extended to {end}[: {why}]",
    "conflicts",
    {"pod": POD, "end": TIME, "why": MESSAGE},
)
NOT_FAILED = Code(
    "NOT_FAILED",
    Component.ORDER,
    "pod {pod} is {state}: only a FAILED pod can be retried",
    True,
    "conflicts",
    _POD,
)
NOT_IN_USE = Code(
    "NOT_IN_USE",
    Component.POD,
    "pod {pod} is {state}: only servers of a READY or DEGRADED pod can be operated",
    True,
    "conflicts",
    _POD,
)
SEVERAL_SERVERS = Code(
    "SEVERAL_SERVERS",
    Component.POD,
    "pod {pod} has several servers on {node}: {names}",
    True,
    "conflicts",
    {"pod": POD, "node": NODE, "names": _NAMES},
)
SERVER_NOT_THERE = Code(
    "SERVER_NOT_THERE",
    Component.POD,
    "pod {pod}: the server of {node} isn't there: {why}",
    "pod {pod}: the server of {node} isn't there[: {why}]",
    "conflicts",
    {"pod": POD, "node": NODE, "why": MESSAGE},
)
NO_RECEIPT_EVER = Code(
    "NO_RECEIPT_EVER",
    Component.RELEASE,
    "pod {pod} is {state}: there is no receipt: nothing was ever claimed",
    True,
    "conflicts",
    _POD,
)
NO_RECEIPT_YET = Code(
    "NO_RECEIPT_YET",
    Component.RELEASE,
    "pod {pod} is {state}: there is no receipt: not RELEASED yet",
    True,
    "conflicts",
    _POD,
)
NO_NODES_YET = Code(
    "NO_NODES_YET",
    Component.POD,
    "pod {pod} has no nodes yet: {why}",
    "pod {pod} has no nodes yet[: {why}]",
    "conflicts",
    {"pod": POD, "why": MESSAGE},
)
APPLY_AFTERWARDS = Code(
    "APPLY_AFTERWARDS",
    Component.ORDER,
    "pod {pod} is being released: apply again afterwards, or use another name",
    True,
    "conflicts",
    _POD,
)
NOT_CHANGEABLE = Code(
    "NOT_CHANGEABLE",
    Component.ORDER,
    "pod {pod} is being released: it can no longer be changed",
    True,
    "conflicts",
    _POD,
)
CHANGED_TOO_LATE = Code(
    "CHANGED_TOO_LATE",
    Component.LEASE,
    "the lease of pod {pod} ended at {end}, and its release follows: it can no longer be changed",
    True,
    "conflicts",
    {"pod": POD, "end": TIME},
)
NO_SUCH_GENERATION = Code(
    "NO_SUCH_GENERATION",
    Component.ORDER,
    "pod {pod} doesn't exist, so it has no generation {generation}",
    True,
    "conflicts",
    _POD,
)
NOTHING_TO_CHANGE = Code(
    "NOTHING_TO_CHANGE",
    Component.ORDER,
    "pod {pod} doesn't exist, so it can't be changed",
    True,
    "conflicts",
    _POD,
)
ORDER_AGAIN = Code(
    "ORDER_AGAIN", Component.ORDER, "pod {pod} is {state}: order it again by name", True, "conflicts", _POD
)
STARTED_MEANWHILE = Code(
    "STARTED_MEANWHILE",
    Component.ORDER,
    "pod {pod} has started in the meantime: apply again",
    True,
    "conflicts",
    _POD,
)
CHANGED_MEANWHILE = Code(
    "CHANGED_MEANWHILE",
    Component.ORDER,
    "pod {pod} was changed to generation {now} in the meantime: check it with `weft pod show`, and repeat the request",
    True,
    "conflicts",
    _POD,
)
REPLACED_ALREADY = Code(
    "REPLACED_ALREADY",
    Component.ORDER,
    "server {server} of pod {pod} is being replaced already, on {by} instead of {node}: name node {by} to replace it "
    "once more",
    True,
    "conflicts",
    {"pod": POD, "server": word(SERVER), "node": NODE, "by": NODE},
)
IPUS_ARE_WHOLE = Code(
    "IPUS_ARE_WHOLE",
    Component.ORDER,
    "no IPU-Machine or server of a pod of IPUs can be replaced by another one: its V-IPU cluster is created as a "
    "whole, from one line of machines; release the pod and order it again",
    True,
    "conflicts",
)
VOLUMES_ARE_EMPTY = Code(
    "VOLUMES_ARE_EMPTY",
    Component.ORDER,
    "no server of a pod with volumes can be replaced on shared nodes: the new one would have new, empty volumes; "
    "mount shares instead, or order whole nodes",
    True,
    "conflicts",
)
NODE_NOT_IN_SITE = Code(
    "NODE_NOT_IN_SITE",
    Component.SITE,
    "node {node} of pod {pod} is no longer in site {site}",
    True,
    "conflicts",
    {"node": NODE, "pod": POD, "site": NODE},
)
EXPORT_NOT_IN_SITE = Code(
    "EXPORT_NOT_IN_SITE",
    Component.STORAGE,
    "its cloud no longer has the export {export} that pod {pod} mounts: it can be released, but not changed",
    True,
    "conflicts",
    {"export": NODE, "pod": POD},
)
TOO_MANY_WAITING = Code(
    "TOO_MANY_WAITING",
    Component.QUEUE,
    "the project has {waiting} of at most {most} waiting orders: release one, or order again when one has started",
    True,
    "conflicts",
    {"waiting": COUNT, "most": COUNT},
)
_OVERDUE = {"releases": COUNT, "most": COUNT, "pods": PODS}
RELEASES_OVERDUE = Code(
    "RELEASES_OVERDUE",
    Component.RELEASE,
    "{releases} of at most {most} releases of the project don't end ({pods}): remove what `weft pod show` names for "
    "each, then order again; where it names nothing, operators see the reason",
    True,
    "release",
    _OVERDUE,
)
WAITS_FOR_RELEASES = Code(
    "WAITS_FOR_RELEASES",
    Component.RELEASE,
    "{releases} of at most {most} releases of the project don't end ({pods}): starts once what `weft pod show` names "
    "for each is removed; where it names nothing, operators see the reason",
    True,
    "release",
    _OVERDUE,
)
CLOUD_REFUSES = Code(
    "CLOUD_REFUSES",
    Component.CLOUD,
    "the cloud refuses to {what} now: {why}",
    "the cloud refuses to {what} now[: {why}]",
    "conflicts",
    {"what": word(r"[a-z ]{1,40} server [0-9a-f-]{36}"), "why": MESSAGE},
)
