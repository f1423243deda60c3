"""Keystone validates callers' tokens; weft never sees a password and stores no token."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from weft.drivers.openstack.session import Sessions
from weft.model.errors import UnauthenticatedError, UnknownError
from weft.model.messages import outside
from weft.ports.cloud import AccessRule, Caller

log = logging.getLogger(__name__)

LONGEST = 60.0
KEPT = 10_000
"""Maximum number of cached answers; the oldest are evicted."""
LONGEST_TOKEN = 8192
"""Most characters of a token. A Fernet or JWS token has a few hundred; longer ones aren't forwarded to Keystone."""

ALARMS = timedelta(minutes=1)
"""Least number of seconds between two equal lines in the log."""


class KeystoneIdentity:
    """`Identity` by `GET /v3/auth/tokens` with the service user's own token (role `service`).

    Args:
        remembered: seconds that an answer is cached, at most 60 and never beyond the token's expiry. A revoked
            token is refused after that time. Cached under the token's SHA-256, never under the token.
    """

    def __init__(
        self,
        sessions: Sessions,
        remembered: float = 30.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._sessions = sessions
        self._remembered = timedelta(seconds=min(remembered, LONGEST))
        self._now = now
        self._known: dict[bytes, tuple[datetime, Caller]] = {}
        self._lock = threading.Lock()
        self.lacks_role = False
        """Whether Keystone's last answer was that weft's user may not validate tokens."""
        self._alarmed: datetime | None = None

    @property
    def auth_url(self) -> str:
        """Keystone's URL, for callers without a token."""
        return self._sessions.auth_url

    def check(self, token: str) -> Caller:
        if not 0 < len(token) <= LONGEST_TOKEN or not token.isascii() or not token.isprintable():
            raise UnauthenticatedError("not a Keystone token: authenticate again")
        name, now = hashlib.sha256(token.encode()).digest(), self._now()
        if caller := self._remembers(name, now):
            return caller
        caller = self._ask(token)
        if caller.expires_at <= self._now():
            raise UnauthenticatedError("the token has expired: authenticate again")
        with self._lock:
            self._known.pop(name, None)
            while len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            self._known[name] = (min(now + self._remembered, caller.expires_at), caller)
        return caller

    def remembered(self, token: str) -> Caller | None:
        if len(token) > LONGEST_TOKEN:
            return None
        return self._remembers(hashlib.sha256(token.encode("utf-8", "replace")).digest(), self._now())

    def _remembers(self, name: bytes, now: datetime) -> Caller | None:
        with self._lock:
            until, caller = self._known.get(name, (now, None))
        return caller if now < until else None

    def _ask(self, token: str) -> Caller:
        asked, keystone = outside.CHECK_TOKEN(), self._sessions.own().identity
        answer = keystone.ask(
            asked,
            "GET",
            "/auth/tokens",
            params={"nocatalog": "1"},
            headers={"X-Subject-Token": token, "OpenStack-Identity-Access-Rules": "1.0"},
            ok=(400, 403, 404),
        )
        self.lacks_role = answer.status == 403 and "error" in answer.body
        if self.lacks_role:
            raise self._denied(asked)
        if not answer.readable:
            if "error" not in answer.body:  # not Keystone's own document: it says nothing about the token
                raise keystone.error(asked, answer, reading=True)
            raise UnauthenticatedError("the token is not valid, or no longer valid: authenticate again")
        if answer.subject not in ("", token):  # Keystone's `Vary` names weft's own token alone
            of, then = (
                outside.service("identity", self.auth_url),
                "check any cache or proxy in front of Keystone",
            )
            raise UnknownError(asked, of, "its answer is about another token", then, alarming=True)
        try:
            return caller_of(answer.body)
        except ValidationError as error:
            raise UnknownError(
                asked,
                outside.service("identity", self.auth_url),
                f"no token of Identity API v3 ({wrong_fields(error)})",
            ) from None

    def _denied(self, asked: str) -> UnknownError:
        user, project = self._sessions.account
        lacks = outside.NO_ROLE(user=user, project=project)
        then = f"openstack role add --user {user} --project {project} service (docs/operating-roles.md)"
        of, then = outside.service("identity", self.auth_url), outside.OPERATORS_ALARMED(then=then)
        error = UnknownError(asked, of, lacks, then, alarming=True)
        with self._lock:
            now = self._now()
            if self._alarmed is None or now - self._alarmed >= ALARMS:
                self._alarmed = now
                log.error("%s", error)
        return error


class _Named(BaseModel):
    id: str = Field(min_length=1)
    name: str = Field(min_length=1)


class _Domain(BaseModel):
    id: str = Field(min_length=1)


class _InDomain(_Named):
    domain: _Domain


class _System(BaseModel):
    all: bool = False


class _Rule(BaseModel):
    service: str
    method: str
    path: str


class _Credential(BaseModel):
    """An application credential. A document without `access_rules`, or with null, has none that exclude anything."""

    access_rules: tuple[_Rule, ...] | None = None


class _Token(BaseModel):
    """The body of "Validate and show information for token", Identity API v3; only the needed part."""

    user: _InDomain
    project: _InDomain | None = None
    roles: tuple[_Named, ...] = ()
    system: _System = _System()
    expires_at: AwareDatetime
    application_credential: _Credential | None = None


class _Answer(BaseModel):
    token: _Token


def caller_of(body: Mapping[str, Any]) -> Caller:
    """The caller in Keystone's answer. Raises `ValidationError` for anything else."""
    token = _Answer.model_validate(body).token
    project, credential = token.project, token.application_credential
    rules = None if credential is None else credential.access_rules
    return Caller(
        user_id=token.user.id,
        user_name=token.user.name,
        project_id=project.id if project else None,
        project_name=project.name if project else None,
        roles=frozenset(role.name.lower() for role in token.roles),
        expires_at=token.expires_at.astimezone(UTC),
        system=token.system.all,
        project_domain_id=project.domain.id if project else None,
        user_domain_id=token.user.domain.id,
        access_rules=None if rules is None else tuple(AccessRule(r.service, r.method, r.path) for r in rules),
    )


def wrong_fields(error: ValidationError) -> str:
    """What is missing or wrong, without the values."""
    return ", ".join(".".join(str(part) for part in one["loc"]) for one in error.errors()[:3])


__all__ = ["KeystoneIdentity", "caller_of"]
