"""The report page: one self-contained HTML file that needs no network and no other file."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec
from jinja2 import Environment, select_autoescape

from .plot_data import make_criteria_data, make_curve_data
from .sections import DEFAULT_TEST, build_sections
from .summaries import summarize_methods

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..load import RunsByMethod
    from .significance import PairTestOptions

__all__ = ["render_page"]


def render_page(
    methods: RunsByMethod,
    *,
    command: Sequence[str] = (),
    left_out: Sequence[str] = (),
    title: str | None = None,
    on_progress: Callable[[int], None] = lambda done: None,  # noqa: ARG005
    test: PairTestOptions = DEFAULT_TEST,
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
        write_options: how reasons on the page name options, which are Python arguments in backticks
            by default.
    """
    summarized = summarize_methods(methods, on_progress)
    sections = build_sections(summarized, command, test, left_out)
    runs = {method.label: method.runs for method in summarized}
    accuracies = [method for method in summarized if method.scale.is_accuracy]
    criteria = make_criteria_data({m.label: m.summary.metrics for m in accuracies}, runs)
    curves = make_curve_data(runs)
    here = files("perdure.report.page")
    plotly = (files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")
    script = (here / "page.js").read_text("utf-8")
    score = {"score": sections.score.axis, "percent": sections.score.percent}
    plots = msgspec.json.encode({**msgspec.structs.asdict(curves), "criteria": criteria, **score})
    environment = Environment(autoescape=select_autoescape(default=True))
    environment.filters["options"] = write_options
    template = environment.from_string((here / "page.html").read_text("utf-8"))
    return template.render(
        sections._replace(title=title if title is not None else sections.title)._asdict(),
        curves=curves.methods,
        criteria=criteria,
        # In a script element only "<" could end it or start a comment.
        plot_data=plots.decode().replace("<", "\\u003c"),
        style=(here / "page.css").read_text("utf-8"),
        plotly=plotly,
        script=script,
        hashes=" ".join(map(_hash_for_policy, (plotly, script))),
    )


def _hash_for_policy(script: str) -> str:
    """Return the hash under which a content security policy allows a script, and no other."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
