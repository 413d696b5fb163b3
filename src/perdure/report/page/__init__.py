"""The report page: one self-contained HTML file that needs no network and no other file."""

from __future__ import annotations

import base64
import gzip
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec
from jinja2 import Environment, select_autoescape

from ..charts import STYLE, join_modules, read_file
from .sections import DEFAULT_TEST, build_sections
from .summaries import summarize_methods

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..load import RunsByMethod
    from .lost_examples import ShowExample
    from .results import PairTestOptions

__all__ = ["render_page"]


def render_page(
    methods: RunsByMethod,
    *,
    command: Sequence[str] = (),
    left_out: Sequence[str] = (),
    title: str | None = None,
    on_progress: Callable[[int], None] = lambda done: None,  # noqa: ARG005
    test: PairTestOptions = DEFAULT_TEST,
    examples: ShowExample | None = None,
    write_options: Callable[[str], str] = str,
) -> str:
    """Return the whole page as HTML.

    Args:
        methods: runs by method, as returned by `open_methods`.
        command: arguments of `perdure report` that make the same page again.
        left_out: notes on runs that are not shown.
        title: title of the page; the name of the scenario by default.
        on_progress: called with the number of runs that are summarised so far.
        test: the test that decides which methods differ.
        examples: `examples(task, id)` returns text or an image of an example that was lost.
        write_options: how reasons on the page name options, which are Python arguments in backticks
            by default.
    """
    summarized = summarize_methods(methods, on_progress)
    sections = build_sections(summarized, command, test, left_out, examples)
    here = files("perdure.report.page")
    is_plotted = any(part.curves.methods or part.criteria for part in sections.parts)
    script = (join_modules() if is_plotted else "") + (here / "page.js").read_text("utf-8")
    environment = Environment(autoescape=select_autoescape(default=True))
    environment.filters["options"] = write_options
    environment.filters["compressed"] = _compress
    template = environment.from_string((here / "page.html").read_text("utf-8"))
    return template.render(
        sections._replace(title=title if title is not None else sections.title)._asdict(),
        style=read_file(STYLE) + (here / "page.css").read_text("utf-8"),
        script=script,
        hash=_hash_for_policy(script.encode()),
    )


def _compress(data: object) -> str:
    """Return data as compressed JSON, which takes a sixth of its length; the script reads it."""
    return base64.b64encode(gzip.compress(msgspec.json.encode(data), mtime=0)).decode()


def _hash_for_policy(script: bytes) -> str:
    """Return the hash under which a content security policy allows a script, and no other."""
    digest = hashlib.sha256(script).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
