"""Stuck rows in the journal of Neutron's database, which is found by Neutron's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from oslo_config import cfg

from weft.config.databaseurl import check_database_url
from weft.model.errors import InputError
from weft.model.extras import installation

OLDER = range(20, 86_401)
"""Allowed ages of stuck rows, in seconds: the driver waits 10 s for an answer, so younger ones may be under way."""
PRUNED = range(600, 31_536_001)
"""Allowed ages of completed rows to be removed, in seconds: the driver itself keeps them for 600
(`completed_rows_retention`), so that recent ones can be looked up."""


@dataclass(frozen=True, slots=True)
class StuckRows:
    """Rows that were stuck in the journal, and how many of them will be sent again.

    Attributes:
        rows: each with `id`, `object_type`, `object_id`, `operation`, `seconds`.
        freed: number of freed rows; None without `repair`.
        pruned: number of completed rows removed; None without `prune`.
    """

    rows: tuple[dict[str, str | int], ...]
    freed: int | None
    pruned: int | None = None


def stuck_rows(neutron_config: Path, older: int, repair: bool, prune: int | None = None) -> StuckRows:
    """Look for rows that are stuck, and free them if `repair`; remove those completed `prune` seconds ago.

    Raises `InputError`; `UnknownError` if the database doesn't answer; `PermanentError` if it has no journal.
    """
    if older not in OLDER:
        raise InputError("--older", older, f"{OLDER.start} to {OLDER.stop - 1} seconds")
    if prune is not None and prune not in PRUNED:
        raise InputError("--prune", prune, f"{PRUNED.start} to {PRUNED.stop - 1} seconds")
    url = database_url(neutron_config)
    try:
        from weft.drivers.openstack.sdnjournal import SdnJournal
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        raise InputError(
            "--neutron-config",
            str(neutron_config),
            f"a client of its database, which isn't installed: {installation('neutron')}",
        ) from None
    journal = SdnJournal(url)
    try:
        found = journal.stuck(older)
        freed = (journal.free(found, older) if found else 0) if repair else None
        pruned = None if prune is None else journal.prune(prune)
    finally:
        journal.close()
    rows = tuple(
        {
            "id": r.id,
            "object_type": r.object_type,
            "object_id": r.object_id,
            "operation": r.operation,
            "seconds": r.seconds,
        }
        for r in found
    )
    return StuckRows(rows, freed, pruned)


def database_url(neutron_config: Path) -> str:
    """`[database] connection` of a file in oslo.config's format. Raises `InputError`."""
    config = cfg.ConfigOpts()
    config.register_opts([cfg.StrOpt("connection", secret=True)], group="database")
    try:
        config([], default_config_files=[str(neutron_config)], default_config_dirs=[])
        url = config.database.connection
    except (cfg.Error, OSError, UnicodeDecodeError) as error:
        why = " ".join(str(getattr(error, "strerror", None) or type(error).__name__).split())
        allowed = f"Neutron's configuration, readable ({why})"
        raise InputError("--neutron-config", str(neutron_config), allowed) from None
    if not url:
        raise InputError("--neutron-config", str(neutron_config), "a file with [database] connection")
    check_database_url("[database] connection", str(url), "mysql+pymysql://neutron:PASSWORD@HOST/neutron")
    return str(url)
