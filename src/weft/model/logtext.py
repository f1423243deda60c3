"""Lines of logs: as text or as JSON, without the credentials of URLs, whichever library writes them."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from datetime import UTC, datetime

from weft.model.errors import WeftError, without_password
from weft.model.messages import Message

REQUEST_ID: ContextVar[str] = ContextVar("weft_request_id", default="")
"""Id of the request being answered; empty outside of requests."""
POD: ContextVar[str] = ContextVar("weft_pod", default="")
"""Id of the pod being visited; empty outside of visits."""
LONGEST_MESSAGE, LONGEST_TRACEBACK = 4_000, 16_000
"""Characters of a line's message, and of the end of its traceback: journald cuts lines of 48 KiB."""
_MARGIN = "    "
_MORE = ("code", "pod", "method", "path", "status", "ms", "user", "project", "client", "global_request_id")
"""Attributes of a record that are added to its line, if it has them."""


class SafeFormatter(logging.Formatter):
    """Formats a record, traceback included, and takes users and passwords out of its URLs.

    Only its first line begins at the margin, since text from outside, such as a cloud's answer with a tenant's words in
    it, must not look like a line of its own, or control a terminal.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The formatted record without credentials in URLs."""
        record.request_id = REQUEST_ID.get() or "-"
        whole = copy(record)
        whole.msg, whole.args = _message(record), None
        first, *more = without_password(super().format(whole)).split("\n")
        return "\n".join([_visible(first), *(f"{_MARGIN}{_visible(line)}" for line in more)])


class JsonFormatter(logging.Formatter):
    """One JSON object in a line: `time` (UTC), `level`, `logger`, `message`, and what else is known of it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, ASCII alone, without its end."""
        fields: dict[str, object] = {
            "time": f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": _cut(without_password(_message(record)), LONGEST_MESSAGE),
        }
        known: dict[str, object] = {"request_id": REQUEST_ID.get(), "pod": POD.get(), "code": _code(record)}
        known |= {name: getattr(record, name) for name in _MORE if hasattr(record, name)}
        fields |= {
            name: without_password(value) if isinstance(value, str) else value
            for name, value in known.items()
            if value not in ("", None)
        }
        if record.exc_info:
            text = without_password(self.formatException(record.exc_info))
            fields["traceback"] = text if len(text) <= LONGEST_TRACEBACK else f"…{text[-LONGEST_TRACEBACK:]}"
        return json.dumps(fields, default=str)


@contextmanager
def visiting(pod_id: str) -> Generator[None]:
    """Within the block, log lines of this thread have the pod's id."""
    token = POD.set(pod_id)
    try:
        yield
    finally:
        POD.reset(token)


def formatter(form: str, text: str) -> logging.Formatter:
    """The formatter of a format of `logs.format`.

    Args:
        text: of lines of text, as `logging.Formatter` has it; it may have `%(request_id)s`.
    """
    return JsonFormatter() if form == "json" else SafeFormatter(text)


def _visible(line: str) -> str:
    return line if line.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in line)


def _message(record: logging.LogRecord) -> str:
    """The message. A library's mistake in it must not lose the line: Python would write the values as they are."""
    try:
        return record.getMessage()
    except Exception:
        pass
    try:
        return f"{record.msg} {record.args}"
    except Exception as error:
        return f"a message that can't be written ({type(error).__name__})"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def _code(record: logging.LogRecord) -> str:
    """The code of the first message or error with one among the record's values."""
    values = record.args if isinstance(record.args, tuple) else ()
    raised = record.exc_info[1] if record.exc_info else None
    for value in (record.msg, *values, raised):
        found = value.message if isinstance(value, WeftError) else value
        if isinstance(found, Message) and found.code:
            return found.code
    return ""
