"""What tenants see about their pods: reasons of states and resources, events, differences, and the service's health."""

from __future__ import annotations

import re

from weft.app.sayings.forms import GAPS, HIDDEN, OPERATORS, UNITS, forms, told
from weft.app.sayings.orders import REFUSALS, overdue, quotas
from weft.app.sayings.outside import outside_text
from weft.app.sayings.times import later, minute, moment
from weft.engine.gate import BEHIND, UNREAD
from weft.model.pod import PodState
from weft.planning.shapes.resolve import SHAPES

EVENT = "operators see what happened"
_REASONS = forms(
    "nothing was claimed yet",
    "retry requested",
    "the order was changed",
    "release requested",
    "in the queue",
    "waiting for capacity",
    "waiting for capacity on nodes that are kept for it",
    "waiting for capacity: the free nodes are kept for an order that came before",
    "waiting for fewer leaves",
    "waiting to learn what is on its nodes",
    *overdue("starts once what `weft pod show` names for each is removed"),
    "its lease has ended",
    "due to start, but its nodes are not released yet",
    "no time is known at which it fits",
    "the lease ended before it could start",
    "it is missing",
    "reappeared after its removal",
    "abandoned by {user}: …",
    "starts at {time}",
    *(f"starts at {{time}}, {shape.units} booked: {{n}}" for shape in SHAPES),
)
_EVENTS = forms(
    "PENDING: ordered",
    "PLACED: {nodes}",
    "PLACED: {nodes}; spare: {nodes}",
    "creating {name}",
    "removing {name}",
    "{name} is ready",
    "{node} was read back clean and is free",
    "what servers had of {node} was read back clean and is free",
    "receipt signed",
    "port {id} is in segment {id}",
    "port {id} is no longer in segment {id}: …",
    "lease ended",
    "the lease ended before it could start",
    "release requested by {user}",
    "{action} of {node} requested by {user}",
    "console of {node} requested by {user}",
    "extended until {time} by {user}",
    "generation {n} by {user}: …",
    "generation {n} is applied",
    "the lease ends at {time}: the pod is released then, unless it is extended (weft pod extend)",
    "{state}",
    "abandon requested by {user}: …",
    "abandoned with remains: …",
    "seen free and released: …",
    "{space} {n} is in use by something else: now using {n}",
    "{kind} {id} is in {node} after the pod was released, although the receipt reports it gone",
    "segment {id} is on fabric {node} after the pod was released, although the receipt reports it gone",
    "{kind} {id} is gone: …",
    "segment {id} is no longer on any port of {node}",
)
_LEADS = forms(
    "{state}: …",
    "{name} is broken and will be replaced: …",
    "repairing {name}: …",
)
"""Beginnings of events; the rest is shown if it matches a form itself."""
_CLAUSES = forms(
    "network {name} has something on it that doesn't belong to the pod: …",
    "port {name} is not the only one with its MAC address: …",
    "MAC address {id} is not the only one with its MAC address: …",
    "virtual port {id} is not only where it belongs: …",
    "{kind} {name} is missing",
    "{kind} {name}: {field} is …",
    "{kind} {name} is {field}: …",
    *(
        f"node {{node}}: {why}: its adapters are kept out of the pod's segment"
        for why in (
            "the pod's server isn't on its host",
            "its machine doesn't run the pod's server now",
            "its host has something that doesn't belong to the pod",
        )
    ),
    "node {node}: a server of the pod isn't on its host, where it has others",
    *(
        f"node {{node}}: its host has something that doesn't belong to the pod{why}"
        for why in (
            ", without an adapter: the pod's stay in its segment",
            ": adapters that the pod's server doesn't have are kept out of its segment",
        )
    ),
)
_NAME = r"[A-Za-z0-9._-]{1,63}"
_COUNT = re.compile(
    rf"\d{{1,9}} (?:[a-z_]{{1,30}}s in {_NAME}|(?:[A-Z]{{2,8}}'s )?host ports of {_NAME}"
    rf"|ports' settings for RoCE of {_NAME}|switch ports of (?:the site's networks on )?{_NAME}"
    rf"|pings on {_NAME} without an answer"
    rf"|adapters of {_NAME} (?:that hear each other|that did before their servers had them|without an agent that answer"
    rf"|that ping nobody, for want of an address)|others of {_NAME} that hear none of them"
    rf"|other VLANs of {_NAME} whose tags get none of them in)"
)
"""Planes with the number of things that were read there."""
_STEPS = (
    re.compile(r"(?:[A-Z][A-Z_]{1,19}(?: [a-z][a-z_-]{1,39})?|being (?:deleted|revoked))"),
    re.compile(r"([A-Z]{2,10}) on (?:no host yet|[A-Za-z0-9._-]{1,255})"),
    re.compile(
        r"(?:creating|extending|shrinking|in-use|attaching|detaching|queued_to_(?:apply|deny)|applying|denying|deploying"
        r"|wait call-back|deploy(?: hold)?|cleaning|clean wait|clean hold|deleting|rebuild|adopting|inspecting)"
    ),
)
"""States of a cloud's own that last a while: of servers (with what is done), ports (not where), data, machines."""
_HEALTH = forms(
    "ok",
    "ok, but {n} of {n} managers don't respond",
    "unknown: its manager doesn't respond",
    "starting",
    BEHIND,
    UNREAD,
    "no sign of life for {n} s, more than {n} s",
    "no turn for {n} s, more than {n} s…",
)
_OWN_FIELDS = frozenset({"status", "cidr", "address", "gateway", "dhcp", "port_security", "others"})
"""Fields of resources whose values the tenant can also read in its own cloud."""
_VALUE = re.compile(r"[A-Za-z0-9._/-]{0,18}")

_STATES = {
    PodState.PENDING: "it is waiting",
    PodState.PLACED: "it is about to be created",
    PodState.WIRING: "something is not ready yet; weft keeps trying",
    PodState.BOOTING: "something is not ready yet; weft keeps trying",
    PodState.VERIFYING: "not everything was read back as desired yet",
    PodState.READY: "it serves, but not everything is set as the site wants it",
    PodState.DEGRADED: "not everything is as desired; weft keeps checking and repairs what it can",
    PodState.FAILED: "it can't be served as ordered",
    PodState.RELEASING: "not everything was seen gone yet; weft continues until it is",
    PodState.RELEASED: "",
}


def reason(text: str, state: PodState) -> str:
    """Why a pod is in its state."""
    if not text:
        return ""
    plain = _STATES.get(state, "")
    return _reason(text) or (f"{plain} ({OPERATORS})" if plain else OPERATORS)


def step(text: str, at_rest: bool) -> str:
    """Why a resource is in its state; empty if there is nothing to say, as for one at rest or proved gone."""
    return text and (_reason(text) or _on_its_way(text) or ("" if at_rest else OPERATORS))


def _on_its_way(text: str) -> str | None:
    found = next((one for form in _STEPS if (one := form.fullmatch(text))), None)
    return found and (found[1] if found.re.groups else found[0])


def _reason(text: str) -> str | None:
    """A change shows at least its generation, whatever blocks it."""
    about = re.fullmatch(r"(changing to generation \d{1,9})(?:(: |; )(.+))?", text, re.DOTALL)
    if about and about[3]:
        return f"{about[1]}{about[2]}{_plain_reason(about[3]) or OPERATORS}"
    return about[1] if about else _plain_reason(text)


def _plain_reason(text: str) -> str | None:
    starts = re.fullmatch(
        rf"((?:waiting for capacity|waits for room); starts by )({GAPS['time']})(, (?:{UNITS}) (?:booked|promised): "
        rf"\d+)",
        text,
    )
    if starts:
        return f"{starts[1]}{minute(later(moment(starts[2])))}{starts[3]}"
    if limit := re.fullmatch(r"project [\w-]{1,64} (has \d+ of \d+ nodes)", text):
        return f"the project {limit[1]}"
    return (
        told(_REASONS, text) or told(REFUSALS, text) or quotas(text) or outside_text(text) or _problems(text)
    )


def _problems(text: str) -> str | None:
    """Problems that were found, one clause each: those that match a form, and whether there are others."""
    clauses = re.split(r"; | \(and \d+ more\)$", text)
    known: list[str] = []
    for clause in clauses:
        plain = clause.removeprefix("unknown: ")
        shown = told(_CLAUSES, plain)
        if shown is None:
            continue
        differs = re.fullmatch(rf"(?:{GAPS['kind']}) {GAPS['name']}: {GAPS['field']} is", shown)
        shown = f"{shown} not as desired" if differs else shown
        known.append(shown if plain == clause else f"unknown: {shown}")
    if not known:
        return None
    return "; ".join(dict.fromkeys(known)) + (f"; {OPERATORS}" if len(known) < len(clauses) else "")


def event(text: str) -> str:
    """An event's message. None is omitted: a client that waits for events would request it again and again."""
    if shown := told(_EVENTS, text) or _verified(text):
        return shown
    if lasts := re.match(rf"({GAPS['state']}) for \d{{1,9}} s, more than \d{{1,9}} s: ", text):
        rest = _reason(text[lasts.end() :])
        return lasts.group().removesuffix(": ") + (f": {rest}" if rest else "")
    for lead in _LEADS:
        if found := lead.fullmatch(text):
            begin = found[1]
            rest = _reason(text[len(begin) :])
            return begin + rest if rest else begin.removesuffix(": ")
    return _reason(text) or EVENT


def _verified(text: str) -> str | None:
    """What was read back: the planes that a tenant may know of, and of notes those that match a form."""
    found = re.fullmatch(r"(as (?:desired|wanted)): (.*?)(?:; but (.*))?", text, re.DOTALL)
    if found is None:
        return None
    counts = [count for count in re.split(r", (?=\d)", found[2]) if _COUNT.fullmatch(count)]
    if not counts:
        return found[1]
    notes = _reason(found[3]) if found[3] else None
    return f"{found[1]}: {', '.join(counts)}" + (f"; but {notes}" if notes else "")


def difference(field: str, wanted: str, observed: str) -> tuple[str, str, str]:
    """Which field differs; values only for fields that the tenant can see in its own cloud."""
    if not re.fullmatch(GAPS["field"], field):
        return HIDDEN, HIDDEN, HIDDEN
    if field in _OWN_FIELDS and _VALUE.fullmatch(wanted) and _VALUE.fullmatch(observed):
        return field, wanted, observed
    return field, HIDDEN, HIDDEN


def health(text: str) -> str:
    """Health of a part of the service; anyone may ask."""
    return told(_HEALTH, text) or "not ok"
