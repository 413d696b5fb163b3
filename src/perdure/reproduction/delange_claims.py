"""The claims of De Lange et al. 2023 about the stability gap."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .claim import claim_less
from .figure_data import forgetting_pairs
from .measurements import NotMeasuredError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .claim import Claim
    from .measurements import Measurements

__all__ = ["DE_LANGE_CLAIMS"]

ZOOMED_UPDATES = 50  # updates of a task that the paper's figures zoom in on
ZERO = 0.5  # percent; the accuracy below which a task counts as forgotten
STRONG_CORRELATION = 0.6


def _check_periodicity(measurements: Measurements, factors: Mapping[str, str]) -> list[Claim]:
    acc, low, often = (measurements.mean(id_, factors) for id_ in ("acc", "min_acc", "wf100"))
    seldom = {id_: measurements.mean(id_, factors, subsample=1000) for id_ in ("min_acc", "wf100")}
    return [
        claim_less("ACC misses the gap: min-ACC is more than five points below it", low + 5, acc),
        claim_less("WC-ACC is a lower bound of ACC", measurements.mean("wc_acc", factors), acc),
        claim_less("min-ACC rises from rho = 1 to 1000", low, seldom["min_acc"]),
        claim_less("WF100 falls from rho = 1 to 1000", seldom["wf100"], often),
    ]


def _check_sample_sizes(measurements: Measurements) -> list[Claim]:
    thousand, all_, hundred = ({"variant": f"n-{n}"} for n in (1000, "all", 100))
    difference = measurements.mean("min_acc", thousand) - measurements.mean("min_acc", all_)
    wf100 = [measurements.mean("wf100", variant) for variant in (all_, hundred)]
    return [
        *_check_periodicity(measurements, thousand),
        claim_less("1000 examples suffice: min-ACC is within five points", abs(difference), 5),
        claim_less("100 examples are noisier: WF100 is larger than with all", *wf100),
    ]


def _correlation(measurements: Measurements) -> float:
    """Return Pearson's correlation of FORG and WF10, on the means over runs."""
    try:
        folders = measurements.find_cell({"variant": "n-1000"}).folders
    except NotMeasuredError:
        return math.nan
    runs = [forgetting_pairs(measurements.run(folder)) for folder in folders]
    means = np.array([[run[key] for key in runs[0]] for run in runs]).mean(axis=0)
    return float(np.corrcoef(means.T)[0, 1])


def _check_mnist(measurements: Measurements) -> list[Claim]:
    text = "FORG and WF10 correlate strongly (.86 in the paper)"
    correlation = _correlation(measurements)
    return [
        *_check_sample_sizes(measurements),
        claim_less(text, STRONG_CORRELATION, correlation),
    ]


def _check_cifar10(measurements: Measurements) -> list[Claim]:
    text = "FORG and WF10 do not correlate strongly (-.37 in the paper)"
    low = measurements.mean("min_acc", {"variant": "n-1000"})
    return [
        *_check_sample_sizes(measurements),
        claim_less("min-ACC is zero", low, ZERO),
        claim_less(text, _correlation(measurements), STRONG_CORRELATION),
    ]


def _check_mini_imagenet(measurements: Measurements) -> list[Claim]:
    text = "FORG and WF10 correlate less than on Split-MNIST (.61 and .86 in the paper)"
    return [
        *_check_sample_sizes(measurements),
        claim_less(text, _correlation(measurements), 0.86),
    ]


def _check_domainnet(measurements: Measurements) -> list[Claim]:
    return [
        *_check_periodicity(measurements, {"strategy": "replay"}),
        _check_first_update(measurements, "lwf"),
    ]


def _check_rotated(measurements: Measurements) -> list[Claim]:
    def mean(id_: str, degrees: int) -> float:
        return measurements.mean(id_, {"scenario": f"rotated-mnist-{degrees}"})

    acc, low = (mean(id_, 10) - mean(id_, 80) for id_ in ("acc", "min_acc"))
    return [
        claim_less("from 10 to 80 degrees ACC falls", 0, acc),
        claim_less("min-ACC falls more than twice as far", 2 * acc, low),
        *(
            claim_less(
                f"the gap grows from {a} to {b} degrees (WF10)", mean("wf10", a), mean("wf10", b)
            )
            for a, b in pairwise((10, 30, 60, 80))
        ),
    ]


def _check_online(measurements: Measurements) -> list[Claim]:
    mnist, cifar = {"scenario": "split-mnist"}, {"scenario": "split-cifar10"}
    forg, wf10 = (measurements.mean(id_, mnist) for id_ in ("forgetting.learned", "wf10"))
    low, acc = (measurements.mean(id_, cifar) for id_ in ("min_acc", "acc"))
    return [
        claim_less("Split-MNIST: WF10 is more than twice FORG", 2 * forg, wf10),
        claim_less("Split-CIFAR10: all tasks drop to zero at least once", low, ZERO),
        claim_less("Split-CIFAR10: ACC is above 30 nevertheless", 30, acc),
    ]


def _check_finetuning(measurements: Measurements) -> list[Claim]:
    claims = []
    for name in ("split-mnist", "split-cifar10", "split-mini-imagenet"):
        low, forg, wf10 = (
            measurements.mean(id_, {"scenario": name})
            for id_ in ("min_acc", "forgetting.learned", "wf10")
        )
        claims.append(claim_less(f"{name}: accuracy on older tasks falls to zero", low, ZERO))
        text = f"{name}: half of FORG is lost within ten updates"
        claims.append(claim_less(text, forg / 2, wf10))
    low = measurements.mean("min_acc", {"scenario": "mini-domainnet"})
    return [*claims, claim_less("mini-domainnet: it does not fall to zero", ZERO, low)]


def _check_memory(measurements: Measurements) -> list[Claim]:
    sizes = ("m-500", "m-1000", "m-2000", "m-all")
    acc = {name: measurements.mean("acc", {"variant": name}) for name in sizes}
    gap = {name: measurements.mean("gap.depth", {"variant": name}) for name in sizes}
    return [
        *(claim_less(f"{name}: the gap is deeper than a point", 1, gap[name]) for name in sizes),
        *(
            claim_less(f"{b} recovers better than {a} (ACC)", acc[a], acc[b])
            for a, b in pairwise(sizes)
        ),
        claim_less("with everything stored the drop is smaller", gap["m-all"], gap["m-2000"]),
    ]


def _check_gem_mnist(measurements: Measurements) -> list[Claim]:
    gem, er = _gradient_norms(measurements, "gem"), _gradient_norms(measurements, "replay")
    low = [measurements.mean("min_acc", {"strategy": name}) for name in ("gem", "replay")]
    return [
        claim_less("GEM's gap is larger than that of ER (min-ACC)", *low),
        claim_less("at a switch GEM's stability norm is larger than ER's", er.first, gem.first),
        claim_less("later in a task ER's is larger than GEM's", gem.late, er.late),
        claim_less(
            "ER: the first stability norm of a task is under a tenth of the plasticity norm",
            er.first,
            er.plasticity / 10,
        ),
    ]


def _check_gem_cifar10(measurements: Measurements) -> list[Claim]:
    names = ("gem", "replay")
    acc, low = (
        [measurements.mean(id_, {"strategy": name}) for name in names] for id_ in ("acc", "min_acc")
    )
    return [
        claim_less("GEM is not effective: its ACC is below that of ER", *acc),
        *(
            claim_less(f"{name}: min-ACC is zero", value, ZERO)
            for name, value in zip(names, low, strict=True)
        ),
    ]


def _check_methods(measurements: Measurements) -> list[Claim]:
    claims = []
    for name in ("lwf", "ewc", "si"):
        depth, recovered = (
            measurements.mean(id_, {"strategy": name}) for id_ in ("gap.depth", "gap.recovered")
        )
        claims += [
            _check_first_update(measurements, name),
            claim_less(f"{name}: older tasks dip by more than a point at a switch", 1, depth),
            claim_less(f"{name}: more than half of the dips recover", 0.5, recovered),
        ]
    return claims


def _check_first_update(measurements: Measurements, strategy: str) -> Claim:
    norms = _gradient_norms(measurements, strategy)
    text = f"{strategy}: the first stability norm of task 2 is under 1% of the highest that follow"
    return claim_less(text, norms.task_2, norms.highest / 100)


def _check_speech(measurements: Measurements) -> list[Claim]:
    return [claim_less("the gap is deeper than a point", 1, measurements.mean("gap.depth"))]


class _GradientNorms(NamedTuple):
    """Gradient norms after the first task, means over tasks and runs; NaN if not measured."""

    first: float  # of the stability term at a task's first update
    highest: float  # in its first 50 updates
    late: float  # the median of its second half
    task_2: float  # at the first update of task 2
    plasticity: float  # of the plasticity term at a task's first update


def _gradient_norms(measurements: Measurements, strategy: str) -> _GradientNorms:
    norms: dict[str, list[float]] = {name: [] for name in _GradientNorms._fields}
    try:
        folders = measurements.find_cell({"strategy": strategy}).folders
    except NotMeasuredError:
        folders = []
    for gradients in (measurements.run(folder).gradients for folder in folders):
        if gradients is None:
            continue
        trained = np.array(gradients.trained)
        for number, task in enumerate(list(dict.fromkeys(gradients.trained))[1:], start=2):
            stability = gradients.stability[trained == task]
            norms["first"].append(stability[0])
            norms["highest"].append(stability[:ZOOMED_UPDATES].max())
            norms["late"].append(float(np.median(stability[len(stability) // 2 :])))
            norms["task_2"] += [stability[0]] if number == 2 else []
            norms["plasticity"].append(gradients.plasticity[trained == task][0])
    means = (float(np.mean(values)) if values else math.nan for values in norms.values())
    return _GradientNorms(*means)


DE_LANGE_CLAIMS: dict[str, Callable[[Measurements], list[Claim]]] = {
    "delange-mnist": _check_mnist,
    "delange-cifar10": _check_cifar10,
    "delange-mini-imagenet": _check_mini_imagenet,
    "delange-domainnet": _check_domainnet,
    "delange-rotated": _check_rotated,
    "delange-online": _check_online,
    "delange-finetuning": _check_finetuning,
    "delange-memory": _check_memory,
    "delange-gem-mnist": _check_gem_mnist,
    "delange-gem-cifar10": _check_gem_cifar10,
    "delange-methods-split": _check_methods,
    "delange-methods-rotated": _check_methods,
    "delange-speech": _check_speech,
}
