"""What a memory holds and what is drawn from it, against brute force and chi-square."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from perdure.data.examples import Examples
from perdure.models import build
from perdure.strategies.replay import Replay, reservoir_sample
from perdure.training import train

from .strategy_helpers import LINEAR, Chosen, blobs, done, finish, made

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perdure.scenarios import Scenario

    Rows = NDArray[np.int64]
    Reals = NDArray[np.float64]

SEEDS = range(400)
RARE = 1e-4  # how unlikely a draw may be: the seeds are fixed, so this is decided once


def small(labels: Rows, tasks: Rows | None = None, **options: Any) -> Replay:
    """Return a replay over one-pixel images with these labels."""
    x = np.zeros((len(labels), 1, 1, 1), dtype=np.uint8)
    tasks = np.zeros_like(labels) if tasks is None else tasks
    examples = Examples(x, labels, tasks, mean=[(0.0,)], std=[(1.0,)])
    model = build(LINEAR, (1, 1, 1), int(labels.max()) + 1)
    return Replay(model, torch.optim.SGD(model.parameters(), lr=0.1), examples, **options)


def by_brute_force(rows: Rows, groups: Rows, priority: Reals, capacity: int) -> set[int]:
    """Deal one place after another to the groups in turn; each takes its best row not yet held.

    A group that has no more rows gives its turn to the next one.
    """
    waiting = {
        int(g): sorted({int(r) for r in rows if groups[r] == g}, key=lambda r: priority[r])
        for g in sorted(set(groups[rows].tolist()))
    }
    held: set[int] = set()
    while len(held) < capacity and any(waiting.values()):
        for mine in waiting.values():
            if mine and len(held) < capacity:
                held.add(mine.pop(0))
    return held


def test_shares_against_brute_force() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        count = int(rng.integers(1, 30))
        groups = rng.integers(0, rng.integers(1, 6), count)
        priority, capacity = rng.random(count), int(rng.integers(0, 25))
        rows = rng.integers(0, count, rng.integers(0, 2 * count))
        found = reservoir_sample(rows, groups, priority, capacity)
        assert len(set(found.tolist())) == len(found) <= capacity
        assert set(found.tolist()) == by_brute_force(rows, groups, priority, capacity)


def test_rows_that_come_bit_by_bit_leave_what_all_at_once_leave() -> None:
    """Nothing that was dropped is missed later, however the stream is cut."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        count = int(rng.integers(2, 40))
        groups, priority = rng.integers(0, 5, count), rng.random(count)
        capacity = int(rng.integers(0, 30))
        stream = rng.permutation(np.tile(np.arange(count), 2))  # two epochs
        held = stream[:0]
        for part in np.array_split(stream, rng.integers(1, 12)):
            held = reservoir_sample(np.concatenate([held, part]), groups, priority, capacity)
        assert set(held.tolist()) == by_brute_force(stream, groups, priority, capacity)


def streamed(scenario: Scenario, **options: str) -> Iterator[tuple[Rows, Rows, Any]]:
    """Yield memory, what was seen so far, and the place, after each step of a stream."""
    strategy, plan = made("replay", scenario, settings=options)
    chosen = Chosen(strategy)
    for place in train(scenario, strategy, plan):
        yield strategy.memory_rows(), np.unique(np.concatenate(chosen.new)), place


def test_class_balanced_at_task_ends() -> None:
    """Filled when a task ends, equally over the classes seen, never a row twice."""
    scenario = blobs(each=[20, 20, 3, 20, 20, 20])
    labels = scenario.train.y
    expected = {
        0: {},
        1: {0: 7, 1: 7},
        2: {0: 4, 1: 4, 2: 3, 3: 3},  # 14 over four: the lower two get one more
    }
    for memory, _, place in streamed(scenario, memory="14"):
        assert Counter(labels[memory].tolist()) == expected[place.phase]
        assert len(np.unique(memory)) == len(memory)
    strategy = done("replay", scenario, settings={"memory": "14"})
    counts = Counter(labels[strategy.memory_rows()].tolist())
    assert counts == {0: 3, 1: 3, 2: 2, 3: 2, 4: 2, 5: 2}


def test_a_memory_of_all_examples_holds_all_however_unequal_the_classes() -> None:
    labels = np.array([0] * 50 + [1] * 3 + [2] * 7)
    replay = small(labels, memory=len(labels))
    replay.end_task(0, np.arange(len(labels)))
    assert sorted(replay.memory_rows().tolist()) == list(range(len(labels)))


def test_class_based_reservoir_shares_equally_while_streaming() -> None:
    scenario = blobs()
    labels = scenario.train.y
    for memory, seen, _ in streamed(scenario, memory="12", fill="reservoir"):
        counts = Counter(labels[memory].tolist())
        names = sorted(set(labels[seen].tolist()))
        assert sum(counts.values()) == min(12, len(seen))
        for label in names:  # nobody has more than one place more than one who could use it
            available = int((labels[seen] == label).sum())
            assert counts[label] == available or counts[label] >= max(counts.values()) - 1
        assert set(memory.tolist()) <= set(seen.tolist())


@pytest.mark.parametrize("balance", ["class", "none"])
def test_each_part_is_a_uniform_sample_of_what_was_seen(balance: Any) -> None:
    """Looked at three times while classes of unequal size stream by in several batches."""
    labels = np.array([0] * 30 + [1] * 14 + [2] * 8 + [0] * 10)
    stream = np.random.default_rng(9).permutation(len(labels))
    batches = np.array_split(np.concatenate([stream, stream]), 16)  # two epochs
    looks = (3, 8, 15)
    counts = {look: np.zeros(len(labels)) for look in looks}
    sizes: dict[int, dict[int, set[int]]] = {look: {} for look in looks}
    groups = labels if balance == "class" else np.zeros_like(labels)
    for seed in SEEDS:
        strategy = small(labels, memory=10, fill="reservoir", balance=balance, seed=seed)
        for number, batch in enumerate(batches):
            strategy.select_rows(batch)
            if number in looks:
                counts[number][strategy.memory_rows()] += 1
                for group, size in Counter(groups[strategy.memory_rows()].tolist()).items():
                    sizes[number].setdefault(group, set()).add(size)
    for look in looks:
        seen = np.unique(np.concatenate(batches[: look + 1]))
        assert counts[look][np.setdiff1d(np.arange(len(labels)), seen)].sum() == 0
        for group in np.unique(groups[seen]):
            rows = seen[groups[seen] == group]
            (size,) = sizes[look][int(group)]
            check_uniform(counts[look][rows], size, len(SEEDS))


def check_uniform(counts: Reals, size: int, draws: int) -> None:
    """Raise unless each of n was among `size` drawn without replacement equally often."""
    n = len(counts)
    assert counts.sum() == size * draws
    if size == n:
        return
    p = size / n
    statistic = ((counts - draws * p) ** 2).sum() / (draws * p * (1 - p)) * (n - 1) / n
    assert RARE < chi2.sf(statistic, n - 1) < 1 - RARE


def test_memory_at_task_ends_is_a_uniform_sample_too() -> None:
    labels = np.repeat([0, 1, 2, 3], 15)
    counts = np.zeros(60)
    for seed in SEEDS:
        strategy = small(labels, memory=20, seed=seed)
        strategy.end_task(0, np.arange(30))
        strategy.end_task(1, np.arange(30, 60))
        counts[strategy.memory_rows()] += 1
    for label in range(4):
        check_uniform(counts[labels == label], 5, len(SEEDS))


def test_m2i_shares_200_over_the_tasks() -> None:
    tasks = np.repeat(np.arange(6), 300)
    labels = tasks * 10 + np.tile(np.arange(10), 180)
    strategy = small(labels, tasks, memory=200, balance="task", alpha=None, replacement=True)
    for task in range(6):
        strategy.end_task(task, np.flatnonzero(tasks == task))
        counts = Counter(tasks[strategy.memory_rows()].tolist())
        assert sum(counts.values()) == 200
        assert set(counts) == set(range(task + 1))
        assert max(counts.values()) - min(counts.values()) <= 1


def test_several_epochs_never_store_a_row_twice() -> None:
    scenario = blobs()
    for memory, _, _ in streamed(scenario, memory="1000", fill="reservoir"):
        assert len(np.unique(memory)) == len(memory)


@pytest.mark.parametrize("fill", ["end", "reservoir"])
def test_draws_without_replacement_are_distinct_and_fair(fill: Any) -> None:
    counts = np.zeros(40)
    for seed in SEEDS:
        strategy = small(
            np.zeros(80, dtype=np.int64), memory=100, fill=fill, seed=seed, replay_batch=9
        )
        (
            strategy.end_task(0, np.arange(40))
            if fill == "end"
            else strategy.select_rows(np.arange(40))
        )
        _, old = strategy.select_rows(np.arange(40, 48))
        assert len(np.unique(old)) == 9
        counts[old] += 1
    check_uniform(counts, 9, len(SEEDS))


def test_draws_with_replacement_are_independent() -> None:
    counts = np.zeros(12)
    repeated = 0
    for seed in SEEDS:
        strategy = small(
            np.zeros(20, dtype=np.int64), memory=12, balance="none", replacement=True, seed=seed
        )
        strategy.end_task(0, np.arange(12))
        _, old = strategy.select_rows(np.arange(12, 20))
        assert len(old) == 8
        np.add.at(counts, old, 1)
        repeated += len(np.unique(old)) < 8
    expected = len(SEEDS) * 8 / 12
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), 11) > RARE
    share = 1 - np.prod(1 - np.arange(8) / 12)  # the birthday problem
    spread = np.sqrt(len(SEEDS) * share * (1 - share))
    assert abs(repeated - len(SEEDS) * share) < 4 * spread


@pytest.mark.parametrize(("replacement", "expected"), [(False, 3), (True, 8)])
def test_a_memory_smaller_than_the_batch(replacement: bool, expected: int) -> None:
    strategy = small(np.zeros(20, dtype=np.int64), memory=3, replacement=replacement)
    assert len(strategy.select_rows(np.arange(8))) == 1  # nothing is held yet
    strategy.end_task(0, np.arange(8))
    new, old = strategy.select_rows(np.arange(8, 16))
    assert new.tolist() == list(range(8, 16))
    assert len(old) == expected
    assert set(old.tolist()) <= set(strategy.memory_rows().tolist())


def test_as_many_are_drawn_as_there_are_new_ones_or_as_asked() -> None:
    for replayed, expected in ((None, [8, 8, 5]), (3, [3, 3, 3]), (0, [0, 0, 0])):
        strategy = small(np.zeros(60, dtype=np.int64), memory=30, replay_batch=replayed)
        strategy.end_task(0, np.arange(39))
        parts = [strategy.select_rows(new) for new in np.split(np.arange(39, 60), [8, 16])]
        assert [sum(len(each) for each in part[1:]) for part in parts] == expected


def test_new_rows_are_not_replayed_in_the_step_they_come_in() -> None:
    """A reservoir sees a batch after it was drawn from."""
    scenario = blobs()
    strategy, plan = made("replay", scenario, epochs=1, settings={"fill": "reservoir"})
    chosen = Chosen(strategy)
    finish(train(scenario, strategy, plan))
    assert chosen.others[0] == ()
    assert all(chosen.others[1:])
    for new, (old,) in zip(chosen.new[1:], chosen.others[1:], strict=True):
        assert not np.isin(new, old).any()


def test_what_is_replayed_at_task_ends_is_of_earlier_tasks() -> None:
    scenario = blobs()
    strategy, plan = made("replay", scenario)
    chosen = Chosen(strategy)
    places = finish(train(scenario, strategy, plan))
    for place, others in zip(places, chosen.others, strict=True):
        for old in others:
            assert (scenario.train.task[old] < place.phase).all()
