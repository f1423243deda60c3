"""What is in a database besides PostgreSQL's own things and those of extensions."""

from __future__ import annotations

from typing import Any, cast

from psycopg.rows import DictRow
from psycopg.sql import SQL, Identifier

from weft.engine.backup.dump import Connection

_MEMBER = """
    EXISTS (SELECT FROM pg_depend d WHERE d.objid = {0}.oid AND d.classid = '{1}'::regclass AND d.deptype IN ({2}))
"""
_THINGS = f"""
    WITH relation AS (
        SELECT n.nspname, c.relname AS name, NULL::text AS arguments, CASE c.relkind
            WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'S' THEN 'sequence'
            WHEN 'f' THEN 'foreign table' ELSE 'table' END AS what
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm', 'S') AND NOT {_MEMBER.format("c", "pg_class", "'e', 'i', 'a'")}
    ), routine AS (
        SELECT n.nspname, p.proname, pg_get_function_identity_arguments(p.oid), 'routine'
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE NOT {_MEMBER.format("p", "pg_proc", "'e'")}
    ), type AS (
        SELECT n.nspname, t.typname, NULL, 'type' FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
        LEFT JOIN pg_class c ON c.oid = t.typrelid
        WHERE (t.typtype IN ('e', 'd', 'r') OR (t.typtype = 'c' AND c.relkind = 'c'))
            AND NOT {_MEMBER.format("t", "pg_type", "'e'")}
    )
    SELECT * FROM (TABLE relation UNION ALL TABLE routine UNION ALL TABLE type) thing
    WHERE CASE WHEN %(namespace)s::text IS NULL THEN nspname <> 'information_schema' AND nspname !~ '^pg_'
        ELSE nspname = %(namespace)s END
    ORDER BY what = 'table' DESC, what, nspname, name
"""
_ORDER = ("view", "materialized view", "table", "foreign table", "routine", "sequence", "type")


def things(connection: Connection) -> list[str]:
    """Kinds and names of all things in the database, tables first."""
    return [f"{one['what']} {one['name']}" for one in _found(connection, None)]


def remove_all(connection: Connection, namespace: str) -> None:
    """Remove everything in a schema, and what depends on it; extensions stay."""
    found = _found(connection, namespace)
    for kind in _ORDER:
        for one in found:
            if one["what"] == kind:
                name = Identifier(one["nspname"], one["name"])
                arguments = SQL("" if one["arguments"] is None else cast(Any, f"({one['arguments']})"))
                drop = SQL("DROP {} IF EXISTS {}{} CASCADE")
                connection.execute(drop.format(SQL(cast(Any, kind.upper())), name, arguments))


def _found(connection: Connection, namespace: str | None) -> list[DictRow]:
    return connection.execute(cast(Any, _THINGS), {"namespace": namespace}).fetchall()
