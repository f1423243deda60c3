"""`openstack pod …`: weft's commands as classes of osc-lib. The arguments and the work are those of `weft.cli`."""

from __future__ import annotations

import argparse
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from cliff.columns import FormattableColumn
from osc_lib.command import command
from osc_lib.exceptions import CommandError

from weft.cli.common import cell, clean, keep_after_dashes
from weft.cli.output import Listing, ReadCommand, as_fields
from weft.cli.text import error_lines
from weft.model.csvcells import cell_text
from weft.model.errors import WeftError
from weft.osc import API_NAME
from weft.osc.tree import OUTPUT, Recorder, pod_commands


class CellColumn(FormattableColumn[Any]):
    """A value with a separate form for human readers."""

    def human_readable(self) -> str:
        """The value as `weft` prints it in a table."""
        return clean(cell(self._value))


class WeftCommand(command.Command):
    """Base of all commands; `recorded` has the arguments and the function to run."""

    recorded: Recorder
    auth_required: bool = True
    titles: tuple[str, ...] = ()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.recorded.give(parser, self.titles)
        if "after_dashes" in self.recorded.defaults:
            keep_after_dashes(parser)
        return parser

    @contextmanager
    def signed_in(self, args: argparse.Namespace) -> Generator[None]:
        """Put `openstack`'s client into the arguments, and turn weft's errors into ones that `openstack` reports."""
        args.json = getattr(args, "json", False)
        try:
            if self.auth_required:
                args.client = getattr(self.app.client_manager, API_NAME)
            yield
        except WeftError as error:
            raise CommandError(clean("\n".join(error_lines(error)))) from None


class ListCommand(WeftCommand, command.Lister):
    """A command that lists."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        with self.signed_in(parsed_args):
            found: Any = self.recorded.defaults["run"].look(parsed_args)
            columns = found.columns_in(parsed_args.formatter, parsed_args.columns)
            as_csv = parsed_args.formatter == "csv"
            rows = [tuple(_value(row.get(column), as_csv) for column in columns) for row in found.rows]
            return Listing(columns, found.rows).headings, rows


class ShowCommand(WeftCommand, command.ShowOne):
    """A command that shows a record; the record's details are further fields."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        with self.signed_in(parsed_args):
            found: Any = self.recorded.defaults["run"].look(parsed_args)
            fields = {name: _value(value) for name, value in found.fields.items()}
            fields |= {
                name: DetailsColumn(rows) for name, rows in as_fields(found, parsed_args.formatter).items()
            }
            return tuple(fields), tuple(fields.values())


class DetailsColumn(FormattableColumn[Any]):
    """A list within a record, with one row a line."""

    def human_readable(self) -> str:
        """One line for each row, of `name=value`."""
        return "\n".join(
            clean(", ".join(f"{name}={cell(value)}" for name, value in row.items() if value))
            for row in self._value
        )


class ActionCommand(WeftCommand):
    """Any other command: prints what it did, or writes the record with `--format`."""

    titles = (OUTPUT,)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        with self.signed_in(parsed_args):
            return self.recorded.defaults["run"](parsed_args)


def _value(value: Any, as_csv: bool = False) -> Any:
    if isinstance(value, str) and cell(value) in (value, "-"):
        return cell_text(clean(value)) if as_csv else clean(value)
    return CellColumn(value) if isinstance(value, str | bool | list | tuple | dict) else value


def _class(path: tuple[str, ...], recorded: Recorder) -> type[WeftCommand]:
    """The class of a command: `PodList` of `pod list`, `PodBandwidthPlan` of `pod bandwidth-plan`."""
    run = recorded.run
    base: type[WeftCommand] = (
        (ListCommand if run.many else ShowCommand) if isinstance(run, ReadCommand) else ActionCommand
    )
    inside = {
        "__doc__": recorded.description,
        "__module__": __name__,
        "recorded": recorded,
        "auth_required": recorded.signs_in,
    }
    words = [word.capitalize() for part in path for word in part.split("-")]
    return cast(type[WeftCommand], type("".join(words), (base,), inside))


COMMANDS = {made.__name__: made for made in (_class(*one) for one in pod_commands().items())}
"""Each command's class by its name. It is also an attribute of this module, because entry points name it so."""
globals().update(COMMANDS)
