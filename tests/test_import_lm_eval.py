"""lm-evaluation-harness: real results of four checkpoints, and files that were spoiled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perdure
from perdure.importers import ImportedRun, ImportOptions, read_runs
from perdure.record import InputError

from .cli_helpers import run, scored

if TYPE_CHECKING:
    from collections.abc import Callable

FIXTURE = Path(__file__).parent / "fixtures" / "import" / "lm_eval"
ORDER = ("base", "sql", "math", "code")
LEARNED = {
    "sql": "exact_match,none",
    "math": "exact_match,strict-match",
    "code": "exact_match,none",
}


def read(folder: Path = FIXTURE / "results", **options: Any) -> ImportedRun:
    (imported,) = read_runs("lm-eval", [folder], ImportOptions(**({"order": ORDER} | options)))
    return imported


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a copy of the results, to be spoiled."""
    return Path(shutil.copytree(FIXTURE / "results", tmp_path / "results"))


def result_file(folder: Path, checkpoint: str) -> Path:
    (path,) = (folder / checkpoint).glob("*/results_*.json")
    return path


def samples_file(folder: Path, checkpoint: str, task: str) -> Path:
    (path,) = (folder / checkpoint).glob(f"*/samples_{task}_*.jsonl")
    return path


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    contents = json.loads(path.read_text())
    change(contents)
    path.write_text(json.dumps(contents))


def stated(folder: Path = FIXTURE / "results") -> dict[str, dict[str, Any]]:
    """Return what the tool printed, by checkpoint."""
    return {name: json.loads(result_file(folder, name).read_text())["results"] for name in ORDER}


def test_numbers_are_those_of_the_harness(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = ("--order", ",".join(ORDER), "--control", "facts", "-o", folder)
    code, out, _ = run("import", "auto", FIXTURE / "results", *words)
    assert code == 0
    assert "lm-evaluation-harness 0.4.13" in out
    table = stated()
    matrix = np.array([[table[i][j][key] for j, key in LEARNED.items()] for i in LEARNED])
    kept = [table[name]["facts"]["acc,none"] for name in ("base", "code")]
    metrics = perdure.score(folder).metrics
    assert metrics["acc"] == pytest.approx(matrix[-1].mean())
    assert metrics["bwt"] == pytest.approx((matrix[-1] - matrix.diagonal())[:-1].mean())
    assert metrics["retention"] == pytest.approx(kept[1] - kept[0])
    initial = [table["base"][j][key] for j, key in LEARNED.items()]
    assert metrics["fwt.gem"] == pytest.approx((matrix.diagonal(1) - initial[1:]).mean())
    assert 0 < metrics["acc"] < 1
    assert metrics["bwt"] != 0 != metrics["retention"]
    code, _, _ = run("report", folder, "-o", tmp_path / "page.html")
    assert code == 0
    assert "math/strict-match" in (tmp_path / "page.html").read_text()


def test_documents_give_intervals(tmp_path: Path) -> None:
    words = ("--order", ",".join(ORDER), "--control", "facts", "-o", tmp_path)
    assert run("import", "lm-eval", FIXTURE / "results", *words).code == 0
    scores = scored(tmp_path)
    for name in ("acc", "bwt", "retention"):
        low, high = scores["intervals"][name][:2]
        assert low < scores["metrics"][name] < high
    imported = read()
    lines = samples_file(FIXTURE / "results", "math", "sql").read_text().splitlines()
    right = {s["doc_id"]: s["exact_match"] == 1 for s in map(json.loads, lines)}
    (evaluation,) = [e for e in imported.evaluations if (e.step, e.tested) == (2, "sql")]
    assert dict(zip(evaluation.ids or (), evaluation.correct or (), strict=True)) == right


def test_one_task_per_filter() -> None:
    imported = read(control=("facts",))
    assert imported.tasks == ["sql", "math/strict-match", "code", "facts", "math/flexible-extract"]
    assert imported.control == ("facts",)
    assert any("math has a score per filter" in note for note in imported.notes)


def test_a_control_task_with_filters_is_several() -> None:
    folders = [FIXTURE / "results" / name for name in ("base", "sql")]
    options = ImportOptions(order=("base", "sql"), control=("math",))
    (imported,) = read_runs("lm-eval", folders, options)
    assert imported.control == ("math/strict-match", "math/flexible-extract")


def test_the_order_is_never_guessed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="base, code, math, sql, and nothing says in which order"):
        read(order=())
    with pytest.raises(InputError, match="order has 'sqll', which is not a folder"):
        read(order=("base", "sqll", "math", "code"))
    with pytest.raises(InputError, match="order lacks code"):
        read(order=("base", "sql", "math"))
    with pytest.raises(InputError, match="names a task or a folder twice"):
        read(order=("base", "sql", "math", "code", "facts=code"))
    folders = []
    for number, name in enumerate(ORDER):
        folders.append(tmp_path / f"checkpoint-{number}")
        shutil.copytree(FIXTURE / "results" / name, folders[-1])
    names = tuple(folder.name for folder in folders)
    with pytest.raises(InputError, match="TASK=checkpoint-1"):
        read_runs("lm-eval", folders, ImportOptions(order=names))
    named = tuple(f"{task}={name}" for task, name in zip(ORDER, names, strict=True))
    (imported,) = read_runs("lm-eval", folders, ImportOptions(order=named))
    assert imported.evaluations == read().evaluations


def test_without_a_base_checkpoint_every_step_is_trained() -> None:
    folders = [FIXTURE / "results" / name for name in ORDER[1:]]
    (imported,) = read_runs("lm-eval", folders, ImportOptions(order=ORDER[1:]))
    assert {(e.step, e.trained, e.kind) for e in imported.evaluations} == {
        (1, "sql", "full"), (2, "math/strict-match", "full"), (3, "code", "full")
    }  # fmt: skip


def test_perplexity_is_better_when_lower(tmp_path: Path) -> None:
    words = ("--order", ",".join(ORDER), "--metric", "word_perplexity", "--control", "prose")
    assert run("import", "lm-eval", FIXTURE / "results", *words, "-o", tmp_path).code == 0
    imported = read(metric="word_perplexity")
    assert imported.scale.lower_is_better
    assert imported.scale.label == "word_perplexity"
    values = [stated()[name]["prose"]["word_perplexity,none"] for name in ORDER]
    assert [e.score for e in imported.evaluations] == values
    assert all(e.correct is None for e in imported.evaluations)
    assert any("word_perplexity is not 0 or 1" in note for note in imported.notes)
    with pytest.raises(InputError, match="'prose', which is scored by word_perplexity"):
        read(control=("prose",))


def test_the_metric_can_be_chosen() -> None:
    for metric in ("acc_norm", "acc"):
        imported = read(metric=f"exact_match,{metric}")
        (first, *_) = [e for e in imported.evaluations if e.tested == "facts"]
        score = np.mean(first.correct or [])
        assert score == pytest.approx(stated()["base"]["facts"][f"{metric},none"])
    with pytest.raises(InputError, match="expected one of acc, acc_norm, exact_match"):
        read(metric="bleu")


def test_what_changed_between_checkpoints_is_said(results: Path) -> None:
    edit(result_file(results, "math"), lambda r: r["task_hashes"].update(sql="0" * 64))
    edit(result_file(results, "code"), lambda r: r["n-shot"].update(facts=5))
    edit(result_file(results, "sql"), lambda r: r.update(lm_eval_version="0.4.2"))
    edit(result_file(results, "sql"), lambda r: r["n-samples"]["code"].update(original=999))
    notes = " ".join(read(results).notes)
    assert "prompts or documents (task_hashes) of sql changed" in notes
    assert "(n-shot) of facts changed" in notes
    assert "different versions: 0.4.13, 0.4.2" in notes
    assert "(--limit): code" in notes


def test_other_documents_are_not_paired(results: Path) -> None:
    path = samples_file(results, "code", "sql")
    first, *rest = path.read_text().splitlines(keepends=True)
    sample = json.loads(first)
    path.write_text(json.dumps(sample | {"doc_hash": "0" * 64}) + "\n" + "".join(rest))
    imported = read(results)
    assert any("differs between base and code" in note for note in imported.notes)
    expected = read()
    for e, whole in zip(imported.evaluations, expected.evaluations, strict=True):
        if e.tested == "sql":
            assert e.correct is None
            assert e.score == pytest.approx(np.mean(whole.correct or []))
            assert e.n == 24
        else:
            assert e == whole


def test_samples_in_another_order_are_the_same(results: Path) -> None:
    path = samples_file(results, "sql", "math")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[::-1]))
    assert read(results).evaluations == read().evaluations


def test_without_samples_there_are_scores(results: Path) -> None:
    for path in results.glob("*/*/samples_*.jsonl"):
        path.unlink()
    imported = read(results)
    assert all(e.correct is None and e.n == 24 for e in imported.evaluations)
    assert any("--log_samples" in note for note in imported.notes)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda lines: lines[:20], "20 documents with exact_match, but the results are of 24"),
        (lambda lines: [*lines, lines[3]], "is there twice"),
        (lambda lines: [*lines[:-1], lines[-1][:50]], "is not JSON"),
        (lambda lines: [*lines[:-1], "[1]"], "expected an object"),
        (lambda lines: [line.replace('"exact_match": 1.0', '"exact_match": 0.0') for line in lines],
         "0 of 24 documents have exact_match 1, but the results say 1.0000"),
        (lambda lines: [line.replace('"doc_id": 3,', '"doc_id": "3",') for line in lines],
         "doc_id is '3'"),
        (lambda lines: ["\udcff"], "not UTF-8"),
    ],
)  # fmt: skip
def test_spoiled_samples_are_refused(
    spoil: Callable[[list[str]], list[str]], message: str, results: Path
) -> None:
    path = samples_file(results, "code", "code")
    text = "".join(line + "\n" for line in spoil(path.read_text().splitlines()))
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=message):
        read(results)


def test_two_evaluations_in_one_folder_are_refused(results: Path) -> None:
    path = result_file(results, "sql")
    shutil.copy(path, path.with_name("results_2030-01-01T00-00-00.000000.json"))
    with pytest.raises(InputError, match=r"results_2030.*'facts' has a score already"):
        read(results)
    edit(path, lambda r: r.update(results={"facts": r["results"].pop("facts")}))
    other = path.with_name("results_2030-01-01T00-00-00.000000.json")
    edit(other, lambda r: r["results"].pop("facts"))
    assert len(read(results).evaluations) == 20  # different tasks are one evaluation


def test_an_undefined_score_is_not_measured(results: Path) -> None:
    edit(
        result_file(results, "math"),
        lambda r: r["results"].update(facts={"acc,none": float("nan"), "alias": "facts"}),
    )
    edit(result_file(results, "code"), lambda r: r["results"].pop("sql"))
    imported = read(results)
    assert [e.step for e in imported.evaluations if e.tested == "facts"] == [0, 1, 3]
    assert "checkpoint math has no acc of facts" in imported.notes
    assert "checkpoint code has no exact_match of sql" in imported.notes


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"results": {"sql": 3}}'])
def test_broken_results_are_refused(text: str, results: Path) -> None:
    result_file(results, "sql").write_text(text)
    with pytest.raises(InputError, match="results_"):
        read(results)


def test_no_machine_is_in_the_files() -> None:
    for path in FIXTURE.rglob("*.json*"):
        text = path.read_text()
        for word in ("/home", "/root", "/tmp", "/work", "CPU", "Linux"):
            assert word not in text, path


@pytest.mark.slow
def test_the_files_are_what_the_harness_writes(tmp_path: Path) -> None:
    """Make them again: other versions may give other numbers, but the same documents."""
    python = os.environ.get("PERDURE_LM_EVAL_PYTHON", sys.executable)
    if python == sys.executable and find_spec("lm_eval") is None:
        pytest.skip("needs lm_eval: install it, or set PERDURE_LM_EVAL_PYTHON to a Python with it")
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONWARNINGS")}
    command = [python, str(FIXTURE / "make.py"), str(tmp_path)]
    subprocess.run(command, check=True, env=environment, capture_output=True, timeout=1800)
    made, kept = read(tmp_path / "results"), read()
    assert [(e.step, e.trained, e.tested, e.ids) for e in made.evaluations] == [
        (e.step, e.trained, e.tested, e.ids) for e in kept.evaluations
    ]
    for name in ORDER:
        lines = [
            samples_file(folder, name, "sql").read_text().splitlines()
            for folder in (tmp_path / "results", FIXTURE / "results")
        ]
        made_hashes, kept_hashes = ([json.loads(line)["doc_hash"] for line in own] for own in lines)
        assert made_hashes == kept_hashes
