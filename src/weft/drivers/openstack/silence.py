"""Silent services, which accept requests and don't answer; shared by the whole process. A request to such a
service would hold a thread until it times out. So while a service is silent, requests to it fail at once,
except for one read at a time that probes it. Services, also of several clouds, are distinguished by address.
One caller's request may take longer than that caller waits, while everything else would be answered at once.
So a request with a caller's own short limit counts less than weft's own: it takes two callers to make a
service silent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import requests

SILENT_SECONDS = 15.0
"""Seconds between probes of a silent service; and the time limit of a probe, in seconds."""
UNANSWERED_SECONDS = 10.0
UNANSWERED_READS = 2
"""This many reads that have waited for `SILENT_SECONDS`, while nothing was answered, make a service silent;
all reads of one caller count as one. A single read may be a long listing; it makes the service silent when it
times out."""


class SilentError(requests.ConnectionError):
    """Nothing was sent: the service is silent."""


@dataclass(slots=True)
class _Heard:
    """What was heard of a service; times are monotonic seconds.

    Attributes:
        reads: start of each read that waits for an answer, and the caller whose limit it has (empty: weft's
        own).
        missed: callers whose requests timed out -> when the first such request began; nothing was answered
        since.
        begun: when an answer last began to arrive.
        ended: when an answer was last complete.
        silent: since when it has been silent; None: it isn't silent.
        tried: when it was last probed.
        trying: a probe is in progress.
    """

    reads: dict[object, tuple[float, str]] = field(default_factory=dict[object, tuple[float, str]])
    missed: dict[str, float] = field(default_factory=dict[str, float])
    begun: float = float("-inf")
    ended: float = float("-inf")
    silent: float | None = None
    tried: float = float("-inf")
    trying: bool = False

    def judge(self, now: float) -> None:
        """Mark the service silent if reads have waited for long; the next read probes it at once."""
        if self.silent is None:
            reads = self.reads.values()
            overdue = [(at, who) for at, who in reads if now - max(at, self.begun) >= UNANSWERED_SECONDS]
            whose = [who for _, who in overdue]
            if whose.count("") + len({who for who in whose if who}) >= UNANSWERED_READS:
                self.silent = max(min(at for at, _ in overdue), self.begun)

    def missed_by(self, who: str, began: float, now: float) -> None:
        """A request timed out. Args: who: the caller whose limit it was; empty: weft's own."""
        if self.silent is None and who:
            self.missed = {w: at for w, at in self.missed.items() if at >= self.ended}
            self.missed.setdefault(who, began)
            if len(self.missed) < UNANSWERED_READS:
                return
            began = min(self.missed.values())
        self.silent, self.tried = began if self.silent is None else self.silent, now
        self.missed = {}


class RequestInProgress:
    """One request in progress. Exactly one of `answered` and `failed` ends it.

    Attributes:
        tries: whether it probes a silent service.
    """

    def __init__(self, silences: Silences, heard: _Heard, began: float, tries: bool, who: str) -> None:
        self._silences, self._heard, self._began, self._who = silences, heard, began, who
        self.tries = tries

    def begun(self) -> None:
        """Note that its answer begins to arrive."""
        with self._silences.lock:
            self._heard.begun = self._silences.now()

    def answered(self) -> None:
        """Note that its answer is complete: the service isn't silent."""
        with self._silences.lock:
            self._end()
            self._heard.begun = self._heard.ended = self._silences.now()
            self._heard.silent = None

    def failed(self, in_time: bool) -> None:
        """Note that it ended without an answer. Args: in_time: something responded at once, such as with a refused
        connection."""
        with self._silences.lock:
            self._end()
            if in_time:
                self._heard.silent, self._heard.missed = None, {}
            elif self._heard.ended <= self._began:
                self._heard.missed_by(self._who, self._began, self._silences.now())

    def _end(self) -> None:
        self._heard.reads.pop(self, None)
        if self.tries:
            self._heard.trying = False


class Silences:
    """Which services are silent. Thread-safe.

    Args:
        now: monotonic seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.lock = threading.Lock()
        self._services: dict[str, _Heard] = {}

    def ask(self, url: str, read: bool, who: str = "") -> RequestInProgress:
        """Call before a request. Raises `SilentError` if the request must not be sent.

        Args:
            read: it changes nothing, and may probe a silent service.
            who: caller with a short time limit (`weft.ports.patience.impatient`).
        """
        name = service_of(url)
        with self.lock:
            heard, now = self._services.setdefault(name, _Heard()), self.now()
            heard.judge(now)
            tries = heard.silent is not None
            if heard.silent is not None:
                if not read or heard.trying or now - heard.tried < SILENT_SECONDS:
                    raise SilentError(f"it has given no answer for {now - heard.silent:.0f} s; not asked")
                heard.trying, heard.tried = True, now
            asking = RequestInProgress(self, heard, now, tries, who)
            if read:
                heard.reads[asking] = (now, who)
            return asking


def service_of(url: str) -> str:
    """Address of a service: its host and port, and the first segment of the path, since several may share a
    port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{parts.path.lstrip('/').partition('/')[0]}"


SILENCES = Silences()
"""The one that all of this process shares."""
