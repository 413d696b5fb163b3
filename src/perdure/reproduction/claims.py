"""What the papers state in words, checked by numbers of the runs of an entry."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .claim import NAN, Claim, below, mean, plateau
from .gap_claims import GAP_CLAIMS
from .measurements import NotMeasuredError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .measurements import Measurements

__all__ = ["CLAIMS", "check_claims"]


def check_claims(found: Measurements) -> list[Claim]:
    """Return what the paper states of an entry's runs, each checked."""
    return CLAIMS[found.entry.name](found) if found.entry.name in CLAIMS else []


# Diaz-Rodriguez et al. 2018


def _criteria(found: Measurements) -> list[Claim]:
    return [
        _first(found, "cumulative has the highest A", "acc.lower", "cumulative"),
        _first(found, "naive has the lowest REM", "rem", "naive", lowest=True),
        *(
            _first(
                found, f"LwF has the highest CLscore with {name}", "clscore", "lwf", weights=name
            )
            for name in found.entry.weights
        ),
    ]


def _first(
    found: Measurements,
    text: str,
    id_: str,
    strategy: str,
    *,
    lowest: bool = False,
    weights: str | None = None,
    where: Mapping[str, str] | None = None,
    rank: int = 1,
) -> Claim:
    """Return a claim that a strategy has the highest mean (or lowest, or the second …)."""
    means = {
        name: mean(found, id_, {**(where or {}), "strategy": name}, weights=weights)
        for name in found.entry.study["strategies"]
    }
    if any(math.isnan(mean) for mean in means.values()):
        return Claim(text, None, "not measured")
    order = sorted(means, key=lambda name: means[name], reverse=not lowest)
    told = ", ".join(f"{name} {means[name]:.3f}" for name in order[: rank + 2])
    return Claim(text, order[rank - 1] == strategy, told)


# Michel et al. 2023

PLATEAUS = (("split-tiny-imagenet", "gdumb", 25), ("split-tiny-imagenet", "replay", 65),
            ("split-cifar100", "replay", None))  # fmt: skip


def _rescaled(found: Measurements) -> list[Claim]:
    said = []
    for data in ("split-cifar100", "split-tiny-imagenet"):
        raf = {}
        for name in ("replay", "naive", "gdumb"):
            ends = {id_: _ends(found, id_, data, name) for id_ in ("aa", "raa", "af", "raf")}
            rise = {id_: last - first for id_, (first, last) in ends.items()}
            raf[name] = rise["raf"]
            said.append(below(f"{data}, {name}: AA falls", rise["aa"], 0))
            said.append(below(f"{data}, {name}: RAF rises more than AF", rise["af"], rise["raf"]))
            if name == "naive":
                said.append(below(f"{data}, naive: RAA ends near zero", ends["raa"][1], 0.1))
        text = f"{data}: RAF of GDumb rises less than that of ER"
        said.append(below(text, raf["gdumb"], raf["replay"]))
    return said + [_on_plateau(found, *each) for each in PLATEAUS]


def _ends(found: Measurements, name: str, scenario: str, strategy: str) -> tuple[float, float]:
    try:
        curve = found.curve(name, {"scenario": scenario, "strategy": strategy})
    except NotMeasuredError:
        return NAN, NAN
    known = [value for value in curve if not math.isnan(value)]
    return known[0], known[-1]


def _on_plateau(found: Measurements, scenario: str, strategy: str, start: int | None) -> Claim:
    """Return whether RAA rises no more from where the paper says (within 15 tasks), or does."""
    how = "has no plateau" if start is None else f"is on a plateau from about task {start} on"
    text = f"{scenario}, {strategy}: RAA {how}"
    try:
        at = plateau(found.curve("raa", {"scenario": scenario, "strategy": strategy}))
    except NotMeasuredError:
        return Claim(text, None, "not measured")
    holds = at is None if start is None else at is not None and abs(at - start) <= 15
    return Claim(text, holds, "no plateau" if at is None else f"from task {at}")


# Faber et al. 2023


def _curriculum(found: Measurements) -> list[Claim]:
    said = []
    for setting in ("class", "task"):
        for scenario in ("m2i", "i2m"):
            where = {"scenario": scenario, "setting": setting}
            for rank, name in enumerate(("cumulative", "replay"), start=1):
                text = f"RQ1, {scenario}, {setting}: {name} has rank {rank} by ACC"
                said.append(_first(found, text, "acc.lower", name, where=where, rank=rank))
        said += [_order(found, setting, name) for name in found.entry.study["strategies"]]
    return said


def _order(found: Measurements, setting: str, strategy: str) -> Claim:
    """Return whether the order of the tasks matters as published: its RQ2."""
    published = {
        str(row.scenario): row.mean_and_sd("acc.lower")[0]
        for row in found.entry.published
        if (row.setting, row.strategy) == (setting, strategy)
    }
    low, high = sorted(published, key=lambda name: published[name])
    acc = [
        mean(found, "acc.lower", {"scenario": name, "setting": setting, "strategy": strategy})
        for name in (low, high)
    ]
    return below(f"RQ2, {setting}, {strategy}: ACC of {high} is above that of {low}", *acc)


CLAIMS: dict[str, Callable[[Measurements], list[Claim]]] = {
    **GAP_CLAIMS,
    "diaz-icifar100": _criteria,
    "michel-online": _rescaled,
    "faber-vgg9": _curriculum,
    "faber-efficientnet": _curriculum,
}
