"""The command line: parse, call, print.

Exit codes: 0; 1 a failed computation, or FAIL; 2 invalid input; 3 an inconclusive check.
"""

from __future__ import annotations

import difflib
import errno
import io
import os
import re
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args, get_origin

from cyclopts import App, CycloptsError
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from .. import __version__
from .._suggestions import suggest_names
from ..record import InputError, RecordError
from ._output import STDIN, announce_waiting, print_lines, print_stderr, running_command
from .compare import compare
from .data import data_app
from .evaluate import evaluate
from .plan import plan
from .plot import plot
from .reference import explain, list_app, which
from .report import report, watch
from .run import run
from .score import score
from .store import runs_app
from .store.import_ import import_
from .study import study_app
from .study.reproduce import reproduce
from .verdict import check, flips, freeze

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["app", "main"]

Shell = Literal["bash", "zsh", "fish"]

app = App(
    name="perdure",
    help="Measure what a model retains while it keeps learning.",
    version=__version__,
)
app.command(score)
app.command(compare)
app.command(check)
app.command(freeze)
app.command(flips)
app.command(which)
app.command(explain)
app.command(plan)
app.command(plot)
app.command(report)
app.command(watch)
app.command(run)
app.command(evaluate)
app.command(study_app)
app.command(reproduce)
app.command(import_, name="import")
app.command(list_app)
app.command(data_app)
app.command(runs_app)


@app.command
def completion(shell: Shell) -> None:
    """Print a script with which a shell completes commands, options, names and paths.

    The script contains all names, so completing starts no program. Install it once, and again after
    an update:

    - bash: `perdure completion bash > ~/.local/share/bash-completion/completions/perdure`
    - zsh: `perdure completion zsh > "${fpath[1]}/_perdure"`
    - fish: `perdure completion fish > ~/.config/fish/completions/perdure.fish`

    Args:
        shell: Shell to complete in.
    """
    print_lines(*make_completion_script(app, shell).rstrip("\n").split("\n"))


def make_completion_script(app: App, shell: Shell) -> str:
    """Return the script that completes the commands of `app` in a shell."""
    script = app.generate_completion(prog_name="perdure", shell=shell)
    # As file names, so that a folder ends in a slash and can be continued.
    return script.replace("complete -F ", "complete -o filenames -F ")


def main() -> None:
    """Run the command in `sys.argv`; invalid input prints one line and exits with code 2."""
    arguments = [STDIN if argument == "-" else argument for argument in sys.argv[1:]]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals that lack a character
    command = Command(arguments, app)
    try:
        with running_command(command), announce_waiting(arguments[0] if arguments else "perdure"):
            code = app(
                arguments, exit_on_error=False, print_error=False, result_action="return_value"
            )
            sys.stdout.flush()
    except CycloptsError as error:
        _fail(command, describe_parse_error(error, command), 2)
    except ValueError as error:
        _fail(command, command.name_option(str(error)), 2)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except RecordError as error:
        _fail(command, str(error), 1)
    except OSError as error:
        _fail(command, *_describe_os_error(error))
    except KeyboardInterrupt:
        _fail(command, "interrupted", 130)
    except MemoryError:
        _fail(command, "not enough memory for this input", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _describe_os_error(error: OSError) -> tuple[str, int]:
    """Return the message and the exit code for a file that cannot be read or written."""
    reason = (error.strerror or str(error)).lower()
    if error.filename is None:  # of standard output, such as a full disk
        return f"cannot write: {reason}", 1
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
    return f"{error.filename}: {reason}", 1 if full else 2


def _fail(command: Command, message: str, code: int) -> None:
    with running_command(command):
        print_stderr(message)
    sys.exit(code)


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
