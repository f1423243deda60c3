"""Changes of partitions: the whole list of members in one PUT, or the partition deleted; then read back.

Nothing is deleted to be added again, so members that stay are not disturbed. UFM has neither versions nor conditional
requests: a PUT overwrites concurrent changes of the same P_Key by others, as desired state should.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import cast

from weft.drivers.ufm.jobs import follow, job_of
from weft.drivers.ufm.partitions import (
    PKEYS,
    PartitionListing,
    UfmPartition,
    difference,
    read_listing,
    read_one,
    set_body,
)
from weft.drivers.ufm.rest import VERSION, Rest, UfmAnswer
from weft.drivers.ufm.versions import Version, parse_version, text_of, why_not_change
from weft.model.errors import PermanentError, TemporaryError, UnknownError
from weft.model.fabrictypes import Mode
from weft.model.ids import format_pkey

log = logging.getLogger(__name__)

JOB_SECONDS, PROOF_SECONDS = 30.0, 5.0
VERSION_SECONDS = 600.0
"""Seconds for which UFM's version is cached."""
_FIRST_NAP, _LONGEST_NAP = 0.01, 0.5

Allowed = Callable[[PartitionListing], PermanentError | None]
"""Why a change must not be made, given the partitions as just read."""


class UfmChanger:
    """Changes the partitions of one UFM. Safe for threads.

    Args:
        proof_seconds: how long it may take until UFM shows what was set.
    """

    def __init__(
        self, rest: Rest, proof_seconds: float = PROOF_SECONDS, job_seconds: float = JOB_SECONDS
    ) -> None:
        self._rest, self._proof_seconds, self._job_seconds = rest, proof_seconds, job_seconds
        self._turns: dict[int, threading.Lock] = {}
        self._lock = threading.Lock()
        self._version: tuple[float, str, Version] | None = None

    # -- reading -----------------------------------------------------------------------------------------------

    def version(self, max_age: float = 0.0) -> Version:
        """UFM's version. Raises `UnknownError`; `PermanentError` for what isn't UFM."""
        known = self._version
        if known and known[1] == self._rest.active and time.monotonic() - known[0] < max_age:
            return known[2]
        document = self._rest.get(VERSION)
        fields = cast(dict[str, object], document) if isinstance(document, dict) else {}
        version = parse_version(str(fields.get("ufm_release_version")))
        if version is None:
            asked, then = "ask for its version", "correct the addresses of the site's fabric"
            raise PermanentError(asked, "UFM", f"no version: {str(document)[:100]}", then)
        self._version = time.monotonic(), self._rest.active, version
        return version

    def listing(self) -> PartitionListing:
        """All partitions now. Raises `UnknownError` for anything that isn't a whole listing."""
        # Never with qos_conf as well: then the members are left out, silently.
        document = self._rest.get(PKEYS, guids_data="true")
        try:
            return read_listing(document)
        except ValueError as error:
            raise UnknownError("read the partitions", "UFM", str(error)) from error

    def one(self, number: int) -> UfmPartition | None:
        """One partition, read alone; None: UFM says that it doesn't exist. Raises `UnknownError`."""
        document = self._rest.get(f"{PKEYS}/{format_pkey(number)}", guids_data="true")
        try:
            return read_one(document, number)
        except ValueError as error:
            raise UnknownError(f"read P_Key {format_pkey(number)}", "UFM", str(error)) from error

    # -- changing ----------------------------------------------------------------------------------------------

    def put(
        self, number: int, members: Mapping[int, Mode], allowed: Allowed, fence: Callable[[], None]
    ) -> bool:
        """Make exactly these the members. Without any, the partition is deleted: UFM keeps no empty one.

        Returns whether anything was to be changed.

        Raises:
            PermanentError: it isn't allowed, or UFM refuses it.
            TemporaryError: UFM failed, or reported success but doesn't show it.
            UnknownError: nothing is known of the outcome.
        """
        with self._turn(number):
            listing = self.listing()
            if error := allowed(listing):
                raise error
            current = listing.partitions.get(number)
            if not members:
                return self._remove(number, current, fence)
            if current is not None and current.members == members:
                return False
            asked = f"set P_Key {format_pkey(number)}"
            self._check_version(asked)
            try:
                body = set_body(number, members, current)
            except ValueError as error:
                then = "set the same index0 on all of its members, or let weft use another P_Key"
                raise PermanentError(asked, "UFM", str(error), then) from error
            self._done(asked, "PUT", f"{PKEYS}/", body, fence, members, number)
            return True

    def remove(self, number: int, allowed: Allowed, fence: Callable[[], None]) -> bool:
        """Delete the partition, if it exists; returns whether it did. Raises what `put` raises."""
        with self._turn(number):
            listing = self.listing()
            if error := allowed(listing):
                raise error
            return self._remove(number, listing.partitions.get(number), fence)

    def _turn(self, number: int) -> threading.Lock:
        """The lock of a P_Key: one change of it at a time; changes of other P_Keys don't wait."""
        with self._lock:
            return self._turns.setdefault(number, threading.Lock())

    def _remove(self, number: int, current: UfmPartition | None, fence: Callable[[], None]) -> bool:
        if current is None:
            return False
        asked, key = f"remove P_Key {format_pkey(number)}", format_pkey(number)
        self._check_version(asked)
        self._done(asked, "DELETE", f"{PKEYS}/{key}", None, fence, {}, number)
        return True

    def _check_version(self, asked: str) -> None:
        version = self.version(VERSION_SECONDS)
        if why := why_not_change(version):
            raise PermanentError(asked, f"UFM {text_of(version)}", why, "nothing is changed until then")

    def _done(
        self,
        asked: str,
        method: str,
        path: str,
        body: object,
        fence: Callable[[], None],
        members: Mapping[int, Mode],
        number: int,
    ) -> None:
        """Request the change, follow its job, and read the partition back, which also decides after a lost answer."""
        failed: TemporaryError | None = None
        try:
            answer = self._rest.change(method, path, body, fence)
            if job := _job(answer, asked):
                follow(self._rest, job, asked, self._job_seconds)
        except TemporaryError as error:
            failed = error
        try:
            differs = self._differs(number, members, 0.0 if failed else self._proof_seconds)
        except UnknownError as error:
            error.lands = failed.lands if failed else 0.0
            raise
        if not differs:
            if failed:
                log.warning("%s: done, although: %s", asked, failed)
            return
        if failed:
            raise failed
        said = f"it reported completion, but doesn't show the change after {self._proof_seconds:.0f} s: {differs}"
        raise TemporaryError(asked, "UFM", said)

    def _differs(self, number: int, members: Mapping[int, Mode], seconds: float) -> str:
        """What still differs in UFM after so many seconds; empty if nothing."""
        end, nap = time.monotonic() + seconds, _FIRST_NAP
        while differs := difference(self.one(number), members):
            if time.monotonic() + nap > end:
                break
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)
        return differs


def _job(answer: UfmAnswer, asked: str) -> str | None:
    try:
        return job_of(answer)
    except ValueError as error:
        raise UnknownError(asked, "UFM", str(error), "the result is read back") from error
