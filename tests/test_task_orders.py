"""Several task orders: drawn, applied, grouped, and told apart from seeds in the variance."""

from __future__ import annotations

import json
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perdure
from perdure.api.runs import make_configs
from perdure.record import InputError
from perdure.record.grouping import find_groups
from perdure.scenarios import draw_task_orders, make_scenario, reorder_tasks
from perdure.stats import variance_components
from perdure.training import build_learner, load_scenario, train
from perdure.training import run as train_run

from .cli_helpers import refused, run, says

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

RNG = np.random.default_rng(5)


# --- variance components --------------------------------------------------------------------------


def labels_of(table: NDArray[Any]) -> tuple[list[int], list[int]]:
    orders, seeds = np.indices(table.shape)
    return orders.ravel().tolist(), seeds.ravel().tolist()


def sums_of_squares(table: NDArray[np.float64]) -> dict[str, float]:
    """Return what each factor explains, by regressions on indicator columns."""
    a, b = table.shape
    orders, seeds = labels_of(table)
    y = table.ravel()
    one = np.ones((len(y), 1))
    by_order, by_seed = np.eye(a)[orders], np.eye(b)[seeds]

    def left(design: NDArray[np.float64]) -> float:
        fitted = design @ np.linalg.lstsq(design, y, rcond=None)[0]
        return float(((y - fitted) ** 2).sum())

    return {
        "order": left(one) - left(by_order),
        "seed": left(one) - left(by_seed),
        "rest": left(np.hstack([by_order, by_seed])),
    }


@pytest.mark.parametrize("shape", [(2, 2), (5, 3), (3, 8)])
def test_components_of_a_full_table_follow_from_regressions(shape: tuple[int, int]) -> None:
    a, b = shape
    table = RNG.normal(size=(a, 1)) * 3 + RNG.normal(size=(1, b)) + RNG.normal(size=shape) * 0.5
    squares = sums_of_squares(table)
    rest = squares["rest"] / ((a - 1) * (b - 1))
    expected = max(squares["order"] / (a - 1) - rest, 0) / b
    found = variance_components(table.ravel(), *labels_of(table))
    assert found.crossed
    assert found.order_sd**2 == pytest.approx(expected)
    assert found.seed_sd**2 == pytest.approx((squares["seed"] + squares["rest"]) / (a * (b - 1)))
    assert found.mean == pytest.approx(table.mean())
    swapped = variance_components(table.T.ravel(), *labels_of(table.T))
    assert (swapped.low, swapped.high) == pytest.approx((found.low, found.high))


def test_unequal_numbers_of_seeds_are_a_one_way_analysis_by_hand() -> None:
    # Group means 2, 6, 10 of 3, 2 and 1 values; grand mean 28 / 6.
    found = variance_components(
        [1, 2, 3, 5, 7, 10], ["a"] * 3 + ["b"] * 2 + ["c"], [0, 1, 2, 0, 1, 0]
    )
    between = (3 * (2 - 14 / 3) ** 2 + 2 * (6 - 14 / 3) ** 2 + (10 - 14 / 3) ** 2) / 2
    within = (2 + 2) / 3
    typical = (6 - (9 + 4 + 1) / 6) / 2
    assert not found.crossed
    assert found.order_sd**2 == pytest.approx((between - within) / typical)
    assert found.seed_sd**2 == pytest.approx(within)


def test_one_seed_per_order_cannot_be_told_apart() -> None:
    found = variance_components([1.0, 2.0, 4.0], "abc", [0, 0, 0])
    assert np.isnan([found.order_sd, found.seed_sd]).all()
    t = 4.302652729696142  # two degrees of freedom
    assert found.high - found.mean == pytest.approx(t * np.std([1, 2, 4], ddof=1) / np.sqrt(3))
    with pytest.raises(ValueError, match="at least two orders"):
        variance_components([1.0, 2.0], "aa", [0, 1])


@pytest.mark.parametrize(("order", "seed", "rest"), [(2.0, 0.5, 1.0), (0.3, 2.0, 1.0)])
def test_simulated_components_are_found_and_covered(order: float, seed: float, rest: float) -> None:
    a, b, repeats = 8, 5, 400
    variances, covered = [], 0
    rng = np.random.default_rng(0)
    for _ in range(repeats):
        table = rng.normal(size=(a, 1)) * order + rng.normal(size=b) * seed
        table = table + rng.normal(size=(a, b)) * rest
        found = variance_components(table.ravel(), *labels_of(table))
        variances.append((found.order_sd**2, found.seed_sd**2))
        covered += found.low <= 0 <= found.high
    means = np.mean(variances, axis=0)
    errors = np.std(variances, axis=0) / np.sqrt(repeats)
    assert means[1] == pytest.approx(seed**2 + rest**2, abs=4 * errors[1])
    assert order**2 - 4 * errors[0] < means[0] < order**2 + 4 * errors[0] + 0.06  # cut off at 0
    assert 0.92 <= covered / repeats <= 0.99


# --- orders ---------------------------------------------------------------------------------------


def test_orders_are_different_and_more_begin_with_the_same() -> None:
    assert draw_task_orders(5, 4) == draw_task_orders(5, 9)[:4]
    all_of_three = draw_task_orders(3, 6)
    named = [[0, 1, 2] if order is None else order for order in all_of_three]
    assert sorted(named) == sorted(map(list, permutations(range(3))))
    assert [0, 1, 2] not in all_of_three  # it is the scenario's own, which needs no name
    with pytest.raises(InputError, match="3 tasks have 6 different orders"):
        draw_task_orders(3, 7)


@pytest.mark.parametrize("setting", ["class", "task", "domain"])
def test_reordered_tasks_keep_their_examples_and_classes(setting: Any) -> None:
    whole = make_scenario("split-digits", setting=setting)
    order = [3, 0, 4, 2, 1]
    changed = reorder_tasks(whole, order)
    names: dict[int, set[int]] = {}
    for place, number in enumerate(order):
        old, new = whole.tasks[number], changed.tasks[place]
        assert (old.name, len(old.classes)) == (new.name, len(new.classes))
        assert np.array_equal(old.train, new.train)
        assert set(changed.train.y[new.train]) == set(new.classes)
        assert set(changed.train.task[new.train]) == {place}
        for label in new.classes:
            rows = new.test[changed.test.y[new.test] == label]
            names.setdefault(label, set()).update(whole.test.y[rows].tolist())
    assert all(len(same) == 1 for same in names.values())
    if setting != "domain":
        assert [c for task in changed.tasks for c in task.classes] == list(range(10))
    back = reorder_tasks(changed, [order.index(k) for k in range(5)])
    assert np.array_equal(back.train.y, whole.train.y)
    assert np.array_equal(back.test.task, whole.test.task)
    config = make_configs(
        "split-digits", "replay", seeds=1, setting=setting, task_order=order, iterations=1
    )[0]
    scenario = load_scenario(config)
    learner, plan = build_learner(config, scenario)
    assert sum(1 for _ in train(scenario, learner, plan)) == 5


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("orders")
    for strategy in ("naive", "joint"):
        for config in make_configs(
            "split-digits",
            strategy,
            seeds=2,
            orders=3,
            iterations=3,
            every=3,
            settings={"hidden": 8},
        ):
            train_run(config, folder / config.folder)
    return folder


def test_runs_in_several_orders_are_one_group_that_says_so(store: Path) -> None:
    groups = perdure.score_groups(store).groups
    assert sorted(groups) == ["joint", "naive"]
    summary = groups["naive"].summary
    assert isinstance(summary, perdure.RunsSummary)
    table = np.array([run.metrics["acc"] for run in summary.runs])
    orders = [ref.order for ref in groups["naive"].refs]
    seeds = [ref.seed for ref in groups["naive"].refs]
    expected = variance_components(table, orders, seeds)
    assert summary.components["acc"].order_sd == pytest.approx(expected.order_sd)
    assert summary.intervals["acc"][0] == pytest.approx(max(expected.low, 0))
    answer = run("score", store, "--metrics", "acc")
    says(answer.out, "3 task orders: SD over orders", "over seeds", "2 seeds x 3 task orders")
    plain = json.loads(run("score", store / "*naive*", "--format", "json").out)
    assert "order_sd" in json.dumps(plain)


def test_orders_are_never_pooled_where_nobody_asks(store: Path) -> None:
    groups, _ = find_groups([str(store)])
    assert len(groups) == 6
    assert all(len(runs) == 2 for runs in groups.values())


def test_a_comparison_is_over_orders(store: Path) -> None:
    report = perdure.compare(store, metrics=["acc"])
    assert report.metrics["acc"].means["naive"].seeds == 3
    assert report.paired_by == "task order"
    answer = run("compare", store, "--metrics", "acc")
    says(answer.out, "task orders of each method", "the mean over its seeds", "not independent")


def test_a_method_with_more_task_orders_counts_orders_not_runs(store: Path) -> None:
    first = json.loads((next(store.glob("*joint*")) / "run.json").read_text())["config"]
    joint = [
        str(folder)
        for folder in store.glob("*joint*")
        if json.loads((folder / "run.json").read_text())["config"]["task_order"]
        != first["task_order"]
    ]
    assert len(joint) == 4
    names = f"naive={store / '*naive*'}", f"joint={','.join(joint)}"
    out = run("compare", *names, "--metrics", "acc").out
    says(out, "mean and SD over all task orders of a method: naive 3, joint 2", "the 2 task orders")


def test_the_published_order_is_the_same_run_however_it_is_asked_for() -> None:
    (plain,) = make_configs(seeds=1)
    (listed,) = make_configs(seeds=1, task_order=[0, 1, 2, 3, 4])
    drawn = make_configs(seeds=1, num_tasks=2, orders=2)
    assert listed.folder == plain.folder
    assert make_configs(seeds=1, num_tasks=2)[0].folder in {config.folder for config in drawn}


def test_methods_in_different_task_orders_are_refused_in_words(store: Path, tmp_path: Path) -> None:
    for config in make_configs(
        "split-digits", "naive", seeds=2, iterations=3, every=3, settings={"hidden": 8}
    ):
        train_run(config, tmp_path / config.folder)
    names = f"own={tmp_path / '*'}", f"joint={store / '*joint*'}"
    says(
        refused("compare", *names), "own has seeds 0, 1 (task order published)",
        "joint has seeds 0, 1 (task order", "--orders of `perdure run`", "--unpaired",
    )  # fmt: skip


def test_a_study_runs_every_order_and_says_what_varies(tmp_path: Path, store: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        'scenarios = ["split-digits"]\nstrategies = ["naive"]\nseeds = 2\norders = 3\n'
        "[run]\niterations = 3\nevery = 3\nhidden = 8\n"
    )
    answer = run("study", "report", file, "--store", store)
    assert answer.code == 0, answer.err
    says(answer.out, "6 of 6", "over task orders and seeds", "SD over 3 orders", "over seeds")
    assert "same data and task order: split" not in answer.out


def test_wrong_orders_are_one_line() -> None:
    for arguments, words in (
        (["--task-order", "0,1"], ["[0, 1]", "0 to 4"]),
        (["--task-order", "1,0,2,3,4", "--orders", "2"], ["--orders and --task-order exclude"]),
        (["--orders", "500"], ["5 tasks have 120"]),
    ):
        says(refused("run", "split-digits", "naive", *arguments, "--dry-run"), *words)


def test_an_interval_is_never_narrower_than_the_rest_gives() -> None:
    """Order means and seed means that happen to be equal say nothing about the mean."""
    table = np.array([[0.0159, 0.0], [0.0, 0.0167]])
    found = variance_components(table.ravel(), *labels_of(table))
    assert found.low < 0 < 0.0167 < found.high
