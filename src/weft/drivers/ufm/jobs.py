"""Jobs: what UFM answers with when a change isn't done yet (202). One is followed to its end, in bounded time.

A job that is Completed or gone proves nothing: the requested change is read back in any case.
"""

from __future__ import annotations

import re
import time
from typing import Any, cast

from weft.drivers.ufm.rest import Rest, UfmAnswer
from weft.model.errors import TemporaryError, UnknownError

_ID = re.compile(r"(?:jobs/)?([0-9]{1,18})\Z")
_RUNNING = frozenset({"Running", "Pending", "Created", "New"})
_DONE = frozenset({"Completed", "Completed With Warnings"})
_FIRST_NAP, _LONGEST_NAP = 0.02, 1.0
_CAUSES = 3
LANDS_SECONDS = 600.0
"""Seconds for which a job whose end wasn't seen may still take effect."""


def job_of(answer: UfmAnswer) -> str | None:
    """Id of the job in an answer; None: the change is done. Raises ValueError for a 202 without one."""
    if answer.status != 202:
        return None
    document: Any = answer.document
    given = cast(dict[str, Any], document) if isinstance(document, dict) else {}
    candidates = [answer.headers.get("location", ""), document, given.get("job_id"), given.get("ID")]
    for text in candidates:
        if found := _ID.search(str(text or "").rstrip("/")):
            return found.group(1)
    raise ValueError("status 202 and no job")


def follow(rest: Rest, job: str, asked: str, seconds: float) -> None:
    """Follow a job until it is done.

    Raises:
        UnknownError: UFM doesn't know it (any more), doesn't answer, or it still runs after `seconds`. In the last two
            cases it may still take effect (`OutsideError.lands`).
        TemporaryError: it failed, with the causes that UFM gives.
    """
    end, nap = time.monotonic() + seconds, _FIRST_NAP
    while True:
        try:
            document = rest.get(f"/jobs/{job}")
        except UnknownError as error:
            error.lands = LANDS_SECONDS
            raise
        row = cast(dict[str, Any], document) if isinstance(document, dict) else {}
        status = str(row.get("Status", ""))
        if not status:
            raise UnknownError(asked, "UFM", f"it doesn't know its job {job}", "the result is read back")
        if status in _DONE:
            return
        if status not in _RUNNING:
            said = f"job {job} ended as {status!r}: {_causes(rest, job, row)}"
            raise TemporaryError(asked, "UFM", said)
        if time.monotonic() + nap > end:
            said = f"job {job} is {status} at {row.get('Progress')} % after {seconds:.0f} s"
            running = UnknownError(asked, "UFM", said, "the result is read back")
            running.lands = LANDS_SECONDS
            raise running
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP)


def _causes(rest: Rest, job: str, row: dict[str, Any]) -> str:
    try:
        document = rest.get("/jobs", parent_id=job)
    except UnknownError:
        document = []
    rows = cast(list[Any], document) if isinstance(document, list) else []
    said = [str(cast(dict[str, Any], r).get("Summary") or "") for r in rows if isinstance(r, dict)]
    found = [s for s in said if s][:_CAUSES]
    return "; ".join(found or [str(row.get("Summary") or "no cause given")])[:500]
