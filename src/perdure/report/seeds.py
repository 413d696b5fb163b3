"""Which runs of several methods belong together: by the seed that each says it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..record import InputError
from .load import described

if TYPE_CHECKING:
    from .load import Methods

    Seed = int | str

__all__ = ["places_by_seed"]


def places_by_seed(methods: Methods, *, unpaired: bool = False) -> dict[str, dict[Seed, int]]:
    """Return for each method where in its runs each seed is.

    Runs are paired by their order where any of them says no seed; where they need no partner,
    such runs have no seed in common.
    """
    said: dict[str, list[Seed]] = {name: [] for name in methods}
    for name, runs in methods.items():
        for run in runs:
            seed = described(run).get("seed")
            said[name] += [seed] if isinstance(seed, int | str) else []
    if any(len(said[name]) < len(runs) for name, runs in methods.items()):
        return _by_order(methods, unpaired=unpaired)
    places = {name: {seed: k for k, seed in enumerate(seeds)} for name, seeds in said.items()}
    for name, mine in places.items():
        if len(mine) < len(methods[name]):
            raise InputError(
                f"{name} has a seed twice, expected each seed once; give each its own NAME=PATH"
            )
    return places


def _by_order(methods: Methods, *, unpaired: bool) -> dict[str, dict[Seed, int]]:
    if unpaired:
        return {
            name: {f"{name} {k}": k for k in range(len(runs))} for name, runs in methods.items()
        }
    counts = {name: len(runs) for name, runs in methods.items()}
    if len(set(counts.values())) > 1:
        each = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InputError(
            f"runs that say no seed are paired by their order, and {each:.300}; "
            "expected as many of each method, or --unpaired"
        )
    return {name: {k: k for k in range(len(runs))} for name, runs in methods.items()}
