"""Rows of the averages that the literature calls accuracy."""

from __future__ import annotations

from ..functional import accuracy
from .metric import DELANGE, DIAZ, FABER, GEM, MICHEL, TUTORIAL, Metric

__all__ = ["ACCURACY_METRICS"]

# fmt: off
ACCURACY_METRICS: dict[str, Metric] = {
    "acc": Metric(
        "average accuracy", r"\mathrm{ACC}", r"\frac1T \sum_j R_{T,j}",
        f"{GEM} eq. 2; {MICHEL} eq. 1; {DELANGE} sec. 3.3; {TUTORIAL}, AA",
        "matrix", accuracy.acc, is_score=True, curve=accuracy.aa_curve,
        distinction="Printed as accuracy, ACC, AA or AA_K. Every task has the same weight; "
        "acc.pooled weights by examples, acc.lower averages over all steps, acc.incremental "
        "averages acc after every task.",
        interpretation="It cannot distinguish forgetting from not having learned: read it next "
        "to acc.learning and bwt. acc = acc.learning + bwt (T-1)/T exactly; the tutorial prints "
        "this without the factor.",
        rule_of_thumb="Good above .8 (tutorial)."),
    "acc.pooled": Metric(
        "pooled accuracy", r"\mathrm{ACC}_n", r"\sum_j n_j R_{T,j} \Big/ \sum_j n_j",
        "tools that pool the test sets (Avalanche, Renate)",
        "matrix", accuracy.acc_pooled, needs=("sizes",), is_score=True,
        distinction="acc weighted by test-set size: what tools print that pool all test examples.",
        interpretation="Equal to acc where all test sets have the same size; otherwise large "
        "tasks dominate."),
    "acc.lower": Metric(
        "accuracy over time", "A", r"\frac{2}{T(T+1)} \sum_{i \ge j} R_{i,j}",
        f"{DIAZ} eq. 2; {FABER} eq. 1, whose printed denominator T(T-1)/2 is wrong",
        "matrix", accuracy.acc_lower, is_score=True,
        distinction="Díaz-Rodríguez et al.'s A and the ACC of the M2I/I2M tables. Faber et al. "
        "print the divisor N(N-1)/2 in eq. 1, which would let accuracy exceed 1; their code "
        "divides by N(N+1)/2.",
        interpretation="The first task counts T times, the last once: a stream that starts with "
        "easy tasks scores higher (Faber et al., sec. 4.3). Do not use it to compare different "
        "task orders."),
    "acc.below": Metric(
        "accuracy on older tasks", r"A_{i>j}", r"\frac{2}{T(T-1)} \sum_{i > j} R_{i,j}",
        "Lin et al. 2021 (CLEAR), printed there as backward transfer",
        "matrix", accuracy.acc_below, is_score=True,
        distinction="CLEAR prints it as backward transfer, though it takes no difference.",
        interpretation="The mean score on older tasks; a high value does not mean that they "
        "improved."),
    "acc.incremental": Metric(
        "average incremental accuracy", r"\overline{AA}",
        r"\frac1T \sum_k \frac1k \sum_{j \le k} R_{k,j}",
        "Rebuffi et al. 2017 (iCaRL)", "matrix", accuracy.acc_incremental, is_score=True,
        distinction="iCaRL's average incremental accuracy. PyCIL pools the examples of each "
        "step, which is the same for equal test sets.",
        interpretation="The mean of acc over training. Earlier steps are easier in "
        "class-incremental streams, so it lies above acc."),
    "acc.learning": Metric(
        "learning accuracy", r"\mathrm{LA}", r"\frac1T \sum_i R_{i,i}",
        f"{TUTORIAL}, LA", "matrix", accuracy.acc_learning, is_score=True,
        distinction="The tutorial's LA, CLEAR's in-domain accuracy.",
        interpretation="How well each task is learned when it is trained, whatever is lost later.",
        rule_of_thumb="Good above .9 (tutorial)."),
    "acc.all": Metric(
        "mean of the whole matrix", r"\overline{R}", r"\frac{1}{T^2} \sum_{i,j} R_{i,j}",
        "CapyMOA (accuracy_all_avg)", "matrix", accuracy.acc_all, needs=("unseen",), is_score=True,
        distinction="CapyMOA's accuracy_all_avg: tasks that are not yet learned count too.",
        interpretation="It mixes learning, retention and guessing; compare it only with itself."),
}
# fmt: on
