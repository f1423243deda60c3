"""Closes connections that send nothing, or too slowly; uvicorn itself waits for them without a limit.

uvicorn only times keep-alive connections between requests. Here a request's head must arrive within `HEAD_SECONDS`,
a response must be read within `ANSWER_SECONDS`, and beyond the connection limit those that have been idle longest
are closed first. Bodies are timed where they are read (`weft.api.bodies`).
"""

from __future__ import annotations

import asyncio
import json
import resource
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.engine.base.tuning import collect_rarely
from weft.model.errortable import TYPE_PREFIX
from weft.model.messages import errors

HEAD_SECONDS = 10.0
"""Seconds from the connection, or the previous response, to the end of a request's head."""
ANSWER_SECONDS = 60.0
"""Seconds for which a client may leave a response unread in the socket."""
LARGEST_HEAD = 128 << 10
"""Bytes of a request's line and headers."""
MOST_CONNECTIONS = 4_000


def most_connections() -> int:
    """At most `MOST_CONNECTIONS`, and half of this process's file descriptor limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, soft // 2)


def raise_file_limit() -> None:
    """Raise the soft limit of open files to the hard one; the soft one is for programs that use select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 4 * MOST_CONNECTIONS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with limits; see the module's docstring."""

    head_seconds = HEAD_SECONDS
    answer_seconds = ANSWER_SECONDS
    most = MOST_CONNECTIONS

    _head: asyncio.TimerHandle | None = None
    _answer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > min(self.most, most_connections()):
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._answering:
            self._head = _cancelled(self._head)
        elif not self.transport.is_closing():
            self._await_head()

    def on_response_complete(self) -> None:
        """Wait for the next request's head, within its limit."""
        super().on_response_complete()
        if not self.transport.is_closing() and not self._answering:
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._answer = self.loop.call_later(self.answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._answer = _cancelled(self._answer)
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Non-HTTP input gets a problem document too, and the connection is closed."""
        problem = {
            "type": f"{TYPE_PREFIX}http",
            "title": "Bad request",
            "status": 400,
            "detail": "not HTTP/1.1",
            "code": errors.INVALID_INPUT.name,
            "params": {},
        }
        body = json.dumps(problem).encode()
        headers = [
            ("content-type", "application/problem+json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    @property
    def _answering(self) -> bool:
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def _await_head(self) -> None:
        if self._head is None:  # further bytes don't restart the timer
            self._head = self.loop.call_later(self.head_seconds, self.transport.abort)

    def _make_room(self) -> None:
        """Close the connection that has been idle longest; if all are busy, this one."""
        waiting = [c for c in self.connections if isinstance(c, BoundedProtocol) and c._head is not None]
        oldest = min(waiting, key=lambda c: c._head.when() if c._head else 0.0, default=self)
        oldest.transport.abort()

    def _stop_timers(self) -> None:
        self._head, self._answer = _cancelled(self._head), _cancelled(self._answer)


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def configured(
    app: Any,
    host: str = "127.0.0.1",
    port: int = 0,
    certificate: tuple[Path, Path] | None = None,
    log_level: str = "warning",
) -> uvicorn.Config:
    """uvicorn as weft runs it, with its limits; also used by the tests. Makes this process's garbage collector run
    rarely.

    Args:
        certificate: PEM files of a certificate chain and of its key; None: no TLS.
    """
    collect_rarely()
    chain, key = certificate or (None, None)
    return uvicorn.Config(
        app,
        host,
        port,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        h11_max_incomplete_event_size=LARGEST_HEAD,
        timeout_graceful_shutdown=5,
        log_config=None,  # uvicorn logs where the process logs
        access_log=False,  # weft.api.edge logs each request
        log_level=log_level,
        ssl_certfile=chain,
        ssl_keyfile=key,
    )
