"""Going on from a checkpoint gives the bits of a run that was never interrupted."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from perdure.record import InputError, RecordError
from perdure.strategies import Naive
from perdure.training import (
    EarlyStopping,
    Position,
    build_learner,
    load_checkpoint,
    save_checkpoint,
    train,
)

from .strategy_helpers import (
    ALL,
    NORMED,
    REFUSE_PATIENCE,
    Chosen,
    blobs,
    differing,
    done,
    everything,
    finish,
    go_on,
    made,
    refuse_pickles,
    saving,
    short_config,
)

if TYPE_CHECKING:
    from perdure.training import RunConfig

CASES: dict[str, dict[str, Any]] = {
    "mlp-sgd": {"model": "mlp"},
    "normed-adam": {"model": NORMED, "optimizer": "adam", "settings": {"lr": "0.01"}},
    "stopping": {
        "model": NORMED,
        "patience": 1,
        "epochs": 3,
        "early_stopping_split": 0.2,
        "seed": 1,
    },
}
RESERVOIR = {"settings": {"fill": "reservoir", "balance": "none", "replacement": "true"}}


class Whole:
    """A run that was never interrupted, with a checkpoint after every step."""

    def __init__(self, what: RunConfig, folder: Path) -> None:
        self.what, self.folder, scenario = what, folder, blobs()
        strategy, plan = build_learner(what, scenario)
        chosen = Chosen(strategy)
        del vars(strategy)["select_rows"]  # not part of the state that is saved
        choose, self.places = chosen, list[Position]()
        stopping = EarlyStopping(plan.patience)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(strategy), "select_rows", lambda _self, new: choose(new))
            for place in saving(scenario, strategy, plan, folder, stopping=stopping):
                self.places.append(place)
        self.end, self.chosen = everything(strategy), chosen.lists()

    def points(self) -> list[int]:
        """Return steps to go on from: of every task the first, an epoch's end, and the last."""
        first = [at.step for at in self.places if at.done == 1]
        last = [at.step for at, then in zip(self.places, self.places[1:], strict=False)
                if at.phase != then.phase]  # fmt: skip
        epoch = -(-len(self.places) // 6)
        return sorted({1, 2, epoch, *first, *last, self.places[-1].step})


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Whole]:
    return {}


def whole_of(
    wholes: dict[tuple[str, str], Whole], name: str, case: str, tmp: pytest.TempPathFactory
) -> Whole:
    if (name, case) not in wholes:
        what = short_config(name, **CASES[case])
        wholes[name, case] = Whole(what, tmp.mktemp(f"{name}-{case}"))
    return wholes[name, case]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "case"),
    [
        (name, case)
        for name in ALL
        for case in CASES
        if not (case == "stopping" and name in REFUSE_PATIENCE)
    ],
)
def test_going_on_gives_the_same_bits(
    name: str, case: str, wholes: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = whole_of(wholes, name, case, tmp_path_factory)
    assert differing(whole.end, everything(done(name, blobs(), **CASES[case]))) == []
    for step in whole.points():
        strategy, chosen = go_on(whole.what, blobs(), whole.folder / str(step))
        assert chosen == whole.chosen[step:], step
        assert differing(whole.end, everything(strategy)) == [], step


@pytest.fixture(scope="module")
def elsewhere(
    wholes: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[dict[str, str], Any]]:
    """What another process makes of a checkpoint of each strategy."""
    asked = {}
    for name in ALL:
        whole = whole_of(wholes, name, "normed-adam", tmp_path_factory)
        middle = str(len(whole.places) // 2 + 2)
        asked[name] = [msgspec.to_builtins(whole.what), str(whole.folder / middle)]
    found = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.strategy_helpers"],
        input=json.dumps(asked), capture_output=True, text=True, check=False,
        cwd=Path(__file__).parent.parent, env={**os.environ, "PYTHONHASHSEED": "77"},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    answers: dict[str, tuple[dict[str, str], Any]] = json.loads(found.stdout)
    return answers


@pytest.mark.parametrize("name", ALL)
def test_going_on_in_another_process(name: str, wholes: Any, elsewhere: Any) -> None:
    whole = wholes[name, "normed-adam"]
    end, chosen = elsewhere[name]
    assert chosen == whole.chosen[len(whole.places) // 2 + 2 :]
    assert differing(whole.end, end) == []


def test_every_step_of_a_streaming_memory(tmp_path: Path) -> None:
    """Draws with replacement from a reservoir, task heads, from each step in turn."""
    what = short_config("replay", model=NORMED, epochs=1, setting="task", **RESERVOIR)
    scenario = blobs(setting="task")
    strategy, plan = build_learner(what, scenario)
    places = finish(saving(scenario, strategy, plan, tmp_path))
    end = everything(strategy)
    for place in places:
        again, _ = go_on(what, scenario, tmp_path / str(place.step))
        assert differing(end, everything(again)) == [], place


@pytest.mark.parametrize("way", ["blurred", "none"])
def test_streams_go_on_too(way: Any, tmp_path: Path) -> None:
    what = short_config("replay", boundaries=way, blur=0.3, epochs=1, **RESERVOIR)
    scenario = blobs()
    strategy, plan = build_learner(what, scenario)
    places = finish(saving(scenario, strategy, plan, tmp_path))
    end = everything(strategy)
    for place in places[::4]:
        again, _ = go_on(what, scenario, tmp_path / str(place.step))
        assert differing(end, everything(again)) == []


def test_a_mask_goes_on_with_what_was_seen(tmp_path: Path) -> None:
    what = short_config("cumulative", mask_unseen=True, setting="task")
    scenario = blobs(setting="task")
    strategy, plan = build_learner(what, scenario)
    places = finish(saving(scenario, strategy, plan, tmp_path))
    end = everything(strategy)
    for place in places[::5]:
        again, _ = go_on(what, scenario, tmp_path / str(place.step))
        assert differing(end, everything(again)) == []


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_unpickled(name: str, tmp_path: Path) -> None:
    scenario = blobs()
    strategy, plan = made(name, scenario, optimizer="adam", model=NORMED)
    place = finish(train(scenario, strategy, plan))[-1]
    save_checkpoint(tmp_path, strategy, place)
    other, _ = made(name, scenario, optimizer="adam", model=NORMED)
    end = refuse_pickles()
    try:
        load_checkpoint(tmp_path, other)
    finally:
        end()
    assert [file.name for file in tmp_path.iterdir()] == ["state.safetensors"]
    text = (tmp_path / "state.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", text[:8])
    json.loads(text[8 : 8 + size])  # the header, then bare numbers
    assert len(load_file(tmp_path / "state.safetensors")) > 0


def test_saving_replaces_the_checkpoint_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = blobs()
    strategy, plan = made("replay", scenario)
    steps = train(scenario, strategy, plan)
    first = next(steps)
    save_checkpoint(tmp_path, strategy, first)
    before = (tmp_path / "state.safetensors").read_bytes()
    second = next(steps)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RecordError, match="no space"):
            save_checkpoint(tmp_path, strategy, second)
    assert (tmp_path / "state.safetensors").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1  # nothing is left beside it
    with (tmp_path / "state.safetensors").open("rb") as reader:
        save_checkpoint(tmp_path, strategy, second)
        assert reader.read() == before  # whoever reads meanwhile has all of one checkpoint
    assert load_checkpoint(tmp_path, made("replay", scenario)[0]).step == 2


def test_the_place_comes_back(tmp_path: Path) -> None:
    strategy, _ = made("naive", blobs())
    rows = np.array([5, 3, 4])
    save_checkpoint(tmp_path, strategy, Position(2, 7, 31, rows))
    found = load_checkpoint(tmp_path, strategy)
    assert found[:3] == (2, 7, 31)
    assert found.rows is not None
    assert found.rows.tolist() == [5, 3, 4]
    assert found.rows.dtype == np.int64


class Keeper(Naive):
    """Keeps one of everything that a strategy may keep."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.kept: Any = None
        self._follows = {1}  # could not be saved, and need not be


def test_a_teacher_that_is_made_later_comes_back_as_a_network(tmp_path: Path) -> None:
    """As distillation needs it: nothing at the start, a copy of the network after a task."""
    scenario = blobs()
    base, plan = made("naive", scenario, model=NORMED)
    one = Keeper(base.model, base.optimizer, base.examples)
    one.kept = {"teacher": deepcopy(one.model), "old": [deepcopy(one.model)]}
    finish(train(scenario, one, plan))
    save_checkpoint(tmp_path, one, Position())
    fresh, _ = made("naive", scenario, model=NORMED)
    other = Keeper(fresh.model, fresh.optimizer, fresh.examples)
    load_checkpoint(tmp_path, other)
    x = base.examples.take(np.arange(8)).x
    for a, b, c in (
        (one.kept["teacher"], other.kept["teacher"], one.model),
        (one.kept["old"][0], other.kept["old"][0], one.model),
    ):
        assert torch.equal(a.eval()(x), b.eval()(x))
        assert not torch.equal(a.eval()(x), c.eval()(x))
        assert b is not other.model


def test_tensors_are_filled_where_they_are(tmp_path: Path) -> None:
    """Somebody else may hold them, a captured graph say."""
    one, _ = made("naive", blobs())
    keeper = Keeper(one.model, one.optimizer, one.examples)
    keeper.kept = {"importance": torch.ones(3), "list": [torch.ones(2)]}
    save_checkpoint(tmp_path, keeper, Position())
    held = [keeper.kept["importance"], keeper.kept["list"][0]]
    for tensor in held:
        tensor.zero_()
    load_checkpoint(tmp_path, keeper)
    assert keeper.kept["importance"] is held[0]
    assert [tensor.tolist() for tensor in held] == [[1, 1, 1], [1, 1]]


def test_a_checkpoint_of_another_seed_is_refused(tmp_path: Path) -> None:
    strategy, _ = made("replay", blobs())
    save_checkpoint(tmp_path, strategy, Position())
    with pytest.raises(InputError, match="of seed 0, expected 1"):
        load_checkpoint(tmp_path, made("replay", blobs(), seed=1)[0])


def test_going_on_with_patience_needs_what_it_remembers() -> None:
    scenario = blobs()
    strategy, plan = made("naive", scenario, patience=1)
    with pytest.raises(ValueError, match="needs the `stopping` that was saved"):
        finish(train(scenario, strategy, plan, start=Position()))


def test_everything_a_strategy_may_keep_comes_back(tmp_path: Path) -> None:
    def keeper() -> Keeper:
        base, _ = made("naive", blobs())
        return Keeper(base.model, base.optimizer, base.examples)

    one = keeper()
    weight = next(one.model.parameters())
    one.kept = {
        "tensor": torch.arange(6).reshape(2, 3).t(),
        "half": torch.tensor([1.5, -0.0, float("nan"), float("inf")], dtype=torch.bfloat16),
        "array": np.arange(12, dtype=np.int32).reshape(3, 4)[:, ::2],
        "truth": np.array([True, False]),
        "empty": torch.zeros(0, 3),
        "alone": torch.tensor(7),
        5: [1, (2.5, None), "text ü", True, [np.random.default_rng(3)]],
        (1, "a"): {},
        "endless": float("inf"),
        "shared": [weight.detach(), weight.detach()],
    }
    save_checkpoint(tmp_path, one, Position())
    other = keeper()
    load_checkpoint(tmp_path, other)
    assert list(one.kept) == list(other.kept)
    assert differing(everything(one), everything(other)) == []
    assert type(other.kept[5][1]) is tuple
    draws = [each.kept[5][4][0].random(4).tolist() for each in (one, other)]
    assert draws[0] == draws[1]
    one.kept = [weight]
    with pytest.raises(
        TypeError, match="a parameter of its model as an attribute, expected a copy"
    ):
        save_checkpoint(tmp_path, one, Position())


def test_what_cannot_be_saved_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    base, _ = made("naive", blobs())
    one = Keeper(base.model, base.optimizer, base.examples)
    one.kept = {1, 2}
    with pytest.raises(TypeError, match="has a set as an attribute, expected tensors"):
        save_checkpoint(tmp_path / "there", one, Position())
    assert not (tmp_path / "there").exists()
