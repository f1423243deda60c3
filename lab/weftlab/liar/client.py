"""The liar's control from Python."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx

TIMEOUT = 10.0


class LiarError(Exception):
    """The liar isn't running, or refuses a rule; `str()` is one sentence."""


class Liar:
    """A liar that runs, by the address of its control."""

    def __init__(self, url: str) -> None:
        self.url = url
        # One client: each new one would read the system's certificates, which plain HTTP has no use for.
        self._http = httpx.Client(base_url=url, timeout=TIMEOUT, trust_env=False, verify=False)

    def tell(self, lie: str, service: str = "", **rule: Any) -> int:
        """Plant a rule (fields of `rules.Rule`); returns its number."""
        return int(self._ask("POST", "/rules", {"lie": lie, "service": service, **rule})["id"])

    def lift(self, number: int | None = None) -> None:
        """Remove one rule, or all."""
        self._ask("DELETE", "/rules" if number is None else f"/rules/{number}")

    def rules(self) -> list[dict[str, Any]]:
        """All planted rules with their counts."""
        return list(self._ask("GET", "/rules"))

    def lies_sent(self, number: int) -> int:
        """How many lies a rule has sent."""
        return next(int(r["sent"]) for r in self.rules() if r["id"] == number)

    def lies(self) -> dict[str, str]:
        """Name -> what it does."""
        return dict(self._ask("GET", "/lies"))

    def calls(self, after: int = 0) -> list[dict[str, Any]]:
        """What was asked since call number `after`: number, service, method, path, status (0: none), lie."""
        return list(self._ask("GET", f"/calls?after={after}"))

    @contextmanager
    def lying(self, lie: str, service: str = "", **rule: Any) -> Generator[int]:
        """A rule for the time of a block; gives its number."""
        number = self.tell(lie, service, **rule)
        try:
            yield number
        finally:
            self.lift(number)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        try:
            answer = self._http.request(method, path, json=body)
            value = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise LiarError(f"no answer from the liar at {self.url}: {error}") from error
        if answer.is_error:
            raise LiarError(str(value.get("error", value)))
        return value
