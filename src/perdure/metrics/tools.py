"""The metrics of other tools and papers under their own names, and the ids they have here.

Checked against the tools' own code on one matrix: Avalanche 0.6.0, continuum 1.2.7, Renate 0.5.2
and CapyMOA 0.15.1 were run; the code of Mammoth, PyCIL, PILOT, FACIL and M2I/I2M was read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._suggestions import suggest_names
from .summary import summary
from .summary_types import Summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from .score_matrix import ScoreMatrix

    Matrix = NDArray[np.float64]

__all__ = ["TOOLS", "ToolRow", "as_tool"]


class ToolRow(NamedTuple):
    """A number as another tool prints it; None, with the reason in `note`, if it is unknown."""

    name: str
    id: str | None
    value: float | None
    note: str


class ToolMetric(NamedTuple):
    """A metric that a tool prints: an id, or a formula without an id, and a note.

    `nearest` is the id whose value the formula has on most matrices.
    """

    name: str
    id: str | None = None
    formula: Callable[[Matrix, Matrix], float] | None = None
    note: str = ""
    nearest: str | None = None


def continuum_bwt(r: Matrix, _sizes: Matrix) -> float:
    """Return the sum of R[i, j] - R[j, j] over j < i - 1, over T(T-1)/2: j = i - 1 is left out."""
    tasks = len(r)
    if tasks < 2:
        return 0.0
    two_below = np.tri(tasks, k=-2, dtype=bool)
    return float((r - r.diagonal())[two_below].sum() / (tasks * (tasks - 1) / 2))


def continuum_remembering(r: Matrix, sizes: Matrix) -> float:
    """Return 1 - |min(continuum's BWT, 0)|."""
    return 1 + min(continuum_bwt(r, sizes), 0.0)


def continuum_positive_bwt(r: Matrix, sizes: Matrix) -> float:
    """Return max(continuum's BWT, 0)."""
    return max(continuum_bwt(r, sizes), 0.0)


def continuum_forgetting(r: Matrix, _sizes: Matrix) -> float:
    """Return forgetting.best with the last older task and the last step before the end left out."""
    tasks = len(r)
    if tasks < 2:
        return 0.0
    lost = [r[j : tasks - 2, j].max() - r[-1, j] for j in range(tasks - 2)]
    return float(sum(lost) / (tasks - 1))


def mammoth_forgetting(r: Matrix, _sizes: Matrix) -> float:
    """Return forgetting.peak with the score just before a task is learned among the candidates."""
    lost = [np.nanmax(r[max(j - 1, 0) :, j]) - r[-1, j] for j in range(len(r) - 1)]
    return float(np.mean(lost)) if lost else float("nan")


def mean_pooled_accuracy(r: Matrix, sizes: Matrix) -> float:
    """Return the mean over steps of the accuracy pooled over the tasks seen."""
    seen = np.tril(np.ones_like(r)) * sizes
    return float(((np.tril(r) * sizes).sum(axis=1) / seen.sum(axis=1)).mean())


def _named(ids: dict[str, str], *, notes: dict[str, str] | None = None) -> tuple[ToolMetric, ...]:
    """Return metrics that have an id here, by the name that the tool prints."""
    return tuple(
        ToolMetric(name, id_, note=(notes or {}).get(name, "")) for name, id_ in ids.items()
    )


CONTINUUM_BUG = "a bug of continuum: one task too few in the sum, not in the divisor"
LOW_RISES = "their code reads rises too low"
EQUAL_SIZES = (
    mean_pooled_accuracy, "equals acc.incremental if test sets have equal size", "acc.incremental"
)  # fmt: skip

# fmt: off
TOOLS: dict[str, tuple[ToolMetric, ...]] = {
    "avalanche": _named({
        "Top1_Acc_Stream": "acc.pooled", "StreamForgetting": "forgetting.learned",
        "StreamBWT": "bwt", "StreamForwardTransfer": "fwt.gem",
    }),
    "avalanche-clear": _named(
        {"in_domain": "acc.learning", "next_domain": "fwt.next", "accuracy": "acc.lower",
         "backward_transfer": "acc.below", "forward_transfer": "fwt.upper"},
        notes=dict.fromkeys(("backward_transfer", "forward_transfer"), "no difference is taken")),
    "mammoth": (
        *_named({"Accuracy": "acc", "Backward Transfer": "bwt"}),
        ToolMetric("Forward Transfer", "fwt.gem", note="later versions take another baseline"),
        ToolMetric("Forgetting", None, mammoth_forgetting,
                   "R[j-1, j], if measured, counts as a peak too", "forgetting.peak"),
    ),
    "continuum": (
        ToolMetric("accuracy", "acc.pooled"),
        ToolMetric("average_incremental_accuracy", None, *EQUAL_SIZES),
        ToolMetric("accuracy_A", "acc.lower"),
        ToolMetric("backward_transfer", None, continuum_bwt, CONTINUUM_BUG + "; meant: bwt.all"),
        ToolMetric("positive_backward_transfer", None, continuum_positive_bwt, CONTINUUM_BUG),
        ToolMetric("remembering", None, continuum_remembering, CONTINUUM_BUG + "; meant: rem"),
        ToolMetric("forward_transfer", "acc.below",
                   note="a bug of continuum: it averages tasks already learned"),
        ToolMetric("forgetting", None, continuum_forgetting,
                   CONTINUUM_BUG + "; meant: forgetting.best"),
    ),
    "pycil": (
        ToolMetric("Average Accuracy (CNN)", None, *EQUAL_SIZES),
        ToolMetric("Forgetting (CNN)", "forgetting.peak", note="for tasks of ten classes"),
    ),
    "pilot": (
        ToolMetric("Average Accuracy (CNN)", None, *EQUAL_SIZES),
        ToolMetric("Forgetting (CNN)", "forgetting.peak"),
    ),
    "renate": _named({
        "Average Accuracy": "acc", "Micro Average Accuracy": "acc.pooled",
        "Forgetting": "forgetting.any", "Forward Transfer": "fwt.gem", "Backward Transfer": "bwt",
    }),
    "facil": _named(
        {"TAw Acc / TAg Acc, Avg.": "acc", "TAw Forg / TAg Forg, Avg.": "forgetting.best"},
        notes={"TAw Forg / TAg Forg, Avg.":
               "RWalk's formula, but tasks are never evaluated before they are learned"}),
    "capymoa": _named({
        "accuracy_final": "acc", "accuracy_all_avg": "acc.all",
        "accuracy_seen_avg": "acc.incremental", "backward_transfer": "bwt.all",
        "forward_transfer": "fwt.upper",
    }),
    "m2i": _named({"ACC": "acc.lower", "BWT": "bwt.consecutive", "FWT": "fwt.upper"},
                  notes={"BWT": "the paper's eq. 2 says bwt.all"}),
    "michel2023": _named({
        "AA_K": "acc", "AF_K": "forgetting.best", "RAA_K": "raa", "RAF_K": "raf",
    }),
    "diaz2018": _named({
        "A": "acc.lower", "REM": "rem", "BWT+": "bwt.positive", "FWT": "fwt.upper", "MS": "ms",
        "SSS": "sss", "CE": "ce", "CLscore": "clscore", "CLstability": "clstability",
    }),
    "delange2023": _named(
        {"ACC": "acc", "FORG": "forgetting.learned", "WC-ACC": "wc_acc", "min-ACC": "min_acc",
         "WF^10": "wf10", "WF^100": "wf100", "WP^10": "wp10", "WP^100": "wp100"},
        notes={"WP^10": LOW_RISES, "WP^100": LOW_RISES}),
    "faber2023": _named({
        "ACC": "acc.lower", "BWT (tables)": "bwt.consecutive", "BWT (eq. 2)": "bwt.all",
        "FWT": "fwt.upper",
    }),
    "tutorial": _named(
        {"AA": "acc", "LA": "acc.learning", "BWT": "bwt", "FWT": "fwt.learned",
         "FM": "forgetting.peak", "MS": "memory_stability", "IM": "intransigence"},
        notes={"FM": "its code; its formula is forgetting.best"}),
}
# fmt: on


def as_tool(matrix: ScoreMatrix, tool: str, run_summary: Summary | None = None) -> list[ToolRow]:
    """Return the numbers that another tool or paper would print for `matrix`, under its names.

    Test sets without sizes are assumed equal, which the note of the row states.

    Args:
        matrix: the scores.
        tool: a name in `TOOLS`.
        run_summary: a summary of the whole run, for metrics that need a stream or costs.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> row = as_tool(ScoreMatrix([[0.75, 0.1], [0.5, 0.8]]), "mammoth")[1]
        >>> row.name, row.id, row.value
        ('Backward Transfer', 'bwt', -0.25)
    """
    if tool not in TOOLS:
        hint = suggest_names(tool, TOOLS)
        raise ValueError(f"no tool is named {tool!r}; {hint}known: {', '.join(TOOLS)}")
    if not matrix.scale.is_accuracy:
        raise ValueError(f"{tool} prints accuracies from 0 to 1; these are other scores")
    sizes = np.ones(len(matrix.scores)) if matrix.sizes is None else matrix.sizes
    # Tools compute every metric in every setting.
    of_matrix = summary(replace(matrix, sizes=sizes, setting=None))
    whole = run_summary or Summary(tasks=())
    metrics = whole.metrics | of_matrix.metrics
    reasons = of_matrix.undefined | whole.undefined
    rows = []
    for metric in TOOLS[tool]:
        note = metric.note
        pooled = metric.id == "acc.pooled" or metric.formula is mean_pooled_accuracy
        if matrix.sizes is None and pooled:
            note = "; ".join(filter(None, [note, "test sets assumed equal: no sizes given"]))
        if metric.formula is not None:
            rows.append(_apply_formula(metric, metric.formula(matrix.scores, sizes), metrics, note))
        elif metric.id in metrics:
            rows.append(ToolRow(metric.name, metric.id, metrics[metric.id], note))
        else:
            reason = reasons.get(metric.id or "", "")
            if run_summary is not None and metric.id not in run_summary.undefined:
                reason = "not computed: add its window to `window=`"
            rows.append(ToolRow(metric.name, metric.id, None, reason))
    return rows


def _apply_formula(
    metric: ToolMetric, value: float, metrics: dict[str, float], note: str
) -> ToolRow:
    if np.isnan(value):
        return ToolRow(metric.name, None, None, "needs a score that was not measured")
    nearest = metrics.get(metric.nearest or "")
    equal = nearest is not None and bool(np.isclose(value, nearest, rtol=0, atol=1e-12))
    return ToolRow(metric.name, metric.nearest if equal else None, value, note)
