"""Checks that end in time: each in a thread of its own, which is left behind at its limit."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from weft.app.doctor.findings import DoctorFinding, finding
from weft.model.errors import WeftError
from weft.ports.patience import waiting_at_most

log = logging.getLogger(__name__)

SHARE = 0.8
"""Share of a check's time after which a request counts as unanswered: that says more than a check that didn't end."""


@dataclass(slots=True)
class DoctorCheck:
    """A check; it yields what it finds.

    Attributes:
        of: what it looks at.
    """

    of: str
    look: Callable[[], Iterable[DoctorFinding]]
    found: list[DoctorFinding] = field(default_factory=list[DoctorFinding])


def carried_out(checks: Sequence[DoctorCheck], seconds: float) -> list[DoctorFinding]:
    """What the checks find, in their order, after at most `seconds`: they run at the same time.

    What a check found before it failed or was late counts, with a finding that says so.
    """
    threads: list[threading.Thread] = []
    for check in checks:
        thread = threading.Thread(target=_run, args=(check, seconds), name=f"doctor {check.of}", daemon=True)
        thread.start()
        threads.append(thread)
    deadline = time.monotonic() + seconds
    found: list[DoctorFinding] = []
    for check, thread in zip(checks, threads, strict=True):
        thread.join(max(0.0, deadline - time.monotonic()))
        late = thread.is_alive()
        found += tuple(check.found)
        if late:
            found.append(finding("CHECK_TIMED_OUT", check.of, f"not finished after {seconds:g} s"))
    return found


def _run(check: DoctorCheck, seconds: float) -> None:
    try:
        with waiting_at_most(seconds * SHARE):
            for one in check.look():
                check.found.append(one)
    except WeftError as error:
        check.found.append(finding("CHECK_FAILED", check.of, error))
    except Exception as error:  # one check's defect must not end the others
        log.debug("the check of %s failed", check.of, exc_info=True)
        said = f"{type(error).__name__}: {error}"
        check.found.append(finding("CHECK_FAILED", check.of, said))
