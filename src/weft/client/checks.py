"""What nodes' own checks and outside tests report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.client.asking import listed, part
from weft.client.transport import Json, Transport


@dataclass(frozen=True, slots=True)
class Checks:
    """See `weft.client.client.Client`."""

    weft: Transport

    def show(self, node: str) -> Json:
        """What the node's own checks reported last."""
        return self.weft.ask("GET", f"/v1/nodes/{part('node', node)}/checks")

    def forget(self, node: str) -> Json:
        return self.weft.ask("DELETE", f"/v1/nodes/{part('node', node)}/checks")

    def judge(self, check: str, judged: str) -> Json:
        """Say of a check that fails whether it is `real`, a `mistake`, or `open` again."""
        return self.weft.ask("PUT", f"/v1/checks/{part('check', check)}/judgement", {"judged": judged})

    def report_test(self, node: str, test: str, **given: Any) -> Json:
        """What an outside test found on a held node. Args: fields of `NodeTestReport`; None is left out."""
        body = {name: value for name, value in given.items() if value is not None}
        return self.weft.ask("POST", f"/v1/nodes/{part('node', node)}/tests/{part('test', test)}", body)

    def make_token(self, node: str, until: str | None = None) -> Json:
        """A token with which the node reports its checks; shown once."""
        body = {} if until is None else {"until": until}
        return self.weft.ask("POST", f"/v1/nodes/{part('node', node)}/check-tokens", body)

    def tokens(self, node: str | None = None) -> list[Json]:
        return listed(self.weft.ask, "/v1/check-tokens", "tokens", node=node)

    def revoke_token(self, token: str) -> Json:
        """End a token by its id."""
        return self.weft.ask("DELETE", f"/v1/check-tokens/{part('id', token)}")
