"""Database URLs: ambiguous ones are refused, and no error shows a part of a password."""

from __future__ import annotations

import pytest

from weft.cli.main import main
from weft.config.databaseurl import check_database_url
from weft.model.errors import InputError

CANARY = "canary-7"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://weft:a@b{}@host/weft",
        "postgresql://weft:a/{}@host/weft",
        "postgresql://weft:a:{}@host/weft",
        "postgresql://weft:a?{}@host/weft",
        "postgresql://weft:a#{}@host/weft",
        "postgresql://weft:a[{}@host/weft",
        "postgresql://weft:{}@[::1/weft",
        "postgresql://weft:{}@host:port/weft",
        "postgresql://weft:%{}@host/weft",
        "postgresql://weft:%ff{}@host/weft",
        "postgresql://weft:%0a{}@host/weft",
        "postgresql://host/weft?{}",
    ],
)
def test_unescaped_password_is_refused_without_showing_it(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """libpq would take the rest of the password for a host and print it."""
    code = main(["serve", "--database", url.format(CANARY)])
    said = "".join(capsys.readouterr())
    assert code == 2 and CANARY not in said and "write @ as %40" in said


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://weft@db/weft",
        "postgresql://weft:s3cr%40t$HOME@db.example/weft?target_session_attrs=read-write",
        "postgresql://weft:x@[::1]:5432,db2.example:5433/weft?application_name=a%20b&connect_timeout=3",
        "postgresql:///weft?host=/run/postgresql",
        "postgresql://db?user=weft&password=x",
        "mysql+pymysql://neutron:x@db/neutron?charset=utf8",
    ],
)
def test_unambiguous_url_is_accepted(url: str) -> None:
    check_database_url("--database", url, "postgresql://user@host/weft")


def test_neutrons_database_url_is_checked_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    from weft.app.neutronjournal import database_url

    file = tmp_path_factory.mktemp("neutron") / "neutron.conf"
    file.write_text(f"[database]\nconnection = mysql+pymysql://neutron:a@{CANARY}@host/neutron\n")
    with pytest.raises(InputError) as caught:
        database_url(file)
    assert CANARY not in str(caught.value)
