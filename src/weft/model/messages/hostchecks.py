"""Messages about nodes' own checks. Texts in them were written by the machine: tenants see none."""

from __future__ import annotations

from weft.model.messages.maintenance import PUBLISHED
from weft.model.messages.message import Code, Component
from weft.model.messages.values import COUNT, NODE, TEXT, TIME, Words, word

CHECK = word(r"[A-Z][A-Z0-9_]{0,39}")
TEST = word(r"[a-z0-9][a-z0-9._-]{0,39}")


def _code(name: str, operator: str, tenant: str | bool, **types: object) -> Code:
    return Code(name, Component.SITE, operator, tenant, "host-checks", types)  # pyright: ignore[reportArgumentType]


FAILED = _code(
    "NODE_CHECK_FAILED",
    "check {check} of {subject} failed[: {reason}]",
    "check {check} failed",
    check=CHECK,
    subject=TEXT,
    reason=TEXT,
)
FAILED_IN_POD = _code(
    "NODE_CHECKS_FAILED",
    "own checks of node {node} failed: {checks}",
    True,
    node=NODE,
    checks=Words(CHECK, most=5),
)
INNER_FAILED_IN_POD = _code(
    "INNER_NODE_CHECKS_FAILED",
    "own checks of node {node}, with servers of weft's own for the pod, failed: {checks}",
    "own checks of a host of servers that the site runs for the pod failed",
    node=NODE,
    checks=Words(CHECK, most=5),
)
MENDED = _code(
    "NODE_CHECK_MENDED",
    "check {check} of {subject} no longer fails",
    "check {check} no longer fails",
    check=CHECK,
    subject=TEXT,
)
MORE_CHANGES = _code(
    "NODE_CHECKS_CHANGED", "{number} further checks failed, or no longer do", True, number=COUNT
)
FORGOTTEN = _code("NODE_CHECKS_FORGOTTEN", "what its checks had reported was forgotten", True)
NOTHING_REPORTED = _code("NODE_NEVER_CHECKED", "node {node} hasn't reported any checks", True, node=NODE)
JUDGED = _code(
    "NODE_CHECK_JUDGED",
    "the failures of check {check} were judged: {judged}",
    True,
    check=CHECK,
    judged=word("open|real|mistake"),
)
FAILS_NOWHERE = _code("CHECK_FAILS_NOWHERE", "check {check} fails on no node", True, check=CHECK)
NO_SUCH_TOKEN = _code(
    "CHECK_TOKEN_UNKNOWN", "there is no check token with the id '{token}'", True, token=TEXT
)
TOO_MANY_TOKENS = _code(
    "TOO_MANY_CHECK_TOKENS",
    "node {node} already has {most} check tokens: revoke one first",
    True,
    node=NODE,
    most=COUNT,
)
OTHER_NODE = _code("CHECK_TOKEN_OF_OTHER_NODE", "this token isn't for node '{node}'", True, node=TEXT)
OTHER_MACHINE = _code(
    "CHECKS_OF_OTHER_MACHINE",
    "{what} of this node is '{known}' in the site: the document is of another machine, or wasn't made as root",
    "the document is of another machine, or wasn't made as root",
    what=word(r"serial|product_uuid"),
    known=TEXT,
)
TEST_PASSED = _code("NODE_TEST_PASSED", "test {test} passed", True, test=TEST)
TEST_FAILED = _code(
    "NODE_TEST_FAILED", "test {test} failed[: {reason}]", "test {test} failed", test=TEST, reason=TEXT
)
TEST_UNKNOWN = _code(
    "NODE_TEST_UNKNOWN",
    "test {test} couldn't judge the node[: {reason}]",
    "test {test} couldn't judge the node",
    test=TEST,
    reason=TEXT,
)
TEST_NOT_NAMED = _code(
    "NODE_TEST_NOT_NAMED",
    "the site names no test '{test}' in acceptance.tests[, but {names}]",
    True,
    test=TEST,
    names=Words(TEST),
)
NOT_HELD_FOR_TESTS = _code(
    "NODE_NOT_HELD_FOR_TESTS",
    "node {node} isn't held for '{what}': there is nothing to test it for",
    True,
    node=NODE,
    what=PUBLISHED,
)
TESTS_NOT_PASSED = _code(
    "NODE_TESTS_NOT_PASSED",
    "node {node} isn't accepted for '{what}': these tests haven't passed since {since}: {tests}; its hold ends by "
    "itself once they have; or give a reason to accept it without them (--without-test)",
    True,
    node=NODE,
    what=PUBLISHED,
    tests=Words(TEST),
    since=TIME,
)
TESTED_IN_POD = _code(
    "NODE_TESTED_IN_POD", "a pod has node {node}: results only count once it has left", True, node=NODE
)
TESTED_BEFORE = _code(
    "NODE_TESTED_BEFORE",
    "test {test} of node {node} began before {since}; only later ones count: run it again",
    True,
    test=TEST,
    node=NODE,
    since=TIME,
)
