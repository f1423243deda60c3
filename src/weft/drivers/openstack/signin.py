"""Signs people in at Keystone, for the console: password, TOTP, application credential, and the choice of a project.

Requests and answers: Identity API v3, "Authentication and token management"; receipts of the first factor:
"Multi-factor authentication" in Keystone's manual.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import requests
from keystoneauth1.session import Session
from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from weft.drivers.openstack.errors import OUTSIDE, error_of_exception
from weft.drivers.openstack.identity import LONGEST_TOKEN, caller_of, wrong_fields
from weft.drivers.openstack.session import Sessions
from weft.model.errors import UnauthenticatedError, UnknownError
from weft.model.messages import outside
from weft.ports.signin import NeedsPasscode, SignedIn, TokenScope

LONGEST_GIVEN = 4096
"""Characters of a name, password or secret; longer ones aren't forwarded to Keystone."""
MOST_SCOPES = 1000
_TOKENS = "/auth/tokens"


class _User(BaseModel):
    id: str = Field(min_length=1)


class _Receipt(BaseModel):
    user: _User
    expires_at: AwareDatetime


class _Required(BaseModel):
    """Body of a 401 with a receipt."""

    receipt: _Receipt
    required_auth_methods: tuple[tuple[str, ...], ...]


class _Project(BaseModel):
    id: str = Field(min_length=1)
    name: str
    domain_id: str = ""
    enabled: bool = True


class _Projects(BaseModel):
    projects: tuple[_Project, ...]


class KeystoneSignIn:
    """`SignIn` by requests in the user's own name; weft's service user isn't involved."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._session: Session | None = None

    def by_password(self, user: str, domain: str, password: str) -> SignedIn | NeedsPasscode:
        named = {"name": _short(user), "domain": {"name": _short(domain)}, "password": _short(password)}
        answer = self._ask("POST", _TOKENS, body=_auth("password", {"user": named}, unscoped=True))
        receipt = answer.headers.get("Openstack-Auth-Receipt")
        if answer.status_code == 401 and receipt:
            return self._required(answer, receipt)
        return self._signed_in(answer, "the user's name, its domain or the password is wrong")

    def by_passcode(self, first: NeedsPasscode, passcode: str) -> SignedIn:
        user = {"id": first.user_id, "passcode": _short(passcode)}
        headers = {"Openstack-Auth-Receipt": first.receipt}
        answer = self._ask("POST", _TOKENS, headers, _auth("totp", {"user": user}, unscoped=True))
        return self._signed_in(answer, "the passcode is wrong, or too old: begin again")

    def by_credential(self, credential_id: str, secret: str) -> SignedIn:
        given = {"id": _short(credential_id), "secret": _short(secret)}
        answer = self._ask("POST", _TOKENS, body=_auth("application_credential", given))
        return self._signed_in(answer, "the application credential's id or secret is wrong")

    def by_token(self, token: str) -> SignedIn:
        if not 0 < len(token) <= LONGEST_TOKEN or not (
            token.isascii() and token.isprintable() and token == token.strip()
        ):
            raise UnauthenticatedError("not signed in: Keystone sent no token")
        answer = self._ask("GET", _TOKENS, {"X-Auth-Token": token, "X-Subject-Token": token})
        if answer.status_code in (400, 401, 403, 404):
            raise UnauthenticatedError("not signed in: the token isn't one of this Keystone, or not any more")
        if answer.status_code != 200:
            raise self._strange(f"HTTP {answer.status_code} instead of a token")
        if answer.headers.get("X-Subject-Token", token) != token:
            raise self._strange("an answer about another token")
        found = self._found(answer, token)
        if found.project_id or found.system:
            raise UnauthenticatedError("not signed in: a token without a project is wanted")
        return found

    def scopes(self, token: str) -> list[TokenScope]:
        headers = {"X-Auth-Token": token}
        answer = self._ask("GET", "/auth/projects", headers)
        if answer.status_code == 401:
            raise UnauthenticatedError("not signed in: the session is over")
        if answer.status_code != 200:
            raise self._strange(f"HTTP {answer.status_code} instead of a list of projects")
        try:
            found = _Projects.model_validate(self._body(answer)).projects
        except ValidationError as error:
            raise self._strange(f"no list of projects ({wrong_fields(error)})") from None
        projects = sorted(
            (TokenScope(p.id, p.name, p.domain_id) for p in found if p.enabled),
            key=lambda s: (s.name, s.domain_id),
        )
        # Keystone fails with 500 for tokens of federated users, whose groups it can't look up there.
        system = self._ask("GET", "/auth/system", headers, fails=500)
        rows = self._body(system).get("system") if system.status_code == 200 else None
        everywhere = isinstance(rows, list) and any(
            isinstance(row, dict) and cast(Mapping[str, object], row).get("all") is True
            for row in cast(list[object], rows)
        )
        return [*projects[:MOST_SCOPES], *([TokenScope(None, "system")] if everywhere else [])]

    def scoped(self, token: str, project_id: str | None) -> SignedIn:
        scope = {"system": {"all": True}} if project_id is None else {"project": {"id": _short(project_id)}}
        body = _auth("token", {"id": token})
        body["auth"]["scope"] = scope
        return self._signed_in(self._ask("POST", _TOKENS, body=body), "no role there, or the session is over")

    def end(self, token: str) -> None:
        self._ask("DELETE", _TOKENS, {"X-Auth-Token": token, "X-Subject-Token": token})

    def _ask(
        self,
        verb: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        fails: int | None = None,
    ) -> requests.Response:
        """Send one request, which is never logged: there are secrets in it. Raises `UnknownError` without an answer.

        Args:
            fails: a status of failures that is an answer here.
        """
        base = self._sessions.auth_url.rstrip("/")
        url = (base if base.endswith("/v3") else f"{base}/v3") + path
        try:
            if self._session is None:
                self._session = self._sessions.plain()
            answer = self._session.request(
                url,
                verb,
                json=body,
                headers=dict(headers or {}),
                params={"nocatalog": "1"} if path == _TOKENS and verb == "POST" else {},
                authenticated=False,
                raise_exc=False,
                redirect=False,
                log=False,
            )
        except OUTSIDE as error:
            raise error_of_exception(outside.CHECK_TOKEN(), self._of, error, True) from error
        if answer.status_code != fails and (answer.status_code >= 500 or answer.status_code == 429):
            raise self._strange(f"HTTP {answer.status_code}")
        return answer

    def _signed_in(self, answer: requests.Response, refused: str) -> SignedIn:
        if answer.status_code in (400, 401, 403, 404):
            self._body(answer)
            raise UnauthenticatedError(f"not signed in: {refused}")
        token = answer.headers.get("X-Subject-Token", "")
        if answer.status_code != 201 or not 0 < len(token) <= LONGEST_TOKEN:
            raise self._strange(f"HTTP {answer.status_code} without a token")
        return self._found(answer, token)

    def _found(self, answer: requests.Response, token: str) -> SignedIn:
        """The owner of a token. Raises `UnknownError` for a body that doesn't name one."""
        try:
            caller = caller_of(self._body(answer))
        except ValidationError as error:
            raise self._strange(f"no token of Identity API v3 ({wrong_fields(error)})") from None
        return SignedIn(
            token,
            caller.expires_at,
            caller.user_id,
            caller.user_name,
            caller.project_id,
            caller.project_name,
            caller.system,
        )

    def _required(self, answer: requests.Response, receipt: str) -> NeedsPasscode:
        try:
            found = _Required.model_validate(self._body(answer))
        except ValidationError as error:
            raise self._strange(f"no receipt of Identity API v3 ({wrong_fields(error)})") from None
        if not any(set(methods) <= {"password", "totp"} for methods in found.required_auth_methods):
            several = " or ".join("+".join(methods) for methods in found.required_auth_methods)
            raise UnauthenticatedError(
                f"not signed in: the account requires {several[:200]}; the console knows password+totp"
            )
        if len(receipt) > LONGEST_TOKEN:
            raise self._strange("a receipt that is too long")
        return NeedsPasscode(receipt, found.receipt.expires_at, found.receipt.user.id)

    def _body(self, answer: requests.Response) -> dict[str, Any]:
        """The JSON object of an answer. Raises `UnknownError` for anything else: a proxy's page says nothing about a
        user."""
        try:
            body: object = answer.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise self._strange(f"HTTP {answer.status_code} without a JSON object")
        return cast(dict[str, Any], body)

    @property
    def _of(self) -> str:
        return outside.service("identity", self._sessions.auth_url)

    def _strange(self, seen: str) -> UnknownError:
        return UnknownError(outside.CHECK_TOKEN(), self._of, seen)


def _auth(method: str, given: Mapping[str, object], unscoped: bool = False) -> dict[str, Any]:
    """Body of a request for a token. `unscoped`: without a project, also for a user that has a default one."""
    auth: dict[str, Any] = {"identity": {"methods": [method], method: given}}
    if unscoped:
        auth["scope"] = "unscoped"
    return {"auth": auth}


def _short(text: str) -> str:
    if not 0 < len(text) <= LONGEST_GIVEN or "\0" in text:
        raise UnauthenticatedError(f"not signed in: each field takes 1 to {LONGEST_GIVEN} characters")
    return text
