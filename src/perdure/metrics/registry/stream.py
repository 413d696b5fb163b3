"""Rows of the metrics of a stream of evaluations."""

from __future__ import annotations

from math import inf

from ..functional import gap, learning, worst_case
from .metric import DELANGE, OURS, Metric

__all__ = ["STREAM_METRICS"]

# fmt: off
STREAM_METRICS: dict[str, Metric] = {
    "min_acc": Metric(
        "average minimum accuracy", r"\text{min-ACC}",
        r"\frac{1}{k-1} \sum_{i<k} \min_{t_i < n \le t} A(E_i, f_n)", f"{DELANGE} eq. 2",
        "stream", worst_case.min_acc, needs=("boundaries",), is_score=True,
        curve=worst_case.min_acc_curve,
        distinction="Strictly after a task's last iteration, over tasks left behind only. The "
        "minimum of many noisy evaluations is biased low: read the interval or the bias next to "
        "it. The paper's code resamples its test subset at every step, which biases more than a "
        "fixed one.",
        interpretation="The worst score retained; far below acc means a stability gap."),
    "wc_acc": Metric(
        "worst-case accuracy", r"\text{WC-ACC}",
        r"\tfrac1k A(E_k, f_t) + (1 - \tfrac1k)\,\text{min-ACC}", f"{DELANGE} eq. 6",
        "stream", worst_case.wc_acc, needs=("boundaries",), is_score=True,
        curve=worst_case.wc_acc_curve,
        distinction="min_acc with the score on the current task added; at the end of a task it "
        "never exceeds acc on the same examples.",
        interpretation="A lower bound of the accuracy on all tasks seen, at this iteration."),
    "wf": Metric(
        "windowed forgetting", r"\mathrm{WF}^w",
        r"\frac1N \sum_i \max_{m \le n,\, n-m < w} \big(A(E_i, f_m) - A(E_i, f_n)\big)",
        f"{DELANGE} eq. 3, 4", "stream", worst_case.wf, better="lower", parameter="window",
        distinction="wf10, wf100, wfall: the window counts evaluations, not iterations; state "
        "the periodicity. Never negative, and biased high by noise.",
        interpretation="wf10 shows sharp drops, wf100 and wfall slow ones. 0 is a score that "
        "never falls."),
    "wp": Metric(
        "windowed plasticity", r"\mathrm{WP}^w",
        r"\frac1N \sum_i \max_{m \le n,\, n-m < w} \big(A(E_i, f_n) - A(E_i, f_m)\big)",
        f"{DELANGE} eq. 5, 10", "stream", worst_case.wp, parameter="window",
        distinction="The mirror image of wf. The paper's routine prunes on a running maximum, "
        "which is right for drops and wrong for rises: [.9, .1, .8] gives -.1 there and .7 here.",
        interpretation="The largest gain within a window."),
    "current": Metric(
        "current task accuracy", r"A(E_k, f_t)", r"A(E_k, f_t)", f"{DELANGE} sec. 3.2",
        "stream", learning.current_accuracy, needs=("boundaries",), is_score=True,
        curve=learning.current_accuracy_curve,
        distinction="The score on the task being learned, at the end of its training.",
        interpretation="Plasticity: close to the single-task score is good."),
    "lca": Metric(
        "learning curve area", r"\mathrm{LCA}_\beta",
        r"\frac{1}{\beta+1} \sum_{b=0}^{\beta} \frac1T \sum_k A(E_k, f_{t_{k-1}+b})",
        "Chaudhry et al. 2019 (A-GEM) def. 3", "stream", learning.lca,
        needs=("boundaries", "every iteration"), is_score=True, curve=learning.lca_curve, parameter="beta",
        distinction="A-GEM's definition, with b = 0 (before the first update) included.",
        interpretation="High: new tasks are learned within few batches."),
    "aaa": Metric(
        "average anytime accuracy", r"\mathrm{AAA}",
        r"\frac1N \sum_n \frac{1}{|\mathrm{seen}_n|} \sum_{i \in \mathrm{seen}_n} A(E_i, f_n)",
        "Caccia et al. 2022", "stream", learning.aaa, is_score=True,
        distinction="The mean over all evaluations, not only those at task ends as in "
        "acc.incremental.",
        interpretation="The accuracy a user sees on average at any time."),
    "gap.depth": Metric(
        "stability gap: depth", r"\mathrm{gap}_{\downarrow}",
        r"\mathrm{mean}\; A(E_i, f_{t_k}) - \min_{t_k < n \le t_{k+1}} A(E_i, f_n)", OURS,
        "stream", gap.gap_depth, low=-1, better="lower", needs=("boundaries",),
        distinction="Per switch and older task, relative to the score at the switch; min_acc is "
        "absolute and covers the whole remaining stream.",
        interpretation="0 is no gap; negative: the score only rose."),
    "gap.area": Metric(
        "stability gap: area", r"\mathrm{gap}_{\int}",
        r"\mathrm{mean} \sum_{t_k < n \le t_{k+1}} \max(0, A(E_i, f_{t_k}) - A(E_i, f_n))\,\Delta n",
        OURS, "stream", gap.gap_area, high=inf, better="lower", needs=("boundaries",),
        distinction="Depth times duration: a short deep dip and a long shallow one can be equal.",
        interpretation="Score lost times iterations, summed over one new task."),
    "gap.recovery": Metric(
        "stability gap: iterations to recover (median)", r"\mathrm{gap}_{t}",
        r"\mathrm{median}\; \min\{n - t_k : n \ge \arg\min,\; A(E_i, f_n) \ge .95\,A(E_i, f_{t_k})\}",
        OURS, "stream", gap.gap_recovery, high=inf, better="lower", needs=("boundaries",),
        accepts="not negative", unit="none",
        distinction="The median over dips; those that never recover count as longest, and 0 "
        "where the score never fell below 95%.",
        interpretation="Few iterations: the dip is transient. Undefined if more than half never "
        "recover."),
    "gap.recovered": Metric(
        "stability gap: fraction recovered", r"\mathrm{gap}_{\%}",
        r"\text{share of dips that came back to } .95\,A(E_i, f_{t_k})", OURS,
        "stream", gap.gap_recovered, needs=("boundaries",), accepts="not negative",
        unit="none",
        distinction="The fraction of dips behind gap.recovery. A task that is at 0 at the switch "
        "cannot fall and counts as recovered.",
        interpretation="1: every dip recovered while the new task was learned."),
}
# fmt: on
