"""Messages about differences from the desired state: one code for each `ProblemKind`."""

from __future__ import annotations

from weft.model.messages.message import MESSAGE, MESSAGES, Code, Component
from weft.model.messages.values import COUNT, FIELD, NAMED, NODE, RESOURCE, SERVER, TEXT, word

THING = word(rf"[a-z_]{{1,30}} {NAMED}|server {SERVER}")
"""A resource of the pod's own, with its kind."""
_ADDRESS = word(rf"port {NAMED}|MAC address [0-9a-f:]{{11,59}}")
_FUNCTION = word(r"virtual port 0x[0-9a-f]{1,16}|virtual port [A-Za-z0-9./:_-]{1,80}")

SEVERAL = Code(
    "SEVERAL",
    Component.POD,
    "{problems}[ (and {more} more)]",
    True,
    "pod-states",
    {"problems": MESSAGES, "more": COUNT},
)
UNKNOWN = Code("UNKNOWN", Component.SERVICE, "unknown: {what}", True, "unknown", {"what": MESSAGE})

# -- what weft does with the adapters of a node ----------------------------------------------------------------------

SERVER_ELSEWHERE = Code(
    "SERVER_ELSEWHERE", Component.CLOUD, "the pod's server isn't on its host", True, "nodes"
)
MACHINE_ELSEWHERE = Code(
    "MACHINE_ELSEWHERE", Component.CLOUD, "its machine doesn't run the pod's server now", True, "nodes"
)
ONE_SERVER_ELSEWHERE = Code(
    "ONE_SERVER_ELSEWHERE",
    Component.CLOUD,
    "a server of the pod isn't on its host, where it has others",
    True,
    "nodes",
)
OTHERS_ON_HOST = Code(
    "OTHERS_ON_HOST", Component.CLOUD, "its host has something that doesn't belong to the pod", True, "nodes"
)
OTHERS_WITHOUT_ADAPTER = Code(
    "OTHERS_WITHOUT_ADAPTER",
    Component.CLOUD,
    "its host has something that doesn't belong to the pod, without an adapter: the pod's adapters stay in its segment",
    True,
    "nodes",
)
OTHERS_WITH_ADAPTERS = Code(
    "OTHERS_WITH_ADAPTERS",
    Component.CLOUD,
    "its host has something that doesn't belong to the pod: adapters that the pod's server doesn't have are kept out "
    "of its segment",
    True,
    "nodes",
)

# -- one for each kind of problem ------------------------------------------------------------------------------------

UNREAD = Code("UNREAD", Component.SERVICE, "{why}", True, "unknown", {"why": MESSAGE})
MISSING = Code("MISSING", Component.POD, "{subject} is missing", True, "resources", {"subject": THING})
DIFFERENT = Code(
    "DIFFERENT",
    Component.POD,
    "{subject}: {field} is {observed}, expected {wanted}",
    "{subject}: {field} is not as desired",
    "resources",
    {"subject": THING, "field": FIELD, "observed": TEXT, "wanted": TEXT},
)
FIELD_DIFFERS = Code(
    "FIELD_DIFFERS",
    Component.POD,
    "{field} is {observed}, expected {wanted}",
    "{field} is not as desired",
    "resources",
    {"field": FIELD, "observed": TEXT, "wanted": TEXT},
)
UNSETTLED = Code(
    "UNSETTLED",
    Component.CLOUD,
    "{subject} is {state}[: {why}]",
    True,
    "resources",
    {"subject": THING, "state": FIELD, "why": MESSAGE},
)
FOREIGN_ON_NETWORK = Code(
    "FOREIGN_ON_NETWORK",
    Component.NETWORK,
    "network {subject} has something on it that doesn't belong to the pod[: {thing}]",
    True,
    "isolation",
    {"subject": RESOURCE, "thing": MESSAGE},
)
FOREIGN_USE = Code(
    "FOREIGN_USE",
    Component.NETWORK,
    "{subject} is used by something that doesn't belong to the pod: {thing}",
    None,
    "isolation",
    {"subject": THING, "thing": MESSAGE},
)
NODE_WITHHELD = Code(
    "NODE_WITHHELD",
    Component.FABRIC,
    "node {subject}: {why}: its adapters are kept out of the pod's segment",
    True,
    "nodes",
    {"subject": NODE, "why": MESSAGE},
)
SERVER_WITHHELD = Code(
    "SERVER_WITHHELD",
    Component.FABRIC,
    "node {subject}: {why}",
    True,
    "nodes",
    {"subject": NODE, "why": MESSAGE},
)
NODE_BESIDE = Code(
    "NODE_BESIDE", Component.CLOUD, "node {subject}: {why}", True, "nodes", {"subject": NODE, "why": MESSAGE}
)
NODE_UNREAD = Code(
    "NODE_UNREAD",
    Component.CLOUD,
    "node {subject}: what is on its host is unknown: {why}",
    None,
    "unknown",
    {"subject": NODE, "why": MESSAGE},
)
_PORT = {"subject": TEXT, "why": TEXT}
PORT_UNREAD = Code(
    "PORT_UNREAD", Component.FABRIC, "{subject}: its P_Key table can't be read: {why}", None, "unknown", _PORT
)
PORT_LOST = Code(
    "PORT_LOST", Component.FABRIC, "{subject} was not found on the fabric", None, "unknown", _PORT
)
FUNCTION_DOWN = Code(
    "FUNCTION_DOWN", Component.FABRIC, "{subject} is not up: {why}", None, "fabric-ports", _PORT
)
FUNCTION_ELSEWHERE = Code(
    "FUNCTION_ELSEWHERE",
    Component.FABRIC,
    "{subject} also appears elsewhere: {why}",
    "{subject} also appears elsewhere",
    "isolation",
    {"subject": _FUNCTION, "why": TEXT},
)
ADDRESS_TAKEN = Code(
    "ADDRESS_TAKEN",
    Component.NETWORK,
    "{subject} is not the only one with its MAC address: {thing}",
    "{subject} is not the only one with its MAC address",
    "isolation",
    {"subject": _ADDRESS, "thing": TEXT},
)
NOT_MEMBER = Code(
    "NOT_MEMBER",
    Component.FABRIC,
    "{subject} is not a {mode} member of {segment}[{limited}]",
    None,
    "fabric-ports",
    {"subject": TEXT, "mode": TEXT, "segment": TEXT, "limited": TEXT},
)
OTHER_SEGMENTS = Code(
    "OTHER_SEGMENTS",
    Component.FABRIC,
    "{subject} also has {segments}",
    None,
    "isolation",
    {"subject": TEXT, "segments": TEXT},
)
FAILED_OPEN = Code(
    "FAILED_OPEN",
    Component.FABRIC,
    "{subject} is a full member of the default partition: the fabric has failed open",
    None,
    "isolation",
    {"subject": TEXT},
)
SEGMENT_LEFT = Code(
    "SEGMENT_LEFT",
    Component.FABRIC,
    "{subject} has {segment}",
    None,
    "isolation",
    {"subject": TEXT, "segment": TEXT},
)
SETTING = Code(
    "SETTING",
    Component.FABRIC,
    "{subject}: {field} of {port} is {observed}, expected {wanted}",
    None,
    "fabric-ports",
    {"subject": TEXT, "field": TEXT, "port": TEXT, "observed": TEXT, "wanted": TEXT},
)
_FRAMES = {"subject": TEXT, "who": TEXT, "segment": TEXT, "what": TEXT}
NOT_HEARD = Code(
    "NOT_HEARD", Component.FABRIC, "{subject} doesn't hear {who} in {segment}", None, "fabric-ports", _FRAMES
)
HEARD = Code(
    "HEARD",
    Component.FABRIC,
    "{subject} hears {who}, and only one of them is in {segment}",
    None,
    "isolation",
    _FRAMES,
)
NO_ECHO = Code(
    "NO_ECHO",
    Component.FABRIC,
    "{subject}: no answer to pings[{what}] from {who}",
    None,
    "fabric-ports",
    _FRAMES,
)
_PATH = {"subject": TEXT, "observed": TEXT, "segment": TEXT, "member": TEXT}
NO_PATH = Code(
    "NO_PATH",
    Component.FABRIC,
    "the subnet administrator returns no path between {subject}",
    None,
    "fabric-ports",
    _PATH,
)
WRONG_PATH = Code(
    "WRONG_PATH",
    Component.FABRIC,
    "the path between {subject} has P_Key {observed}, expected {segment}",
    None,
    "fabric-ports",
    _PATH,
)
PATH_FROM_OUTSIDE = Code(
    "PATH_FROM_OUTSIDE",
    Component.FABRIC,
    "the subnet administrator returns a path to {member} for {subject}, which is not a member",
    None,
    "isolation",
    _PATH,
)
