"""Rows of the metrics of a score matrix: accuracy, transfer, forgetting, relative to guessing."""

from __future__ import annotations

from math import inf

from ..functional import accuracy, forgetting, rescaled
from .metric import DELANGE, DIAZ, FABER, GEM, HAYES, KEMKER, MICHEL, TUTORIAL, Metric

__all__ = ["ACCURACY_METRICS", "FORGETTING_METRICS", "RESCALED_METRICS", "TRANSFER_METRICS"]

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

TRANSFER_METRICS: dict[str, Metric] = {
    "bwt": Metric(
        "backward transfer", r"\mathrm{BWT}", r"\frac{1}{T-1} \sum_{j<T} (R_{T,j} - R_{j,j})",
        f"{GEM} eq. 3; {TUTORIAL}, BWT", "matrix", accuracy.bwt, low=-1,
        curve=accuracy.bwt_curve,
        distinction="GEM's backward transfer: the final score against the diagonal. bwt.all "
        "averages over all later steps, bwt.consecutive is 2/T of it, and acc.below is printed "
        "under this name too.",
        interpretation="About 0 or positive is good; negative is forgetting. Equal to "
        "-forgetting.learned."),
    "bwt.all": Metric(
        "backward transfer over time", r"\mathrm{BWT}_{\mathrm{all}}",
        r"\frac{2}{T(T-1)} \sum_{i>j} (R_{i,j} - R_{j,j})",
        f"{DIAZ} eq. 3; {FABER} eq. 2 (its code computes bwt.consecutive)",
        "matrix", accuracy.bwt_all, low=-1,
        distinction="Díaz-Rodríguez et al.'s definition and Faber et al.'s eq. 2: every step "
        "after learning counts, not only the last.",
        interpretation="Closer to 0 than bwt when forgetting happens late, further from it when "
        "it is recovered by the end."),
    "bwt.consecutive": Metric(
        "backward transfer between consecutive tasks", r"\mathrm{BWT}_\Delta",
        r"\frac{2}{T(T-1)} \sum_{i>j} (R_{i,j} - R_{i-1,j}) = \frac{2}{T}\,\mathrm{BWT}",
        "no paper; the analysis code of the M2I/I2M authors, and so their tables",
        "matrix", accuracy.bwt_consecutive, low=-1,
        distinction="What the M2I/I2M tables print as BWT, though their eq. 2 defines bwt.all. "
        "The sum telescopes: times T/2 it is GEM's bwt.",
        interpretation="It shrinks with the number of tasks, however much is forgotten; multiply "
        "by T/2."),
    "rem": Metric(
        "remembering", r"\mathrm{REM}", r"1 - |\min(\mathrm{BWT}_{\mathrm{all}}, 0)|",
        f"{DIAZ} sec. 2", "matrix", accuracy.rem, accepts="accuracy",
        distinction="1 - |min(bwt.all, 0)|, so that larger is better.",
        interpretation="1 means that nothing is lost on average; gains on one task cancel losses "
        "on another."),
    "bwt.positive": Metric(
        "positive backward transfer", r"\mathrm{BWT}^+", r"\max(\mathrm{BWT}_{\mathrm{all}}, 0)",
        f"{DIAZ} sec. 2", "matrix", accuracy.bwt_positive, accepts="accuracy",
        distinction="The other half of bwt.all, printed as BWT+.",
        interpretation="Above 0 only where older tasks improve on average."),
    "fwt.upper": Metric(
        "score on tasks not yet learned", r"\mathrm{FWT}", r"\frac{2}{T(T-1)} \sum_{i<j} R_{i,j}",
        f"{DIAZ} eq. 4; {FABER} eq. 3", "matrix", accuracy.fwt_upper, needs=("zero-shot",), is_score=True,
        distinction="A score, not a transfer: no baseline is subtracted. fwt.gem subtracts the "
        "score of the untrained model, fwt.next uses the next task only, fwt.learned is measured "
        "after learning.",
        interpretation="Compare it with chance (.1 for ten classes). Undefined in the "
        "class-incremental setting: a model cannot name classes it has not learned."),
    "fwt.gem": Metric(
        "forward transfer", r"\mathrm{FWT}_{\mathrm{GEM}}",
        r"\frac{1}{T-1} \sum_{j \ge 2} (R_{j-1,j} - b_j)",
        f"{GEM} eq. 4", "matrix", accuracy.fwt_gem, low=-1, needs=("zero-shot", "initial"),
        distinction="GEM's forward transfer: the score just before a task is learned, minus that "
        "of the untrained model.",
        interpretation="Positive: earlier tasks help before the new one is seen. Undefined in "
        "the class-incremental setting, as is fwt.upper."),
    "fwt.next": Metric(
        "score on the next task", r"\mathrm{FWT}_{\mathrm{next}}",
        r"\frac{1}{T-1} \sum_{j \ge 2} R_{j-1,j}",
        "Lin et al. 2021 (CLEAR), next-domain accuracy",
        "matrix", accuracy.fwt_next, needs=("zero-shot",), is_score=True,
        distinction="CLEAR's next-domain accuracy: fwt.gem without the baseline.",
        interpretation="Compare it with chance."),
    "fwt.learned": Metric(
        "gain over the untrained model", r"\mathrm{FWT}_{\mathrm{LA}}",
        r"\frac{1}{T-1} \sum_{j \ge 2} (R_{j,j} - b_j)",
        f"{TUTORIAL}, FWT", "matrix", accuracy.fwt_learned, low=-1, needs=("initial",),
        distinction="The tutorial's FWT: measured after learning, so it is mostly learning, not "
        "transfer.",
        interpretation="Positive for any model that learns at all."),
}

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

RESCALED_METRICS: dict[str, Metric] = {
    "raa": Metric(
        "rescaled average accuracy", r"\mathrm{RAA}", r"\gamma_K \mathrm{AA}_K",
        f"{MICHEL} eq. 4, 5", "matrix", rescaled.raa, needs=("classes", "setting"), accepts="accuracy",
        curve=rescaled.raa_curve,
        distinction="acc with the effect of the growing number of classes divided out; equal to "
        "acc after the last task of a class-incremental stream, so look at its curve.",
        interpretation="A rising curve accumulates knowledge; a flat one loses as fast as a "
        "random guesser."),
    "raf": Metric(
        "rescaled average forgetting", r"\mathrm{RAF}", r"\beta_K \mathrm{AF}_K",
        f"{MICHEL} eq. 4, 6", "matrix", rescaled.raf, low=-1, better="lower", needs=("classes", "setting"),
        accepts="accuracy", curve=rescaled.raf_curve,
        distinction="forgetting.best with the random guesser's forgetting divided out; equal to "
        "it at the end for tasks of equal size. Defined for class-incremental streams.",
        interpretation="A rising curve: forgetting grows beyond what more classes explain."),
    "uraa": Metric(
        "accuracy as a multiple of chance", r"\mathrm{uRAA}",
        r"\mathrm{AA}_K / \mathrm{AA}_K(\mathrm{Rand})",
        f"{MICHEL} eq. 3", "matrix", rescaled.uraa, high=inf, needs=("classes", "setting"), accepts="accuracy",
        curve=rescaled.uraa_curve, unit="none",
        distinction="raa before it is scaled to 1.",
        interpretation="How many times better than a random guesser."),
    "uraf": Metric(
        "forgetting as a multiple of chance", r"\mathrm{uRAF}",
        r"\mathrm{AF}_K / \mathrm{AF}_K(\mathrm{Rand})",
        f"{MICHEL} eq. 3", "matrix", rescaled.uraf, low=-inf, high=inf, better="lower",
        needs=("classes", "setting"), accepts="accuracy", curve=rescaled.uraf_curve, unit="none",
        distinction="raf before it is scaled to 1.",
        interpretation="How many times more forgetting than a random guesser's."),
}
# fmt: on
