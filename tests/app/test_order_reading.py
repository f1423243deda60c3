"""A pod file is read as an order, or refused with everything that is wrong in it."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.paths import EXAMPLES
from weft.app.orderfile import load_order
from weft.model.errors import InputErrors
from weft.model.order import Order

SMALLEST = "name: p\nnodes: {count: 1, flavor: f, image: i}\n"


def sentences(source: Any) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        load_order(source, "pod.yaml")
    return [str(e) for e in caught.value.errors]


@pytest.mark.parametrize("path", sorted((EXAMPLES / "pods").glob("*.yaml")), ids=lambda p: p.stem)
def test_example_orders_are_valid(path: Path) -> None:
    """A file, its text and its JSON give the same order."""
    order = load_order(path)
    assert load_order(path.read_text()) == order
    assert load_order(order.model_dump(mode="json")) == order


def test_missing_fields_get_defaults() -> None:
    """The smallest order: dedicated adapters, near each other if possible, no access from outside."""
    order = load_order(SMALLEST)
    assert (order.fabric.hcas, order.fabric.hcas_per_node) == ("dedicated", None)
    assert (order.locality.required, order.locality.preferred) == ("site", "leaf")
    assert (order.access.ssh_from, order.access.floating_ip, order.network.router) == ((), "none", False)
    assert load_order(SMALLEST + "fabric:\nlease: ~\ncloud: null\n") == order


def test_all_mistakes_are_reported_with_their_lines() -> None:
    """An unknown field, a number too large, a bad name, an unknown word, a missing image: a sentence each, by
    line."""
    text = "name: Bad_Name\nnodes:\n  count: 0\n  flavour: f\n  flavor: f\n"
    assert sentences(text + "locality: {required: galaxy}\nlease:\n  ende: x\n") == [
        "pod.yaml:1: name: 'Bad_Name' is not allowed: a-z, 0-9 and '-', starting and ending with a letter or digit, at "
        "most 40 characters",
        "pod.yaml:2: nodes.image: missing: Glance image, by name or id",
        "pod.yaml:3: nodes.count: '0' is not allowed: 1 or more",
        "pod.yaml:4: nodes.flavour: 'f' is not allowed: unknown field; did you mean flavor? "
        "known here: accelerators, count, flavor, image, kind, names, sharing, spare",
        "pod.yaml:6: locality.required: 'galaxy' is not allowed: 'node', 'nvlink_domain', "
        "'leaf', 'block', 'hall', 'building' or 'site'",
        "pod.yaml:8: lease.ende: 'x' is not allowed: unknown field; did you mean end? known here: duration, end, start",
    ]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("lease: {end: 2027-01-31T18:00:00}", "a time with time zone, such as 2027-01-31T18:00:00Z"),
        ("lease: {end: tomorrow}", "pod.yaml:3: lease.end: 'tomorrow' is not allowed: "),
        ("locality: {required: leaf, preferred: block}", "preferred (block) must not be wider than required (leaf)"),
        ("access: {key_pair: a, ssh_key: ssh-rsa AAAA}", "give key_pair or ssh_key, not both"),
        ("access: {ssh_key: ssh-rsa AAAA}", "pod.yaml:3: access.ssh_key: 'ssh-rsa AAAA' is not allowed: a complete"),
        ("access: {ssh_key: my key}", "pod.yaml:3: access.ssh_key: 'my key' is not allowed: "),
        ("access: {ssh_from: [10.0.0.1/8]}", "pod.yaml:3: access.ssh_from[0]: '10.0.0.1/8' is not allowed: "
         "an IPv4 network such as 10.1.0.0/24, without host bits"),
        ("access: {ssh_from: 10.0.0.0/8}", "pod.yaml:3: access.ssh_from: '10.0.0.0/8' is not allowed: a list"),
        ("network: {router: perhaps}", "pod.yaml:3: network.router: 'perhaps' is not allowed: true or false"),
        ("fabric: {bisection_gbps: -1}", "pod.yaml:3: fabric.bisection_gbps: '-1' is not allowed: 0 or more"),
        ("fabric: {bisection_gbps: 0.5}", "pod.yaml:3: fabric.bisection_gbps: '0.5' is not allowed: a whole number"),
        ("locality: {exclusive: leaf}", "pod.yaml:3: locality.exclusive: 'leaf' is not allowed: true or false"),
        ("locality: {apart_from: team-b}", "pod.yaml:3: locality.apart_from: 'team-b' is not allowed: a list"),
        ("locality: {apart_from: ['']}", "pod.yaml:3: locality.apart_from[0]: '' is not allowed: "),
        (f"locality: {{apart_from: [{', '.join(f'p{n}' for n in range(65))}]}}", "at most 64"),
        ("fabric: {hcas_per_node: 17}", "pod.yaml:3: fabric.hcas_per_node: '17' is not allowed: 16 or less"),
        ("nodes: {}", "nodes: 'nodes' is not allowed: it is given twice; first at pod.yaml:2"),
    ],
)  # fmt: skip
def test_one_mistake_gives_one_sentence(more: str, sentence: str) -> None:
    """The sentence names line and field, and what is allowed."""
    (only,) = sentences(SMALLEST + more + "\n")
    assert sentence in only
    assert only.startswith("pod.yaml:3: ")


@pytest.mark.parametrize("nodes", ["{count: 1, image: i}", "{count: 1, image: i, flavor: f, accelerators: "
                                   "{type: h100, count: 1}}"])  # fmt: skip
def test_flavor_and_accelerators_exclude_each_other(nodes: str) -> None:
    """Neither, or both, is reported at the mapping that has them."""
    assert sentences(f"name: p\nnodes: {nodes}\n") == [
        "pod.yaml:2: nodes: 'a mapping' is not allowed: exactly one of flavor and accelerators is required"
    ]


def test_lease_end_in_any_zone_is_converted_to_utc() -> None:
    order = load_order(SMALLEST + "lease: {end: 2027-01-31T18:00:00+02:00}\n")
    assert order.lease.end is not None
    assert order.lease.end.astimezone(UTC) == datetime(2027, 1, 31, 16, tzinfo=UTC)


def test_user_data_has_novas_size_limit() -> None:
    """49,149 bytes are 65,532 in base64 and fit, one more doesn't; two-byte letters count twice."""
    data = {"name": "p", "nodes": {"count": 1, "flavor": "f", "image": "i"}}
    fits = "x" * 49_149
    assert len(base64.b64encode(fits.encode())) <= 65_535 < len(base64.b64encode((fits + "xxxx").encode()))
    assert load_order(data | {"access": {"user_data": fits}}).access.user_data == fits
    for text, size in ((fits + "x", 49_150), ("ü" * 24_575, 49_150)):
        (only,) = sentences(data | {"access": {"user_data": text}})
        assert f"it has {size}" in only
        assert len(only) < 250


def test_errors_in_an_api_document_name_no_file() -> None:
    """The sentences are those for a file, without file and line."""
    assert sentences({"name": "p", "nodes": {"count": "many", "flavor": "f", "image": "i"}}) == [
        "nodes.count: 'many' is not allowed: a whole number"
    ]
    assert sentences({}) == [
        "name: missing: Name of the pod, unique in the project: a-z, 0-9 and -, at most 40 characters",
        "nodes: missing: Nodes and their servers",
    ]


def test_deeply_nested_document_is_refused() -> None:
    """5,000 nested mappings."""
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    assert any("unknown field" in s for s in sentences({"name": "p", "access": deep}))


def test_order_is_immutable() -> None:
    """Orders are shared between threads."""
    order: Any = load_order(SMALLEST)
    with pytest.raises(ValueError, match="frozen"):
        order.name = "other"
    assert isinstance(order, Order)
