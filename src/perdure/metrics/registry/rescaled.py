"""Rows of the metrics measured relative to a random guesser."""

from __future__ import annotations

from math import inf

from ..functional import rescaled
from .metric import MICHEL, Metric

__all__ = ["RESCALED_METRICS"]

# fmt: off
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
