"""Log messages have no credentials of URLs, in whatever part of a record they are."""

from __future__ import annotations

import logging

from weft.model.logtext import SafeFormatter


def test_credentials_in_a_url_are_left_out_of_messages_and_tracebacks() -> None:
    """Also as an argument, and in the text of an exception."""
    url = "http://weft:s3cret@keystone.example/v3"
    try:
        raise OSError(f"no answer of {url}")
    except OSError as error:
        info = (OSError, error, error.__traceback__)
    record = logging.LogRecord("keystoneauth", logging.WARNING, "", 0, "contacting %s", (url,), info)
    said = SafeFormatter("%(name)s: %(message)s").format(record)
    assert said.startswith("keystoneauth: contacting http://***@keystone.example/v3")
    assert "OSError" in said and "s3cret" not in said
