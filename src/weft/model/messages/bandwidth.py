"""Messages about bandwidth tests."""

from __future__ import annotations

from weft.model.messages.maintenance import PUBLISHED
from weft.model.messages.message import Code, Component
from weft.model.messages.values import COUNT, NODE, NODES, POD, TEXT, TIME, word

BANDWIDTH_TOO_FEW = Code(
    "BANDWIDTH_TOO_FEW",
    Component.FABRIC,
    "{number} nodes, or servers in force, have adapters on a fabric: a bandwidth test needs two",
    True,
    "bandwidth",
    {"number": COUNT},
)
BANDWIDTH_OF_PARTS = Code(
    "BANDWIDTH_OF_PARTS",
    Component.FABRIC,
    "pod {pod} has parts of nodes: their adapters are shared, so a rate below the nominal one proves nothing",
    True,
    "bandwidth",
    {"pod": POD},
)
BANDWIDTH_NODES_HELD = Code(
    "BANDWIDTH_NODES_HELD",
    Component.SITE,
    "pods hold {nodes}: a test at full rate would disturb them; the pod's project tests its own servers (weft pod "
    "verify-bandwidth), operators test nodes without a pod",
    None,
    "bandwidth",
    {"nodes": NODES},
)
BANDWIDTH_FABRICS_DIFFER = Code(
    "BANDWIDTH_FABRICS_DIFFER",
    Component.SITE,
    "the nodes have no fabric in common: test those of one fabric together",
    None,
    "bandwidth",
    {},
)
BANDWIDTH_OTHER_NODES = Code(
    "BANDWIDTH_OTHER_NODES",
    Component.SITE,
    "the measurements name a node that isn't in the plan: {name}",
    "the measurements name a server that the pod doesn't have",
    "bandwidth",
    {"name": TEXT},
)
BANDWIDTH_NOT_REPORTED = Code(
    "BANDWIDTH_NOT_REPORTED",
    Component.SITE,
    "no bandwidth test of {name} was reported",
    True,
    "bandwidth",
    {"name": NODE},
)
BANDWIDTH_NOT_PROVED = Code(
    "BANDWIDTH_NOT_PROVED",
    Component.SITE,
    "node {node} isn't accepted for '{what}': the site wants a bandwidth test passed since {since}, and the last one "
    "is {found}; test it (weft node verify-bandwidth), or give a reason to accept it untested (--without-test)",
    True,
    "bandwidth",
    {"node": NODE, "what": PUBLISHED, "since": TIME, "found": word("passed|failed|incomplete|missing|older")},
)
BANDWIDTH_UNTESTED = Code(
    "BANDWIDTH_UNTESTED",
    Component.FABRIC,
    "the order wants a bandwidth test, and its servers on these nodes haven't reported one: weft pod verify-bandwidth "
    "{pod}",
    True,
    "bandwidth",
    {"pod": POD},
)
BANDWIDTH_UNPROVED = Code(
    "BANDWIDTH_UNPROVED",
    Component.FABRIC,
    "the bandwidth test that the pod's servers reported last is {result}: weft pod bandwidth {pod}",
    True,
    "bandwidth",
    {"pod": POD, "result": word("failed|incomplete")},
)
