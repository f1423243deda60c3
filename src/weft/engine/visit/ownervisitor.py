"""One visit to an owner without an order: the site, or a tenant's own network.

The same loop as a pod's, without nodes, servers and a plan. Its rows follow the graph that is wanted now: what isn't
wanted any more is removed and read back; what is wanted is created, read back on every plane and repaired. Only weft
creates or removes these resources, so all of them are repaired without being asked. It never FAILs: what is wanted
comes from the site or from outside, which may change at any time, so it is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from weft.engine.base.documents import written
from weft.engine.hold.fence import LATE
from weft.engine.hold.held import Held
from weft.engine.hold.status import News
from weft.engine.proof.adoption import not_to_change
from weft.engine.proof.readback import ReadBack
from weft.engine.proof.receiptmaking import make_receipt
from weft.engine.proof.release import ReleaseReader
from weft.engine.proof.seen import seen_of
from weft.engine.rows.records import ResourceRecord, RowState
from weft.engine.visit.doubt import doubt_of_numbers
from weft.engine.visit.news import news_of, not_ready, seen_again
from weft.engine.visit.releasing import Releasing, give_back_numbers
from weft.engine.visit.resourcerules import DesiredResources, ResourceRules
from weft.engine.visit.tools import NextVisit, Tools
from weft.engine.visit.verifier import Verdict, reading_age, verify
from weft.engine.visit.waits import Wait
from weft.engine.visit.walker import Walker
from weft.model.errors import PermanentError, TemporaryError, WeftError
from weft.model.kindrow import Home
from weft.model.messages import pods
from weft.model.pod import Aspect, Cause, Phase, is_true
from weft.model.problem import unread
from weft.model.receipt import Abandoned, Receipt
from weft.model.resources import Graph, Resource
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.planning.owners.follow import Follow, ResourceRow, follow
from weft.planning.owners.numbers import numbers_of
from weft.planning.site.changes import with_former

_TO_BE_MADE = (RowState.WANTED, RowState.CREATING)


class OwnerVisitor:
    """`weft.engine.visit.visitor.Visits` of the site and tenants' networks, and how their releases end.

    Args:
        wants: computes what is wanted, by the owner's kind.
    """

    def __init__(self, tools: Tools, wants: ResourceRules) -> None:
        self._settings, self._pool, self._clock = tools.settings, tools.pool, tools.clock
        self._wants, self._releasing = wants, Releasing(tools, self)

    def doubt(self, held: Held) -> TemporaryError | None:
        if (doubted := doubt_of_numbers(held, ())) is None or held.wanted == "absent":
            return doubted
        wanted = self._wanted(held).graph.resources
        ports = (r.spec.ports for r in wanted if isinstance(r.spec, SegmentSpec))
        return doubt_of_numbers(held, frozenset[str]().union(*ports))

    def only_observe(self, held: Held, closed: TemporaryError) -> None:
        """Do nothing: only pods are observed while the gate is closed."""

    # -- present ------------------------------------------------------------------------------------------------

    def present(self, held: Held) -> NextVisit:
        left: Wait | None = None
        trouble: WeftError | None = None
        wanted: DesiredResources | None = None
        try:
            wanted = self._wanted(held)
            # First: what is wanted again isn't removed, and what can't be removed blocks nothing else.
            self._follow(held, wanted, gone=False)
            left = self._remove_unwanted(held, wanted.graph)
            old = any(not r.wanted for r in held.resources())
            if old and self._follow(held, wanted, gone=left is None):
                left = self._remove_unwanted(held, wanted.graph)
        except WeftError as error:
            if wanted is None and held.status.phase is Phase.BUILDING:
                raise
            trouble = error  # what exists is kept and observed all the same
        look = self._onward(held, wanted.adopted if wanted else {}, left, trouble)
        return replace(look, delay=min(look.delay, left.delay)) if left else look

    def _onward(
        self, held: Held, adopted: Mapping[str, str], left: Wait | None, trouble: WeftError | None
    ) -> NextVisit:
        """Build and judge. Args: left: what waits to be removed. trouble: why the graph is unknown or impossible."""
        wait = self._build(held, adopted)
        if wait is not None:
            return NextVisit(wait.delay)
        if held.status.phase is Phase.BUILDING and not is_true(held.status.conditions, Aspect.BOOTED):
            made = [News(a, "true", Cause.DONE) for a in (Aspect.WIRED, Aspect.BOOTED)]
            held.become(*made, News(Aspect.READY, "unknown", Cause.UNDER_WAY))
        verdict = self._verdict(held, reading_age(held, self._settings))
        if all(p.unknown for p in verdict.problems):
            return self._judge(held, verdict, left, trouble)
        age = (held.at - held.status.since).total_seconds()
        if held.status.phase is Phase.BUILDING and age < self._settings.verify_patience:
            return NextVisit(self._settings.poll(age))
        held.become(not_ready(verdict), phase=Phase.SERVING)
        lost = [r for r in held.resources() if r.wanted and r.state is not RowState.SETTLED]
        held.note((), [("repair", pods.REPAIRING(name=r.resource.name, why=r.reason), r.key) for r in lost])
        wait = self._build(held, adopted)
        return (
            self._judge(held, self._verdict(held), left, trouble) if wait is None else NextVisit(wait.delay)
        )

    def _judge(self, held: Held, verdict: Verdict, left: Wait | None, trouble: WeftError | None) -> NextVisit:
        if trouble is not None:
            verdict = replace(verdict, problems=(unread("", trouble), *verdict.problems))
        if not verdict.fine:
            failures = held.owner.failures + 1
            held.become(not_ready(verdict), phase=Phase.SERVING)
            if isinstance(trouble, PermanentError):
                held.alarm(pods.STATE(state=held.status.state, why=trouble.message))
            return NextVisit(self._settings.delay(failures), failures)
        over = () if left else (Aspect.CHANGING,)
        held.become(News(Aspect.READY, "true", Cause.DONE), phase=Phase.SERVING, without=over)
        if left is None:
            held.change_done()
        if held.owner.repair:
            held.repaired()
        return NextVisit(self._settings.observe_every)

    def _verdict(self, held: Held, max_age: float = 0.0) -> Verdict:
        held.about_to_ask()  # a reading may take long
        records = held.resources()
        verdict = verify(held.owner, records, held.world, self._pool, max_age, held.lane)
        held.note(news_of(records, verdict.changes))
        return verdict

    def _build(self, held: Held, adopted: Mapping[str, str]) -> Wait | None:
        """Create what is wanted and missing; None once all of it is settled."""
        records = [r for r in held.resources() if r.wanted]
        if all(r.state is RowState.SETTLED for r in records):
            return None
        if held.status.phase is Phase.BUILDING:
            held.become(News(Aspect.WIRED, "false", Cause.UNDER_WAY))
        own = sorted({r.resource.where for r in records} & held.world.clouds.keys())
        for cloud in own:
            held.gate.note_epoch(held.world.clouds[cloud], cloud)
        if not own:
            held.gate.note_end(held.world.clouds)

        def guard(differing: Sequence[ResourceRecord]) -> Iterator[tuple[str, WeftError]]:
            return not_to_change(held.world, held.owner.scope, differing, adopted, records)

        return Walker(held, held.world, self._settings, self._pool, guard=guard).build()

    # -- what is wanted -----------------------------------------------------------------------------------------

    def _wanted(self, held: Held) -> DesiredResources:
        want = self._wants.get(held.owner.kind)
        if want is None:
            then = "upgrade the workers, or release it"
            raise PermanentError(
                "visit", str(held.owner), "this weft doesn't know what is wanted of it", then
            )
        return want(held.owner, held.site, held.world)

    def _follow(self, held: Held, wanted: DesiredResources, gone: bool) -> bool:
        """Bring the rows to what is wanted now, in one transaction with the numbers they claim. Returns whether any
        changed.

        Args:
            gone: what wasn't wanted any more was read back: its rows may be reused. Off the fabrics it is enough that a
                resource was seen gone.
        """
        rows = {r.key: r for r in held.resources()}
        known = {
            k: ResourceRow(r.resource, r.wanted, r.is_nowhere and (r.wanted or gone or not _on_fabric(r)))
            for k, r in rows.items()
        }
        # The graph may be older than the facts that the last visit stored.
        wanted = replace(wanted, graph=with_former(wanted.graph, known))
        news = follow(known, wanted.graph)
        taken = self._taken(held, wanted.adopted, rows)
        if news or taken:
            self._write(held, news, wanted, taken)
        return bool(news or taken)

    def _taken(
        self, held: Held, adopted: Mapping[str, str], rows: Mapping[str, ResourceRecord]
    ) -> dict[str, str]:
        """Key of an existing row -> id of the resource to adopt for it: its own couldn't be created because that one
        was there, or is gone and was replaced. Not what was adopted before and is gone itself."""
        others = [
            row
            for key, there in adopted.items()
            if (row := rows.get(key)) is not None
            and row.wanted
            and row.outside_id != there
            and row.state is not RowState.DELETING
        ]
        made = {r.key: r.outside_id for r in others if r.state not in _TO_BE_MADE and r.outside_id}
        stay = _there(held, others, made)
        replaced = [r for r in others if r.key not in stay]
        again = {r.key: adopted[r.key] for r in replaced if adopted[r.key] in {f.id for f in r.former}}
        back = _there(held, replaced, again)
        return {r.key: adopted[r.key] for r in replaced if r.key not in again or r.key in back}

    def _write(self, held: Held, news: Follow, wanted: DesiredResources, taken: Mapping[str, str]) -> None:
        """Write a new generation's rows. Args: taken: key of an existing row -> id of the resource to adopt for it."""
        graph = wanted.graph
        position = {r.key: i for i, r in enumerate(graph.resources)}
        site, owner_id = held.site, held.owner.id
        with held.next_generation() as (tx, generation):

            def values(resource: Resource) -> dict[str, object]:
                key, document = resource.key, written(resource)
                place = {"owner_id": owner_id, "key": key, "position": position[key], "document": document}
                return {**place, "generation": generation}

            tx.many("insert_changed_resource", [{"kind": r.kind, **values(r)} for r in news.added])
            at = {"at": tx.now()}
            again = {**at, "forgets": False, "guest": False, "keeps": True}
            tx.many("want_resource_again", [{**again, **values(r)} for r in news.again])
            fresh = (r.key for r in (*news.added, *news.again))
            for key, there in {
                **{k: wanted.adopted[k] for k in fresh if k in wanted.adopted},
                **taken,
            }.items():
                tx.run("adopt_resource", owner_id=owner_id, key=key, outside_id=there)
            tx.many("change_resource", [{**at, **values(r)} for r in news.changed])
            gone = {"owner_id": owner_id, "generation": generation}
            tx.many("expunge_resource", [{**gone, "key": key} for key in news.removed])
            own = {r.where for r in news.added} & site.clouds.keys()
            for cloud in (own or site.clouds.keys()) if news.added else ():
                tx.run("bump_epoch", cloud=cloud)
            for space, number in sorted(numbers_of(graph.resources, site)):
                held.numbers.hold(tx, space, number)

    # -- what isn't wanted any more -----------------------------------------------------------------------------

    def _remove_unwanted(self, held: Held, graph: Graph) -> Wait | None:
        """Remove what isn't wanted any more; numbers that nothing uses are returned after they were read back clean.

        Args:
            graph: what is wanted now. Its numbers stay, also those of resources that wait for others to be gone.
        """
        records = held.resources()
        if any(not r.wanted and not r.is_nowhere for r in records):
            walker = Walker(held, held.world, self._settings, self._pool)
            # Something may wait for these to be gone.
            return walker.retire() or Wait("resources that are no longer wanted are gone", 0.0)
        old = [r for r in records if not r.wanted]
        used = (*graph.resources, *(r.resource for r in records if r.wanted))
        unused = held.holdings.numbers() - numbers_of(used, held.site)
        if not unused:
            return None
        if (late := held.notes.late()) > 0:
            return Wait(LATE, late)
        read = self._reader(held, old)
        held.note(seen_again(read))
        give_back_numbers(held, read, unused, read.items if read.over else ())
        return None if read.over else Wait(read.reason(), self._settings.delay(held.owner.failures + 1))

    def _reader(self, held: Held, records: list[ResourceRecord]) -> ReadBack:
        world, numbers, site = held.world, held.holdings.numbers(), held.site
        holding = _nodes_in(records, site)  # it holds no nodes, but its number may be at their ports
        return ReleaseReader(
            held.owner, records, world, site, self._clock, held.at, holding, numbers=numbers
        ).read()

    # -- absent -------------------------------------------------------------------------------------------------

    def absent(self, held: Held) -> NextVisit:
        return self._releasing.release(held)

    def read_back(self, held: Held) -> ReadBack:
        read = self._reader(held, held.notes.read_resources())
        # Ports of the site's networks are the operator's own: they don't keep a node from tenants.
        return replace(read, unclean={}) if held.owner.kind == "site" else read

    def receipt(self, held: Held, read: ReadBack, abandoned: Abandoned | None = None) -> Receipt:
        return make_receipt(
            held.owner, read, held.holdings.given_back(), abandoned, held.quarantine.set_aside()
        )

    def unclean(self, held: Held, read: ReadBack) -> Mapping[str, str]:
        return read.unclean

    def free_clean(self, held: Held, read: ReadBack) -> None:
        """Do nothing: it holds no nodes."""

    def ends(self, held: Held) -> float | None:
        """None for a site's resources: an operator removes them, and may abandon that (`weft site abandon`)."""
        return self._settings.ends if held.owner.kind == "network" else None

    # -- errors -------------------------------------------------------------------------------------------------

    def permanent(self, held: Held, error: PermanentError) -> None:
        held.explain(error.message, Cause.PERSON_NEEDED)
        held.alarm(pods.STATE(state=held.status.state, why=error.message))


def _there(held: Held, rows: Sequence[ResourceRecord], ids: Mapping[str, str]) -> set[str]:
    """Keys of rows whose resources exist under these ids; rows without an id aren't looked for. One query per place."""
    found: set[str] = set()
    for where in sorted({r.resource.where for r in rows if r.key in ids}):
        batch = [r for r in rows if r.key in ids and r.resource.where == where]
        mine = {r.key: ids[r.key] for r in batch}
        wanted = [r.resource for r in batch]
        seen = seen_of(held.world.driver(where).find(held.owner.scope, wanted, mine), batch)
        found |= {key for key, id_ in mine.items() if seen[key].id == id_}
    return found


def _nodes_in(records: Iterable[ResourceRecord], site: Site) -> frozenset[str]:
    """Nodes whose ports are in segments, or were when the segments were last written."""
    specs = ((r.resource.where, r.resource.spec) for r in records)
    ports = {(where, port) for where, s in specs if isinstance(s, SegmentSpec) for port in s.ports}
    return frozenset(site.port_by_id[at][0].name for at in ports if at in site.port_by_id)


def _on_fabric(record: ResourceRecord) -> bool:
    return record.kind.row.home is Home.FABRIC
