"""Certificates of bandwidth tests: stored signed, compared with the last one of the same nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database, Row, Tx
from weft.engine.base.documents import read
from weft.engine.base.unreadable import READING, UnreadableError, unreadable
from weft.engine.rows.records import PodRecord
from weft.model.bandwidth import BandwidthCertificate, SignedCertificate
from weft.model.errors import TemporaryError
from weft.model.messages import bandwidth
from weft.model.messages.message import Message
from weft.model.pod import Phase

EVERY = timedelta(seconds=10)
"""Shortest time between two reports of a pod."""
TRIES = 5
"""How often a certificate is made if another of the same nodes is stored meanwhile, which it must be compared with."""
MOST_OF_POD = 5
"""Most certificates that are kept of a pod, since its own project writes them."""

Make = Callable[[str, datetime, BandwidthCertificate | None], BandwidthCertificate]
"""Makes a new certificate from its id, the time and the last certificate."""


def store_certificate(
    database: Database,
    sign: Callable[[BandwidthCertificate], SignedCertificate],
    make: Make,
    pod_id: UUID | None = None,
    nodes: Sequence[str] = (),
    hosts: Sequence[str] = (),
    kept: timedelta = timedelta(days=730),
    by: str = "",
) -> SignedCertificate:
    """Make a certificate, sign and store it.

    Args:
        pod_id: the pod that was tested; None: `nodes`, by operators, whose histories get an entry.
        hosts: the pod's nodes.
        kept: how long certificates of nodes are kept that aren't the newest of any of them.

    Raises `TemporaryError` if the pod has just reported, or others report the same nodes again and again.
    """
    for _ in range(TRIES):  # made without the lock: seconds for hundreds of nodes
        with database.transaction() as tx:
            now, last = tx.now(), _last(tx, pod_id, nodes)
        _check_often(pod_id, last, now)
        signed = sign(make(str(uuid4()), now, _comparable(last)))
        with database.transaction() as tx:
            tx.run("lock_bandwidth", subject=str(pod_id) if pod_id is not None else "nodes")
            newer = _last(tx, pod_id, nodes)
            _check_often(pod_id, newer, tx.now())
            if _id(newer) == _id(last):
                _store(tx, signed, pod_id, hosts, kept, by)
                return signed
    raise TemporaryError(
        "report bandwidth", "the nodes", "others report the same nodes", "report later", 10.0
    )


def _check_often(pod_id: UUID | None, last: Row | None, now: datetime) -> None:
    """Raise `TemporaryError` if a pod has just reported."""
    if pod_id is not None and last is not None and timedelta(0) <= now - last["at"] < EVERY:
        wait = (last["at"] + EVERY - now).total_seconds()
        raise TemporaryError("report bandwidth", "the pod", "it has just been reported", "report later", wait)


def _id(row: Row | None) -> UUID | None:
    return None if row is None else row["id"]


def _store(
    tx: Tx, signed: SignedCertificate, pod_id: UUID | None, hosts: Sequence[str], kept: timedelta, by: str
) -> None:
    certificate = signed.certificate
    at, results = certificate.reported_at, Jsonb({node.name: node.result for node in certificate.nodes})
    values: dict[str, Any] = {"id": UUID(certificate.id), "pod_id": pod_id, "at": at, "hosts": sorted(hosts)}
    tx.run("insert_bandwidth", **values, results=results, document=Jsonb(signed.model_dump(mode="json")))
    if pod_id is not None:
        tx.run("trim_bandwidth_of_pod", pod_id=pod_id, most=MOST_OF_POD)
    else:
        tx.run("trim_bandwidth_of_nodes", before=at - kept)
        tx.run("note_bandwidth", at=at, results=results, by=by)


def certificate_of_pod(database: Database, pod_id: UUID) -> SignedCertificate | None:
    """The newest certificate of a pod. Raises `UnreadableError`."""
    row = database.row("bandwidth_of_pod", pod_id=pod_id)
    return None if row is None else _certificate(row)


def certificate_of_node(database: Database, node: str) -> SignedCertificate | None:
    """The newest certificate that operators reported of a node. Raises `UnreadableError`."""
    row = database.row("bandwidth_of_node", node=node)
    return None if row is None else _certificate(row)


def _last(tx: Tx, pod_id: UUID | None, nodes: Sequence[str]) -> Row | None:
    if pod_id is not None:
        return tx.row("bandwidth_of_pod", pod_id=pod_id)
    return tx.row("bandwidth_of_nodes", nodes=sorted(nodes))


def _comparable(row: Row | None) -> BandwidthCertificate | None:
    """The certificate to compare with; None if it can't be read, which must not keep new ones from being stored."""
    try:
        return None if row is None else _certificate(row).certificate
    except UnreadableError:
        return None


def _certificate(row: Row) -> SignedCertificate:
    try:
        return read(SignedCertificate, row["document"])
    except READING as error:
        raise unreadable("a certificate of a bandwidth test", error) from error


def unproved(pod: PodRecord, rows: Sequence[Mapping[str, Any]]) -> tuple[Message, datetime] | None:
    """Why a pod whose order wants a bandwidth test has none that counts, and since when; None: it has, or wants none.

    Args:
        rows: the last one's, with since, result and hosts.
    """
    plan = pod.placed
    if (
        plan is None
        or plan.order.verify != "bandwidth"
        or pod.phase is not Phase.SERVING
        or pod.wanted != "present"
    ):
        return None
    last = next(iter(rows), None)
    if last is None or sorted(last["hosts"]) != sorted(node.node for node in plan.placement.nodes):
        return bandwidth.BANDWIDTH_UNTESTED(pod=pod.name), pod.ready_at or pod.created_at
    if last["result"] == "passed":
        return None
    return bandwidth.BANDWIDTH_UNPROVED(pod=pod.name, result=last["result"]), last["since"]
