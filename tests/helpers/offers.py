"""The offers of a refusal as text."""

from __future__ import annotations

from weft.model.errors import RefusedError
from weft.model.placement import Refusal


def offers(refused: Refusal | RefusedError) -> tuple[str, ...]:
    """The offers' sentences."""
    refusal = refused.refusal if isinstance(refused, RefusedError) else refused
    return () if refusal is None else tuple(offer.message for offer in refusal.would_fit)
