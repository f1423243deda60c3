"""Nodes' own checks. A node reports with a token of its own, as `Authorization: Bearer`. Keystone's tokens aren't
accepted there, and a node's token is accepted nowhere else."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Path, Query, Response
from fastapi import Request as HttpRequest
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import Field

from weft.api.asking import Backend, Named, address_of, check_parameters, may, neighbourhood, user_agent
from weft.api.bodies import KIB, SmallBody, answer, body_schema, document, json_body, json_object
from weft.api.documents import CheckTokenList
from weft.api.paging import PageOf, page
from weft.api.threadshares import READ_SECONDS, ThreadShares
from weft.app.checkverbs import Reporter
from weft.app.verbs import Request
from weft.model.errors import ForbiddenError, UnauthenticatedError
from weft.model.hostchecks import CheckDocument
from weft.model.nodetests import NodeTestReceipt, NodeTestReport
from weft.model.views import (
    CheckJudgement,
    CheckReceipt,
    CheckTokenRequest,
    CheckTokenView,
    JudgedCheck,
    NewCheckToken,
    NodeChecks,
)

LARGEST, MOST_VALUES = 1024 * KIB, 20_000
"""Bytes and values of a document: a host with 16 GPUs and adapters has 0.2 MB and 3,000."""

_FILE: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
router = APIRouter(prefix="/v1", tags=["operator"])
_bearer = HTTPBearer(
    auto_error=False, description="A node's token, made with POST /v1/nodes/{name}/check-tokens."
)


async def _reporter(
    http: HttpRequest,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    verbs: Backend,
    name: Named,
) -> Reporter:
    """The node that the token belongs to, checked in the share of the caller's address before a byte of the body is
    read.
    """
    if bearer is None:
        if http.headers.get("x-auth-token"):
            raise ForbiddenError("nodes report with tokens of their own, as Authorization: Bearer")
        raise UnauthenticatedError("no token: send the node's token as Authorization: Bearer")
    address = address_of(http)
    work = partial(
        verbs.checks.reporter, bearer.credentials, name, address, http.state.request_id, user_agent(http)
    )
    shares = cast(ThreadShares, http.app.state.strangers)
    reporter = await shares.run(neighbourhood(address), work, READ_SECONDS)
    check_parameters(http)
    return reporter


async def _body(http: HttpRequest, reporter: Annotated[Reporter, Depends(_reporter)]) -> bytes:
    return await json_body(http, LARGEST, MOST_VALUES)


@router.post("/nodes/{name}/checks", response_model=CheckReceipt, openapi_extra=body_schema(CheckDocument))
def report_checks(
    reporter: Annotated[Reporter, Depends(_reporter)],
    verbs: Backend,
    name: Named,
    body: Annotated[bytes, Depends(_body)],
) -> Response:
    """Report what weft-check found on a node. Only with the node's own token. Fields that weft doesn't know are left
    out, and named in the answer."""
    return answer(verbs.checks.report(reporter, json_object(body)))


@router.get(
    "/nodes/{name}/checks/expected",
    response_class=Response,
    responses={200: {"description": "Expected values, as weft-check reads them.", "content": _FILE}},
)
def expected_of_node(
    reporter: Annotated[Reporter, Depends(_reporter)], verbs: Backend, name: Named
) -> Response:
    """What the site expects of a node's machine type, for weft-check. Only with the node's own token."""
    return Response(verbs.checks.expected(reporter), media_type="application/json")


@router.get("/nodes/{name}/checks", response_model=NodeChecks)
def node_checks(
    request: Annotated[Request, may("nodes:list_checks")], verbs: Backend, name: Named
) -> Response:
    """What a node's own checks reported last."""
    return answer(verbs.checks.show(request, name))


@router.delete("/nodes/{name}/checks", response_model=NodeChecks)
def forget_checks(
    request: Annotated[Request, may("nodes:forget_checks")], verbs: Backend, name: Named
) -> Response:
    """Forget what a node reported, failed checks included, until it reports again. 409 if there is nothing."""
    return answer(verbs.checks.forget(request, name))


@router.put("/checks/{name}/judgement", response_model=JudgedCheck, openapi_extra=body_schema(CheckJudgement))
def judge_check(
    request: Annotated[Request, may("nodes:judge_checks")], verbs: Backend, name: Named, body: SmallBody
) -> Response:
    """Say whether a check that began to fail on many nodes is real or a mistake. 409 if it fails on no node."""
    return answer(verbs.checks.judge(request, name, document(CheckJudgement, body).judged))


@router.post(
    "/nodes/{name}/tests/{test}", response_model=NodeTestReceipt, openapi_extra=body_schema(NodeTestReport)
)
def report_test(
    request: Annotated[Request, may("nodes:report_tests")],
    verbs: Backend,
    name: Named,
    test: Annotated[str, Path(max_length=40, description="One of `acceptance.tests` of the site.")],
    body: SmallBody,
) -> Response:
    """Report what an outside test found on a held node. The hold ends once all tests that the site names have passed.

    409 if the result counts for no hold: the node isn't held for tests, a pod has it, the test began before the hold,
    or another machine was tested.
    """
    return answer(verbs.checks.report_test(request, name, test, document(NodeTestReport, body)))


@router.post(
    "/nodes/{name}/check-tokens",
    response_model=NewCheckToken,
    status_code=201,
    openapi_extra=body_schema(CheckTokenRequest),
)
def make_check_token(
    request: Annotated[Request, may("nodes:check_tokens")], verbs: Backend, name: Named, body: SmallBody
) -> Response:
    """Make a token with which the node can only report its checks. Only this answer shows it."""
    return answer(verbs.checks.make_token(request, name, document(CheckTokenRequest, body).until), 201)


class TokensOf(PageOf):
    """Which tokens are wanted."""

    node: str | None = Field(default=None, max_length=255, description="Only of this node.")


@router.get("/check-tokens", response_model=CheckTokenList)
def check_tokens(
    request: Annotated[Request, may("nodes:list_check_tokens")],
    verbs: Backend,
    wanted: Annotated[TokensOf, Query()],
) -> Response:
    """List the tokens with which nodes report their checks, without their secrets; by node, in pages."""
    found, after = page(verbs.checks.tokens(request, wanted.node), lambda one: (one.node, one.id), wanted)
    return answer(CheckTokenList(tokens=found, next=after))


@router.delete("/check-tokens/{name}", response_model=CheckTokenView)
def revoke_check_token(
    request: Annotated[Request, may("nodes:check_tokens")], verbs: Backend, name: Named
) -> Response:
    """Revoke a token of a node by its id."""
    return answer(verbs.checks.revoke_token(request, name))
