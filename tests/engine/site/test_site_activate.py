"""`weft site activate` after edits: only what changed is read and sent, and the answer is that of reading all files."""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.house import House
from tests.engine.site.test_site_upload import Counting, client
from tests.helpers.sitefolder import Folder
from weft.api.app import create_app
from weft.app import sitecache
from weft.app.siteedit import ALONE
from weft.app.sitefile import load_site
from weft.cli import site as site_commands
from weft.model.errors import InputErrors
from weft.model.site import Node
from weft.planning.site import parts
from weft.planning.site.check import check_site
from weft.planning.site.parts import cut
from weft.testing.callers import tokens
from weft.testing.keystone import FakeIdentity
from weft.testing.serving import served


class Desk:
    """An operator with a folder and a server, whose site is cut into parts of one or two nodes."""

    def __init__(self, path: Path, house: House, counting: Counting, url: str) -> None:
        self.folder, self.house, self.counting, self.url = Folder(path), house, counting, url

    def activate(self) -> list[str]:
        """Activate the site in the folder; returns what was asked of the server, without reads of parts. Fails unless
        the active site is the one in the files."""
        self.counting.take()
        parser = argparse.ArgumentParser()
        site_commands.add_commands(parser.add_subparsers())
        args = parser.parse_args(["site", "activate", str(self.folder.site)])
        args.client = client(self.url)
        assert args.run(args) == 0
        asked = [f"{method} {path.removeprefix('/v1/site')}" for method, path, _ in self.counting.take()]
        wanted = load_site(self.folder.site)
        record = self.house.store.site()
        assert record.site == wanted
        assert record.cut.document == cut(wanted).document
        return asked

    def entry(self) -> Path:
        """The only trace that is kept."""
        [found] = sitecache._entry(self.folder.site).parent.iterdir()  # type: ignore[union-attr]  # pyright: ignore
        return found


@pytest.fixture
def desk(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(parts, "USUAL", 3000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    counting = Counting(create_app(house.service, FakeIdentity(tokens())))
    with served(counting) as url:
        yield Desk(tmp_path, house, counting, url)


def was_read_whole(asked: list[str]) -> bool:
    """Whether no part was read from the server."""
    return not any(one.startswith("GET /parts/") for one in asked)


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on reading all files is an error."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("all files are read")

    return lambda: monkeypatch.setattr("weft.cli.siteactivate._whole", refuse)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("nodes.csv", "gpu07,rack2,compute", "gpu07,rack1,compute"),
        ("hcas.csv", "0xb8599f0300000100,0xb8599f0300000101,", "0xb8599f0300f00100,0xb8599f0300f00101,"),
        ("accelerators.csv", "gpu01,h100,0000:07:00.0,0", "gpu01,h100,0000:07:00.0,1"),
    ],
)
def test_edited_row_is_read_and_sent_alone(
    desk: Desk, forbid: Callable[[], None], file: str, old: str, new: str
) -> None:
    assert was_read_whole(desk.activate())
    forbid()
    desk.folder.replace(file, old, new)
    asked = desk.activate()
    assert sum(one.startswith("PUT /parts/") for one in asked) in (1, 2)
    desk.folder.replace(file, new, old)
    desk.activate()


def test_contradiction_with_an_unchanged_file_is_refused_with_its_line(desk: Desk) -> None:
    """An adapter gets the GUID of a switch, and nothing changes."""
    desk.activate()
    before = desk.house.store.site()
    desk.folder.replace("hcas.csv", "0xb8599f0300000100,", "0xb8599f0300100001,")
    with pytest.raises(InputErrors, match=r"hcas\.csv:2: hcas\[0\]\.guid: .*leaf01"):
        desk.activate()
    assert desk.house.store.site() is before


@pytest.mark.parametrize("spoil", ["cut", "flipped", "other", "open", "link", "folder", "version"])
def test_untrusted_trace_is_ignored(desk: Desk, monkeypatch: pytest.MonkeyPatch, spoil: str) -> None:
    desk.activate()
    entry, folder = desk.entry(), desk.entry().parent
    body = entry.read_bytes()
    if spoil == "cut":
        entry.write_bytes(body[:-10])
    elif spoil == "flipped":
        entry.write_bytes(body[:100] + bytes([body[100] ^ 1]) + body[101:])
    elif spoil == "other":
        entry.write_bytes(b"\xff not a trace\n{}")
    elif spoil == "open":
        entry.chmod(0o644)
    elif spoil == "link":
        entry.rename(folder / "elsewhere")
        entry.symlink_to(folder / "elsewhere")
    elif spoil == "folder":
        folder.chmod(0o755)
    else:
        monkeypatch.setattr(sitecache, "__version__", "0.0.1")
    assert sitecache.recall(desk.folder.site) is None
    desk.folder.replace("nodes.csv", "gpu07,rack2,compute", "gpu07,rack1,compute")
    assert was_read_whole(desk.activate())


def test_upload_entry_has_no_values_and_only_its_user_can_read_it(desk: Desk) -> None:
    desk.activate()
    entry = desk.entry()
    assert (entry.stat().st_mode & 0o777, entry.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    text = entry.read_text()
    assert "gpu01" in text
    assert not [value for value in ("rack1", "h100", "0xb8599f", "10.16.0.0", "weft.key") if value in text]


def test_number_of_traces_is_limited(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitecache, "MOST_ENTRIES", 2)
    trace = sitecache.SiteTrace(files=(), document="", starts=())
    for number in range(4):
        sitecache.keep(desk.folder.path / f"{number}.yaml", trace)
    kept = [sitecache.recall(desk.folder.path / f"{number}.yaml") for number in range(4)]
    assert [one is not None for one in kept].count(True) == 2


def test_other_files_beside_traces_are_left_alone(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder may be one that the user has for something else."""
    monkeypatch.setattr(sitecache, "MOST_ENTRIES", 1)
    desk.activate()
    folder = desk.entry().parent
    others = [folder / name for name in ("site.yaml", "gpu.trace", f"{'0' * 32}.traces")]
    for one in others:
        one.write_text("mine")
    (folder / f"{'0' * 32}.trace").mkdir()
    left = folder / ".half-abcdefgh"
    left.write_text("of a process that was killed")
    for one in (*others, left, folder / f"{'0' * 32}.trace"):
        os.utime(one, (0, 0))
    trace = sitecache.SiteTrace(files=(), document="", starts=())
    for number in range(3):
        sitecache.keep(desk.folder.path / f"{number}.yaml", trace)
    assert all(one.read_text() == "mine" for one in others) and not left.exists()
    assert len([one for one in folder.glob("*.trace") if len(one.name) == 38 and one.is_file()]) == 1


def test_link_to_itself_is_refused_with_a_sentence(desk: Desk) -> None:
    """Where a site was active before, too."""
    path = desk.folder.path / "nodes.csv"
    for _ in range(2):
        body = path.read_bytes()
        path.unlink()
        path.symlink_to(path)
        with pytest.raises(InputErrors, match=r"nodes\.csv"):
            desk.activate()
        path.unlink()
        path.write_bytes(body)
        desk.activate()
    desk.folder.site.unlink()
    desk.folder.site.symlink_to(desk.folder.site)
    with pytest.raises(InputErrors, match="an existing file"):
        desk.activate()


def test_site_that_another_activated_meanwhile_is_read_whole(desk: Desk) -> None:
    desk.activate()
    other = desk.house.store.site().site
    nodes = (other.nodes[0].model_copy(update={"maintenance": "theirs"}), *other.nodes[1:])
    desk.house.store.activate_site(other.model_copy(update={"nodes": nodes}), "another")
    desk.folder.replace("nodes.csv", "gpu07,rack2,compute", "gpu07,rack1,compute")
    assert was_read_whole(desk.activate())


@pytest.mark.parametrize("seed", range(3))
def test_any_edits_give_what_reading_all_files_gives(desk: Desk, seed: int) -> None:
    """`Desk.activate` compares; what reading them all refuses is refused, with the same sentences."""
    chance = random.Random(seed)
    refused = kept = 0
    desk.activate()
    for _ in range(16):
        file = chance.choice(["nodes.csv", "hcas.csv", "accelerators.csv"])
        path = desk.folder.path / file
        before = path.read_bytes()
        lines = before.decode().splitlines()
        for _ in range(chance.choice([1, 1, 3])):
            _edit(chance, lines)
        path.write_text("\n".join(lines) + chance.choice(["", "\n"]))
        try:
            wanted = [str(one) for one in _errors(desk.folder.site)]
            if not wanted:
                kept += not was_read_whole(desk.activate())
                continue
            refused += 1
            with pytest.raises(InputErrors) as error:
                desk.activate()
            assert [str(one) for one in error.value.errors] == wanted
        finally:
            if wanted or chance.random() < 0.5:
                path.write_bytes(before)
    assert refused and kept


def _errors(site: Path) -> list[object]:
    try:
        load_site(site)
    except InputErrors as error:
        return list(error.errors)
    return []


def _edit(chance: random.Random, lines: list[str]) -> None:
    """Changes a cell, mostly to another valid one, or adds, removes, moves, comments out or quotes a row."""
    number = chance.randrange(1, len(lines))
    cells = lines[number].split(",")
    acts = ["cell", "same", "gone", "twice", "moved", "comment", "quoted", "head"]
    act = chance.choice([*["good"] * 8, *acts])
    if act == "good":
        swaps = {"rack1": "rack2", "rack2": "rack1", "0": "1", "1": "0"}
        lines[number] = ",".join(swaps.get(cell, cell) for cell in cells)
    elif act == "cell":
        values = ["", " ", "0", "1", "rack1", "compute", "service", "h200", "0xb8599f0300000777", "200"]
        cells[chance.randrange(len(cells))] = chance.choice(values)
        lines[number] = ",".join(cells)
    elif act == "same":
        lines[number] = ", ".join(cells)
    elif act == "gone":
        del lines[number]
    elif act == "twice":
        lines.insert(number, lines[number])
    elif act == "moved":
        lines.insert(chance.randrange(1, len(lines)), lines.pop(number))
    elif act == "comment":
        lines[number] = "# " + lines[number]
    elif act == "quoted":
        lines[number] = f'"{cells[0]}",' + ",".join(cells[1:])
    else:
        header = lines[0].split(",")
        first, other = chance.sample(range(len(header)), 2)
        header[first], header[other] = header[other], header[first]
        lines[0] = ",".join(header)


def test_fields_taken_over_unchecked_are_read_by_no_check_of_a_site(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a server takes over without checking the site again."""
    site, read = load_site(desk.folder.site), set[str]()
    plain = Node.__getattribute__

    def noted(node: Node, name: str) -> object:
        read.add(name)
        return plain(node, name)

    with monkeypatch.context() as patched:
        patched.setattr(Node, "__getattribute__", noted)
        assert check_site(site) == []
        assert check_site(desk.house.site) == []
    assert {"rack", "hcas", "role"} <= read
    assert not read & ALONE
