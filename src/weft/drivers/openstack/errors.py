"""The one place that maps OpenStack's answers to weft's errors, and decides what an answer proves.

Sources: Neutron's `NeutronError` body with its exception's class name as `type` (neutron-lib `exceptions`), Nova's
one-key body (api-ref "Faults"), Keystone's `error` body, Glance's HTML or JSON.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from inspect import isfunction
from typing import Any, TypeVar

import requests
from keystoneauth1 import exceptions as auth_errors
from openstack import exceptions as sdk_errors

from weft.model.errors import ConflictError, OutsideError, PermanentError, TemporaryError, UnknownError
from weft.model.messages import Message, orders, outside

log = logging.getLogger(__name__)

T = TypeVar("T")

ROLES = "give the service user the roles and policies of docs/operating-roles.md"

# Conflicts that pass when remains of other resources disappear or a race ends.
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
        "RbacPolicyInUse",
        # Conflicts of Neutron's plugins (trunk, routers, VPN) that last until the user of one of weft's
        # resources is gone.
        "PortInUseAsTrunkParent",
        "PortInUseAsSubPort",
        "RouterExternalGatewayInUseByFloatingIp",
        "RouterInterfaceInUseByRoute",
        "FipAssociated",
        "RouterInUseByVPNService",
        "SubnetInUseByVPNService",
        "SubnetInUseByEndpointGroup",
        "SubnetInUseByIPsecSiteConnection",
        "RetryRequest",
        "StaleDataError",
        "RevisionNumberConstraintFailed",
        "IpAddressAllocationNotFound",
    }
)
QUOTA = frozenset({"OverQuota", "QuotaExceeded"})


@dataclass(frozen=True, slots=True)
class CloudAnswer:
    """An answer.

    Attributes:
        body: {} if it wasn't a JSON object.
        text: of an unexpected answer, its text; else empty.
        request_id: the service's own; empty if there was none, as with a proxy's page.
        strange: what came instead of a JSON object, or empty.
        subject: of Keystone's, the token that it is about; empty: it doesn't say.
    """

    status: int
    body: Mapping[str, Any]
    text: str
    request_id: str
    retry_after: str | None = None
    strange: str = ""
    subject: str = field(default="", repr=False)

    @property
    def fine(self) -> bool:
        """Whether a change was accepted. These APIs never answer with redirects."""
        return 200 <= self.status < 300

    @property
    def readable(self) -> bool:
        """Whether a read was answered: 204, or an HTML page, is not."""
        return self.status == 200 and not self.strange

    def proves_absent(self, thing_id: str) -> bool:
        """Whether the service itself, and not an intermediary, says that the object doesn't exist.

        That is a 404 with the service's request id and its error document, whose message names the object: an unknown
        URL yields a different document, and a proxy's page has none.
        """
        named = thing_id in self.message
        documented = any(isinstance(error, dict) and "message" in error for error in self.body.values())
        return self.status == 404 and bool(self.request_id) and documented and named

    @property
    def error_type(self) -> str:
        """Neutron's name of the error, such as `VlanIdInUse`, or an empty string."""
        error = self.body.get("NeutronError")
        return str(error.get("type", "")) if isinstance(error, dict) else ""

    @property
    def message(self) -> str:
        """The service's own message."""
        for value in self.body.values():
            if isinstance(value, dict) and "message" in value:
                return str(value["message"])
            if isinstance(value, str) and len(self.body) == 1:
                return value
        return str(self.body.get("message") or " ".join(self.text.split())[:200])

    def sentence(self) -> Message:
        """Status, message and request id."""
        return outside.ANSWER(
            status=self.status,
            text=self.message.rstrip(". "),
            strange=self.strange if self.status < 400 else "",
            request=self.request_id,
            known=known(self.message),
        )


class DeniedError(UnknownError):
    """A read that the service itself, and no proxy, denies to weft's roles."""


def error_of_answer(
    asked: str, of: str, answer: CloudAnswer, reading: bool, version: str | None = None
) -> OutsideError:
    """The error for an unexpected answer.

    Args:
        reading: a failed read leaves the state unknown, whatever the reason: it is never final, and never proof.
        version: microversion that was asked for.
    """
    status, seen = answer.status, answer.sentence()
    # With a time to wait it is a rate limit; Cinder's and Manila's quotas and size limits are 413, too,
    # without one.
    delay = _seconds(answer.retry_after, 10.0 if status in (413, 429) else 5.0)
    denied = status == 401 or (status == 403 and not _over_quota(answer))
    if reading:
        kind = DeniedError if denied and status == 403 and answer.request_id else UnknownError
        return kind(asked, of, seen, _then_of_reading(status), delay, denied)
    if status in (408, 429) or status >= 500 or (status == 413 and _seconds(answer.retry_after, 0.0) > 0):
        return TemporaryError(asked, of, seen, delay=delay)
    if status < 400:
        return TemporaryError(asked, of, seen, _then_of_reading(status), delay=delay)
    if denied:
        # Passes when the role is granted again, or Keystone recovers: no reason to fail a pod.
        then = f"will be retried; check the service user's entry in clouds.yaml, and {ROLES}"
        return TemporaryError(asked, of, seen, then, delay, alarming=True)
    if _over_quota(answer):
        return PermanentError(asked, of, seen, outside.RAISE_QUOTA())
    if status == 406:
        return PermanentError(asked, of, seen, f"weft needs its microversion {version or '?'} or a newer one")
    if status == 409 and (answer.error_type in PASSING_CONFLICTS or not answer.error_type):
        return TemporaryError(asked, of, seen)
    return PermanentError(asked, of, seen, "change what the answer names, then release and order again")


_NAMED = r"[a-z_]{1,30}(?:, [a-z_]{1,30}){0,20}"
_NUMBERS = r"\d{1,9}(?:, \d{1,9}){0,20}"
_NOVA_QUOTA = re.compile(
    rf"Quota exceeded for ({_NAMED}): Requested ({_NUMBERS}), but already used ({_NUMBERS}) of ({_NUMBERS}) ({_NAMED})"
)
"""nova `exception.OverQuota`, `TooManyInstances`."""
_NEUTRON_QUOTA = re.compile(r"Quota exceeded for resources: \['([a-z_]{1,30}'(?:, '[a-z_]{1,30}'){0,20})\]")
"""neutron_lib `exceptions.OverQuota`."""


def known(text: str) -> Message | None:
    """A service's message, if tenants may read it."""
    if found := _NOVA_QUOTA.search(text):
        values = [tuple(group.split(", ")) for group in found.groups()]
        names = ("resources", "requested", "used", "limit", "of")
        return outside.QUOTA_EXCEEDED(**dict(zip(names, values, strict=True)))
    if found := _NEUTRON_QUOTA.search(text):
        return outside.QUOTA_OF_RESOURCES(resources=tuple(found[1].replace("'", "").split(", ")))
    return outside.NO_VALID_HOST() if "No valid host was found" in text else None


def _over_quota(answer: CloudAnswer) -> bool:
    return answer.error_type in QUOTA or "quota" in answer.message.lower()


def error_of_exception(asked: str, of: str, error: Exception, reading: bool) -> OutsideError:
    """The error for a call without an answer, or without a token."""
    seen = " ".join(str(error).split())[:300] or type(error).__name__
    passing = UnknownError if reading else TemporaryError
    then = _then_of_exception(error)
    if then:
        return passing(asked, of, seen, f"will be retried; {then}", alarming=True)
    return passing(asked, of, seen)


def _then_of_exception(error: Exception) -> str:
    """What a person must check when weft is denied access; empty: nothing yet."""
    if isinstance(error, auth_errors.SSLError):
        return "check cacert and the service's certificate"
    if isinstance(error, auth_errors.Unauthorized):
        return "check the service user's password and roles in this project"
    if isinstance(error, auth_errors.NotFound):  # also for an application credential that was deleted
        return "check auth_url and the application credential in clouds.yaml"
    if isinstance(error, auth_errors.HttpError) and error.http_status < 500 and error.http_status != 429:
        return ROLES
    if isinstance(error, auth_errors.CatalogException | auth_errors.MissingRequiredOptions):
        return "check region, interface and the cloud's service catalog"
    if isinstance(error, sdk_errors.ConfigException):
        return "check the profile in clouds.yaml"
    return ""


def _then_of_reading(status: int) -> str:
    if status in (401, 403):
        return f"its state is unknown until it can be read: {ROLES}"
    if status < 400 or status == 404:
        return "its state is unknown: check the catalog's endpoint and any proxy in front of the service"
    return "its state is unknown; will be retried"


OUTSIDE = (auth_errors.ClientException, sdk_errors.SDKException, requests.RequestException, OSError)
"""What keystoneauth, openstacksdk and requests raise."""


LONGEST_DELAY = 300.0
"""Maximum `Retry-After` that is honored, in seconds: a wrong number must not stall a pod."""


def _seconds(text: str | None, default: float) -> float:
    """Seconds of `Retry-After`; an HTTP date (RFC 9110 §10.2.3) is not worth a parser."""
    if text is None or not text.isascii() or not text.isdecimal():
        return default
    return min(float(text[:9]), LONGEST_DELAY)


def check_done(asked: str, answer: CloudAnswer) -> None:
    """Raise `ConflictError` if the service has refused."""
    if not answer.fine:
        raise ConflictError(orders.CLOUD_REFUSES(what=asked, why=answer.sentence()))


MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError)
"""What reading an answer of another shape raises."""


@contextmanager
def shaped(asked: str, of: str = "the cloud") -> Generator[None]:
    """Raise `UnknownError` for an answer of another shape: nothing follows from it, and it ends neither an audit of
    everything else nor a visit."""
    try:
        yield
    except MALFORMED as error:
        log.warning("%s: a malformed answer", asked, exc_info=True)
        seen = f"a malformed answer ({type(error).__name__}: {error})"[:300]
        raise UnknownError(asked, of, seen, "nothing follows from it; see the log") from error


def all_shaped(made: type[T]) -> type[T]:
    """Class decorator: each public method, also an inherited one, is `shaped`."""

    def one(method: Callable[..., Any]) -> Callable[..., Any]:
        asked = f"read the cloud's answers ({method.__name__})"

        @wraps(method)
        def guarded(*given: Any, **named: Any) -> Any:
            with shaped(asked):
                return method(*given, **named)

        return guarded

    for name in (name for name in dir(made) if not name.startswith("_")):
        if isfunction(method := getattr(made, name)):
            setattr(made, name, one(method))
    return made
