"""One HTML file that shows everything and needs nothing: no network, no folder beside it."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, select_autoescape

from .plot_data import make_criteria_data, make_curve_data
from .sections import DEFAULT_TEST, build_sections, summarize_methods

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
    told: Callable[[int], None] = lambda done: None,  # noqa: ARG005
    how: PairTestOptions = DEFAULT_TEST,
) -> str:
    """Return the whole page as text.

    Args:
        methods: runs by name, as `open_methods` gives them.
        command: the arguments of `perdure report` that make the page again.
        left_out: notes on what is not shown.
        title: of the page; the scenario's name if none is given.
        told: is called with the number of runs that are summarised.
        how: the test that says which methods differ.
    """
    shown = summarize_methods(methods, told)
    parts: dict[str, Any] = build_sections(shown, command, how)
    runs = {each.name: each.runs for each in shown}
    drawn: dict[str, Any] = make_curve_data(runs)
    accurate = [each for each in shown if each.scale.is_accuracy]  # criteria are of those alone
    criteria = {each.name: each.found.metrics for each in accurate}
    drawn["criteria"] = make_criteria_data(criteria, runs)
    drawn["score"], drawn["percent"] = parts["score"]["axis"], parts["score"]["percent"]
    here = files("perdure.report.page")
    plotly = (files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")
    script = (here / "page.js").read_text("utf-8")
    if title is not None:
        parts["title"] = title
    template = Environment(autoescape=select_autoescape(default=True)).from_string(
        (here / "page.html").read_text("utf-8")
    )
    return template.render(
        **parts,
        left_out=left_out,
        drawn=drawn,
        # In a script element only "<" could end it or begin a comment.
        drawn_json=json.dumps(drawn, allow_nan=False, separators=(",", ":")).replace(
            "<", "\\u003c"
        ),
        style=(here / "page.css").read_text("utf-8"),
        plotly=plotly,
        script=script,
        hashes=" ".join(map(_hash, (plotly, script))),
    )


def _hash(script: str) -> str:
    """Return what a content security policy calls a script, so that no other one runs."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
