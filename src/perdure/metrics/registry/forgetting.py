"""Rows of forgetting, intransigence and retention relative to joint training."""

from __future__ import annotations

from math import inf

from ..functional import forgetting
from .metric import DELANGE, HAYES, KEMKER, MICHEL, TUTORIAL, Metric

__all__ = ["FORGETTING_METRICS"]

# fmt: off
FORGETTING_METRICS: dict[str, Metric] = {
    "forgetting.best": Metric(
        "forgetting from the best score before the end", r"\mathrm{AF}",
        r"\frac{1}{T-1} \sum_{j<T} \big(\max_{j \le l < T} R_{l,j} - R_{T,j}\big)",
        f"{MICHEL} eq. 2; {TUTORIAL}, FM, its formula",
        "matrix", forgetting.forgetting_best, low=-1, better="lower", curve=forgetting.af_curve,
        distinction="The reference is the best score since learning and before the end. "
        "forgetting.learned takes the score when learned, forgetting.peak includes the final "
        "score, forgetting.any also includes scores before the task was learned.",
        interpretation="Low is good. Negative where older tasks end above all their earlier "
        "scores. In class-incremental streams even a random guesser 'forgets': see raf."),
    "forgetting.learned": Metric(
        "forgetting since learning", r"\mathrm{FORG}",
        r"\frac{1}{T-1} \sum_{j<T} (R_{j,j} - R_{T,j}) = -\mathrm{BWT}",
        f"{DELANGE} sec. 3.1", "matrix", forgetting.forgetting_learned, low=-1, better="lower",
        distinction="De Lange et al.'s FORG, exactly -bwt; Avalanche's forgetting.",
        interpretation="Low is good, negative is backward transfer. Never above forgetting.best."),
    "forgetting.peak": Metric(
        "forgetting from the peak", r"\mathrm{F}_{\mathrm{peak}}",
        r"\frac{1}{T-1} \sum_{j<T} \big(\max_{j \le l \le T} R_{l,j} - R_{T,j}\big)",
        f"{TUTORIAL}, FM, its code", "matrix", forgetting.forgetting_peak, better="lower",
        distinction="The tutorial's code (its formula is forgetting.best); PILOT's and nearly "
        "Mammoth's forgetting.",
        interpretation="Never negative: improvement counts as 0."),
    "forgetting.any": Metric(
        "forgetting from the best score ever", r"\mathrm{F}_{\mathrm{any}}",
        r"\frac{1}{T-1} \sum_{j<T} \big(\max_{l < T} R_{l,j} - R_{T,j}\big)",
        "Chaudhry et al. 2018 (RWalk) eq. 3",
        "matrix", forgetting.forgetting_any, low=-1, better="lower", needs=("unseen",),
        distinction="RWalk's formula taken literally, as Renate computes it; it needs scores on "
        "unseen tasks.",
        interpretation="Above forgetting.best only where a task had a better score before it was "
        "learned."),
    "forgetting.ratio": Metric(
        "forgetting ratio", r"\rho", r"\frac1T \sum_j \Big(\frac{R_{T,j} - b_j}{J_j - b_j} - 1\Big)",
        "Serrà et al. 2018 (HAT)",
        "matrix", forgetting.forgetting_ratio, low=-inf, high=inf, needs=("initial", "joint"), unit="none",
        distinction="Serrà et al.'s rho, named in Díaz-Rodríguez et al.; it includes all tasks, "
        "also the last.",
        interpretation="0 is as good as joint training, -1 as bad as no training."),
    "memory_stability": Metric(
        "memory stability (variance)", r"\mathrm{MS}_{\mathrm{var}}",
        r"\frac{1}{T-1} \sum_{j<T} \mathrm{Var}(R_{j,j}, \dots, R_{T,j})",
        f"{TUTORIAL}, MS", "matrix", forgetting.memory_stability, high=0.25, better="lower", unit="squared score",
        distinction="The tutorial's MS. Díaz-Rodríguez et al.'s MS is model size (ms).",
        interpretation="Low is good; it does not tell whether scores fell or rose. In squared "
        "scores: times 10,000 in squared percentage points."),
    "intransigence": Metric(
        "intransigence", r"\mathrm{IM}", r"\frac{1}{T-1} \sum_{j \ge 2} (J_j - R_{j,j})",
        f"{TUTORIAL}, IM",
        "matrix", forgetting.intransigence, low=-1, better="lower", needs=("joint",),
        distinction="Relative to a model trained on all tasks at once; intransigence.single is "
        "relative to a model trained on that task alone. The tutorial allows both readings.",
        interpretation="0 or below is good; positive: learned worse because of earlier tasks."),
    "intransigence.single": Metric(
        "intransigence relative to single-task models", r"\mathrm{IM}_{\mathrm{single}}",
        r"\frac{1}{T-1} \sum_{j \ge 2} (S_j - R_{j,j})", f"{TUTORIAL}, IM, trained from scratch",
        "matrix", forgetting.intransigence_single, low=-1, better="lower", needs=("single",),
        distinction="The reading 'trained from scratch' of the tutorial's IM.",
        interpretation="0 or below is good; positive: learned worse because of earlier tasks."),
    "omega.base": Metric(
        "retention of the first task", r"\Omega_{\mathrm{base}}", r"\frac{1}{T-1} \sum_{i \ge 2} R_{i,1} / J_1",
        KEMKER, "matrix", forgetting.omega_base, high=inf, needs=("joint",),
        accepts="not negative", unit="none",
        distinction="Kemker & Kanan: the first task only, relative to joint training.",
        interpretation="1 retains the first task as well as joint training; values above 1 are "
        "possible."),
    "omega.new": Metric(
        "learning accuracy on later tasks", r"\Omega_{\mathrm{new}}", r"\frac{1}{T-1} \sum_{i \ge 2} R_{i,i}",
        KEMKER, "matrix", forgetting.omega_new, is_score=True,
        distinction="acc.learning without the first task.",
        interpretation="How well new tasks are learned."),
    "omega.all": Metric(
        "accuracy relative to joint training", r"\Omega_{\mathrm{all}}",
        r"\frac{1}{T-1} \sum_{i \ge 2} \frac{\sum_{j \le i} R_{i,j}}{\sum_{j \le i} J_j}",
        KEMKER, "matrix", forgetting.omega_all, high=inf, needs=("joint",),
        accepts="not negative", unit="none",
        distinction="All tasks seen, relative to joint training on the same tasks.",
        interpretation="1 is as good as joint training."),
    "omega.offline": Metric(
        "accuracy relative to offline training after each task", r"\Omega_{\mathrm{offline}}",
        r"\frac{1}{T} \sum_i \frac{1}{O_i} \frac{1}{i} \sum_{j \le i} R_{i,j}",
        HAYES, "matrix", forgetting.omega_offline, high=inf, needs=("offline",),
        accepts="not negative", unit="none",
        distinction="The first task counts too, and the reference is a model trained offline after "
        "each task; omega.all has one joint model. Hayes et al. pool the test examples of all "
        "tasks, which is the same if tasks have equally many.",
        interpretation="1 is as good as training offline on the tasks so far."),
}
# fmt: on
