"""A FAILED pod resumes where it failed: only the condition is removed; its phase never changed."""

from __future__ import annotations

from datetime import datetime

from psycopg.types.json import Jsonb

from weft.engine.base.database import Tx
from weft.engine.base.documents import message_json
from weft.engine.rows.records import PodRecord
from weft.model.pod import DECIDES, Aspect, Cause, PodState, changed, find, summary


def revive(tx: Tx, pod: PodRecord, because: str, at: datetime) -> PodState:
    """Remove the condition; broken resources get all their attempts again. Returns the new state.

    Args:
        pod: as it is under the lock.
        because: why it is tried again, worded as a reason.
    """
    conditions = changed(pod.conditions, without=[Aspect.FAILED])
    state = summary(pod.phase, conditions)
    if decides := find(conditions, DECIDES[state]):
        again = decides.model_copy(update={"reason": Cause.UNDER_WAY, "message": because})
        conditions = changed(conditions, again)
    stored = Jsonb([c.model_dump(mode="json") for c in conditions])
    tx.run(
        "set_owner",
        id=pod.id,
        phase=pod.phase,
        conditions=stored,
        state=state,
        reason=message_json(because),
        at=at,
    )
    tx.run("forget_attempts", owner_id=pod.id)
    return state
