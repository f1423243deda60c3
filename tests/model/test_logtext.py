"""Log messages have no credentials of URLs, in any part of a record."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from weft.model.logtext import SafeFormatter, formatter


def test_credentials_in_a_url_are_removed_from_messages_and_tracebacks() -> None:
    """Also in arguments, and in the text of an exception."""
    url = "http://weft:s3cret@keystone.example/v3"
    try:
        raise OSError(f"no answer of {url}")
    except OSError as error:
        info = (OSError, error, error.__traceback__)
    record = logging.LogRecord("keystoneauth", logging.WARNING, "", 0, "contacting %s", (url,), info)
    said = SafeFormatter("%(name)s: %(message)s").format(record)
    assert said.startswith("keystoneauth: contacting http://***@keystone.example/v3")
    assert "OSError" in said and "s3cret" not in said


def test_external_text_adds_no_line() -> None:
    """A cloud's answer, in the message or in a traceback, may contain a tenant's text."""
    forged = "no\n2026-11-29 WARNING weft.api: forged\r2026-11-29 WARNING\x1b[2K\u2028\x85"
    try:
        raise OSError(forged)
    except OSError as error:
        info = (OSError, error, error.__traceback__)
    record = logging.LogRecord("weft", logging.WARNING, "", 0, "answer: %s", (forged,), info)
    first, *more = SafeFormatter("%(levelname)s %(message)s").format(record).split("\n")
    assert first == "WARNING answer: no" and len(more) > 4
    assert all(line.startswith("    ") and line.isprintable() for line in more)


def test_password_in_a_urls_query_is_removed() -> None:
    """libpq and weft accept `password` and `sslpassword` there."""
    url = "postgresql://db/weft?user=weft&password=s3cret&sslpassword=s3cret&sslmode=verify-full"
    record = logging.LogRecord("weft", logging.WARNING, "", 0, "can't reach '%s'", (url,), None)
    said = SafeFormatter("%(message)s").format(record)
    left = url.replace("s3cret", "***")
    assert said == f"can't reach '{left}'"


class Unwritable:
    """A value whose `str` fails."""

    def __str__(self) -> str:
        raise RuntimeError("http://weft:s3cret@keystone.example")

    __repr__ = __str__


URL = "http://weft:s3cret@keystone.example"


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    ("message", "values"),
    [("%d", (URL,)), ("%(a)s", ({"b": URL},)), ("%s %s", (URL,)), ("%s", (Unwritable(),)), ("", (URL,))],
)
def test_line_with_invalid_arguments_is_kept_without_credentials(
    form: str, message: str, values: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python's own report of such a mistake would print the values."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(form, "%(levelname)s %(message)s"))
    handler.handle(logging.LogRecord("library", logging.WARNING, "", 0, message, values, None))
    found = capsys.readouterr().err
    assert "WARNING" in found and found.count("\n") == 1
    assert "s3cret" not in found and "Logging error" not in found
