"""`fabric-agent certs`: an authority whose key is kept elsewhere is replaced only on request."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from weft.cli.main import main
from weft.fabricagent.tls import make_certificates
from weft.model.errors import InputError

AGENTS = {"osm1": ["10.0.0.1"]}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def is_of(folder: Path, name: str) -> bool:
    """Whether the folder's authority issued the certificate."""
    ca, one = (x509.load_pem_x509_certificate((folder / f"{n}.pem").read_bytes()) for n in ("ca", name))
    try:
        one.verify_directly_issued_by(ca)
    except Exception:
        return False
    return True


@pytest.mark.parametrize("missing", ["ca.key", "ca.pem"])
@pytest.mark.parametrize(("more", "renew"), [({"osm2": ["10.0.0.2"]}, False), ({}, True)])
def test_signing_with_an_authority_without_its_key_is_refused(
    tmp_path: Path, missing: str, more: dict[str, list[str]], renew: bool
) -> None:
    """Nothing is written, so running agents stay reachable."""
    make_certificates(tmp_path, AGENTS)
    (tmp_path / missing).unlink()
    before = files(tmp_path)
    with pytest.raises(InputError, match=f"{missing}.*--new-authority"):
        make_certificates(tmp_path, AGENTS | more, renew=renew)
    assert files(tmp_path) == before


def test_authority_without_its_key_suffices_if_no_certificate_is_missing(tmp_path: Path) -> None:
    make_certificates(tmp_path, AGENTS)
    (tmp_path / "ca.key").unlink()
    assert make_certificates(tmp_path, AGENTS) == []


def test_key_of_another_authority_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_certificates(tmp_path / name, AGENTS)
    (tmp_path / "one/ca.key").write_bytes((tmp_path / "two/ca.key").read_bytes())
    with pytest.raises(InputError, match=r"the elliptic curve key of ca\.pem"):
        make_certificates(tmp_path / "one", AGENTS, renew=True)
    (tmp_path / "one/ca.key").write_text("no key")
    with pytest.raises(InputError, match="in PEM"):
        make_certificates(tmp_path / "one", AGENTS, renew=True)


def test_new_authority_issues_all_certificates(tmp_path: Path) -> None:
    """On request it replaces one whose key is elsewhere."""
    make_certificates(tmp_path, AGENTS)
    old = (tmp_path / "ca.pem").read_bytes()
    (tmp_path / "ca.key").unlink()
    written = {path.name for path in make_certificates(tmp_path, AGENTS, new_authority=True)}
    assert written == {f"{name}.{kind}" for name in ("ca", "agent-osm1", "weft") for kind in ("pem", "key")}
    assert (tmp_path / "ca.pem").read_bytes() != old
    assert is_of(tmp_path, "agent-osm1") and is_of(tmp_path, "weft")


@pytest.mark.parametrize("days", ["0", "61", "-1"])
def test_certificates_are_valid_for_60_days_at_most(
    days: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default is the maximum; for more, nothing is written."""
    words = ["fabric-agent", "certs", "--dir", str(tmp_path / "x"), "--agent", "a=127.0.0.1"]
    assert main([*words, "--days", days]) == 2
    assert "--days" in capsys.readouterr().err and not (tmp_path / "x").exists()
    assert main(words) == 0
    made = x509.load_pem_x509_certificate((tmp_path / "x" / "agent-a.pem").read_bytes())
    assert made.not_valid_after_utc - made.not_valid_before_utc <= timedelta(days=60, minutes=5)


@pytest.mark.parametrize(
    "agent",
    [
        *(
            "sm1=10.0.0.1:8765",
            "sm1=https://sm1:8765",
            "sm1=[fd00::1]",
            "sm1=s\u00fcd.example",
            "sm1=10.0.0.256",
        ),
        *("sm1=", "sm1", "=10.0.0.1", "sm 1=10.0.0.1", "../sm1=10.0.0.1", f"{'a' * 65}=10.0.0.1", "sm1=a..b"),
    ],
)
def test_agent_with_an_unreachable_host_is_refused(
    tmp_path: Path, agent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its certificate would match no URL; nothing is written, not even an authority."""
    assert main(["fabric-agent", "certs", "--dir", str(tmp_path / "tls"), "--agent", agent]) == 2
    assert "--agent: " in (said := capsys.readouterr().err) and said.count("\n") == 1
    assert not (tmp_path / "tls").exists()


@pytest.mark.parametrize(
    "host", ["sm1", "sm1.example.", "fd00::1", "10.0.0.1", "1.sm.example", "SM-1.example"]
)
def test_host_names_and_addresses_are_accepted(tmp_path: Path, host: str) -> None:
    assert make_certificates(tmp_path, {"sm1": [host]})


def test_agent_named_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last address would win, and the agent not be reached at the first."""
    given = ["--agent", "sm1=10.0.0.1", "--agent", "sm1=10.0.0.2"]
    assert main(["fabric-agent", "certs", "--dir", str(tmp_path / "tls"), *given]) == 2
    assert "each agent once" in capsys.readouterr().err


@pytest.mark.parametrize("client", ["ca", "agent-osm1", "../weft", "we ft"])
def test_client_named_like_another_certificate_is_refused(tmp_path: Path, client: str) -> None:
    """`--client ca --renew` would overwrite the authority."""
    make_certificates(tmp_path / "tls", AGENTS)
    before = files(tmp_path / "tls")
    with pytest.raises(InputError, match="--client"):
        make_certificates(tmp_path / "tls", AGENTS, client=client, renew=True)
    assert files(tmp_path / "tls") == before and [p.name for p in tmp_path.iterdir()] == ["tls"]


def test_file_in_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "tls").write_text("x")
    with pytest.raises(InputError, match="--dir"):
        make_certificates(tmp_path / "tls", AGENTS)
