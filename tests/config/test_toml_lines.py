"""Line numbers of values in a TOML file, which tomllib doesn't report."""

from __future__ import annotations

import time
from pathlib import Path

from weft.config.tomltext import LARGEST, TomlFile, read_toml

TEXT = '''# a comment
a.b = 1
[weft]   # with a comment
state = """
[serve]
state = "not a key"
"""
list = [
  "1",

  # [logs]
  "2",
]
[x.y]
"quoted key" = {in = {deep = 1}}
  [x.y.z]
  w = 2
[[rows]]
n = 1
'''


def read(folder: Path, text: str) -> TomlFile:
    path = folder / "weft.toml"
    path.write_bytes(text.encode())
    return read_toml(path, "--config")


def test_line_of_each_value_and_table_is_known(tmp_path: Path) -> None:
    """After multi-line strings and lists, in tables, dotted keys and inline tables; with CRLF too."""
    for text in (TEXT, TEXT.replace("\n", "\r\n")):
        lines = read(tmp_path, text).lines
        assert lines[("a",)] == lines[("a", "b")] == 2
        assert (lines[("weft",)], lines[("weft", "state")], lines[("weft", "list")]) == (3, 4, 8)
        assert ("serve",) not in lines and ("logs",) not in lines
        assert (lines[("x",)], lines[("x", "y")], lines[("x", "y", "quoted key")]) == (14, 14, 15)
        assert lines[("x", "y", "quoted key", "in", "deep")] == 15
        assert (lines[("x", "y", "z")], lines[("x", "y", "z", "w")], lines[("rows",)]) == (16, 17, 18)


def test_unknown_path_is_located_at_its_table(tmp_path: Path) -> None:
    """Without a table, at the file."""
    found = read(tmp_path, TEXT)
    assert found.where("weft", "nothing") == f"{found.path}:3"
    assert found.where("nothing") == str(found.path)


def test_very_long_value_is_located_in_bounded_time(tmp_path: Path) -> None:
    """After a list of thousands of lines, later lines are unknown, and nothing in the list is taken for a key."""
    rows = "\n".join('"a = 1",' for _ in range(7_000))
    text = f"[weft]\nlist = [\n{rows}\n]\nafter = 1\n"
    assert len(text) < LARGEST
    started = time.process_time()
    found = read(tmp_path, text)
    assert time.process_time() - started < 20
    assert found.where("weft", "after") == f"{found.path}:1" and ("weft", "a") not in found.lines
