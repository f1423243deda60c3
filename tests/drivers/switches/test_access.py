"""Access to a switch: passwords, certificates, and that no password is shown."""

from __future__ import annotations

import base64
import json
import logging
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.drivers.switches.onefront import One, ordered
from tests.drivers.switches.rigs import scope
from weft.drivers.switches import access, open_fabric
from weft.drivers.switches.access import credentials_for
from weft.fabricagent.tls import make_certificates
from weft.model.errors import OutsideError, PermanentError, UnknownError
from weft.ports.ledger import NoLedger
from weftlab.site import FABRIC
from weftlab.switches import leaf_spine
from weftlab.switches.front import PASSWORD, USER, Faults
from weftlab.switches.fronts import Fronts
from weftlab.switches.site import ethernet_site


def test_new_password_and_authority_take_effect_at_once(one: One, tmp_path: Path) -> None:
    """While weft runs."""
    one.session.read()
    right, ca = one.fronts.credentials.read_text(), one.fronts.ca.read_text()
    one.fronts.credentials.write_text(right.replace(PASSWORD, "another"))
    with pytest.raises(UnknownError, match="access denied"):
        one.session.read()
    one.fronts.credentials.write_text(right)
    one.session.read()
    make_certificates(tmp_path / "other", {"switches": ["127.0.0.1"]})
    one.fronts.ca.write_text((tmp_path / "other" / "ca.pem").read_text())
    with pytest.raises(UnknownError, match="certificate"):
        one.session.read()
    one.fronts.ca.write_text(ca)
    assert one.untagged(0) is None


def test_wrong_password_or_certificate_is_refused(one: One, tmp_path: Path) -> None:
    """The switch's state is unknown then, and no error contains the password."""
    one.fronts.credentials.write_text('{"default": {"user": "weft", "password": "not-it-secret"}}')
    other = tmp_path / "other"
    strange = Fronts(other, leaf_spine("eos", leaves=1, spines=1, hosts_each=3), None)
    try:
        plan = leaf_spine(one.front.plan.speaks, leaves=1, spines=1, hosts_each=3)
        for ca, credentials in ((one.fronts.ca, one.fronts.credentials), (strange.ca, strange.credentials)):
            fabric = open_fabric(ethernet_site(plan, one.fronts.urls, ca, credentials), FABRIC, NoLedger())
            with pytest.raises(UnknownError) as caught:
                fabric.session("leaf1").read()
            assert "secret" not in str(caught.value) and PASSWORD not in str(caught.value)
            fabric.close()
    finally:
        strange.close()


def test_world_readable_credentials_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "switches.json"
    path.write_text('{"leaf1": {"user": "a", "password": "hidden"}}')
    path.chmod(0o644)
    with pytest.raises(PermanentError, match="others than its owner"):
        credentials_for("leaf1", str(path))
    path.chmod(0o600)
    assert credentials_for("leaf1", str(path)).user == "a"
    assert "hidden" not in repr(credentials_for("leaf1", str(path)))
    with pytest.raises(PermanentError) as caught:
        credentials_for("leaf2", str(path))
    assert "hidden" not in str(caught.value)
    with pytest.raises(PermanentError, match="WEFT_SWITCH_USER"):
        credentials_for("leaf1", None, {})


@pytest.mark.parametrize("wrong", [12345678, None, ["hidden"]])
@pytest.mark.parametrize("field", ["user", "password", "secret"])
def test_non_string_credentials_are_reported(tmp_path: Path, field: str, wrong: object) -> None:
    """A password of digits without quotes is refused before any request."""
    path = tmp_path / "switches.json"
    path.touch(0o600)
    path.write_text(json.dumps({"default": {"user": "a", "password": "b", field: wrong}}))
    with pytest.raises(PermanentError, match="user and password as strings") as caught:
        credentials_for("leaf1", str(path))
    assert not any(secret in str(caught.value) for secret in ("12345678", "hidden"))


def test_password_is_in_no_log_and_no_error(one: One, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever fails, with the libraries' debug logs."""
    caplog.set_level(logging.DEBUG)
    _, wanted = ordered(one, 0)
    said = [repr(one.session.__dict__), repr(access.credentials_for("leaf1", str(one.fronts.credentials)))]

    def noted(change: Callable[[], object]) -> None:
        try:
            said.append(repr(change()))
        except OutsideError as error:
            said.extend(traceback.format_exception(error))

    right = one.fronts.credentials.read_text()
    for fault in ({"refuse_save": True}, {"late": "."}, {"mute": "POST|PATCH"}, {"down": True}, {}):
        one.front.faults = Faults(**fault)  # type: ignore[arg-type]
        noted(lambda: one.fabric.create(scope(), [wanted], {}))
        noted(lambda: one.fabric.snapshot().__dict__)
        noted(lambda: one.fabric.delete(scope(), [wanted], {}))
    for wrong in (
        right.replace(PASSWORD, f"not-{PASSWORD}"),
        right.replace("password", "passwort"),
        f"{right}]",
    ):
        one.fronts.credentials.write_text(wrong)
        noted(one.session.read)
    caught = "\n".join((*said, caplog.text))
    assert "no answer" in caught and "access denied" in caught and "can't be read" in caught
    basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    assert PASSWORD not in caught and basic not in caught
