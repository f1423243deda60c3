"""``python -m openvipu.proxy``: ``/stats`` and ``/query`` over HTTP, as the V-IPU proxy for Kubernetes has them.

A client of the controller like any other: it asks the user API at ``host:8090`` with its own user.
``/stats`` gives used and available IPUs, for each allocation (in the place of the namespaces that the
original counts by) and in total. ``/query`` takes ``{"size": N}`` and says how many partitions of that
size could be made now.
"""

from __future__ import annotations

import argparse
import json
import os
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, cast

from openvipu.clients.config import resolve
from openvipu.clients.session import CommandError, Session
from openvipu.model.errors import BadRequest
from openvipu.program import listen_address, parser, run, say, wait_for_signal
from openvipu.proto import catalog_pb2
from openvipu.proto import vipuuser_pb2 as pb
from openvipu.rules.board import is_power_of_two
from openvipu.web import WebServer, serve_in_thread

LONGEST_BODY = 4096


class Proxy:
    """Answers both questions through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def stats(self) -> dict[str, dict[str, int]]:
        """Used and available IPUs by allocation, and in ``total``."""
        allocations = self._session.call(
            "stats", self._session.catalog.ListAllocations, catalog_pb2.ListAllocationsRequest()
        ).allocations
        attributes = self._session.call(
            "stats", self._session.users.ListIPUAttributes, pb.ListIPUAttributesRequest()
        ).entries
        partitions = self._session.call(
            "stats", self._session.users.ListPartitions, pb.ListPartitionsRequest()
        ).partitions
        ipus = {entry.agent: len(entry.ipu_attributes) for entry in attributes}
        found: dict[str, dict[str, int]] = {}
        for allocation in allocations:
            used = sum(
                len(entry.spec.ipus) for entry in partitions if entry.spec.allocation_id == allocation.id
            )
            size = sum(ipus.get(agent, 0) for agent in allocation.spec.agent_ids)
            found[allocation.id] = {"used": used, "available": size - used}
        used = sum(len(entry.spec.ipus) for entry in partitions)
        return found | {"total": {"used": used, "available": sum(ipus.values()) - used}}

    def query(self, size: int) -> dict[str, Any]:
        """How many partitions of ``size`` could be made now; ``available`` false with the reason if it is no size.

        A size that this site never has is currently unavailable, without a message, as the original answers
        [user guide].
        """
        wanted = pb.PartitionRequirements(id="query", size=size)
        request = catalog_pb2.ListPartitionOptionsRequest(requirements=wanted)
        try:
            options = self._session.call("query", self._session.catalog.ListPartitionOptions, request).options
        except CommandError as failure:
            if is_power_of_two(size) and failure.status == 2:
                return {"available": True, "numOfPartitions": 0, "message": ""}
            return {"available": False, "numOfPartitions": 0, "message": str(failure)}
        free = sum(1 for option in options if option.free)
        return {"available": True, "numOfPartitions": free, "message": ""}


class Handler(BaseHTTPRequestHandler):
    """The HTTP side; a subclass carries the proxy that it asks."""

    proxy: Proxy
    timeout = 30

    def do_GET(self) -> None:
        if self.path != "/stats":
            self._answer(404, {"message": f"{self.path} doesn't exist; use /stats or /query"})
            return
        try:
            self._answer(200, self.proxy.stats())
        except CommandError as failure:
            self._answer(502, {"message": str(failure)})

    def do_POST(self) -> None:
        if self.path != "/query":
            self._answer(404, {"message": f"{self.path} doesn't exist; use /stats or /query"})
            return
        size = self._size()
        if size is None:
            self._answer(400, {"message": 'the body must be {"size": N} with a whole number N'})
            return
        self._answer(200, self.proxy.query(size))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Quiet: the controller counts the calls."""

    def _size(self) -> int | None:
        length = length_of(self.headers.get("Content-Length", ""))
        if length is None:
            return None
        try:
            body: Any = json.loads(self.rfile.read(length))
        except (ValueError, RecursionError):
            return None
        size = cast("dict[str, Any]", body).get("size") if isinstance(body, dict) else None
        whole = isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= 0xFFFFFFFF
        return size if whole else None

    def _answer(self, status: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def length_of(text: str) -> int | None:
    """The bytes of a body by its header; None if it isn't a number, or too large."""
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) > LONGEST_BODY:
        return None
    return int(text)


def main(argv: list[str] | None = None) -> int:
    """Run the proxy until a signal; returns the exit code."""
    return run("openvipu.proxy", lambda: _main(_parser().parse_args(argv)))


def _parser() -> argparse.ArgumentParser:
    made = parser("openvipu.proxy", "/stats and /query over HTTP.")
    made.add_argument("--listen", default="127.0.0.1:8100", metavar="HOST:PORT")
    for name in ("api-host", "api-port", "config", "api-user-id", "api-access-key", "tls"):
        made.add_argument(f"--{name}", help="as of vipu")
    return made


def _main(arguments: argparse.Namespace) -> int:
    flags = {key.replace("_", "-"): value for key, value in vars(arguments).items() if key != "listen"}
    connection = resolve(flags, os.environ, Path.home(), Path.cwd(), admin=False)
    session = Session(connection, show_json=False, admin=False)
    with session.channel:
        server = start(Proxy(session), *listen_address(arguments.listen))
        say(f"proxy on port {server.server_address[1]}")
        wait_for_signal()
        server.shutdown()
        server.server_close()
    return 0


def start(proxy: Proxy, host: str, port: int) -> WebServer:
    """A server in a thread of its own; ``shutdown`` and ``server_close`` end it."""
    try:
        server = WebServer((host, port), type("BoundHandler", (Handler,), {"proxy": proxy}))
    except OSError as error:
        raise BadRequest(f"address {host}:{port} can't be listened on: {error.strerror}") from None
    serve_in_thread(server, "proxy")
    return server


if __name__ == "__main__":
    raise SystemExit(main())
