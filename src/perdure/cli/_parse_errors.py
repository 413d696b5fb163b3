"""What the parser of the command line refuses, in the words of every other error."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Literal, get_args, get_origin

from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from .._suggestions import suggest_names
from ..record import InputError

if TYPE_CHECKING:
    from cyclopts import CycloptsError

    from ._command import Command

__all__ = ["describe_parse_error"]

FORMATS = ("json", "markdown", "latex", "csv")
KINDS = {int: "a whole number", float: "a number", bool: "no value"}


def describe_parse_error(error: CycloptsError, command: Command) -> str:
    """Return one line that names the value, what was expected, and what to do."""
    if isinstance(error.__cause__, InputError):
        return str(error.__cause__)
    see = f"see `{command.words} --help`"
    if isinstance(error, UnknownCommandError):
        name, known = (error.unused_tokens or [""])[0], command.subcommands
        return (
            f"command is {name!r:.40}, expected {' or '.join(known)}; "
            f"{suggest_names(name, known)}{see}"
        )
    if isinstance(error, UnknownOptionError):
        return _describe_option(error.token.keyword or error.token.value, command, see)
    if isinstance(error, UnusedCliTokensError):
        extra = (error.unused_tokens or [""])[0]
        return f"{extra!r:.60} is one argument too many; {see}"
    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword} is given twice, expected once"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        if error.keyword is not None and error.keyword.startswith("-"):
            return f"{error.keyword} has no value, expected one after it; {see}"
        return f"{error.argument.name.lstrip('-').upper()} is missing; {see}"
    if isinstance(error, CoercionError) and error.token is not None:
        return _describe_value(error)
    return f"{error}; {see}"


def _describe_option(option: str, command: Command, see: str) -> str:
    option = option.split("=")[0]
    start, name = f"option {option:.40} is not known", option.lstrip("-")
    if name in FORMATS and "--format" in command.options:
        return f"{start}; write --format {name}"
    if close := difflib.get_close_matches(option, sorted(command.options), n=1, cutoff=0.8):
        return f"{start}; did you mean {close[0]}? {see}"
    owner = command.owner(option)
    if command.is_study and owner == "perdure run":
        return f"{start}: the study file says how to train; {see}"
    if owner is not None:
        return f"{start}: it is an option of `{owner}`; {see}"
    return f"{start}; {see}"


def _describe_value(error: CoercionError) -> str:
    assert error.token is not None
    name = error.argument.name.lstrip("-").upper() if error.argument else "the argument"
    option = error.token.keyword or name
    value, kind = error.token.value, error.target_type
    if error.msg is not None:  # from a parser of our own
        return f"{option}: {error.msg}"
    if get_origin(kind) is Literal:
        choices = [str(choice) for choice in get_args(kind)]
        close = difflib.get_close_matches(value, choices, n=1, cutoff=0.7)
        suggestion = f"; did you mean {close[0]}?" if close else ""
        return f"{option} is {value!r:.40}, expected {' or '.join(choices)}{suggestion}"
    expected = next((words for type_, words in KINDS.items() if kind is type_), "another value")
    return f"{option} is {value!r:.40}, expected {expected}"
