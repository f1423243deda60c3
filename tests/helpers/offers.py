"""What a refusal offers, as people read it."""

from __future__ import annotations

from weft.model.errors import RefusedError
from weft.model.placement import Refusal


def offers(refused: Refusal | RefusedError) -> tuple[str, ...]:
    """The offers in words."""
    refusal = refused.refusal if isinstance(refused, RefusedError) else refused
    return () if refusal is None else tuple(offer.message for offer in refusal.would_fit)
