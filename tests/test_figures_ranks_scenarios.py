"""Ranks over several scenarios: scenarios are the blocks, and seeds are averaged in each."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, rankdata

from perdure.metrics import ScoreMatrix
from perdure.record import InputError, Run
from perdure.record.run_metadata import JSON, RunMetadata
from perdure.report.figure_data import get_rank_values
from perdure.report.figures import ranks
from perdure.report.filtering import LeftOutWarning

SCENARIOS, METHODS, SEEDS = ("a", "b", "c", "d"), ("er", "ewc", "naive"), 3
# Final scores by scenario, method and seed: scenarios differ much more than methods.
LEVELS = np.array([0.0, 0.2, 0.5, 0.8]).reshape(4, 1, 1)
SCORES = np.random.default_rng(0).uniform(0, 0.2, (4, 3, SEEDS)) + LEVELS


def make_run(score: float, scenario: str, seed: int, tasks: int) -> Run:
    """Return a run whose average accuracy is `score`."""
    matrix = ScoreMatrix(np.full((tasks, tasks), score))
    config: dict[str, JSON] = {"scenario": scenario, "setting": "class", "seed": seed}
    return Run(matrix, metadata=RunMetadata(config=config))


def make_methods() -> dict[str, list[Run]]:
    """Return runs as they are named when a store has several scenarios; tasks differ too."""
    return {
        f"{scenario} {method}": [
            make_run(float(SCORES[s, m, seed]), scenario, seed, 2 + s) for seed in range(SEEDS)
        ]
        for s, scenario in enumerate(SCENARIOS)
        for m, method in enumerate(METHODS)
    }


def test_methods_are_ranked_in_each_scenario_by_their_means() -> None:
    axes = ranks(make_methods()).axes[0]
    means = SCORES.mean(axis=2)
    mean_ranks = rankdata(-means, axis=1).mean(axis=0)
    shown = " ".join(text.get_text() for text in axes.texts)
    for method, rank in zip(METHODS, mean_ranks, strict=True):
        assert method in shown
        assert f"{rank:.2f}" in shown
    title = axes.get_title().replace("\n", " ")
    assert "mean ranks over 4 scenarios" in title
    assert f"p = {friedmanchisquare(*means.T).pvalue:.3g}" in title
    # Demšar 2006: q = 2.343 for three methods, times sqrt(k (k + 1) / (6 N)) with N scenarios.
    assert f"CD = {2.343 * (3 * 4 / (6 * 4)) ** 0.5:.3g}" in shown


def test_seeds_do_not_count_as_scenarios() -> None:
    """Ten times the seeds with the same means change nothing."""
    few = get_rank_values(make_methods(), "acc")
    many = {name: runs * 10 for name, runs in make_methods().items()}
    assert few.unit == "scenarios"
    for name, own in get_rank_values(many, "acc").by_method.items():
        assert own == pytest.approx(few.by_method[name])
    assert list(few.by_method) == list(METHODS)


def test_a_scenario_that_lacks_a_method_is_left_out_and_named() -> None:
    methods = make_methods()
    del methods["b ewc"]
    with pytest.warns(LeftOutWarning, match="left out: b class: no runs of ewc"):
        axes = ranks(methods).axes[0]
    assert "3 scenarios" in axes.get_title()


def test_named_methods_with_pooled_scenarios_are_the_same() -> None:
    methods = make_methods()
    pooled = {m: [r for s in SCENARIOS for r in methods[f"{s} {m}"]] for m in METHODS}
    assert get_rank_values(pooled, "acc").by_method == get_rank_values(methods, "acc").by_method


def test_refusals() -> None:
    methods = make_methods()
    with pytest.raises(InputError, match="4 scenarios are ranked within each scenario"):
        ranks(methods, unpaired=True)
    with pytest.raises(InputError, match="4 scenarios are ranked within each scenario"):
        ranks(methods, test="welch")
    odd = {name: runs for name, runs in methods.items() if name in ("a er", "b ewc", "b naive")}
    with pytest.raises(InputError, match="2 scenarios, 0 of them with runs of all 3 methods"):
        ranks(odd)


def test_one_scenario_is_ranked_by_seed() -> None:
    one = {name: runs for name, runs in make_methods().items() if name.startswith("a ")}
    assert get_rank_values(one, "acc").unit == "seeds"
