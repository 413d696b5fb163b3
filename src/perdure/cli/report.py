"""Pages for the browser: `perdure report` writes one, `perdure watch` serves a live one."""

from __future__ import annotations

import re
import sys
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from .._extras import import_user_attribute, install_hint, is_installed
from ..record import InputError, Run, RunFolder
from ..report.load import open_sources
from ..stats import PairTestName
from ._option_groups import DEFAULT_FILE_OPTIONS, FileOptions
from ._options import Flag, NonNegativeInt, PathText, check_paths
from ._output import print_lines, print_stderr, render_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..report.load import RunsByMethod

__all__ = ["report", "watch"]


def report(
    *sources: PathText,
    output: Annotated[Path, Parameter(("--output", "-o"))] = Path("report.html"),
    title: str | None = None,
    store: Path = Path("runs"),
    pool: Flag = False,
    finished: Flag = False,
    inputs: FileOptions = DEFAULT_FILE_OPTIONS,
    test: PairTestName = "t",
    unpaired: Flag = False,
    alpha: float = 0.05,
    examples: Annotated[str | None, Parameter(metavar="MODULE:NAME")] = None,
) -> int:
    """Write a report as a single HTML file that opens without a network connection.

    `perdure report runs` groups the runs in a folder by itself: runs that differ only in the seed
    are seeds of one method. `perdure report er=runs/a-* ewc=runs/b-*` names the methods.

    Args:
        sources: NAME=PATH,PATH… or PATH: run folders, folders of runs, score matrices, points.csv
            files, or patterns of such, or the TOML file of a study. A path without a name belongs
            to the name before it.
        output: File to write.
        title: Title of the page.
        store: Folder in which the runs of a study are stored.
        pool: Average runs under one NAME that differ in more than the seed.
        finished: Leave unfinished runs out.
        inputs: How to read and show the scores.
        test: Test of every pair of methods, as in `perdure compare`.
        unpaired: Do not pair runs by seed.
        alpha: Significance level: methods are distinguishable if p after Holm's correction is
            below it.
        examples: Function of a task and the id of an example, as module:name, that returns text or
            an image. The page shows it next to the examples that were lost.
    """
    if not sources:
        raise InputError("nothing to report; name a folder of runs, a matrix or a points.csv")
    check_paths(sources)
    if not 0 < alpha < 1:
        raise InputError(f"--alpha is {alpha:g}, expected a number between 0 and 1")
    if not output.parent.is_dir():
        raise InputError(f"{output}: there is no folder {output.parent}; make it first")
    if output.is_dir():
        raise InputError(
            f"{output} is a folder, expected a file; name one: -o {output}/report.html"
        )
    try:
        from ..report.page import render_page
        from ..report.page.results import PairTestOptions
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed, expected it for pages; {install_hint('report')}"
        ) from None
    methods, notes = open_sources(sources, inputs.make(), store, pool=pool, finished=finished)
    command = _arguments(
        sources, output=None if output == Path("report.html") else output, title=title,
        store=None if store == Path("runs") else store, pool=pool, finished=finished,
        transposed=inputs.transposed, no_transposed=inputs.transposed is False,
        upper=inputs.upper, percent=inputs.percent,
        lower_is_better=inputs.lower_is_better,
        range=None if inputs.range_ is None else "{:g},{:g}".format(*inputs.range_),
        test=None if test == "t" else test, unpaired=unpaired,
        alpha=None if alpha == 0.05 else alpha, examples=examples,
    )  # fmt: skip
    progress = _Counter(sum(map(len, methods.values())))
    text = render_page(
        methods, command=command, left_out=notes, title=title, on_progress=progress,
        test=PairTestOptions(test, unpaired, alpha), examples=_import_function(examples),
        write_options=render_options,
    )  # fmt: skip
    output.write_text(text, encoding="utf-8")
    for note in notes + _unfinished_notes(methods):
        print_stderr(f"note: {note}")
    print_lines(f"wrote {output} ({len(text) / 1e6:.1f} MB); open it in a browser")
    return 0


def _import_function(name: str | None) -> Callable[[str, int], object] | None:
    function = None if name is None else import_user_attribute(name, "examples")
    if function is not None and not callable(function):
        raise InputError(f"examples {name!r} is {type(function).__name__}, expected a function")
    return function


def _unfinished_notes(methods: RunsByMethod) -> list[str]:
    """Return a note on the runs that may still be training; those that failed have their own."""
    count = sum(
        isinstance(run, Run) and not run.finished and RunFolder(run.folder).failure() is None
        for runs in methods.values()
        for run in runs
    )
    runs = "1 unfinished run is" if count == 1 else f"{count} unfinished runs are"
    return (
        [f"{runs} shown up to the last finished task; --finished leaves unfinished runs out"]
        if count
        else []
    )


def _arguments(sources: Sequence[str], **options: object) -> list[str]:
    """Return the command line that was given, so that the page can show how it was made."""
    words = list(sources)
    for name, value in options.items():
        if value is not None and value is not False:
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else [str(value)]
    return words


class _Counter:
    """Shows on a terminal how many runs have been summarized, as many take a while."""

    def __init__(self, total: int) -> None:
        self.total = total

    def __call__(self, done: int) -> None:
        if sys.stderr.isatty() and self.total > 1:
            end = "\r\x1b[K" if done == self.total else ""
            sys.stderr.write(f"\rperdure: {done} of {self.total} runs{end}")
            sys.stderr.flush()


MIN_TOKEN_LENGTH = 8
AUTO = "auto"


def watch(
    store: Path = Path("runs"),
    *,
    port: NonNegativeInt | None = None,
    host: str = "127.0.0.1",
    token: str | None = None,
    open_: Annotated[Flag, Parameter("--open")] = False,
) -> int:
    """Show the runs in a folder on a web page that updates while they train.

    Prints the address of the page; Ctrl-C stops the server. Nothing is written.

    Args:
        store: Folder in which runs are stored.
        port: Port of the address. Defaults to 8765, or the next free one.
        host: Address to listen on. Addresses other than 127.0.0.1 expose the page to the network
            and require a token.
        token: Token that viewers must know; `auto` generates one.
        open_: Open the page in the browser.
    """
    if port is not None and port > 65535:
        raise InputError(f"--port is {port}, expected at most 65535")
    if not store.is_dir():
        raise InputError(
            f"{store}: no such folder, expected a folder of runs; it appears once a run or an "
            f"Evaluator trains; to watch before that: mkdir {store}"
        )
    _require_packages()
    from ..report.live import LiveServer, open_port

    token = _check_token(host, token)
    server = LiveServer(store, open_port(host, port), host, token=token)
    count = len(server.watcher.listing)
    print_lines(f"{store}: {count} run{'' if count == 1 else 's'}, shown at {server.address}")
    print_lines("Ctrl-C stops it")
    if open_:
        webbrowser.open(server.address)
    with suppress(KeyboardInterrupt):
        server.serve_here()
    return 0


def _require_packages() -> None:
    for package in ("starlette", "uvicorn"):
        if not is_installed(package):
            raise InputError(
                f"{package} is not installed, expected it for pages; {install_hint('report')}"
            )


def _check_token(host: str, token: str | None) -> str | None:
    """Return the token that viewers must know; None if only this machine can see the page."""
    from ..report.live import new_token
    from ..report.live.limits import is_loopback

    if token is None:
        if not is_loopback(host):
            raise InputError(
                f"--host {host:.60} exposes the page to the network and requires a token; "
                "--token auto generates one"
            )
        return None
    if token == AUTO:
        return new_token()
    if not re.fullmatch(r"[A-Za-z0-9._~-]+", token) or len(token) < MIN_TOKEN_LENGTH:
        raise InputError(
            f"--token has {len(token)} characters, expected at least {MIN_TOKEN_LENGTH} letters or "
            "digits (or . _ ~ -); --token auto generates one"
        )
    return token
