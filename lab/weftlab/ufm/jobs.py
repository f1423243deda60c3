"""What UFM does in the background: GET /jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weftlab.ufm.faults import Faults
from weftlab.ufm.state import Job, State, now_text

Change = Callable[[State], None]


class Jobs:
    """UFM's jobs, which a restart loses.

    Args:
        make: makes a change of P_Keys.
    """

    def __init__(self, faults: Faults, make: Callable[[Change], None]) -> None:
        self._faults, self._make = faults, make
        self._all: dict[str, Job] = {}
        self._todo: dict[str, tuple[int, Change]] = {}
        """Job -> how often it still says Running, and the change that is made then."""

    def forget(self) -> None:
        """Lose all jobs, done or not, as a restart does."""
        self._all, self._todo = {}, {}

    def start(self, operation: str, change: Change) -> Job:
        """Add a job; its change is made at once, or after as many polls as the faults say."""
        job = self._new(operation)
        self._todo[job.id] = (self._faults.job_polls, change)
        if not self._faults.job_polls:
            self._finish(job)
        return job

    def answer(self, words: list[str], query: Mapping[str, str]) -> object:
        """An id that isn't known gives `[]`, with 200."""
        if self._faults.jobs in ("forget", "forget done"):
            return []
        for job in list(self._all.values()):
            self._poll(job)
        if parent := query.get("parent_id"):
            return [_as_answered(j) for j in self._all.values() if j.parent == parent]
        if words:
            job = self._all.get(words[0])
            return [] if job is None else _as_answered(job)
        return [_as_answered(j) for j in self._all.values() if not j.parent]

    def _new(self, operation: str) -> Job:
        job = Job(str(len(self._all) + 1), operation, now_text())
        self._all[job.id] = job
        return job

    def _poll(self, job: Job) -> None:
        if job.status != "Running" or job.id not in self._todo:
            return
        left, change = self._todo[job.id]
        if left > 0:
            self._todo[job.id] = (left - 1, change)
        else:
            self._finish(job)

    def _finish(self, job: Job) -> None:
        match self._faults.jobs:
            case "fail":
                job.status, job.summary = "Completed With Errors", "1 sub-job failed"
                cause = self._new("set partition")
                cause.parent, cause.status, cause.summary = job.id, "Completed With Errors", "OpenSM is busy"
            case "abort":
                job.status, job.summary = "Aborted", "aborted by the user"
            case "forget":
                return
            case "lie":
                job.status, job.progress = "Completed", 100
            case _:
                self._make(self._todo[job.id][1])
                job.status, job.progress = "Completed", 100


def _as_answered(job: Job) -> dict[str, Any]:
    return {
        "ID": job.id,
        "Status": job.status,
        "Progress": job.progress,
        "Description": job.operation,
        "Created": job.created,
        "LastUpdated": job.created,
        "Summary": job.summary,
        "RelatedObjects": [],
        "CreatedBy": "admin",
        "Operation": job.operation,
        "Foreground": True,
        "SiteName": None,
    }
