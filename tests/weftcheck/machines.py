"""The machine that the checks are tried on: a host's folder, and commands with recorded output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from weftcheck import checks
from weftcheck.expected import Expected, parse
from weftcheck.host import Host, MissingError, Output, UnreadableError
from weftcheck.result import Result, Status
from weftlab.hostfolder import CHRONY, CHRONY_COMMAND, JOURNAL, JOURNAL_COMMAND, HostFolder


class Rig(HostFolder):
    """The machine; a test changes its files and commands, then calls `look`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.commands: dict[str, Output | UnreadableError] = {
            JOURNAL_COMMAND: Output(JOURNAL, 0),
            CHRONY_COMMAND: Output(CHRONY, 0),
        }
        self.asked: list[str] = []

    def run(self, command: Sequence[str], timeout: float) -> Output:
        """Answer a command with its recorded output; raise what is recorded as unreadable or isn't recorded."""
        name = " ".join(command)
        self.asked.append(name)
        found = self.commands.get(name) or MissingError(name, f"the program {command[0]} isn't installed")
        if isinstance(found, UnreadableError):
            raise found
        return found

    def look(self, expected: str | Expected = "", *codes: str) -> Results:
        """Results of these codes (default: all); `expected` is the document's members without braces."""
        if isinstance(expected, str):
            members = f", {expected}}}" if expected else "}"
            expected = parse(f'{{"version": 1{members}'.encode())
        return Results(checks.check(Host(self.root, self.run), expected, codes or None))


class Results(list[Result]):
    """Results with accessors for tests."""

    def one(self, code: str, subject: str = "") -> Result:
        """The only result of this code whose subject contains `subject`."""
        [found] = [r for r in self if r.code == code and subject in r.subject]
        return found

    def statuses(self) -> Mapping[str, set[str]]:
        """The statuses of each code."""
        found: dict[str, set[str]] = {}
        for result in self:
            found.setdefault(result.code, set()).add(result.status.value)
        return found

    def wrong(self) -> dict[str, list[Status]]:
        """The statuses that are neither ok nor skipped, by code."""
        good = (Status.OK, Status.SKIPPED)
        found: dict[str, list[Status]] = {}
        for result in self:
            if result.status not in good:
                found.setdefault(result.code, []).append(result.status)
        return found
