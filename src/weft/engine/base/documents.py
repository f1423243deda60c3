"""The documents in weft's rows: orders, plans, resources, sites and signed receipts, of every released version.

A change after which older documents would be misread, or unreadable, needs a `Step` at the end of `STEPS`; recorded
rows of earlier versions test it (`tests/engine/base/test_recorded_rows.py`). What SQL reads from documents (generated
columns, `document ->> 'where'`) is changed by a migration. The signed part of a receipt is never changed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from psycopg.types.json import Jsonb

from weft.engine.base.postgres import Stored
from weft.model import earlier
from weft.model.bandwidth import SignedCertificate
from weft.model.base import Document
from weft.model.fabric import Membership
from weft.model.hostchecks import CheckDocument, CheckProblem, KnownMachine
from weft.model.messages import Message
from weft.model.messages import stored as stored_message
from weft.model.order import Order
from weft.model.placement import Part
from weft.model.plan import Plan
from weft.model.pod import Condition
from weft.model.receipt import ReceiptItem, SignedReceipt
from weft.model.resources import Difference, Graph, Resource
from weft.model.site import Site
from weft.model.versions import FIELD, FIRST, Fields, Parts, Step, downcast, newest, upcast

D = TypeVar("D", bound=Document)

PARTS: Parts = {
    Plan: ((("order",), Order), (("graph", "resources", "*"), Resource)),
    Graph: ((("resources", "*"), Resource),),
}
"""Which documents are nested in which."""


def _with_node(resource: Fields) -> Fields:
    """Set the node from the second part of the key, which used to name it."""
    kind, _, rest = resource["key"].partition("/")
    of_a_node = kind in ("server", "port", "floating_ip", "vipu_agent")
    return {**resource, "node": rest.split("/")[0] if of_a_node else ""}


STEPS: tuple[Step, ...] = (
    Step("resources name their node", {Resource: _with_node}),
    Step(
        "partitions are segments, their numbers are of spaces",
        {Resource: earlier.partition_to_segment, Plan: earlier.allotment_to_spaces},
    ),
    Step(
        "groups of leaves are blocks",
        {Order: earlier.order_of_blocks, Plan: earlier.plan_of_blocks, Site: earlier.site_of_blocks},
    ),
    Step("the queue gives bookings", {Site: earlier.site_of_bookings}),
)
"""In chronological order; append only. While the previous version may still work beside this one, documents are written
in the version before a new step by its way back; without one, that version leaves their owners to this one."""

EARLIEST = 5
"""The version of documents when versions of weft began to work beside each other."""
STORED: tuple[type[Document], ...] = (
    Plan,
    Site,
    ReceiptItem,
    SignedReceipt,
    SignedCertificate,
    Membership,
    Difference,
    Condition,
    CheckDocument,
    CheckProblem,
    KnownMachine,
    Part,
)
"""The kinds of documents that rows hold; other kinds are nested in these."""

_writing: int | None = None


def latest() -> int:
    """The newest version of documents that this weft reads."""
    return newest(STEPS)


def is_changed(kind: type[Document], version: object) -> bool:
    """Whether a step since a version changes documents of a kind; True if `version` isn't a version."""
    if type(version) is not int or version < FIRST:
        return True
    return any(kind in step.of for step in STEPS[version - FIRST :])


def write_version(version: int) -> None:
    """From now on this process writes documents in this version: that of its database, until an upgrade is finished."""
    global _writing
    _writing = version


def writes() -> int:
    """The version in which this process writes documents."""
    return latest() if _writing is None else _writing


def read(kind: type[D], stored: Mapping[str, Any], steps: Sequence[Step] = STEPS) -> D:
    """A stored document as a current value. Raises the errors in `weft.engine.rows.records.READING`.

    Equal texts are read once: a pod's rows are read at each visit, and rarely change.
    """
    if not isinstance(stored, Stored) or steps is not STEPS or len(stored.text) > _LONGEST:
        return kind.model_validate(upcast(kind, stored, steps, PARTS))
    known = _CACHE.get(kind, stored.text)
    if known is None:
        known = kind.model_validate(upcast(kind, stored, steps, PARTS))
        _CACHE.put(kind, stored.text, known)
    return cast(D, known)


def fields(kind: type[Document], stored: Mapping[str, Any], steps: Sequence[Step] = STEPS) -> Fields:
    """Like `read`, but only the fields, without validation, which is most of the cost. For display."""
    return upcast(kind, stored, steps, PARTS)


def written(document: Document) -> Jsonb:
    """A document as it is stored: in the version that this process writes, with its number."""
    return Jsonb(stamped(type(document), document.model_dump(mode="json")))


def stamped(kind: type[Document], values: Fields) -> Fields:
    """The fields of a document as they are stored, with the number of their version."""
    if (version := writes()) < latest():
        values, version = downcast(kind, values, STEPS, PARTS, version)
        return {FIELD: version, **values}
    return {FIELD: latest(), **values}


class _DocumentCache:
    """A cache of recently read documents by their text; they are frozen and can be shared. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[type[Document], bytes], Document] = OrderedDict()

    def get(self, kind: type[Document], text: bytes) -> Document | None:
        with self._lock:
            found = self._found.get((kind, text))
            if found is not None:
                self._found.move_to_end((kind, text))
            return found

    def put(self, kind: type[Document], text: bytes, document: Document) -> None:
        with self._lock:
            if (kind, text) not in self._found:
                self._size += len(text)
            self._found[kind, text] = document
            while self._size > self._most:
                (_, oldest), _ = self._found.popitem(last=False)
                self._size -= len(oldest)


_CACHE = _DocumentCache(1 << 20)
_LONGEST = 1 << 18
"""Bytes; sites are cached by `weft.engine.rows.siteparts`."""


def message_json(text: str) -> Jsonb:
    """A reason or an event as rows store it: the code and values of a message, or plain text."""
    return Jsonb(stored_message(text))


def message_text(stored: Any) -> str:
    """A reason or an event from a row; plain text if an older version wrote it."""
    return Message.read(stored) if stored else ""
