"""The service is made of classes of verbs: none may hide another's names."""

from __future__ import annotations

from collections import defaultdict

from weft.app.service import Service


def test_classes_of_verbs_define_no_name_twice() -> None:
    """A private helper of one would silently replace that of another, which type checkers accept."""
    defined: dict[str, list[str]] = defaultdict(list)
    for one in Service.__mro__[1:-1]:
        for name in vars(one):
            if not (name.startswith("__") and name.endswith("__")):
                defined[name].append(one.__name__)
    assert {name: by for name, by in defined.items() if len(by) > 1} == {}
    assert len(defined) > 100
