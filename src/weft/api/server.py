"""`weft serve`: the API, and workers in the same process unless the settings say no."""

from __future__ import annotations

import logging
import signal
import socket
import sys

import uvicorn

from weft.api.app import create_app
from weft.api.connections import configured
from weft.api.edge import log_request_ids
from weft.app.metrics import StoreCollector
from weft.app.policy import Policy
from weft.app.settings import ServeSettings
from weft.app.wiring import identity, parts, start_log

log = logging.getLogger("weft")


class _Server(uvicorn.Server):
    """Says where it listens: `--listen HOST:0` takes any free port."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for each in server.sockets:
                host, port = each.getsockname()[:2]
                log.info("weft listens on http://%s:%d", f"[{host}]" if ":" in host else host, port)


def serve(settings: ServeSettings) -> int:
    """Returns when a signal ends it; everything that it started is let go then."""
    start_log(settings)
    log_request_ids()
    # uvicorn raises the signal again when it has ended: then the rest must be let go too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    policy, keystone = Policy(settings.policy), identity(settings)
    with parts(settings) as made:
        app = create_app(
            made.service(policy),
            keystone,
            policy,
            collectors=[StoreCollector(made.store)],
            public_url=settings.public_url,
            auth_url=keystone.auth_url,
        )
        worker = made.worker() if settings.worker else None
        if worker:
            worker.start()
        try:
            _Server(configured(app, settings.host, settings.port)).run()
        finally:
            if worker:
                worker.stop()
    return 0
