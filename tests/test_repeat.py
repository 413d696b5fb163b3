"""perdure.repeat: a function of the seed in, a summary with intervals over seeds out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.stats

import perdure
from perdure.record import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]


def train(seed: int) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    return [[0.9], [0.6 + rng.uniform(0, 0.1), 0.85]]


def test_means_and_intervals_are_those_of_the_seeds() -> None:
    result = perdure.repeat(train, seeds=6)
    acc = [np.mean(train(seed)[-1]) for seed in range(6)]
    assert result.metrics["acc"] == pytest.approx(np.mean(acc))
    half = scipy.stats.t.ppf(0.975, 5) * scipy.stats.sem(acc)
    expected = (np.mean(acc) - half, np.mean(acc) + half)
    assert result.intervals["acc"] == pytest.approx(expected)
    assert result.notes[0] == "mean over 6 seeds: 0-5"


def test_the_function_gets_each_seed_once_in_order_and_nothing_is_seeded() -> None:
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    calls: list[int] = []

    def fn(seed: int) -> Any:
        calls.append(seed)
        return train(seed)

    assert len(perdure.repeat(fn, seeds=[7, 3, 11], metrics=["acc"]).runs) == 3  # type: ignore[union-attr]
    assert calls == [7, 3, 11]
    assert (np.random.get_state()[1] == before).all()  # type: ignore[index]  # noqa: NPY002
    assert perdure.repeat(train, seeds=1).metrics["acc"] == np.mean(train(0)[-1])


def test_a_function_that_ignores_its_seed_is_noticed() -> None:
    question = "acc: equal in all 2 runs, so intervals over them have no width"
    assert question in str(perdure.repeat(lambda _: train(0), seeds=2, metrics=["acc"]).notes)
    assert question not in str(perdure.repeat(train, seeds=2, metrics=["acc"]).notes)
    assert question not in str(perdure.repeat(train, seeds=1).notes)


def test_results_are_compared_as_the_matrices_they_were_made_of() -> None:
    def worse(seed: int) -> Any:
        matrix = train(seed)
        return [matrix[0], [matrix[1][0] - 0.1 - seed / 100, matrix[1][1]]]

    seeds = [0, 2, 5]
    results = {"er": perdure.repeat(train, seeds), "ewc": perdure.repeat(worse, seeds)}
    report = perdure.compare(results)
    assert (report.paired_by, report.seeds) == ("seed", seeds)
    matrices = {"er": [train(seed) for seed in seeds], "ewc": [worse(seed) for seed in seeds]}
    expected = perdure.compare(matrices)
    assert report.metrics["acc"].pairs == expected.metrics["acc"].pairs
    mixed = perdure.compare({"er": results["er"], "ewc": matrices["ewc"]})
    assert mixed.metrics["bwt"].means == expected.metrics["bwt"].means
    others = perdure.repeat(worse, seeds=[7, 8])
    with pytest.raises(perdure.InputError, match="er has 0, 2, 5; ewc has 7, 8"):
        perdure.compare({"er": results["er"], "ewc": others})
    with pytest.raises(perdure.InputError, match="without a name"):
        perdure.compare(*results.values())  # type: ignore[arg-type]
    with pytest.raises(perdure.InputError, match="scored already"):
        perdure.score_groups(results)


def test_a_metric_that_is_equal_in_all_seeds_is_noticed() -> None:
    equal = [[[0.9], [0.5, 0.7]], [[0.8], [0.6, 0.6]]]  # acc 0.6 twice, bwt not
    notes = perdure.score(equal).notes
    (note,) = (note for note in notes if note.startswith("acc: equal in all 2 runs"))
    assert "do their seeds differ" not in note  # other metrics differ, so the seeds do
    assert not any(note.startswith("bwt") for note in notes)
    notes = perdure.compare({"er": equal, "ewc": [[[0.9], [0.5, 0.7]]] * 2}).notes
    assert any(note.startswith("er: acc: equal in all 2 runs") for note in notes)
    start = "ewc: acc, bwt, forgetting.best: equal in all 2 runs"
    (note,) = (note for note in notes if note.startswith(start))
    assert "do their seeds differ?" in note


def test_a_failing_seed_is_named_and_the_others_are_kept() -> None:
    def fn(seed: int) -> Any:
        return train(seed) if seed < 3 else 1 / 0

    with pytest.raises(perdure.RepeatError, match="seed 3: ZeroDivisionError: division") as caught:
        perdure.repeat(fn)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.summary is not None
    assert caught.value.summary.metrics == perdure.repeat(train, seeds=3).metrics


BAD_RESULTS: dict[str, tuple[Callable[[int], Any], str]] = {
    "nothing": (lambda _: None, "seed 0: .* returned None, .*`return` missing"),
    "wide": (lambda _: [[0.5, 0.5]], "seed 0: .*square"),
    "text": (lambda _: "nowhere", "seed 0: .*'nowhere': no such file"),
    "seeds": (lambda _: np.full((3, 2, 2), 0.5), "seed 0: .*3 matrices"),
    "other_tasks": (lambda seed: np.full((1 + seed,) * 2, 0.5), "seed 1: .*2 task.*expected 1"),
    "other_unit": (lambda seed: np.full((2, 2), [0.5, 50][seed]), "seed 1: .*one unit"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_RESULTS)
def test_a_result_that_cannot_be_scored_fails_at_once(name: str) -> None:
    fn, words = BAD_RESULTS[name]
    calls: list[int] = []

    def counted(seed: int) -> object:
        calls.append(seed)
        return fn(seed)

    with pytest.raises(perdure.RepeatError, match=words):
        perdure.repeat(counted, seeds=4)
    assert calls == list(range(len(calls)))
    assert len(calls) <= 2


@pytest.mark.parametrize("seeds", [0, [], [1, 1], [1.5], -2, 2.5, None])
def test_seeds_are_whole_and_each_is_there_once(seeds: Any) -> None:
    with pytest.raises(InputError, match="`seeds=` is"):
        perdure.repeat(train, seeds)


def test_an_interruption_returns_what_has_finished(capsys: pytest.CaptureFixture[str]) -> None:
    def fn(seed: int) -> Any:
        if seed == 2:
            raise KeyboardInterrupt
        return train(seed)

    result = perdure.repeat(fn, progress=True)
    assert result.metrics == perdure.repeat(train, seeds=2).metrics
    assert result.notes[-1] == "interrupted in seed 2: 2 of 5 seeds finished"
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("perdure.repeat: seed 0 finished, 1 of 5 seeds")
    with pytest.raises(KeyboardInterrupt):
        perdure.repeat(fn, seeds=[2, 3])


def test_an_evaluator_or_its_folder(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.eye(4), torch.tensor([0, 0, 1, 1])

    def with_evaluator(seed: int) -> perdure.Evaluator:
        torch.manual_seed(seed)
        model = torch.nn.Linear(4, 2)
        evaluator = perdure.Evaluator(
            {"a": (x, y), "b": (x, 1 - y)},
            record=tmp_path / f"s{seed}",
            progress=False,
            count_flops=False,
        )
        for task in ("a", "b"):
            with evaluator.task(task, model):
                evaluator.step(model)
        return evaluator

    def folder(seed: int) -> Path:
        return tmp_path / f"s{seed}"

    first = perdure.repeat(with_evaluator, seeds=3)
    assert len({run.metrics["acc"] for run in first.runs}) >= 1  # type: ignore[union-attr]
    assert first.metrics == perdure.repeat(folder, seeds=3).metrics
    assert (tmp_path / "s2" / "done.json").exists()  # it was closed
    with pytest.raises(perdure.RepeatError, match="seed 0"):
        perdure.repeat(with_evaluator, seeds=1)  # the record is there already


def test_the_example_of_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "formats.md").read_text()
    section = page.partition("## A function instead of files")[2]
    code = section.partition("```python\n")[2].partition("```")[0]
    assert len(code.splitlines()) <= 12
    names: dict[str, Any] = {}
    exec(re.sub(r"^print\(", "shown = str(", code, flags=re.MULTILINE), names)
    assert "acc" in names["shown"]
    low, high = names["result"].intervals["acc"]
    assert low < names["result"].metrics["acc"] < high
