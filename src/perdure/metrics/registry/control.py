"""Rows of the metrics of control tasks: tasks that are evaluated but never trained."""

from __future__ import annotations

from math import inf

from ..functional import retention
from .metric import OURS, Metric

__all__ = ["CONTROL_METRICS"]

# fmt: off
CONTROL_METRICS: dict[str, Metric] = {
    "retention": Metric(
        "retention of control tasks", r"\mathrm{RET}", r"\frac{1}{C} \sum_{c} (F_c - b_c)",
        OURS, "control", retention.retention, low=-1, needs=("control",),
        distinction="Over tasks that are evaluated but never trained: the final score minus the "
        "score before training. bwt compares tasks that were trained with their score when they "
        "were learned.",
        interpretation="About 0: general abilities survived fine-tuning. Negative: they were "
        "lost. A mean hides a task that collapsed: read retention.worst next to it."),
    "retention.worst": Metric(
        "retention of the worst control task", r"\mathrm{RET}_{\mathrm{worst}}", r"\min_{c} (F_c - b_c)",
        OURS, "control", retention.retention_worst, low=-1, needs=("control",),
        distinction="The control task that lost most; retention is the mean. The minimum of "
        "several noisy changes is biased low: read its interval.",
        interpretation="About 0: no control task lost anything."),
    "retention.relative": Metric(
        "relative retention of control tasks", r"\mathrm{RET}_{\mathrm{rel}}",
        r"\frac{1}{C} \sum_{c} F_c / b_c",
        OURS, "control", retention.retention_relative, high=inf, needs=("control",),
        accepts="not negative", unit="none",
        distinction="A ratio, so that a loss of 0.1 weighs more on a task that was at 0.2 than "
        "on one at 0.9. Undefined for losses, perplexities and scores below 0: use retention.",
        interpretation="1 means that nothing was lost; 0.9 that a tenth of the initial scores "
        "was. Scores at chance inflate it, since they cannot fall to 0."),
}
# fmt: on
