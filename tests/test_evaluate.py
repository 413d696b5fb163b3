"""perdure.evaluate: one model, and perdure evaluate: a record from saved models."""

from __future__ import annotations

import json
import pickle
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.functional import cross_entropy

import perdure
from perdure.api.checkpoint_files import find_checkpoints, load_weights, read_weights
from perdure.api.checkpoint_record import CheckpointLoader, evaluate_checkpoints
from perdure.record import InputError

from .cli_helpers import run
from .evaluator_helpers import net, sets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATA = sets("abc")
SOURCE = """
import perdure
from tests.evaluator_helpers import net, sets

def tasks():
    data = sets("abc")
    return data | {"c": perdure.EvalTask(data["c"], control=True)}

def trained(path):
    return "a" if "-1" in path.name else "b"
"""


def accuracy(model: nn.Module, task: str) -> float:
    x, y = DATA[task]
    model.eval()
    with torch.no_grad():
        right = model(x).argmax(dim=1) == y
    return float(right.double().mean())


def saved_models(folder: Path) -> dict[int, nn.Module]:
    """Save models of steps 5, 10 and 200, whose names sort otherwise; return them by step."""
    models: dict[int, nn.Module] = {}
    for seed, step in enumerate((5, 10, 200)):
        torch.manual_seed(seed)
        models[step] = net()
        save_file(models[step].state_dict(), folder / f"ckpt-{step}.safetensors")
    return models


# One model


def test_scores_are_those_of_an_own_loop_and_nothing_changes() -> None:
    model = net().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(3)
    state = torch.get_rng_state()
    found = perdure.evaluate(model, DATA)
    assert torch.equal(state, torch.get_rng_state())
    assert model.training
    assert all(module.training for module in model.modules())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    for task, (_, y) in DATA.items():
        assert found.scores[task] == pytest.approx(accuracy(model, task))
        assert found.n[task] == len(y)
        low, high = found.intervals[task]
        assert low < found.scores[task] < high
    assert found.to_dict()["a"]["score"] == found.scores["a"]
    assert str(found).splitlines()[0] == "accuracy with 95% interval"


def test_losses_have_no_interval() -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return cross_entropy(model(x), y, reduction="none")

    found = perdure.evaluate(net(), DATA, score=perdure.Score(loss, lower_is_better=True))
    assert not found.intervals
    assert found.scale.lower_is_better
    assert found.to_dict()["a"]["low"] is None


def test_a_log_gets_scores_and_examples(tmp_path: Path) -> None:
    models = [net(), net()]
    with perdure.Log(tmp_path, control=["c"]) as log:
        perdure.evaluate(models[0], DATA, log=log, step=0, trained="a", kind="initial")
        found = perdure.evaluate(models[1], DATA, log=log, step=9, trained="a")
    summary = perdure.score(tmp_path)
    assert summary.metrics["acc"] == found.scores["a"]
    assert "retention" in summary.intervals


def test_no_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match="tasks is empty, expected evaluation data by name"):
        perdure.evaluate(net(), {})


def test_whole_sets_at_the_end_of_a_stream_without_tasks() -> None:
    with perdure.Evaluator(DATA, count_flops=False, subset=5) as evaluator:
        model = net()
        evaluator.step(model)
        assert evaluator.evaluate(model).points is not None
        ends = evaluator.summary()
    assert "task boundaries" in ends.undefined["acc"]
    evaluator = perdure.Evaluator(DATA, count_flops=False)
    evaluator.begin("a", model)
    with pytest.raises(RuntimeError, match=r"evaluate\(\) is for streams without tasks"):
        evaluator.evaluate(model)
    evaluator.close(finished=False)


# Finding and reading checkpoints


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["ckpt-10", "ckpt-9", "ckpt-100"], [9, 10, 100]),
        (["epoch=1-step=50", "epoch=0-step=25"], [25, 50]),
        (["global_step300", "global_step20"], [20, 300]),
    ],
)
def test_step_numbers_are_the_order(tmp_path: Path, names: list[str], expected: list[int]) -> None:
    for name in names:
        (tmp_path / f"{name}.safetensors").touch()
    found, words = find_checkpoints(f"{tmp_path}/*")
    assert [file.step for file in found] == expected
    assert words == "by the step numbers in their names"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["first", "second"], "first.safetensors: its name has no step number"),
        (["a1-b2"], "so the order of training is unknown; state it with `order=name`"),
        (["x-step-7", "y-step=7"], "both have step 7; state the order"),
    ],
)
def test_an_order_is_never_guessed(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        (tmp_path / f"{name}.safetensors").touch()
    with pytest.raises(InputError, match=message):
        find_checkpoints(f"{tmp_path}/*")
    files, words = find_checkpoints(f"{tmp_path}/*", "name")
    assert [file.step for file in files] == list(range(1, len(names) + 1))
    assert words == "by name"


def test_folders_of_hugging_face_also_in_shards(tmp_path: Path) -> None:
    weights = net().state_dict()
    names = sorted(weights)
    whole, shards = tmp_path / "checkpoint-1", tmp_path / "checkpoint-2"
    whole.mkdir()
    shards.mkdir()
    save_file(weights, whole / "model.safetensors")
    index: dict[str, str] = {}
    for k, part in enumerate((names[:3], names[3:])):
        save_file({name: weights[name] for name in part}, shards / f"model-{k}.safetensors")
        index |= dict.fromkeys(part, f"model-{k}.safetensors")
    (shards / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    for folder in (whole, shards):
        found = read_weights(folder)
        assert sorted(found) == names
        assert all(torch.equal(found[name], weights[name]) for name in names)
    outside = {"weight_map": dict.fromkeys(names, "../checkpoint-1/model.safetensors")}
    (shards / "model.safetensors.index.json").write_text(json.dumps(outside))
    with pytest.raises(InputError, match="expected a weight_map with names of files"):
        read_weights(shards)


class Planted:
    """Unpickling it would create a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")


def test_pickles_are_read_only_on_request_and_execute_nothing(tmp_path: Path) -> None:
    model, path = net(), tmp_path / "a.ckpt"
    state = {f"model.{name}": value for name, value in model.state_dict().items()}
    torch.save({"state_dict": state, "epoch": 3}, path)
    with pytest.raises(InputError, match="a pickle, which is not read unless you trust it"):
        read_weights(path)
    weights = read_weights(path, allow_pickle=True)
    assert weights.keys() == state.keys()
    with pytest.raises(InputError, match=r"it lacks '.*'; `prefix=model\.` would fit"):
        load_weights(net(), weights, "", "a.ckpt")
    other = net()
    load_weights(other, weights, "model.", "a.ckpt")
    assert all(torch.equal(v, other.state_dict()[k]) for k, v in model.state_dict().items())
    planted = tmp_path / "planted"
    (tmp_path / "b.ckpt").write_bytes(pickle.dumps({"state_dict": Planted(str(planted))}))
    torch.save({"state_dict": Planted(str(planted))}, tmp_path / "c.ckpt")
    for name in ("b.ckpt", "c.ckpt"):
        with pytest.raises(InputError, match="not only tensors and plain values"):
            read_weights(tmp_path / name, allow_pickle=True)
    assert not planted.exists()


def test_other_weights_than_the_models_are_refused(tmp_path: Path) -> None:
    weights = dict(net().state_dict())
    name = next(iter(weights))
    with pytest.raises(InputError, match=f"it lacks '{name}'"):
        load_weights(net(), {k: v for k, v in weights.items() if k != name}, "", "a")
    with pytest.raises(InputError, match="it has 'more'"):
        load_weights(net(), weights | {"more": torch.zeros(1)}, "", "a")
    with pytest.raises(InputError, match="size mismatch"):
        load_weights(net(), weights | {name: torch.zeros(1, 1)}, "", "a")
    (tmp_path / "x.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        read_weights(tmp_path / "x.safetensors")


# The record


def evaluated(folder: Path, loader: CheckpointLoader, **options: Any) -> list[Any]:
    pattern = str(folder / "ckpt-*")
    return list(evaluate_checkpoints(pattern, folder / "run", loader, **options))


def test_the_record_has_the_scores_of_every_model(tmp_path: Path) -> None:
    models = saved_models(tmp_path)
    evaluated(tmp_path, CheckpointLoader(net, DATA), trained=["a", "a", "b"], control=["c"])
    opened = perdure.open_run(tmp_path / "run")
    assert opened.finished
    assert opened.matrix is not None
    expected = [[accuracy(models[step], task) for task in "ab"] for step in (10, 200)]
    np.testing.assert_allclose(opened.matrix.scores, expected)
    assert opened.control is not None
    assert opened.control.scores[-1, 0] == pytest.approx(accuracy(models[200], "c"))
    summary = opened.summary()
    assert "bwt" in summary.intervals
    assert summary.undefined["retention"] == "c was not evaluated before training"
    assert "order of the checkpoints: by the step numbers in their names" in summary.notes


def test_the_model_before_training(tmp_path: Path) -> None:
    saved_models(tmp_path)
    torch.manual_seed(7)
    base = net()
    options: dict[str, Any] = {"trained": ["a", "a", "b"], "control": ["c"], "initial": "model"}
    evaluated(tmp_path, CheckpointLoader(lambda: base, DATA), **options)
    control = perdure.open_run(tmp_path / "run").control
    assert control is not None
    torch.manual_seed(7)
    assert control.initial[0] == pytest.approx(accuracy(net(), "c"))
    assert "retention" in perdure.score(tmp_path / "run").intervals


def test_an_interrupted_record_continues_and_new_checkpoints_are_added(tmp_path: Path) -> None:
    models = saved_models(tmp_path)
    loaded: list[str] = []

    def factory(path: Path) -> nn.Module:
        if path.name == broken:
            raise KeyboardInterrupt
        loaded.append(path.name)
        model = net()
        model.load_state_dict(read_weights(path))
        return model

    broken = "ckpt-10.safetensors"
    with pytest.raises(KeyboardInterrupt):
        evaluated(tmp_path, CheckpointLoader(factory, DATA))
    assert not perdure.open_run(tmp_path / "run").finished
    broken = ""
    found = evaluated(tmp_path, CheckpointLoader(factory, DATA))
    assert loaded == [f"ckpt-{step}.safetensors" for step in (5, 10, 200)]
    assert [one.result is None for one in found] == [True, False, False]
    save_file(models[5].state_dict(), tmp_path / "ckpt-300.safetensors")
    evaluated(tmp_path, CheckpointLoader(factory, DATA))
    assert loaded[3:] == ["ckpt-300.safetensors"]
    points = perdure.open_run(tmp_path / "run").points
    assert points is not None
    assert points.step.tolist() == [step for step in (5, 10, 200, 300) for _ in "abc"]
    other = tmp_path / "other"  # the record is that of an uninterrupted call
    list(evaluate_checkpoints(str(tmp_path / "ckpt-*"), other, CheckpointLoader(factory, DATA)))
    assert (other / "points.csv").read_bytes() == (tmp_path / "run/points.csv").read_bytes()
    assert (other / "per_example/0.full.bin").read_bytes() == (
        tmp_path / "run/per_example/0.full.bin"
    ).read_bytes()


def test_what_changed_is_not_mixed(tmp_path: Path) -> None:
    models = saved_models(tmp_path)
    loader = CheckpointLoader(net, DATA)
    evaluated(tmp_path, loader, trained=["a", "a", "b"])
    with pytest.raises(InputError, match=r"checkpoint 2 was .*trained on a.* now .*trained on b"):
        evaluated(tmp_path, loader, trained=["a", "b", "b"])
    save_file({"x": torch.zeros(3)}, tmp_path / "ckpt-5.safetensors")
    with pytest.raises(InputError, match="with other contents; choose another folder"):
        evaluated(tmp_path, loader, trained=["a", "a", "b"])
    save_file(models[10].state_dict(), tmp_path / "ckpt-5.safetensors")
    evaluated(tmp_path, loader, trained=["a", "a", "b"], restart=True)
    points = perdure.open_run(tmp_path / "run").points
    assert points is not None
    assert points.score[0] == pytest.approx(accuracy(models[10], "a"))


def test_a_run_of_something_else_is_never_replaced(tmp_path: Path) -> None:
    saved_models(tmp_path)
    with perdure.Log(tmp_path / "run") as log:
        log.add(1, "a", "a", score=0.5, kind="full")
    for restart in (False, True):
        with pytest.raises(InputError, match="holds a run of something else"):
            evaluated(tmp_path, CheckpointLoader(net, DATA), restart=restart)


@pytest.mark.slow  # two processes that import PyTorch
def test_several_processes_make_the_same_record(tmp_path: Path) -> None:
    saved_models(tmp_path)
    evaluated(tmp_path, CheckpointLoader(net, DATA), jobs=2)
    other = tmp_path / "other"
    list(evaluate_checkpoints(str(tmp_path / "ckpt-*"), other, CheckpointLoader(net, DATA)))
    assert (other / "points.csv").read_bytes() == (tmp_path / "run/points.csv").read_bytes()


def test_functions_that_other_processes_cannot_be_given(tmp_path: Path) -> None:
    saved_models(tmp_path)
    with pytest.raises(InputError, match=r"jobs is 2, and other processes .* use `jobs=1`"):
        evaluated(tmp_path, CheckpointLoader(lambda: net(), DATA), jobs=2)


# The command


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "own_checkpoints.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "own_checkpoints"
    sys.modules.pop("own_checkpoints", None)


def test_the_command(tmp_path: Path, module: str) -> None:
    models = saved_models(tmp_path)
    words = ["evaluate", "--checkpoints", "ckpt-*", "--model", f"{module}:net", "-o", "runs/x"]
    words += ["--tasks", f"{module}:tasks", "--trained", f"{module}:trained", "--device", "cpu"]
    answer = run(*words)
    assert answer.code == 0, answer.err
    assert "1/3 ckpt-5.safetensors: a " in answer.err
    assert "c (control)" in answer.out
    assert "order of the checkpoints: by the step numbers in their names" in answer.out
    again = run(*words, "--format", "json")
    assert "3/3 ckpt-200.safetensors: was evaluated before" in again.err
    rows = json.loads(again.out)["checkpoints"]
    assert [row["trained"] for row in rows] == ["b", "a", "b"]
    assert rows[-1]["scores"]["c"] == pytest.approx(accuracy(models[200], "c"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("--checkpoints", "none-*"), "--checkpoints is 'none-*', and there is no such file"),
        (("--trained", "a,b"), "2 tasks for 3 checkpoints, expected one per checkpoint"),
        (("--trained", "a,b,z"), "--trained is 'z', expected one of the tasks: a, b, c"),
        (("--control", "b", "--trained", "a,b,b"), "--control is 'b', which is trained as well"),
        (("--model", "own_checkpoints:nothing"), "has no 'nothing'"),
        (("--initial", "lost"), "--initial is 'lost', and there is no such file"),
        (("--prefix", "model."), "no weight's name begins with 'model.', as in --prefix"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, module: str, changed: tuple[str, ...], message: str
) -> None:
    saved_models(tmp_path)
    options = {"--checkpoints": "ckpt-*", "--model": f"{module}:net", "--tasks": f"{module}:tasks"}
    options |= dict(zip(changed[::2], changed[1::2], strict=True))
    answer = run("evaluate", "-o", "runs/x", *(word for pair in options.items() for word in pair))
    assert answer.code == 2
    assert message in answer.err.strip().splitlines()[-1]
