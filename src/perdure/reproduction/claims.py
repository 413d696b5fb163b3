"""The claims of the papers, checked on the runs of a published result."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from .delange_claims import DE_LANGE_CLAIMS
from .measurements import Claim, NotMeasuredError, claim_less, find_plateau, not_measured

if TYPE_CHECKING:
    from collections.abc import Callable

    from .measurements import Measurements

__all__ = ["CLAIMS", "check_claims"]

# RAA plateaus in the paper: scenario, strategy, first task of the plateau
PLATEAUS = (
    ("split-tiny-imagenet", "gdumb", 25),
    ("split-tiny-imagenet", "replay", 65),
    ("split-cifar100", "replay", None),
)
PLATEAU_TOLERANCE = 15  # tasks
NEARLY_CONSTANT = 0.05  # highest minus lowest value of a curve
STRATEGIES = ("replay", "naive", "gdumb")


def _check_online(runs: Measurements) -> list[Claim]:
    """Return the claims about CIFAR-100 and Tiny ImageNet."""
    claims = []
    for scenario in ("split-cifar100", "split-tiny-imagenet"):
        raf = {}
        for name in STRATEGIES:
            ids = ("aa", "raa", "af", "raf")
            ends = {id_: _curve_ends(runs, id_, scenario, name) for id_ in ids}
            rise = {id_: last - first for id_, (first, last) in ends.items()}
            raf[name] = rise["raf"]
            label = f"{scenario}, {name}"
            claims.append(claim_less(f"{label}: AA falls", rise["aa"], 0))
            claims.append(claim_less(f"{label}: RAF rises more than AF", rise["af"], rise["raf"]))
            if name == "naive":
                claims.append(claim_less(f"{label}: RAA ends near zero", ends["raa"][1], 0.1))
        text = f"{scenario}: RAF of GDumb rises less than that of ER"
        claims.append(claim_less(text, raf["gdumb"], raf["replay"]))
    return claims + [_check_plateau(runs, *plateau) for plateau in PLATEAUS]


def _curve_ends(runs: Measurements, id_: str, scenario: str, strategy: str) -> tuple[float, float]:
    """Return the first and the last defined value of a curve."""
    curve = _defined_curve(runs, id_, {"scenario": scenario, "strategy": strategy})
    return (curve[0], curve[-1]) if curve else (math.nan, math.nan)


def _defined_curve(runs: Measurements, id_: str, factors: dict[str, str]) -> list[float]:
    """Return the defined values of a curve after each task; none if it was not measured."""
    try:
        curve = runs.curve(id_, factors)
    except NotMeasuredError:
        return []
    return [value for value in curve if not math.isnan(value)]


def _check_plateau(runs: Measurements, scenario: str, strategy: str, expected: int | None) -> Claim:
    """Return whether RAA stops rising near the task that the paper names, or never stops."""
    text = "has no plateau" if expected is None else f"is on a plateau from about task {expected}"
    text = f"{scenario}, {strategy}: RAA {text}"
    try:
        start = find_plateau(runs.curve("raa", {"scenario": scenario, "strategy": strategy}))
    except NotMeasuredError:
        return not_measured(text)
    if start is None:
        return Claim(text, expected is None, "no plateau")
    near = expected is not None and abs(start - expected) <= PLATEAU_TOLERANCE
    return Claim(text, near, f"from task {start}")


def _check_stream(runs: Measurements) -> list[Claim]:
    """Return the claims that do not depend on the data, on another long stream."""
    raa = {name: _defined_curve(runs, "raa", {"strategy": name}) for name in STRATEGIES}
    text = f"naive: RAA is nearly constant: highest minus lowest is below {NEARLY_CONSTANT}"
    naive = raa["naive"] or [math.nan]
    claims = [claim_less(text, max(naive) - min(naive), NEARLY_CONSTANT)]
    for name in ("replay", "gdumb"):
        first, last = (raa[name][0], raa[name][-1]) if raa[name] else (math.nan, math.nan)
        claims.append(claim_less(f"{name}: RAA rises from the first to the last task", first, last))
        claims.append(_check_levels_off(name, raa[name]))
    for name in STRATEGIES:
        change = {id_: _change(runs, id_, name) for id_ in ("af", "raf")}
        claims.append(claim_less(f"{name}: RAF rises", 0, change["raf"]))
        text = f"{name}: AF is roughly flat: it changes by less than half of the rise of RAF"
        claims.append(claim_less(text, abs(change["af"]), change["raf"] / 2))
    return claims


def _check_levels_off(strategy: str, curve: list[float]) -> Claim:
    text = f"{strategy}: RAA levels off: a tenth of its rise or less in the last quarter or more"
    if not curve:
        return not_measured(text)
    start = find_plateau(curve)
    return Claim(text, start is not None, f"from task {start}" if start else "no plateau")


def _change(runs: Measurements, id_: str, strategy: str) -> float:
    """Return the mean of a curve over the last quarter of tasks minus that over the first."""
    curve = _defined_curve(runs, id_, {"strategy": strategy})
    if not curve:
        return math.nan
    quarter = math.ceil(len(curve) / 4)
    return fmean(curve[-quarter:]) - fmean(curve[:quarter])


def check_claims(measurements: Measurements) -> list[Claim]:
    """Return the paper's claims about a published result, each checked."""
    check = CLAIMS.get(measurements.result.name)
    return check(measurements) if check else []


def _claim_rank(
    text: str, means: dict[str, float], strategy: str, *, rank: int = 1, lowest: bool = False
) -> Claim:
    """Return a claim that a strategy has the highest (lowest, second highest, …) mean."""
    if any(math.isnan(mean) for mean in means.values()):
        return not_measured(text)
    order = sorted(means, key=lambda name: means[name], reverse=not lowest)
    numbers = ", ".join(f"{name} {means[name]:.3f}" for name in order[: rank + 2])
    return Claim(text, order[rank - 1] == strategy, numbers)


def _check_diaz(runs: Measurements) -> list[Claim]:
    """Return the claims of Diaz-Rodriguez et al. 2018."""

    def means(id_: str, weights: str | None = None) -> dict[str, float]:
        strategies = runs.result.strategies
        return {name: runs.mean(id_, weights=weights, strategy=name) for name in strategies}

    return [
        _claim_rank("cumulative has the highest A", means("acc.lower"), "cumulative"),
        _claim_rank("naive has the lowest REM", means("rem"), "naive", lowest=True),
        *(
            _claim_rank(f"LwF has the highest CLscore with {name}", means("clscore", name), "lwf")
            for name in runs.result.weights
        ),
    ]


def _check_faber(runs: Measurements) -> list[Claim]:
    """Return the claims of Faber et al. 2023, its research questions 1 and 2."""
    claims = []
    for setting in ("class", "domain"):
        acc = {
            scenario: {
                name: runs.mean("acc.lower", scenario=scenario, setting=setting, strategy=name)
                for name in runs.result.strategies
            }
            for scenario in ("m2i", "i2m")
        }
        for scenario, means in acc.items():
            for rank, name in enumerate(("cumulative", "replay"), start=1):
                text = f"RQ1, {scenario}, {setting}: {name} has rank {rank} by ACC"
                claims.append(_claim_rank(text, means, name, rank=rank))
        for name in runs.result.strategies:
            low, high = _order_published(runs, setting, name)
            text = f"RQ2, {setting}, {name}: ACC of {high} is above that of {low}"
            claims.append(claim_less(text, acc[low][name], acc[high][name]))
    return claims


def _order_published(runs: Measurements, setting: str, strategy: str) -> list[str]:
    """Return the two orders of tasks by their published accuracy."""
    published = {
        str(row.scenario): row.mean_and_sd("acc.lower")[0]
        for row in runs.result.published
        if (row.setting, row.strategy) == (setting, strategy)
    }
    return sorted(published, key=lambda name: published[name])


CLAIMS: dict[str, Callable[[Measurements], list[Claim]]] = {
    **DE_LANGE_CLAIMS,
    "michel-online": _check_online,
    "michel-stream": _check_stream,
    "michel-stream-small": _check_stream,
    "diaz-icifar100": _check_diaz,
    "faber-vgg9": _check_faber,
    "faber-efficientnet": _check_faber,
}
