"""Names of servers: a pattern gives valid host names, unique within a pod, and stable."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from weft.model.order import Order
from weft.model.servernames import server_name


def _order(names: str | None, pod: str = "train") -> Order:
    nodes = {"count": 2, "flavor": "gpu8", "image": "tiny"} | ({"names": names} if names is not None else {})
    return Order.model_validate({"name": pod, "nodes": nodes})


@pytest.mark.parametrize(
    ("names", "index", "name"),
    [
        (None, 0, "train-0"),
        ("{pod}-{index}", 12, "train-12"),
        ("node{index:03}", 7, "node007"),
        ("node{index:02}", 12345, "node12345"),
        ("{index}-{pod}", 3, "3-train"),
        ("{pod}-{pod}{index}", 1, "train-train1"),
    ],
)
def test_pattern_expands_to_server_names(names: str | None, index: int, name: str) -> None:
    """The default is the pod's name and the server's number from 0."""
    assert server_name(_order(names).nodes.names, "train", index) == name


@pytest.mark.parametrize(
    ("names", "pod", "says"),
    [
        ("node", "train", r"a-z, 0-9, '-', \{pod\}"),
        ("{index}{index}", "train", "once"),
        ("{node}-{index}", "train", r"\{pod\} for the pod's name"),
        ("Node{index}", "train", "a-z, 0-9"),
        ("a.b{index}", "train", "a-z, 0-9"),
        ("{index:9}", "train", "a-z, 0-9"),
        ("{index!r}", "train", "a-z, 0-9"),
        ("", "train", "a-z, 0-9"),
        ("-{pod}{index}", "train", "start and end with a letter or digit"),
        ("{pod}{index}-", "train", "start and end with a letter or digit"),
        ("{index:02}", "train", "digits alone"),
        ("{pod}{index}", "10", "digits alone"),
        ("{pod}-{pod}-{index}", "a" * 40, "at most 63 characters"),
    ],
)
def test_pattern_with_invalid_host_names_is_refused(names: str, pod: str, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        _order(names, pod)


def test_longest_pod_name_has_valid_server_names() -> None:
    assert len(server_name(_order(None, "p" * 40).nodes.names, "p" * 40, 99_999)) <= 63
