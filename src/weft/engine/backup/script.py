"""What pg_restore writes for a dump, carried out on a connection: in one transaction, with what precedes it.

pg_restore itself could neither replace a database's tables in one transaction nor check them before it ends.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, cast

import psycopg

from weft.engine.backup.file import Backup
from weft.engine.backup.programs import Program, running
from weft.model.errors import InputError

_COPY = re.compile(rb"COPY .* FROM stdin;\n")
_LEFT_OUT = re.compile(rb"^(?:\\(?:un)?restrict [A-Za-z0-9]+|SET transaction_timeout = 0;)\n", re.MULTILINE)
"""Lines for psql, or for servers of PostgreSQL 17 and newer, which aren't executed."""
_NAMESPACE = re.compile(rb"^\d+; \d+ \d+ (?:SCHEMA|COMMENT) - ", re.MULTILINE)
_END = b"\\.\n"


def contents(found: Program, backup: Backup) -> bytes:
    """Table of contents of the dump, without the schema itself, which is there. Raises `InputError`."""
    with _reading(found, backup, "--list") as under_way:
        listed = b"".join(under_way.output)
    lines = listed.splitlines(keepends=True)
    return b"".join(line for line in lines if not _NAMESPACE.match(line))


def carry_out(connection: psycopg.Connection[Any], found: Program, backup: Backup, listed: bytes) -> None:
    """Make the dump's tables and fill them. Raises `psycopg.Error`, `InputError`."""
    with tempfile.NamedTemporaryFile(prefix="weft-restore-") as file:
        file.write(listed)
        file.flush()
        script = partial(_reading, found, backup, f"--use-list={file.name}", "--file=-")
        with script("--section=pre-data") as under_way:
            _statements(connection, under_way.output)
        with script("--section=data") as under_way:
            _data(connection, _lines(under_way.output))
        with script("--section=post-data") as under_way:
            _statements(connection, under_way.output)


def _reading(found: Program, backup: Backup, *arguments: str) -> Any:
    def failed(text: str) -> InputError:
        return InputError("FILE", backup.name, f"a dump that pg_restore {found.version} can read: {text}")

    wanted = ["--no-owner", "--no-privileges", *arguments]
    return running(found, wanted, fed=backup.dump(), failed=failed)


def _statements(connection: psycopg.Connection[Any], output: Iterable[bytes]) -> None:
    connection.execute(cast(Any, _LEFT_OUT.sub(b"", b"".join(output))))


def _data(connection: psycopg.Connection[Any], lines: Iterator[bytes]) -> None:
    """Statements of one line each, and rows after each COPY, in which no line is the end's."""
    for line in lines:
        if _COPY.fullmatch(line):
            with connection.cursor().copy(cast(Any, line)) as copy:
                for batch in _rows(lines):
                    copy.write(batch)
        elif (text := _LEFT_OUT.sub(b"", line).strip()) and not text.startswith(b"--"):
            connection.execute(cast(Any, text))


def _rows(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Rows up to the end of a table, many at once."""
    batch, size = list[bytes](), 0
    for line in lines:
        if line == _END:
            break
        batch.append(line)
        size += len(line)
        if size > 256 << 10:
            yield b"".join(batch)
            batch, size = [], 0
    else:
        raise InputError("FILE", "", "a dump whose tables are whole")
    yield b"".join(batch)


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if rest:
        yield rest + b"\n"
