"""`weft serve`: the API, and a worker process unless the settings say no."""

from __future__ import annotations

import logging
import signal
import socket
import ssl
import sys
from dataclasses import replace
from pathlib import Path

import uvicorn

from weft.api.app import create_app
from weft.api.connections import configured, raise_file_limit
from weft.api.edge import log_request_ids
from weft.api.notices import notices, read_token
from weft.api.waiting import WaitingRoom
from weft.app.metrics import StoreCollector
from weft.app.policy import Policy
from weft.app.settings import ServeSettings
from weft.app.wiring import identity, parts, start_log
from weft.app.workerprocess import WorkerProcess
from weft.model.errors import InputError

log = logging.getLogger("weft")


class _Server(uvicorn.Server):
    """Reports the address it listens on: `--listen HOST:0` takes any free port.

    Args:
        waiting: requests that are answered when it stops.
    """

    def __init__(self, config: uvicorn.Config, waiting: WaitingRoom) -> None:
        super().__init__(config)
        self._waiting = waiting

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._waiting.end_all()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for each in server.sockets:
                host, port = each.getsockname()[:2]
                scheme = "https" if self.config.is_ssl else "http"
                log.info("weft listens on %s://%s:%d", scheme, f"[{host}]" if ":" in host else host, port)


def serve(settings: ServeSettings) -> int:
    """Returns when a signal ends it; everything that it started is stopped then.

    Raises `InputError` if it can't listen on the address or use the certificate, before anything is done.
    """
    start_log(settings)
    log_request_ids()
    raise_file_limit()
    # uvicorn raises the signal again after its shutdown: the rest must be stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    check_certificate(settings.certificate)
    policy, keystone = Policy(settings.policy), identity(settings)
    token = read_token(settings.neutron_token) if settings.neutron_token else None
    with listening(settings.host, settings.port) as listener, parts(replace(settings, worker=False)) as made:
        worker = WorkerProcess(settings) if settings.worker else None
        app = create_app(
            made.service(policy, worker.checks if worker else None),
            keystone,
            policy,
            collectors=[StoreCollector(made.store)],
            public_url=settings.public_url,
            auth_url=keystone.auth_url,
            more=[notices(token, made.tell_tenant_networks)] if token else [],
        )
        if worker:
            worker.start()
        try:
            config = configured(app, certificate=settings.certificate)
            _Server(config, app.state.waiting).run([listener])
        finally:
            if worker:
                worker.stop()
    return 0


def listening(host: str, port: int) -> socket.socket:
    """A bound socket, not listening yet. Raises `InputError` if the address can't be used."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        # With the protocol given: without it asyncio leaves TCP_NODELAY off (40 ms per request).
        listener = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        allowed = f"a free address of this machine ({error.strerror or error})"
        raise InputError("--listen", f"{host}:{port}", allowed) from None
    return listener


def check_certificate(certificate: tuple[Path, Path] | None) -> None:
    """Raise `InputError` for a certificate or key that can't be used."""
    if certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*certificate)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        allowed = f"PEM files of a certificate and of its key, not encrypted ({error})"
        raise InputError("--tls-certificate", str(certificate[0]), allowed) from None
