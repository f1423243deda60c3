"""Entries of an order's storage: each error is one sentence with its field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from weft.model.order import Order
from weft.model.storageorder import gib

SHARE = {"share": "data", "size": "1TiB", "mount": "/data"}


def order(*entries: dict[str, Any]) -> Order:
    nodes = {"count": 2, "flavor": "gpu8", "image": "tiny"}
    return Order.model_validate({"name": "train", "nodes": nodes, "storage": entries})


def test_sizes_are_converted_to_gib() -> None:
    assert [gib("1GiB"), gib("500GiB"), gib("2TiB")] == [1, 500, 2048]
    assert order(SHARE).storage[0].gib == 1024
    assert order({"volume": "v", "existing": "one", "mount": "/v"}).storage[0].existing == ("one",)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"mount": "/data"}, "exactly one of share, volume, export and scratch"),
        ({**SHARE, "volume": "x"}, "exactly one of share, volume, export and scratch"),
        ({"share": "data", "mount": "/data"}, "exactly one of size"),
        ({**SHARE, "existing": "x"}, "exactly one of size"),
        ({"share": "data", "existing": "x", "keep": True, "mount": "/data"}, "omit keep"),
        ({"share": "data", "existing": "x", "type": "t", "mount": "/data"}, "omit type"),
        ({"share": "data", "existing": ["x", "y"], "mount": "/data"}, "one existing share"),
        ({"volume": "data", "existing": ["x", "x"], "mount": "/data"}, "each volume once"),
        ({"export": "home", "size": "1GiB", "mount": "/home"}, "with export, omit size"),
        ({"export": "home", "keep": True, "mount": "/home"}, "with export, omit keep"),
        ({"scratch": "nvme", "type": "fast", "mount": "/s"}, "with scratch, omit type"),
        ({"volume": "v", "size": "1GiB", "read_only": True, "mount": "/v"}, "with volume, omit read_only"),
        ({"scratch": "sata", "mount": "/s"}, "nvme"),
        *(
            ({**SHARE, "size": s}, "size")
            for s in ("0GiB", "1GB", "1.5TiB", "-1GiB", "1025TiB", 5, "", "99999999GiB")
        ),
        *(
            ({**SHARE, "mount": m}, "mount")
            for m in (
                "data",
                "/",
                "//data",
                "/data/",
                "/a/../b",
                "/etc/x",
                "/usr",
                "/a b",
                "/$(x)",
                "/a'b",
                "/.x",
                1,
            )
        ),
        *(({**SHARE, "share": n}, "share") for n in ("", "A", "a/b", "-a", "a" * 41, "a b")),
        ({**SHARE, "type": "a;b"}, "type"),
        ({"share": "s", "existing": "x;y", "mount": "/s"}, "existing"),
        ({**SHARE, "colour": "red"}, "colour"),
    ],
)
def test_invalid_entry_is_refused(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        order(entry)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([SHARE, {**SHARE, "mount": "/other"}], "share data is ordered twice"),
        ([SHARE, {**SHARE, "share": "other"}], "two entries of storage have the mount /data"),
        ([SHARE, {**SHARE, "share": "other", "mount": "/data/x"}], "inside each other"),
        ([{"scratch": "nvme", "mount": "/a"}, {"scratch": "nvme", "mount": "/b"}], "ordered twice"),
        ([{**SHARE, "share": f"s{n}", "mount": f"/m{n}"} for n in range(17)], "at most 16"),
    ],
)
def test_conflicting_entries_are_refused(entries: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        order(*entries)
    assert said in str(caught.value)


def test_share_and_volume_may_have_the_same_name() -> None:
    assert len(order(SHARE, {"volume": "data", "size": "1GiB", "mount": "/v"}).storage) == 2
