"""Who may ask what: three prefixes, each with its own way to sign in; roles from 6.14 on."""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict
from urllib.parse import parse_qs

from weftlab.ufm.dialect import Dialect
from weftlab.ufm.messages import Refused, Request, Response
from weftlab.ufm.state import State, Token, User, new_token

PREFIXES = ("/ufmRestV2", "/ufmRestV3", "/ufmRest")
"""The longest first."""
LOGIN_PAGE = "<!DOCTYPE html><html><head><title>UFM Login</title></head><body>login</body></html>"
_CHANGES = frozenset({"POST", "PUT", "DELETE"})


class Access:
    """Checks who may ask what.

    Args:
        users: name -> password and role.
        certificates: common name of a client's certificate -> user.
    """

    def __init__(self, users: Mapping[str, User], certificates: Mapping[str, str], dialect: Dialect) -> None:
        self._users, self._certificates, self._dialect = users, certificates, dialect
        self.sessions: dict[str, str] = {}

    def login(self, request: Request) -> Response:
        """POST /dologin, a form."""
        form = parse_qs(request.body.decode(errors="replace"))
        name = form.get("httpd_username", [""])[-1]
        user = self._users.get(name)
        if user is None or not secrets.compare_digest(user.password, form.get("httpd_password", [""])[-1]):
            if self._dialect.login == "401":
                return Response(401, "error 401")
            return Response(
                302, "", {"Set-Cookie": f"{self._dialect.cookie}=; path=/", "Location": "/ufm_login"}
            )
        cookie = secrets.token_urlsafe(24)
        self.sessions[cookie] = name
        given = f"{self._dialect.cookie}={cookie}; path=/; Secure"
        return Response(302, "", {"Set-Cookie": given, "Location": "/ufm_web"})

    def user(self, prefix: str, request: Request, state: State) -> str:
        """Name of the user who asks. Raises `Refused`."""
        if prefix == "/ufmRestV2":
            return self._by_session(request)
        given = request.headers.get("authorization", "")
        kind, _, value = given.partition(" ")
        if prefix == "/ufmRestV3":
            token = state.tokens.get(value) if kind == "Basic" else None
            if token is None or token.revoked or token.issued_at + token.expires_in < time.time():
                raise Refused(401, "error 401")
            return token.username
        if not given and request.certificate in self._certificates:
            return self._certificates[request.certificate]
        try:
            name, _, password = base64.b64decode(value, validate=True).decode().partition(":")
        except ValueError:
            name, password = "", ""
        user = self._users.get(name)
        if kind != "Basic" or user is None or not secrets.compare_digest(user.password, password):
            raise Refused(401, "error 401")
        return name

    def check_role(self, name: str, request: Request, path: str) -> None:
        """Raise `Refused` with 403 unless the user's role allows the request."""
        role = self._users[name].role
        if path.startswith("/app/tokens") and request.method == "POST" and role != "system_admin":
            raise Refused(403, "Forbidden: only a System Admin may create tokens")
        if request.method in _CHANGES and role == "monitoring" and self._dialect.has_roles:
            raise Refused(403, f"Forbidden: role {role}")
        over = self._dialect.licence
        if over == "everything" or (over == "changes" and request.method in _CHANGES):
            raise Refused(403, "Forbidden: the UFM license has expired")

    def _by_session(self, request: Request) -> str:
        parts = (part.strip().partition("=") for part in request.headers.get("cookie", "").split(";"))
        cookies = {name: value for name, _, value in parts}
        name = self.sessions.get(cookies.get(self._dialect.cookie, ""))
        if name is not None:
            return name
        if self._dialect.expired == "page":
            raise Refused(200, LOGIN_PAGE)
        raise Refused(302 if self._dialect.expired == "redirect" else 401, "error 401")


def tokens(user: str, method: str, words: list[str], request: Request, state: State) -> Response:
    """/app/tokens: each user sees their own."""

    def view(value: str, token: Token) -> dict[str, object]:
        return {"access_token": value, **asdict(token)}

    if method == "GET" and not words:
        return Response(body=[view(v, t) for v, t in state.tokens.items() if t.username == user])
    if method == "POST" and not words:
        value = new_token()
        state.tokens[value] = Token(user, int(time.time()))
        return Response(body=view(value, state.tokens[value]))
    if method == "POST" and words == ["revoke"]:
        found = [v for v in state.tokens if v.encode() in request.body]
        for value in found:
            state.tokens[value].revoked = True
        return Response(200 if found else 404, {})
    raise Refused(404, "Not Found")
