"""The verbs that only report what a caller may do."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from weft.app.desk import DeskVerbs
from weft.app.policyrules import CHANGES
from weft.app.verbs import Request


class Permissions(DeskVerbs):
    """See `weft.app.verbs`."""

    def check(self, request: Request, rule: str, pod: str | None = None) -> None:
        """Raise what a verb with this rule would raise for a caller without permission, before anything is read.

        A refused change is logged; the verb itself checks again.

        Args:
            pod: name or id of the pod that it is about; None: the caller's own project, or the site.
        """
        caller = request.caller
        with self._desk.refusals(request, rule, pod or "") if rule in CHANGES else nullcontext():
            if pod is not None:
                self._desk.whose(request, rule, pod)
            else:
                self._desk.policy.check(rule, caller, caller.project_id)

    def is_known(self, request: Request, rule: str) -> bool:
        """Whether `check` certainly lets the caller do this in its own project; never blocks."""
        return self._desk.policy.remembers(rule, request.caller, request.caller.project_id) is True

    def allowed(self, request: Request, rules: Sequence[str], project: str | None = None) -> tuple[str, ...]:
        """Those of the rules that the policy allows the caller; nothing is logged.

        Args:
            project: id of the project that it is about; None: the site.
        """
        return tuple(rule for rule in rules if self._desk.policy.allows(rule, request.caller, project))
