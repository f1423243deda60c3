"""Keys that weft sets on things which have others besides: compared and told together, others left alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.model.resources import Difference, Observed
from weft.model.specs import PropertiesSpec


def with_keys(
    observed: Observed, field: str, spec: PropertiesSpec, there: Mapping[str, str], had: Mapping[str, str]
) -> Observed:
    """With a difference for every key of weft's that isn't as wanted.

    Args:
        there: what the thing has now; `had`: what it had before weft, of keys that weft sets or has set.
    """
    wanted = {**{k: had.get(k) for k in spec.former}, **spec.keys}
    wrong = sorted(k for k, value in wanted.items() if there.get(k) != value)
    if not wrong:
        return observed
    seen, should = (", ".join(f"{k}={table.get(k) or 'none'}" for k in wrong) for table in (there, wanted))
    return replace(
        observed, differences=(*observed.differences, Difference(field=field, wanted=should, observed=seen))
    )
