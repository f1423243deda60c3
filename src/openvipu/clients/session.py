"""A command's connection to the controller, and its output."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import grpc
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message

from openvipu.clients.config import Connection
from openvipu.proto import admin_pb2_grpc, catalog_pb2_grpc, version_pb2_grpc, vipuuser_pb2_grpc
from openvipu.rpc import ACCESS_KEY_HEADER, USER_HEADER, channel, is_refusal, words_of
from openvipu.rpctls import Tls

PATIENCE = "Please be patient. This operation can take several seconds"
POLL_SECONDS = 0.05
DOT_EVERY = 10
Cause = Literal["exists", "missing", "controller", "agent", ""]
"""Reasons of a failed command that a caller distinguishes: what is to be created exists, what is named doesn't, the
controller or an agent can't be reached; or any other reason."""
_CAUSES: Mapping[grpc.StatusCode, Cause] = {
    grpc.StatusCode.ALREADY_EXISTS: "exists",
    grpc.StatusCode.NOT_FOUND: "missing",
    grpc.StatusCode.UNAVAILABLE: "agent",
}
"""Class of a refusal -> reason."""


class CommandError(Exception):
    """The controller refused; ``status`` is the exit status: 2 for bad input, 1 for the rest."""

    def __init__(self, what: str, reason: str, status: int = 1, cause: Cause = "") -> None:
        super().__init__(f"{what}: failed: {reason.rstrip('.')}.")
        self.status, self.cause = status, cause


class Session:
    """Stubs of all services on one channel, with the user's id and key on every call."""

    def __init__(self, connection: Connection, show_json: bool, admin: bool) -> None:
        tls = Tls.of_client(Path(connection.tls), "admin" if admin else "user") if connection.tls else None
        self.connection = connection
        self.show_json = show_json
        self.is_admin = admin
        self.channel = channel(connection.target, tls, "openvipu-controller" if tls else "")
        self.users = vipuuser_pb2_grpc.UserServiceStub(self.channel)
        self.versions = version_pb2_grpc.VersionServiceStub(self.channel)
        self.catalog = catalog_pb2_grpc.CatalogServiceStub(self.channel)
        self.admin = admin_pb2_grpc.AdminServiceStub(self.channel)
        self._metadata = (
            ((USER_HEADER, connection.user_id), (ACCESS_KEY_HEADER, connection.access_key))
            if connection.user_id
            else ()
        )

    def call(self, what: str, method: Callable[..., Any], request: Any, timeout: float = 60.0) -> Any:
        """The reply; CommandError with ``what`` ("create partition (x)") and the controller's reason."""
        try:
            return method(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._failed(what, error) from None

    def wait(self, poll: Callable[[], bool]) -> None:
        """Poll until it is done, printing a dot now and then, unless the output is JSON."""
        if not self.show_json:
            say(PATIENCE)
        rounds = 0
        while not poll():
            rounds += 1
            self._dot(rounds)
            time.sleep(POLL_SECONDS)
        if rounds >= DOT_EVERY and not self.show_json:
            print(flush=True)

    def _dot(self, rounds: int) -> None:
        if rounds % DOT_EVERY == 0 and not self.show_json:
            print(".", end="", flush=True)

    def succeeded(self, what: str, reply: Message, more: str = "") -> None:
        """The line that scripts look for, or the reply as JSON."""
        if self.show_json:
            say_json(reply)
        else:
            say(f"{what}: success.{more}")

    def show(self, reply: Message, text: Callable[[], str]) -> None:
        """The reply as JSON if that was asked for, else as text."""
        if self.show_json:
            say_json(reply)
        else:
            say(text())

    def _failed(self, what: str, error: grpc.RpcError) -> CommandError:
        code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
        if code is grpc.StatusCode.UNAVAILABLE and not is_refusal(error):
            reason = f"the controller at {self.connection.target} can't be reached: {words_of(error)}"
            return CommandError(what, reason, cause="controller")
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return CommandError(what, f"the controller at {self.connection.target} didn't answer in time")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return CommandError(what, f"{self.connection.target} has no such service; is it the right port?")
        status = 2 if code is grpc.StatusCode.INVALID_ARGUMENT else 1
        return CommandError(what, words_of(error), status, _CAUSES.get(code, ""))


def say(text: str) -> None:
    """Print to standard output, at once."""
    print(text, flush=True)


def complain(text: str) -> None:
    """Print to standard error, at once."""
    print(text, file=sys.stderr, flush=True)


def say_json(reply: Message) -> None:
    """One JSON document with the field names of the wire; zeros too, so that no script has to guess them."""
    say(
        MessageToJson(
            reply, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, indent=2
        )
    )


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell, with `` | `` between them and a blank at the left."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    return "\n".join(f" {line}".rstrip() for line in lines)


def ruled(text: str, above: bool = False, below: bool = False) -> str:
    """A table with a rule under its header, and where wanted one above all of it and one below.

    Scripts go by line numbers: the public tables of partitions have a rule below, those of allocations both.
    """
    lines = text.splitlines()
    rule = "-" * (max(len(line) for line in lines) + 1)
    return "\n".join([*[rule] * above, lines[0], rule, *lines[1:], *[rule] * below])


def sheet(rows: Sequence[tuple[str, object]]) -> str:
    """One thing as the public table of an agent shows it: names and values between two rules."""
    width = max(len(name) for name, _ in rows)
    lines = [f" {name.ljust(width)} | {value}" for name, value in rows]
    rule = "-" * (max(len(line) for line in lines) + 1)
    return "\n".join([rule, *lines, rule])
