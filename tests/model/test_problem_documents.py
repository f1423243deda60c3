"""Problem documents carry the code and values of an error, from which a client makes the same error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.docs.test_problem_pages import PAGES
from weft.app import redact
from weft.model.errors import (
    ConflictError,
    ForbiddenError,
    InputError,
    InputErrors,
    NotFoundError,
    OutsideError,
    PermanentError,
    RefusedError,
    TemporaryError,
    UnauthenticatedError,
    UnknownError,
    WeftError,
)
from weft.model.errortable import TABLE, from_problem, to_problem
from weft.model.messages import Message, message, orders, outside, placement
from weft.model.messages.orders import instead

ALLOWED = instead("one of {names}", more=" (gpu9 is in maintenance)", names="gpu8, gpu9")
EXISTS = orders.POD_EXISTS(pod="train")
QUOTA = outside.ANSWER(
    status=403,
    text="Quota exceeded for cores on cn-secret",
    known=outside.QUOTA_OF_RESOURCES(resources=["cores"]),
)
BOOT = outside.REQUEST(verb="boot", what="weft-1f0c9a3b-server-gpu01")
NOVA = outside.service("compute", "http://10.0.0.1:8774")


def sent(error: WeftError) -> dict[str, Any]:
    """The error's document as a client receives it."""
    return json.loads(json.dumps(to_problem(error)))


PLAIN = [
    (InputError("nodes.count", 0, "1 or more"), "INVALID_INPUT"),
    (
        InputErrors([InputError("a", 1, "2"), InputError("b", None, "required", "pod.yaml:3")]),
        "INVALID_INPUT",
    ),
    (UnauthenticatedError("signed out"), "UNAUTHENTICATED"),
    (ForbiddenError("not yours"), "FORBIDDEN"),
    (NotFoundError("no such thing"), "NOT_FOUND"),
    (ConflictError("taken"), "CONFLICT"),
    (RefusedError("no room"), "REFUSED"),
    (UnknownError("read tables", "agent sm1", "no answer"), "OUTSIDE_FAILED"),
    (TemporaryError("create port", "neutron", "HTTP 503", delay=7.5), "OUTSIDE_FAILED"),
    (PermanentError("create server", "nova", "no image", "upload the image"), "OUTSIDE_FAILED"),
    (OutsideError("ask", "a service", "something", "look"), "OUTSIDE_FAILED"),
    (WeftError("something else"), "INTERNAL"),
]


@pytest.mark.parametrize(("error", "code"), PLAIN, ids=lambda v: type(v).__name__)
def test_error_without_code_has_its_class_code(error: WeftError, code: str) -> None:
    """Its text is plain text for the receiver, so it stays hidden from tenants."""
    problem = sent(error)
    assert (problem["code"], bool(problem["params"])) == (code, code == "OUTSIDE_FAILED")
    back = from_problem(problem["status"], problem)
    assert (type(back), str(back), back.message.code) == (type(error), str(error), error.message.code)
    assert sent(back) == problem


@pytest.mark.parametrize(
    "error",
    [
        ConflictError(EXISTS),
        NotFoundError(orders.POD_NOT_FOUND(pod="train")),
        RefusedError(placement.NOT_ON_ONE_NODE(n=2)),
        PermanentError(BOOT, NOVA, QUOTA, outside.RAISE_QUOTA()),
        TemporaryError(BOOT, NOVA, outside.NO_ANSWER(), delay=3.0),
    ],
    ids=lambda error: type(error).__name__,
)
def test_error_message_survives_the_api(error: WeftError) -> None:
    """With code, values, and the tenants' sentence."""
    problem = sent(error)
    assert (problem["code"], problem["detail"]) == (error.message.code, str(error))
    back = from_problem(problem["status"], problem)
    assert (str(back), back.message.code, back.message.fields()) == (
        str(error),
        error.message.code,
        error.message.fields(),
    )
    assert str(redact.error(back)) == str(redact.error(error))
    assert sent(back) == problem


def test_invalid_value_has_the_code_of_its_allowed_sentence() -> None:
    error = InputErrors([InputError("node", "gpu9", ALLOWED), InputError("count", 0, "1 or more")])
    first, second = sent(error)["errors"]
    assert (first["code"], first["allowed"]) == ("ALLOWED", str(ALLOWED))
    assert first["params"] == {"text": "one of gpu8, gpu9", "more": " (gpu9 is in maintenance)"}
    assert (second["code"], second["params"]) == ("", {})
    back = from_problem(400, sent(error))
    assert isinstance(back, InputErrors)
    assert [message(one.allowed).code for one in back.errors] == ["ALLOWED", ""]
    assert str(back) == str(error)


def test_tenant_gets_only_values_in_its_sentence() -> None:
    """A document has the values of the sentence that its caller reads."""
    for error in (
        PermanentError(BOOT, NOVA, QUOTA, outside.RAISE_QUOTA()),
        InputError("node", "gpu1", ALLOWED),
        ConflictError(orders.NO_NODES_YET(pod="train", why=Message("pod secret has cn-secret"))),
        ConflictError(Message("pod secret has cn-secret")),
    ):
        problem = json.dumps(sent(redact.error(error)))
        assert "secret" not in problem and "10.0.0.1" not in problem and "maintenance" not in problem


@pytest.mark.parametrize(
    "problem",
    [
        {"title": "Conflict", "detail": "taken"},
        {"title": "Conflict", "detail": "taken", "code": "CODE_OF_LATER", "params": {"n": 1}},
        {"title": "Conflict", "detail": "taken", "code": "POD_EXISTS", "params": {"other": 1}},
        {"title": "Conflict", "detail": "taken", "code": ["POD_EXISTS"], "params": "train"},
    ],
)
def test_document_of_another_version_is_read_as_text(problem: dict[str, Any]) -> None:
    back = from_problem(409, problem)
    assert (type(back), str(back), back.message.code) == (ConflictError, "taken", "")


def test_every_error_class_has_a_documented_code() -> None:
    for row in TABLE:
        assert f"### {row.code.name}\n" in PAGES[row.code.page]
