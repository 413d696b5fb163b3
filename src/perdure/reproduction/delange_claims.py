"""The claims of De Lange et al. 2023 about the stability gap."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .measurements import NotMeasuredError, claim_less, forgetting_pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from .measurements import Claim, Measurements

__all__ = ["DE_LANGE_CLAIMS"]

ZOOMED_UPDATES = 50  # updates of a task that the paper's figures zoom in on
ZERO = 0.5  # percent; the accuracy below which a task counts as forgotten
STRONG_CORRELATION = 0.6


def _check_periodicity(mean: Callable[..., float]) -> list[Claim]:
    acc, low, often = (mean(id_) for id_ in ("acc", "min_acc", "wf100"))
    low_1000, seldom = (mean(id_, subsample=1000) for id_ in ("min_acc", "wf100"))
    return [
        claim_less("ACC misses the gap: min-ACC is more than five points below it", low + 5, acc),
        claim_less("WC-ACC is a lower bound of ACC", mean("wc_acc"), acc),
        claim_less("min-ACC rises from rho = 1 to 1000", low, low_1000),
        claim_less("WF100 falls from rho = 1 to 1000", seldom, often),
    ]


def _check_sample_sizes(runs: Measurements) -> list[Claim]:
    thousand, low = (runs.mean("min_acc", variant=name) for name in ("n-1000", "n-all"))
    wf100 = [runs.mean("wf100", variant=name) for name in ("n-all", "n-100")]
    return [
        *_check_periodicity(partial(runs.mean, variant="n-1000")),
        claim_less("1000 examples suffice: min-ACC is within five points", abs(thousand - low), 5),
        claim_less("100 examples are noisier: WF100 is larger than with all", *wf100),
    ]


def _correlation(runs: Measurements) -> float:
    """Return Pearson's correlation of FORG and WF10, on the means over runs."""
    try:
        folders = runs.find_cell({"variant": "n-1000"}).folders
    except NotMeasuredError:
        return math.nan
    pairs = [forgetting_pairs(runs.run(folder)) for folder in folders]
    means = np.array([[run[key] for key in pairs[0]] for run in pairs]).mean(axis=0)
    return float(np.corrcoef(means.T)[0, 1])


def _check_mnist(runs: Measurements) -> list[Claim]:
    text = "FORG and WF10 correlate strongly (.86 in the paper)"
    claim = claim_less(text, STRONG_CORRELATION, _correlation(runs))
    return [*_check_sample_sizes(runs), claim]


def _check_cifar10(runs: Measurements) -> list[Claim]:
    text = "FORG and WF10 do not correlate strongly (-.37 in the paper)"
    return [
        *_check_sample_sizes(runs),
        claim_less("min-ACC is zero", runs.mean("min_acc", variant="n-1000"), ZERO),
        claim_less(text, _correlation(runs), STRONG_CORRELATION),
    ]


def _check_mini_imagenet(runs: Measurements) -> list[Claim]:
    text = "FORG and WF10 correlate less than on Split-MNIST (.61 and .86 in the paper)"
    return [*_check_sample_sizes(runs), claim_less(text, _correlation(runs), 0.86)]


def _check_domainnet(runs: Measurements) -> list[Claim]:
    mean = partial(runs.mean, strategy="replay")
    return [*_check_periodicity(mean), _check_first_update(runs, "lwf")]


def _check_rotated(runs: Measurements) -> list[Claim]:
    angles = (10, 30, 60, 80)
    acc, low, wf10 = (
        {angle: runs.mean(id_, scenario=f"rotated-mnist-{angle}") for angle in angles}
        for id_ in ("acc", "min_acc", "wf10")
    )
    fall = acc[10] - acc[80]
    return [
        claim_less("from 10 to 80 degrees ACC falls", 0, fall),
        claim_less("min-ACC falls more than twice as far", 2 * fall, low[10] - low[80]),
        *(
            claim_less(f"the gap grows from {a} to {b} degrees (WF10)", wf10[a], wf10[b])
            for a, b in pairwise(angles)
        ),
    ]


def _check_online(runs: Measurements) -> list[Claim]:
    mnist, cifar10 = "split-mnist", "split-cifar10"
    forg, wf10 = (runs.mean(id_, scenario=mnist) for id_ in ("forgetting.learned", "wf10"))
    low, acc = (runs.mean(id_, scenario=cifar10) for id_ in ("min_acc", "acc"))
    return [
        claim_less("Split-MNIST: WF10 is more than twice FORG", 2 * forg, wf10),
        claim_less("Split-CIFAR10: all tasks drop to zero at least once", low, ZERO),
        claim_less("Split-CIFAR10: ACC is above 30 nevertheless", 30, acc),
    ]


def _check_finetuning(runs: Measurements) -> list[Claim]:
    claims = []
    ids = ("min_acc", "forgetting.learned", "wf10")
    for name in ("split-mnist", "split-cifar10", "split-mini-imagenet"):
        low, forg, wf10 = (runs.mean(id_, scenario=name) for id_ in ids)
        claims += [
            claim_less(f"{name}: accuracy on older tasks falls to zero", low, ZERO),
            claim_less(f"{name}: half of FORG is lost within ten updates", forg / 2, wf10),
        ]
    low = runs.mean("min_acc", scenario="mini-domainnet")
    return [*claims, claim_less("mini-domainnet: it does not fall to zero", ZERO, low)]


def _check_memory(runs: Measurements) -> list[Claim]:
    sizes = ("m-500", "m-1000", "m-2000", "m-all")
    acc = {name: runs.mean("acc", variant=name) for name in sizes}
    gap = {name: runs.mean("gap.depth", variant=name) for name in sizes}
    return [
        *(claim_less(f"{name}: the gap is deeper than a point", 1, gap[name]) for name in sizes),
        *(
            claim_less(f"{b} recovers better than {a} (ACC)", acc[a], acc[b])
            for a, b in pairwise(sizes)
        ),
        claim_less("with everything stored the drop is smaller", gap["m-all"], gap["m-2000"]),
    ]


def _check_gem_mnist(runs: Measurements) -> list[Claim]:
    gem, er = _gradient_norms(runs, "gem"), _gradient_norms(runs, "replay")
    low = [runs.mean("min_acc", strategy=name) for name in ("gem", "replay")]
    tenth = "ER: the first stability norm of a task is under a tenth of the plasticity norm"
    return [
        claim_less("GEM's gap is larger than that of ER (min-ACC)", *low),
        claim_less("at a switch GEM's stability norm is larger than ER's", er.first, gem.first),
        claim_less("later in a task ER's is larger than GEM's", gem.late, er.late),
        claim_less(tenth, er.first, er.plasticity / 10),
    ]


def _check_gem_cifar10(runs: Measurements) -> list[Claim]:
    acc = [runs.mean("acc", strategy=name) for name in ("gem", "replay")]
    return [
        claim_less("GEM is not effective: its ACC is below that of ER", *acc),
        *(
            claim_less(f"{name}: min-ACC is zero", runs.mean("min_acc", strategy=name), ZERO)
            for name in ("gem", "replay")
        ),
    ]


def _check_methods(runs: Measurements) -> list[Claim]:
    claims = []
    for name in ("lwf", "ewc", "si"):
        depth, recovered = (
            runs.mean(f"gap.{id_}", strategy=name) for id_ in ("depth", "recovered")
        )
        claims += [
            _check_first_update(runs, name),
            claim_less(f"{name}: older tasks dip by more than a point at a switch", 1, depth),
            claim_less(f"{name}: more than half of the dips recover", 0.5, recovered),
        ]
    return claims


def _check_first_update(runs: Measurements, strategy: str) -> Claim:
    norms = _gradient_norms(runs, strategy)
    text = f"{strategy}: the first stability norm of task 2 is under 1% of the highest that follow"
    return claim_less(text, norms.task_2, norms.highest / 100)


def _check_speech(runs: Measurements) -> list[Claim]:
    return [claim_less("the gap is deeper than a point", 1, runs.mean("gap.depth"))]


class _GradientNorms(NamedTuple):
    """Gradient norms after the first task, means over tasks and runs; NaN if not measured."""

    first: float  # of the stability term at a task's first update
    highest: float  # in its first 50 updates
    late: float  # the median of its second half
    task_2: float  # at the first update of task 2
    plasticity: float  # of the plasticity term at a task's first update


def _gradient_norms(runs: Measurements, strategy: str) -> _GradientNorms:
    norms: dict[str, list[float]] = {name: [] for name in _GradientNorms._fields}
    try:
        folders = runs.find_cell({"strategy": strategy}).folders
    except NotMeasuredError:
        folders = []
    for gradients in (runs.run(folder).gradients for folder in folders):
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
