"""The arguments of weft's commands, recorded, so that a parser of cliff's can be given the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from weft.cli.common import SIGNING_IN
from weft.cli.output import ReadCommand

OUTPUT = "output formats"
Call = tuple[str, tuple[Any, ...], dict[str, Any]]


class Recorder:
    """Records the calls that `add_commands` makes to a parser, and replays them on another one.

    Attributes:
        defaults: those of `set_defaults`; `run` is the command.
        description: of the command.
        children: subcommands by name.
    """

    parse_known_args: Any = None
    """Exists because a command may wrap its parser's; the wrapper is never called here."""

    def __init__(self, description: str = "") -> None:
        self.description = description
        self.defaults: dict[str, Any] = {}
        self.children: dict[str, Recorder] = {}
        self._calls: list[Call] = []
        self._groups: list[tuple[str, dict[str, Any], Recorder]] = []

    def add_parser(self, name: str, description: str = "", **_: Any) -> Recorder:
        """The recorder of a subcommand, the same one each time."""
        return self.children.setdefault(name, Recorder(description))

    def add_subparsers(self, **_: Any) -> Recorder:
        """This recorder, so that subcommands are recorded in it."""
        return self

    def set_defaults(self, **given: Any) -> None:
        """Remember values that the parsed arguments get."""
        self.defaults.update(given)

    def add_argument(self, *names: str, **given: Any) -> None:
        """Remember an argument."""
        self._calls.append(("add_argument", names, given))

    def add_argument_group(self, title: str = "", **given: Any) -> Recorder:
        """Remember a group; its arguments are recorded in what is returned."""
        return self._group("add_argument_group", {"title": title, **given})

    def add_mutually_exclusive_group(self, **given: Any) -> Recorder:
        """Remember a mutually exclusive group; its arguments are recorded in what is returned."""
        return self._group("add_mutually_exclusive_group", given)

    def _group(self, kind: str, given: dict[str, Any]) -> Recorder:
        group = Recorder()
        self._groups.append((kind, given, group))
        return group

    @property
    def run(self) -> Callable[..., int] | ReadCommand | None:
        """What the command does; None: it only has subcommands."""
        return None if self.children else self.defaults.get("run")

    @property
    def signs_in(self) -> bool:
        """Whether the command asks weft's API."""
        return any(given.get("title") == SIGNING_IN for _, given, _ in self._groups)

    def give(self, parser: Any, titles: tuple[str, ...]) -> None:
        """Add the recorded arguments to another parser. Args: titles: of groups with a title, only these are added."""
        for name, names, given in self._calls:
            getattr(parser, name)(*names, **given)
        for kind, given, group in self._groups:
            if "title" not in given or given["title"] in titles:
                group.give(getattr(parser, kind)(**given), titles)
        if defaults := {name: value for name, value in self.defaults.items() if name != "run"}:
            parser.set_defaults(**defaults)

    def commands(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Recorder]]:
        """Every command with its path."""
        if self.run is not None:
            yield path, self
        for name, child in self.children.items():
            yield from child.commands((*path, name))


def pod_commands() -> dict[tuple[str, ...], Recorder]:
    """The commands of `weft pod`, by path: ("pod", "list")."""
    from weft.cli.pod import add_commands

    recorder = Recorder()
    add_commands(recorder)
    return dict(recorder.commands())
