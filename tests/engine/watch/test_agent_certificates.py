"""Workers renew certificates of agents that serve for real, and their own, while these are valid."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography import x509
from prometheus_client import CollectorRegistry, generate_latest

from tests.helpers.agedcertificates import aged, certificate
from tests.helpers.smallsite import small_site
from weft.app.certificatekeeper import CertificateKeeper
from weft.app.certificatemetrics import CertificateCollector, agent_certificates
from weft.app.doctor import agents as doctor
from weft.app.settings import ServeSettings
from weft.drivers.wire.agentcertificates import CertificateClient
from weft.engine.base.database import Database
from weft.engine.base.gate import ClosedError
from weft.engine.store.agentcertificates import AgentCertificates, SeenCertificate
from weft.engine.store.store import Store
from weft.fabricagent import issuing, renewal
from weft.fabricagent.config import Listen, Tls
from weft.fabricagent.server import Server
from weft.fabricagent.tls import make_certificates
from weft.model.errors import UnknownError
from weft.model.messages.certificates import CERTIFICATE_VALID
from weft.model.probeapi import ProbeStatus
from weft.model.site import ProbeAgent, Site, Traffic
from weft.probeagent.cli import ROUTES
from weft.probeagent.config import ProbeConfig
from weft.testing.serving import free_port

HOSTS = {"p1": ["127.0.0.1"]}


class Rig:
    """A probe agent's own server, weft's files, and workers over one database."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder, self.database = folder, database
        self.agent, self.weft = folder / "agent", folder / "weft"
        aged(folder, HOSTS)
        self.share()
        self.key: Path | None = folder / "ca.key"
        self.config = ProbeConfig(
            name="p1",
            listen=Listen(host="127.0.0.1", port=free_port()),
            tls=Tls(
                ca=self.agent / "ca.pem", certificate=self.agent / "agent.pem", key=self.agent / "agent.key"
            ),
        )
        site = small_site()
        traffic = Traffic(
            agents=(
                ProbeAgent(name="p1", url=f"https://127.0.0.1:{self.config.listen.port}", nodes=("gpu01",)),
            ),
            ca=str(self.weft / "ca.pem"),
            certificate=str(self.weft / "weft.pem"),
            key=str(self.weft / "weft.key"),
        )
        self.traffic = traffic
        fabrics = {
            name: one.model_copy(
                update={"traffic": traffic, "manager": one.manager.model_copy(update={"agents": ()})}
            )
            for name, one in site.fabrics.items()
        }
        self.site: Site = site.model_copy(update={"fabrics": fabrics})
        self.start()

    def share(self) -> None:
        """Copy the files to where they are used, as an operator does."""
        for to, name in ((self.agent, "agent-p1"), (self.weft, "weft")):
            to.mkdir(exist_ok=True)
            shutil.copy(self.folder / "ca.pem", to)
            for kind in ("pem", "key"):
                here = to / f"{'agent' if to == self.agent else 'weft'}.{kind}"
                here.unlink(missing_ok=True)
                shutil.copy(self.folder / f"{name}.{kind}", here)

    def start(self) -> None:
        class Agent:
            def status(self) -> ProbeStatus:
                return ProbeStatus(name="p1")

        self.server = Server(self.config, Agent(), routes=ROUTES)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def keeper(self) -> CertificateKeeper:
        return CertificateKeeper(Store(self.database), lambda: self.site, self.key)

    def rows(self) -> dict[str, SeenCertificate]:
        return {row.kind: row for row in AgentCertificates(self.database).list()}

    def tend(self) -> str:
        """A turn of a worker, when all is due; code of the agent's state."""
        with psycopg.connect(self.database.url) as connection:
            connection.execute("UPDATE agent_certificate SET next_at = now()")
        self.keeper().tend()
        return self.rows()["agent"].code

    def later(self, span: timedelta) -> None:
        """Let the last issue be so much longer ago."""
        with psycopg.connect(self.database.url) as connection:
            connection.execute("UPDATE agent_certificate SET issued_at = issued_at - %s", (span,))

    def issued(self) -> int:
        with psycopg.connect(self.database.url) as connection:
            row = connection.execute(
                "SELECT count(*) FROM issued_certificate WHERE kind = 'agent'"
            ).fetchone()
        return row[0] if row else 0


@pytest.fixture
def rig(tmp_path: Path, database: Database) -> Generator[Rig]:
    made = Rig(tmp_path, database)
    yield made
    made.stop()


def test_agents_and_own_certificates_are_renewed_without_a_restart(rig: Rig) -> None:
    old, own = certificate(rig.agent / "agent.pem"), certificate(rig.weft / "weft.pem")
    assert rig.tend() == "CERTIFICATE_VALID"
    new, row = certificate(rig.agent / "agent.pem"), rig.rows()["agent"]
    assert new.not_valid_after_utc - old.not_valid_after_utc > timedelta(days=39)
    assert row.serial == f"{new.serial_number:x}" and row.not_after == new.not_valid_after_utc.replace()
    assert certificate(rig.weft / "weft.pem").serial_number != own.serial_number
    assert rig.rows()["own"].agent.endswith(f":{rig.weft}/weft.pem") and rig.issued() == 1
    assert rig.tend() == "CERTIFICATE_VALID" and rig.issued() == 1, "not before it is due again"
    client = CertificateClient(rig.traffic.agents[0], rig.traffic, "probe agent")
    assert client.look().serial_number == new.serial_number
    client.close()


def test_without_the_authoritys_key_nothing_is_renewed_and_the_agent_is_late_in_time(rig: Rig) -> None:
    before, rig.key = (rig.agent / "agent.pem").read_bytes(), None
    assert rig.tend() == "AUTHORITY_OFFLINE" and rig.issued() == 0
    assert (rig.agent / "agent.pem").read_bytes() == before
    assert rig.rows()["own"].code == "AUTHORITY_OFFLINE"
    row, now = rig.rows()["agent"], AgentCertificates(rig.database).now()
    assert row.is_late(now) and not row.is_late(now - timedelta(days=11))


def test_key_that_others_can_read_or_of_another_authority_signs_nothing(rig: Rig, tmp_path: Path) -> None:
    assert rig.key is not None
    rig.key.chmod(0o644)
    assert rig.tend() == "AUTHORITY_UNUSABLE"
    make_certificates(tmp_path / "other", HOSTS)
    rig.key = tmp_path / "other/ca.key"
    assert rig.tend() == "AUTHORITY_OF_OTHERS" and rig.issued() == 0


def test_old_certificate_is_refused_after_its_renewal(rig: Rig, tmp_path: Path) -> None:
    """A host with a copy of the old pair answers in the agent's place: no certificate is signed, and the state says so.
    A pair that an operator makes by hand is newer, and accepted."""
    stolen = {name: (rig.agent / name).read_bytes() for name in ("agent.pem", "agent.key")}
    assert rig.tend() == "CERTIFICATE_VALID"
    known = rig.rows()["agent"].serial
    rig.later(timedelta(days=1))
    for name, text in stolen.items():
        (rig.agent / name).write_bytes(text)
    assert rig.tend() == "CERTIFICATE_SUPERSEDED" and rig.tend() == "CERTIFICATE_SUPERSEDED"
    assert rig.issued() == 1 and rig.rows()["agent"].serial == known
    make_certificates(rig.folder, HOSTS, renew=True)
    rig.share()
    assert rig.tend() == "CERTIFICATE_VALID" and rig.rows()["agent"].serial != known


def test_two_workers_at_once_sign_one(rig: Rig) -> None:
    keepers = [rig.keeper() for _ in range(4)]
    threads = [threading.Thread(target=keeper.tend) for keeper in keepers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rig.rows()["agent"].code == "CERTIFICATE_VALID" and rig.issued() == 1


def test_answer_lost_after_the_signature_is_repeated_an_hour_later(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the agent died before it had the certificate or weft before it could send it: the old pair serves on."""

    def lost(self: CertificateClient, issued: object) -> object:
        raise UnknownError("PUT certificate", "p1", "the connection was reset")

    with monkeypatch.context() as patch:
        patch.setattr(CertificateClient, "install", lost)
        assert rig.tend() == "RENEWAL_FAILED" and rig.issued() == 1
    rig.stop()
    rig.start()
    assert rig.tend() == "RENEWAL_REFUSED" and rig.issued() == 1, "not twice within an hour"
    rig.later(timedelta(hours=1))
    assert rig.tend() == "CERTIFICATE_VALID" and rig.issued() == 2


def test_agent_killed_between_key_and_certificate_is_asked_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = CertificateClient.request

    def killed(self: CertificateClient) -> Any:
        found = real(self)
        self.close()
        rig.stop()
        rig.start()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(CertificateClient, "request", killed)
        assert rig.tend() == "RENEWAL_FAILED"
    assert "newest request" in rig.rows()["agent"].message
    rig.later(timedelta(hours=1))
    assert rig.tend() == "CERTIFICATE_VALID"


def test_host_that_requests_a_certificate_of_another_name_is_refused(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = issuing.request_for

    def other(current: Any, key: Any) -> str:
        make_certificates(rig.folder / "x", {"p2": ["127.0.0.2"]})
        return real(certificate(rig.folder / "x/agent-p2.pem"), key)

    monkeypatch.setattr(renewal, "request_for", other)
    assert rig.tend() == "RENEWAL_REFUSED" and rig.issued() == 0
    assert "other names" in rig.rows()["agent"].message


def test_agent_whose_answer_cannot_be_read_is_unseen(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state doesn't stay what it was, and the turn doesn't fail."""
    rig.tend()
    rig.later(timedelta(hours=2))

    def odd(self: CertificateClient) -> Any:
        raise x509.InvalidVersion("5 is not a valid CSR version", 5)

    monkeypatch.setattr(CertificateClient, "look", odd)
    assert rig.tend() == "CERTIFICATE_UNSEEN"


def test_expired_and_silent_agents_are_named(rig: Rig) -> None:
    aged(rig.folder, HOSTS, left=-1, renew=True)
    for kind in ("pem", "key"):
        shutil.copy(rig.folder / f"agent-p1.{kind}", rig.agent / f"agent.{kind}")
    assert rig.tend() == "CERTIFICATE_EXPIRED" and rig.issued() == 0
    rig.stop()
    try:
        assert rig.tend() == "CERTIFICATE_UNSEEN"
    finally:
        rig.start()


def test_older_agent_and_restored_database_change_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent without the route serves on; while the gate is closed weft only looks."""
    before = (rig.agent / "agent.pem").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(rig.server, "routes", ROUTES)
        assert rig.tend() == "RENEWAL_UNSUPPORTED"
    closed = ClosedError.__new__(ClosedError)
    monkeypatch.setattr(rig.database.gate, "closed", lambda clouds: closed)
    assert rig.tend() == "RENEWAL_STOPPED" and rig.issued() == 0
    assert (rig.agent / "agent.pem").read_bytes() == before


def test_doctor_names_certificates_that_end_and_what_renews_them(rig: Rig, tmp_path: Path) -> None:
    """Those of probe agents, too; as the agent answers now, whatever the database remembers."""

    def codes(key: Path | None) -> list[str]:
        settings = ServeSettings(state=tmp_path, authority_key=key)
        found = (*doctor.certificates(rig.site, 10.0), *doctor.renewal(rig.site, settings))
        return [one.code for one in found]

    assert codes(None) == ["AGENT_CERTIFICATE_ENDS", "RENEWAL_BY_HAND"]
    [finding, *_] = doctor.certificates(rig.site, 10.0)
    assert finding.of == "probe agent p1" and "in 19 days" in finding.what
    assert rig.tend() == "CERTIFICATE_VALID"
    assert codes(rig.key) == ["AGENT_CERTIFICATES_VALID", "RENEWAL_ON"]
    make_certificates(tmp_path / "other", HOSTS)
    assert codes(tmp_path / "other/ca.key")[-1] == codes(tmp_path / "nosuch")[-1] == "RENEWAL_UNUSABLE"
    for left, code in ((3, "AGENT_CERTIFICATE_URGENT"), (-1, "AGENT_CERTIFICATE_EXPIRED")):
        aged(rig.folder, HOSTS, left=left, renew=True)
        for kind in ("pem", "key"):
            shutil.copy(rig.folder / f"agent-p1.{kind}", rig.agent / f"agent.{kind}")
        assert codes(rig.key)[0] == code
    rig.stop()
    try:
        assert codes(rig.key)[0] == "AGENT_CERTIFICATE_UNSEEN"
    finally:
        rig.start()


def test_metrics_have_the_end_of_agents_certificates_and_what_is_not_renewed(rig: Rig) -> None:
    """No host's name: who scrapes needs no token."""
    rig.key = None
    rig.tend()
    registry = CollectorRegistry()
    registry.register(CertificateCollector(dict, lambda: agent_certificates(Store(rig.database))))
    named = {"certificate": "agent", "fabric": "ib", "agent": "p1"}
    end = registry.get_sample_value("weft_certificate_not_after_seconds", named)
    assert end == int(certificate(rig.agent / "agent.pem").not_valid_after_utc.timestamp())
    assert registry.get_sample_value("weft_certificates_unrenewed", {"code": "AUTHORITY_OFFLINE"}) == 2
    assert (
        "pki" not in generate_latest(registry).decode()
        and str(rig.weft) not in generate_latest(registry).decode()
    )


def test_agent_without_a_place_in_the_site_is_forgotten(rig: Rig) -> None:
    rig.tend()
    fabrics = {name: one.model_copy(update={"traffic": None}) for name, one in rig.site.fabrics.items()}
    rig.site = rig.site.model_copy(update={"fabrics": fabrics})
    rig.keeper().tend()
    assert set(rig.rows()) == {"own"}


def test_own_certificate_that_no_worker_looks_at_is_forgotten(rig: Rig) -> None:
    """The certificate of a host that was taken away, or a file that the site named once: no alert stays for it."""
    own = AgentCertificates(rig.database)
    names = ("kept:/etc/weft/pki/weft.pem", "gone:/etc/weft/pki/weft.pem", "unread:/nowhere/weft.pem")
    for name in names:
        row = own.own("ib", name)
        if not name.startswith("unread"):
            end = own.now() + timedelta(days=2)
            own.note(row, CERTIFICATE_VALID(until=end), timedelta(hours=6), ("1", end - timedelta(60), end))
    with psycopg.connect(rig.database.url) as connection:
        connection.execute(
            "UPDATE agent_certificate SET next_at = now() - interval '3 days' WHERE agent NOT LIKE 'kept%'"
        )
    rig.keeper().tend()
    assert {row.agent for row in own.list()} & {*names} == {names[0]}
    assert rig.rows()["own"].seen_at is not None, "its own is there"
