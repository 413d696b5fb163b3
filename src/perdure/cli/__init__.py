"""The command line: parse, call, print. Exit codes: 0, 1 a failed computation, 2 bad input."""

from __future__ import annotations

import errno
import io
import os
import sys

from cyclopts import App, CycloptsError

from .. import __version__
from ..record import InputError, RecordError
from ._output import STDIN, print_stderr
from .compare import compare
from .data import data_app
from .explain import explain
from .list_ import list_app
from .plan import plan
from .plot import plot
from .report import report
from .reproduce import reproduce
from .run import run
from .score import score
from .study import study_app
from .watch import watch

__all__ = ["app", "main"]

app = App(
    name="perdure",
    help="Measures what a model keeps while it goes on learning.",
    version=__version__,
)
app.command(score)
app.command(compare)
app.command(explain)
app.command(plan)
app.command(plot)
app.command(report)
app.command(watch)
app.command(run)
app.command(study_app)
app.command(reproduce)
app.command(list_app)
app.command(data_app)


def main() -> None:
    """Run the command in the arguments; a user's mistake is one line and exit code 2."""
    arguments = [STDIN if argument == "-" else argument for argument in sys.argv[1:]]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a poor terminal is no bad input
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:  # an error of our own says more than the parser's
        _fail(str(error.__cause__ if isinstance(error.__cause__, InputError) else error), 2)
    except ValueError as error:
        _fail(str(error), 2)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except RecordError as error:
        _fail(str(error), 1)
    except OSError as error:
        _fail(*_told(error))
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except MemoryError:
        _fail("not enough memory for this input", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _told(error: OSError) -> tuple[str, int]:
    """Return what to say of a file that the system refuses, and the exit code."""
    why = (error.strerror or str(error)).lower()
    if error.filename is None:  # what is printed goes to a file that is full, print_lines
        return f"cannot write: {why}", 1
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
    return f"{error.filename}: {why}", 1 if full else 2


def _fail(message: str, code: int) -> None:
    print_stderr(message)
    sys.exit(code)
