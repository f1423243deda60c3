"""Identifiers of machines that left the site while they were kept from assignment, by their nodes' names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg.types.json import Jsonb

from weft.engine.base.database import Tx

Parts = Sequence[tuple[str, str, str]]
"""Identifiers of a machine: sort, where it is unique, and value of each."""


def kept_machines(tx: Tx) -> Mapping[str, Parts]:
    """Node that left the site -> what identifies its machine."""
    return {
        row["node"]: [(what, place, id_) for what, place, id_ in row["parts"]]
        for row in tx.rows("kept_machines")
    }


def keep_machines(tx: Tx, left: Mapping[str, Parts]) -> None:
    """Store the machines of the nodes that leave the site, and forget those of all other nodes.

    Args:
        left: nodes that leave the site, or have left it, while they are kept; without parts a stored row stays.
    """
    for name, parts in left.items():
        if parts:
            tx.run("keep_machine", node=name, parts=Jsonb([list(part) for part in parts]))
    tx.run("forget_machines", nodes=sorted(left))
