"""The command that is running: its words, its options, and where else an option exists."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cyclopts import App

__all__ = ["Command", "options_of"]

_LEADING_ARGUMENT = re.compile(r"([a-z][a-z_]*)(?= (?:is|has) )")


class Command:
    """The command that the arguments name, as far as they name one.

    Args:
        arguments: The words after `perdure`.
        program: All commands.
    """

    def __init__(self, arguments: Sequence[str], program: App) -> None:
        self._program, self.app, self.words = program, program, "perdure"
        for argument in arguments:
            if argument.startswith("-") or argument not in list(self.app):
                break
            self.app, self.words = self.app[argument], f"{self.words} {argument}"

    @cached_property
    def options(self) -> set[str]:
        """The options of the command, or of all its subcommands."""
        return options_of(self.app)

    @property
    def subcommands(self) -> list[str]:
        """The names of the subcommands."""
        return [name for name in self.app if not name.startswith("-")]

    @property
    def is_study(self) -> bool:
        """Whether a study file, and no option, says how to train."""
        return self.words.startswith("perdure study")

    def owner(self, option: str) -> str | None:
        """Return the first command that has an option; None if no command has it."""
        owners = (words for words, app in _commands(self._program) if option in options_of(app))
        return next(owners, None)

    def name_option(self, message: str) -> str:
        """Return a message that begins with a Python argument as one about the option.

        `blur is 5, expected …` becomes `--blur is 5, expected …` if the command has that option.
        """
        match = _LEADING_ARGUMENT.match(message)
        option = f"--{match[1].rstrip('_').replace('_', '-')}" if match else ""
        return option + message[match.end() :] if match and option in self.options else message


def options_of(command: App) -> set[str]:
    """Return the options of a command and of its subcommands."""
    subcommands = [command[name] for name in command if not name.startswith("-")]
    if subcommands:
        return set().union(*map(options_of, subcommands))
    arguments = command.assemble_argument_collection()
    return {name for argument in arguments for name in argument.names if name.startswith("--")}


def _commands(app: App, words: str = "perdure") -> Iterator[tuple[str, App]]:
    """Yield every command without subcommands, `perdure run` first: it has the most options."""
    names = [name for name in app if not name.startswith("-")]
    for name in sorted(names, key=lambda name: name != "run"):
        command, path = app[name], f"{words} {name}"
        if any(not sub.startswith("-") for sub in command):
            yield from _commands(command, path)
        else:
            yield path, command
