"""partitions.conf: weft's section is replaced, the rest is kept, and what OpenSM would misread is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import examples
from weft.generate.partitions_conf import (
    WeftPartition,
    begin_marker,
    end_marker,
    parse,
    render_section,
    replace_section,
    rewrite,
    split,
)
from weft.model.errors import InputError
from weft.model.fabrictypes import Mode
from weft.model.mark import Mark
from weft.model.owner import Owner

DEFAULT = "Default=0x7fff, ipoib : ALL=limited, ALL_SWITCHES=full,\n0xa=full,\n0xb=full;\n"
POD = "1f0c9a3b-0000-4000-8000-000000000001"

guids = st.integers(1, (1 << 64) - 1)
keys = st.integers(1, 0x7FFE)
marks = st.builds(
    lambda uuid, key: Mark("lab", Owner.pod(uuid), key),
    st.uuids(),
    st.from_regex(r"[a-z]{1,9}(/[a-z0-9]{1,9})?", fullmatch=True),
)
sections = st.lists(
    st.builds(
        lambda k, m, g: WeftPartition(k, m, tuple(sorted(g))), keys, marks, st.frozensets(guids, max_size=6)
    ),
    unique_by=(lambda p: p.pkey, lambda p: p.name),
    max_size=6,
)
foreign = st.text(st.characters(codec="latin-1"), max_size=300)


def one(pkey: int = 0x101, *members: int) -> WeftPartition:
    return WeftPartition(pkey, Mark("lab", Owner.pod(POD), "partition"), members)


@settings(max_examples=examples(40))
@given(sections)
def test_written_section_reads_back(partitions: list[WeftPartition]) -> None:
    """Random partitions come back the same, without a problem."""
    conf = parse(replace_section(DEFAULT, "lab", partitions), "lab")
    assert conf.partitions == tuple(sorted(partitions, key=lambda p: p.pkey))
    assert conf.problems == ()


@settings(max_examples=examples(40))
@given(foreign, foreign, sections, sections)
def test_foreign_text_is_kept(
    before: str, after: str, first: list[WeftPartition], second: list[WeftPartition]
) -> None:
    """Any bytes around the section survive any number of replacements, in order."""
    before = before if not before or before.endswith("\n") else before + "\n"
    text = before + render_section("lab", first) + after
    changed = replace_section(text, "lab", second)
    assert changed == before + render_section("lab", second) + after
    assert split(changed, "lab")[::2] == (before, after)


@settings(max_examples=examples(40))
@given(foreign)
def test_arbitrary_text_is_parsed(text: str) -> None:
    """Any bytes are parsed or reported; nothing raises."""
    conf = parse(text, "lab")
    assert conf.definitions or conf.fatal


@settings(max_examples=examples(40))
@given(sections, st.randoms())
def test_section_is_independent_of_input_order(partitions: list[WeftPartition], random: object) -> None:
    """So that an unchanged set of partitions never changes the file."""
    shuffled = list(partitions)
    random.shuffle(shuffled)  # pyright: ignore
    assert render_section("lab", shuffled) == render_section("lab", partitions)


def test_section_is_rendered_as_expected() -> None:
    """One GUID a line, sorted; the mark above; a semicolon after the last member; NONE without members."""
    assert render_section("lab", [one(0x102), one(0x101, 0xB, 0xA, 0xA)]) == (
        f"{begin_marker('lab')}\n"
        f"# weft site=lab pod={POD} key=partition\n"
        "weft-1f0c9a3b-101=0x101, ipoib :\n"
        "0x000000000000000a=full,\n"
        "0x000000000000000b=full;\n"
        f"# weft site=lab pod={POD} key=partition\n"
        "weft-1f0c9a3b-102=0x102, ipoib :\n"
        "NONE;\n"
        f"{end_marker('lab')}\n"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no partition is defined"),
        ("# only a comment\n", "no partition is defined"),
        ("A=0x1 0xa=full;\n", "no ':'"),
        ("A=0x1 : 0xa=full;\n0xb=full;\n", "no ':'"),
        ("A=0x1 : 0xzz=full;\n", "neither a GUID nor a group"),
        ("A=0x1 : 0002c903=full;\n", "neither a GUID nor a group"),
        ("A=0x1 : 0x0=full;\n", "neither a GUID nor a group"),
        ("A=zzz : 0xa=full;\n", "not a number"),
        ("A=0x10001 : 0xa=full;\n", "16 bits"),
        ("A : 0xa=full;\n", "no P_Key"),
        ("A=0x1 : 0xa=full;\nA : 0xb=full;\n", "no P_Key"),
        ("A=0x1 : 0xa=full\n  ; # the end\n", "lone ';'"),
        ("A=0x1 : mgid=ff12:401b::0707;\n", "without flags"),
        ("A=0x1 : mgid ;\n", "crashes"),
        ("A=0x1 : mgid=fe80::1,sl=1;\n", "no multicast address"),
        ("A=0x1 : 0xa=full;;\n", "lone ';'"),
        ("A=0x1 : 0xa=full;\r\n", "carriage return"),
        ("A=0x1 : " + ",".join(f"0x{g:016x}=full" for g in range(1, 200)) + ";\n", "longer than 4094"),
    ],
)
def test_text_that_makes_opensm_open_every_port_is_fatal(text: str, said: str) -> None:
    """OpenSM would make every port a full member of the default partition; the problem has the line."""
    fatal = parse(text, "lab").fatal
    assert any(said in p.text for p in fatal), parse(text, "lab").problems


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A=0x1 : 0xa=ful1;\n", "none of full, limited and both"),
        ("A=0x1 : 0xa=f;\n", "none of full, limited and both"),
        ("A=0x1 : AL=full;\n", "taken for ALL"),
        ("A=0x1 : 0xa=full", "no ';'"),
        ("A=0x1 : 0xa=full;\nA=0x2 : 0xb=full;\n", "also that of line 1"),
    ],
)
def test_mistakes_opensm_ignores_are_reported(text: str, said: str) -> None:
    """In the operator's part they are reported but don't stop weft."""
    conf = parse(text, "lab")
    assert any(said in p.text for p in conf.problems) and conf.fatal == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("0x000000000000000a=full", "0x000000000000000a=fool", "none of full"),
        ("0x000000000000000b=full;", "0x000000000000000b=full", "no ';'"),
    ],
)
def test_mistakes_in_wefts_section_are_fatal(old: str, new: str, said: str) -> None:
    """There must be no doubt about what weft writes."""
    text = render_section("lab", [one(0x101, 0xA, 0xB)]).replace(old, new)
    problems = [p for p in parse(text, "lab").problems if said in p.text]
    assert problems and problems[0].fatal


def test_key_in_both_parts_is_fatal() -> None:
    """OpenSM merges definitions: the operator's members would be added to the pod's."""
    text = "Theirs=0x101 : 0xc=full;\n" + render_section("lab", [one(0x101, 0xA)])
    assert any("in weft's section and outside of it" in p.text for p in parse(text, "lab").fatal)


def test_unfinished_definition_before_the_section_is_fatal() -> None:
    """Without its ';' it would continue into weft's section."""
    text = replace_section("Theirs=0x201 : 0xc=full\n", "lab", [one(0x101, 0xA)])
    assert any("before weft's section" in p.text for p in parse(text, "lab").fatal)


@pytest.mark.parametrize(
    "text",
    [
        f"{begin_marker('lab')}\n",
        f"{end_marker('lab')}\n{begin_marker('lab')}\n",
        render_section("lab", []) * 2,
    ],
)
def test_broken_markers_are_fatal_and_not_replaced(text: str) -> None:
    """The borders of weft's section aren't known then."""
    assert parse(text, "lab").fatal
    with pytest.raises(InputError, match="BEGIN"):
        replace_section(text, "lab", [])


def test_section_of_another_site_is_foreign() -> None:
    """Sites that share a fabric change only their own sections."""
    other = render_section("lab2", [one(0x201, 0xC)])
    text = replace_section(DEFAULT + other, "lab", [one(0x101, 0xA)])
    assert other in text and [p.pkey for p in parse(text, "lab").partitions] == [0x101]


def test_unreadable_mark_is_not_written() -> None:
    """A line break in a mark would become a line of the file."""
    for key in ("", "a b", "a\rb", "a\nSpy=0x1 : ALL=full;"):
        with pytest.raises(InputError, match="mark"):
            render_section("lab", [WeftPartition(0x101, Mark("lab", Owner.pod(POD), key), (0xA,))])


def test_repeated_or_impossible_keys_are_not_written() -> None:
    """Refused before any text is made."""
    for partitions in ([one(0x101), one(0x101)], [one(0x7FFF)], [one(0)], [one(0x101, 0)]):
        with pytest.raises(InputError):
            render_section("lab", partitions)


def test_rewrite_never_leaves_a_file_without_definition() -> None:
    """When the last pod's partition goes, OpenSM must not fall back to opening every port."""
    for text in (None, "", "# comment\n"):
        empty = rewrite(rewrite(text, "lab", [one(0x101, 0xA)]), "lab", [])
        assert parse(empty, "lab").fatal == ()
        assert parse(empty, "lab").expected([0xA, 0xB], [0xB]) == {0xA: {0x7FFF}, 0xB: {0xFFFF}}


def test_expected_p_key_tables_are_computed() -> None:
    """Groups, SELF, the last mention wins, the default partition is always there, unknown ports are left out."""
    text = (
        "Default=0x7fff : ALL=limited, SELF=full;\n"
        "A=0x1, defmember=full : 0xa, 0xb=limited, 0xdead;\n"
        "A=0x8001 : 0xb=full;\nB=0x2 : ALL_CAS=full, ALL_SWITCHES=full, 0xc=limited;\n"
    )
    assert parse(text, "lab").expected([0xA, 0xB, 0xC], [0xC]) == {
        0xA: {0x7FFF, 0x8001, 0x8002},
        0xB: {0x7FFF, 0x8001, 0x8002},
        0xC: {0xFFFF, 0x0002},
    }


def test_configured_partitions_are_read() -> None:
    """By P_Key, with each GUID's membership; the default partition too."""
    configured = parse(DEFAULT + "A=0x8001 : 0xa=full, 0xb;\n", "lab").configured()
    assert configured[1].members == {0xA: Mode.FULL, 0xB: Mode.LIMITED}
    assert configured[0x7FFF].members == {0xA: Mode.FULL, 0xB: Mode.FULL}


@pytest.mark.parametrize(
    ("flags", "full"),
    [
        ("defm=full", True),
        ("d=f", True),
        ("defmember=", True),
        ("defmember", False),
        ("defmember=full,defmember=x", True),
    ],
)
def test_abbreviated_flags_are_read_as_by_opensm(flags: str, full: bool) -> None:
    """Any prefix of a flag's name; unknown values change nothing."""
    found = parse(f"A=0x1,{flags} : 0xa;\n", "lab").expected([0xA], [])[0xA]
    assert found == {0x7FFF, 0x8001 if full else 0x1}


def test_indx0_flag_is_reported() -> None:
    """OpenSM 3.3.23 loses the default key of such members after some changes; reported outside weft's section."""
    [found] = parse("A=0x1, indx0 : 0xa;\n", "lab").problems
    assert "indx0" in found.text and not found.fatal
