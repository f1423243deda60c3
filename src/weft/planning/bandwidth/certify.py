"""Makes a certificate of a document: its causes, the nodes' results, the comparison with the last one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from weft.model.bandwidth import (
    SHARES,
    BandwidthCertificate,
    BandwidthDocument,
    CertifiedCause,
    CertifiedNode,
    LeafTogether,
    NearTheFloor,
    Slower,
)
from weft.planning.bandwidth.bothends import FaultPart
from weft.planning.bandwidth.candidates import LinksOf
from weft.planning.bandwidth.expected import Planned, complete
from weft.planning.bandwidth.judge import judge
from weft.planning.bandwidth.nodes import became_slower, node_results, text
from weft.planning.bandwidth.together import compare_stages
from weft.planning.bandwidth.values import Measured, NotRun, Outcome, Pair, Result, SlowCause


class AtTheEnds(NamedTuple):
    """What the ends of a cause's cables count. Attributes: errors: sentences; part: what these say is broken."""

    errors: tuple[str, ...] = ()
    part: FaultPart = ""


ErrorsOf = Callable[[SlowCause], AtTheEnds]


def outcomes_of(
    nodes: tuple[str, ...], rows: tuple[tuple[Any, ...], ...], unit: float = 1.0
) -> dict[Pair, Outcome]:
    """Rows of a document (Gb/s), or of a certificate (`unit` 0.001: Mb/s). Positions beyond the nodes are left out."""
    found: dict[Pair, Outcome] = {}
    for sender, receiver, rail, figure, *_ in rows:
        if sender < len(nodes) and receiver < len(nodes):
            pair = Pair(nodes[sender], nodes[receiver], rail)
            found[pair] = NotRun(figure) if isinstance(figure, str) else Measured(figure * unit)
    return found


def certify(
    document: BandwidthDocument,
    planned: Planned,
    said: Mapping[str, Any],
    links_of: LinksOf | None = None,
    errors_of: ErrorsOf = lambda cause: AtTheEnds(),
    previous: BandwidthCertificate | None = None,
    floor: float | None = None,
) -> BandwidthCertificate:
    """The certificate.

    Args:
        said: the certificate's fields about who, where and when.
        previous: the last one of the same nodes.
        floor: share of the nominal rate; None: that of the memory.
    """
    measured = outcomes_of(document.nodes, document.pairs)
    outcomes, adapters = complete(planned, measured), planned.adapters
    permille = SHARES[document.memory] if floor is None else round(1000 * floor)
    share = permille / 1000

    def floor_of(pair: Pair) -> float:
        return share * min(adapters[node, pair.rail].gbps for node in pair[:2])

    verdict = judge(outcomes, floor_of, planned.leaf_of, links_of)
    results = node_results(verdict, outcomes)
    paired = {(end, pair.rail) for pair in outcomes for end in pair[:2]}
    alone = sorted(set(adapters) - paired)
    for node in {node for node, _ in alone}:
        if results.get(node) is Result.PASSED:
            results[node] = Result.INCOMPLETE
    result = Result.INCOMPLETE if alone and verdict.result is Result.PASSED else verdict.result
    places = {node.name: place for place, node in enumerate(planned.nodes)}
    together = outcomes_of(document.nodes, document.together)
    before = None
    if previous is not None:
        names = tuple(node.name for node in previous.nodes)
        before = outcomes_of(names, previous.pairs, 0.001)
    return BandwidthCertificate(
        **said,
        began=document.began,
        ended=document.ended,
        measured_by=document.measured_by,
        memory=document.memory,
        seconds=document.seconds,
        size=document.size,
        rails_together=document.rails_together,
        floor_permille=permille,
        result=result.value,
        nodes=tuple(
            CertifiedNode(name=n.name, result=results[n.name].value if n.name in results else "incomplete")
            for n in planned.nodes
        ),
        rails=tuple(sorted({rail for _, rail in adapters})),
        measured=verdict.measured,
        slow=len(verdict.slow),
        not_run=dict(sorted(verdict.not_run.items())),
        causes=tuple(_cause(one, errors_of) for one in verdict.causes),
        unexplained=tuple((places[p.sender], places[p.receiver], p.rail) for p in verdict.unexplained),
        unsure=tuple(text(subject) for subject in verdict.unsure),
        near_floor=tuple(
            NearTheFloor(
                node=one.subject.name,
                rail=one.subject.rail or 0,
                mbps=_mbps(one.gbps),
                floor_mbps=_mbps(one.floor),
            )
            for one in verdict.near_floor
        ),
        without_partner=tuple(f"{node}, rail {rail}" for node, rail in alone),
        together=tuple(
            LeafTogether(
                leaf=one.leaf,
                alone_mbps=None if one.alone is None else _mbps(one.alone),
                together_mbps=None if one.together is None else _mbps(one.together),
                pairs=one.pairs,
                unmeasured=one.unmeasured,
                slow=one.slow,
            )
            for one in compare_stages(measured, together, planned.leaf_of)
        ),
        nccl_mbps=None if document.nccl is None else _mbps(document.nccl.gbps),
        nccl_wrong=None if document.nccl is None else document.nccl.wrong,
        previous=None if previous is None else previous.id,
        slower=tuple(
            Slower(node=s.node, rail=s.rail, before_mbps=_mbps(s.before), now_mbps=_mbps(s.now))
            for s in became_slower(before or {}, outcomes)
        ),
        pairs=tuple(
            (
                places[p.sender],
                places[p.receiver],
                p.rail,
                _mbps(o.gbps) if isinstance(o, Measured) else o.reason,
            )
            for p, o in outcomes.items()
        ),  # pyright: ignore[reportArgumentType]  # reasons of the document are checked
    )


def _cause(cause: SlowCause, errors_of: ErrorsOf) -> CertifiedCause:
    ends = errors_of(cause)
    return CertifiedCause(
        kind=cause.subject.kind.value,
        name=cause.subject.name,
        rail=cause.subject.rail,
        others=tuple(text(one) for one in cause.others),
        explains=cause.explains,
        slow=cause.slow,
        measured=cause.measured,
        mbps=_mbps(cause.gbps),
        port_errors=ends.errors,
        part=ends.part,
    )


def _mbps(gbps: float) -> int:
    return round(gbps * 1000)
