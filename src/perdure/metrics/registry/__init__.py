"""The registry of metrics: one row per id, and the parser of ids such as `wf10`."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..._suggestions import normalize_name
from .accuracy import ACCURACY_METRICS
from .aliases import FAMILIES, METRIC_ALIASES, MetricFamily
from .control import CONTROL_METRICS
from .costs import COSTS_METRICS
from .forgetting import FORGETTING_METRICS
from .metric import NEEDS, Metric
from .plain_formula import plain_formula
from .rescaled import RESCALED_METRICS
from .stream import STREAM_METRICS
from .transfer import TRANSFER_METRICS

if TYPE_CHECKING:
    from ..score_matrix import ScoreScale

__all__ = [
    "DIAGNOSIS",
    "FAMILIES",
    "GROUPS",
    "METRICS",
    "METRIC_ALIASES",
    "NEEDS",
    "Metric",
    "MetricFamily",
    "MetricId",
    "better_direction",
    "display_name",
    "family_members",
    "find_metric",
    "format_id",
    "metric_symbol",
    "parse_id",
    "plain_formula",
]

GROUPS: dict[str, dict[str, Metric]] = {
    "accuracy": ACCURACY_METRICS,
    "transfer": TRANSFER_METRICS,
    "forgetting and retention": FORGETTING_METRICS,
    "control tasks": CONTROL_METRICS,
    "relative to guessing": RESCALED_METRICS,
    "during training": STREAM_METRICS,
    "efficiency": COSTS_METRICS,
}
METRICS: dict[str, Metric] = {
    id_: metric for group in GROUPS.values() for id_, metric in group.items()
}

# How acc.learning, bwt and acc are read together, from Evaluation Metrics for Continual Learning.
DIAGNOSIS = """\
acc.learning  bwt            acc        reading
high          about 0        high       a good continual learner
high          very negative  low        severe forgetting
low           about 0        low        poor learning
high          positive       very high  beneficial transfer"""


class MetricId(NamedTuple):
    """A parsed id: the key of its row in `METRICS`, and the argument that the id carries."""

    base: str
    arguments: dict[str, int | None]


def parse_id(id_: str) -> MetricId:
    """Return the row that an id belongs to and the argument it carries.

    A window of all evaluations, as in `wfall`, is None.

    Example:
        >>> parse_id("wf10"), parse_id("wfall").arguments, parse_id("acc").arguments
        (MetricId(base='wf', arguments={'window': 10}), {'window': None}, {})
    """
    if id_ in METRICS:
        return MetricId(id_, {})
    for base, metric in METRICS.items():
        value = id_.removeprefix(base)
        if metric.parameter is not None and value != id_:
            if value.isdecimal():
                return MetricId(base, {metric.parameter: int(value)})
            if value == "all" and metric.parameter == "window":
                return MetricId(base, {metric.parameter: None})
    word = id_.lower()
    similar = (
        METRIC_ALIASES.get(normalize_name(id_))
        or (word in FAMILIES and family_members(word))
        or get_close_matches(word, METRICS, n=3)
        or [other for other, metric in METRICS.items() if word in metric.name][:3]
    )
    hint = f"did you mean {' or '.join(similar)}?" if similar else "see `perdure list metrics`"
    raise ValueError(f"no metric has the id {id_!r}; {hint}")


def family_members(family: str) -> list[str]:
    """Return the ids of a family: those that are its name, or start with it and a dot.

    Example:
        >>> family_members("intransigence")
        ['intransigence', 'intransigence.single']
    """
    return [id_ for id_ in METRICS if id_ == family or id_.startswith(f"{family}.")]


def metric_symbol(id_: str) -> str:
    r"""Return the symbol of a metric in LaTeX, for math mode; `wf10` has its window in it.

    Example:
        >>> metric_symbol("bwt"), metric_symbol("wf10"), metric_symbol("wfall")
        ('\\mathrm{BWT}', '\\mathrm{WF}^{10}', '\\mathrm{WF}^{\\mathrm{all}}')
    """
    base, arguments = parse_id(id_)
    symbol = METRICS[base].symbol
    for value in arguments.values():
        text = r"\mathrm{all}" if value is None else str(value)
        symbol = re.sub(r"(w|\\beta)$", "", symbol) + f"{{{text}}}"
    return symbol


def format_id(base: str, value: int | None) -> str:
    """Return the id of a metric with a parameter; None is the window of all evaluations.

    Example:
        >>> format_id("wf", 10), format_id("wf", None)
        ('wf10', 'wfall')
    """
    return f"{base}{'all' if value is None else value}"


def find_metric(id_: str) -> Metric:
    """Return the row of an id; `wf10`, `wpall` and `lca10` belong to the rows wf, wp and lca.

    Example:
        >>> find_metric("wf10").name
        'windowed forgetting'
    """
    return METRICS[parse_id(id_).base]


def better_direction(id_: str, scale: ScoreScale) -> Literal["higher", "lower"]:
    """Return which direction of a metric is better: a metric that is a loss is better when lower.

    Example:
        >>> from perdure.metrics import ACCURACY, ScoreScale
        >>> loss = ScoreScale(0, 9, lower_is_better=True)
        >>> better_direction("acc", ACCURACY), better_direction("acc", loss)
        ('higher', 'lower')
    """
    metric = find_metric(id_)
    return "lower" if metric.is_score and scale.lower_is_better else metric.better


def display_name(metric: Metric, scale: ScoreScale) -> str:
    """Return a metric's name in terms of the score: a loss has a maximum and is no accuracy.

    Example:
        >>> from perdure.metrics import ScoreScale
        >>> loss = ScoreScale(0, 9, lower_is_better=True, name="loss")
        >>> display_name(METRICS["min_acc"], loss)
        'average maximum loss'
    """
    if scale.label == "accuracy":
        return metric.name
    name = re.sub(r"\b(accuracy|score)\b", lambda _: scale.label, metric.name)
    return name.replace("minimum", "maximum") if scale.lower_is_better else name
