"""Laws that every strategy keeps, those of tomorrow too: whatever is in the table is tested."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from perdure import Evaluator
from perdure.record import InputError
from perdure.scenarios import blur_boundaries, make_scenario
from perdure.strategies import STRATEGIES, Strategy, find_strategy
from perdure.training import run, train

from .strategy_helpers import (
    ALL,
    GUESSES,
    NORMED,
    REPLAYS,
    TRAINS_AT_ENDS,
    Chosen,
    accuracy,
    arrays,
    blobs,
    differing,
    done,
    everything,
    finish,
    held_for,
    made,
    short_config,
)

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

LEARN = [name for name in ALL if name not in GUESSES]
FROZEN = {"cwr-star"}  # has only what the first task taught it to see
NO_OPERATIONS = pytest.mark.filterwarnings(
    "ignore:.*is not measured:perdure.evaluation.EvaluationWarning"
)
TESTED = [pytest.param(n, marks=NO_OPERATIONS) if n in GUESSES else n for n in ALL]
PLAIN: dict[str, Any] = {"model": "mlp", "optimizer": "sgd"}
NORMAL: dict[str, Any] = {"model": NORMED, "optimizer": "adam", "settings": {"lr": "0.01"}}


@pytest.fixture(params=[PLAIN, NORMAL], ids=["mlp-sgd", "normed-adam"])
def network(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.one_in(3)
@pytest.mark.parametrize("setting", ["class", "task", "domain"])
@pytest.mark.parametrize("name", LEARN)
def test_each_task_is_learned(name: str, setting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = blobs(setting=setting)
    strategy, plan = made(name, scenario, epochs=15)
    reached: list[float] = []
    end = strategy.end_task

    def end_and_look(task: int, rows: Any) -> None:
        end(task, rows)
        reached.append(accuracy(strategy, scenario.tasks[task].train))

    monkeypatch.setattr(strategy, "end_task", end_and_look)
    finish(train(scenario, strategy, plan))
    assert len(reached) == 3
    assert min(reached) > (0.9 if name in FROZEN else 0.95), reached


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ALL)
def test_one_seed_gives_one_result(name: str, network: dict[str, Any]) -> None:
    one = everything(done(name, blobs(), seed=3, **network))
    again = everything(done(name, blobs(), seed=3, **network))
    other = everything(done(name, blobs(), seed=4, **network))
    assert differing(one, again) == []
    weights = {k for k in one if k.startswith("/model") and not k.endswith(("trains", "tracked"))}
    same = weights - set(differing(one, other))
    allowed = {"/model/seen", "/model/steps"} if name in GUESSES else set()
    assert same == allowed  # no weight of one seed is the other's


@pytest.mark.parametrize("name", ALL)
def test_what_is_handed_over_is_never_written_to(
    name: str, network: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = blobs()  # its arrays raise when they are written to
    before = [array.copy() for array in arrays(scenario)]
    strategy, plan = made(name, scenario, **network)
    shown = strategy.examples.take(np.arange(len(strategy.examples)))
    step = strategy.step
    handed = 0

    def looked_at(*batches: Any, **more: Any) -> Tensor:
        nonlocal handed
        copies = [(batch.x.clone(), batch.y.clone()) for batch in batches]
        loss = step(*batches, **more)
        for batch, (x, y) in zip(batches, copies, strict=True):
            assert torch.equal(batch.x, x)
            assert torch.equal(batch.y, y)
            assert batch.x.grad is None
            handed += 1
        assert not loss.requires_grad
        return loss

    monkeypatch.setattr(strategy, "step", looked_at)
    finish(train(scenario, strategy, plan))
    assert handed >= 30
    after = strategy.examples.take(np.arange(len(strategy.examples)))
    assert torch.equal(shown.x, after.x)
    assert torch.equal(shown.y, after.y)
    assert all(map(np.array_equal, before, arrays(scenario)))


@pytest.mark.parametrize("name", ALL)
def test_what_is_stored_is_row_numbers_that_were_seen(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = blobs()
    strategy, plan = made(name, scenario)
    seen: set[int] = set()
    for task in scenario.tasks if strategy.trains_on_all_tasks else ():
        seen.update(task.train.tolist())
    for place in train(scenario, strategy, plan):
        seen.update(scenario.tasks[place.phase].train.tolist())
        stored = strategy.memory_rows()
        assert stored.dtype == np.int64
        assert len(set(stored.tolist())) == len(stored)
        assert set(stored.tolist()) <= seen
    mine = [v for k, v in vars(strategy).items() if k != "examples"]
    held = [a for a in mine if isinstance(a, np.ndarray | torch.Tensor)]
    images = strategy.examples.shape, (int(np.prod(strategy.examples.shape)),)
    assert all(tuple(array.shape[1:]) not in images for array in held)  # no image is kept


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", TESTED)
@pytest.mark.parametrize(("every", "network"), [(3, PLAIN), (1, NORMAL)], indirect=["network"])
def test_testing_leaves_no_trace(name: str, every: int, network: Any, tmp_path: Path) -> None:
    scenario = blobs()
    alone = everything(done(name, scenario, **network))
    strategy, plan = made(name, scenario, **network)
    names = [task.name for task in scenario.tasks]
    with Evaluator(
        held_for(scenario), every=every, unseen=True, initial="all", record=tmp_path / "run"
    ) as evaluator:
        places = finish(train(scenario, strategy, plan, evaluator))
    points = (tmp_path / "run" / "points.csv").read_text().splitlines()
    probed = [line for line in points if ",probe," in line]
    assert len(probed) == len(places) // every * len(names)
    assert differing(alone, everything(strategy)) == []


@pytest.mark.parametrize("name", TESTED)
def test_a_run_gives_the_weights_of_plain_training(name: str, tmp_path: Path) -> None:
    """With gradient norms, hits and unseen tasks as well, on digits."""
    what = short_config(name, epochs=1, batch=100, gradients=2, every=4, unseen=True, model=NORMED)
    watched = everything(run(what, tmp_path / "run"))
    scenario = make_scenario("split-digits")
    strategy, plan = made(name, scenario, epochs=1, batch=100, model=NORMED)
    finish(train(scenario, strategy, plan))
    assert differing(watched, everything(strategy)) == []


@pytest.mark.parametrize("name", ALL)
def test_watching_the_terms_changes_no_bit(name: str, network: dict[str, Any]) -> None:
    scenario = blobs()
    alone = everything(done(name, scenario, **network))
    strategy, plan = made(name, scenario, **network)
    step = strategy.step
    calls = 0

    def on_loss_terms(plasticity: Any, stability: Any) -> None:
        nonlocal calls
        calls += 1
        weights = [p for p in strategy.model.parameters() if p.requires_grad]
        before = [None if p.grad is None else p.grad.clone() for p in weights]
        for term in (plasticity, stability):
            if isinstance(term, torch.Tensor) and term.requires_grad:
                assert term.dim() == 0
                torch.autograd.grad(term, weights, retain_graph=True, allow_unused=True)
            else:
                assert all(each is None or not each.requires_grad for each in term)
        after = [p.grad for p in weights]
        same = (a is b or (a is not None and b is not None and torch.equal(a, b))
                for a, b in zip(before, after, strict=True))  # fmt: skip
        assert all(same)

    vars(strategy)["step"] = lambda *batches, **_: step(*batches, on_loss_terms=on_loss_terms)
    places = finish(train(scenario, strategy, plan))
    del vars(strategy)["step"]
    assert calls == len(places)
    assert differing(alone, everything(strategy)) == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", TESTED)
def test_which_rows_come_depends_on_the_seed_alone(name: str) -> None:
    """Not on the network, the optimizer, PyTorch's generators, nor on who tests."""
    scenario = blobs()
    found = []
    ways: list[dict[str, Any]] = [{}, {"model": NORMED}, {"optimizer": "adam"}, {}, {}]
    for number, way in enumerate(ways):
        strategy, plan = made(name, scenario, seed=5, **way)
        chosen = Chosen(strategy)
        torch.manual_seed(number)
        evaluator = Evaluator(held_for(scenario), unseen=True) if number == 4 else None
        for _ in train(scenario, strategy, plan, evaluator):
            torch.rand(number)
        if evaluator is not None:
            evaluator.close()
        found.append((chosen.lists(), strategy.memory_rows().tolist()))
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("name", ALL)
def test_choosing_draws_nothing_from_pytorch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = blobs()
    strategy, plan = made(name, scenario, model=NORMED)
    for method in ("begin_task", "select_rows", *["end_task"] * (name not in TRAINS_AT_ENDS)):
        inner = getattr(strategy, method)

        def quiet(*arguments: Any, inner: Any = inner) -> Any:
            before = torch.get_rng_state()
            result = inner(*arguments)
            assert torch.equal(before, torch.get_rng_state())
            return result

        monkeypatch.setattr(strategy, method, quiet)
    assert len(finish(train(scenario, strategy, plan))) >= 30


@pytest.mark.parametrize("name", [n for n in ALL if not find_strategy(n).trains_on_all_tasks])
def test_new_rows_are_those_of_naive(name: str) -> None:
    """Wherever a strategy learns from a task's own rows they come in the same batches."""
    scenario = blobs()
    found: list[dict[int, list[list[int]]]] = []
    for each in (name, "naive"):
        strategy, plan = made(each, scenario, seed=2)
        chosen = Chosen(strategy)
        found.append({})
        for place in train(scenario, strategy, plan):
            assert place.rows is not None
            if place.rows.tolist() == scenario.tasks[place.phase].train.tolist():
                found[-1].setdefault(place.phase, []).append(chosen.new[-1].tolist())
    assert sorted(found[1]) == [0, 1, 2]
    assert 0 in found[0]  # the first task has nothing else to learn from
    assert all(found[1][phase] == steps for phase, steps in found[0].items())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("setting", ["class", "task", "domain"])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_settings_masks_and_streams(name: str, mask: bool, setting: Any) -> None:
    """A loss is never that of a hidden class, whichever way examples come."""
    sharp = blobs(setting=setting)
    ways: dict[str, tuple[Any, dict[str, Any]]] = {
        "sharp": (sharp, {}),
        "blurred": (blur_boundaries(sharp, 0.5, seed=1), {}),
    }
    if not mask and not find_strategy(name).requires_boundaries:
        stream: dict[str, Any] = {"boundaries": "none", "blur": 0.3}
        if name == "replay":
            stream["settings"] = {"fill": "reservoir"}
        ways["none"] = (sharp, stream)
    for way, (scenario, more) in ways.items():
        strategy, plan = made(name, scenario, mask_unseen=mask, **more)
        losses: list[float] = []
        step = strategy.step

        def kept(*batches: Any, step: Any = step, losses: Any = losses, **named: Any) -> Tensor:
            losses.append(float(step(*batches, **named)))
            return torch.tensor(losses[-1])

        vars(strategy)["step"] = kept
        finish(train(scenario, strategy, plan))
        assert losses, way
        assert max(losses) < 50, way


@pytest.mark.parametrize("name", ALL)
def test_task_heads_only_name_classes_of_their_task(name: str) -> None:
    scenario = blobs(setting="task")
    strategy = done(name, scenario)
    if name in GUESSES:
        pytest.skip("has no heads: its guesses are masked where they are tested")
    for task in scenario.tasks:
        batch = strategy.examples.take(np.array(task.train))
        with torch.no_grad():
            named = set(strategy.model(batch.x, batch.task).argmax(1).tolist())
        assert named <= set(task.classes)


@pytest.mark.parametrize("name", LEARN)
def test_unseen_classes_are_never_named_with_a_mask(name: str) -> None:
    scenario = blobs()
    strategy, plan = made(name, scenario, mask_unseen=True)
    for place in train(scenario, strategy, plan):
        tasks = len(scenario.tasks) if strategy.trains_on_all_tasks else place.phase + 1
        seen = {c for task in scenario.tasks[:tasks] for c in task.classes}
        with torch.no_grad():
            x = strategy.examples.take(np.arange(60)).x
            assert set(strategy.model(x).argmax(1).tolist()) <= seen


def test_the_table_and_what_it_names() -> None:
    for name, entry in STRATEGIES.items():
        found = find_strategy(name)
        assert issubclass(found, Strategy)
        assert found.__name__ == entry.class_name
        assert entry.about
        assert entry.keeps
    assert set(STRATEGIES) >= GUESSES | REPLAYS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("repaly", "did you mean replay?"),
        ("Cumulativ", "did you mean cumulative?"),
        ("xyz", "expected one of naive, cumulative"),
        ("nowhere.at.all:Mine", "no module"),
        ("math:pi2", ") has no 'pi2'; did you mean pi"),
        ("math:pi", "is float"),
        ("collections:OrderedDict", "expected a subclass of"),
    ],
)
def test_names_that_are_not_known(name: str, expected: str) -> None:
    with pytest.raises(InputError, match=re.escape(expected)) as caught:
        find_strategy(name)
    assert "\n" not in str(caught.value)
