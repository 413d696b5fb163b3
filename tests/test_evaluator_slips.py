"""Slips that used to give a wrong number or a foreign traceback: one line that says what to do."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset

from perdure import EvalTask, EvaluationWarning, Evaluator, Score

from .evaluator_helpers import learn, lines, net, rows, sets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X, Y = rows()


def message(function: Callable[[], Any]) -> str:
    """Return the one line of the error that `function` raises."""
    with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
        function()
    assert "\n" not in str(caught.value)
    return str(caught.value)


class Unequal(Dataset[Any]):
    """As many examples as x has, but fewer labels."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, k: int) -> Any:
        return X[k], Y[:10][k]


class Cases(Dataset[Any]):
    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, k: int) -> Any:
        return self.items[k]


BATCHES = list(DataLoader(TensorDataset(X, Y), 10))  # of 10, 10 and 1 examples
DATA: dict[str, tuple[Any, tuple[str, ...]]] = {
    "a Dataset with fewer labels": (Unequal(), ("'late'", "length of 21", "no example 20")),
    "its DataLoader": (DataLoader(Unequal(), 4), ("'late'", "Unequal", "label")),
    "a list of batches": (BATCHES, ("'late'", "3 batches", "pass the DataLoader itself")),
    "two batches": (BATCHES[:2], ("'late'", "2 batches", "pass the DataLoader itself")),
    "a tuple of batches": (tuple(BATCHES), ("'late'", "3 batches")),
    "inputs of other lengths": (((X, X[:4]), Y), ("'late'", "4 to 21 rows")),
    "labels in words": ((X, ["cat"] * 21), ("'late'", "list of str")),
    "labels in words of a Dataset": (Cases((X[0], "cat")), ("'late'", "of str", "class number")),
    "float labels of a Dataset": (Cases((X[0], 0.5)), ("'late'", "float64", "y.long()")),
    "swapped": ((Y, X), ("'late'", "expected (examples, labels)")),
    "a generator": ((pair for pair in [(X, Y)]), ("'late'", "generator", "DataLoader")),
    "no tensors": (Cases((object(), 0)), ("'late'", "do not form a batch", "collate_fn")),
    "a label without a class": (
        EvalTask((X, Y), classes=[0, 1]),
        ("'late'", "label 2", "classes [0, 1]"),
    ),
}


@pytest.mark.parametrize("what", DATA)
def test_data_of_a_later_task_is_refused_before_the_first_is_trained(what: str) -> None:
    data, words = DATA[what]
    line = message(lambda: Evaluator({"first": rows(), "late": data}))
    assert all(word in line for word in words), line


def test_data_behind_a_function_is_checked_when_it_is_needed() -> None:
    evaluator = Evaluator({"a": rows(), "late": lambda: BATCHES}, count_flops=False)
    model = net()
    with evaluator.task("a", model):
        learn(model)
        evaluator.step(model)
    assert "3 batches" in message(lambda: evaluator.begin("late", model))


def test_two_examples_are_no_pair_of_examples_and_labels(tmp_path: Path) -> None:
    model = net()
    examples = [(X[0], int(Y[0])), (X[1], int(Y[1]))]
    with Evaluator({"a": examples}, record=tmp_path, count_flops=False) as evaluator:
        evaluator.step(model)
    with torch.no_grad():
        right = (model.eval()(X[:2]).argmax(1) == Y[:2]).float().mean()
    assert [(line.n, line.score) for line in lines(tmp_path)] == [(2, float(right))]


@pytest.mark.parametrize("label", [7, -1])
def test_a_label_that_no_output_stands_for(label: int) -> None:
    """It used to count as wrong, and the accuracy could never be 1."""
    y = Y.clone()
    y[3] = label
    evaluator, model = Evaluator({"a": rows(), "b": (X, y)}, count_flops=False), net()
    for task in "a", "b":
        evaluator.begin(task, model)  # before the first step, the model may still get its outputs
        if task == "a":
            evaluator.step(model)
            evaluator.end()
    line = message(lambda: evaluator.step(model))
    assert f"task 'b' has label {label}" in line
    assert "3 outputs" in line
    assert "from 0 to 2" in line


def test_outputs_may_grow_with_the_tasks(tmp_path: Path) -> None:
    """Labels of tasks that were not trained yet may lie beyond the outputs."""
    data = {"a": rows(), "b": (X, Y + 3)}
    model = net()
    with Evaluator(data, record=tmp_path, unseen=True, count_flops=False) as evaluator:
        with evaluator.task("a", model):
            evaluator.step(model)
        with evaluator.task("b", model):
            model.head = nn.Linear(8, 6)
            evaluator.step(model)
    unseen = [line.score for line in lines(tmp_path) if line.tested == "b" and line.step == 1]
    assert set(unseen) == {0.0}


@pytest.mark.parametrize(
    ("alarm", "advice"),
    [
        ("min_acc < 60", "write 'min_acc < 0.6'"),
        ("wf10 > 25", "write 'wf10 > 0.25'"),
        ("min_acc < -0.1", "between 0 and 1"),
        ("current < 101", "between 0 and 1"),
        ("min_ac < 0.6", "did you mean min_acc"),
    ],
)
def test_an_alarm_that_no_score_can_trigger(alarm: str, advice: str) -> None:
    assert advice in message(lambda: Evaluator({"a": rows()}, alarm=alarm))


def test_the_limit_of_an_alarm_on_another_score_is_in_its_units() -> None:
    loss = Score(lambda model, x, y: torch.ones(len(y)), lower_is_better=True)
    Evaluator({"a": rows()}, score=loss, alarm="current > 60")


def train(
    evaluator: Evaluator, model: nn.Module, *, before_update: bool, scale: float = 1.0
) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        (scale * cross_entropy(model(X), Y)).backward()
        if before_update:
            evaluator.step(model)
        optimizer.step()
        if not before_update:
            evaluator.step(model)


def test_a_step_between_backward_and_the_update(tmp_path: Path) -> None:
    """Every score would belong to the step before; gradients left over from a step are fine."""
    for before_update in False, True:
        model = net()
        weights = copy.deepcopy(model.state_dict())
        with Evaluator(sets("ab"), count_flops=False) as evaluator, evaluator.task("a", model):
            if before_update:
                with pytest.warns(EvaluationWarning, match=r"after optimizer.step\(\)"):
                    train(evaluator, model, before_update=True)
            else:
                train(evaluator, model, before_update=False)
        alone = net()
        alone.load_state_dict(weights)
        train(Evaluator(sets("ab"), every=99, count_flops=False), alone, before_update=False)
        assert all(map(torch.equal, model.parameters(), alone.parameters()))


def test_updates_that_change_nothing_are_updates() -> None:
    """A learning rate that warms up from 0, and gradients that mixed precision skips."""
    for lr, scale in ((0.0, 1.0), (0.5, float("inf"))):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        with Evaluator(sets("ab"), count_flops=False) as evaluator, evaluator.task("a", model):
            (scale * cross_entropy(model(X), Y)).backward()
            if lr == 0:
                optimizer.step()
            evaluator.step(model)
        assert evaluator.notes == []


def test_gradient_norms_after_backward() -> None:
    model = net()
    evaluator = Evaluator(sets("a"), count_flops=False)
    loss = cross_entropy(model(X), Y)
    loss.backward()
    assert "call it before backward()" in message(lambda: evaluator.record_gradients(model, loss))
    number: Any = loss.item()
    assert "before .item()" in message(lambda: evaluator.record_gradients(model, number))


def restored(evaluator: Evaluator, model: nn.Module, where: str) -> None:
    """Train two tasks, and go back to the weights of the first step at the end of each."""
    for task in "ab":
        best: Any = None
        with evaluator.task(task, model):
            for _ in range(3):
                learn(model)
                evaluator.step(model)
                best = best or copy.deepcopy(model.state_dict())
            if where == "inside":
                model.load_state_dict(best)
        if where == "after":
            model.load_state_dict(best)
        elif where == "after, by data":
            for name, parameter in model.named_parameters():
                parameter.data.copy_(best[name])
        elif where == "declared":
            with evaluator.costs.count_as_training():
                model.load_state_dict(best)


@pytest.mark.parametrize("where", ["after", "after, by data"])
def test_weights_restored_after_a_task_are_reported(where: str) -> None:
    evaluator = Evaluator(sets("ab"), count_flops=False)
    with pytest.warns(EvaluationWarning, match="the end of 'a' and the start of 'b'"):
        restored(evaluator, net(), where)
    with pytest.warns(EvaluationWarning, match="restore weights inside the task block"):
        evaluator.close()
    assert len(evaluator.notes) == 2


@pytest.mark.parametrize("where", ["inside", "declared", "nowhere"])
def test_weights_restored_where_the_record_sees_it(where: str) -> None:
    with Evaluator(sets("ab"), count_flops=False) as evaluator:
        restored(evaluator, net(), where)
    assert evaluator.notes == []


def test_outputs_that_are_no_numbers_are_wrong(tmp_path: Path) -> None:
    """argmax takes NaN for the largest: they used to count as class 0."""
    x, y = X.clone(), torch.zeros_like(Y)
    x[:7] = float("nan")
    model = nn.Linear(4, 3)
    with torch.no_grad():
        model.bias[0] = 1e6  # predicts class 0, which is right
    evaluator = Evaluator({"a": (x, y)}, record=tmp_path, count_flops=False)
    with pytest.warns(EvaluationWarning, match="NaN for examples of 'a'"):
        evaluator.begin("a", model)
    evaluator.step(model)
    evaluator.end()
    assert {line.score for line in lines(tmp_path)} == {14 / 21}


class Outputs(nn.Module):
    def __init__(self, shape: Callable[[Tensor, Tensor], object]) -> None:
        super().__init__()
        self.layer, self.shape = nn.Linear(4, 3), shape

    def forward(self, x: Tensor) -> object:
        return self.shape(self.layer(x), x)


@pytest.mark.parametrize("first", ["scores", "features"])
def test_which_of_several_outputs_are_the_class_scores_is_not_guessed(first: str) -> None:
    model = Outputs(lambda scores, x: (scores, x) if first == "scores" else (x, scores))
    refused = message(lambda: Evaluator({"a": rows()}).begin("a", model))
    assert "2 outputs of shapes (21, " in refused
    assert "forward=lambda model, x: model(x)[0]" in refused


def test_outputs_in_a_dict_without_logits() -> None:
    named = Outputs(lambda scores, x: {"out": scores})
    evaluator = Evaluator({"a": rows()}, count_flops=False)
    assert "a dict with 'out'" in message(lambda: evaluator.step(named))


def test_examples_in_a_dict_for_a_model_that_takes_one_tensor() -> None:
    evaluator = Evaluator({"a": {"image": X, "y": Y}}, count_flops=False)
    with pytest.raises(TypeError, match="unexpected keyword argument") as caught:
        evaluator.begin("a", net())
    assert "pass (x, y) if the model takes one tensor" in caught.value.__notes__[0]


@pytest.mark.parametrize("data", [(X.double(), Y), Cases(*zip(X.double(), Y, strict=True))])
@pytest.mark.parametrize("initial", ["entered", "none"])
def test_examples_of_another_type_than_the_weights(data: Any, initial: Any) -> None:
    evaluator = Evaluator({"a": data}, count_flops=False, initial=initial)
    model = net()

    def first_evaluation() -> None:
        evaluator.begin("a", model)
        evaluator.step(model)

    with pytest.raises(TypeError) as caught:
        first_evaluation()
    assert "'a': its examples are torch.float64" in str(caught.value)
    assert "x.to(torch.float32)" in str(caught.value)
    assert not hasattr(caught.value, "__notes__")
    assert caught.value.__suppress_context__  # or PyTorch's traceback would come first


def test_a_failure_that_has_nothing_to_do_with_types_is_kept() -> None:
    """Tokens are integers and the weights are not, as it should be."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Embedding(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("mine")

    evaluator = Evaluator({"a": (Y, Y)}, count_flops=False)
    with pytest.raises(RuntimeError, match="mine"):
        evaluator.begin("a", Model())


class Ensemble(nn.Module):
    """A wrapper with weights of its own next to those of a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.scale = model, nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Any:
        return self.model(x) * self.scale


def test_another_model_in_step_than_in_task() -> None:
    evaluator = Evaluator(sets("ab"), count_flops=False)
    model = net()
    with evaluator.task("a", model):
        evaluator.step(Ensemble(model))  # shares its weights
        evaluator.step(lambda x: model(x))
    with evaluator.task("b"):  # no model is named
        evaluator.step(model)
    evaluator = Evaluator(sets("ab"), count_flops=False)
    evaluator.begin("a", model)
    line = message(lambda: evaluator.step(net()))
    assert "another model than task 'a' began with" in line
    assert "an evaluator each" in line


CALLS: dict[str, tuple[Callable[[Evaluator], Any], tuple[str, ...]]] = {
    "a misspelt task": (lambda e: e.begin("digit 0-1", net()), ("did you mean digits 0-1?",)),
    "the model first": (lambda e: e.task(net(), "a"), ("Net", "evaluator.task(name, model)")),  # type: ignore[arg-type]
    "a class": (lambda e: e.begin("a", type(net())), ("the class Net", "Net(…)")),
    "a class in step": (lambda e: e.step(type(net())), ("the class Net", "Net(…)")),
    "a summary of nothing": (lambda e: e.summary(), ("no evaluations", "evaluator.step(model)")),
    "no data at all": (lambda _: Evaluator().step(net()), ("no evaluation data", "add_task")),
    "a score of two": (
        lambda _: Evaluator(score=lambda x, y: x),
        ("score is a function of (x, y)", "(model, x, y)"),
    ),
    "a forward of one": (
        lambda _: Evaluator(forward=lambda x: x),
        ("forward is a function of (x)", "(model, x)"),
    ),
    "no name of a folder": (lambda _: Evaluator(record=" "), ("record is ' '", "a folder")),
    "class names by number": (
        lambda _: Evaluator(config={"class_names": {0: "cat"}}),
        ("config['class_names'] is {0: 'cat'}", "a list with the name of each class"),
    ),
    "the number of a run": (lambda _: Evaluator(record=3), ("record is 3", "'runs/mine'")),  # type: ignore[arg-type]
    "a config in words": (lambda _: Evaluator(config="mine"), ("config is 'mine'", "a dict")),  # type: ignore[arg-type]
    "a class of data": (lambda _: Evaluator({"a": Unequal}), ("the class Unequal", "Unequal(…)")),
    "an option of a task": (
        lambda _: Evaluator({"a": rows()}, classes=[0, 1]),  # type: ignore[arg-type]
        ("no argument 'classes'", "perdure.EvalTask(…, classes=…)"),
    ),
    "an option of both executors": (
        lambda _: Evaluator({"a": rows()}, batch_size=7),  # type: ignore[arg-type]
        ("perdure.Inline(…, batch_size=…) or perdure.Worker(…, batch_size=…)",),
    ),
    "a misspelt argument": (
        lambda _: Evaluator({"a": rows()}, recrod="runs"),  # type: ignore[arg-type]
        ("no argument 'recrod'", "did you mean record?"),
    ),
    "a name for a numbered task": (
        lambda _: Evaluator([rows(), rows()]).begin("10", net()),
        ("'10' has no evaluation data, expected a number, 0 to 1", "a dict to name them"),
    ),
    "a list of x and y": (lambda _: Evaluator([X, Y]), ("(x, y)", "{name: (x, y)}")),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_call_that_cannot_be(what: str) -> None:
    call, words = CALLS[what]
    evaluator = Evaluator({"a": rows(), "digits 0-1": rows()}, count_flops=False)
    line = message(lambda: call(evaluator))
    assert all(word in line for word in words), line


def test_the_number_of_a_task_may_be_a_tensor() -> None:
    model = net()
    evaluator = Evaluator([rows()], count_flops=False)
    with evaluator.task(torch.tensor(0), model):
        evaluator.step(model)
    assert evaluator.live.task == "0"


def test_warnings_point_to_a_line_of_a_script() -> None:
    """Whose frame is the outermost one."""
    script = (
        "import perdure, torch\n"
        "model = torch.nn.Linear(4, 3)\n"
        "evaluator = perdure.Evaluator({'a': (torch.eye(4), torch.tensor([0, 1, 2, 0]))})\n"
        "evaluator.begin('a', model)\n"
        "evaluator.end()\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stderr
    assert said.startswith("<string>:5: EvaluationWarning: task 'a' ended without a step")


def test_warnings_point_to_the_line_of_the_user() -> None:
    evaluator = Evaluator({"a": rows()}, count_flops=False)
    with (
        pytest.warns(EvaluationWarning, match="ended without a step") as caught,
        evaluator.task("a", net()),
    ):
        pass
    assert caught[0].filename == __file__
