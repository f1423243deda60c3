"""The documents in weft's rows: orders, plans, resources, sites and signed receipts, of every released version.

A change after which older documents would be misread, or unreadable, needs a `Step` at the end of `STEPS`; recorded
rows of earlier versions test it (`tests/engine/test_recorded_rows.py`). What SQL reads from documents (generated
columns, `document ->> 'where'`) is changed by a migration. The signed part of a receipt is never changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from psycopg.types.json import Jsonb

from weft.model import earlier
from weft.model.base import Document
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.resources import Resource
from weft.model.site import Site
from weft.model.versions import FIELD, Fields, Parts, Step, newest, upcast

D = TypeVar("D", bound=Document)

PARTS: Parts = {Plan: ((("order",), Order), (("graph", "resources", "*"), Resource))}
"""Which documents are nested in which."""


def _with_node(resource: Fields) -> Fields:
    """The node's name was the second part of the keys of a node's resources."""
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
)
"""In chronological order; append only."""


def read(kind: type[D], stored: Mapping[str, Any], steps: Sequence[Step] = STEPS) -> D:
    """A stored document as a current value. Raises the errors in `weft.engine.records.READING`."""
    return kind.model_validate(upcast(kind, stored, steps, PARTS))


def written(document: Document) -> Jsonb:
    """A document as it is stored: in the newest version, with its number."""
    return Jsonb({FIELD: newest(STEPS), **document.model_dump(mode="json")})
