"""weft's own certificates for agents and managers, replaced while it runs."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from tests.helpers.stamps import rewrite
from weft.drivers.wire.agents import certificate_problems
from weft.drivers.wire.tlsfiles import RenewedTls
from weft.engine.base.clock import SystemClock
from weft.fabricagent.tls import make_certificates
from weft.model.errors import PermanentError
from weft.model.site import FabricManager


@pytest.fixture
def files(tmp_path: Path) -> FabricManager:
    make_certificates(tmp_path, {}, client="weft")
    make_certificates(tmp_path / "other", {}, client="weft")
    return FabricManager(
        driver="opensm",
        ca=str(tmp_path / "ca.pem"),
        certificate=str(tmp_path / "weft.pem"),
        key=str(tmp_path / "weft.key"),
    )


def test_old_certificate_stays_in_use_until_both_files_of_the_new_one_exist(
    files: FabricManager, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Half of a new pair must not fail requests; it is logged once and reported."""
    now = SystemClock().now()
    tls = RenewedTls(files, "make them")
    first = tls.newest()
    assert tls.newest() is first and certificate_problems(files, now) == []
    shutil.copy(tmp_path / "other" / "weft.pem", tmp_path / "weft.pem")
    assert tls.newest() is first and tls.newest() is first
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "those from before stay in use" in record.getMessage()
    assert "can't be used" in certificate_problems(files, now)[0]
    shutil.copy(tmp_path / "other" / "weft.key", tmp_path / "weft.key")
    assert tls.newest() is not first and certificate_problems(files, now) == []


def test_files_corrected_in_place_are_used(
    files: FabricManager, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Renewed as root, then given to weft's user: the new pair is used as soon as it is readable."""
    tls = RenewedTls(files, "make them")
    first, key = tls.newest(), (tmp_path / "other" / "weft.key").read_bytes()
    shutil.copy(tmp_path / "other" / "weft.pem", tmp_path / "weft.pem")
    (tmp_path / "weft.key").write_bytes(b"x" * len(key))
    assert tls.newest() is first and tls.newest() is first
    rewrite(tmp_path / "weft.key", key)
    second = tls.newest()
    assert second is not first and tls.newest() is second
    assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 1


def test_key_with_a_password_is_refused_at_start(files: FabricManager, tmp_path: Path) -> None:
    """weft doesn't ask for it on the terminal."""
    key = serialization.load_pem_private_key((tmp_path / "weft.key").read_bytes(), None)
    sealed = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    (tmp_path / "weft.key").write_bytes(sealed)
    with pytest.raises(PermanentError, match="make them"):
        RenewedTls(files, "make them").newest()
