"""Lines of logs, as text and as JSON."""

from __future__ import annotations

import json
import logging
from typing import Any

from weft.model.errors import ConflictError
from weft.model.logtext import POD, REQUEST_ID, formatter, visiting
from weft.model.messages import health

LOG = logging.getLogger("weft.test")


def record(message: Any, *values: Any, error: BaseException | None = None, **more: Any) -> logging.LogRecord:
    raised = (type(error), error, error.__traceback__) if error else None
    made = LOG.makeRecord(LOG.name, logging.WARNING, __file__, 1, message, values, raised, extra=more or None)
    made.created, made.msecs = 1_700_000_000.25, 250.0
    return made


def line(*words: Any, **more: Any) -> dict[str, Any]:
    text = formatter("json", "").format(record(*words, **more))
    assert "\n" not in text and text.isascii()
    return json.loads(text)


def test_json_line_has_time_level_logger_and_message() -> None:
    """Time in UTC; unknown fields are left out; a message's line ends stay in the line."""
    assert line("100 %% of %s\nall — ok", "gpu01") == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "WARNING",
        "logger": "weft.test",
        "message": "100 % of gpu01\nall — ok",
    }


def test_json_line_names_request_pod_and_code() -> None:
    """Request and pod of the current thread, and the code of the message or error."""
    token = REQUEST_ID.set("req-1")
    try:
        with visiting("1234"):
            found = line("not ready: %s", health.STARTING())
    finally:
        REQUEST_ID.reset(token)
    assert (found["request_id"], found["pod"]) == ("req-1", "1234")
    assert found["code"] == health.STARTING().code
    assert POD.get() == "" and "request_id" not in line("later")
    assert line("refused: %s", ConflictError(health.STARTING()))["code"] == health.STARTING().code


def test_json_line_has_no_credentials_of_urls() -> None:
    """In message and traceback, whichever library wrote them."""
    url = "https://weft:canary7@host/x"
    found = line("asked %s", url, error=ValueError(url), path=url)
    assert "canary7" not in json.dumps(found)
    assert found["message"] == "asked https://***@host/x" and "ValueError" in found["traceback"]


def test_json_line_of_an_invalid_or_long_message_is_kept() -> None:
    """A message whose arguments don't fit is kept as it is; a long one is cut and has its length."""
    assert line("%d of %s", "x")["message"] == "%d of %s ('x',)"
    assert line({"a": 1})["message"] == "{'a': 1}"
    assert line("x" * 5_000)["message"].endswith("… (5000 characters)")


def test_text_line_has_the_request_id() -> None:
    """`-` outside a request."""
    assert formatter("text", "[%(request_id)s] %(message)s").format(record("a")) == "[-] a"
