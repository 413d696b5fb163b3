r"""The one table of metrics: every id, its one formula, where it comes from and what it needs.

In the formulas R_{i,j} is the score on task j after learning task i, T the number of tasks, both
counted from 1; b_j the untrained model's score, J_j the joint model's, S_j the single-task one's.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from math import inf
from typing import TYPE_CHECKING, Any, Literal

from .functional import accuracy, costs, forgetting, gap, learning, rescaled, transfer, worst_case

if TYPE_CHECKING:
    from collections.abc import Callable

    from .score_matrix import ScoreScale

__all__ = ["METRICS", "NEEDS", "Metric", "better_of", "find_metric"]

NEEDS = {
    "initial": "the untrained model's scores (initial)",
    "joint": "the scores of a model trained on all tasks at once (joint)",
    "single": "the scores of models trained on one task each (single)",
    "classes": "how many classes each task brings (classes)",
    "setting": "the setting: class, task or domain; class where not stated",
    "sizes": "how many test examples each task has (sizes)",
    "unseen": "scores on tasks before they are learned",
    "zero-shot": "scores on tasks before they are learned, by a model that can name their classes",
    "boundaries": "task boundaries",
    "every iteration": "an evaluation at every iteration",
    "model_bytes": "model_bytes of every task (costs)",
    "copies_bytes": "copies_bytes of every task (costs)",
    "stored_bytes": "stored_bytes of every task (costs)",
    "data_bytes": "data_bytes of every task (costs)",
    "flops_one_pass": "flops_one_pass of every task (costs)",
    "flops_train": "flops_train of every task (costs)",
    "criteria": "seven criteria: A, REM, BWT+, FWT, MS, SSS, CE",
    "runs": "several runs",
}


@dataclass(frozen=True)
class Metric:
    """A row of the table. `low` and `high` hold for accuracies; `level` is a score, not a change."""

    name: str
    symbol: str
    formula: str
    source: str
    of: Literal["matrix", "stream", "costs", "runs"]
    function: Callable[..., Any]
    low: float = 0.0
    high: float = 1.0
    better: Literal["higher", "lower"] = "higher"
    needs: tuple[str, ...] = ()
    scores: Literal["any", "not negative", "accuracy"] = "any"
    level: bool = False
    unit: Literal["score", "squared score", "none"] = "score"
    curve: Callable[..., Any] | None = None  # after each task, where not by its definition


GEM = "Lopez-Paz & Ranzato 2017 (GEM)"
DIAZ = "Díaz-Rodríguez et al. 2018"
DELANGE = "De Lange et al. 2023"
MICHEL = "Michel et al. 2023"
FABER = "Faber et al. 2023 (M2I/I2M)"
GUIDE = "Evaluation metrics guide"
KEMKER = "Kemker & Hayes 2018 (FearNet)"
OURS = "perdure"

# fmt: off
METRICS: dict[str, Metric] = {
    "acc": Metric(
        "average accuracy", r"\mathrm{ACC}", r"\frac1T \sum_j R_{T,j}",
        f"{GEM} eq. 2; {MICHEL} eq. 1; {DELANGE} sec. 3.3; {GUIDE} (AA)",
        "matrix", accuracy.acc, level=True, curve=accuracy.aa_curve),
    "acc.pooled": Metric(
        "pooled accuracy", r"\mathrm{ACC}_n", r"\sum_j n_j R_{T,j} \Big/ \sum_j n_j",
        "tools that pool the test sets (Avalanche, Renate)",
        "matrix", accuracy.acc_pooled, needs=("sizes",), level=True),
    "acc.lower": Metric(
        "accuracy over time", "A", r"\frac{2}{T(T+1)} \sum_{i \ge j} R_{i,j}",
        f"{DIAZ} eq. 2; {FABER} eq. 1, whose printed denominator T(T-1)/2 is a slip",
        "matrix", accuracy.acc_lower, level=True),
    "acc.below": Metric(
        "accuracy on older tasks", r"A_{i>j}", r"\frac{2}{T(T-1)} \sum_{i > j} R_{i,j}",
        "Lin et al. 2021 (CLEAR), printed there as backward transfer",
        "matrix", accuracy.acc_below, level=True),
    "acc.incremental": Metric(
        "average incremental accuracy", r"\overline{AA}",
        r"\frac1T \sum_k \frac1k \sum_{j \le k} R_{k,j}",
        "Rebuffi et al. 2017 (iCaRL)", "matrix", accuracy.acc_incremental, level=True),
    "acc.learning": Metric(
        "learning accuracy", r"\mathrm{LA}", r"\frac1T \sum_i R_{i,i}",
        f"{GUIDE} (LA)", "matrix", accuracy.acc_learning, level=True),
    "acc.all": Metric(
        "mean of the whole matrix", r"\overline{R}", r"\frac{1}{T^2} \sum_{i,j} R_{i,j}",
        "CapyMOA (accuracy_all_avg)", "matrix", accuracy.acc_all, needs=("unseen",), level=True),
    "bwt": Metric(
        "backward transfer", r"\mathrm{BWT}", r"\frac{1}{T-1} \sum_{j<T} (R_{T,j} - R_{j,j})",
        f"{GEM} eq. 3; {GUIDE} (BWT)", "matrix", transfer.bwt, low=-1,
        curve=transfer.bwt_curve),
    "bwt.all": Metric(
        "backward transfer over time", r"\mathrm{BWT}_{\mathrm{all}}",
        r"\frac{2}{T(T-1)} \sum_{i>j} (R_{i,j} - R_{j,j})",
        f"{DIAZ} eq. 3; {FABER} eq. 2 (its code computes bwt.consecutive)",
        "matrix", transfer.bwt_all, low=-1),
    "bwt.consecutive": Metric(
        "backward transfer from step to step", r"\mathrm{BWT}_\Delta",
        r"\frac{2}{T(T-1)} \sum_{i>j} (R_{i,j} - R_{i-1,j}) = \frac{2}{T}\,\mathrm{BWT}",
        "no paper; the M2I/I2M authors' analysis code and so their tables",
        "matrix", transfer.bwt_consecutive, low=-1),
    "rem": Metric(
        "remembering", r"\mathrm{REM}", r"1 - |\min(\mathrm{BWT}_{\mathrm{all}}, 0)|",
        f"{DIAZ} sec. 2", "matrix", transfer.rem, scores="accuracy"),
    "bwt.positive": Metric(
        "positive backward transfer", r"\mathrm{BWT}^+", r"\max(\mathrm{BWT}_{\mathrm{all}}, 0)",
        f"{DIAZ} sec. 2", "matrix", transfer.bwt_positive, scores="accuracy"),
    "fwt.upper": Metric(
        "score on tasks not yet learned", r"\mathrm{FWT}", r"\frac{2}{T(T-1)} \sum_{i<j} R_{i,j}",
        f"{DIAZ} eq. 4; {FABER} eq. 3", "matrix", transfer.fwt_upper, needs=("zero-shot",), level=True),
    "fwt.gem": Metric(
        "forward transfer", r"\mathrm{FWT}_{\mathrm{GEM}}",
        r"\frac{1}{T-1} \sum_{j \ge 2} (R_{j-1,j} - b_j)",
        f"{GEM} eq. 4", "matrix", transfer.fwt_gem, low=-1, needs=("zero-shot", "initial")),
    "fwt.next": Metric(
        "score on the next task", r"\mathrm{FWT}_{\mathrm{next}}",
        r"\frac{1}{T-1} \sum_{j \ge 2} R_{j-1,j}",
        "Lin et al. 2021 (CLEAR), next-domain accuracy",
        "matrix", transfer.fwt_next, needs=("zero-shot",), level=True),
    "fwt.learned": Metric(
        "learned against untrained", r"\mathrm{FWT}_{\mathrm{LA}}",
        r"\frac{1}{T-1} \sum_{j \ge 2} (R_{j,j} - b_j)",
        f"{GUIDE} (FWT)", "matrix", transfer.fwt_learned, low=-1, needs=("initial",)),
    "forgetting.best": Metric(
        "forgetting since the best before the end", r"\mathrm{AF}",
        r"\frac{1}{T-1} \sum_{j<T} \big(\max_{j \le l < T} R_{l,j} - R_{T,j}\big)",
        f"{MICHEL} eq. 2; {GUIDE} (FM, its formula)",
        "matrix", forgetting.forgetting_best, low=-1, better="lower", curve=forgetting.af_curve),
    "forgetting.learned": Metric(
        "forgetting since learned", r"\mathrm{FORG}",
        r"\frac{1}{T-1} \sum_{j<T} (R_{j,j} - R_{T,j}) = -\mathrm{BWT}",
        f"{DELANGE} sec. 3.1", "matrix", forgetting.forgetting_learned, low=-1, better="lower"),
    "forgetting.peak": Metric(
        "forgetting since the peak", r"\mathrm{F}_{\mathrm{peak}}",
        r"\frac{1}{T-1} \sum_{j<T} \big(\max_{j \le l \le T} R_{l,j} - R_{T,j}\big)",
        f"{GUIDE} (FM, its code)", "matrix", forgetting.forgetting_peak, better="lower"),
    "forgetting.any": Metric(
        "forgetting since the best of all", r"\mathrm{F}_{\mathrm{any}}",
        r"\frac{1}{T-1} \sum_{j<T} \big(\max_{l < T} R_{l,j} - R_{T,j}\big)",
        "Chaudhry et al. 2018 (RWalk) eq. 3",
        "matrix", forgetting.forgetting_any, low=-1, better="lower", needs=("unseen",)),
    "forgetting.ratio": Metric(
        "forgetting ratio", r"\rho", r"\frac1T \sum_j \Big(\frac{R_{T,j} - b_j}{J_j - b_j} - 1\Big)",
        "Serrà et al. 2018 (HAT)",
        "matrix", forgetting.forgetting_ratio, low=-inf, high=inf, needs=("initial", "joint"), unit="none"),
    "memory_stability": Metric(
        "memory stability (variance)", r"\mathrm{MS}_{\mathrm{var}}",
        r"\frac{1}{T-1} \sum_{j<T} \mathrm{Var}(R_{j,j}, \dots, R_{T,j})",
        f"{GUIDE} (MS)", "matrix", forgetting.memory_stability, high=0.25, better="lower", unit="squared score"),
    "intransigence": Metric(
        "intransigence", r"\mathrm{IM}", r"\frac{1}{T-1} \sum_{j \ge 2} (J_j - R_{j,j})",
        f"{GUIDE} (IM)",
        "matrix", forgetting.intransigence, low=-1, better="lower", needs=("joint",)),
    "intransigence.single": Metric(
        "intransigence against single-task models", r"\mathrm{IM}_{\mathrm{single}}",
        r"\frac{1}{T-1} \sum_{j \ge 2} (S_j - R_{j,j})", f"{GUIDE} (IM, trained from scratch)",
        "matrix", forgetting.intransigence_single, low=-1, better="lower", needs=("single",)),
    "omega.base": Metric(
        "first task kept", r"\Omega_{\mathrm{base}}", r"\frac{1}{T-1} \sum_{i \ge 2} R_{i,1} / J_1",
        KEMKER, "matrix", forgetting.omega_base, high=inf, needs=("joint",),
        scores="not negative", unit="none"),
    "omega.new": Metric(
        "new tasks learned", r"\Omega_{\mathrm{new}}", r"\frac{1}{T-1} \sum_{i \ge 2} R_{i,i}",
        KEMKER, "matrix", forgetting.omega_new, level=True),
    "omega.all": Metric(
        "all tasks against joint training", r"\Omega_{\mathrm{all}}",
        r"\frac{1}{T-1} \sum_{i \ge 2} \frac{\sum_{j \le i} R_{i,j}}{\sum_{j \le i} J_j}",
        KEMKER, "matrix", forgetting.omega_all, high=inf, needs=("joint",),
        scores="not negative", unit="none"),
    "raa": Metric(
        "rescaled average accuracy", r"\mathrm{RAA}", r"\gamma_K \mathrm{AA}_K",
        f"{MICHEL} eq. 4, 5", "matrix", rescaled.raa, needs=("classes", "setting"), scores="accuracy",
        curve=rescaled.raa_curve),
    "raf": Metric(
        "rescaled average forgetting", r"\mathrm{RAF}", r"\beta_K \mathrm{AF}_K",
        f"{MICHEL} eq. 4, 6", "matrix", rescaled.raf, low=-1, better="lower", needs=("classes", "setting"),
        scores="accuracy", curve=rescaled.raf_curve),
    "uraa": Metric(
        "accuracy as a multiple of chance", r"\mathrm{uRAA}",
        r"\mathrm{AA}_K / \mathrm{AA}_K(\mathrm{Rand})",
        f"{MICHEL} eq. 3", "matrix", rescaled.uraa, high=inf, needs=("classes", "setting"), scores="accuracy",
        curve=rescaled.uraa_curve, unit="none"),
    "uraf": Metric(
        "forgetting as a multiple of chance", r"\mathrm{uRAF}",
        r"\mathrm{AF}_K / \mathrm{AF}_K(\mathrm{Rand})",
        f"{MICHEL} eq. 3", "matrix", rescaled.uraf, low=-inf, high=inf, better="lower",
        needs=("classes", "setting"), scores="accuracy", curve=rescaled.uraf_curve, unit="none"),
    "min_acc": Metric(
        "average minimum accuracy", r"\text{min-ACC}",
        r"\frac{1}{k-1} \sum_{i<k} \min_{t_i < n \le t} A(E_i, f_n)", f"{DELANGE} eq. 2",
        "stream", worst_case.min_acc, needs=("boundaries",), level=True,
        curve=worst_case.min_acc_curve),
    "wc_acc": Metric(
        "worst-case accuracy", r"\text{WC-ACC}",
        r"\tfrac1k A(E_k, f_t) + (1 - \tfrac1k)\,\text{min-ACC}", f"{DELANGE} eq. 6",
        "stream", worst_case.wc_acc, needs=("boundaries",), level=True,
        curve=worst_case.wc_acc_curve),
    "wf": Metric(
        "windowed forgetting", r"\mathrm{WF}^w",
        r"\frac1N \sum_i \max_{m \le n,\, n-m < w} \big(A(E_i, f_m) - A(E_i, f_n)\big)",
        f"{DELANGE} eq. 3, 4", "stream", worst_case.wf, better="lower"),
    "wp": Metric(
        "windowed plasticity", r"\mathrm{WP}^w",
        r"\frac1N \sum_i \max_{m \le n,\, n-m < w} \big(A(E_i, f_n) - A(E_i, f_m)\big)",
        f"{DELANGE} eq. 5, 10", "stream", worst_case.wp),
    "current": Metric(
        "current task accuracy", r"A(E_k, f_t)", r"A(E_k, f_t)", f"{DELANGE} sec. 3.2",
        "stream", learning.current_accuracy, needs=("boundaries",), level=True,
        curve=learning.current_accuracy_curve),
    "lca": Metric(
        "learning curve area", r"\mathrm{LCA}_\beta",
        r"\frac{1}{\beta+1} \sum_{b=0}^{\beta} \frac1T \sum_k A(E_k, f_{t_{k-1}+b})",
        "Chaudhry et al. 2019 (A-GEM) def. 3", "stream", learning.lca,
        needs=("boundaries", "every iteration"), level=True, curve=learning.lca_curve),
    "aaa": Metric(
        "average anytime accuracy", r"\mathrm{AAA}",
        r"\frac1N \sum_n \frac{1}{|\mathrm{seen}_n|} \sum_{i \in \mathrm{seen}_n} A(E_i, f_n)",
        "Caccia et al. 2022", "stream", learning.aaa, level=True),
    "gap.depth": Metric(
        "stability gap: depth", r"\mathrm{gap}_{\downarrow}",
        r"\mathrm{mean}\; A(E_i, f_{t_k}) - \min_{t_k < n \le t_{k+1}} A(E_i, f_n)", OURS,
        "stream", gap.gap_depth, low=-1, better="lower", needs=("boundaries",)),
    "gap.area": Metric(
        "stability gap: area", r"\mathrm{gap}_{\int}",
        r"\mathrm{mean} \sum_{t_k < n \le t_{k+1}} \max(0, A(E_i, f_{t_k}) - A(E_i, f_n))\,\Delta n",
        OURS, "stream", gap.gap_area, high=inf, better="lower", needs=("boundaries",)),
    "gap.recovery": Metric(
        "stability gap: iterations to recover (median)", r"\mathrm{gap}_{t}",
        r"\mathrm{median}\; \min\{n - t_k : n \ge \arg\min,\; A(E_i, f_n) \ge .95\,A(E_i, f_{t_k})\}",
        OURS, "stream", gap.gap_recovery, high=inf, better="lower", needs=("boundaries",),
        scores="not negative", unit="none"),
    "gap.recovered": Metric(
        "stability gap: share recovered", r"\mathrm{gap}_{\%}",
        r"\text{share of dips that came back to } .95\,A(E_i, f_{t_k})", OURS,
        "stream", gap.gap_recovered, needs=("boundaries",), scores="not negative",
        unit="none"),
    "ms": Metric(
        "model size efficiency", r"\mathrm{MS}",
        r"\min\big(1, \tfrac1T \sum_i \mathrm{Mem}(\theta_1) / \mathrm{Mem}(\theta_i)\big)",
        f"{DIAZ} eq. 5", "costs", costs.ms, needs=("model_bytes",), unit="none"),
    "ms.copies": Metric(
        "model size efficiency, copies counted", r"\mathrm{MS}_{+}",
        r"\min\big(1, \tfrac1T \sum_i (\mathrm{Mem}(\theta_1) + \mathrm{Mem}(K_1))"
        r" / (\mathrm{Mem}(\theta_i) + \mathrm{Mem}(K_i))\big)",
        OURS, "costs", costs.ms_copies, needs=("model_bytes", "copies_bytes"), unit="none"),
    "sss": Metric(
        "samples storage efficiency", r"\mathrm{SSS}",
        r"1 - \min\big(1, \tfrac1T \sum_i \mathrm{Mem}(M_i) / \mathrm{Mem}(D)\big)",
        f"{DIAZ} eq. 6", "costs", costs.sss, needs=("stored_bytes", "data_bytes"), unit="none"),
    "ce": Metric(
        "computational efficiency", r"\mathrm{CE}",
        r"\min\big(1, \tfrac1T \sum_i \mathrm{Ops}_{\uparrow\downarrow}(Tr_i)\,\varepsilon"
        r" / \mathrm{Ops}(Tr_i)\big)",
        f"{DIAZ} eq. 7", "costs", costs.ce, needs=("flops_one_pass", "flops_train"), unit="none"),
    "clscore": Metric(
        "CLscore", r"CL_{\mathrm{score}}", r"\sum_c w_c c", f"{DIAZ} eq. 8",
        "runs", costs.clscore, needs=("criteria",), unit="none"),
    "clstability": Metric(
        "CLstability", r"CL_{\mathrm{stability}}", r"1 - \sum_c w_c\,\mathrm{std}(c)",
        f"{DIAZ} eq. 9", "runs", costs.clstability, needs=("criteria", "runs"), unit="none"),
}
# fmt: on


def find_metric(id_: str) -> Metric:
    """Return the row of an id; wf10, wpall or lca10 are the rows wf, wp and lca.

    Example:
        >>> find_metric("wf10").name
        'windowed forgetting'
    """
    for base in ("wf", "wp", "lca"):
        tail = id_.removeprefix(base)
        if tail != id_ and (tail.isdecimal() or (tail == "all" and base != "lca")):
            return METRICS[base]
    if id_ not in METRICS:
        word = id_.lower()
        near = (
            get_close_matches(word, METRICS, n=3)
            or [other for other, metric in METRICS.items() if word in metric.name][:3]
        )
        hint = f"did you mean {' or '.join(near)}?" if near else "see `perdure list metrics`"
        raise ValueError(f"no metric has the id {id_!r}; {hint}")
    return METRICS[id_]


def better_of(id_: str, scale: ScoreScale) -> Literal["higher", "lower"]:
    """Return which way a metric is better: the level of a loss is better when lower.

    Example:
        >>> from perdure.metrics import ACCURACY, ScoreScale
        >>> better_of("acc", ACCURACY), better_of("acc", ScoreScale(0, 9, lower_is_better=True))
        ('higher', 'lower')
    """
    metric = find_metric(id_)
    return "lower" if metric.level and scale.lower_is_better else metric.better
