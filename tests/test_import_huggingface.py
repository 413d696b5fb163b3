"""Sequences of all_results.json: O-LoRA's published files, and folders that are not as expected."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import perdure
from perdure.importers import ImportedRun, ImportOptions, read_runs
from perdure.record import InputError

from .cli_helpers import run


def published(name: str) -> Path:
    """Return a sequence that the authors of O-LoRA published, or skip the test."""
    folder = os.environ.get("PERDURE_FIXTURES")
    path = Path(folder) if folder else Path(__file__).parents[2] / "shared" / "fixtures"
    if not (path / "olora" / name).is_dir():
        pytest.skip("needs O-LoRA's published results: set PERDURE_FIXTURES to their folder")
    return path / "olora" / name


@pytest.mark.parametrize(
    ("name", "acc", "bwt"), [("long_olora", 0.722, -0.007), ("long_seqlora", 0.320, -0.480)]
)
def test_published_results_come_out(name: str, acc: float, bwt: float, tmp_path: Path) -> None:
    code, _, _ = run("import", "auto", published(name), "-o", tmp_path / "run")
    assert code == 0
    summary = perdure.score(tmp_path / "run")
    assert summary.metrics["acc"] == pytest.approx(acc, abs=5e-4)
    assert summary.metrics["bwt"] == pytest.approx(bwt, abs=5e-4)
    (imported,) = read_runs("huggingface", [published(name)])
    assert len(imported.tasks) == 15
    assert imported.tasks[8:11] == ["SST-2", "dbpedia", "agnews"]  # 10 comes after 9


def test_a_task_that_was_not_evaluated_is_refused() -> None:
    with pytest.raises(InputError, match=r"3-yahoo.*nothing was evaluated"):
        read_runs("huggingface", [published("order1_seqlora")])


def sequence(folder: Path, tasks: str = "abcdefghijk", unit: float = 100) -> Path:
    """Write a sequence in which task j has 0.9 - 0.01 (i - j) when task i was learned."""
    for i, trained in enumerate(tasks):
        place = folder / "outputs" / f"{i + 1}-{trained}"
        place.mkdir(parents=True)
        scores = {
            f"predict_exact_match_for_{tested}": unit * (0.9 - 0.01 * (i - j))
            for j, tested in enumerate(tasks[: i + 1])
        }
        scores |= {"predict_exact_match_for_SC": unit * 0.1, "predict_rouge1_for_a": unit * 0.2}
        (place / "all_results.json").write_text(json.dumps(scores | {"epoch": 1.0}))
    return folder


def read(folder: Path, **options: object) -> ImportedRun:
    (imported,) = read_runs("huggingface", [folder], ImportOptions(**options))  # type: ignore[arg-type]
    return imported


@pytest.mark.parametrize("unit", [1, 100])
def test_fractions_and_percent_are_the_same_run(unit: float, tmp_path: Path) -> None:
    imported = read(sequence(tmp_path, unit=unit))
    assert imported.tasks == list("abcdefghijk")
    scores = {(e.trained, e.tested): e.score for e in imported.evaluations}
    assert len(scores) == 66
    assert scores["k", "a"] == pytest.approx(0.8)
    assert scores["j", "i"] == pytest.approx(0.89)
    assert ("read as percent" in " ".join(imported.notes)) == (unit == 100)
    assert "SC" in " ".join(imported.notes)


def test_another_metric_and_a_control_task(tmp_path: Path) -> None:
    imported = read(sequence(tmp_path, "ab"), metric="rouge1")
    assert {e.score for e in imported.evaluations} == {0.2}
    with pytest.raises(InputError, match="exact_match, rouge1"):
        read(tmp_path, metric="bleu")
    assert read(tmp_path, control=("SC",)).control == ("SC",)


def test_folders_that_do_not_say_the_order_are_refused(tmp_path: Path) -> None:
    outputs = sequence(tmp_path) / "outputs"
    (outputs / "3-c").rename(outputs / "c")
    with pytest.raises(InputError, match=r"expected <position>-<task>, such as 1-c"):
        read(tmp_path)
    (outputs / "c").rename(outputs / "12-c")
    with pytest.raises(InputError, match="no results of position 3"):
        read(tmp_path)
    (outputs / "12-c").rename(outputs / "4-c")
    with pytest.raises(InputError, match=r"have the same position.*two runs"):
        read(tmp_path)
    (outputs / "4-c").rename(outputs / "3-a")
    with pytest.raises(InputError, match="learned twice"):
        read(tmp_path)
    (outputs / "3-a").rename(outputs / "3-c")
    with pytest.raises(InputError, match="omit `order=`"):
        read(tmp_path, order=("b", "a"))
    assert read(tmp_path, order=tuple("abcdefghijk")).tasks


@pytest.mark.parametrize(
    "text", ["", "[1]", '{"epoch": 1}', '{"predict_exact_match_for_a": 101}',
             '{"predict_exact_match_for_a": "x"}', '{"predict_exact_match_for_a": NaN}'],
)  # fmt: skip
def test_broken_files_are_refused(text: str, tmp_path: Path) -> None:
    sequence(tmp_path, "ab")
    (tmp_path / "outputs" / "2-b" / "all_results.json").write_text(text)
    code, _, err = run("import", "huggingface", tmp_path, "-o", tmp_path / "run")
    assert code == 2
    assert "2-b" in err
    assert not (tmp_path / "run").exists()
