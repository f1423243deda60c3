"""The record of how far weft's database has got: of several notes the highest counts, and a higher one is never
removed.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

from weft.drivers.openstack.session import Sessions
from weft.drivers.openstack.witness import OpenStackWitness
from weft.ports.witness import Witness


class KeyPairs:
    """Nova's key pairs of one user; `meanwhile` is called once, before the next creation."""

    def __init__(self) -> None:
        self.pairs: dict[str, str] = {"someone's": "ssh-rsa AAAA me@home"}
        self.meanwhile: Callable[[], object] = lambda: None
        self.listed = 0

    def listing(self, asked: str, path: str, collection: str) -> list[dict[str, Any]]:
        self.listed += 1
        return [{"keypair": {"name": name, "public_key": key}} for name, key in self.pairs.items()]

    def ask(self, asked: str, method: str, path: str, json: Any = None, ok: tuple[int, ...] = ()) -> None:
        if method == "POST":
            self.meanwhile, work = (lambda: None), self.meanwhile
            work()
            self.pairs[json["keypair"]["name"]] = json["keypair"]["public_key"]
        else:
            self.pairs.pop(path.rpartition("/")[2], None)  # 404 is fine


def test_highest_note_counts_and_is_not_removed_by_others() -> None:
    """Two processes write at the same time, each under its own name; another site's note is separate."""
    nova = KeyPairs()
    sessions = cast(Sessions, SimpleNamespace(own=lambda: SimpleNamespace(compute=nova)))
    one, two = OpenStackWitness(sessions), OpenStackWitness(sessions)
    assert one.witness("hall") is None
    first, second, third = (Witness(uuid4(), number) for number in (1, 2, 3))
    elsewhere = Witness(uuid4(), 9)
    one.testify("hall", first)
    one.testify("attic", elsewhere)
    nova.meanwhile = lambda: two.testify("hall", third)
    one.testify("hall", second)
    assert one.witness("hall") == third
    one.testify("hall", Witness(uuid4(), 4))
    assert len(nova.pairs) == 3 and two.witness("attic") == elsewhere


def test_notes_read_right_before_a_new_one_are_not_read_again() -> None:
    """Only for one new note, since the reading is older than the next."""
    nova = KeyPairs()
    one = OpenStackWitness(cast(Sessions, SimpleNamespace(own=lambda: SimpleNamespace(compute=nova))))
    for number in (1, 2):
        one.witness("hall")
        one.testify("hall", Witness(uuid4(), number))
    assert nova.listed == 2 and len(nova.pairs) == 2, "the older note is deleted"
    one.testify("hall", Witness(uuid4(), 3))
    assert nova.listed == 3 and len(nova.pairs) == 2
    one.witness("hall")
    one.testify("attic", Witness(uuid4(), 1))
    assert nova.listed == 5 and len(nova.pairs) == 3
