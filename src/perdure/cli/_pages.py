"""What `perdure explain` says of a metric, a family of metrics, a tool or a strategy."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, get_args

from .._suggestions import normalize_name
from ..metrics import (
    DIAGNOSIS,
    FAMILIES,
    METRICS,
    NEEDS,
    TOOLS,
    family_members,
    find_metric,
    metric_symbol,
    parse_id,
    plain_formula,
)
from ..models import MODELS, describe_model
from ..scenarios import SCENARIOS
from ..strategies import STRATEGIES
from ._output import render_options

if TYPE_CHECKING:
    from ..training.config_checks import Outline

__all__ = [
    "candidates_page",
    "family_page",
    "metric_page",
    "model_page",
    "printed_as",
    "scenario_page",
    "strategy_page",
    "tool_metrics",
    "tool_page",
]

MAX_WIDTH = 96
SOURCES = {"runs": "the other metrics", "control": "the scores of control tasks"}
LEGEND = {
    "matrix": "R[i,j] score on task j after task i; T tasks; b untrained, J joint, S single, "
    "O offline model",
    "stream": "A(E_i, f_n) score on task i after iteration n; t_i last iteration of task i",
    "control": "F_c score on control task c at the end, b_c before training; C control tasks",
}


def metric_page(id_: str) -> str:
    """Return the page of a metric."""
    base = parse_id(id_).base
    metric = METRICS[base]
    needs = render_options("; ".join(NEEDS[need] for need in metric.needs))
    parts = [
        ("formula", f"{plain_formula(metric_symbol(id_))} = {plain_formula(metric.formula)}"),
        ("source", metric.source),
        ("range", f"{metric.low:g} to {metric.high:g} for accuracies; {metric.better} is better"),
        ("from", SOURCES.get(metric.input, f"the {metric.input}")),
        ("needs", needs or "nothing else"),
        ("scores", {"any": "any, losses too"}.get(metric.accepts, metric.accepts)),
        ("where", LEGEND.get(metric.input, "")),
        ("differs", metric.distinction),
        ("reading", f"{metric.rule_of_thumb} {metric.interpretation}".strip()),
        ("printed", "; ".join(printed_as(id_))),
    ]
    others = [other for other in family_members(base.partition(".")[0]) if other != id_]
    if others:
        word = base.partition(".")[0]
        parts.append(("family", f"{', '.join(others)} (perdure explain '{word}.*')"))
    shown = [part for part in parts if metric.input in LEGEND or part[0] not in ("scores", "where")]
    lines = [f"{id_}: {metric.name}", *_lines(shown)]
    if base in ("acc", "acc.learning", "bwt"):
        lines += [
            "",
            "  together (Evaluation Metrics for Continual Learning, tutorial)",
            textwrap.indent(DIAGNOSIS, "  "),
        ]
    return "\n".join(lines)


def family_page(word: str) -> str:
    """Return the page of a family: its members one below the other, and when to use which."""
    family, members = FAMILIES[word], family_members(word)
    others = [id_ for id_ in family.related if id_ not in members]
    return "\n".join(
        [
            f"{word}: {family.about}",
            *_member_lines(members),
            "",
            *_lines([("use", family.advice), ("see also", ", ".join(others))]),
        ]
    )


def candidates_page(name: str, ids: tuple[str, ...]) -> str:
    """Return the page of a name that several metrics have."""
    return "\n".join([f"{name}: a name of {len(ids)} metrics", *_member_lines(ids)])


def tool_page(tool: str) -> str:
    """Return the page of a tool or paper: what each name that it prints means."""
    lines = [f"{tool}: what the names that it prints mean (perdure score FILE --as {tool})"]
    for metric in TOOLS[tool]:
        lines += ["", *tool_metrics(tool, metric.name)]
    return "\n".join([*lines, "", *_lines([("where", LEGEND["matrix"])])])


def tool_metrics(tool: str, name: str) -> list[str]:
    """Return what a tool computes under a name, as lines: the id, its formula, and a remark."""
    lines: list[str] = []
    for metric in TOOLS[tool]:
        if normalize_name(metric.name) != normalize_name(name):
            continue
        parts = []
        id_ = metric.id or metric.nearest
        if id_ is not None:
            usually = "" if metric.id else "usually "
            parts += [
                ("is", f"{usually}{id_}: {find_metric(id_).name}"),
                ("formula", _formula(id_)),
            ]
        else:
            parts += [("is", "a formula of its own, without an id")]
        parts += [("remark", metric.note)] if metric.note else []
        lines += [f"  {metric.name}", *_lines(parts, indent=4)]
    return lines


def printed_as(id_: str) -> list[str]:
    """Return the names under which tools and papers print a metric.

    Example:
        >>> printed_as("rem")
        ['REM by diaz2018']
    """
    by_name: dict[str, list[str]] = {}
    for tool, metrics in TOOLS.items():
        for metric in metrics:
            if id_ in (metric.id, metric.nearest):
                usually = "" if metric.id else " (usually)"
                by_name.setdefault(metric.name, []).append(tool + usually)
    return [f"{name} by {', '.join(tools)}" for name, tools in by_name.items()]


def strategy_page(name: str) -> str:
    """Return the page of a strategy."""
    from ..training.config_checks import outline_strategy

    entry = STRATEGIES[name]
    notes = ", which also documents what its paper leaves open" if entry.paper else ""
    parts = [
        ("stores", entry.keeps),
        ("costs", f"compared with naive: {entry.costs}"),
        ("paper", entry.paper or "none: a baseline that every study needs"),
        ("options", _options(outline_strategy(name))),
        *(("presets", text) for text in _presets(name)),
        ("run", f"perdure run split-digits {name}"),
        ("code", f"perdure.strategies.{entry.module}{notes}"),
    ]
    return "\n".join([f"{name}: {entry.about}", *_lines(parts)])


def model_page(name: str) -> str:
    """Return the page of a model."""
    from ..training.config_checks import outline_model

    module = MODELS[name].partition(":")[0]
    parts = [
        ("options", _options(outline_model(name))),
        ("code", module),
    ]
    return "\n".join([f"{name}: {describe_model(name)}", *_lines(parts)])


def scenario_page(name: str) -> str:
    """Return the page of a scenario: its tasks, its data, and how it is trained by default."""
    spec = SCENARIOS[name]
    defaults = spec.defaults
    length = (
        f"{defaults.iterations} iterations" if defaults.iterations else f"{defaults.epochs} epochs"
    )
    network = f"{defaults.model}, {defaults.optimizer} lr {defaults.lr:g}"
    parts = [
        ("tasks", f"{spec.tasks}, {spec.setting}-incremental unless --setting says otherwise"),
        ("data", ", ".join(spec.data)),
        ("default", f"{network}, batch {defaults.batch}, {length} per task"),
        ("run", f"perdure run {name} replay (--dry-run shows what it would do)"),
    ]
    return "\n".join([f"{name}: {spec.about}", *_lines(parts)])


def _member_lines(ids: list[str] | tuple[str, ...]) -> list[str]:
    lines = []
    for id_ in ids:
        metric = find_metric(id_)
        parts = [
            ("formula", _formula(id_)),
            ("differs", metric.distinction),
            ("printed", "; ".join(printed_as(id_))),
        ]
        lines += ["", f"  {id_}: {metric.name}", *_lines(parts, indent=4)]
    inputs = dict.fromkeys(find_metric(id_).input for id_ in ids)
    where = [("where", LEGEND[kind]) for kind in inputs if kind in LEGEND]
    return [*lines, *([""] if where else []), *_lines(where)]


def _formula(id_: str) -> str:
    return plain_formula(find_metric(id_).formula)


def _options(outline: Outline) -> str:
    """Return every hyperparameter with its default, and the other words that it may be."""
    texts = []
    for key, (types, default) in outline.hyperparameters.items():
        words = [word for kind in types for word in get_args(kind) if word != default]
        choices = f" (or {', '.join(words)})" if words else ""
        texts.append(f"{key}={_plain(default)}{choices}")
    return f"{'; '.join(texts)} (set with --set NAME=VALUE)" if texts else "none"


def _presets(name: str) -> list[str]:
    """Return the values that scenarios set in place of the defaults."""
    by_values: dict[str, list[str]] = {}
    for scenario, named in SCENARIOS.items():
        for setting in dict.fromkeys((named.setting, *named.defaults_by_setting)):
            if preset := named.defaults_for(setting).strategies.get(name):
                values = " ".join(f"{key}={_plain(value)}" for key, value in preset.items())
                command = (
                    scenario if setting == named.setting else f"{scenario} --setting {setting}"
                )
                by_values.setdefault(values, []).append(command)
    return [f"{values} for {', '.join(scenarios)}" for values, scenarios in by_values.items()]


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(_plain, value))
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def _lines(parts: list[tuple[str, str]], indent: int = 2) -> list[str]:
    """Return labels and texts as lines wrapped to the terminal; an empty text is left out."""
    width = MAX_WIDTH
    if sys.stdout.isatty():
        width = max(40, min(MAX_WIDTH, shutil.get_terminal_size().columns))
    return [
        line
        for label, text in parts
        if text
        for line in textwrap.wrap(
            text, width, initial_indent=f"{' ' * indent}{label:<9}",
            subsequent_indent=" " * (indent + 9), break_on_hyphens=False, break_long_words=False,
        )
    ]  # fmt: skip
