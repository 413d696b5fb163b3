"""What the numbers say, in plain words: the guide's diagnosis, and what task ends do not show.

The diagnosis and its limits are of accuracies; other scores are told in numbers, without a verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...metrics import ScoreScale

__all__ = ["DIAGNOSIS_IDS", "Diagnosis", "describe_scores", "describe_stability_gap", "diagnose"]

DIAGNOSIS_IDS = ("acc", "acc.learning", "bwt")

# High is above these in the guide; what is about 0, and what very negative, it leaves open.
LEARNED, KEPT = 0.9, 0.8
ABOUT_ZERO, SEVERE = 0.05, -0.2
POINT = 0.005  # what is less is written as 0 points


class Diagnosis(NamedTuple):
    """A row of the guide's table, or none of them, and the numbers it rests on in words."""

    name: str
    why: str


def diagnose(metrics: Mapping[str, float], *, percent: bool = False) -> Diagnosis | None:
    """Return what learning, backward transfer and the end say together; None where one is missing.

    Example:
        >>> diagnose({"acc.learning": 0.98, "bwt": -0.6, "acc": 0.5}).name
        'severe forgetting'
        >>> diagnose({"acc.learning": 0.95, "bwt": 0.03, "acc": 0.97}).name
        'beneficial transfer'
    """
    if not metrics.keys() >= set(DIAGNOSIS_IDS):
        return None
    learned, bwt, acc = metrics["acc.learning"], metrics["bwt"], metrics["acc"]
    change = f"{'gained' if bwt > 0 else 'lost'} {100 * abs(bwt):.0f} points"
    why = (
        f"tasks were learned to {_level(learned, percent)} on average and later "
        f"{'kept' if abs(bwt) < POINT else change}; "
        f"at the end they are at {_level(acc, percent)}"
    )
    return Diagnosis(_name(learned, bwt, acc), why)


def _level(score: float, percent: bool) -> str:
    return f"{100 * score:.0f}%" if percent else f"{score:.2f}"


def _name(learned: float, bwt: float, acc: float) -> str:
    if learned >= LEARNED and bwt >= POINT and acc >= LEARNED:
        return "beneficial transfer"
    if learned >= LEARNED and abs(bwt) <= ABOUT_ZERO and acc >= KEPT:
        return "a good continual learner"
    if bwt <= SEVERE and acc < KEPT:
        return "severe forgetting" if learned >= LEARNED else "forgetting, and poor learning"
    if learned < LEARNED and abs(bwt) <= ABOUT_ZERO:
        return "poor learning" if acc < KEPT else "keeps what it learns, learns less than it could"
    return "some forgetting" if bwt < 0 else "between the guide's patterns"


def describe_stability_gap(
    metrics: Mapping[str, float], older: float | None, *, percent: bool = False
) -> str:
    """Return what older tasks went through between task ends, or nothing where that is not known.

    Args:
        metrics: by id.
        older: the mean score at the end of the tasks that min_acc is about.
        percent: write scores in percent.

    Example:
        >>> describe_stability_gap({"min_acc": 0.4}, 0.9)
        'on the way older tasks fell to 0.40, 50 points below their end: a stability gap'
    """
    if "min_acc" not in metrics or older is None:
        return ""
    low, depth = metrics["min_acc"], metrics.get("gap.depth", 1.0)
    fell = f"on the way older tasks fell to {_level(low, percent)}"
    if older - low < ABOUT_ZERO and metrics.get("bwt", 0.0) <= SEVERE:
        return f"{fell} and stayed there"
    if older - low < ABOUT_ZERO:
        end = _level(older, percent)
        return f"{fell}, not far below their end ({end}): hardly a stability gap"
    if depth < ABOUT_ZERO:  # they had never been higher: what was learned later is no recovery
        cost = f"{100 * max(depth, 0.0):.0f} points"
        return f"{fell}, but new tasks cost them {cost} at their start: hardly a stability gap"
    return f"{fell}, {100 * (older - low):.0f} points below their end: a stability gap"


def describe_scores(
    metrics: Mapping[str, float], scale: ScoreScale, older: float | None
) -> str | None:
    """Return what became of scores that are no accuracies; None where a number is missing.

    Args:
        metrics: by id.
        scale: name and direction of the scores.
        older: the mean score at the end of the tasks that min_acc is about.

    Example:
        >>> from perdure.metrics import ScoreScale
        >>> loss = ScoreScale(0, 9, lower_is_better=True, name="loss")
        >>> describe_scores({"acc.learning": 0.5, "bwt": -2.0, "acc": 1.5}, loss, None)
        'mean loss when learned: 0.5; on older tasks it then rose by 2; mean loss at the end: 1.5'
    """
    if not metrics.keys() >= set(DIAGNOSIS_IDS):
        return None
    worse, better = ("rose", "fell") if scale.lower_is_better else ("fell", "rose")
    bwt = metrics["bwt"]
    change = f"{better if bwt > 0 else worse} by {abs(bwt):.3g}" if bwt else "stayed the same"
    parts = [
        f"mean {scale.label} when learned: {metrics['acc.learning']:.3g}",
        f"on older tasks it then {change}",
        f"mean {scale.label} at the end: {metrics['acc']:.3g}",
    ]
    if "min_acc" in metrics and older is not None:
        low = f"on the way it {worse} to {metrics['min_acc']:.3g} on older tasks"
        parts.append(f"{low}, which end at {older:.3g}")
    return "; ".join(parts)
