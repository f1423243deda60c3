"""Text from outside that PostgreSQL can't hold: NUL, halves of surrogate pairs. Nothing gets stuck on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.engine.house import House
from weft.engine.base.postgres import storable_json
from weft.model.pod import PodState
from weft.model.resources import Observed, Resource
from weft.model.views import TypeStates
from weft.ports.resources import Ids, Scope
from weft.testing.cloud import FakeCloud


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
def test_pod_with_observed_text_that_the_database_cannot_store_is_built_and_released(
    house: House, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """A service that a tenant controls may answer anything."""
    real = FakeCloud.find

    def odd(self: FakeCloud, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Mapping[str, Observed]:
        found = real(self, scope, wanted, ids)
        return {key: replace(one, facts={**one.facts, "said": text}) for key, one in found.items()}

    monkeypatch.setattr(FakeCloud, "find", odd)
    pod = house.ready()
    house.release(pod)
    assert house.run(pod, PodState.RELEASED).state is PodState.RELEASED


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ({"a\0": ["b\0", 1, None, True, 1.5]}, '{"a\ufffd":["b\ufffd",1,null,true,1.5]}'),
        ({"a": "\ud800x", "b": ("\udfff",)}, '{"a":"\ufffdx","b":["\ufffd"]}'),
        ({"a": "\\u0000"}, '{"a":"\\\\u0000"}'),
        (
            {"a": {"b\0"}, "c": TypeStates(type="x\0", total=0, states={})},
            '{"a":["b\ufffd"],"c":{"type":"x\ufffd","total":0,"states":{}}}',
        ),
    ],
)
def test_unstorable_characters_are_replaced(value: object, stored: str) -> None:
    assert storable_json(value).decode() == stored
