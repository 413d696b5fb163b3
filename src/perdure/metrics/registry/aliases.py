"""Names that people type for metrics, and families of metrics that share a name.

An alias with several ids is ambiguous: the literature uses the name for each of them.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FAMILIES", "METRIC_ALIASES", "MetricFamily"]


class MetricFamily(NamedTuple):
    """Metrics whose ids start with one word: what they have in common, and when to use which."""

    about: str
    advice: str
    related: tuple[str, ...] = ()


# fmt: off
METRIC_ALIASES: dict[str, tuple[str, ...]] = {  # by normalized name
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
