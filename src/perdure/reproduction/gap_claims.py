"""What De Lange et al. (2023) state of the stability gap, checked by numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from .claim import NAN, below, mean
from .figure_data import forgetting_pairs
from .measurements import NotMeasuredError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .claim import Claim
    from .measurements import Measurements

__all__ = ["GAP_CLAIMS"]

FIRST = 50  # updates of a task that the paper's figures zoom in on


def _periodicity(found: Measurements, where: Mapping[str, str]) -> list[Claim]:
    acc, low, often = (mean(found, id_, where) for id_ in ("acc", "min_acc", "wf100"))
    seldom = {id_: mean(found, id_, where, thin=1000) for id_ in ("min_acc", "wf100")}
    return [
        below("ACC misses the gap: min-ACC lies more than five points below it", low + 5, acc),
        below("WC-ACC is a lower bound of ACC", mean(found, "wc_acc", where), acc),
        below("min-ACC rises from rho = 1 to 1000", low, seldom["min_acc"]),
        below("WF100 falls from rho = 1 to 1000", seldom["wf100"], often),
    ]


def _sizes(found: Measurements) -> list[Claim]:
    thousand, whole, few = ({"variant": f"n-{n}"} for n in (1000, "all", 100))
    apart = abs(mean(found, "min_acc", thousand) - mean(found, "min_acc", whole))
    noisy, calm = mean(found, "wf100", few), mean(found, "wf100", whole)
    return [
        *_periodicity(found, thousand),
        below("1000 examples are as good as all: min-ACC within five points", apart, 5),
        below("100 examples are noisier: WF100 is larger than with all", calm, noisy),
    ]


def _correlation(found: Measurements) -> float:
    """Return Pearson's correlation of FORG and WF10, on the means over runs."""
    try:
        folders = found.select({"variant": "n-1000"}).folders
    except NotMeasuredError:
        return NAN
    runs = [forgetting_pairs(found.run(each)) for each in folders]
    means = np.array([[run[key] for key in runs[0]] for run in runs]).mean(axis=0)
    return float(np.corrcoef(means.T)[0, 1])


def _mnist(found: Measurements) -> list[Claim]:
    said = "FORG and WF10 correlate strongly (the paper: .86)"
    return [*_sizes(found), below(said, 0.6, _correlation(found))]


def _cifar10(found: Measurements) -> list[Claim]:
    said = "FORG and WF10 do not correlate strongly (the paper: -.37)"
    low = mean(found, "min_acc", {"variant": "n-1000"})
    return [
        *_sizes(found),
        below("min-ACC is zero", low, 0.5),
        below(said, _correlation(found), 0.6),
    ]


def _mini_imagenet(found: Measurements) -> list[Claim]:
    said = "FORG and WF10 correlate less than on Split-MNIST (the paper: .61, there .86)"
    return [*_sizes(found), below(said, _correlation(found), 0.86)]


def _domainnet(found: Measurements) -> list[Claim]:
    return [*_periodicity(found, {"strategy": "replay"}), _no_pull(found, "lwf")]


def _rotated(found: Measurements) -> list[Claim]:
    def at(id_: str, phi: int) -> float:
        return mean(found, id_, {"scenario": f"rotated-mnist-{phi}"})

    acc, low = (at(id_, 10) - at(id_, 80) for id_ in ("acc", "min_acc"))
    said = "the gap grows from {} to {} degrees (WF10)"
    return [
        below("from 10 to 80 degrees ACC falls", 0, acc),
        below("min-ACC falls more than twice as far", 2 * acc, low),
        *(
            below(said.format(a, b), at("wf10", a), at("wf10", b))
            for a, b in pairwise((10, 30, 60, 80))
        ),
    ]


def _online(found: Measurements) -> list[Claim]:
    mnist, cifar = {"scenario": "split-mnist"}, {"scenario": "split-cifar10"}
    forg, wf10 = (mean(found, id_, mnist) for id_ in ("forgetting.learned", "wf10"))
    low, acc = (mean(found, id_, cifar) for id_ in ("min_acc", "acc"))
    return [
        below("Split-MNIST: WF10 shows more than twice what FORG does", 2 * forg, wf10),
        below("Split-CIFAR10: all tasks drop to zero at least once", low, 0.5),
        below("Split-CIFAR10: and ACC is above 30 all the same", 30, acc),
    ]


def _finetuning(found: Measurements) -> list[Claim]:
    said = []
    for name in ("split-mnist", "split-cifar10", "split-mini-imagenet"):
        where = {"scenario": name}
        low, forg, wf10 = (
            mean(found, id_, where) for id_ in ("min_acc", "forgetting.learned", "wf10")
        )
        said.append(below(f"{name}: accuracy on older tasks falls to zero", low, 0.5))
        said.append(below(f"{name}: half of FORG is lost within ten updates", forg / 2, wf10))
    low = mean(found, "min_acc", {"scenario": "mini-domainnet"})
    return [*said, below("mini-domainnet: it does not fall to zero", 0.5, low)]


def _memory(found: Measurements) -> list[Claim]:
    sizes = ("m-500", "m-1000", "m-2000", "m-all")
    acc = {name: mean(found, "acc", {"variant": name}) for name in sizes}
    gap = {name: mean(found, "gap.depth", {"variant": name}) for name in sizes}
    return [
        *(below(f"{name}: the gap is there, deeper than a point", 1, gap[name]) for name in sizes),
        *(below(f"{b} recovers better than {a} (ACC)", acc[a], acc[b]) for a, b in pairwise(sizes)),
        below("with everything stored the drop is smaller", gap["m-all"], gap["m-2000"]),
    ]


def _gem_mnist(found: Measurements) -> list[Claim]:
    gem, er = _norms(found, "gem"), _norms(found, "replay")
    low = [mean(found, "min_acc", {"strategy": name}) for name in ("gem", "replay")]
    tenth = er["plasticity"] / 10
    return [
        below("GEM's gap is larger than that of ER (min-ACC)", *low),
        below("at a switch GEM's stability norm is larger than ER's", er["first"], gem["first"]),
        below("later in a task ER's is larger than GEM's", gem["late"], er["late"]),
        below(
            "ER: a task's first stability norm is under a tenth of plasticity's", er["first"], tenth
        ),
    ]


def _gem_cifar10(found: Measurements) -> list[Claim]:
    gem, er = {"strategy": "gem"}, {"strategy": "replay"}
    acc = [mean(found, "acc", where) for where in (gem, er)]
    return [
        below("GEM is not effective: its ACC is below that of ER", *acc),
        *(
            below(f"{where['strategy']}: min-ACC is zero", mean(found, "min_acc", where), 0.5)
            for where in (gem, er)
        ),
    ]


def _methods(found: Measurements) -> list[Claim]:
    said = []
    for name in ("lwf", "ewc", "si"):
        where = {"strategy": name}
        depth, back = (mean(found, id_, where) for id_ in ("gap.depth", "gap.recovered"))
        said += [
            _no_pull(found, name),
            below(f"{name}: older tasks dip by more than a point at a switch", 1, depth),
            below(f"{name}: more than half of the dips recover", 0.5, back),
        ]
    return said


def _no_pull(found: Measurements, strategy: str) -> Claim:
    norms = _norms(found, strategy)
    said = f"{strategy}: task 2's first stability norm is under 1% of the highest that follow"
    return below(said, norms["task 2"], norms["highest"] / 100)


def _speech(found: Measurements) -> list[Claim]:
    return [below("the gap is there, deeper than a point", 1, mean(found, "gap.depth"))]


def _norms(found: Measurements, strategy: str) -> dict[str, float]:
    """Return gradient norms after the first task, means over tasks and runs.

    Of a task's first update, the highest of its first 50, the median of its second half.
    """
    names = ("first", "highest", "late", "plasticity", "task 2")
    rows: dict[str, list[float]] = {name: [] for name in names}
    try:
        norms = [found.run(each).gradients for each in found.select({"strategy": strategy}).folders]
    except NotMeasuredError:
        norms = []
    for each in norms:
        if each is None:
            continue
        trained = np.array(each.trained)
        for k, task in enumerate(list(dict.fromkeys(each.trained))[1:]):
            mine = each.stability[trained == task]
            rows["first"].append(mine[0])
            rows["highest"].append(mine[:FIRST].max())
            rows["late"].append(float(np.median(mine[len(mine) // 2 :])))
            rows["plasticity"].append(each.plasticity[trained == task][0])
            rows["task 2"] += [mine[0]] if k == 0 else []
    return {name: float(np.mean(values)) if values else NAN for name, values in rows.items()}


GAP_CLAIMS: dict[str, Callable[[Measurements], list[Claim]]] = {
    "delange-mnist": _mnist,
    "delange-cifar10": _cifar10,
    "delange-mini-imagenet": _mini_imagenet,
    "delange-domainnet": _domainnet,
    "delange-rotated": _rotated,
    "delange-online": _online,
    "delange-finetuning": _finetuning,
    "delange-memory": _memory,
    "delange-gem-mnist": _gem_mnist,
    "delange-gem-cifar10": _gem_cifar10,
    "delange-methods-split": _methods,
    "delange-methods-rotated": _methods,
    "delange-speech": _speech,
}
