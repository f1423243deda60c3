"""Log messages without the credentials of URLs, whichever library writes them."""

from __future__ import annotations

import logging

from weft.model.errors import without_password


class SafeFormatter(logging.Formatter):
    """Formats a record, traceback included, and takes users and passwords out of its URLs."""

    def format(self, record: logging.LogRecord) -> str:
        """The formatted record without credentials in URLs."""
        return without_password(super().format(record))
