"""Authentication, and answers that weft must not take for the state of a fabric."""

from __future__ import annotations

import logging
import ssl
import traceback
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.drivers.opensm.rigs import FABRIC, scope
from tests.drivers.ufm.rigs import ADDRESSES, PASSWORD, TOKEN, UfmRig, segment, spec
from weft.drivers.ufm.credentials import UfmCredentials, credentials_problems, read_credentials
from weft.drivers.ufm.rest import Rest
from weft.model.errors import PermanentError, TemporaryError, UnknownError
from weft.model.fabric import ManagerState
from weft.model.problem import ProblemKind
from weft.model.resources import Status
from weft.model.site import FabricManager
from weftlab.ufm import Dialect

KEY = 0x101


@pytest.fixture
def rig(tmp_path: Path) -> UfmRig:
    return UfmRig(tmp_path)


# -- the three prefixes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authentication", "prefix"), [("token", "/ufmRestV3"), ("basic", "/ufmRest"), ("session", "/ufmRestV2")]
)
def test_each_authentication_has_its_url_prefix(tmp_path: Path, authentication: str, prefix: str) -> None:
    """The same life of a segment with each."""
    rig = UfmRig(tmp_path, authentication=authentication)
    wanted = segment(KEY, rig.ports()[:2])
    assert rig.driver.create(scope(), [wanted], {})["partition"].error is None
    paths = [r.url.path for r in rig.sent if r.url.path != "/dologin"]
    assert paths and all(p.startswith(f"{prefix}/") for p in paths)
    assert rig.driver.find(scope(), [wanted], {})["partition"].status is Status.SETTLED
    logins = [r for r in rig.sent if r.url.path == "/dologin"]
    assert len(logins) == (1 if authentication == "session" else 0)


@pytest.mark.parametrize(
    ("expired", "cookie"),
    [("401", "session"), ("redirect", "session"), ("page", "session"), ("401", "TWISTED_SESSION")],
)
def test_expired_session_is_renewed(tmp_path: Path, expired: str, cookie: str) -> None:
    """It is recognized by a status, a redirect, or a login page with 200; the change is made once."""
    dialect = Dialect(expired=expired, cookie=cookie)  # type: ignore[arg-type]
    rig = UfmRig(tmp_path, authentication="session", dialect=dialect)
    rig.driver.configured()
    rig.ufm.access.sessions.clear()
    rig.sent.clear()
    assert rig.driver.configured().numbers == frozenset()
    assert [r.url.path for r in rig.sent].count("/dologin") == 1
    rig.before = lambda r: (
        rig.ufm.access.sessions.clear() if r.method == "PUT" and not rig.methods() else None
    )
    assert rig.driver.create(scope(), [segment(KEY, rig.ports()[:2])], {})["partition"].error is None


@pytest.mark.parametrize("login", ["empty cookie", "401"])
def test_wrong_password_is_reported(tmp_path: Path, login: str) -> None:
    """Also if UFM refuses by an empty cookie; weft doesn't use that for further requests."""
    rig = UfmRig(tmp_path, authentication="session", dialect=Dialect(login=login))  # type: ignore[arg-type]
    rig.write_credentials("username: weft\npassword: wrong\n")
    with pytest.raises(UnknownError, match="access denied") as caught:
        rig.driver.configured()
    assert caught.value.alarming


def test_wrong_token_is_unknown_and_alarming(rig: UfmRig) -> None:
    """Nothing is absent or clean, and the status has the reason. A new file needs no restart."""
    rig.write_credentials("token: wrong-token-of-someone\n")
    with pytest.raises(UnknownError, match="access denied") as caught:
        rig.driver.find(scope(), [segment(KEY, rig.ports()[:2])], {})
    assert caught.value.alarming and "wrong-token" not in str(caught.value)
    status = rig.driver.status()
    assert not status.known and "access denied" in status.managers[0].problems[0]
    rig.write_credentials(f"token: {TOKEN}\n")
    assert rig.driver.status().known


def test_revoked_token_is_reported(rig: UfmRig) -> None:
    rig.driver.configured()
    rig.ufm.set_pkeys(lambda state: setattr(state.tokens[TOKEN], "revoked", True))
    with pytest.raises(UnknownError, match="access denied"):
        rig.driver.configured()


def test_read_only_role_is_reported(tmp_path: Path) -> None:
    """Reading still works; a person must change the role."""
    rig = UfmRig(tmp_path, authentication="basic")
    rig.write_credentials(f"username: reader\npassword: {PASSWORD}\n")
    error = rig.driver.create(scope(), [segment(KEY, rig.ports()[:2])], {})["partition"].error
    assert isinstance(error, PermanentError) and "Fabric Admin" in str(error) and "403" in str(error)
    assert rig.driver.configured().numbers == frozenset()


# -- credentials -------------------------------------------------------------------------------------------------


def test_credentials_are_read_from_the_environment() -> None:
    manager = FabricManager(driver="ufm", addresses=ADDRESSES)
    assert read_credentials(manager, {"WEFT_UFM_TOKEN": " t0ken\n"}).token == "t0ken"
    with pytest.raises(PermanentError, match="WEFT_UFM_TOKEN"):
        read_credentials(manager, {})
    basic = manager.model_copy(update={"authentication": "basic"})
    with pytest.raises(PermanentError, match="WEFT_UFM_PASSWORD"):
        read_credentials(basic, {"WEFT_UFM_USERNAME": "weft"})


@pytest.mark.parametrize("password", ["0012", "no", "2026-13-45", "1e3", "null", "0x1f"])
def test_password_in_a_file_is_read_as_text(rig: UfmRig, password: str) -> None:
    """YAML would read it as a number, a date or false."""
    rig.credentials.write_text(f"username: weft\npassword: {password}\n")
    manager = FabricManager(
        driver="ufm", addresses=ADDRESSES, authentication="basic", credentials=str(rig.credentials)
    )
    assert read_credentials(manager).password == password


@pytest.mark.parametrize(
    "text",
    [
        *("", "- a\n", "token: ''\n", "tokn: x\n", "token: [a]\n", "a: b: secret-c\n"),
        "[" * 5_000,
        "token: secret-c\xff\n",
    ],
)
def test_incomplete_credentials_file_names_what_is_missing(rig: UfmRig, text: str) -> None:
    """Neither the error nor its traceback quotes the file's contents."""
    rig.credentials.write_bytes(text.encode("latin-1"))
    with pytest.raises(PermanentError, match=r"ufm\.yaml") as caught:
        rig.driver.configured()
    assert "secret-c" not in "".join(traceback.format_exception(caught.value))


def test_world_readable_credentials_are_a_problem(rig: UfmRig) -> None:
    manager = rig.site.fabrics[FABRIC].manager
    assert credentials_problems(manager) == []
    rig.credentials.chmod(0o644)
    assert "chmod 600" in credentials_problems(manager)[0]
    assert any("chmod 600" in p for p in rig.driver.status().problems)


def test_secrets_are_in_no_repr_error_or_log(rig: UfmRig, caplog: pytest.LogCaptureFixture) -> None:
    """Also if an error quotes UFM's answer."""
    own = UfmCredentials("t0ken", "weft", "pa55word")
    assert "t0ken" not in repr(own) and "pa55word" not in repr(own)
    caplog.set_level(logging.DEBUG)
    rig.ufm.plant({"statuses": [], "texts": [f"you sent {TOKEN}, didn't you"]})
    with pytest.raises(UnknownError, match=r"you sent \(secret\)"):
        rig.driver.configured()
    rig.driver.create(scope(), [segment(KEY, rig.ports()[:2])], {})
    assert TOKEN not in caplog.text


def test_tls_is_verified(tmp_path: Path) -> None:
    """By the site's authority or the host's; a name that doesn't fit is refused too."""
    rest = Rest(FABRIC, FabricManager(driver="ufm", addresses=ADDRESSES))
    context = rest._tls.newest()  # pyright: ignore[reportPrivateUsage]
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    missing = FabricManager(driver="ufm", addresses=ADDRESSES, ca=str(tmp_path / "nothing.pem"))
    with pytest.raises(PermanentError, match=r"nothing\.pem"):
        Rest(FABRIC, missing)._tls.newest()  # pyright: ignore[reportPrivateUsage]


# -- malformed answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "503 Service Temporarily Unavailable",
        "<html>maintenance</html>",
        "",
        "null",
        "7",
        '"a text"',
        '["0x5"]',
        "{}",
    ],
)
def test_unexpected_body_with_status_200_is_unknown(rig: UfmRig, text: str) -> None:
    """A page, nothing, another shape, a listing without the default partition: not an empty fabric."""
    rig.ufm.plant({"texts": [text]})
    with pytest.raises(UnknownError):
        rig.driver.configured()


def test_error_401_as_text_with_200_is_unknown(rig: UfmRig) -> None:
    """As UFM's own clients check. One such answer is repeated; if it persists, access is denied."""
    rig.ufm.plant({"texts": ["error 401"]})
    assert rig.driver.configured().numbers == frozenset()
    rig.ufm.plant({"texts": ["error 401"] * 2})
    with pytest.raises(UnknownError, match="access denied"):
        rig.driver.configured()


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429, 302])
def test_server_error_is_unknown(rig: UfmRig, status: int) -> None:
    wanted = segment(KEY, rig.ports()[:2])
    rig.driver.create(scope(), [wanted], {})
    rig.ufm.plant({"statuses": [status] * 4})
    with pytest.raises(UnknownError):
        rig.driver.find(scope(), [wanted], {})
    rig.ufm.plant({"statuses": []})
    assert rig.driver.find(scope(), [wanted], {})["partition"].status is Status.SETTLED


@pytest.mark.parametrize("fields", [("guids",), ("partition", "ip_over_ib")])
def test_partition_without_its_members_is_unknown(rig: UfmRig, fields: tuple[str, ...]) -> None:
    """As if both arguments were given: a missing list isn't an empty one. Other fields may be missing."""
    wanted = segment(KEY, rig.ports()[:2])
    rig.driver.create(scope(), [wanted], {})
    rig.ufm.plant({"drop_gets": fields})
    if "guids" in fields:
        with pytest.raises(UnknownError, match="without its list of members"):
            rig.driver.snapshot()
    else:
        assert rig.driver.find(scope(), [wanted], {})["partition"].status is Status.SETTLED


def test_exclusive_arguments_are_never_sent_together(rig: UfmRig) -> None:
    """Together they hide all GUIDs of the list (seen on 6.19.0 and 6.21.0, and in the stand-in)."""
    rig.driver.create(scope(), [segment(KEY, rig.ports()[:2])], {})
    rig.driver.snapshot()
    rig.driver.status()
    assert not [r for r in rig.sent if "qos_conf" in str(r.url)]
    both = rig.driver.rest.get("/resources/pkeys", guids_data="true", qos_conf="true")
    assert "guids" not in both["0x101"] and "guids" in rig.driver.rest.get(
        "/resources/pkeys/0x101", guids_data="true", qos_conf="true"
    )


def test_listing_without_the_default_partition_is_unknown(rig: UfmRig) -> None:
    rig.ufm.plant({"without_default": True})
    with pytest.raises(UnknownError, match="without the default one"):
        rig.driver.configured()


# -- high availability -------------------------------------------------------------------------------------------


def test_second_address_is_used_when_the_first_is_gone(rig: UfmRig) -> None:
    """It stays the first to be asked, and the status shows which is active."""
    wanted = segment(KEY, rig.ports()[:2])
    rig.driver.create(scope(), [wanted], {})
    rig.active = ADDRESSES[1]
    rig.ufm.failover()
    assert rig.driver.find(scope(), [wanted], {})["partition"].status is Status.SETTLED
    states = {m.name: m.state for m in rig.driver.status().managers}
    assert states == {"ufm1.lab": ManagerState.STANDBY, "ufm2.lab": ManagerState.MASTER}


STANDBYS = [
    (404, "<html>Not Found</html>"),
    (404, "{}"),
    (200, "<html>It works!</html>"),
    (200, "{}"),
    (200, "[]"),
    (302, ""),
    (401, "Unauthorized"),
    (403, "Forbidden"),
    (500, "Internal Server Error"),
]
"""What a web server answers on a node whose UFM doesn't run."""


@pytest.mark.parametrize("standby", STANDBYS, ids=str)
@pytest.mark.parametrize("authentication", ["token", "session"])
def test_standby_web_server_is_skipped(tmp_path: Path, standby: tuple[int, str], authentication: str) -> None:
    """UFM is recognized by its version. The first address is a node without UFM, from the start or after a failover."""
    rig = UfmRig(tmp_path, authentication=authentication)
    rig.standby, rig.active = standby, ADDRESSES[1]
    wanted = segment(KEY, rig.ports()[:2])
    assert rig.driver.create(scope(), [wanted], {})["partition"].error is None
    assert rig.driver.find(scope(), [wanted], {})["partition"].status is Status.SETTLED
    rig.active = ADDRESSES[0]
    rig.ufm.failover()
    assert rig.driver.find(scope(), [wanted], {})["partition"].status is Status.SETTLED
    states = {m.name: m.state for m in rig.driver.status().managers}
    assert states == {"ufm1.lab": ManagerState.MASTER, "ufm2.lab": ManagerState.STANDBY}
    rig.active = ADDRESSES[1]
    rig.ufm.failover()
    rig.driver.delete(scope(), [wanted], {})
    assert KEY not in rig.ufm.pkeys
    assert rig.driver.find(scope(), [wanted], {})["partition"].status is Status.ABSENT


@pytest.mark.parametrize("standby", STANDBYS, ids=str)
def test_web_server_without_ufm_proves_nothing(tmp_path: Path, standby: tuple[int, str]) -> None:
    """Its 404 is no absence, and a deletion that it answers isn't done."""
    rig = UfmRig(tmp_path)
    wanted = segment(KEY, rig.ports()[:2])
    rig.driver.create(scope(), [wanted], {})
    before = rig.driver.snapshot()

    def dies(request: httpx.Request) -> None:
        """UFM ends after the listing was read and before the deletion."""
        if request.method == "DELETE":
            rig.active = ""
            raise httpx.ConnectError("Connection refused", request=request)

    rig.standby, rig.before = standby, dies
    with pytest.raises(UnknownError):
        rig.driver.delete(scope(), [wanted], {})
    assert KEY in rig.ufm.pkeys and rig.active == ""
    for ask in (rig.driver.snapshot, lambda: rig.driver.clean(spec(wanted), before)):
        with pytest.raises(UnknownError):
            ask()
    assert not rig.driver.status().known


def test_new_session_begins_at_the_other_address(tmp_path: Path) -> None:
    rig = UfmRig(tmp_path, authentication="session")
    rig.driver.configured()
    rig.active = ADDRESSES[1]
    rig.ufm.failover()
    assert rig.driver.configured().numbers == frozenset()


def test_silent_addresses_are_unknown(rig: UfmRig) -> None:
    """UFM restarts: refused, then 502 for a while. Meanwhile nothing is absent or clean."""
    wanted = segment(KEY, rig.ports()[:2])
    rig.driver.create(scope(), [wanted], {})
    rig.active = ""
    with pytest.raises(UnknownError, match="refused"):
        rig.driver.find(scope(), [wanted], {})
    with pytest.raises(UnknownError):
        rig.driver.delete(scope(), [wanted], {})
    assert not rig.driver.status().known
    rig.active = ADDRESSES[0]
    rig.ufm.plant({"starting": True})
    with pytest.raises(UnknownError, match="502"):
        rig.driver.configured()
    rig.ufm.plant({"starting": False})
    rig.ufm.restart()
    assert rig.driver.find(scope(), [wanted], {})["partition"].status is Status.SETTLED


def test_failover_to_an_old_copy_is_detected_and_repaired(rig: UfmRig) -> None:
    """A later partition is missing, and an update creates it again; a released one that came back is a stray."""
    old, new = segment(KEY, rig.ports()[:2]), segment(KEY + 1, rig.ports()[2:4])
    rig.driver.create(scope(), [old], {})
    rig.ufm.stop_replication()
    rig.driver.delete(scope(), [old], {})
    rig.driver.create(scope(2), [new], {})
    rig.active = ADDRESSES[1]
    rig.ufm.failover()
    assert rig.driver.find(scope(2), [new], {})["partition"].status is not Status.SETTLED
    kinds = {p.kind for p in rig.driver.check(spec(new), rig.driver.snapshot()).problems}
    assert ProblemKind.NOT_MEMBER in kinds
    assert [(m.id, m.owner is None) for m in rig.driver.marked("lab", [])] == [("0x101", True)]
    assert rig.driver.find(scope(), [old], {})["partition"].there
    rig.driver.update(scope(2), [new], {})
    assert rig.driver.find(scope(2), [new], {})["partition"].status is Status.SETTLED


def test_change_is_not_sent_twice_after_a_lost_answer(rig: UfmRig) -> None:
    """The first address accepted it and fell silent: the other one is only read."""
    rig.driver.configured()
    rig.sent.clear()
    rig.ufm.plant({"lose_answers": 1})
    rig.driver.create(scope(), [segment(KEY, rig.ports()[:2])], {})
    assert rig.methods() == ["PUT /ufmRestV3/resources/pkeys/"]


def test_fence_is_checked_before_every_change(rig: UfmRig) -> None:
    """A worker that lost its pod sends nothing."""

    def lost() -> None:
        raise TemporaryError("go on", "the database", "another worker has the pod")

    with pytest.raises(TemporaryError, match="another worker"):
        rig.driver.create(replace(scope(), fence=lost), [segment(KEY, rig.ports()[:2])], {})
    assert rig.methods() == []


@pytest.mark.parametrize("authentication", ["token", "session"])
def test_fence_is_checked_again_for_the_second_address(tmp_path: Path, authentication: str) -> None:
    """The worker loses its pod while it finds the first address gone and signs in at the second."""
    rig = UfmRig(tmp_path, authentication=authentication)
    rig.driver.configured()
    rig.sent.clear()
    passed: list[str] = []

    def once() -> None:
        if passed:
            raise TemporaryError("go on", "the database", "another worker has the pod")
        passed.append("it holds")
        rig.active = ADDRESSES[1]
        rig.ufm.failover()

    with pytest.raises(TemporaryError, match="another worker"):
        rig.driver.create(replace(scope(), fence=once), [segment(KEY, rig.ports()[:2])], {})
    assert passed and not [sent for sent in rig.methods() if sent.startswith("PUT")]
    assert KEY not in rig.ufm.pkeys
