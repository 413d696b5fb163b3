"""What an evaluator takes: data and outputs of any form, each against a plain loop."""

from __future__ import annotations

import functools
import random
from collections import OrderedDict, UserDict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    SubsetRandomSampler,
    TensorDataset,
    default_collate,
    default_convert,
)

import perdure
from perdure import Evaluator

from .evaluator_helpers import (
    accuracy,
    check_scores,
    expected_lines,
    keys,
    learn,
    lines,
    net,
    rows,
    sets,
    subsets,
    watch,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLAN = [("a", 2), ("b", 2)]


class Pairs(Dataset[tuple[Tensor, int]]):
    """A map-style dataset with plain numbers as labels."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y
        self.asked: list[int] = []

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, k: int) -> tuple[Tensor, int]:
        self.asked.append(k)
        return self.x[k], int(self.y[k])


class Noisy(Pairs):
    """Draws from every global generator: a random transform as people write them."""

    def __getitem__(self, k: int) -> tuple[Tensor, int]:
        noise = random.random() + np.random.rand() + float(torch.rand(()))  # noqa: NPY002
        return self.x[k] + 0 * noise, int(self.y[k])


class Dicts(Pairs):
    """Examples as dictionaries."""

    def __getitem__(self, k: int) -> Any:
        return {"x": self.x[k], "labels": int(self.y[k])}


class Streamed(IterableDataset[Any]):
    """Examples without a length, which can be gone through again and again."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __iter__(self) -> Any:
        return zip(self.x, self.y.tolist(), strict=True)


class Columns:
    """Rows as Hugging Face's datasets return them: dicts of lists and numbers."""

    column_names = ("x", "label")

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x.tolist(), y.tolist()

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, k: int) -> dict[str, Any]:
        return {"x": self.x[k], "label": self.y[k]}


def stacked(items: list[Any]) -> dict[str, Tensor]:
    """Collate rows of lists, as Hugging Face's default_data_collator does."""
    label = "label" if "label" in items[0] else "labels"
    return {
        "x": torch.tensor([item["x"] for item in items]),
        "labels": torch.tensor([item[label] for item in items]),
    }


def halved(items: list[Any]) -> dict[str, Tensor]:
    """Collate pairs into a dictionary, inputs halved: a collate_fn decides what comes out."""
    x, y = default_collate(items)
    return {"target": y, "x": x / 2}


FORMS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "tensors": lambda x, y: (x, y),
    "a list of two tensors": lambda x, y: [x, y],
    "arrays": lambda x, y: (x.numpy(), y.numpy()),
    "small labels": lambda x, y: (x, y.to(torch.uint8)),
    "a dict": lambda x, y: {"x": x, "labels": y},
    "a dict of arrays": lambda x, y: {"label": y.numpy(), "x": x.numpy()},
    "TensorDataset": TensorDataset,
    "TensorDataset with more": lambda x, y: TensorDataset(x, y, y),
    "Dataset": Pairs,
    "Dataset of dicts": Dicts,
    "examples in a list": lambda x, y: [(a, int(b)) for a, b in zip(x, y, strict=True)],
    "DataLoader": lambda x, y: DataLoader(TensorDataset(x, y), batch_size=3),
    "shuffled DataLoader": lambda x, y: DataLoader(Pairs(x, y), batch_size=4, shuffle=True),
    "DataLoader with collate_fn": lambda x, y: DataLoader(Pairs(2 * x, y), collate_fn=halved),
    "lists in a list": lambda x, y: [*zip(x.tolist(), y.tolist(), strict=True)],
    "IterableDataset": Streamed,
    "DataLoader of an IterableDataset": lambda x, y: DataLoader(Streamed(x, y), batch_size=4),
    "rows as dicts of lists": Columns,
    "rows with collate": lambda x, y: perdure.EvalTask(Columns(x, y), collate=stacked),
    "columns with collate": lambda x, y: perdure.EvalTask(
        {"x": x.tolist(), "labels": y.tolist()}, collate=stacked
    ),
    "pairs with collate": lambda x, y: perdure.EvalTask((2 * x, y), collate=halved),
    "DataLoader with another collate": lambda x, y: perdure.EvalTask(
        DataLoader(Pairs(2 * x, y), collate_fn=str), collate=halved
    ),
    "factory of a stream": lambda x, y: lambda: Streamed(x, y),
    "factory of tensors": lambda x, y: lambda: (x, y),
    "factory of a Dataset": lambda x, y: functools.partial(Pairs, x, y),
    "factory of a DataLoader": lambda x, y: lambda: DataLoader(Dicts(x, y)),
}


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The subsets of plain tensors: what the examples come wrapped in does not change them."""
    folder = tmp_path_factory.mktemp("plain")
    with Evaluator(sets("ab"), record=folder, subset=7, count_flops=False) as evaluator:
        watch(evaluator, net(), PLAN)
    return {name: indices.tolist() for name, indices in subsets(folder).items()}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("subset", [None, 7])
def test_every_form_of_data_gives_the_scores_of_a_plain_loop(
    tmp_path: Path, form: str, subset: int | None, chosen: dict[str, Any]
) -> None:
    data = sets("ab")
    wrapped = {name: FORMS[form](*pair) for name, pair in data.items()}
    with Evaluator(wrapped, record=tmp_path, subset=subset, count_flops=False) as evaluator:
        copies = watch(evaluator, net(), PLAN)
    assert keys(tmp_path) == expected_lines(PLAN, lambda *_: True)
    check_scores(tmp_path, copies, data, subset)
    if subset:
        assert {name: indices.tolist() for name, indices in subsets(tmp_path).items()} == chosen


def test_labels_in_a_plain_list(tmp_path: Path) -> None:
    x, y = rows()
    with Evaluator({"a": (x, y.tolist())}, record=tmp_path) as evaluator:
        copies = watch(evaluator, net(), [("a", 2)])
    check_scores(tmp_path, copies, {"a": (x, y)}, None)


def test_a_dataloader_with_a_sampler_is_its_samples(tmp_path: Path) -> None:
    x, y = rows()
    mine = [2, 3, 5, 7, 11, 13]
    loader = DataLoader(TensorDataset(x, y), sampler=SubsetRandomSampler(mine))
    with Evaluator({"a": loader}, record=tmp_path) as evaluator:
        copies = watch(evaluator, net(), [("a", 2)])
    check_scores(tmp_path, copies, {"a": (x[mine], y[mine])}, None)


def test_a_list_of_tasks_has_numbers_for_names(tmp_path: Path) -> None:
    data = sets("01")
    with Evaluator(list(data.values()), record=tmp_path) as evaluator:
        copies = watch(evaluator, net(), [("0", 2), ("1", 2)])
    check_scores(tmp_path, copies, data, None)
    with Evaluator({0: data["0"], 1: data["1"]}, count_flops=False) as evaluator:
        model = net()
        with evaluator.task(1, model):
            evaluator.step(model)
        assert evaluator.live.task == "1"


def test_a_factory_is_called_once_and_only_when_needed() -> None:
    called: list[str] = []

    def factory(name: str) -> Any:
        called.append(name)
        return rows(seed=ord(name))

    tasks = {name: functools.partial(factory, name) for name in "abc"}
    model = net()
    with Evaluator(tasks, initial="none", subset=5) as evaluator:
        assert called == []
        evaluator.add_task("d", functools.partial(factory, "d"))
        watch(evaluator, model, [("a", 2)])
        assert called == ["a"]
        watch(evaluator, model, [("b", 2), ("a", 1)])
        assert called == ["a", "b"]
    evaluator.summary()
    assert called == ["a", "b"]  # c and d were never learned


def test_a_dataset_is_asked_only_for_the_subset_while_training() -> None:
    data = Pairs(*rows(50))
    model = net()
    with (
        Evaluator({"a": data}, subset=5, count_flops=False) as evaluator,
        evaluator.task("a", model),
    ):
        for _ in range(4):
            learn(model)
            evaluator.step(model)
        assert len(set(data.asked) - {49}) == 5  # the last one was read as a check, once
        assert data.asked.count(49) == 1
        assert len(data.asked) <= 10, "the subset is read once on entering and once for the probes"


def test_a_subset_is_read_once_however_many_tasks_follow() -> None:
    """Reading images again at every switch would cost more than testing them."""
    data = {name: Pairs(*rows(30, seed=k)) for k, name in enumerate("abc")}
    with Evaluator(data, subset=5, initial="none", count_flops=False) as evaluator:
        watch(evaluator, net(), [("a", 2), ("b", 2), ("c", 2)])
    whole = {"a": 3, "b": 2, "c": 1}  # ends of tasks
    assert {name: len(mine.asked) for name, mine in data.items()} == {
        name: 1 + 5 + 30 * ends  # the last example was read as a check
        for name, ends in whole.items()
    }


def test_a_random_transform_is_drawn_once_for_the_subset() -> None:
    """Another crop after a switch would look like forgetting."""

    class Cropped(Pairs):
        def __getitem__(self, k: int) -> tuple[Tensor, int]:
            return self.x[k] + random.random(), int(self.y[k])

    seen: dict[str, set[float]] = {}

    def score(model: nn.Module, x: Tensor, y: Tensor, task: str) -> Tensor:
        if len(y) == 5:
            seen.setdefault(task, set()).add(float(x.sum()))
        return y == 1

    data = {name: Cropped(*rows(30, seed=k)) for k, name in enumerate("abc")}
    with Evaluator(data, subset=5, score=score, count_flops=False) as evaluator:
        watch(evaluator, net(), [("a", 2), ("b", 2), ("c", 2)])
    assert {task: len(values) for task, values in seen.items()} == {"a": 1, "b": 1, "c": 1}


def drawn_after(learning: Callable[[nn.Module], None]) -> tuple[float, ...]:
    """Return what the global generators give after `learning`."""
    model = net()
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    learning(model)
    return random.random(), np.random.rand(), float(torch.rand(()))  # noqa: NPY002


@pytest.mark.parametrize(
    "how", [{}, {"subset": 5}, {"subset": perdure.Subset(5, resample=True), "every": 2}]
)
@pytest.mark.parametrize("meter", [False, True])
def test_random_transforms_leave_the_generators_alone(how: dict[str, Any], meter: bool) -> None:
    data = {"a": Noisy(*rows()), "b": lambda: Noisy(*rows(seed=1))}

    def watched(model: nn.Module) -> None:
        evaluator = Evaluator(data, initial="all", count_flops=meter, **how)
        watch(evaluator, model, [("a", 2), ("b", 2)])

    def alone(model: nn.Module) -> None:
        for _ in range(4):
            learn(model)

    assert drawn_after(watched) == drawn_after(alone)


def test_training_data_with_random_transforms_too() -> None:
    def watched(model: nn.Module) -> None:
        evaluator = Evaluator({"a": rows()})
        with evaluator.task("a", model, train_data=Noisy(*rows())):
            learn(model)
            evaluator.step(model)

    assert drawn_after(watched) == drawn_after(learn)


class TwoInputs(nn.Module):
    """A model of two inputs, by position or by name."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(2, 3)

    def forward(self, left: Tensor, right: Tensor, scale: Tensor | None = None) -> Tensor:
        found: Tensor = self.first(left) - self.second(right)
        return found if scale is None else found * scale[:, None]


@pytest.mark.filterwarnings("ignore:the first step is counted before")
@pytest.mark.parametrize("subset", [None, 6])
@pytest.mark.parametrize("way", ["tuple", "dict", "Dataset of dicts", "dict dataset with y"])
def test_several_inputs(tmp_path: Path, way: str, subset: int | None) -> None:
    x, y = rows()
    left, right = x, x[:, :2].clone()
    examples = [
        {"left": a, "right": b, "targets": int(c)} for a, b, c in zip(left, right, y, strict=True)
    ]
    data: Any = {
        "tuple": ((left, right), y),
        "dict": ({"right": right, "left": left}, y),
        "Dataset of dicts": examples,
        "dict dataset with y": {"left": left, "right": right, "y": y},
    }[way]
    torch.manual_seed(0)
    model = TwoInputs()
    with (
        Evaluator({"a": data, "b": data}, record=tmp_path, subset=subset) as evaluator,
        evaluator.task("a", model),
    ):
        evaluator.add_task("late", data, evaluate_now=True)
        cross_entropy(model(left, right), y).backward()
        evaluator.step(model)
    chosen = subsets(tmp_path)
    for line in lines(tmp_path):
        at = chosen[line.tested] if line.kind != "full" else np.arange(len(y))
        mine = accuracy(model, (left[at], right[at]), y[at], lambda m, pair: m(*pair))
        assert (line.score, line.n) == (mine, len(at))


class Output(NamedTuple):
    """As Hugging Face's models answer, with the loss first."""

    loss: Tensor
    logits: Tensor


class Wrapped(nn.Module):
    """A model whose class scores are wrapped."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.net, self.way = net(), way

    def forward(self, x: Tensor) -> Any:
        logits = self.net(x)
        return {
            "attribute": Output(torch.zeros(()), logits),
            "dict": {"loss": torch.zeros(()), "logits": logits},
            "ordered dict": OrderedDict(logits=logits),
            "tuple": (logits, torch.zeros(9, 9)),
            "list": [logits],
        }[self.way]


@pytest.mark.parametrize("way", ["attribute", "dict", "ordered dict", "tuple", "list"])
def test_outputs_that_hold_the_class_scores(tmp_path: Path, way: str) -> None:
    x, y = rows()
    model = Wrapped(way)
    with Evaluator({"a": (x, y)}, record=tmp_path) as evaluator, evaluator.task("a", model):
        learn(model.net)
        evaluator.step(model)
    assert lines(tmp_path)[1].score == accuracy(model.net, x, y)


def test_batches_of_a_mapping_that_is_no_dict(tmp_path: Path) -> None:
    """Hugging Face's collators return BatchEncoding, a UserDict."""
    x, y = rows()

    def collate(items: list[Any]) -> UserDict[str, Tensor]:
        return UserDict(default_collate(items))

    loader = DataLoader(Dicts(x, y), collate_fn=collate)
    with Evaluator({"a": loader}, record=tmp_path) as evaluator:
        copies = watch(evaluator, net(), [("a", 2)])
    check_scores(tmp_path, copies, {"a": (x, y)}, None)


class Pooling(nn.Module):
    """Takes images of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 2), nn.ReLU(), nn.Conv2d(8, 3, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).mean((2, 3))  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore:the first step is counted before")
def test_tasks_of_other_shapes_and_types_go_by_themselves(tmp_path: Path) -> None:
    rng = torch.Generator().manual_seed(0)
    data = {
        name: (torch.rand(9, 1, size, size, generator=rng), torch.arange(9).to(kind) % 3)
        for name, size, kind in [
            ("a", 4, torch.int64), ("b", 4, torch.int64), ("c", 6, torch.int64),
            ("d", 4, torch.int32), ("e", 4, torch.int64),
        ]
    }  # fmt: skip
    torch.manual_seed(0)
    model = Pooling()
    with Evaluator(
        data, record=tmp_path, executor=perdure.Inline(batch_size=4), initial="none"
    ) as evaluator:
        for task in data:
            with evaluator.task(task, model):
                cross_entropy(model(data[task][0]), data[task][1].long()).backward()
                evaluator.step(model)
    found = {line.tested: line.score for line in lines(tmp_path) if line.kind == "probe"}
    assert found == {name: accuracy(model, *pair) for name, pair in data.items()}
    assert len(set(found.values())) > 1


# Rows of unequal length, and streams


RAGGED = [[1.0, 2.0], [3.0, 4.0, 5.0], [6.0]]
SPLITS = {"train": Columns(*rows()), "test": Columns(*rows())}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([{"x": row, "labels": 0} for row in RAGGED], r"rows have 1 to 3 numbers.*collate=…"),
        ({"x": RAGGED, "labels": [0, 1, 2]}, r"rows have 1 to 3 numbers.*collate=…"),
        ((RAGGED, [0, 1, 2]), r"rows have 1 to 3 numbers.*DataCollatorWithPadding"),
        (([torch.tensor(row) for row in RAGGED], [0, 1, 2]), r"tensors of 1 to 3 rows.*collate=…"),
        (SPLITS, r"dict of the datasets \['test', 'train'\], expected one of them"),
        (iter([(torch.zeros(4), 0)]), r"data is list_iterator, expected tensors"),
        (perdure.EvalTask(Pairs(*rows()), collate=lambda items: 1 / 0), None),
        (
            perdure.EvalTask(Columns(*rows()), collate=default_convert),
            "batch is tuple without labels",
        ),
        (perdure.EvalTask(Columns(*rows()), collate=torch.tensor), r"remove_columns\(\[…\]\)"),
    ],
    ids=["rows", "dict", "pair", "tensors", "splits", "iterator", "error", "no batch", "text"],
)
def test_examples_that_form_no_batch(data: Any, words: str | None) -> None:
    """All of them before the first task is trained, in one line."""
    with pytest.raises((TypeError, ValueError, ZeroDivisionError), match=words) as error:
        Evaluator({"fine": rows(), "bad": data})
    assert words is None or str(error.value).startswith("task 'bad': ")
    assert "\n" not in str(error.value)


def test_a_stream_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.evaluation import eval_data

    monkeypatch.setattr(eval_data, "MAX_STREAMED", 20)
    Evaluator({"a": Streamed(*rows(20))})
    with pytest.raises(ValueError, match=r"'a': Streamed is a stream of more than 20 .*islice"):
        Evaluator({"a": Streamed(*rows(21))})


def test_a_collate_function_has_to_be_one() -> None:
    with pytest.raises(TypeError, match="collate is 'pad', expected a function"):
        perdure.EvalTask(rows(), collate="pad")  # type: ignore[arg-type]
    assert "halved" in repr(perdure.EvalTask(rows(), collate=halved))


def test_each_batch_is_padded_by_itself() -> None:
    """Padding a subset to its longest row would cost as much as a set of such rows."""
    seen: list[tuple[int, ...]] = []
    lengths = [2] * 8 + [5] * 8 + [3] * 4

    def pad(items: list[Any]) -> dict[str, Tensor]:
        long = max(len(item["ids"]) for item in items)
        ids = [item["ids"] + [0] * (long - len(item["ids"])) for item in items]
        return {
            "ids": torch.tensor(ids),
            "labels": torch.tensor([item["labels"] for item in items]),
        }

    def forward(model: Any, x: dict[str, Tensor]) -> Tensor:
        seen.append(tuple(x["ids"].shape))
        return x["ids"][:, :2].float()

    data = [{"ids": [1] * length, "labels": 0} for length in lengths]
    task, executor = perdure.EvalTask(data, collate=pad), perdure.Inline(batch_size=8)
    with Evaluator(
        {"a": task}, forward=forward, executor=executor, count_flops=False, initial="none"
    ) as evaluator:
        evaluator.step(net())
    assert seen == [(8, 2), (8, 5), (4, 3)]
