"""When a model is tested and on which examples: schedules and subsets, by the rule."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import perdure
from perdure import Evaluator, Subset
from perdure.stats import burst_steps, schedule_steps

from .evaluator_helpers import (
    accuracy,
    check_scores,
    expected_lines,
    keys,
    lines,
    net,
    rows,
    sets,
    subsets,
    walk,
    watch,
)

if TYPE_CHECKING:
    from pathlib import Path

PLAN = [("a", 5), ("b", 4), ("c", 3)]


@pytest.mark.parametrize("every", [1, 2, 3, 7, 100])
def test_every_so_many_steps_of_the_whole_run(tmp_path: Path, every: int) -> None:
    with Evaluator(sets(), record=tmp_path, every=every, subset=6, count_flops=False) as evaluator:
        copies = watch(evaluator, net(), PLAN)
    assert keys(tmp_path) == expected_lines(PLAN, lambda step, _: step % every == 0)
    check_scores(tmp_path, copies, sets(), 6)
    probed = sorted({line.step for line in lines(tmp_path) if line.kind == "probe"})
    assert probed == schedule_steps([5, 4, 3], every=every).tolist()


def by_the_rule(first: int, then: int, growth: float, last: int) -> list[int]:
    """Return tested steps since a switch: `first` in a row, then gaps of growth, growth², …"""
    found = list(range(1, first + 1))
    power = 1
    while found[-1] < last:
        found.append(found[-1] + min(then, ceil(growth**power)))
        power += 1
    return [step for step in found if step <= last]


@pytest.mark.parametrize(
    ("first", "then", "growth"), [(3, 8, 2.0), (1, 1, 2.0), (5, 20, 1.5), (40, 9, 2.0), (2, 30, 3)]
)
def test_bursts_follow_each_switch(tmp_path: Path, first: int, then: int, growth: float) -> None:
    plan = [("a", 30), ("b", 55), ("a", 20)]
    schedule = perdure.burst(first=first, then=then, growth=growth)
    with Evaluator(sets("ab"), record=tmp_path, every=schedule, count_flops=False) as evaluator:
        walk(evaluator, plan)
    due = {steps: by_the_rule(first, then, growth, steps) for _, steps in plan}
    expected, start = [], 0
    for _, steps in plan:
        assert burst_steps(steps, first, then, growth).tolist() == due[steps]
        expected += [start + step for step in due[steps]]
        start += steps
    probed = sorted({line.step for line in lines(tmp_path) if line.kind == "probe"})
    assert probed == expected
    if growth == 2.0:
        assert probed == schedule_steps([30, 55, 20], burst=(first, then)).tolist()
    full = sorted({line.step for line in lines(tmp_path) if line.kind == "full"})
    assert full == [30, 85, 105]


def test_a_schedule_of_ones_own(tmp_path: Path) -> None:
    class Squares:
        def due(self, step: int, since: int) -> bool:
            return step in (1, 4, 9) and since > 1

    with Evaluator(sets(), record=tmp_path, every=Squares(), count_flops=False) as evaluator:
        walk(evaluator, PLAN)
    assert {line.step for line in lines(tmp_path) if line.kind == "probe"} == {4, 9}


# Which examples.


def identified(count: int) -> tuple[Tensor, Tensor]:
    """Return examples that carry their own number."""
    return torch.arange(count, dtype=torch.float64)[:, None], torch.zeros(count, dtype=torch.int64)


def numbers(seen: list[list[int]]) -> Any:
    """Return a score that notes which examples it is given."""

    def score(model: Any, x: Tensor, y: Tensor) -> Tensor:
        seen.append([int(value) for value in x[:, 0]])
        return x[:, 0]

    return score


def chosen(steps: int, **how: Any) -> list[list[int]]:
    seen: list[list[int]] = []
    given: dict[str, Any] = {"subset": 10, "initial": "none", "count_flops": False} | how
    with Evaluator({"a": identified(60)}, score=numbers(seen), **given) as evaluator:
        walk(evaluator, [("a", steps)])
    *probes, whole = seen
    assert whole == list(range(60))
    return probes


def test_the_subset_is_fixed_and_belongs_to_the_seed() -> None:
    first, *others = chosen(4)
    assert len(set(first)) == 10
    assert first == sorted(first)
    assert set(first) <= set(range(60))
    assert all(other == first for other in others)
    assert chosen(1) == [first]
    assert chosen(1, subset=Subset(10, seed=1)) != [first]


def test_each_task_has_a_choice_of_its_own(tmp_path: Path) -> None:
    data = {name: rows(60) for name in "ab"}
    with Evaluator(data, record=tmp_path, subset=10, count_flops=False) as evaluator:
        walk(evaluator, [("a", 1), ("b", 1)])
    both = subsets(tmp_path)
    assert both["a"].tolist() != both["b"].tolist()


def test_a_subset_drawn_anew_at_every_step(tmp_path: Path) -> None:
    found = chosen(6, subset=Subset(10, resample=True))
    assert all(len(set(some)) == 10 for some in found)
    assert len({tuple(some) for some in found}) == 6
    assert chosen(6, subset=Subset(10, resample=True)) == found  # the same for the same seed
    assert chosen(6, subset=Subset(10, seed=1, resample=True)) != found
    sparse = chosen(6, subset=Subset(10, resample=True), every=3)
    assert sparse == [found[2], found[5]]  # a step's examples do not depend on the schedule
    data = {"a": rows(60)}
    some = Subset(10, resample=True)
    with Evaluator(data, record=tmp_path, subset=some, count_flops=False) as evaluator:
        walk(evaluator, [("a", 2)])
    # Only whole sets are the same examples each time.
    assert {path.name for path in (tmp_path / "per_example").glob("*.bin")} == {"0.full.bin"}
    assert [line.n for line in lines(tmp_path)] == [10, 10, 10, 60]


@pytest.mark.parametrize("subset", [None, 21, 500])
@pytest.mark.parametrize("resample", [False, True])
def test_no_subset_or_one_larger_than_the_set(
    tmp_path: Path, subset: int | None, resample: bool
) -> None:
    data = {"a": rows(21)}
    some = Subset(subset, resample=resample)
    with Evaluator(data, record=tmp_path, subset=some, count_flops=False) as evaluator:
        copies = watch(evaluator, net(), [("a", 3)])
    for line in lines(tmp_path):
        assert (line.score, line.n) == (accuracy(copies[line.step], *data["a"]), 21)
    if not resample:
        assert subsets(tmp_path)["a"].tolist() == list(range(21))


def test_whole_sets_larger_than_a_batch(tmp_path: Path) -> None:
    data = {"a": rows(2503)}
    with Evaluator(data, record=tmp_path, subset=11, count_flops=False) as evaluator:
        copies = watch(evaluator, net(), [("a", 1)])
    check_scores(tmp_path, copies, data, 11)
    assert [line.n for line in lines(tmp_path)] == [11, 11, 2503]
