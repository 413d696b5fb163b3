"""The claims of the papers, checked on the runs of a published result."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .claim import Claim, claim_less, find_plateau, not_measured
from .delange_claims import DE_LANGE_CLAIMS
from .measurements import NotMeasuredError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .measurements import Measurements

__all__ = ["CLAIMS", "check_claims"]

# RAA plateaus in Michel et al. 2023: scenario, strategy, first task of the plateau
PLATEAUS = (
    ("split-tiny-imagenet", "gdumb", 25),
    ("split-tiny-imagenet", "replay", 65),
    ("split-cifar100", "replay", None),
)
PLATEAU_TOLERANCE = 15  # tasks


def check_claims(measurements: Measurements) -> list[Claim]:
    """Return the paper's claims about a published result, each checked."""
    check = CLAIMS.get(measurements.result.name)
    return check(measurements) if check else []


def _rank_claim(
    measurements: Measurements,
    text: str,
    id_: str,
    strategy: str,
    *,
    lowest: bool = False,
    weights: str | None = None,
    factors: Mapping[str, str] | None = None,
    rank: int = 1,
) -> Claim:
    """Return a claim that a strategy has the highest (lowest, second highest, …) mean."""
    means = {
        name: measurements.mean(id_, {**(factors or {}), "strategy": name}, weights=weights)
        for name in measurements.result.strategies
    }
    if any(math.isnan(mean) for mean in means.values()):
        return not_measured(text)
    order = sorted(means, key=lambda name: means[name], reverse=not lowest)
    numbers = ", ".join(f"{name} {means[name]:.3f}" for name in order[: rank + 2])
    return Claim(text, order[rank - 1] == strategy, numbers)


def _check_diaz(measurements: Measurements) -> list[Claim]:
    """Return the claims of Diaz-Rodriguez et al. 2018."""
    return [
        _rank_claim(measurements, "cumulative has the highest A", "acc.lower", "cumulative"),
        _rank_claim(measurements, "naive has the lowest REM", "rem", "naive", lowest=True),
        *(
            _rank_claim(
                measurements,
                f"LwF has the highest CLscore with {name}",
                "clscore",
                "lwf",
                weights=name,
            )
            for name in measurements.result.weights
        ),
    ]


def _check_michel(measurements: Measurements) -> list[Claim]:
    """Return the claims of Michel et al. 2023."""
    claims = []
    for scenario in ("split-cifar100", "split-tiny-imagenet"):
        raf = {}
        for name in ("replay", "naive", "gdumb"):
            ends = {
                id_: _curve_ends(measurements, id_, scenario, name)
                for id_ in ("aa", "raa", "af", "raf")
            }
            rise = {id_: last - first for id_, (first, last) in ends.items()}
            raf[name] = rise["raf"]
            label = f"{scenario}, {name}"
            claims.append(claim_less(f"{label}: AA falls", rise["aa"], 0))
            claims.append(claim_less(f"{label}: RAF rises more than AF", rise["af"], rise["raf"]))
            if name == "naive":
                claims.append(claim_less(f"{label}: RAA ends near zero", ends["raa"][1], 0.1))
        text = f"{scenario}: RAF of GDumb rises less than that of ER"
        claims.append(claim_less(text, raf["gdumb"], raf["replay"]))
    return claims + [_check_plateau(measurements, *plateau) for plateau in PLATEAUS]


def _curve_ends(
    measurements: Measurements, name: str, scenario: str, strategy: str
) -> tuple[float, float]:
    """Return the first and the last defined value of a curve."""
    try:
        curve = measurements.curve(name, {"scenario": scenario, "strategy": strategy})
    except NotMeasuredError:
        return math.nan, math.nan
    defined = [value for value in curve if not math.isnan(value)]
    return defined[0], defined[-1]


def _check_plateau(
    measurements: Measurements, scenario: str, strategy: str, expected: int | None
) -> Claim:
    """Return whether RAA stops rising near the task that the paper names, or never stops."""
    text = "has no plateau" if expected is None else f"is on a plateau from about task {expected}"
    text = f"{scenario}, {strategy}: RAA {text}"
    try:
        curve = measurements.curve("raa", {"scenario": scenario, "strategy": strategy})
    except NotMeasuredError:
        return not_measured(text)
    start = find_plateau(curve)
    if start is None:
        return Claim(text, expected is None, "no plateau")
    near = expected is not None and abs(start - expected) <= PLATEAU_TOLERANCE
    return Claim(text, near, f"from task {start}")


def _check_faber(measurements: Measurements) -> list[Claim]:
    """Return the claims of Faber et al. 2023, its research questions 1 and 2."""
    claims = []
    for setting in ("class", "task"):
        for scenario in ("m2i", "i2m"):
            factors = {"scenario": scenario, "setting": setting}
            for rank, name in enumerate(("cumulative", "replay"), start=1):
                text = f"RQ1, {scenario}, {setting}: {name} has rank {rank} by ACC"
                claims.append(
                    _rank_claim(measurements, text, "acc.lower", name, factors=factors, rank=rank)
                )
        claims += [
            _check_task_order(measurements, setting, name)
            for name in measurements.result.strategies
        ]
    return claims


def _check_task_order(measurements: Measurements, setting: str, strategy: str) -> Claim:
    """Return whether the order of the tasks has the published effect."""
    published = {
        str(row.scenario): row.mean_and_sd("acc.lower")[0]
        for row in measurements.result.published
        if (row.setting, row.strategy) == (setting, strategy)
    }
    low, high = sorted(published, key=lambda name: published[name])
    acc = [
        measurements.mean("acc.lower", {"scenario": name, "setting": setting, "strategy": strategy})
        for name in (low, high)
    ]
    return claim_less(f"RQ2, {setting}, {strategy}: ACC of {high} is above that of {low}", *acc)


CLAIMS: dict[str, Callable[[Measurements], list[Claim]]] = {
    **DE_LANGE_CLAIMS,
    "diaz-icifar100": _check_diaz,
    "michel-online": _check_michel,
    "faber-vgg9": _check_faber,
    "faber-efficientnet": _check_faber,
}
