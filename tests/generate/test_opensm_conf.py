"""opensm.conf is read as OpenSM reads it; generated files are compared with the real program."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.amounts import examples, seeded
from weft.generate.opensm_conf import read_opensm_conf

DEFAULTS = {
    "m_key": "0x0000000000000000",
    "sm_key": "0x0000000000000001",
    "sa_key": "0x0000000000000001",
    "m_key_protection_level": "0",
    "sm_priority": "0",
    "no_partition_enforcement": "FALSE",
    "part_enforce": "both",
    "allow_both_pkeys": "FALSE",
    "console": "off",
}
"""Options of OpenSM 3.3.23: what `opensm -c FILE` writes."""

CASES = [
    ("m_key\t0x00ff", "m_key", "0x00000000000000ff"),
    ("m_key 0017", "m_key", "0x000000000000000f"),
    ("sm_key '0x10'", "sm_key", "0x0000000000000010"),
    ('sm_key "0x10', "sm_key", None),
    ("sa_key ff", "sa_key", None),
    ("sa_key 7\nsa_key 0xg", "sa_key", "0x0000000000000007"),
    ("sa_key -1", "sa_key", "0xffffffffffffffff"),
    ("sa_key 0x10000000000000000", "sa_key", None),
    ("sa_key 5 # well-known", "sa_key", "0x0000000000000005"),
    ("  sa_key   5\r", "sa_key", "0x0000000000000005"),
    ("sa_key\r 5", "sa_key", None),
    ("sm_priority 017", "sm_priority", "15"),
    ("sm_priority 16", "sm_priority", None),
    ("sm_priority 256", "sm_priority", None),
    ("m_key_protection_level 0x2", "m_key_protection_level", "2"),
    ("m_key_protection_level 9", "m_key_protection_level", "2"),
    ("no_partition_enforcement true", "no_partition_enforcement", "FALSE"),
    ("no_partition_enforcement FALSE # never", "no_partition_enforcement", "FALSE"),
    ('no_partition_enforcement "TRUE"', "part_enforce", "off"),
    ("allow_both_pkeys TRUE # never", "allow_both_pkeys", "TRUE"),
    ("allow_both_pkeys TRUE,", "allow_both_pkeys", "FALSE"),
    ("allow_both_pkeys", "allow_both_pkeys", "FALSE"),
    ('part_enforce "both"', "part_enforce", "both"),
    ("part_enforce Both", "part_enforce", "both"),
    ("part_enforce\tin", "part_enforce", "in"),
    ("console socket", "console", "socket"),
    ("console 'local'", "console", "local"),
    ("console Local", "console", None),
    ("# " + "x" * 1019 + "\nconsole local", "console", "local"),
    ("# " + "x" * 1020 + "console local", "console", "local"),
]


@pytest.mark.parametrize(("text", "name", "value"), CASES)
def test_option_is_read_as_by_opensm(text: str, name: str, value: str | None) -> None:
    """One construct each; None means the default."""
    assert read_opensm_conf(text).get(name) == value


def real(text: str, folder: Path) -> dict[str, str]:
    """The options with which the real program would run."""
    (folder / "in.conf").write_bytes(text.encode("latin-1"))
    program = shutil.which("opensm", path="/usr/sbin:/sbin:/usr/bin:/bin") or "opensm"
    command = [program, "-F", str(folder / "in.conf"), "-c", str(folder / "out.conf")]
    subprocess.run(command, capture_output=True, timeout=60, check=True)
    lines = (folder / "out.conf").read_text("latin-1").splitlines()
    return {name: value for name, _, value in (line.partition(" ") for line in lines) if name in DEFAULTS}


def compare(text: str, folder: Path) -> None:
    found = {**DEFAULTS, **read_opensm_conf(text)}
    seen = real(text, folder)
    if found["console"] not in ("off", "local", "loopback"):
        seen["console"] = found[
            "console"
        ]  # a build without such a console uses its default; weft warns of it
    assert {name: found[name] for name in DEFAULTS} == seen, text


@pytest.mark.fabric
def test_options_are_read_as_by_the_real_program(tmp_path: Path) -> None:
    """The constructs above, read by OpenSM itself."""
    for text, _, _ in CASES:
        compare(f"{text}\n", tmp_path)


@pytest.mark.fabric
def test_generated_files_are_read_as_by_the_real_program(tmp_path: Path) -> None:
    """Random names, values, blanks, quotes and comments."""
    for number in range(examples(120)):
        compare(generated(seeded(number)), tmp_path)


def generated(chance: random.Random) -> str:
    """A random options file of some lines."""
    numbers = [
        "0",
        "1",
        "2",
        "3",
        "4",
        "15",
        "017",
        "0x0f",
        "256",
        "-1",
        "+2",
        "ff",
        "0x",
        f"0x{'f' * 16}",
        "9" * 25,
    ]
    words = [
        "TRUE",
        "FALSE",
        "true",
        "True",
        "both",
        "in",
        "out",
        "off",
        "local",
        "loopback",
        "Both",
        "(null)",
    ]
    values = [*numbers, *words, "", "1 2"]
    blanks = ["", "", " ", "\t", "  ", "\r", "\v"]
    lines: list[str] = []
    for _ in range(chance.randint(1, 8)):
        name, value = chance.choice([*DEFAULTS, "other"]), chance.choice(values)
        if value == "(null)" and name in ("part_enforce", "console"):
            continue  # OpenSM crashes
        quoted = chance.choice(["{}", "{}", "{}", '"{}"', "'{}'", '"{}', "{}'"]).format(value)
        before, between, after = (
            chance.choice(blanks),
            chance.choice([" ", " ", "\t", "  ", "\r ", ""]),
            chance.choice(blanks),
        )
        lines.append(f"{before}{name}{between}{quoted}{after}{chance.choice(['', '', '#', ' # TRUE', ';'])}")
    return "\n".join([*lines, chance.choice(["", "#" + "x" * 1021 + "console local"]), ""])
