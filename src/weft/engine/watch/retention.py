"""Removes records that are past their retention time and no longer needed, in small batches.

What the audit and the sweep still need stays, however old it is: rows of a released pod that has numbers kept, a number
that a standby manager may still have, a node in quarantine or a trace of it that isn't gone; the active site; receipts,
and their corrections.

Any number of workers may run it: one row says whose turn it is. Each batch is a transaction of its own, so that it can
be interrupted anywhere, and locks nothing for long.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database
from weft.engine.base.pulse import Pulse
from weft.engine.rows import orderkeys
from weft.engine.rows.siteparts import KEPT_FOR
from weft.model.errors import WeftError
from weft.model.ids import span
from weft.model.kindrow import Home
from weft.model.kinds import Kind
from weft.model.site import RetentionPolicy, Site

log = logging.getLogger(__name__)

EVERY = 3600.0
"""Seconds between two rounds."""
LONGEST = 1800.0
"""Seconds after which another worker begins a round, if one hasn't finished."""
BATCH = 1000
"""Rows removed by one transaction."""
MOST_BATCHES = 200
"""Batches of one kind in one round; the rest is left to the next one, which follows at once."""


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """Args: every: seconds between rounds. batch: rows of a transaction. pause: seconds between transactions."""

    every: float = EVERY
    batch: int = BATCH
    pause: float = 0.05


class Retention:
    """Removes old records. Any number may run; the database decides whose turn it is."""

    def __init__(
        self,
        database: Database,
        site: Callable[[], Site],
        settings: RetentionSettings | None = None,
        pulse: Pulse | None = None,
    ) -> None:
        self._database, self._site = database, site
        self._settings, self._pulse = settings or RetentionSettings(), pulse or Pulse()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)

    def start(self) -> None:
        """Begin the thread."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Begin no further batch."""
        self._stop.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        pause, limit = 1.0, self._settings.every + LONGEST
        self._pulse.turn("retention", limit)
        while not self._stop.wait(pause):
            try:
                pause = self.run_due()
                self._pulse.turn("retention", limit)
            except WeftError as error:
                self._pulse.trouble("retention", error)
                log.warning("retention: %s", error)
                pause = 60.0
            except Exception as error:
                self._pulse.trouble("retention", error)
                log.exception("retention: defect in weft")
                pause = 600.0

    def run_due(self) -> float:
        """Run a round if it is due and no other process does; returns seconds until it may be due again."""
        with self._database.transaction() as tx:
            now = tx.now()
            mine = tx.row("take_retention", at=now, later=now + timedelta(seconds=LONGEST)) is not None
            due = tx.row("retention")
        if not mine:
            left = (due["next_at"] - now).total_seconds() if due else 0.0
            return min(max(left, 1.0), self._settings.every)
        removed, more, failed = self.run(self._site().retention)
        pause = 1.0 if more else self._settings.every
        with self._database.transaction() as tx:
            later = tx.now() + timedelta(seconds=pause)
            tx.run("end_retention", at=tx.now(), next=later, removed=Jsonb(removed))
        if any(removed.values()):
            counts = ", ".join(f"{n} {what}" for what, n in removed.items() if n)
            log.info("retention: removed %s", counts)
        if failed:
            raise failed[0]
        return pause

    def run(self, policy: RetentionPolicy) -> tuple[dict[str, int], bool, list[WeftError]]:
        """One round; returns rows removed by kind, whether more is left, and errors: a kind that can't be removed
        doesn't block the others."""
        with self._database.statement() as tx:
            now = tx.now()
            tx.run("mark_capacity_changes")
        removed: dict[str, int] = {}
        more = False
        failed: list[WeftError] = []
        for what, query, values in _work(policy, now):
            try:
                removed[what], left = self._remove(query, values)
                more = more or left
            except WeftError as error:
                log.warning("retention: %s: %s", what, error)
                failed.append(error)
        return removed, more, failed

    def _remove(self, query: str, values: Mapping[str, object]) -> tuple[int, bool]:
        total = 0
        for _ in range(MOST_BATCHES):
            if self._stop.is_set():
                return total, True
            gone = self._database.run(query, limit=self._settings.batch, **values)
            total += gone
            if gone < self._settings.batch:
                return total, False
            self._stop.wait(self._settings.pause)
        return total, True


def _work(policy: RetentionPolicy, now: datetime) -> list[tuple[str, str, dict[str, object]]]:
    """Kind of record, query that removes it, and the query's values."""
    events = now - span(policy.events)
    gone, kept = now - span(policy.tombstones), policy.events_of_live_pods
    data = [str(kind) for kind in Kind if kind.row.data or kind.row.home is Home.FABRIC]
    keys: dict[str, object] = {"before": now - orderkeys.KEPT_FOR, "unmade": now - orderkeys.UNMADE_KEPT_FOR}
    return [
        ("events", "prune_events", {"before": events}),
        ("events of live pods", "prune_live_events", {"before": events, "kept": kept - 1}),
        ("tombstones", "prune_tombstones", {"before": gone}),
        ("tombstones of live owners", "prune_live_tombstones", {"before": gone, "at": now, "kept": data}),
        ("nodes given back", "prune_given_back", {"before": gone}),
        ("applied sites", "prune_site_desired", {"before": gone}),
        ("tenants' networks", "prune_tenant_networks", {"before": gone}),
        ("nodes given back again", "prune_live_given_back", {"before": gone}),
        ("generations of orders", "prune_generations", {"before": events}),
        ("generations of live pods", "prune_live_generations", {"before": events, "kept": kept}),
        ("traces", "prune_traces", {"before": now - span(policy.traces)}),
        ("audit log entries", "prune_audit_log", {"before": now - span(policy.audit_log)}),
        ("entries of nodes' histories", "prune_node_history", {"before": now - span(policy.node_history)}),
        ("results of nodes' checks", "prune_node_checks", {"before": now - span(policy.node_history)}),
        ("hours of use", "prune_use", {"before": now - span(policy.use)}),
        ("records of capacity", "prune_capacity_samples", {"before": now - span(policy.use)}),
        ("failures of parts", "prune_part_failures", {"before": now - span(policy.node_history)}),
        ("stays of parts", "prune_part_stays", {"before": now - span(policy.node_history)}),
        ("site generations", "prune_sites", {"before": now - span(policy.site_generations)}),
        ("parts of sites", "prune_site_parts", {"before": now - KEPT_FOR}),
        ("changes of capacity", "prune_capacity_changes", {}),
        ("sessions of the console", "prune_web_sessions", {"before": now}),
        ("keys of orders", "prune_order_keys", keys),
    ]
