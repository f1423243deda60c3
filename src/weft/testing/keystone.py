"""A small Keystone for tests of API and command line: signs in by password, application credential or token; has a
catalog.

Shapes: Identity API v3, "Password authentication with scoped authorization" and "Application credentials".
End-to-end tests use the lab's real one.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from weft.client import SERVICE_TYPE
from weft.model.errors import UnauthenticatedError, WeftError
from weft.ports.cloud import Caller


class FakeIdentity:
    """Valid tokens are those in `tokens`; one whose caller has expired is refused, as by Keystone."""

    def __init__(self, tokens: dict[str, Caller] | None = None) -> None:
        self.tokens = dict(tokens or {})
        self.error: WeftError | None = None
        self.requests = self.failed = 0
        """Number of tokens looked up, and number of lookups that failed with `error`."""

    def remembered(self, token: str) -> Caller | None:
        """The caller of a token, as if it had been validated a moment ago."""
        self.requests += 1
        try:
            return self.check(token)
        except WeftError:
            return None

    def check(self, token: str) -> Caller:
        if self.error:
            self.failed += 1
            raise self.error
        caller = self.tokens.get(token)
        if caller is None or caller.expires_at <= datetime.now(UTC):
            raise UnauthenticatedError("the token is not valid, or not any more: sign in again")
        return caller


@dataclass
class FakeKeystone:
    """Users by name; every token that it issues is known to `identity`.

    Attributes:
        weft_url: weft's catalog entry; empty: none.
        answer: a false answer to requests about a valid token.
        projects: id -> name of those in which the caller has a role.
        scoped: (user's id, project's id, or None for the system) -> the caller there, for those who choose a project.
        passcodes: user's name -> the one-time passcode that it needs besides its password.
        ended: tokens that were revoked.
    """

    identity: FakeIdentity
    users: dict[str, tuple[str, Caller]] = field(default_factory=dict)
    weft_url: str = ""
    url: str = ""
    answer: Response | None = None
    projects: dict[str, str] = field(default_factory=dict[str, str])
    scoped: dict[tuple[str, str | None], Caller] = field(default_factory=dict[tuple[str, str | None], Caller])
    passcodes: dict[str, str] = field(default_factory=dict[str, str])
    ended: list[str] = field(default_factory=list[str])
    _receipts: dict[str, str] = field(default_factory=dict[str, str])

    def app(self) -> FastAPI:
        """The FastAPI application that answers like Keystone."""
        app = FastAPI()
        app.add_api_route("/v3", self._version, methods=["GET"])
        app.add_api_route("/v3/auth/tokens", self._sign_in, methods=["POST"])
        app.add_api_route("/v3/auth/tokens", self._validate, methods=["GET"])
        app.add_api_route("/v3/auth/tokens", self._revoke, methods=["DELETE"])
        app.add_api_route("/v3/auth/projects", self._projects, methods=["GET"])
        app.add_api_route("/v3/auth/system", self._system, methods=["GET"])
        return app

    def _projects(self, request: Request) -> Any:
        if request.headers.get("X-Auth-Token", "") in self.ended:
            return JSONResponse({"error": {"code": 401, "title": "Unauthorized", "message": "no token"}}, 401)
        rows = [{"id": id_, "name": name} for id_, name in self.projects.items()]
        rows += [
            {"id": c.project_id or "", "name": c.project_name or "", "domain_id": "default", "enabled": True}
            for c in self._choices(request)
            if c.project_id
        ]
        own = self.identity.tokens.get(request.headers.get("X-Auth-Token", ""))
        if own is not None and own.project_id and own.project_id not in {row["id"] for row in rows}:
            rows.append({"id": own.project_id, "name": own.project_name or ""})
        return {"projects": rows, "links": {"next": None}}

    def _system(self, request: Request) -> dict[str, Any]:
        return {"system": [{"all": True}] if any(c.system for c in self._choices(request)) else []}

    def _choices(self, request: Request) -> list[Caller]:
        """The callers that the user of the request's token can become: one for each role on a project or the system."""
        who = self.identity.tokens.get(request.headers.get("X-Auth-Token", ""))
        return [c for (user, _), c in self.scoped.items() if who is not None and user == who.user_id]

    def _revoke(self, request: Request) -> Response:
        token = request.headers.get("X-Subject-Token", "")
        if self.identity.tokens.pop(token, None) is None:
            return JSONResponse({"error": {"code": 404, "title": "Not Found", "message": "no token"}}, 404)
        self.ended.append(token)
        return Response(status_code=204)

    def _validate(self, request: Request) -> Response:
        """Whose token it is; `answer` instead, if it is set."""
        caller = self.identity.tokens.get(request.headers.get("X-Subject-Token", ""))
        knows_rules = request.headers.get("OpenStack-Identity-Access-Rules") == "1.0"
        if caller is None or (caller.access_rules is not None and not knows_rules):
            return JSONResponse({"error": {"code": 404, "title": "Not Found", "message": "no token"}}, 404)
        return self.answer or JSONResponse({"token": self._token(caller)})

    def _version(self) -> dict[str, Any]:
        links = [{"rel": "self", "href": f"{self.url}/v3/"}]
        return {"version": {"id": "v3.14", "status": "stable", "links": links, "media-types": []}}

    async def _sign_in(self, request: Request) -> Response:
        auth = (await request.json())["auth"]
        identity, scope = auth["identity"], auth.get("scope")
        method = identity["methods"][0]
        if method == "token":
            caller = self.identity.tokens.get(identity["token"]["id"])
            if caller is not None and isinstance(scope, dict) and self.scoped:
                where = None if "system" in scope else scope["project"]["id"]
                caller = self.scoped.get((caller.user_id, where))
        elif method == "application_credential":
            given = identity["application_credential"]
            if given["id"] not in self.users:
                message = f"Could not find Application Credential: {given['id']}."
                return JSONResponse({"error": {"code": 404, "title": "Not Found", "message": message}}, 404)
            caller = self._user(given["id"], given["secret"])
        elif method == "totp":
            caller = self._second(request.headers.get("Openstack-Auth-Receipt", ""), identity["totp"]["user"])
        else:
            user = identity["password"]["user"]
            caller = self._user(user["name"], user["password"])
            if caller is not None and user["name"] in self.passcodes:
                return self._receipt(user["name"], caller)
        if caller is None:
            message = "The request you have made requires authentication."
            return JSONResponse({"error": {"code": 401, "title": "Unauthorized", "message": message}}, 401)
        if scope == "unscoped":
            caller = replace(
                caller,
                project_id=None,
                project_name=None,
                project_domain_id=None,
                system=False,
                roles=frozenset(),
            )
        token = f"token-{uuid.uuid4()}"
        self.identity.tokens[token] = caller
        return JSONResponse({"token": self._token(caller)}, 201, {"X-Subject-Token": token})

    def _receipt(self, name: str, caller: Caller) -> Response:
        """401 with a receipt: "Multi-factor authentication" in Keystone's manual."""
        receipt = f"receipt-{uuid.uuid4()}"
        self._receipts[receipt] = name
        expires = caller.expires_at.strftime("%Y-%m-%dT%H:%M:%S.000000Z")
        user = {
            "id": caller.user_id,
            "name": caller.user_name,
            "domain": {"id": caller.user_domain_id, "name": "…"},
        }
        body = {
            "receipt": {"methods": ["password"], "user": user, "expires_at": expires, "issued_at": expires},
            "required_auth_methods": [["totp", "password"]],
        }
        return JSONResponse(body, 401, {"Openstack-Auth-Receipt": receipt})

    def _second(self, receipt: str, user: dict[str, str]) -> Caller | None:
        name = self._receipts.get(receipt, "")
        right, caller = self.passcodes.get(name), self.users.get(name, ("", None))[1]
        known = caller is not None and caller.user_id == user["id"]
        return caller if known and right == user["passcode"] else None

    def _user(self, name: str, password: str) -> Caller | None:
        right, caller = self.users.get(name, (None, None))
        return caller if right == password else None

    def _token(self, caller: Caller) -> dict[str, Any]:
        endpoint = {
            "interface": "public",
            "region": "lab",
            "region_id": "lab",
            "url": self.weft_url,
            "id": "e1",
        }
        entry = {"type": SERVICE_TYPE, "name": "weft", "id": "s1", "endpoints": [endpoint]}
        project = {
            "id": caller.project_id,
            "name": caller.project_name,
            "domain": {"id": caller.project_domain_id, "name": "…"},
        }
        scope = {"system": {"all": True}} if caller.system else {"project": project}
        return {
            "methods": ["password"],
            "user": {
                "id": caller.user_id,
                "name": caller.user_name,
                "domain": {"id": caller.user_domain_id, "name": "…"},
            },
            **self._credential(caller),
            **(scope if caller.system or caller.project_id else {}),
            "roles": [{"id": role, "name": role} for role in sorted(caller.roles)],
            "catalog": [entry] if self.weft_url else [],
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "expires_at": caller.expires_at.strftime("%Y-%m-%dT%H:%M:%S.000000Z"),
        }

    def _credential(self, caller: Caller) -> dict[str, Any]:
        if caller.access_rules is None:
            return {}
        rules = [{"id": f"r{n}", **asdict(rule)} for n, rule in enumerate(caller.access_rules)]
        return {
            "application_credential": {"id": "c1", "name": "c", "restricted": True, "access_rules": rules}
        }
