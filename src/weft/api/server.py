"""`weft serve`: the API with the console, and a worker process unless the settings turn it off."""

from __future__ import annotations

import logging
import signal
import socket
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn

from weft.api.app import create_app
from weft.api.certificate import LOOK_SECONDS, CertificateReload
from weft.api.connections import configured, raise_file_limit
from weft.api.edge import LINES
from weft.api.notices import notices, read_token
from weft.api.waiting import WaitingRoom
from weft.app.certificatemetrics import CertificateCollector, agent_certificates, certificate_files
from weft.app.metrics import AccountCollector, StoreCollector
from weft.app.policy import Policy
from weft.app.servecertificate import check_certificate
from weft.app.settings import ServeSettings
from weft.app.wiring import keystone, shared_services, start_log
from weft.app.workerprocess import WorkerProcess
from weft.engine.base.tuning import keep_survivors
from weft.model.errors import InputError
from weft.web.app import add_console

log = logging.getLogger("weft")


class HangUpSignal:
    """Catches SIGHUP, which then doesn't end the process. Create it in the main thread."""

    def __init__(self) -> None:
        self._came = False
        signal.signal(signal.SIGHUP, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = True

    def take(self) -> bool:
        """Whether SIGHUP has arrived since the last call."""
        came, self._came = self._came, False
        return came


class _Server(uvicorn.Server):
    """uvicorn's server, which prints the address that it listens on: `--listen HOST:0` takes any free port.

    Args:
        waiting: the waiting requests, which are answered when the server stops.
        certificate: files of its certificate and key; checked every `LOOK_SECONDS`, and on SIGHUP.
        hang_up: the handler of SIGHUP; None: a new one.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        waiting: WaitingRoom,
        certificate: tuple[Path, Path] | None = None,
        hang_up: HangUpSignal | None = None,
    ) -> None:
        super().__init__(config)
        self._waiting, self._certificate = waiting, certificate
        self._renewal: CertificateReload | None = None
        self._looked = time.monotonic()
        self._hang_up = hang_up or HangUpSignal()

    async def on_tick(self, counter: int) -> bool:
        """uvicorn's housekeeping, called ten times a second."""
        if hung_up := self._hang_up.take():
            also = "; the TLS certificate is loaded again" if self._renewal else ""
            log.info("SIGHUP: settings are read at the start alone%s", also)
        if self._renewal and (hung_up or time.monotonic() - self._looked >= LOOK_SECONDS):
            self._looked = time.monotonic()
            self._renewal.look(again=hung_up)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._waiting.end_all()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._certificate and self.config.ssl:
            self._renewal = CertificateReload(self._certificate, self.config.ssl)
        for server in self.servers:
            for each in server.sockets:
                host, port = each.getsockname()[:2]
                scheme = "https" if self.config.is_ssl else "http"
                log.info("weft listens on %s://%s:%d", scheme, f"[{host}]" if ":" in host else host, port)


def serve(settings: ServeSettings) -> int:
    """Serve until SIGTERM or SIGINT, then stop everything that was started.

    Raises `InputError` if it can't listen on the address or use the certificate, before anything is done.
    """
    hang_up = HangUpSignal()  # at once: it may come while the database is started
    start_log(settings, LINES)
    raise_file_limit()
    keep_survivors()
    # uvicorn raises the signal again after its shutdown: the rest must be stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    check_certificate(settings.certificate)
    policy = Policy(settings.policy)
    identity, sign_in = keystone(settings)
    token = read_token(settings.neutron_token, "--neutron-token") if settings.neutron_token else None
    scraping = settings.monitoring_token
    own = str(settings.certificate[0]) if settings.certificate else None
    monitoring = read_token(scraping, "--monitoring-token") if scraping else None
    with (
        listening(settings.host, settings.port) as listener,
        shared_services(replace(settings, worker=False)) as made,
    ):
        worker = WorkerProcess(settings) if settings.worker else None
        app = create_app(
            made.service(policy, worker.checks if worker else None),
            identity,
            policy,
            collectors=[
                StoreCollector(made.store),
                AccountCollector(lambda: identity.lacks_role),
                CertificateCollector(
                    partial(certificate_files, made.store, own), partial(agent_certificates, made.store)
                ),
            ],
            public_url=settings.public_url,
            auth_url=identity.auth_url,
            more=[notices(token, made.announce_tenant_networks)] if token else [],
            monitoring_token=monitoring,
        )
        add_console(app, sign_in, made.store.database, settings.websso_url)
        if worker:
            worker.start()
        try:
            config = configured(app, certificate=settings.certificate)
            _Server(config, app.state.waiting, settings.certificate, hang_up).run([listener])
        finally:
            if worker:
                worker.stop()
    return 0


def listening(host: str, port: int) -> socket.socket:
    """A bound socket, not listening yet. Raises `InputError` if the address can't be used."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        # The protocol is given because asyncio leaves TCP_NODELAY off otherwise (40 ms per request).
        listener = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        allowed = f"a free address of this machine ({error.strerror or error})"
        raise InputError("--listen", f"{host}:{port}", allowed) from None
    return listener
