"""`perdure explain`: what a metric or a strategy is."""

from __future__ import annotations

import textwrap

from ..._suggestions import suggest_names
from ...metrics import DIAGNOSIS, METRICS, NEEDS, parse_id
from ...record import InputError
from ...scenarios import SCENARIOS
from ...strategies import STRATEGIES
from .._output import print_lines
from .names import TermName

__all__ = ["explain"]

CURVES = {"aa": "acc", "af": "forgetting.best"}
LEGEND = {
    "matrix": "R_{i,j} score on task j after task i; T tasks; b untrained, J joint, S single model",
    "stream": "A(E_i, f_n) score on task i after iteration n; t_i last iteration of task i",
}


def explain(*ids: TermName) -> None:
    """Explain metrics and strategies.

    For a metric: its formula, source, requirements, similar metrics and interpretation. For a
    strategy: what it does, stores and costs, its paper, and its hyperparameters.

    Args:
        ids: Ids of metrics (`perdure list metrics`) or names of strategies (`perdure list
            strategies`).
    """
    if not ids:
        raise InputError(
            "nothing to explain; name a metric such as wc_acc (`perdure list metrics`) or a "
            "strategy such as ewc (`perdure list strategies`)"
        )
    pages = [_strategy(id_) if id_ in STRATEGIES else _metric(id_) for id_ in ids]
    print_lines(*"\n\n".join(pages).split("\n"))


def _metric(id_: str) -> str:
    try:
        return _page(CURVES.get(id_, id_))
    except ValueError as error:
        both = suggest_names(id_, [*STRATEGIES, *METRICS]).strip()
        if not both or not str(error).startswith("no metric has the id"):
            raise
        raise InputError(f"no metric or strategy is called {id_!r:.60}; {both}") from None


def _strategy(name: str) -> str:
    entry = STRATEGIES[name]
    parts = [
        ("stores", entry.keeps),
        ("costs", f"compared with naive: {entry.costs}"),
        ("paper", entry.paper or "none: a baseline that every study needs"),
        ("options", "; ".join(_hyperparameters(name)) + " (set with --set NAME=VALUE)"),
        *(("presets", text) for text in _presets(name)),
        ("run", f"perdure run split-digits {name}"),
        (
            "code",
            f"perdure.strategies.{entry.module}, which also documents what its paper leaves open",
        ),
    ]
    return "\n".join([f"{name}: {entry.about}", *_lines(parts)])


def _hyperparameters(name: str) -> list[str]:
    """Return every hyperparameter with its default, which needs PyTorch."""
    try:
        from ...strategies import find_strategy
        from ...training.hyperparameters import list_hyperparameters

        options = list_hyperparameters(find_strategy(name), skip=("seed",))
    except ModuleNotFoundError:
        return ["hyperparameters are shown if PyTorch is installed: pip install 'perdure[train]'"]
    return [f"{key}={_plain(default)}" for key, (_, default) in options.items()] or ["none"]


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
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def _page(id_: str) -> str:
    base = parse_id(id_).base
    metric = METRICS[base]
    needs = "; ".join(NEEDS[need] for need in metric.needs)
    parts = [
        ("formula", metric.formula),
        ("symbol", metric.symbol),
        ("source", metric.source),
        ("range", f"{metric.low:g} to {metric.high:g} for accuracies; {metric.better} is better"),
        ("from", {"runs": "the other metrics"}.get(metric.input, f"the {metric.input}")),
        ("needs", needs or "nothing else"),
        ("scores", {"any": "any, losses too"}.get(metric.accepts, metric.accepts)),
        ("where", LEGEND.get(metric.input, "")),
        ("differs", metric.distinction),
        ("reading", f"{metric.rule_of_thumb} {metric.interpretation}".strip()),
    ]
    shown = [part for part in parts if metric.input in LEGEND or part[0] not in ("scores", "where")]
    lines = [f"{id_}: {metric.name}", *_lines(shown)]
    if base in ("acc", "acc.learning", "bwt"):
        lines += [
            "",
            "  together (Evaluation Metrics for Continual Learning, tutorial)",
            textwrap.indent(DIAGNOSIS, "  "),
        ]
    return "\n".join(lines)


def _lines(parts: list[tuple[str, str]]) -> list[str]:
    """Return labels and texts as wrapped lines."""
    return [
        line
        for label, text in parts
        for line in textwrap.wrap(
            text, 96, initial_indent=f"  {label:<9}", subsequent_indent=" " * 11,
            break_on_hyphens=False,
        )
    ]  # fmt: skip
