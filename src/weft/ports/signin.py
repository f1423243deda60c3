"""Port: signing in people, for the console in the browser. Clients of the API sign in with Keystone themselves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A token of a user, and what it is for.

    Attributes:
        project_id: None: a token without a project, or for the system.
        system: whether it is for the system.
    """

    token: str
    expires_at: datetime
    user_id: str
    user_name: str
    project_id: str | None = None
    project_name: str | None = None
    system: bool = False


@dataclass(frozen=True, slots=True)
class NeedsPasscode:
    """The password was right, and a one-time passcode is required besides.

    Attributes:
        receipt: Keystone's receipt for the first factor; as secret as a token.
    """

    receipt: str
    expires_at: datetime
    user_id: str


@dataclass(frozen=True, slots=True)
class TokenScope:
    """What a user may get a token for: a project, or the system (`project_id` None)."""

    project_id: str | None
    name: str
    domain_id: str = ""


class SignIn(Protocol):
    """Keystone. Each method raises `UnauthenticatedError` if it refuses, `UnknownError` if it can't be asked."""

    def by_password(self, user: str, domain: str, password: str) -> SignedIn | NeedsPasscode:
        """A token without a project. Args: domain: its name."""
        ...

    def by_passcode(self, first: NeedsPasscode, passcode: str) -> SignedIn:
        """A token without a project, for a password and a time-based one-time passcode (TOTP)."""
        ...

    def by_credential(self, credential_id: str, secret: str) -> SignedIn:
        """A token for the project of an application credential."""
        ...

    def by_token(self, token: str) -> SignedIn:
        """A token without a project that Keystone itself gave to the browser, such as by WebSSO; it is checked."""
        ...

    def scopes(self, token: str) -> list[TokenScope]:
        """What the user may get a token for, sorted by name."""
        ...

    def scoped(self, token: str, project_id: str | None) -> SignedIn:
        """A token for a project; None: for the system."""
        ...

    def end(self, token: str) -> None:
        """Revoke a token."""
        ...
