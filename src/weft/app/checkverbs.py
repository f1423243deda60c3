"""The verbs about nodes' own checks: nodes report with tokens of their own; operators make these, and see results."""

from __future__ import annotations

import logging
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from weft.app.desk import DeskVerbs
from weft.app.explain import validate
from weft.app.show import hold_view
from weft.app.verbs import Request
from weft.app.yamltext import Positions
from weft.engine.book.checkstate import check_state, is_current, verdict
from weft.engine.book.stops import NO_STOPS
from weft.engine.nodes.checktokens import list_tokens, make_token, node_of, revoke_token
from weft.engine.nodes.hostchecks import forget_report, judge_check, last_report, problems_in, store_report
from weft.engine.nodes.nodetests import record_test
from weft.engine.rows.holds import BANDWIDTH
from weft.model.errors import ConflictError, ForbiddenError, InputError, NotFoundError
from weft.model.hostchecks import CODE, CheckDocument, CheckedHost, CheckState, Judged, known_members
from weft.model.messages import hostchecks, maintenance
from weft.model.nodetests import OWN_CHECKS, NodeTest, NodeTestReceipt, NodeTestReport
from weft.model.site import Node, Site
from weft.model.views import CheckReceipt, CheckTokenView, JudgedCheck, NewCheckToken, NodeChecks
from weft.planning.site.hostchecks import expected_file
from weft.ports.cloud import Caller

log = logging.getLogger(__name__)

USUAL_END = timedelta(days=365)
LONGEST_END = timedelta(days=3 * 365 + 1)


@dataclass(frozen=True, slots=True)
class Reporter:
    """A node that has shown its token.

    Attributes:
        node: the one that the token is bound to.
        token: the token's id.
    """

    node: str
    token: str
    request: Request


class CheckVerbs(DeskVerbs):
    """See `weft.app.verbs`; nodes' own verbs take a `Reporter`, which no user is."""

    def reporter(self, token: str, node: str, address: str, request_id: str, agent: str) -> Reporter:
        """The node that this token is bound to. Raises `UnauthenticatedError` for a token that isn't valid now,
        `ForbiddenError` for another node, whether there is one or not."""
        name, own = node_of(self._desk.store.database, token)
        caller = Caller(
            f"check-token {name}", f"node {own}", None, None, frozenset(), datetime.max.replace(tzinfo=UTC)
        )
        request = Request(caller, address, request_id, agent)
        with self._desk.refusals(request, "node report-checks", node):
            if own != node:
                raise ForbiddenError(hostchecks.OTHER_NODE(node=node))
        return Reporter(own, name, request)

    def report(self, reporter: Reporter, given: dict[str, object]) -> CheckReceipt:
        """Store what a node's checks found. Members that aren't known are left out, and named.

        Raises:
            InputErrors: what isn't a document of weft-check, or has too much.
            ConflictError: it is another machine's, as far as the site knows the machine.
            TemporaryError: the node has just reported.
        """
        # Not in the audit log: what isn't valid has texts that a database can't have.
        known, left_out = known_members(given)
        document = validate(CheckDocument, known, Positions())
        with self._desk.refusals(reporter.request, "node report-checks", reporter.node):
            site = self._desk.store.site().site
            if (node := site.node_by_name.get(reporter.node)) is None:
                raise NotFoundError(maintenance.NODE_UNKNOWN(node=reporter.node))
            _check_machine(node, document.host)
            policy, current = site.checks, is_current(document.expected, site, node.name)
            store_report(
                self._desk.store.database,
                node.name,
                reporter.token,
                document,
                current=current,
                counts=lambda code: policy.action(code) != "ignore",
                frees=policy.missing == "exclude",
                site=site,
            )
        state = self._state_of(node.name)
        if state == "failed":
            self._say_suspended(node.name, site)
        return CheckReceipt(node=node.name, state=state, outdated=not current, left_out=tuple(left_out))

    def expected(self, reporter: Reporter) -> bytes:
        """The file of expected values for the node's weft-check. Raises `NotFoundError` for one that left the site."""
        site = self._desk.store.site().site
        if reporter.node not in site.node_by_name:
            raise NotFoundError(maintenance.NODE_UNKNOWN(node=reporter.node))
        return expected_file(site, reporter.node)

    def show(self, request: Request, node: str) -> NodeChecks:
        """What a node's checks reported last. Raises `NotFoundError` if neither the site nor a report has the node."""
        self._desk.policy.check("nodes:list_checks", request.caller)
        last, now = last_report(self._desk.store.database, node), self._desk.clock.now()
        tests = self._tests_of(node)
        if last is None:
            self._known_host(node)
            return NodeChecks(node=node, state="never", tests=tests)
        try:
            document = CheckDocument.model_validate(last.document)
        except ValidationError:  # of another version of weft
            document = None
        return NodeChecks(
            node=node,
            state=self._state_of(node),
            at=last.at,
            age=max(0.0, (now - last.at).total_seconds()),
            problems=tuple(problems_in(last.problems).values()),
            document=document,
            tests=tests,
        )

    def judge(self, request: Request, check: str, judged: Judged) -> JudgedCheck:
        """Say whether a check that fails on many nodes is real, or a mistake. `ConflictError` if it fails nowhere."""
        with self._desk.logged(request, "node judge-check", f"{check[:40]} {judged}"):
            self._desk.policy.check("nodes:judge_checks", request.caller)
            if re.fullmatch(CODE, check) is None:
                raise InputError("check", check[:80], "the code of a check, such as GPU_COUNT")
            units, user = self._desk.store.site().site.units, request.caller.user_name
            nodes = judge_check(self._desk.store.database, units, check, judged, user)
            return JudgedCheck(check=check, judged=judged, nodes=tuple(nodes))

    def forget(self, request: Request, node: str) -> NodeChecks:
        """Forget what a node reported, failed checks included. Raises `ConflictError` if there is nothing."""
        with self._desk.logged(request, "node forget-checks", node):
            self._desk.policy.check("nodes:forget_checks", request.caller)
            forget_report(self._desk.store.database, node, request.caller.user_name)
        return NodeChecks(node=node, state="never")

    def report_test(self, request: Request, node: str, test: str, given: NodeTestReport) -> NodeTestReceipt:
        """Keep what an outside test found on a held node; the hold ends once all tests of the site have passed.

        Raises:
            InputError: the test is the node's own checks, or began in the future.
            ConflictError: another machine was tested, or the result counts for no hold: see
                `weft.engine.nodes.nodetests.record_test`.
        """
        with self._desk.logged(request, "node report-test", f"{node}: {test} {given.status}"):
            self._desk.policy.check("nodes:report_tests", request.caller)
            site = self._desk.store.site().site
            if node not in site.units:
                raise NotFoundError(maintenance.NODE_UNKNOWN(node=node))
            if test in (OWN_CHECKS, BANDWIDTH):
                raise InputError(
                    "test", test, "a test of another program: weft has this one's results itself"
                )
            if (host := site.node_by_name.get(node)) is not None:
                _check_machine(host, given)
            by, db = request.caller.user_name, self._desk.store.database
            return record_test(db, site, node, test, given.status, given.started, given.reason, by)

    def make_token(self, request: Request, node: str, until: datetime | None = None) -> NewCheckToken:
        """A token with which a node reports its checks and does nothing else; its secret is in this answer alone."""
        with self._desk.logged(request, "node check-token", node):
            self._desk.policy.check("nodes:check_tokens", request.caller)
            self._known_host(node)
            now = self._desk.clock.now()
            ends = now + USUAL_END if until is None else until
            if not now < ends <= now + LONGEST_END:
                raise InputError("until", ends.isoformat(), "a time in the future, at most in three years")
            token, made = make_token(self._desk.store.database, node, ends, request.caller.user_name)
        return NewCheckToken(token=token, **asdict(made))

    def tokens(self, request: Request, node: str | None = None) -> list[CheckTokenView]:
        """The tokens of all nodes, or of one, also of nodes that left the site; without their secrets."""
        self._desk.policy.check("nodes:list_check_tokens", request.caller)
        return [CheckTokenView(**asdict(one)) for one in list_tokens(self._desk.store.database, node)]

    def revoke_token(self, request: Request, token: str) -> CheckTokenView:
        """End a token by its id. Raises `NotFoundError`."""
        with self._desk.logged(request, "node revoke-check-token", token):
            self._desk.policy.check("nodes:check_tokens", request.caller)
            return CheckTokenView(**asdict(revoke_token(self._desk.store.database, token)))

    def _state_of(self, node: str) -> CheckState:
        """The state of a node by its own checks."""
        capacity = self._desk.store.capacity()
        checked = capacity.stops.get(node, NO_STOPS).checks
        return check_state(checked, self._desk.store.site().site, node, capacity.at)

    def _tests_of(self, node: str) -> tuple[NodeTest, ...]:
        holds, site = (
            self._desk.store.capacity().stops.get(node, NO_STOPS).holds,
            self._desk.store.site().site,
        )
        return tuple(test for row in holds for test in hold_view(row, site).tests)

    def _say_suspended(self, node: str, site: Site) -> None:
        capacity = self._desk.store.capacity()
        found = verdict(capacity.stops, site, capacity.at)
        for code, nodes in found.suspended.items():
            if node in nodes:
                log.error(
                    "check %s began to fail on %s within a day: %d of them, %s too, get new orders all "
                    "the same until a day is over",
                    *(code, found.limits[code], len(nodes), node),
                )

    def _known_host(self, node: str) -> None:
        if node not in self._desk.store.site().site.node_by_name:
            raise NotFoundError(maintenance.NODE_UNKNOWN(node=node))


def _check_machine(node: Node, machine: CheckedHost | NodeTestReport) -> None:
    """Raise `ConflictError` if the site knows the machine, and the document isn't certainly of it."""
    for what, known, said in (
        ("serial", node.serial, machine.serial),
        ("product_uuid", node.product_uuid, machine.product_uuid),
    ):
        if known is not None and (said is None or said.strip().lower() != known.strip().lower()):
            raise ConflictError(hostchecks.OTHER_MACHINE(what=what, known=known))
