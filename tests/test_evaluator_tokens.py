"""Scores of language models by name, against plain loops over tokens; and their memory."""

from __future__ import annotations

import copy
import json
import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

import perdure
from perdure import EvalTask, Evaluator, Inline, Score, Worker

from .evaluator_helpers import lines, net, rows, subsets, watch
from .language_models import IGNORED, VOCABULARY, Llama, loss, pad, text, true_scores

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = ["nll", "perplexity", "token_accuracy", "exact_match"]


def learn(
    evaluator: Evaluator | None, tasks: dict[str, Any], model: nn.Module, steps: int = 3
) -> dict[int, nn.Module]:
    """Train tasks in turn; return a copy of the model after each step."""
    optimizer, copies = torch.optim.Adam(model.parameters(), 0.02), {0: copy.deepcopy(model)}
    for name, examples in tasks.items():
        with evaluator.task(name, model) if evaluator else nullcontext():
            for _ in range(steps):
                optimizer.zero_grad()
                loss(model, pad(examples)).backward()
                optimizer.step()
                copies[len(copies)] = copy.deepcopy(model)
                if evaluator:
                    evaluator.step(model)
    return copies


def llama() -> Llama:
    torch.manual_seed(0)
    return Llama()


@pytest.mark.parametrize(
    ("name", "executor"),
    [
        ("nll", Inline()),
        ("perplexity", Inline(batch_size=3)),
        ("token_accuracy", Worker()),
        ("exact_match", Inline()),
        ("nll", Worker(verify_every=1)),
    ],
    ids=["nll", "perplexity", "token_accuracy", "exact_match", "verified"],
)
def test_scores_are_those_of_a_loop_over_tokens(tmp_path: Path, name: Any, executor: Any) -> None:
    """Rows of unequal length, two tasks, subsets and whole sets, every row of the record."""
    data = {"a": text(0), "b": text(1, count=11)}
    for example in data["b"]:  # a prompt that does not count
        example["labels"] = [IGNORED] * (len(example["input_ids"]) // 2) + example["input_ids"][
            len(example["input_ids"]) // 2 :
        ]
    tasks = {key: EvalTask(examples, collate=pad, ids=range(100, 100 + len(examples)))
             for key, examples in data.items()}  # fmt: skip
    with Evaluator(
        tasks, score=name, subset=9, executor=executor, record=tmp_path, count_flops=False
    ) as evaluator:
        copies = learn(evaluator, data, llama(), steps=7 if name == "exact_match" else 2)
    with Evaluator({key: rows(len(examples)) for key, examples in data.items()}, subset=9,
                   record=tmp_path / "same", unseen=True) as other:  # fmt: skip
        watch(other, net(), [("a", 1)])  # the choice depends on the name and the length
    chosen = {key: at.tolist() for key, at in subsets(tmp_path / "same").items()}
    recorded = lines(tmp_path)
    assert {line.kind for line in recorded} == {"initial", "probe", "full"}
    for line in recorded:
        examples = data[line.tested]
        if line.kind != "full":
            examples = [examples[k] for k in chosen[line.tested]]
        assert line.n == len(examples)
        expected = true_scores(copies[line.step], examples)[name]
        assert line.score == pytest.approx(expected, rel=1e-5), line
    assert len({line.score for line in recorded}) > 3
    scale = json.loads((tmp_path / "run.json").read_text())["scale"]
    assert scale["name"] == name
    assert scale["lower_is_better"] == (name in ("nll", "perplexity"))
    assert (tmp_path / "per_example").exists() == (name == "exact_match")


def test_perplexity_weighs_tokens_not_examples(tmp_path: Path) -> None:
    examples, model = text(0), llama()
    with Evaluator({"a": EvalTask(examples, collate=pad)}, score="perplexity") as evaluator:
        evaluator.step(model)
    each = [true_scores(model, [example])["perplexity"] for example in examples]
    wrong = sum(each) / len(each)
    assert abs(wrong - true_scores(model, examples)["perplexity"]) > 1e-3
    assert evaluator.live.tasks["a"].score == pytest.approx(
        -true_scores(model, examples)["perplexity"], rel=1e-5
    )


def padded(**changes: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    batch = pad(text(0))
    return {key: changes[key](value) if key in changes else value for key, value in batch.items()}


def previous(labels: Tensor) -> Tensor:
    """Return labels that are shifted already: those of the next token."""
    return torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], IGNORED)], 1)


@pytest.mark.parametrize(
    ("data", "shift", "recorded", "is_next"),
    [
        (padded(), None, {"a": True}, True),
        (padded(), True, None, True),
        (padded(labels=previous), None, {"a": False}, True),
        (padded(labels=previous), False, None, True),
        (padded(), False, None, False),
        (padded(labels=lambda labels: labels.clamp_max(3)), None, {"a": False}, False),
    ],
    ids=["inputs", "stated", "shifted before", "stated as well", "not", "tags of tokens"],
)
def test_labels_are_shifted_where_they_are_the_inputs(
    tmp_path: Path, data: Any, shift: bool | None, recorded: Any, is_next: bool
) -> None:
    model = llama().eval()
    with Evaluator({"a": data}, score=Score("nll", shift=shift), record=tmp_path) as evaluator:
        evaluator.step(model)
    with torch.no_grad():
        logits = model(data["input_ids"], data["attention_mask"])["logits"]
        here = cross_entropy(logits.flatten(0, 1), data["labels"].flatten())
        expected = loss(model, pad(text(0))) if is_next else here
    assert lines(tmp_path)[0].score == pytest.approx(float(expected), rel=1e-5)
    described = json.loads((tmp_path / "run.json").read_text())["evaluation"]
    assert (described["score"], described["shift"]) == ("nll", shift)
    assert described.get("shifted") == recorded


def test_an_encoder_and_decoder_is_passed_the_labels_before_each_position(tmp_path: Path) -> None:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Linear(VOCABULARY, VOCABULARY)

        def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
            start = torch.zeros_like(labels[:, :1])
            return torch.cat([start, labels[:, :-1].clamp_min(0)], 1)

        def forward(self, input_ids: Tensor, decoder_input_ids: Tensor) -> Any:
            assert input_ids.shape[0] == decoder_input_ids.shape[0]
            return {"logits": self.table(torch.eye(VOCABULARY)[decoder_input_ids])}

    source, target = torch.randint(1, 9, (6, 4)), torch.randint(1, 9, (6, 7))
    torch.manual_seed(0)
    model = Decoder()
    data = {"input_ids": source, "labels": target}
    with Evaluator({"a": data}, score="nll", record=tmp_path) as evaluator:
        evaluator.step(model)
    with torch.no_grad():
        logits = model(source, model.prepare_decoder_input_ids_from_labels(target))["logits"]
    expected = float(cross_entropy(logits.flatten(0, 1), target.flatten()))
    assert lines(tmp_path)[0].score == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_one_label_per_row(tmp_path: Path, name: Any) -> None:
    x, y = rows(40)
    model = net().eval()
    ignored = y.clone()
    ignored[::5] = -1
    with Evaluator({"a": (x, ignored)}, score=Score(name, ignore_index=-1), record=tmp_path) as ev:
        ev.step(model)
    kept = ignored >= 0
    with torch.no_grad():
        logits = model(x[kept])
    nll = float(cross_entropy(logits, y[kept]))
    right = int((logits.argmax(1) == y[kept]).sum())
    count = len(y) if name == "exact_match" else int(kept.sum())  # no label: not matched
    expected = {"nll": nll, "perplexity": math.exp(nll)}.get(name, right / count)
    assert lines(tmp_path)[0].score == pytest.approx(expected, rel=1e-6)


class LargeTensors(TorchDispatchMode):
    """Follows how many elements of large tensors exist at a time, whoever made them."""

    def __init__(self, least: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.least, self.peak = least, 0
        self.made: list[tuple[StorageWeakRef, int]] = []

    @property
    def alive(self) -> int:
        self.made = [pair for pair in self.made if not pair[0].expired()]
        return sum({storage.cdata: size for storage, size in self.made}.values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        for part in output if isinstance(output, tuple | list) else [output]:
            if isinstance(part, Tensor) and part.numel() >= self.least:
                self.made.append((StorageWeakRef(part.untyped_storage()), part.numel()))
        self.peak = max(self.peak, self.alive)
        return output


@pytest.mark.parametrize("name", NAMES)
def test_logits_exist_for_one_batch_at_a_time(name: Any) -> None:
    """The vocabulary of a real model is large: logits of a set would not fit."""
    tokens, vocabulary, batch = 6, 1000, 4

    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(2, vocabulary)

        def forward(self, input_ids: Tensor) -> Any:
            return self.head(torch.stack([input_ids, input_ids], -1) / vocabulary)

    ids, model = torch.randint(vocabulary, (24, tokens)), Wide()
    data = {"a": {"input_ids": ids, "labels": ids}}
    with Evaluator(
        data, score=name, count_flops=False, executor=Inline(batch_size=batch)
    ) as evaluator:
        evaluator.begin("a", model)
        with LargeTensors(tokens * vocabulary // 2) as large:
            evaluator.step(model)
            evaluator.end()
    one = batch * tokens * vocabulary
    assert one <= large.peak <= 3 * one  # the outputs, and the same normalised
    assert large.alive == 0


def test_labels_without_an_output_and_labels_that_are_ignored() -> None:
    model, data = llama(), padded()
    wrong = {**data, "labels": data["labels"].clamp_min(-1)}
    with pytest.raises(ValueError, match=r"label -1, but the model has 13 outputs.*ignore_index=…"):
        Evaluator({"a": wrong}, score="nll", count_flops=False).step(model)
    Evaluator({"a": wrong}, score=Score("nll", ignore_index=-1), count_flops=False).step(model)
    nothing = {**data, "labels": torch.full_like(data["labels"], IGNORED)}
    with pytest.raises(ValueError, match="no label counts, all are ignored"):
        Evaluator({"a": nothing}, score="perplexity", count_flops=False).step(model)
    some = {**data, "labels": data["labels"].clone()}
    some["labels"][:2] = IGNORED
    with pytest.warns(perdure.EvaluationWarning, match="2 examples of 'a' have no label to match"):
        Evaluator({"a": some}, score="exact_match", count_flops=False).begin("a", model)


def test_outputs_that_do_not_fit_the_labels() -> None:
    data = padded()
    with pytest.raises(
        TypeError, match=r"labels of task 'a' are \(8, 9\).*outputs \(8, 9, 2, 13\)"
    ):
        Evaluator(
            {"a": data}, score="nll",
            forward=lambda model, x: model(**x)["logits"].unsqueeze(2).expand(-1, -1, 2, -1),
        ).step(llama())  # fmt: skip
    with pytest.raises(TypeError, match=r"returned \(8,\), expected logits .rows, tokens, vocab"):
        Evaluator({"a": data}, score="nll", forward=lambda _, x: x["input_ids"][:, 0]).begin(
            "a", llama()
        )


def test_a_forward_function_returns_the_logits(tmp_path: Path) -> None:
    model, data = llama().eval(), padded()
    with Evaluator(
        {"a": data}, score="nll", record=tmp_path, forward=lambda m, x: (m(**x)["logits"], None)
    ) as evaluator:
        evaluator.step(model)
    assert lines(tmp_path)[0].score == pytest.approx(loss(model, data).item(), rel=1e-6)


def test_names_and_options_that_do_not_exist() -> None:
    for score, words in [
        ("perplexty", r"score is 'perplexty', did you mean perplexity\?"),
        (3, "score is 3, expected a function of .model, x, y. or one of nll"),
    ]:
        with pytest.raises((TypeError, ValueError), match=words):
            Evaluator({"a": rows()}, score=score)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="range and direction of 'nll' are known"):
        Score("nll", lower_is_better=True)
    for options in ({"shift": True}, {"ignore_index": 0}):
        with pytest.raises(ValueError, match="ignore_index and shift are for nll, perplexity"):
            Score(None, **options)
    with pytest.raises(TypeError, match="ignore_index is None, expected an integer"):
        Score("nll", ignore_index=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="classes are for accuracy"):
        Evaluator({"a": EvalTask(rows(), classes=[0, 1, 2])}, score="nll")
    assert Score("accuracy") == Score(None)
    assert Score("nll", name="loss").named_scale.label == "loss"
