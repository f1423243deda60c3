"""The one place where what OpenStack answers becomes one of weft's errors.

Sources: Neutron's `NeutronError` body with its exception's class name as `type` (neutron-lib `exceptions`), Nova's
one-key body (api-ref "Faults"), Keystone's `error` body, Glance's HTML or JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests
from keystoneauth1 import exceptions as auth_errors
from openstack import exceptions as sdk_errors

from weft.model.errors import OutsideError, PermanentError, TemporaryError, UnknownError

ROLES = "give the service user the roles and policies of docs/operating-roles.md"

# Conflicts that pass by themselves, when what is still there goes, or when a race is over.
PASSING_CONFLICTS = frozenset(
    {
        "NetworkInUse",
        "SubnetInUse",
        "PortInUse",
        "InUse",
        "RouterInUse",
        "RouterInterfaceInUseByFloatingIP",
        "SecurityGroupInUse",
        "L3PortInUse",
        "ServicePortInUse",
        "RetryRequest",
        "StaleDataError",
        "RevisionNumberConstraintFailed",
        "IpAddressAllocationNotFound",
    }
)
QUOTA = frozenset({"OverQuota", "QuotaExceeded"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: `body` is {} if it wasn't a JSON object."""

    status: int
    body: Mapping[str, Any]
    text: str
    request_id: str
    retry_after: str | None = None

    @property
    def fine(self) -> bool:
        return self.status < 400

    @property
    def error_type(self) -> str:
        """Neutron's name of the error, such as `VlanIdInUse`, or an empty string."""
        error = self.body.get("NeutronError")
        return str(error.get("type", "")) if isinstance(error, dict) else ""

    @property
    def message(self) -> str:
        """The service's own sentence."""
        for value in self.body.values():
            if isinstance(value, dict) and "message" in value:
                return str(value["message"])
            if isinstance(value, str) and len(self.body) == 1:
                return value
        return str(self.body.get("message") or " ".join(self.text.split())[:200])

    def sentence(self) -> str:
        """Status, message and request id."""
        request = f" (request {self.request_id})" if self.request_id else ""
        return f"HTTP {self.status} {self.message}".rstrip(". ") + request


def error_of_answer(asked: str, of: str, answer: Answer, reading: bool) -> OutsideError:
    """The error of an answer with status 400 or more.

    Args:
        reading: a failed reading leaves the state unknown; a failed change is tried again.
    """
    status, seen = answer.status, answer.sentence()
    passing = UnknownError if reading else TemporaryError
    if status in (413, 429):
        return passing(asked, of, seen, delay=_seconds(answer.retry_after, 10.0))
    if status >= 500 or status == 408:
        return passing(asked, of, seen, delay=_seconds(answer.retry_after, 5.0))
    if status == 401:
        return PermanentError(asked, of, seen, "check the service user's entry in clouds.yaml")
    if answer.error_type in QUOTA or "quota" in answer.message.lower():
        return PermanentError(asked, of, seen, "raise the project's quota or order less")
    if status == 403:
        return PermanentError(asked, of, seen, ROLES)
    if status == 406:
        return PermanentError(asked, of, seen, "weft needs Nova's microversion 2.74 (Train) or newer")
    if status == 409 and (answer.error_type in PASSING_CONFLICTS or not answer.error_type):
        return TemporaryError(asked, of, seen)
    return PermanentError(asked, of, seen, "change what the answer names, then release and order again")


def error_of_exception(asked: str, of: str, error: Exception, reading: bool) -> OutsideError:
    """The error of a call that brought no answer, or not even a token."""
    passing = UnknownError if reading else TemporaryError
    seen = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(error, auth_errors.SSLError):
        return PermanentError(asked, of, seen, "check cacert and the service's certificate")
    if isinstance(error, auth_errors.Unauthorized):
        return PermanentError(asked, of, seen, "check the service user's password and roles in this project")
    if isinstance(error, auth_errors.HttpError) and error.http_status < 500 and error.http_status != 429:
        return PermanentError(asked, of, seen, ROLES)
    if isinstance(error, auth_errors.CatalogException | auth_errors.MissingRequiredOptions):
        return PermanentError(asked, of, seen, "check region, interface and the cloud's service catalog")
    if isinstance(error, sdk_errors.ConfigException):
        return PermanentError(asked, of, seen, "check the profile in clouds.yaml")
    return passing(asked, of, seen)


OUTSIDE = (auth_errors.ClientException, sdk_errors.SDKException, requests.RequestException, OSError)
"""What keystoneauth, openstacksdk and requests raise."""


def _seconds(text: str | None, default: float) -> float:
    try:
        return max(0.0, float(text)) if text else default
    except ValueError:
        return default  # an HTTP date (RFC 9110 §10.2.3): not worth a parser
