"""The claims of the papers, checked on the runs of a published result."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .claim import Claim, claim_less, not_measured
from .delange_claims import DE_LANGE_CLAIMS
from .michel_claims import MICHEL_CLAIMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .measurements import Measurements

__all__ = ["CLAIMS", "check_claims"]


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
    **MICHEL_CLAIMS,
    "diaz-icifar100": _check_diaz,
    "faber-vgg9": _check_faber,
    "faber-efficientnet": _check_faber,
}
