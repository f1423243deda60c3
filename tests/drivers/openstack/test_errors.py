"""OpenStack's answers and the errors that weft makes of them."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from keystoneauth1.exceptions import NotFound

from weft.drivers.openstack import KeystoneIdentity, Sessions
from weft.drivers.openstack.errors import CloudAnswer, DeniedError, error_of_answer, error_of_exception
from weft.model.errors import InputError, PermanentError, TemporaryError, UnauthenticatedError, UnknownError

NEUTRON = "network at http://neutron.example:9696"


def answer(status: int, body: dict[str, object], **more: str) -> CloudAnswer:
    return CloudAnswer(status, body, more.get("text", ""), "req-1", more.get("retry_after"))


def neutron(kind: str, message: str) -> dict[str, object]:
    return {"NeutronError": {"type": kind, "message": message, "detail": ""}}


@pytest.mark.parametrize(
    ("status", "body", "reading", "expected"),
    [
        (500, {"computeFault": {"code": 500, "message": "boom"}}, False, TemporaryError),
        (503, {}, True, UnknownError),
        (408, {}, False, TemporaryError),
        (429, {"overLimit": {"message": "slow down"}}, False, TemporaryError),
        (409, neutron("NetworkInUse", "There are ports"), False, TemporaryError),
        (409, {"conflictingRequest": {"code": 409, "message": "task_state"}}, False, TemporaryError),
        (409, neutron("VlanIdInUse", "VLAN 101 is in use"), False, PermanentError),
        (409, neutron("IpAddressAlreadyAllocated", "10.0.0.4"), False, PermanentError),
        (409, neutron("OverQuota", "Quota exceeded for resources: ['port']"), False, PermanentError),
        (403, {"forbidden": {"code": 403, "message": "Quota exceeded for cores"}}, False, PermanentError),
        (403, {"forbidden": {"code": 403, "message": "Policy doesn't allow it"}}, True, DeniedError),
        (401, {"error": {"code": 401, "message": "no"}}, True, UnknownError),
        (401, {"error": {"code": 401, "message": "no"}}, False, TemporaryError),
        (403, {"forbidden": {"code": 403, "message": "Policy doesn't allow it"}}, False, TemporaryError),
        (406, {}, False, PermanentError),
        (
            413,
            {"overLimit": {"code": 413, "message": "VolumeSizeExceedsLimit: larger"}},
            False,
            PermanentError,
        ),
        (400, neutron("HTTPBadRequest", "no such attribute"), False, PermanentError),
    ],
)
def test_every_answer_maps_to_a_weft_error(
    status: int, body: dict[str, object], reading: bool, expected: type[Exception]
) -> None:
    """Passing problems are temporary (unknown for a reading); all others need a person."""
    error = error_of_answer("create port p", NEUTRON, answer(status, body), reading)
    assert type(error) is expected


@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize("status", [401, 403])
def test_denied_access_is_reported_and_retried(status: int, reading: bool) -> None:
    """Roles are removed and granted again, so it is an alarm and doesn't fail the pod."""
    error = error_of_answer(
        "create port p", NEUTRON, answer(status, {"forbidden": {"message": "no"}}), reading
    )
    assert isinstance(error, TemporaryError) and error.alarming
    assert "clouds.yaml" in error.then or "operating-roles.md" in error.then


@pytest.mark.parametrize(
    "kind",
    [
        "PortInUseAsTrunkParent",
        "PortInUseAsSubPort",
        "RouterExternalGatewayInUseByFloatingIp",
        "RouterInterfaceInUseByRoute",
        "FipAssociated",
        "RouterInUseByVPNService",
        "SubnetInUseByVPNService",
        "SubnetInUseByEndpointGroup",
        "SubnetInUseByIPsecSiteConnection",
    ],
)
def test_blocking_user_of_a_resource_is_named_and_waited_for(kind: str) -> None:
    """A trunk, route, floating IP or VPN service keeps a port, router or subnet until it is removed."""
    body = neutron(kind, "Port 7 is currently a parent port for trunk 8")
    error = error_of_answer("delete port 7", NEUTRON, answer(409, body), False)
    assert isinstance(error, TemporaryError) and "trunk 8" in str(error)


def test_storage_quota_needs_a_person_and_a_rate_limit_does_not() -> None:
    """Cinder and Manila answer 413 where Nova and Neutron answer 403 and 409."""
    body = {"overLimit": {"code": 413, "message": "VolumeSizeExceedsAvailableQuota: exceeds quota"}}
    full = CloudAnswer(413, body, "", "req-1", retry_after="0")
    error = error_of_answer("create volume v", "volume", full, False)
    assert type(error) is PermanentError and "raise the project's quota" in error.then
    limited = error_of_answer("create volume v", "volume", replace(full, retry_after="30"), False)
    assert type(limited) is TemporaryError and limited.delay == 30


def test_too_old_service_error_names_the_needed_version() -> None:
    error = error_of_answer("create a rule", "share", answer(406, {}), False, "2.45")
    assert "weft needs its microversion 2.45" in str(error)


def test_error_names_request_service_answer_id_and_remedy() -> None:
    """In one sentence: request, service, the service's words, request id, and what to do."""
    body = neutron("OverQuota", "Quota exceeded for resources: ['port'].")
    text = str(error_of_answer("create port weft-1-port", NEUTRON, answer(409, body), False))
    assert text == (
        "create port weft-1-port (network at http://neutron.example:9696): HTTP 409 Quota exceeded for resources: "
        "['port'] (request req-1); raise the project's quota or order less"
    )


def test_html_page_is_cut_to_a_sentence() -> None:
    """A proxy's page instead of JSON is quoted in short, on one line."""
    page = "<html>\n<body>\n" + "Bad Gateway " * 100
    text = str(error_of_answer("list ports", NEUTRON, answer(502, {}, text=page), True))
    assert "Bad Gateway" in text
    assert "\n" not in text
    assert len(text) < 400


@pytest.mark.parametrize(
    ("header", "delay"),
    [
        ("7", 7.0),
        (None, 10.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 10.0),
        ("86400", 300.0),
        ("9" * 400, 300.0),
        *((odd, 10.0) for odd in ("inf", "nan", "-1", "1e9", "", "٣")),
    ],
)
def test_retry_after_is_the_delay(header: str | None, delay: float) -> None:
    """In seconds up to five minutes; ten without one, or with text that isn't a number of seconds."""
    limited = CloudAnswer(429, {}, "", "", header)
    error = error_of_answer("create server s", "compute", limited, False)
    assert isinstance(error, TemporaryError)
    assert error.delay == delay


@pytest.fixture
def unreachable_keystone(tmp_path: Path) -> Path:
    """A clouds.yaml whose Keystone is a port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    file = tmp_path / "clouds.yaml"
    file.write_text(
        "clouds:\n  weft:\n    region_name: RegionOne\n    auth:\n"
        f"      auth_url: http://127.0.0.1:{port}/v3\n"
        "      username: weft\n      password: x\n      project_name: service\n"
        "      user_domain_id: default\n      project_domain_id: default\n"
    )
    return file


def test_unreachable_keystone_is_unknown_and_named(unreachable_keystone: Path) -> None:
    """`UnknownError` with the address that didn't answer."""
    sessions = Sessions("weft", [unreachable_keystone])
    with pytest.raises(UnknownError) as error:
        sessions.project("a" * 32).network.listing("list networks", "/networks", "networks")
    assert "keystone at http://127.0.0.1:" in str(error.value)
    with pytest.raises(UnknownError):
        KeystoneIdentity(sessions).check("gAAAA")


def test_deleted_application_credential_of_weft_is_named() -> None:
    """Keystone answers 404 and not 401, and roles have nothing to do with it."""
    answer = NotFound("Could not find Application Credential: 40b366fc13f8449793d2232ed4088395. (HTTP 404)")
    error = error_of_exception("list networks", "network", answer, True)
    assert isinstance(error, UnknownError) and error.alarming
    assert str(error).endswith(
        "will be retried; check auth_url and the application credential in clouds.yaml"
    )


def test_change_prevented_by_keystone_is_temporary(unreachable_keystone: Path) -> None:
    """A change may be tried again; nothing is known about its resource."""
    with pytest.raises(TemporaryError) as error:
        Sessions("weft", [unreachable_keystone]).own().network.ask(
            "create network n", "POST", "/networks", json={}
        )
    assert type(error.value) is TemporaryError


def test_missing_profile_is_reported(unreachable_keystone: Path) -> None:
    """The error names the profiles that exist."""
    with pytest.raises(InputError) as error:
        Sessions("wefft", [unreachable_keystone])
    assert "weft" in str(error.value)


@pytest.mark.parametrize("token", ["", "with\nnewline", "ünïcode"])
def test_impossible_token_is_refused_without_a_request(unreachable_keystone: Path, token: str) -> None:
    """Text that can't be a header; Keystone, which is unreachable here, isn't asked."""
    with pytest.raises(UnauthenticatedError):
        KeystoneIdentity(Sessions("weft", [unreachable_keystone])).check(token)
