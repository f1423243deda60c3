"""YAML is read as text with line numbers; nothing is guessed or executed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import examples
from weft.app import yamltext
from weft.app.yamltext import read_yaml
from weft.model.errors import InputErrors


def problem(text: str) -> str:
    """The only sentence about an invalid text."""
    with pytest.raises(InputErrors) as caught:
        read_yaml(text, "a.yaml")
    assert len(caught.value.errors) == 1
    return str(caught.value)


def test_plain_values_stay_text() -> None:
    """PCI addresses, GUIDs, MAC addresses, times, and a node called no."""
    text = "pci: 0000:05:00.0\nguid: 0010000000000001\nmac: 10:20:30:40:50:10\nname: no\nend: 2027-01-31T18:00:00Z\n"
    data, _ = read_yaml(text, "a.yaml")
    assert data == {
        "pci": "0000:05:00.0",
        "guid": "0010000000000001",
        "mac": "10:20:30:40:50:10",
        "name": "no",
        "end": "2027-01-31T18:00:00Z",
    }


def test_empty_value_is_null_and_quoted_value_is_text() -> None:
    """An empty value, ~ and null are nothing; quoted they are text."""
    data, _ = read_yaml("a:\nb: ~\nc: null\nd: 'null'\ne: \"\"\n", "a.yaml")
    assert data == {"a": None, "b": None, "c": None, "d": "null", "e": ""}


def test_every_value_has_its_line() -> None:
    """Keys, items and their contents; anything else has the line of its parent."""
    _, where = read_yaml("a:\n  - b: 1\n    c: 2\n  - d\ne: {f: 1}\n", "a.yaml")
    assert where.at(("a", 0, "c")) == "a.yaml:3"
    assert where.at(("a", 1)) == "a.yaml:4"
    assert where.at(("e", "f", "nothing", 7)) == "a.yaml:5"
    assert where.at(("zzz",)) == "a.yaml:1"


def test_anchors_work_and_merge_keys_are_plain_keys() -> None:
    """An alias is the value it points to; `<<` is a plain key, and so an unknown field."""
    data, _ = read_yaml("a: &x {k: v}\nb: *x\nc: {<<: *x}\n", "a.yaml")
    assert data == {"a": {"k": "v"}, "b": {"k": "v"}, "c": {"<<": {"k": "v"}}}


def test_duplicate_key_is_refused_at_its_second_line() -> None:
    """With the line of the first."""
    assert (
        problem("a: 1\nb: 2\na: 3\n")
        == "a.yaml:3: a: 'a' is not allowed: it is given twice; first at a.yaml:1"
    )


def test_alias_that_contains_itself_is_refused() -> None:
    assert (
        problem("a: &x\n  - *x\n") == "a.yaml:1: a[0]: '…' is not allowed: an alias must not contain itself"
    )


def test_alias_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten lines that stand for ten thousand million values are refused at a limit."""
    assert yamltext.MOST_VALUES == 1_000_000
    monkeypatch.setattr(yamltext, "MOST_VALUES", 10_000)
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert "at most 10000 values in one document" in problem("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a\n", "a.yaml:1: document: 'a list' is not allowed: must be a mapping of fields"),
        ("just text", "a.yaml:1: document: 'text' is not allowed: must be a mapping of fields"),
        ("", "a.yaml:1: document: 'nothing' is not allowed: must be a mapping of fields"),
        ("? [a]\n: b\n", "a.yaml:1: document: 'a list or mapping' is not allowed: a field's name is text"),
        ("a: !!python/object:os.system x\n", "a.yaml:1: a: 'tag:yaml.org,2002:python/object:os.system' "
         "is not allowed: tags are not used here"),
    ],
)  # fmt: skip
def test_document_that_is_not_a_mapping_is_refused(text: str, expected: str) -> None:
    """Lists, text, nothing, keys that aren't text, and tags."""
    assert problem(text) == expected


def test_two_documents_in_one_file_are_refused() -> None:
    """It would be unclear which one counts."""
    assert problem("a: 1\n---\nb: 2\n").startswith("a.yaml:2: document: 'but found another document'")


def test_deep_nesting_is_refused() -> None:
    """A hundred thousand brackets give a sentence, not a crash."""
    with pytest.raises(InputErrors):
        read_yaml("a: " + "[" * 100_000, "a.yaml")
    with pytest.raises(InputErrors):
        read_yaml("a: " + "[" * 50_000 + "]" * 50_000, "a.yaml")


@settings(max_examples=examples(100))
@given(st.text(max_size=200))
def test_arbitrary_text_is_read_or_refused(text: str) -> None:
    """Any bytes give data or a sentence, never another exception."""
    try:
        data, _ = read_yaml(text, "a.yaml")
    except InputErrors as error:
        assert str(error)
    else:
        assert isinstance(data, dict)
