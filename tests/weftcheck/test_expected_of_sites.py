"""The expected values that a site file may have are those of weft-check."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from weft.model.site import ExpectedHost
from weftcheck.expected import MEMBERS, parse

OF_PODS = {"pkeys"}
"""Members that a pod has and a machine type doesn't."""


def test_site_has_the_members_of_weft_check() -> None:
    """All but those of a pod; site and weft-check read each example alike, numbers also when written as text."""
    assert set(ExpectedHost.model_fields) == MEMBERS.keys() - OF_PODS
    for name, member in MEMBERS.items():
        if name in OF_PODS:
            continue
        example = json.loads(member.example)
        made = ExpectedHost.model_validate({name: example})
        assert parse(made.file()) == parse(json.dumps({"version": 1, name: example}).encode()), name
        if isinstance(example, (int, float)):
            text = json.dumps(example)
            assert ExpectedHost.model_validate({name: text}) == made, name
        assert made.digest() != ExpectedHost().digest() and len(made.digest()) == 71


@pytest.mark.parametrize(
    "values",
    [
        {"gpus": -1},
        {"gpus": 2**32},
        {"gpus": "many"},
        {"gpu_link": "x16"},
        {"max_payload": 300},
        {"ats": "perhaps"},
        {"distance": "far"},
        {"modules": ["two words"]},
        {"parameters": {"x": "1"}},
        {"firmware": {"x": "1"}},
        {"firmware": {"X": []}},
        {"rate": 0},
        {"rate": "nan"},
        {"width": "4"},
        {"pkeys": ["0x8101"]},
        {"gpu": 8},
    ],
)
def test_invalid_value_of_a_site_is_refused(values: dict[str, Any]) -> None:
    """Values that weft-check refuses, and members that a machine type doesn't have."""
    with pytest.raises(ValidationError):
        ExpectedHost.model_validate(values)
