"""The command line: parse, call, print.

Exit codes: 0; 1 a failed computation, or FAIL; 2 invalid input; 3 an inconclusive check.
"""

from __future__ import annotations

import errno
import io
import os
import sys

from cyclopts import App, CycloptsError

from .. import __version__
from ..record import RecordError
from ._command import Command
from ._output import STDIN, announce_waiting, print_stderr, running_command
from ._parse_errors import describe_parse_error
from .compare import compare
from .data import data_app
from .evaluate import evaluate
from .plan import plan
from .plot import plot
from .reference.completion import completion
from .reference.explain import explain
from .reference.list_ import list_app
from .reference.which import which
from .report import report
from .reproduce import reproduce
from .run import run
from .score import score
from .store.import_ import import_
from .store.runs import runs_app
from .study import study_app
from .verdict.check import check
from .verdict.flips import flips
from .verdict.freeze import freeze
from .watch import watch

__all__ = ["app", "main"]

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
app.command(completion)


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
