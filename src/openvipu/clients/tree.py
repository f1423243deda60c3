"""The tree of commands: verb, noun, options. Common options may stand anywhere; nouns may be plural."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from openvipu import __version__
from openvipu.program import Parser

Action = Callable[..., None]
Options = Callable[[argparse.ArgumentParser], object]

COMMON = (
    (("-H", "--api-host"), "the controller's host"),
    (("-P", "--api-port"), "the controller's port"),
    (("--config",), "configuration file"),
    (("--api-user-id",), "user id"),
    (("--api-access-key",), "access key"),
    (("--tls",), "directory with certificates (openvipu-server --tls-init)"),
)


class Tree:
    """Builds the parser of one program."""

    def __init__(self, program: str, description: str) -> None:
        self._common = Parser(add_help=False)
        _add_common(self._common, argparse.SUPPRESS)
        self.parser = Parser(prog=program, description=description)
        _add_common(self.parser, None)
        self.parser.add_argument("--version", action="version", version=f"{program} {__version__}")
        self.parser.add_argument(
            "--server-version", action="store_true", help="ask the controller for its version"
        )
        self._verbs = self.parser.add_subparsers(dest="verb", metavar="VERB")
        self._nouns: dict[str, Any] = {}

    def add(self, verb: str, noun: str, action: Action, words: str, *options: Options) -> None:
        """The command ``verb noun``; ``action`` gets the session and the arguments."""
        if verb not in self._nouns:
            made = self._verbs.add_parser(verb, help=f"{verb} things", parents=[self._common])
            self._nouns[verb] = made.add_subparsers(dest="noun", metavar="NOUN", required=True)
        plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
        leaf = self._nouns[verb].add_parser(
            noun, aliases=[plural], help=words, description=words, parents=[self._common]
        )
        for option in options:
            option(leaf)
        leaf.set_defaults(action=action)

    def add_plain(self, verb: str, action: Action, words: str, *options: Options) -> None:
        """A command of one word that needs no controller; ``action`` gets the parser and the arguments."""
        self._one_word(verb, words, options).set_defaults(plain=action)

    def add_command(self, verb: str, action: Action, words: str, *options: Options) -> None:
        """A command of one word; ``action`` gets the session and the arguments."""
        self._one_word(verb, words, options).set_defaults(action=action)

    def _one_word(self, verb: str, words: str, options: tuple[Options, ...]) -> argparse.ArgumentParser:
        leaf = self._verbs.add_parser(verb, help=words, description=words, parents=[self._common])
        for option in options:
            option(leaf)
        return leaf


def option(*flags: str, **settings: Any) -> Options:
    """An option, as ``add_argument`` takes it."""

    def add(parser: argparse.ArgumentParser) -> object:
        return parser.add_argument(*flags, **settings)

    return add


NAME = option("name")
FORCE = option("--force", action="store_true", help="also when something doesn't answer")


def words_after(parser: argparse.ArgumentParser, typed: tuple[str, ...]) -> list[str]:
    """What may follow the words ``typed`` so far, for shell completion."""
    for word in typed:
        following = _choices(parser).get(word)
        if following is not None:
            parser = following
    flags = [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]  # pyright: ignore[reportPrivateUsage]
    return sorted({*_choices(parser), *flags})


def paths(parser: argparse.ArgumentParser) -> list[tuple[str, ...]]:
    """Every sequence of verb and noun."""
    found: list[tuple[str, ...]] = [()]
    for word, following in _choices(parser).items():
        found += [(word, *rest) for rest in paths(following)]
    return found


def _choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            return dict(action.choices)
    return {}


def _add_common(parser: argparse.ArgumentParser, default: Any) -> None:
    for flags, words in COMMON:
        parser.add_argument(*flags, default=default, help=words)
    parser.add_argument(
        "--showjson", action="store_true", default=default or False, help="print the reply as JSON"
    )
