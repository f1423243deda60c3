"""`weft doctor`: its findings about databases, clouds and hosts that are sound, misconfigured, silent or
unreachable."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import psycopg
import pytest

from tests.drivers.openstack.tinycloud import Reply, TinyCloud, tiny_cloud
from tests.helpers.paths import DOCS
from tests.helpers.smallsite import small_site
from weft.app.doctor.bounds import DoctorCheck, carried_out
from weft.app.doctor.cloud import _tls  # pyright: ignore[reportPrivateUsage]
from weft.app.doctor.examination import examine
from weft.app.doctor.findings import CODES, DoctorFinding, DoctorLevel, finding
from weft.app.doctor.host import _modes  # pyright: ignore[reportPrivateUsage]
from weft.app.settings import ServeSettings
from weft.cli.main import main
from weft.config.resolve import resolve
from weft.drivers.openstack.reach import _ahead, _version  # pyright: ignore[reportPrivateUsage]
from weft.engine.base import schema
from weft.engine.base.database import Database
from weft.engine.base.embedded import running_in
from weft.engine.store.store import Store
from weft.fabricagent.tls import make_certificates
from weft.model.errors import InputErrors

CANARY = "canary7"
TOKEN = {
    "token": {
        "expires_at": "2999-01-01T00:00:00Z",
        "user": {"id": "u", "name": "weft", "domain": {"id": "default", "name": "Default"}},
        "project": {"id": "p", "name": "service", "domain": {"id": "default", "name": "Default"}},
        "roles": [{"id": "r1", "name": "service"}, {"id": "r2", "name": "weft"}],
    }
}
VALID = ("GET /v3/auth/tokens", Reply(200, TOKEN))
SECONDS = 8.0


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TinyCloud]:
    """A cloud that gives weft its roles, and the environment of a process that uses it."""
    for name in [name for name in os.environ if name.startswith(("OS_", "WEFT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    with tiny_cloud() as (tiny, text):
        file = tmp_path / "clouds.yaml"
        file.write_text(text)
        file.chmod(0o600)
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(file))
        tiny.served, tiny.lies = {"team-a"}, [VALID]
        tiny.things["networks"] = [{"id": "n", "name": "n", "provider:network_type": "vlan"}]
        yield tiny


def settings(folder: Path, database: str | None) -> ServeSettings:
    return ServeSettings(state=folder / "state", database=database, cloud_profile="weft")


def by_place(findings: list[DoctorFinding]) -> Mapping[str, list[str]]:
    """The codes by what was looked at."""
    found: dict[str, list[str]] = {}
    for one in findings:
        found.setdefault(one.of, []).append(one.code)
    return found


def codes(findings: list[DoctorFinding], of: str) -> list[str]:
    return list(by_place(findings).get(of, []))


def test_sound_cloud_and_new_database_are_ok(tmp_path: Path, cloud: TinyCloud, database: Database) -> None:
    """Only a worker and a site are missing. Nothing is written anywhere."""
    found = by_place(examine(settings(tmp_path, database.url), SECONDS))
    answers = ["SERVICE_ANSWERS", "CLOCK_AGREES", "TLS_VALID", "READS_ALLOWED"]
    compared = [*answers[:3], "ADVISORY_UNKNOWN", *answers[3:]]
    assert found == {
        "secrets": ["SECRETS_CLOSED"],
        "database": ["DATABASE_ANSWERS", "CLOCK_AGREES", "SCHEMA_CURRENT"],
        "workers": ["WORKERS_NONE"],
        "site": ["SITE_MISSING"],
        "records": ["RECORDS_SOUND"],
        "profile weft: identity": [*compared, "ROLES_PRESENT"],
        **{f"profile weft: {name}": compared for name in ("network", "compute", "image")},
        "profile weft: placement": answers,
    }
    assert {line.split()[0] for line in cloud.asked} == {"GET", "POST"}
    assert [line for line in cloud.asked if line.startswith("POST") and "/auth/tokens" not in line] == []
    assert not (tmp_path / "state").exists()
    Store(database).worker_lives("host/1")
    assert codes(examine(settings(tmp_path, database.url), SECONDS), "workers") == ["WORKERS_ALIVE"]


def test_missing_rights_are_named(tmp_path: Path, cloud: TinyCloud, database: Database) -> None:
    """Missing roles, reads that a policy refuses, and networks without provider attributes."""
    without = {"token": {**TOKEN["token"], "roles": []}}
    refused = Reply(403, {"forbidden": {"code": 403, "message": "Policy doesn't allow it"}})
    cloud.lies = [
        ("GET /v3/auth/tokens", Reply(200, without)),
        ("GET /compute/os-hypervisors/detail", refused),
    ]
    cloud.things["networks"] = [{"id": "n", "name": "n"}]
    cloud.shows_segments = False
    found = examine(settings(tmp_path, database.url), SECONDS)
    assert codes(found, "profile weft: identity")[-2:] == ["ROLE_MISSING", "ROLE_MISSING"]
    (compute,) = [one for one in found if one.of.endswith("compute") and one.level is DoctorLevel.ERROR]
    assert compute.code == "READ_REFUSED" and "list hypervisors" in compute.what and "403" in compute.what
    assert compute.page.startswith("operating-roles.md")
    assert codes(found, "profile weft: network")[-1] == "READ_REFUSED"
    cloud.lies = [VALID, ("GET /network/networks", Reply(200, {"networks": []}))]
    found = examine(settings(tmp_path, database.url), SECONDS)
    assert codes(found, "profile weft: network")[-1] == "POLICY_UNREAD", (
        "without networks the attributes can't be seen"
    )


def test_clock_that_differs_is_a_warning(tmp_path: Path, cloud: TinyCloud, database: Database) -> None:
    """Keystone's clock, by when it issued weft's token."""
    old = {"token": {**TOKEN["token"], "issued_at": "2026-01-01T00:00:00.000000Z"}}
    cloud.lies = [("GET /v3/auth/tokens", Reply(200, old))]
    found = examine(settings(tmp_path, database.url), SECONDS)
    (keystone,) = [one for one in found if one.code == "CLOCK_DIFFERS"]
    assert keystone.of == "profile weft: identity" and "behind this host's" in keystone.what


def test_malformed_answers_of_services_are_never_ok(
    tmp_path: Path, cloud: TinyCloud, database: Database
) -> None:
    """A proxy's HTML page, an error, and a listing of another shape."""
    cloud.lies += [
        ("GET /network/networks", Reply(200, "<html>", "text/html")),
        ("GET /compute/os-services", Reply(500, {})),
        ("GET /image/images", Reply(200, {"images": "none"})),
        ("GET /placement/resource_providers", Reply(204)),
    ]
    found = examine(settings(tmp_path, database.url), SECONDS)
    for name in ("network", "compute", "image", "placement"):
        assert codes(found, f"profile weft: {name}")[-1] == "SERVICE_UNREACHABLE", name
        assert "READS_ALLOWED" not in codes(found, f"profile weft: {name}")


def test_silent_service_does_not_delay_the_other_checks(
    tmp_path: Path, cloud: TinyCloud, database: Database
) -> None:
    """It accepts connections and doesn't answer: a finding within the time limit, and the other services are
    checked."""
    file = tmp_path / "clouds.yaml"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (address,) = [line for line in file.read_text().splitlines() if "network_endpoint" in line]
        port = silent.getsockname()[1]
        file.write_text(
            file.read_text().replace(
                address, f"    network_endpoint_override: http://127.0.0.1:{port}/network"
            )
        )
        started = time.monotonic()
        found = examine(settings(tmp_path, database.url), 2.0)
        assert time.monotonic() - started < 60
    assert codes(found, "profile weft: network")[-1] in ("SERVICE_UNREACHABLE", "CHECK_TIMED_OUT")
    assert "READS_ALLOWED" not in codes(found, "profile weft: network")
    assert codes(found, "profile weft: compute")[-1] == "READS_ALLOWED"


def test_rejected_login_leaves_the_other_services_unasked(
    tmp_path: Path, cloud: TinyCloud, database: Database
) -> None:
    """One error, and one finding for what wasn't asked; an unknown profile is another error."""
    cloud.lies = [("POST /v3/auth/tokens", Reply(401, {"error": {"code": 401, "message": "no"}}))]
    found = by_place(examine(settings(tmp_path, database.url), SECONDS))
    assert found["profile weft: identity"] == ["SERVICE_UNREACHABLE"]
    assert found["profile weft"] == ["SERVICE_UNASKED"]
    other = replace(settings(tmp_path, database.url), cloud_profile="nix")
    assert codes(examine(other, SECONDS), "profile nix") == ["PROFILE_UNUSABLE"]


def test_unreachable_database_is_a_finding(tmp_path: Path, cloud: TinyCloud) -> None:
    """The cloud is checked nevertheless; no finding has the password."""
    url = f"postgresql://weft:{CANARY}@127.0.0.1:1/weft?password={CANARY}"
    found = examine(settings(tmp_path, url), SECONDS)
    assert codes(found, "database") == ["DATABASE_UNREACHABLE"] and codes(found, "site") == ["SITE_UNREAD"]
    assert codes(found, "profile weft: compute")[-1] == "READS_ALLOWED"
    assert CANARY not in str(found)


def test_silent_database_is_a_finding(tmp_path: Path, cloud: TinyCloud) -> None:
    """A server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://weft@127.0.0.1:{silent.getsockname()[1]}/weft"
        found = examine(settings(tmp_path, url), 3.0)
    assert codes(found, "database") in (["DATABASE_UNREACHABLE"], ["CHECK_TIMED_OUT"])


def test_schema_of_another_version_is_a_finding(tmp_path: Path, cloud: TinyCloud, database: Database) -> None:
    """A newer, an older, and an empty one; the doctor doesn't migrate it."""
    given = settings(tmp_path, database.url)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("INSERT INTO migration (name) VALUES ('9999_later.after.sql')")
        found = examine(given, SECONDS)
        assert codes(found, "database")[-1] == "SCHEMA_NEWER" and "9999_later" in str(found)
        assert codes(found, "workers") == [], "tables of another version aren't read"
        connection.execute("UPDATE migration SET name = '9999_later.sql' WHERE name = '9999_later.after.sql'")
        found = examine(given, SECONDS)
        assert codes(found, "database")[-1] == "SCHEMA_BESIDE" and "9999_later.sql" in str(found)
        connection.execute("DELETE FROM migration WHERE name = '9999_later.sql' OR name LIKE '0001%'")
        assert codes(examine(given, SECONDS), "database")[-1] == "SCHEMA_OLDER"
        row = connection.execute("SELECT count(*) FROM migration WHERE name LIKE '0001%'").fetchone()
        assert row == (0,)
        connection.execute("ALTER TABLE migration RENAME TO once")
        assert codes(examine(given, SECONDS), "database")[-1] == "SCHEMA_MISSING"


def test_clouds_and_fabrics_of_the_active_site_are_checked(
    tmp_path: Path, cloud: TinyCloud, database: Database
) -> None:
    """A manager that doesn't answer isn't a sound fabric; without a database those of the site file are checked."""
    site = small_site()
    (name,) = site.clouds
    Store(database).activate_site(site, "test")
    given = settings(tmp_path, database.url)
    found = by_place(examine(given, SECONDS))
    assert found["site"] == ["SITE_ACTIVE"] and found["extras"] == ["EXTRAS_INSTALLED"]
    assert found[f"cloud {name}: compute"][-1] == "READS_ALLOWED"
    assert {f"fabric {one}" for one in site.fabrics} <= found.keys()
    for one in site.fabrics:
        assert "FABRIC_SOUND" not in found[f"fabric {one}"]
    file = tmp_path / "site.json"
    file.write_text(site.model_dump_json())
    gone = by_place(examine(replace(given, database="postgresql://127.0.0.1:1/x", site=file), SECONDS))
    assert gone["site"] == ["SITE_UNREAD"]
    assert {key for key in gone if key.startswith(("cloud", "fabric"))} == {
        key for key in found if key.startswith(("cloud", "fabric"))
    }


def test_certificate_of_a_service_that_ends_soon_is_a_warning(tmp_path: Path) -> None:
    """Any signer is accepted; plain http to another host is a warning too."""
    make_certificates(tmp_path, {"one": ["127.0.0.1"]}, days=20)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "agent-one.pem", tmp_path / "agent-one.key")
    with (
        socket.create_server(("127.0.0.1", 0)) as plain,
        context.wrap_socket(plain, server_side=True) as server,
    ):
        server.settimeout(10)

        def accept() -> None:
            with suppress(OSError):
                server.accept()[0].close()

        threading.Thread(target=accept, daemon=True).start()
        port = server.getsockname()[1]
        assert _tls("a", f"https://127.0.0.1:{port}/v3", 20).code == "TLS_ENDS"
    assert _tls("a", f"https://127.0.0.1:{port}/v3", 20).code == "TLS_UNREAD"
    assert _tls("a", "http://192.0.2.1:5000/v3", 20).code == "TLS_ABSENT"
    assert _tls("a", "http://127.0.0.1:5000/v3", 20).code == "TLS_VALID"


def test_embedded_database_must_run_and_be_inaccessible_to_others(
    tmp_path: Path, cloud: TinyCloud, postgres: str
) -> None:
    """A stopped one isn't started; a socket that other users can reach is an error."""
    assert codes(examine(settings(tmp_path, None), SECONDS), "database") == ["DATABASE_STOPPED"]
    sockets = Path(parse_qs(urlsplit(postgres).query)["host"][0])
    data = next(p for p in (sockets, *sockets.parents) if (p / "postmaster.pid").exists())
    found = running_in(data.parent)
    assert found is not None and found[1] and psycopg.connect(found[0]).closed is False
    mode = data.stat().st_mode
    try:
        data.chmod(0o755)
        found = examine(replace(settings(tmp_path, None), state=data.parent), SECONDS)
        assert codes(found, "database")[:2] == ["SOCKET_OPEN", "DATABASE_ANSWERS"]
    finally:
        data.chmod(mode)


def test_open_secrets_and_plain_http_are_findings(tmp_path: Path, cloud: TinyCloud) -> None:
    """clouds.yaml, the API's key and the driver's token; a file that isn't there is unknown."""
    (tmp_path / "clouds.yaml").chmod(0o644)
    for name in ("tls.pem", "tls.key"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o640 if os.geteuid() else 0o604)
    made = replace(
        settings(tmp_path, "postgresql://127.0.0.1:1/weft"),
        certificate=(tmp_path / "tls.pem", tmp_path / "tls.key"),
        neutron_token=tmp_path / "nix",
    )
    found = examine(made, SECONDS)
    assert codes(found, "secrets") == ["SECRET_OPEN", "SECRET_UNREAD", "SECRET_OPEN", "SECRET_OPEN"]
    assert codes(found, "serve") == ["CERTIFICATE_ENDS"]
    plain = replace(made, certificate=None, host="0.0.0.0")
    assert codes(examine(plain, SECONDS), "serve") == ["PLAIN_HTTP"]


def test_unreadable_secret_is_never_reported_closed(tmp_path: Path) -> None:
    """A directory, a pipe without a writer, and a file of root's for weft's user."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("pipe", "folder"):
        (one,) = secrets_of(tmp_path / name)
        assert one.code == "SECRET_UNREAD" and "isn't a regular file" in one.what
    child = os.fork()
    if not child:
        with suppress(BaseException):
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            os._exit(int([one.code for one in secrets_of(Path("/etc/shadow"))] != ["SECRET_UNREAD"]))
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def secrets_of(path: Path) -> list[DoctorFinding]:
    """The doctor's findings about one file with a secret."""
    return list(_modes("secrets", [path]))


def test_unresolvable_name_is_not_taken_for_this_host() -> None:
    """A proxy may resolve it, or DNS a moment later."""
    assert _tls("a", "http://keystone.invalid:5000/v3", 20).code == "TLS_ABSENT"
    with pytest.raises(InputErrors, match=r"without TLS a loopback address"):
        resolve(None, {}, {"serve.listen": "api.invalid:8787"})


def test_check_that_fails_or_hangs_is_unknown() -> None:
    """Findings made before are kept, and the other checks go on."""

    def fails() -> Iterator[DoctorFinding]:
        yield finding("CLOCK_AGREES", "a", "it does")
        raise ZeroDivisionError(f"postgresql://weft:{CANARY}@host/x")

    def hangs() -> Iterator[DoctorFinding]:
        yield finding("CLOCK_AGREES", "b", "it does")
        time.sleep(30)

    def fine() -> Iterator[DoctorFinding]:
        yield finding("CLOCK_AGREES", "c", "it does")

    checks = [DoctorCheck("a", fails), DoctorCheck("b", hangs), DoctorCheck("c", fine)]
    found = carried_out(checks, 1.0)
    assert [one.code for one in found] == [
        *("CLOCK_AGREES", "CHECK_FAILED", "CLOCK_AGREES", "CHECK_TIMED_OUT", "CLOCK_AGREES"),
    ]
    assert [one.level for one in found[1:4]] == [DoctorLevel.UNKNOWN, DoctorLevel.OK, DoctorLevel.UNKNOWN]
    assert CANARY not in str(found)


@pytest.mark.parametrize(
    ("document", "version"),
    [
        ({"version": {"id": "v2.1", "status": "CURRENT", "version": "2.96"}}, ("v2.1", "2.96")),
        ({"versions": [{"id": "v2", "status": "SUPPORTED"}, {"id": "v3", "status": "CURRENT"}]}, ("v3", "")),
        ({"versions": {"values": [{"id": "v3.14", "status": "stable"}]}}, ("v3.14", "")),
        ({"versions": [{"id": "v1.0", "max_version": "1.39", "status": "CURRENT"}]}, ("v1.0", "1.39")),
        ({}, ("", "")),
        ([], ("", "")),
        ({"versions": "all"}, ("", "")),
    ],
)
def test_version_documents_of_the_services_are_read(document: object, version: tuple[str, str]) -> None:
    """Nova's, Glance's, Keystone's and Placement's; other documents give no version."""
    assert _version(json.dumps(document).encode()) == version


def test_clock_of_a_service_is_compared_in_whole_seconds() -> None:
    """The time between request and answer counts neither as ahead nor as behind."""
    now = datetime.now(UTC)
    assert _ahead(format_datetime(now, usegmt=True), now) == 0.0
    behind = _ahead(format_datetime(now - timedelta(seconds=90), usegmt=True), now)
    ahead = _ahead(format_datetime(now + timedelta(seconds=90), usegmt=True), now)
    assert behind is not None and ahead is not None and -91 < behind < -88 and 88 < ahead < 91
    assert _ahead(None, now) is None and _ahead("today", now) is None


def test_exit_code_is_1_unless_all_is_ok(
    tmp_path: Path, cloud: TinyCloud, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `-f json` findings are rows; `--wrong` leaves out those that are ok. Invalid options: exit code 2,
    nothing asked."""
    words = ["doctor", "--database", database.url, "--cloud-profile", "weft", "-f", "json", "--timeout", "8"]
    assert main(words) == 1
    rows = json.loads(capsys.readouterr().out)
    assert {row["Level"] for row in rows} == {"ok", "warning", "error", "unknown"}
    assert main([*words, "--service-version", "nova=29.0.0", "--wrong"]) == 1
    assert [r["Of"] for r in json.loads(capsys.readouterr().out) if r["Code"] == "ADVISORY_APPLIES"] == [
        "profile weft: compute"
    ]
    assert main([*words, "--wrong"]) == 1
    wrong = json.loads(capsys.readouterr().out)
    assert wrong == [row for row in rows if row["Level"] != "ok"]
    assert all((DOCS.parent / row["Page"].partition("#")[0]).exists() for row in rows)
    asked = len(cloud.asked)
    for other in (
        ["--timeout", "0"],
        ["--timeout", "x"],
        ["--database", "mysql://x"],
        ["--config", "nix"],
        ["--service-version", "nova"],
    ):
        assert main(["doctor", *other]) == 2
    assert len(cloud.asked) == asked


def test_codes_of_unread_things_have_level_unknown() -> None:
    """What couldn't be read or checked is never ok."""
    assert [
        name for name, code in CODES.items() if "UNREAD" in name and code.level is not DoctorLevel.UNKNOWN
    ] == []
    assert [
        name
        for name, code in CODES.items()
        if name.startswith("CHECK_") and code.level is not DoctorLevel.UNKNOWN
    ] == []


def test_closed_gate_is_reported(tmp_path: Path, cloud: TinyCloud, database: Database) -> None:
    """A cloud remembers a later epoch than the database, can't be read, or the database was restored and not
    accepted."""
    site = small_site()
    (name,) = site.clouds
    Store(database).activate_site(site, "test")
    given, of = settings(tmp_path, database.url), "changes outside"
    cloud.things["keypairs"] = []
    assert codes(examine(given, SECONDS), of) == ["CHANGES_ALLOWED"]
    key = f"ssh-ed25519 AAAA weft-epoch/{site.name}/{uuid4()}/7"
    cloud.things["keypairs"] = [{"keypair": {"name": "weft-epoch-x", "public_key": key}}]
    assert codes(examine(given, SECONDS), of) == ["CHANGES_STOPPED"]
    cloud.lies.append(("GET /compute/os-keypairs", Reply(503, "busy")))
    (found,) = [one for one in examine(given, SECONDS) if one.of == of]
    assert found.code == "CHANGES_UNREAD" and name in found.what and found.level is DoctorLevel.UNKNOWN
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("INSERT INTO epoch_behind (cloud) VALUES (%s)", [name])
        assert codes(examine(given, SECONDS), of) == ["CHANGES_STOPPED"], "a process noted it in the database"
        connection.execute(
            "INSERT INTO restored VALUES (true, '2026-11-29 09:00Z', '2026-11-28 23:00Z', 'olga@ctl1')"
        )
    (found,) = [one for one in examine(given, SECONDS) if one.of == of]
    assert "restored at 2026-11-29 09:00 UTC by olga@ctl1 from a backup of 2026-11-28 23:00 UTC" in found.what
    assert not [line for line in cloud.asked if line.startswith(("PUT", "DELETE", "POST /compute"))]


def test_unfinished_upgrade_is_reported(
    tmp_path: Path, cloud: TinyCloud, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what is left to do; processes of another version, servers included, are named."""
    known = {**schema.halves(), "29990101T0001_planted.after.sql": ""}
    monkeypatch.setattr(schema, "halves", lambda: known)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("INSERT INTO process_seen VALUES ('api/1', 'server', '9.1', 'x', 7, now())")
    found = list(examine(settings(tmp_path, database.url), SECONDS))
    (left,) = [one for one in found if one.code == "UPGRADE_UNFINISHED"]
    assert "29990101T0001_planted.after.sql first" in left.what and left.level is DoctorLevel.WARNING
    (differs,) = [one for one in found if one.code == "WORKERS_DIFFER"]
    assert "server api/1 (9.1)" in differs.what


def test_workers_of_another_version_are_named(tmp_path: Path, cloud: TinyCloud, database: Database) -> None:
    """Also versions too old to record theirs."""
    Store(database).worker_lives("host/1")
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO worker_seen (name, seen_at, version) VALUES ('host/2', now(), '9.1'), ('host/3', now(), '')"
        )
    found = [one for one in examine(settings(tmp_path, database.url), SECONDS) if one.of == "workers"]
    assert [one.code for one in found] == ["WORKERS_ALIVE", "WORKERS_DIFFER"]
    assert "host/2 (9.1), host/3 (older)" in found[1].what and "host/1" not in found[1].what


def test_policy_file_is_parsed(tmp_path: Path, cloud: TinyCloud) -> None:
    """That it exists isn't enough."""
    file = tmp_path / "policy.yaml"
    given = replace(settings(tmp_path, "postgresql://127.0.0.1:1/x"), policy=file)
    for text, code in (("pods:create: role:member\n", "RULES_VALID"), ("pods:creat: '@'\n", "RULES_WRONG")):
        file.write_text(text)
        (found,) = [one for one in examine(given, SECONDS) if one.of == "policy"]
        assert found.code == code
    assert f"{file}:1: pods:creat" in found.what


def test_certificate_with_another_key_is_an_error(tmp_path: Path, cloud: TinyCloud) -> None:
    """A running server keeps the old pair but wouldn't start again; each certificate alone is valid."""
    make_certificates(tmp_path, {"one": ["127.0.0.1"], "two": ["127.0.0.1"]})
    given = settings(tmp_path, "postgresql://127.0.0.1:1/x")
    for key, code in (("agent-one.key", "CERTIFICATES_VALID"), ("agent-two.key", "CERTIFICATE_UNUSABLE")):
        pair = tmp_path / "agent-one.pem", tmp_path / key
        assert codes(examine(replace(given, certificate=pair), SECONDS), "serve") == [code]
