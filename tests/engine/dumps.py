"""A dump of weft's database and its restoration, in SQL, while the cloud and the fabric go on."""

from __future__ import annotations

from typing import Any, LiteralString, cast

import psycopg


def _tables(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'public' AND c.relkind = 'r'"
    ).fetchall()
    return [r[0] for r in rows]


def _run(connection: psycopg.Connection[Any], text: str) -> None:
    connection.execute(cast(LiteralString, text))


def dump(url: str) -> None:
    """Copy every table to the schema `dump`."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS dump CASCADE")
        connection.execute("CREATE SCHEMA dump")
        for table in _tables(connection):
            _run(connection, f'CREATE TABLE dump."{table}" AS SELECT * FROM ONLY public."{table}"')


def restore(url: str) -> None:
    """Replace every table's rows by those of the dump."""
    with psycopg.connect(url) as connection:
        connection.execute("SET LOCAL session_replication_role = replica")
        tables = _tables(connection)
        for table in tables:
            _run(connection, f'DELETE FROM ONLY public."{table}"')
        for table in tables:
            columns = connection.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped "
                "AND attgenerated = ''",
                [f'public."{table}"'],
            ).fetchall()
            names = ", ".join(f'"{name}"' for (name,) in columns)
            _run(
                connection,
                f'INSERT INTO public."{table}" ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM dump."{table}"',
            )
        connection.execute("DROP SCHEMA dump CASCADE")
