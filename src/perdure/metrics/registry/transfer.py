"""Rows of backward and forward transfer."""

from __future__ import annotations

from ..functional import transfer
from .metric import DIAZ, FABER, GEM, TUTORIAL, Metric

__all__ = ["TRANSFER_METRICS"]

# fmt: off
TRANSFER_METRICS: dict[str, Metric] = {
    "bwt": Metric(
        "backward transfer", r"\mathrm{BWT}", r"\frac{1}{T-1} \sum_{j<T} (R_{T,j} - R_{j,j})",
        f"{GEM} eq. 3; {TUTORIAL}, BWT", "matrix", transfer.bwt, low=-1,
        curve=transfer.bwt_curve,
        distinction="GEM's backward transfer: the final score against the diagonal. bwt.all "
        "averages over all later steps, bwt.consecutive is 2/T of it, and acc.below is printed "
        "under this name too.",
        interpretation="About 0 or positive is good; negative is forgetting. Equal to "
        "-forgetting.learned."),
    "bwt.all": Metric(
        "backward transfer over time", r"\mathrm{BWT}_{\mathrm{all}}",
        r"\frac{2}{T(T-1)} \sum_{i>j} (R_{i,j} - R_{j,j})",
        f"{DIAZ} eq. 3; {FABER} eq. 2 (its code computes bwt.consecutive)",
        "matrix", transfer.bwt_all, low=-1,
        distinction="Díaz-Rodríguez et al.'s definition and Faber et al.'s eq. 2: every step "
        "after learning counts, not only the last.",
        interpretation="Closer to 0 than bwt when forgetting happens late, further from it when "
        "it is recovered by the end."),
    "bwt.consecutive": Metric(
        "backward transfer between consecutive tasks", r"\mathrm{BWT}_\Delta",
        r"\frac{2}{T(T-1)} \sum_{i>j} (R_{i,j} - R_{i-1,j}) = \frac{2}{T}\,\mathrm{BWT}",
        "no paper; the analysis code of the M2I/I2M authors, and so their tables",
        "matrix", transfer.bwt_consecutive, low=-1,
        distinction="What the M2I/I2M tables print as BWT, though their eq. 2 defines bwt.all. "
        "The sum telescopes: times T/2 it is GEM's bwt.",
        interpretation="It shrinks with the number of tasks, however much is forgotten; multiply "
        "by T/2."),
    "rem": Metric(
        "remembering", r"\mathrm{REM}", r"1 - |\min(\mathrm{BWT}_{\mathrm{all}}, 0)|",
        f"{DIAZ} sec. 2", "matrix", transfer.rem, accepts="accuracy",
        distinction="1 - |min(bwt.all, 0)|, so that larger is better.",
        interpretation="1 means that nothing is lost on average; gains on one task cancel losses "
        "on another."),
    "bwt.positive": Metric(
        "positive backward transfer", r"\mathrm{BWT}^+", r"\max(\mathrm{BWT}_{\mathrm{all}}, 0)",
        f"{DIAZ} sec. 2", "matrix", transfer.bwt_positive, accepts="accuracy",
        distinction="The other half of bwt.all, printed as BWT+.",
        interpretation="Above 0 only where older tasks improve on average."),
    "fwt.upper": Metric(
        "score on tasks not yet learned", r"\mathrm{FWT}", r"\frac{2}{T(T-1)} \sum_{i<j} R_{i,j}",
        f"{DIAZ} eq. 4; {FABER} eq. 3", "matrix", transfer.fwt_upper, needs=("zero-shot",), is_score=True,
        distinction="A score, not a transfer: no baseline is subtracted. fwt.gem subtracts the "
        "score of the untrained model, fwt.next uses the next task only, fwt.learned is measured "
        "after learning.",
        interpretation="Compare it with chance (.1 for ten classes). Undefined in the "
        "class-incremental setting: a model cannot name classes it has not learned."),
    "fwt.gem": Metric(
        "forward transfer", r"\mathrm{FWT}_{\mathrm{GEM}}",
        r"\frac{1}{T-1} \sum_{j \ge 2} (R_{j-1,j} - b_j)",
        f"{GEM} eq. 4", "matrix", transfer.fwt_gem, low=-1, needs=("zero-shot", "initial"),
        distinction="GEM's forward transfer: the score just before a task is learned, minus that "
        "of the untrained model.",
        interpretation="Positive: earlier tasks help before the new one is seen. Undefined in "
        "the class-incremental setting, as is fwt.upper."),
    "fwt.next": Metric(
        "score on the next task", r"\mathrm{FWT}_{\mathrm{next}}",
        r"\frac{1}{T-1} \sum_{j \ge 2} R_{j-1,j}",
        "Lin et al. 2021 (CLEAR), next-domain accuracy",
        "matrix", transfer.fwt_next, needs=("zero-shot",), is_score=True,
        distinction="CLEAR's next-domain accuracy: fwt.gem without the baseline.",
        interpretation="Compare it with chance."),
    "fwt.learned": Metric(
        "gain over the untrained model", r"\mathrm{FWT}_{\mathrm{LA}}",
        r"\frac{1}{T-1} \sum_{j \ge 2} (R_{j,j} - b_j)",
        f"{TUTORIAL}, FWT", "matrix", transfer.fwt_learned, low=-1, needs=("initial",),
        distinction="The tutorial's FWT: measured after learning, so it is mostly learning, not "
        "transfer.",
        interpretation="Positive for any model that learns at all."),
}
# fmt: on
