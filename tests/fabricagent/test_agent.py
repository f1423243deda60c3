"""The fabric agent's HTTP interface: authentication, invalid requests, and changes of the partitions file."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from weft.fabricagent.agent import Agent
from weft.fabricagent.config import AgentConfig, read_config
from weft.fabricagent.opensm import TRIED_SECONDS, Log, PartitionFile, digest
from weft.fabricagent.server import Server
from weft.fabricagent.tls import make_certificates
from weft.model.errors import ConflictError, InputError, InputErrors, PermanentError
from weftlab.layout import free_ports

FILE = "Default=0x7fff : ALL=limited, 0xa=full;\n"


def write_config(folder: Path, **changes: Any) -> Path:
    make_certificates(folder / "tls", {"sm1": ["127.0.0.1", "localhost"]})
    document: dict[str, Any] = {
        "name": "sm1",
        "site": "lab",
        "listen": {"host": "127.0.0.1", "port": free_ports()},
        "tls": {"ca": "tls/ca.pem", "certificate": "tls/agent-sm1.pem", "key": "tls/agent-sm1.key"},
        "opensm": {"partitions_file": "partitions.conf", "log_file": "opensm.log", "pid_file": "opensm.pid"},
    }
    path = folder / "agent.yaml"
    path.write_text(yaml.safe_dump({**document, **changes}))
    (folder / "partitions.conf").write_text(FILE)
    return path


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"name: sm1\ntls: @S3cret\n", r"a YAML file in UTF-8 \(line 2 is none\)$"),
        (b"name: sm1\ntls: S3cret\xff\n", "a YAML file in UTF-8$"),
    ],
)
def test_invalid_yaml_config_is_reported_without_its_text(tmp_path: Path, body: bytes, says: str) -> None:
    """One sentence with file and line; the text may contain a secret."""
    path = write_config(tmp_path)
    path.write_bytes(body)
    with pytest.raises(InputError, match=says) as caught:
        read_config(path)
    assert "S3cret" not in str(caught.value)


def test_field_given_twice_is_reported(tmp_path: Path) -> None:
    """YAML's parser would use the last one, and a person reads the first."""
    path = write_config(tmp_path)
    path.write_text(path.read_text() + "name: sm2\n")
    with pytest.raises(
        InputError, match=rf"^{path}:\d+: name: a second one is not allowed: each field once$"
    ):
        read_config(path)


@pytest.mark.parametrize(
    ("field", "value"), [("port", "yes"), ("port", "on"), ("m_key", "true"), ("m_key", "12:34")]
)
def test_boolean_or_time_in_place_of_a_number_is_refused(tmp_path: Path, field: str, value: str) -> None:
    """`yes` would be port 1 or the key 1, and 12:34 is 754 in base 60."""
    path = write_config(tmp_path, hca={"m_key": 5})
    path.write_text(re.sub(rf"{field}: \d+", f"{field}: {value}", path.read_text()))
    with pytest.raises(InputErrors, match=rf"{field}: .* is not allowed: a valid integer"):
        read_config(path)


def test_config_nested_too_deeply_is_reported(tmp_path: Path) -> None:
    """One sentence, as for other invalid text."""
    path = write_config(tmp_path)
    path.write_text("[" * 5_000)
    with pytest.raises(InputError, match="a YAML file"):
        read_config(path)


def test_config_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    path.write_text("\ufeff" + path.read_text())
    assert read_config(path).name == "sm1"


@pytest.mark.parametrize(
    "body",
    [
        "name: sm1\nhca: {m_key: 77112233, sa_key: 77112233}\n",  # required fields are missing
        'name: sm1\nhca: {m_key: "0x77112233", sa_key: [77112233], mkey: 77112233}\n',
        "name: sm1\nhca: [m_key, 77112233]\nhcas: {m_key: 77112233}\n",
    ],
)
def test_invalid_yaml_config_is_reported_without_its_secrets(tmp_path: Path, body: str) -> None:
    """Neither values of `m_key` and `sa_key`, nor of misspelt keys, nor the text of tables that contain them."""
    path = write_config(tmp_path)
    path.write_text(body)
    with pytest.raises(InputErrors) as caught:
        read_config(path)
    found = str(caught.value)
    assert "77112233" not in found and f"{path}: listen: missing: " in found
    assert caught.value.__cause__ is None and caught.value.__suppress_context__, "no traceback shows it"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[AgentConfig]:
    """An agent on a host without subnet manager and HCA."""
    config = read_config(write_config(tmp_path))
    agent = Agent(config)
    server = Server(config, agent)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield config
    server.shutdown()
    server.server_close()
    agent.close()


def client(config: AgentConfig, certificate: str | None = "weft", ca: Path | None = None) -> httpx.Client:
    folder = config.tls.ca.parent
    context = ssl.create_default_context(cafile=str(ca or config.tls.ca))
    if certificate:
        context.load_cert_chain(folder / f"{certificate}.pem", folder / f"{certificate}.key")
    url = f"https://127.0.0.1:{config.listen.port}/v1/"
    return httpx.Client(base_url=url, verify=context, trust_env=False, timeout=60)


def change(digest: str, **more: Any) -> dict[str, Any]:
    return {"site": "lab", "expected_digest": digest, "weft": [], **more}


def digest_of(config: AgentConfig) -> str:
    return hashlib.sha256(config.opensm.partitions_file.read_bytes()).hexdigest()


def test_client_without_certificate_is_refused(served: AgentConfig) -> None:
    """With mutual TLS, the connection ends in the handshake."""
    with client(served, None) as asking, pytest.raises(httpx.TransportError):
        asking.get("status")


def test_certificate_of_another_authority_is_refused(served: AgentConfig, tmp_path: Path) -> None:
    """With the name of a listed client."""
    make_certificates(tmp_path / "other", {})
    context = ssl.create_default_context(cafile=str(served.tls.ca))
    context.load_cert_chain(tmp_path / "other/weft.pem", tmp_path / "other/weft.key")
    url = f"https://127.0.0.1:{served.listen.port}/v1/status"
    with httpx.Client(verify=context, trust_env=False) as asking, pytest.raises(httpx.TransportError):
        asking.get(url)


def test_certificate_of_an_unlisted_client_is_refused(served: AgentConfig) -> None:
    """Of our authority but not in tls.clients: 403."""
    make_certificates(served.tls.ca.parent, {}, client="stranger")
    with client(served, "stranger") as asking:
        answer = asking.get("partitions")
    assert answer.status_code == 403 and "stranger" in answer.json()["detail"]


def test_client_verifies_the_agents_certificate(served: AgentConfig, tmp_path: Path) -> None:
    """One that another authority signed isn't trusted."""
    make_certificates(tmp_path / "other", {})
    with client(served, ca=tmp_path / "other/ca.pem") as asking, pytest.raises(httpx.ConnectError):
        asking.get("status")


def test_agent_without_manager_and_adapter_reports_both(served: AgentConfig) -> None:
    """The status is "down" with its problems; requests about the fabric are 503, never an empty list."""
    with client(served) as asking:
        status = asking.get("status").json()
        assert status["state"] == "down" and any("does not run" in p for p in status["problems"])
        assert any("can't be" in p for p in status["problems"])
        for path, body in (("tables", {}), ("paths", {"pairs": [["0xa", "0xb"]]})):
            answer = asking.post(path, json=body)
            assert answer.status_code == 503 and answer.json()["detail"]
        assert asking.get("topology").status_code == 503


def test_partitions_are_replaced_only_at_the_expected_digest(served: AgentConfig) -> None:
    """Another digest: 409, and nothing changes; the right one is accepted once."""
    wanted = change(digest_of(served), weft=[_partition("0x101")])
    with client(served) as asking:
        assert asking.put("partitions", json=change("0" * 64)).status_code == 409
        assert served.opensm.partitions_file.read_text() == FILE
        answer = asking.put("partitions", json=wanted)
        assert answer.status_code == 200 and answer.json()["process"] is None
        assert answer.json()["digest"] == digest_of(served)
        assert asking.put("partitions", json=wanted).status_code == 409
    text = served.opensm.partitions_file.read_text()
    assert text.startswith(FILE) and "0x000000000000000b=full;" in text


def _partition(pkey: str, mark: str = "") -> dict[str, Any]:
    mark = mark or "weft site=lab pod=1f0c9a3b-0000-4000-8000-000000000001 key=partition"
    return {"pkey": pkey, "mark": mark, "members": ["0xb"]}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "JSON"),
        (json.dumps({"site": "lab"}).encode(), 400, "expected_digest"),
        (json.dumps(change("", site="other")).encode(), 400, "site"),
        (json.dumps(change("", weft=[_partition("0x0")])).encode(), 400, "P_Key"),
        (json.dumps(change("", weft=[_partition("0x101", "no mark")])).encode(), 400, "mark"),
        (json.dumps(change("", wait_seconds=1e9)).encode(), 400, "wait_seconds"),
    ],
)
def test_invalid_request_is_refused_with_its_field(
    served: AgentConfig, body: bytes, status: int, said: str
) -> None:
    """400 with the field; the file doesn't change."""
    with client(served) as asking:
        answer = asking.put("partitions", content=body)
    assert answer.status_code == status and said in answer.json()["detail"], answer.text
    assert served.opensm.partitions_file.read_text() == FILE


def test_partitions_file_that_would_open_the_fabric_is_not_written(served: AgentConfig) -> None:
    """422 with the line, before anything is written."""
    broken = "Half=0x201 : 0xc=full\n"
    served.opensm.partitions_file.write_text(broken)
    with client(served) as asking:
        answer = asking.put("partitions", json=change(digest_of(served), weft=[_partition("0x101")]))
    assert answer.status_code == 422 and "nothing was written" in answer.json()["detail"]
    assert served.opensm.partitions_file.read_text() == broken


def test_owner_and_mode_of_the_file_are_kept(served: AgentConfig) -> None:
    """They belong to the operator; no temporary file is left."""
    path = served.opensm.partitions_file
    path.chmod(0o640)
    with client(served) as asking:
        assert asking.put("partitions", json=change(digest_of(served))).status_code == 200
    assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in path.parent.iterdir() if p.name.startswith(".")] == []


def test_symbolic_link_is_kept(served: AgentConfig) -> None:
    """OpenSM may read the file by the link's name: its target is replaced."""
    path = served.opensm.partitions_file
    real = path.parent / "elsewhere" / "partitions.conf"
    real.parent.mkdir()
    path.rename(real)
    path.symlink_to(real)
    with client(served) as asking:
        answer = asking.put("partitions", json=change(digest_of(served), weft=[_partition("0x101")]))
    assert answer.status_code == 200 and path.is_symlink()
    assert "0x000000000000000b=full;" in real.read_text()
    assert [p.name for p in real.parent.iterdir()] == ["partitions.conf"]


def test_concurrent_external_write_is_not_overwritten(tmp_path: Path) -> None:
    """The writer gets a conflict, to read the file again; no temporary file is left."""
    path = tmp_path / "partitions.conf"
    path.write_text(FILE)
    file = PartitionFile(path)
    before = digest(file.read())
    path.write_text(FILE + "# by someone else\n")
    with pytest.raises(ConflictError, match="someone else"):
        file.write(FILE + "# by weft\n", before)
    assert path.read_text() == FILE + "# by someone else\n"
    assert [p.name for p in tmp_path.iterdir()] == ["partitions.conf"]


def test_failed_write_leaves_the_partitions_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, and without its directory: the error has the reason, and no temporary file is left."""
    path = tmp_path / "partitions.conf"
    path.write_text(FILE)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        file = PartitionFile(path)
        with pytest.raises(PermanentError, match="No space left"):
            file.write(FILE + "# by weft\n", digest(FILE))
    assert path.read_text() == FILE and [p.name for p in tmp_path.iterdir()] == ["partitions.conf"]
    for folder in (path, tmp_path / "none"):
        with pytest.raises(PermanentError, match="the partition file"):
            PartitionFile(folder / "partitions.conf").write(FILE, "")


def test_stale_pid_file_signals_no_other_process(served: AgentConfig) -> None:
    """Another program has the pid now and must not get SIGHUP, which would end it."""
    with subprocess.Popen(["sleep", "60"]) as victim:
        assert served.opensm.pid_file is not None
        served.opensm.pid_file.write_text(str(victim.pid))
        with client(served) as asking:
            assert asking.put("partitions", json=change(digest_of(served))).json()["process"] is None
        assert victim.poll() is None
        victim.terminate()


def test_unknown_route_is_404(served: AgentConfig) -> None:
    """With the path that was requested."""
    with client(served) as asking:
        answer = asking.get("secrets")
    assert answer.status_code == 404 and "/v1/secrets" in answer.json()["detail"]


def test_silent_client_does_not_delay_others(served: AgentConfig) -> None:
    """The handshake of each connection waits in a thread of its own."""
    import socket

    with socket.create_connection(("127.0.0.1", served.listen.port)), client(served) as asking:
        assert asking.get("partitions").status_code == 200


def test_troubles_are_read_from_the_last_sweep_of_the_log(tmp_path: Path) -> None:
    """They end with a heavy sweep without trouble; rotation and truncation lose no new lines."""
    path = tmp_path / "opensm.log"
    path.write_text("Nov 21 [1] 0x01 -> ERR 0512: Failed to set PKey, table is full\nNov 21 -> SUBNET UP\n")
    log = Log(path)
    assert log.troubles() == ("ERR 0512: Failed to set PKey, table is full",)
    log.mark(10.0)
    assert log.silence(12.0) == 2.0
    with path.open("a") as file:
        file.write("Nov 21 -> SUBNET UP\nNov 21 [1] 0x01 -> PARSE ERROR: li")
    assert log.troubles() == () == log.since_mark()
    assert log.silence(99.0) == 0
    with path.open("a") as file:
        file.write("ne 3: bad PortGUID\n")
    assert log.troubles() == log.since_mark() == ("PARSE ERROR: line 3: bad PortGUID",)
    path.rename(tmp_path / "opensm.log.1")
    path.write_text("Nov 21 [1] 0x01 -> Errors during initialization\n")
    assert "Errors during initialization" in log.troubles()
    path.write_text("-> SUBNET UP\n-> SUBNET UP\n")
    assert log.troubles() == ()


def test_refused_attempts_are_counted_from_opensms_log(tmp_path: Path) -> None:
    """Lines of OpenSM 3.3.23; repeated ones are counted, keys aren't shown, and after an hour they are dropped."""
    path = tmp_path / "opensm.log"
    path.write_text("")
    log = Log(path)
    assert log.attempts(10.0) == ()
    trap = "Nov 22 [1] 0x01 -> log_trap_info: Received Generic Notice type:2 num:{} ({}) Producer:1 (Channel Adapter)"
    with path.open("a") as file:
        for tid in (1, 2, 3):
            file.write(trap.format(256, "Bad M_Key") + f" from LID:5 TID:0x{tid:016x}\n")
        file.write(
            "Nov 22 -> log_trap_info: Bad P_Key:0x8101 on SL:0 from LID1:5 QP1:0x1 to LID2:9 QP2:0x48\n"
        )
        file.write(
            "Nov 22 -> log_trap_info: Bad P_Key:0x8101 on SL:0 from LID1:5 QP1:0x2 to LID2:9 QP2:0x49\n"
        )
        file.write(
            "Nov 22 -> pkr_rcv: ERR 4608: Ignoring PKeyRecord request from non-trusted requester with SM_Key 0x05\n"
        )
        file.write(
            "Nov 22 -> sa_mad: ERR 1A04: Non-Zero MAD SM_Key: 0x5 != SM_Key: 0xabcdef; SA MAD ignored for method 0x1\n"
        )
        file.write(trap.format(128, "Link state change") + " from LID:5 TID:0x1\n")
        file.write("Nov 22 [1] 0x01 -> SUBNET UP\n")
    found = log.attempts(20.0)
    assert [t.partition(": ")[2] for t in found] == [
        "Received Generic Notice type:2 num:256 (Bad M_Key) Producer:1 (Channel Adapter) from LID:5 (3 times)",
        "Bad P_Key:0x8101 on SL:0 from LID1:5 to LID2:9 (2 times)",
        "ERR 4608: Ignoring PKeyRecord request from non-trusted requester with SM_Key …",
        "ERR 1A04: Non-Zero MAD SM_Key: … != SM_Key: …; SA MAD ignored for method 0x1",
    ]
    assert "abcdef" not in str(found) and log.troubles() == ()
    assert len(log.attempts(20.0 + TRIED_SECONDS - 1)) == 4 and log.attempts(20.0 + TRIED_SECONDS) == ()


def test_attempts_before_the_agents_start_are_not_reported(tmp_path: Path) -> None:
    """Lines have no year and no date that can be relied on, so after each restart old ones would count as new."""
    path = tmp_path / "opensm.log"
    path.write_text(
        "Nov 15 -> log_trap_info: Bad P_Key:0x8101 on SL:0 from LID1:5\nNov 15 -> Errors during x\n"
    )
    log = Log(path)
    assert log.attempts(10.0) == () and log.troubles() == ("Errors during x",)
    with path.open("a") as file:
        file.write("Nov 22 -> log_trap_info: Bad P_Key:0x8101 on SL:0 from LID1:5\n")
    assert log.attempts(20.0) == ("log_trap_info: Bad P_Key:0x8101 on SL:0 from LID1:5",)


def test_attempts_with_many_keys_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "opensm.log"
    log = Log(path)
    assert log.attempts(5.0) == ()
    path.write_text("".join(f"Nov 22 -> x: Bad P_Key:0x{i:x} on SL:0 from LID1:5\n" for i in range(5000)))
    found = log.attempts(10.0)
    assert len(found) == 20 and "0x3e7 " in found[-1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"listen": {"host": "127.0.0.1", "port": 0}}, "listen.port"),
        ({"colour": "blue"}, "colour"),
        ({"opensm": {"partitions_file": "p", "log_file": "l"}}, "pid_file and pid_command"),
        ({"tls": {"ca": "tls/ca.pem", "certificate": "no", "key": "no"}}, "tls.certificate"),
    ],
)
def test_command_reports_an_invalid_config(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    """Exit code 2 and one line that names the field; no traceback."""
    path = write_config(tmp_path, **changes)
    done = subprocess.run(
        [sys.executable, "-m", "weft.fabricagent", "--config", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_existing_certificates_are_kept(tmp_path: Path) -> None:
    """A second call makes only missing ones; --renew makes all but the authority; keys are readable by their
    owner only."""
    first = make_certificates(tmp_path, {"sm1": ["127.0.0.1"]})
    assert {p.name for p in first} == {
        f"{n}.{e}" for n in ("ca", "agent-sm1", "weft") for e in ("pem", "key")
    }
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in first if p.suffix == ".key")
    second = make_certificates(tmp_path, {"sm1": ["127.0.0.1"], "sm2": ["sm2.example"]})
    assert {p.name for p in second} == {"agent-sm2.pem", "agent-sm2.key"}
    before = (tmp_path / "ca.pem").read_bytes()
    renewed = make_certificates(tmp_path, {"sm1": ["127.0.0.1"]}, renew=True)
    assert {p.stem for p in renewed} == {"agent-sm1", "weft"} and (tmp_path / "ca.pem").read_bytes() == before
    with pytest.raises(InputError, match="at least one host"):
        make_certificates(tmp_path, {"sm3": []})
