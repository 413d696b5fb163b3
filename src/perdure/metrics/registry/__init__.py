"""The registry of metrics: one row per id, and the parser of ids such as `wf10`."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..._suggestions import normalize_name
from .matrix_rows import ACCURACY_METRICS, FORGETTING_METRICS, RESCALED_METRICS, TRANSFER_METRICS
from .metric import CONTROL_METRICS, COSTS_METRICS, NEEDS, STREAM_METRICS, Metric, plain_formula

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


class MetricFamily(NamedTuple):
    """Metrics whose ids start with one word: what they have in common, and when to use which."""

    about: str
    advice: str
    related: tuple[str, ...] = ()


# fmt: off
# By normalized name; one with several ids is ambiguous: the literature uses it for each of them.
METRIC_ALIASES: dict[str, tuple[str, ...]] = {
    "aa": ("acc",),
    "averageaccuracy": ("acc",),
    "finalaccuracy": ("acc",),
    "accuracy": ("acc", "acc.pooled", "acc.lower", "acc.incremental"),
    "la": ("acc.learning",),
    "learningaccuracy": ("acc.learning",),
    "aia": ("acc.incremental",),
    "averageincrementalaccuracy": ("acc.incremental",),
    "backwardtransfer": ("bwt",),
    "bwt+": ("bwt.positive",),
    "remembering": ("rem",),
    "fwt": ("fwt.upper", "fwt.gem", "fwt.next", "fwt.learned"),
    "forwardtransfer": ("fwt.upper", "fwt.gem", "fwt.next", "fwt.learned"),
    "af": ("forgetting.best",),
    "forg": ("forgetting.learned",),
    "fm": ("forgetting.best", "forgetting.peak"),
    "forgettingmeasure": ("forgetting.best", "forgetting.peak"),
    "im": ("intransigence", "intransigence.single"),
    "generalabilities": ("retention", "retention.worst"),
    "minacc": ("min_acc",),
    "wcacc": ("wc_acc",),
    "worstcaseaccuracy": ("wc_acc",),
    "wf": ("wf10", "wf100", "wfall"),
    "windowedforgetting": ("wf10", "wf100", "wfall"),
    "wp": ("wp10", "wp100", "wpall"),
    "windowedplasticity": ("wp10", "wp100", "wpall"),
    "anytimeaccuracy": ("aaa",),
    "averageanytimeaccuracy": ("aaa",),
    "lca": ("lca10",),
}

FAMILIES: dict[str, MetricFamily] = {
    "acc": MetricFamily(
        "averages of the score matrix, all printed as accuracy",
        "Report acc with acc.learning and bwt next to it: together they tell forgetting from not "
        "having learned. acc.pooled if every test example is to have the same weight; "
        "acc.incremental next to numbers of iCaRL, PyCIL or PILOT; acc.lower next to "
        "Díaz-Rodríguez et al. and the M2I/I2M tables; acc.all next to CapyMOA. acc.below is what "
        "CLEAR prints as backward transfer.",
        ("raa", "aaa", "min_acc", "wc_acc", "omega.all")),
    "bwt": MetricFamily(
        "the score on older tasks now, against the score when they were learned",
        "Report bwt. bwt.all to compare with Díaz-Rodríguez et al. and CapyMOA; bwt.consecutive "
        "only to compare with the M2I/I2M tables; bwt.positive is a criterion of the CLscore.",
        ("forgetting.learned", "rem", "acc.below")),
    "fwt": MetricFamily(
        "what earlier tasks do for tasks that come later",
        "Report fwt.gem if the scores of the untrained model are known (initial): it is the only "
        "one that subtracts them before the task is learned. fwt.upper and fwt.next are scores, to "
        "be read next to chance; fwt.learned is mostly learning. Only fwt.learned is meaningful in "
        "the class-incremental setting.",
        ("intransigence", "omega.new")),
    "forgetting": MetricFamily(
        "how much older tasks have lost by the end; they differ in the score it is measured from",
        "Report forgetting.best, and name the definition. forgetting.learned next to De Lange et "
        "al. and Avalanche (it is -bwt); forgetting.peak next to PILOT, PyCIL and Mammoth; "
        "forgetting.any next to Renate, which needs scores on tasks not yet learned; "
        "forgetting.ratio next to HAT, which needs joint training. On every matrix, "
        "forgetting.learned <= forgetting.best <= forgetting.peak, and forgetting.best <= "
        "forgetting.any.",
        ("bwt", "raf", "wf", "memory_stability", "gap.depth")),
    "gap": MetricFamily(
        "the stability gap: the drop of older tasks right after a task switch",
        "Report gap.depth with gap.recovered: how deep the drops are and how many are made up for. "
        "gap.area weighs depth by duration; gap.recovery says how long. All need evaluations "
        "during training.",
        ("min_acc", "wc_acc", "wf")),
    "retention": MetricFamily(
        "what tasks that are evaluated but never trained have lost since before training",
        "Report retention with retention.worst, so that one task that collapsed is not averaged "
        "away. retention.relative if the initial scores of the control tasks differ much.",
        ("bwt", "forgetting.best", "omega.base")),
    "omega": MetricFamily(
        "retention relative to a model trained on all tasks at once (FearNet, ExStream)",
        "omega.base for the first task, omega.new for the tasks being learned, omega.all for all "
        "tasks; omega.base and omega.all need joint training (joint), omega.offline a model trained "
        "offline after each task (offline).",
        ("forgetting.ratio", "intransigence")),
    "intransigence": MetricFamily(
        "how much worse new tasks are learned than by a reference model",
        "intransigence if a model trained on all tasks at once is known (joint), "
        "intransigence.single if models of single tasks are (single). State which.",
        ("acc.learning", "omega.new")),
    "ms": MetricFamily(
        "model size efficiency",
        "ms to compare with Díaz-Rodríguez et al.; ms.copies if a method keeps a teacher or a copy "
        "of its weights.",
        ("memory_stability",)),
}
# fmt: on


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
