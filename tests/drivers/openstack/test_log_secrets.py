"""weft's processes write no key and no password to their log, at any level."""

from __future__ import annotations

import base64
import logging
from pathlib import Path

import pytest

from tests.drivers.openstack.tinycloud import Reply, tiny_cloud
from weft.app.settings import ServeSettings
from weft.app.wiring import start_log
from weft.drivers.openstack import Sessions
from weft.drivers.openstack.hiding import SECRET_FIELDS
from weft.model.errors import OutsideError


def test_bodies_of_requests_and_answers_are_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Keys in user data, Nova's password of a server, a rescue's password. weft's own lines are there."""
    start_log(ServeSettings(state=tmp_path, log_level="DEBUG"))
    caplog.set_level(logging.DEBUG)
    with tiny_cloud() as (tiny, text):
        file = tmp_path / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        keys = base64.b64encode(b"#cloud-config with the pod's TLS key").decode()
        tiny.lies = [
            ("POST /compute/servers", Reply(202, {"server": {"id": "s", "adminPass": "of-nova"}})),
            ("PUT /baremetal/.*", Reply(202, {})),
        ]
        own = sessions.own()
        own.compute.ask(
            "create server", "POST", "/servers", json={"server": {"name": "c", "user_data": keys}}
        )
        body = {"target": "rescue", "rescue_password": "of-ironic"}
        own.baremetal.ask("rescue", "PUT", "/v1/nodes/x/states/provision", json=body)
        sessions.close()
    logging.getLogger("weft.engine").debug("a line of weft's")
    assert [secret for secret in (keys, "of-nova", "of-ironic") if secret in caplog.text] == []
    assert "a line of weft's" in caplog.text


@pytest.mark.parametrize("field", sorted(SECRET_FIELDS))
@pytest.mark.parametrize("cut", [False, True])
def test_secret_quoted_by_a_service_is_not_repeated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, field: str, cut: bool
) -> None:
    """Nova's schema quotes the refused value, or its beginning; a debug page also quotes the token."""
    caplog.set_level(logging.DEBUG, logger="weft")
    secret = base64.b64encode(b"a key of the pod's controller that only its machine has" * 9).decode()
    with tiny_cloud() as (tiny, text):
        file = tmp_path / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        own = sessions.own()
        own.compute.ask("list servers", "GET", "/servers")
        token = own.compute.signed_in_project()  # the tiny cloud's token
        said = f"Invalid input for field/attribute {field}. Value: {secret[: 300 if cut else None]}. Token {token}."
        for reply in (Reply(400, {"badRequest": {"code": 400, "message": said}}), Reply(500, said)):
            tiny.lies = [("POST /compute/servers", reply)]
            with pytest.raises(OutsideError) as caught:
                own.compute.ask(
                    "create server", "POST", "/servers", json={"server": {"name": "c", field: secret}}
                )
            logged = f"{caught.value} {caught.value.__dict__} {caplog.text}"
            assert secret[:30] not in logged and token not in logged
        sessions.close()
