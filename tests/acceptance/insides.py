"""What operators read inside the fakes' world; it lies as the services do."""

from __future__ import annotations

import socket
import ssl
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from weftacceptance.cloud import Json, LostError

from tests.acceptance.fakes import World, now

HOME = "10.79.0.2:/home"


def certificate(days: int = 60) -> tuple[bytes, bytes]:
    """A new certificate and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sm1")])
    begin = datetime.now(UTC) - timedelta(minutes=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return made.public_bytes(pem), key.private_bytes(pem, form, plain)


class FakeInside:
    """Args: days: lifetime of agents' certificates. oldest: lowest version of TLS that the API accepts; None:
    plain HTTP."""

    def __init__(
        self, world: World, days: int = 60, oldest: ssl.TLSVersion | None = ssl.TLSVersion.TLSv1_2
    ) -> None:
        self._world, self._days, self._oldest = world, days, oldest
        self._shown = certificate(days)[0]

    def _said(self, text: str) -> str:
        if self._world.lie in ("lost", "refuses"):
            raise LostError("no answer")
        return {"empty": "", "garbled": "what is this"}.get(self._world.lie, text)

    def metrics(self, url: str) -> str:
        lines = ["infiniband_counters_age_seconds 9.5"]
        for n, name in enumerate(self._world.nodes):
            guid = f"0x{n:016x}"
            lines.append(f'infiniband_hca_info{{guid="{guid}",hca="{name} mlx5_0"}} 1')
            lines += [
                f'infiniband_hca_port_{what}_total{{guid="{guid}",port="1"}} 0'
                for what in ("transmit_wait", "transmit_packets", "receive_packets")
            ]
        return self._said("\n".join(lines))

    def manager_log(self, agent: str) -> list[str]:
        entry = "Nov 30 08:37:25 615702 [EF6F16C0] 0x02 -> SUBNET UP"
        return self._said("\n".join([entry] * (1 + len(self._world.kept("pods"))))).splitlines()

    def domain(self, server: str) -> str:
        if server not in self._world.kept("servers"):
            raise LostError("no such domain")
        devices = "<interface/>" + "".join(f"<{one}/>" for one in self._world.devices)
        return self._said(f"<domain><uuid>{server}</uuid><devices>{devices}</devices></domain>")

    def trail(self) -> list[Json]:
        heard = self._said("there")
        return list(self._world.trail) if heard == "there" else [{"what": heard}] if heard else []

    def counters(self) -> dict[str, dict[str, int]]:
        names = ("rx_bytes", "rx_packets", "rx_errors", "tx_bytes", "tx_packets", "tx_errors")
        if self._said("there") != "there":
            return {}
        return {f"int-{node}-down": dict.fromkeys(names, self._world.sent) for node in self._world.nodes}

    def cable(self, adapter: str, plugged: bool) -> None:
        self._said("")
        node = self._world.nodes[adapter.split("/")[0]]
        if self._world.lie == "deaf" or not node["pod"]:
            return
        state = "READY" if plugged else "DEGRADED"
        event = {"sequence": len(node["pod"]["events"]), "at": now(), "type": "state", "message": state}
        node["pod"]["events"].append({**event, "code": "POD_STATE", "params": {"state": state}})
        node["pod"]["state"] = state

    def certificate(self, url: str) -> bytes:
        if self._said("there") != "there":
            return b"what is this"
        shown = x509.load_pem_x509_certificate(self._shown)
        return shown.public_bytes(serialization.Encoding.DER)

    def rotate(self, agents: Mapping[str, Sequence[str]]) -> None:
        if self._world.lie != "deaf":
            self._shown = certificate(self._days)[0]

    @contextmanager
    def files(self, address: str) -> Generator[FakeFiles]:
        yield FakeFiles(self._world, address)

    @contextmanager
    def api(self) -> Generator[tuple[str, int]]:
        self._said("")
        with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryDirectory() as folder:
            context = None
            if self._oldest is not None and self._world.lie not in ("empty", "garbled"):
                paths = [Path(folder) / name for name in ("certificate", "key")]
                for path, part in zip(paths, certificate(), strict=True):
                    path.write_bytes(part)
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.set_ciphers("DEFAULT:@SECLEVEL=0")
                context.minimum_version = self._oldest
                context.load_cert_chain(paths[0], paths[1])
            threading.Thread(target=_answer, args=(listener, context), daemon=True).start()
            yield "127.0.0.1", listener.getsockname()[1]
            listener.shutdown(socket.SHUT_RDWR)


def _answer(listener: socket.socket, context: ssl.SSLContext | None) -> None:
    """Answers by TLS, or by plain text without a context."""
    with suppress(OSError):
        while True:
            peer, _ = listener.accept()
            with peer, suppress(OSError, ValueError):
                if context is None:
                    peer.recv(4096)
                    peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                else:
                    peer.settimeout(5)
                    context.wrap_socket(peer, server_side=True).close()


class FakeFiles:
    """A host of the storage network."""

    def __init__(self, world: World, address: str) -> None:
        self._world, self._address = world, address

    def _there(self, location: str) -> dict[str, str] | None:
        if self._world.lie in ("lost", "refuses", "garbled"):
            raise LostError("no answer")
        if location == HOME:
            return None if self._world.lie == "empty" else self._world.home
        key = location.rsplit("/", 1)[1]
        rules: list[Any] = [
            one["access_to"] for one in self._world.kept("rules").values() if one["share"] == key
        ]
        row = self._world.kept("shares").get(key)
        return row["files"] if row is not None and self._address in rules else None

    def files(self, location: str) -> list[str] | None:
        there = self._there(location)
        return None if there is None else list(there)

    def write(self, location: str, name: str, file: Path) -> bool:
        there = self._there(location)
        if there is None or self._world.lie == "deaf":
            return False
        there[name] = file.read_text()
        return True

    def read(self, location: str, name: str) -> str:
        return (self._there(location) or {}).get(name, "")
