"""Limits of connections: their number, and the total time of each step."""

from __future__ import annotations

import contextlib
import io
import select
import socket
import ssl
import threading
import time
from collections import OrderedDict


class Connections:
    """Counts connections. Thread-safe.

    Authenticated connections keep their slots. Of the others, the oldest is closed for the newest: any number of idle
    ones can't keep our clients out for long, nor use more threads than there are slots.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._strangers: OrderedDict[int, socket.socket] = OrderedDict()
        self._known: set[int] = set()

    def enter(self, connection: socket.socket) -> bool:
        """Give a new connection a slot; False: there is none."""
        with self._lock:
            if len(self._known) + len(self._strangers) >= self._most:
                if not self._strangers:
                    return False
                _, oldest = self._strangers.popitem(last=False)
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its own thread ends it
            self._strangers[id(connection)] = connection
            return True

    def met(self, connection: socket.socket) -> None:
        """Note that the connection's client has authenticated."""
        with self._lock:
            if self._strangers.pop(id(connection), None) is not None:
                self._known.add(id(connection))

    def leave(self, connection: socket.socket) -> None:
        """Forget a closed connection; unknown ones are ignored."""
        with self._lock:
            self._strangers.pop(id(connection), None)
            self._known.discard(id(connection))


def handshake(connection: ssl.SSLSocket, seconds: float) -> None:
    """Limit the whole handshake to this many seconds. Raises `OSError`."""
    end = time.monotonic() + seconds
    connection.settimeout(0.0)
    while True:
        try:
            connection.do_handshake()
            return
        except ssl.SSLWantReadError:
            _wait(connection, end, reading=True)
        except ssl.SSLWantWriteError:
            _wait(connection, end, reading=False)


def _wait(connection: socket.socket, end: float, reading: bool) -> None:
    left = end - time.monotonic()
    readers, writers = ([connection], []) if reading else ([], [connection])
    if left <= 0 or not any(select.select(readers, writers, [], left)):
        raise TimeoutError("the handshake took too long")


class DeadlineReader(io.RawIOBase):
    """Reads a connection with an absolute deadline, instead of a timeout after each byte."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._end = 0.0

    def buffered(self) -> io.BufferedReader:
        """This reader with a buffer, for use as the `rfile` of a handler."""
        return io.BufferedReader(self)

    def within(self, seconds: float) -> None:
        """Set the deadline for what is read from now on."""
        self._end = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("it did not arrive completely in time")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)
