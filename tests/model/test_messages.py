"""Messages keep code and values wherever they are stored or sent; tenants see only the table's second column."""

from __future__ import annotations

import ast
import copy
import importlib
import json
import pickle
import re
import string
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import amounts
from tests.helpers.paths import ROOT
from weft.model.messages import (
    CODES,
    OPERATORS,
    Code,
    Message,
    errors,
    for_tenant,
    health,
    networks,
    orders,
    outside,
    placement,
    pods,
    problems,
    queue,
    same,
    whole,
    withheld,
)
from weft.model.messages.maintenance import PUBLISHED
from weft.model.messages.message import Nested, Several
from weft.model.messages.orders import instead
from weft.model.messages.values import Count, Time, Value, Word, Words
from weft.model.views import EventView
from weft.planning.words import first_names

NAME = "weft-1f0c9a3b-server-gpu01"
AT = datetime(2026, 11, 21, 16, 1, 30, tzinfo=UTC)
SECRET = "<secret> of team-b"
NESTED = pods.STATE(
    state="DEGRADED",
    why=problems.SEVERAL(problems=[problems.MISSING(subject=f"server {NAME}"), Message(SECRET)]),
)


def values(kind: Value) -> st.SearchStrategy[Any]:
    """Valid values for a type."""
    inner = st.sampled_from([queue.IN_QUEUE(), problems.MISSING(subject=f"port {NAME}"), Message(SECRET)])
    match kind:
        case Count():
            return st.integers(0, 10**9)
        case Time():
            return st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
        case Words():
            return st.lists(values(kind.one), min_size=1, max_size=4).map(tuple)
        case Word():
            return st.from_regex(kind.pattern, fullmatch=True)
        case Several():
            return st.lists(inner, min_size=1, max_size=4).map(tuple)
        case Nested():
            return inner
        case _:
            return st.text(min_size=1)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Messages of any code with all their values."""
    code = CODES[draw(st.sampled_from(sorted(CODES)))]
    return code(**{name: draw(values(kind)) for name, kind in code.types.items()})


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


@settings(max_examples=amounts.examples(60), deadline=None)
@given(messages())
def test_message_survives_the_database(said: Message) -> None:
    """With text, code, values, and the tenants' sentence."""
    back = Message.read(through_json(said.stored()))
    assert (back, back.code, back.fields()) == (said, said.code, said.fields())
    assert for_tenant(back) == for_tenant(said)


@settings(max_examples=amounts.examples(60), deadline=None)
@given(messages())
def test_message_survives_the_api(said: Message) -> None:
    back = Message.read(through_json(whole(said)))
    assert (str(back), back.code, whole(back)) == (str(said), said.code, whole(said))


def test_document_keeps_its_message_through_the_api() -> None:
    """A client gets the server's sentence with its code and nested messages."""
    event = EventView(sequence=1, at=AT, type="state", message=NESTED)
    back = EventView.model_validate(through_json(event.model_dump(mode="json")))
    assert isinstance(back.message, Message)
    assert (str(back.message), back.code, back.params) == (str(NESTED), "POD_STATE", NESTED.fields())
    assert back.message.params["why"].params["problems"][0].code == "MISSING"


@pytest.mark.parametrize("said", [NESTED, queue.STARTS_AT(start=AT), Message("plain")], ids=lambda m: m.code)
def test_copies_keep_code_and_values(said: Message) -> None:
    for back in (pickle.loads(pickle.dumps(said)), copy.copy(said), copy.deepcopy(said)):
        assert type(back) is Message
        assert (back, back.code, back.params) == (said, said.code, said.params)


@pytest.mark.parametrize(
    "text",
    [
        "waiting for capacity",
        Message("waiting for capacity"),
        f"{queue.NO_CAPACITY()}",
        queue.NO_CAPACITY() + " " + SECRET,
        "; ".join([queue.NO_CAPACITY(), SECRET]),
        queue.NO_CAPACITY()[:7],
    ],
)
def test_plain_text_is_never_shown(text: str) -> None:
    """Not even one that looks like a message or was formatted from one."""
    assert for_tenant(text) is None


@settings(max_examples=amounts.examples(60), deadline=None)
@given(messages())
def test_stored_message_equals_a_new_one_but_plain_text_does_not(said: Message) -> None:
    """Otherwise every visit would write rows again, or texts of earlier versions would stay."""
    assert same(Message.read(through_json(said.stored())), said)
    assert same(Message.read(through_json(whole(said))), said)
    assert not same(str(said), said)
    assert same(str(said), Message(said))


def wrong(kind: Value) -> object:
    """A value that isn't valid for its type or is for operators only; any text may be published to tenants."""
    return [SECRET] if isinstance(kind, Words | Several) or kind is PUBLISHED else SECRET


@pytest.mark.parametrize("name", sorted(set(CODES) - {"ALLOWED"}))
def test_value_that_is_not_of_its_type_is_hidden(name: str) -> None:
    """The sentence, or its optional part, is left out; `ALLOWED` is composed from checked values."""
    code = CODES[name]
    shown = code(**{value: wrong(kind) for value, kind in code.types.items()}).for_tenant()
    assert shown is None or "secret" not in json.dumps(whole(shown))
    if code.tenant is None:
        assert shown is None


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (pods.CREATING(name=SECRET), None),
        (pods.STATE(state="FAILED", why=SECRET), "FAILED"),
        (pods.STATE(state="FAILED", why=queue.NO_CAPACITY()), "FAILED: waiting for capacity"),
        (pods.CHANGING(n=2, why=SECRET), f"changing to generation 2: {OPERATORS}"),
        (
            problems.FOREIGN_ON_NETWORK(subject="weft-1f0c9a3b-net-rdma", thing=SECRET),
            "network weft-1f0c9a3b-net-rdma has something on it that doesn't belong to the pod",
        ),
        (
            outside.SETTLING(names=[NAME], why=SECRET),
            NAME,
        ),
        (
            problems.SEVERAL(problems=[problems.MISSING(subject=f"server {NAME}"), Message(SECRET)]),
            f"server {NAME} is missing; {OPERATORS}",
        ),
        (queue.STARTS_BY(start=AT), "waiting for capacity; starts by 2026-11-21T16:15Z"),
        (problems.NODE_UNREAD(subject="gpu01", why=queue.NO_CAPACITY()), None),
    ],
)
def test_tenant_sentence_omits_hidden_values(said: Message, shown: str | None) -> None:
    """Optional parts are left out, and so are values that aren't in the tenants' sentence."""
    seen = said.for_tenant()
    assert seen == shown
    assert seen is None or "secret" not in json.dumps(whole(seen))


def test_optional_part_is_omitted_without_its_value() -> None:
    assert queue.STARTS_AT(start=AT) == "starts at 2026-11-21T16:01Z"
    assert queue.STARTS_AT(start=AT, units="nodes", n=3) == "starts at 2026-11-21T16:01Z, nodes booked: 3"
    assert pods.ON_NODES(nodes=["gpu01", "gpu02"], spare=[]) == "gpu01, gpu02"


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ({"code": "CODE_OF_LATER", "params": {"n": 3, "of": "x"}}, "CODE_OF_LATER (n: 3, of: x)"),
        ({"code": "CODE_OF_LATER", "params": {}}, "CODE_OF_LATER"),
        ({"code": "CODE_OF_LATER", "params": {"n": 3}, "message": "said later"}, "said later"),
        ({"code": "CREATING", "params": {"thing": NAME}}, f"CREATING (thing: {NAME})"),
        ({"code": "STARTS_AT", "params": {"start": "soon"}, "message": "starts soon"}, "starts soon"),
        ({"code": "CREATING", "params": "of another shape"}, "CREATING"),
        ("text of an earlier version", "text of an earlier version"),
    ],
)
def test_code_of_another_version_is_read_as_plain_text(stored: object, text: str) -> None:
    back = Message.read(stored)
    assert (str(back), back.code, back.for_tenant()) == (text, "", None)


def test_message_refuses_a_value_that_its_row_does_not_name() -> None:
    with pytest.raises(TypeError, match="CREATING has no nme"):
        pods.CREATING(nme=NAME)


def test_duplicate_code_is_refused() -> None:
    with pytest.raises(ValueError, match="OK: twice"):
        Code("OK", health.OK.component, "fine")
    assert CODES["OK"] is health.OK


# -- calls in the source ---------------------------------------------------------------------------------------------


@cache
def required(code: Code) -> frozenset[str]:
    """Values in the operators' sentence outside of brackets."""
    sentence = re.sub(r"\[[^]]*\]", "", code.operator)
    return frozenset(name for _, name, _, _ in string.Formatter().parse(sentence) if name)


def imported(tree: ast.AST, module: str) -> Mapping[str, object]:
    """Names in a module that stand for entries of the table of messages."""
    names: dict[str, object] = {}
    if module.startswith("weft.model.messages."):
        names.update(vars(importlib.import_module(module)))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("weft.model.messages"):
            source = importlib.import_module(node.module or "")
            names.update({alias.asname or alias.name: getattr(source, alias.name) for alias in node.names})
    return names


def calls() -> Iterator[tuple[str, Code, ast.Call]]:
    """(place, code, call) for each call of a code in the source."""
    for path in sorted((ROOT / "src" / "weft").rglob("*.py")):
        text = path.read_text()
        if "messages" in text:
            yield from _calls(path, ast.parse(text))


def _calls(path: Path, tree: ast.AST) -> Iterator[tuple[str, Code, ast.Call]]:
    place = path.relative_to(ROOT)
    names = imported(tree, ".".join(place.with_suffix("").parts[1:]).removesuffix(".__init__"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                code = getattr(names.get(module), name, None)
            case ast.Name(id=name):
                code = names.get(name)
            case _:
                code = None
        if isinstance(code, Code):
            yield f"{place}:{node.lineno}", code, node


def test_every_call_uses_values_of_its_code() -> None:
    """Only its own values, and all required ones."""
    wrong: list[str] = []
    found = list(calls())
    for place, code, call in found:
        given = {keyword.arg for keyword in call.keywords}
        unknown, missing = given - {None} - set(code.types), required(code) - given
        if call.args or unknown or (missing and None not in given):  # None stands for `**values`
            wrong.append(
                f"{place}: {code.name}: unknown {sorted(map(str, unknown))}, missing {sorted(missing)}"
            )
    assert wrong == []
    assert len(found) > 120


def test_every_code_is_used() -> None:
    """An unused code would be documented in vain."""
    used: set[str] = set()
    for path in sorted((ROOT / "src" / "weft").rglob("*.py")):
        used |= set(re.findall(r"\b_?[A-Z][A-Z_]+(?=[(.,)\]\s]|$)(?! = )", path.read_text()))
    rows = {
        name
        for module in (errors, health, networks, orders, outside, placement, pods, problems, queue, withheld)
        for name, code in vars(module).items()
        if isinstance(code, Code)
    }
    assert sorted(rows - used) == []


SAID_OF_PODS = re.compile(
    r'f"(?:create|update|delete|tag) (?:server|network|subnet|port|router|access rule|key pair|share|volume) '
    r'\{(?:row|resource)\.name\}"'
)
"""A request about a resource that tenants may see, written as plain text, which they don't see."""


def test_requests_for_pod_resources_are_messages() -> None:
    """A tenant whose server, network or share can't be created reads which one."""
    plain = [
        f"{path.name}: {found.group()}"
        for path in sorted((ROOT / "src" / "weft" / "drivers" / "openstack").glob("*.py"))
        for found in SAID_OF_PODS.finditer(path.read_text())
    ]
    assert plain == []


def test_truncated_list_is_shown_to_tenants() -> None:
    """For a pod with more than 40 nodes: the first ones, and a sign that there are more."""
    names = first_names([f"gpu{n:02}" for n in range(50)], 40)
    shown = for_tenant(instead("nodes of the pod: {nodes}", nodes=names))
    assert shown is not None and shown.endswith("gpu39 …")
