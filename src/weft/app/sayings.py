"""The sentences that a tenant is shown: a table, closed by default.

What weft writes down for itself and for operators (reasons, events, errors) has words of many hands in it: services'
answers, operators' reasons for a quarantine, other projects' pods, hosts, agents. None of it reaches a tenant unless
the whole sentence has one of the forms below, whose gaps take nothing but numbers, times, words of the field and
names that are the pod's own or the tenant's. A sentence of no form is replaced by a plain one for the state. A new
sentence is therefore hidden until somebody has put its form here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from weft.model.kinds import Kind
from weft.model.order import KEY_PAIR_NAMES
from weft.model.pod import PodState
from weft.planning.shapes.orderdiff import WHYS
from weft.planning.shapes.resolve import SHAPES

HIDDEN = "(hidden)"
OPERATORS = "operators see why"
EVENT = "operators see what happened"
LATER = "later, when other nodes have become free"
_ROUND = 15 * 60
"""Seconds: times that follow from other projects' leases are told no finer."""
_MINUTE = "%Y-%m-%dT%H:%MZ"

_PLACES = "|".join(("cloud", "fabric", *(p for shape in SHAPES for p in shape.says.places)))
_UNITS = "|".join(shape.units for shape in SHAPES)
_GAPS = {
    "n": r"\d{1,9}",
    "name": r"weft-[0-9a-f]{8}-[A-Za-z0-9._-]{1,120}",
    "node": r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
    "nodes": r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}(?:, [A-Za-z0-9][A-Za-z0-9._-]{0,62})*",
    "pod": r"'?[a-z0-9][a-z0-9-]{0,39}'?",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\dZ",
    "user": r"[\w.@-]{1,64}",
    "span": r"[1-9]\d{0,6}[smhd]",
    "state": "|".join(PodState),
    # Rows of before fabrics had segments say partition.
    "kind": "|".join(("partition", *Kind)),
    "level": r"node|leaf|block|hall|building|site",
    "place": rf"(?:{_PLACES}) [A-Za-z0-9][A-Za-z0-9._-]{{0,62}}",
    "field": r"[a-z_]{1,40}",
    "list": r"[A-Za-z0-9 ._:,-]{1,2000}",
    "cidr": r"[0-9./]{7,18}",
    "id": r"[0-9a-f-]{36}|0x[0-9a-f]{1,4}|weft-[0-9a-f]{8}-[A-Za-z0-9._-]{1,120}",
    "space": r"(?:segment|vlan|data)/[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
}


def _form(text: str) -> re.Pattern[str]:
    """`{n}` is a gap, `…` takes anything, which is not shown; what it shows is in the pattern's groups."""
    parts = re.split(r"(\{\w+\}|…)", text)
    made = ""
    shown = False
    for part in parts:
        if part == "…":
            made, shown = made + (")" if shown else "") + "(?:.*)", False
            continue
        made, shown = made + ("" if shown else "("), True
        made += f"(?:{_GAPS[part[1:-1]]})" if part[:1] == "{" and part[-1:] == "}" else re.escape(part)
    return re.compile(made + (")" if shown else ""), re.DOTALL)


def _forms(*texts: str) -> tuple[re.Pattern[str], ...]:
    return tuple(_form(text) for text in texts)


_SPARE = ("", " ({n} of them spare)")
_REASONS = _forms(
    "it had nothing yet",
    "retry asked",
    "it was changed",
    "release asked",
    "in the queue",
    "waits for room",
    "waits for fewer leaves",
    "its lease is over",
    "its time has come, but its nodes are not given back yet",
    "fits at no time that is known",
    "the lease ended before it could start",
    "it is not there",
    "seen again after it was gone",
    "abandoned by {user}: …",
    "starts at {time}",
    *(f"starts at {{time}}, {shape.units} promised: {{n}}" for shape in SHAPES),
)
_EVENTS = _forms(
    "PENDING: ordered",
    "PLACED: {nodes}",
    "PLACED: {nodes}; spare: {nodes}",
    "creating {name}",
    "removing {name}",
    "{name} is there",
    "{node} was read back clean and is free",
    "receipt signed",
    "lease ended",
    "the lease ended before it could start",
    "release asked by {user}",
    "extended until {time} by {user}",
    "generation {n} by {user}: …",
    "the lease ends at {time}: the pod is released then, unless it is extended (weft pod extend)",
    "{state}",
    "abandon asked by {user}: …",
    "abandoned with this left: …",
    "seen free, and given back: …",
    "{space} {n} is in use by somebody else: it has {n} now",
    "{kind} {id} is in {node} after the pod was released, though the receipt says that it was gone",
    "segment {id} is on fabric {node} after the pod was released, though the receipt says that it was gone",
    "{kind} {id} is gone: …",
    "segment {id} is on no port of {node} any more",
)
_LEADS = _forms(
    "{state}: …",
    *(f"{{name}} is broken and is {what}: …" for what in ("replaced", "made anew")),
    *(f"{word} {{name}}: …" for word in ("repairing", "mending")),
)
"""Begin of an event; what follows is told if it has a form."""
_CLAUSES = _forms(
    "network {name} has something on it that is not the pod's: …",
    "{kind} {name} is not there",
    "{kind} {name}: {field} is …",
    "{kind} {name} is {field}: …",
    *(
        f"node {{node}}: {why}: its adapters are kept out of the pod's partition"
        for why in ("the pod's server isn't on its host", "something that isn't the pod's is on its host")
    ),
)
_REFUSALS = _forms(
    *(
        f"{{n}} node{s}{spare} {verb} wanted and {{n}} {those} free for this order…"
        for s, verb in (("", "is"), ("s", "are"))
        for spare in _SPARE
        for those in ("is", "are")
    ),
    *(
        f"{{n}} nodes{spare} are wanted in groups of {{n}} inside a leaf, and {{n}} of the {{n}} that are free for "
        "this order can be had so (locality.slice is {n})."
        for spare in _SPARE
    ),
    *(f"{{n}} nodes{spare} can't be on one node: locality.required is node." for spare in _SPARE),
    *(
        f"{{n}} server{s} with {{n}} {{node}} each are wanted on shared nodes and there is room for {{n}}…"
        for s in ("", "s")
    ),
    *(
        f"{{n}} server{s} with {{n}} {{node}} each fit, but at most {{n}} inside one {{level}}…"
        for s in ("", "s")
    ),
    *(
        f"{{n}} node{s} {verb} free for this order{group}, but at most {{n}} of the {{n}} inside one {{level}}…"
        for s, verb in (("", "is"), ("s", "are"))
        for group in ("", " in groups of {n}")
    ),
    *(
        f"{{n}} node{s} {verb} free for this order{group}, but no leaves whose uplinks have {{n}} Gb/s left…"
        for s, verb in (("", "is"), ("s", "are"))
        for group in ("", " in groups of {n}")
    ),
    *(
        f"the project has {{n}} of the {{n}} nodes that it may have at once; {{n}} more are wanted{spare}"
        for spare in ("", ", {n} of them spare")
    ),
    *(
        f"subnet {{cidr}} of the pod's {{field}} network has {{n}} addresses, and {{n}} are needed for {{n}} {one}; "
        "a subnet can't grow while servers are on it"
        for one in ("node", "nodes")
    ),
    "{place}: all its management VLANs are in use",
    "{place}: all management VLANs {n} to {n} are in use",
    "{place}: no free subnet of {n} addresses is left…",
    "{place}: no free subnet is left…",
    *(text for shape in SHAPES for text in shape.says.refusals),
)
_CHOSEN = _forms(
    *(
        f"{{n}} node{s} stay on {{n}} {leaves} ({{nodes}})…"
        for s in ("", "s")
        for leaves in ("leaf", "leaves")
    ),
    *(
        f"{{n}} node{s}{spare} on {{n}} {leaves} ({{nodes}}{more})…"
        for s in ("", "s")
        for spare in ("", ", and {nodes} spare,")
        for leaves in ("leaf", "leaves")
        for more in ("", " and {n} more")
    ),
    *(f"{{n}} server{s} on {{n}} node{z}…" for s in ("", "s") for z in ("", "s")),
)
_CHANGES = _forms(
    "count: {n} instead of {n}",
    "locality.required: {level} instead of {level}",
    "locality.slice: {n} instead of {n}",
    "locality.exclusive: false instead of true",
    "nodes.spare: {n} instead of {n}",
    "nodes.count: {n}",
    "nodes.count: {n} instead of {n}",
    "a new pod, with a larger network.{field}",
    "nodes.image, nodes.flavor: others, …",
    *(text for shape in SHAPES for text in shape.says.changes),
)
_CONFLICTS = _forms(
    "name: there is a pod {pod} already; release it first or take another name",
    "pod {pod} has no end that could be later",
    "pod {pod} waits for a lease of {span} from its start, and has no end that could be later: "
    "release it and order it with a longer duration",
    "pod {pod} doesn't wait any more: try again",
    "pod {pod} is {state}: it can't be extended any more",
    "pod {pod} is being released: it can't be extended any more",
    "pod {pod} is {state}: only a pod that FAILED can be tried again",
    "pod {pod} is being released: only a pod that FAILED can be tried again",
    "pod {pod} is {state}: there is no receipt: it never had anything",
    "pod {pod} is {state}: there is no receipt: only once it is RELEASED",
    "pod {pod} has no nodes yet: …",
    "pod {pod} can't be extended to {time}: nodes of it are promised to others…",
    "pod {pod} can't be extended to {time}: …",
    "several projects have a pod {pod}: give its id",
    "pod {pod} is being released: apply again when it is, or take another name",
    "pod {pod} is being released: it can't be changed any more",
    "pod {pod} isn't there, so it has no generation {n}",
    "pod {pod} is {state}: order it anew by its name",
    "pod {pod} has begun meanwhile: apply again",
    "pod {pod} was changed meanwhile and is generation {n} now: look at it with `weft pod show`, and apply again",
    "node {node} of pod {pod} isn't in site {node} any more",
    "the project has {n} orders waiting, and may have {n}: release one of them, or order again when one has started",
)
_ALLOWED = _forms(
    *sorted(WHYS),
    "nodes of the pod: {nodes}",
    *(
        f"{{n}} {one}, since nodes.{field} goes from {{n}} to {{n}}"
        for field, names in (("count", ("node", "nodes")), ("spare", ("spare", "spares")))
        for one in names
    ),
    *(
        f"whole slices of {{n}} nodes of one leaf; {{n}} {one} would be left on {{node}}"
        for one in ("node", "nodes")
    ),
    "{level} or wider, since its nodes are all within one {level} and none of them moves",
    "{n}, or name the nodes that go: no {n} of them keep what it asks",
    "left out: the pod has no nodes yet",
    "true: the order waits; release it and order anew what is not to wait",
    "{pod}, the pod's name, which doesn't change",
    "the name that the order is applied to",
    "a token for a project, since pods belong to projects",
    "a time in the future",
    "later than the lease's end, which is {time}",
    "types of accelerators of site {node}: {list}",
    "levels of site {node}: {list}",
    "other projects: pods of one project may always share a leaf",
    "flavors of cloud {node}: {list}",
    "no flavor of cloud {node} has them; its flavors have: {list}",
    "no node of cloud {node} with what is ordered is on a fabric at all",
    "the nodes that could be had are on several fabrics: {list}",
    "fabrics of site {node}: {list}",
    "clouds of site {node}: {list}",
    "cloud {node} has no external network in the site",
    "the site names no external network for this cloud",
    "the project can't see the site's external network …",
    "give a unicast network; this one is {list}",
    'give a unicast network; this one is "this network" (0.0.0.0/8)',
    "{n} nodes need {n} addresses: at least a /{n}",
    "it must not overlap network.rdma {cidr}",
    "nothing, since fabric is none: the pod has no RDMA network",
    "shared, or fabric: none; whole adapters belong to whole nodes",
    "a flavor that the site counts as Nova does: …",
    "a flavor with accelerators in the site; {node} has none that could be counted",
    "a multiple of the slice ({n})",
    "the project has no active image of that name",
    "the project has no flavor of that name",
    "flavor {node} gives {list} (pci_passthrough:alias)",
    "the ordering user has no such key pair in this cloud",
    "the user has no such key pair",
    "a key pair of type ssh",
    "its public key must be of type ssh-ed25519, ssh-rsa or ecdsa-sha2-nistp*",
    KEY_PAIR_NAMES,
    "an end, {time} at the latest: leases end within {span} here",
    "give a network of a /{n} at most",
    "0 or left out: the site has no cables from fabric {node}'s leaves to other switches",
    "it needs {n} MiB of RAM (min_ram), and flavor {node} has {n}",
    "it needs {n} GiB of disk (min_disk), and flavor {node} has {n}",
    "it has {n} MiB, and flavor {node} has {n} GiB of disk",
    *(text for shape in SHAPES for text in shape.says.allowed),
)
_ABSENT = _forms(
    "there is nothing of that name",
    "there is no pod {pod} in this project",
    "no site has been described yet: an operator runs `weft site apply FILE` first",
)
_HEALTH = _forms(
    "ok",
    "ok, but {n} of {n} subnet managers can't be asked",
    "unknown: no master subnet manager answers",
    "it starts",
    "no sign of life for {n} s, more than {n} s",
    "no turn for {n} s, more than {n} s…",
)
_OWN_FIELDS = frozenset({"status", "cidr", "address", "gateway", "dhcp", "port_security"})
"""Fields of resources whose values the tenant reads in its own cloud too."""
_VALUE = re.compile(r"[A-Za-z0-9._/-]{0,18}")

_ASKED = re.compile(
    r"(?:create|update|delete|tag|boot|read|find|look at|look for|wait for|read back|list|serve) "
    rf"(?:{_GAPS['name']}(?:, {_GAPS['name']})*(?: and \d+ more)?(?: to settle| to go)?"
    rf"|(?:partitions?|{'|'.join(f'{k.row.one}|{k.row.many}' for k in Kind)})"
    rf"(?: {_GAPS['name']})?|what was taken away|the order)"
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
    re.compile(r"it broke \d{1,9} times"),
    re.compile(r"\AHTTP \d{3}\b"),
    re.compile(r"\Anot yet\b"),
    re.compile(r"\Ano answer in time\b"),
    re.compile(r"\Aothers were in the way for too long\b"),
    re.compile(r"\Ano connection was free\b"),
    re.compile(r"\Ait is read-only\b"),
)
_THEN = frozenset(
    {
        "will be retried",
        "try again later",
        "raise the project's quota or order less",
        "look into the reason, then release the pod",
        "change the order",
    }
)
_ASK = "operators see what to do"
_OUTSIDE = re.compile(
    r"(?P<asked>[^()]{1,500}) \((?P<of>[^()]{1,300})\): (?P<answer>.*); (?P<then>[^;]{1,300})", re.DOTALL
)

_STATES = {
    PodState.PENDING: "it waits",
    PodState.PLACED: "it is about to be built",
    PodState.WIRING: "something outside is not ready yet; weft tries again",
    PodState.BOOTING: "something outside is not ready yet; weft tries again",
    PodState.VERIFYING: "not everything was read back as wanted yet",
    PodState.READY: "",
    PodState.DEGRADED: "not everything is as wanted; weft looks again and repairs what it can",
    PodState.FAILED: "it can't be served as it was ordered",
    PodState.RELEASING: "not everything was seen gone yet; weft goes on until it is",
    PodState.RELEASED: "",
}


def _told(forms: Iterable[re.Pattern[str]], text: str) -> str | None:
    """What of a sentence is shown, if it has one of the forms."""
    for form in forms:
        if found := form.fullmatch(text):
            return "".join(g for g in found.groups() if g).rstrip(" (,:")
    return None


def reason(text: str, state: PodState) -> str:
    """Why a pod is in its state."""
    if not text:
        return ""
    plain = _STATES.get(state, "")
    return _reason(text) or (f"{plain} ({OPERATORS})" if plain else OPERATORS)


def step(text: str, at_rest: bool) -> str:
    """Why a resource is as it is; empty if there is nothing to say, as of one that is at rest or proved to be gone."""
    return text and (_reason(text) or ("" if at_rest else OPERATORS))


def _reason(text: str) -> str | None:
    """Of a change its generation is told, whatever is in its way."""
    about = re.fullmatch(r"(changing to generation \d{1,9})(?:(: |; )(.+))?", text, re.DOTALL)
    if about and about[3]:
        return f"{about[1]}{about[2]}{_plain_reason(about[3]) or OPERATORS}"
    return about[1] if about else _plain_reason(text)


def _plain_reason(text: str) -> str | None:
    starts = re.fullmatch(
        rf"(waits for room; starts by )({_GAPS['time']})(, (?:{_UNITS}) promised: \d+)", text
    )
    if starts:
        return f"{starts[1]}{_minute(later(_moment(starts[2])))}{starts[3]}"
    if limit := re.fullmatch(r"project [\w-]{1,64} (has \d+ of \d+ nodes)", text):
        return f"the project {limit[1]}"
    return (
        _told(_REASONS, text)
        or _told(_REFUSALS, text)
        or _quotas(text)
        or _outside_text(text)
        or _problems(text)
    )


def _problems(text: str) -> str | None:
    """What a look has found, one clause each: those that have a form, and that there are others."""
    clauses = re.split(r"; | \(and \d+ more\)$", text)
    known: list[str] = []
    for clause in clauses:
        plain = clause.removeprefix("unknown: ")
        told = _told(_CLAUSES, plain)
        if told is None:
            continue
        differs = re.fullmatch(rf"(?:{_GAPS['kind']}) {_GAPS['name']}: {_GAPS['field']} is", told)
        told = f"{told} not as wanted" if differs else told
        known.append(told if plain == clause else f"unknown: {told}")
    if not known:
        return None
    return "; ".join(dict.fromkeys(known)) + (f"; {OPERATORS}" if len(known) < len(clauses) else "")


def _quotas(text: str) -> str | None:
    row = r"[A-Za-z() ]{1,40}: \d+ used \+ \d+ wanted > \d+"
    return text if re.fullmatch(rf"the project's quotas would be exceeded: {row}(?:; {row})*", text) else None


def _outside_text(text: str) -> str | None:
    """An `OutsideError` as it was written down."""
    found = _OUTSIDE.fullmatch(text)
    if found is None:
        return None
    asked, of, answer, then = outside(*found.groups())
    return f"{asked} ({of}): {answer}; {then}"


def outside(asked: str, of: str, answer: str, then: str) -> tuple[str, str, str, str]:
    """The four parts of an `OutsideError`: what was asked, of which service, and of the answer what is in the table."""
    service = _SERVICES.get(of.partition(" ")[0].rstrip(","), "the site")
    found = [one.group() for pattern in _ANSWERS if (one := pattern.search(answer))]
    return (
        asked if _ASKED.fullmatch(asked) else "do what was asked",
        service,
        ", ".join(reversed(found)) or OPERATORS,
        then if then in _THEN else _ASK,
    )


def event(text: str) -> str:
    """An event's message. None is left out: who waits for events would ask for it again and again."""
    if told := _told(_EVENTS, text) or _verified(text):
        return told
    if lasts := re.match(rf"({_GAPS['state']}) for \d{{1,9}} s, more than \d{{1,9}} s: ", text):
        rest = _reason(text[lasts.end() :])
        return lasts.group().removesuffix(": ") + (f": {rest}" if rest else "")
    for lead in _LEADS:
        if found := lead.fullmatch(text):
            begin = found[1]
            rest = _reason(text[len(begin) :])
            return begin + rest if rest else begin.removesuffix(": ")
    return _reason(text) or EVENT


def _verified(text: str) -> str | None:
    count = r"\d{1,9} (?:[a-z_]{1,30}s in|host ports of) [A-Za-z0-9._-]{1,63}"
    return text if re.fullmatch(rf"as wanted: {count}(?:, {count})*", text) else None


def difference(field: str, wanted: str, observed: str) -> tuple[str, str, str]:
    """Which field differs; its values only of fields that the tenant sees in its own cloud."""
    if not re.fullmatch(_GAPS["field"], field):
        return HIDDEN, HIDDEN, HIDDEN
    if field in _OWN_FIELDS and _VALUE.fullmatch(wanted) and _VALUE.fullmatch(observed):
        return field, wanted, observed
    return field, HIDDEN, HIDDEN


def refusal(text: str) -> str:
    """Why an order is refused."""
    if more := re.match(r"\d{1,9} nodes? more beside the \d{1,9} of the pod: ", text):
        return more.group() + refusal(text[more.end() :])
    told = _told(_REFUSALS, text) or _quotas(text)
    return told or f"the order can't be served as it stands ({OPERATORS})"


def chosen(text: str) -> str:
    """Which nodes an order gets; why these and not others is a matter of what others have."""
    told = _told(_CHOSEN, text)
    return f"{told}." if told else ""


def change(text: str) -> str:
    """What would fit: the tenant's own to change, or only that it is not."""
    told = _told(_CHANGES, text)
    if told == "nodes.image, nodes.flavor: others":
        return told
    if told:
        return told
    if fits := re.fullmatch(rf"lease\.start: fits from ({_GAPS['time']})", text):
        return f"lease.start: fits from {_minute(later(_moment(fits[1])))}"
    if ends := re.fullmatch(rf"lease\.end: ({_GAPS['time']}) at the latest", text):
        return f"lease.end: {_minute(earlier(_moment(ends[1])))} at the latest"
    return LATER


def conflict(text: str) -> str:
    """Why something isn't possible in the present state."""
    return _told(_CONFLICTS, text) or f"it is not possible in the present state ({OPERATORS})"


def allowed(text: str) -> str:
    """What would have been right, of a value that a verb didn't take."""
    return _told(_ALLOWED, text) or f"another value ({OPERATORS})"


def absent(text: str) -> str:
    """What isn't there."""
    return _told(_ABSENT, text) or "there is no such thing"


def health(text: str) -> str:
    """How a part of the service is; anybody may ask."""
    return _told(_HEALTH, text) or "not ok"


def later(moment: datetime) -> datetime:
    """A time that follows from others' leases, rounded up."""
    return datetime.fromtimestamp(-(-moment.timestamp() // _ROUND) * _ROUND, UTC)


def earlier(moment: datetime) -> datetime:
    """The same, rounded down."""
    return datetime.fromtimestamp(moment.timestamp() // _ROUND * _ROUND, UTC)


def _moment(text: str) -> datetime:
    return datetime.strptime(text, _MINUTE).replace(tzinfo=UTC)


def _minute(moment: datetime) -> str:
    return moment.strftime(_MINUTE)
