"""The table of what tenants see is closed: a new field, document or verb is hidden until it is listed."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Union, cast, get_args, get_origin, get_type_hints
from unittest.mock import Mock

import pytest
from pydantic import BaseModel, create_model

from weft.app.policy import Policy
from weft.app.redact import UNTOUCHED, redacted
from weft.app.service import Service
from weft.app.shown import TABLE, WHOLE, shown
from weft.app.verbs import TENANTS, Request
from weft.model.base import Document
from weft.model.errors import ForbiddenError
from weft.model.order import Order
from weft.model.placement import Explanation, PlacedNode, Refusal
from weft.model.resources import Difference
from weft.model.views import Applied, EventView, Health, SoonView
from weft.testing import examples
from weft.testing.callers import caller

SECRET = "sesame"


_ORDER = examples.order()
_POD = examples.pod("id", _ORDER, "id-of-team-a", "alice")
VALUES: tuple[BaseModel, ...] = (
    examples.plan(_ORDER, "id-of-team-a"),
    _POD,
    Applied(outcome="created", pod=_POD),
    Difference(field="members", wanted="a", observed="b"),
    EventView(sequence=1, at=examples.NOW, type="state", message="READY"),
    SoonView(level="leaf", count=1, at=examples.NOW),
    Refusal(reason="no room", explanation=Explanation(considered=1)),
    Health(ready=True, checks={}),
)
"""Documents in which some field is changed for tenants; others need no values."""


@pytest.mark.parametrize("model", TABLE, ids=lambda model: model.__name__)
def test_added_field_is_hidden(model: type[BaseModel]) -> None:
    """In every document of the table, required or optional, text or document, whatever else the row shows."""
    new: dict[str, Any] = {"new": (str, ...), "also": (str, ""), "document": (Order, ...)}
    grown = create_model(f"Grown{model.__name__}", __base__=model, **new)
    known = next((dict(one) for v in VALUES for one in _within(v) if isinstance(one, model)), {})
    secret = {"new": SECRET, "also": SECRET, "document": _ORDER.model_copy(update={"name": SECRET})}
    visible = shown(grown.model_construct(None, **dict.fromkeys(grown.model_fields) | known | secret))
    assert SECRET not in repr(visible)
    assert [getattr(visible, name) for name in new] == ["(hidden)", "", None]


def test_shown_ids_hide_the_machine() -> None:
    """Nova shows no hypervisors to tenants, but the driver's ids of machines, and of servers without Nova,
    contain them."""
    one = next(r for r in _POD.resources if r.kind == "server")
    ids = {"server": "an-instance@a-node", "machine": "a-node@a-pod", "port": "a-port"}
    visible = {kind: shown(one.model_copy(update={"kind": kind, "id": id_})).id for kind, id_ in ids.items()}
    assert visible == {"server": "an-instance", "machine": "(hidden)", "port": "a-port"}
    assert shown(one.model_copy(update={"kind": "machine", "id": ""})).id == ""


def _within(value: object) -> Iterator[BaseModel]:
    """A document and all documents in it."""
    if isinstance(value, BaseModel):
        yield value
        for _, inner in value:
            yield from _within(inner)
    elif isinstance(value, list | tuple):
        for one in cast(Sequence[object], value):
            yield from _within(one)


def test_document_without_a_table_row_is_hidden() -> None:
    """Alone, in a list, and in a field that is shown."""

    class News(Document):
        text: str

    news = News(text=SECRET)
    assert shown(news) is None
    assert shown([news]) == []
    visible = shown(_POD.model_copy(update={"servers": (news,), "vlan": news}))
    assert (visible.servers, visible.vlan) == ((), None)
    assert shown(SECRET.encode()) is None  # a part of a site


def test_kind_without_a_table_row_is_hidden() -> None:
    """Its resources are hidden with their names."""
    strange = _POD.resources[0].model_copy(update={"kind": SECRET, "key": f"{SECRET}/1"})
    assert SECRET not in repr(shown(_POD.model_copy(update={"resources": (strange, *_POD.resources)})))


def _answers(hint: Any) -> Iterator[type[BaseModel]]:
    """The documents that an annotation contains, and those in their shown fields."""
    todo: list[Any] = [hint]
    seen: set[Any] = set()
    while todo:
        one = todo.pop()
        if get_origin(one) is not None:
            todo += [a for a in get_args(one) if a is not Ellipsis]
        elif isinstance(one, types.UnionType) or get_origin(one) is Union:
            todo += get_args(one)
        elif isinstance(one, type) and issubclass(one, BaseModel) and one not in seen:
            seen.add(one)
            yield one
            row = TABLE.get(one)
            rows = [TABLE[b] for b in one.__mro__ if b in TABLE] if row else []
            todo += [f.annotation for n, f in one.model_fields.items() if any(n in r.fields for r in rows)]


_SERVICE = Service(Mock())
_NO_DOCUMENTS = {
    "permissions.check",
    "permissions.allowed",
    "permissions.is_known",
    "pods.may_apply",
    "webhooks.check",
    "pods.find",
    "events.may_read",
}


@pytest.mark.parametrize("verb", sorted(TENANTS - _NO_DOCUMENTS))
def test_each_document_shown_to_tenants_has_a_table_row(verb: str) -> None:
    """Down to the last shown field: nothing is hidden only because it was forgotten."""
    answer = get_type_hints(attrgetter(verb)(_SERVICE))["return"]
    models = list(_answers(answer))
    assert models or answer is str, "an id"
    missing = [m.__name__ for m in models if m not in TABLE and not issubclass(m, WHOLE)]
    assert not missing


def test_unlisted_verbs_answer_operators_only() -> None:
    """Even if a site's policy allows others: they are refused before the verb does anything."""
    asked: list[str] = []

    class Nodes:
        def list(self, request: Request) -> Sequence[PlacedNode]:
            asked.append(request.caller.user_name)
            return [PlacedNode(node="gpu01", rack=None, leaf="leaf1", block="-")]

    verbs: Any = redacted(cast(Service, SimpleNamespace(nodes=Nodes())), Policy())
    tenant = Request(caller("alice", "team-a", "member"), "127.0.0.1", "req")
    with pytest.raises(ForbiddenError, match="details:show"):
        verbs.nodes.list(tenant)
    assert not asked
    operator = Request(caller("olga", "admin", "admin"), "127.0.0.1", "req")
    assert [n.node for n in verbs.nodes.list(operator)] == ["gpu01"]


def test_each_listed_verb_exists() -> None:
    assert all(callable(attrgetter(name)(_SERVICE)) for name in TENANTS | UNTOUCHED)


def test_only_listed_verbs_bypass_the_tables() -> None:
    """The table has a reason for each; a new one must be added here."""
    assert {
        "pods.watching",
        "events.watching",
        "checks.reporter",
        "checks.report",
        "checks.expected",
        "monitoring.targets",
        "monitoring.switches",
        "monitoring.info",
    } == UNTOUCHED


def test_only_verbs_of_the_service_can_be_called() -> None:
    """Attributes that aren't verbs can't be reached."""
    verbs: Any = redacted(_SERVICE, Policy())
    for part in (verbs, verbs.pods, verbs.webhooks):
        with pytest.raises(AttributeError):
            _ = part._desk
