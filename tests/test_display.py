"""What `print` shows of our objects: a few aligned lines; and the same numbers for pandas."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perdure
from perdure._display import MAX_WIDTH, format_block, list_some
from perdure.metrics import Costs, PerExample
from perdure.record import read_input

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEEDS = np.stack([np.array([[0.9, 0.3], [0.6, 0.8]]) - k / 100 for k in range(4)])
METHODS = {"er": SEEDS, "ewc": SEEDS - 0.2}
TASKS = 60
LARGE = np.tri(TASKS) / 2


def log() -> perdure.Stream:
    steps = np.arange(1, 5001)
    return perdure.Stream({f"task {k}": (steps, steps / 5000) for k in range(TASKS)})


def recorded(folder: Path) -> Path:
    lines = ["step,trained,tested,score"]
    lines += [f"{i},t{i},t{j},{0.5 + j / 1000}" for i in range(1, TASKS) for j in range(1, i + 1)]
    folder.mkdir()
    (folder / "points.csv").write_text("\n".join(lines) + "\n")
    (folder / "run.json").write_text(json.dumps({"config": {"strategy": "x", "big": "y" * 5000}}))
    return folder


LIGHT: dict[str, Callable[[], object]] = {
    "Summary": lambda: perdure.score(LARGE),
    "RunsSummary": lambda: perdure.score(SEEDS),
    "GroupedScores": lambda: perdure.score_groups(METHODS),
    "ScoreGroup": lambda: perdure.score_groups({"a" * 99: SEEDS}).groups["a" * 99],
    "ComparisonReport": lambda: perdure.compare(METHODS),
    "ScoreMatrix": lambda: perdure.ScoreMatrix(LARGE),
    "Stream": log,
    "Costs": lambda: Costs(
        tuple(f"task {k}" for k in range(TASKS)), {"model_bytes": np.full(TASKS, 1e9)}
    ),
    "PerExample": lambda: PerExample.pack(range(500), np.ones((500, 1000), bool)),
}  # fmt: skip


def check_readable(value: object) -> str:
    """Return the text of an object, which must be short and without addresses and array dumps."""
    text = str(value)
    assert text == repr(value)
    lines = text.split("\n")
    assert len(lines) <= 25, text
    assert max(map(len, lines)) <= MAX_WIDTH, text
    assert " at 0x" not in text
    assert "array(" not in text
    return text


@pytest.mark.parametrize("name", LIGHT)
def test_objects_are_a_few_lines(name: str) -> None:
    check_readable(LIGHT[name]())


def test_a_run_and_its_parts_are_a_few_lines(tmp_path: Path) -> None:
    run = perdure.open_run(recorded(tmp_path / "run"))
    text = check_readable(run)
    assert "unfinished" in text
    assert "58 tasks: t1, t2, t3, t4, … (58)" in text
    for value in (run.matrix, run.stream, run.points, read_input(str(tmp_path / "run"))):
        check_readable(value)
    check_readable(perdure.list_runs(tmp_path))


def test_evaluator_live_dataset_and_scenario_are_a_few_lines(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from perdure import data, scenarios

    check_readable(data.load("digits"))
    check_readable(scenarios.make_scenario("split-digits"))
    x, y = torch.eye(4), torch.tensor([0, 0, 1, 1])
    model = torch.nn.Linear(4, 2)
    tasks = {f"task {k}": (x, y) for k in range(50)}
    with perdure.Evaluator(
        tasks, record=tmp_path / "r", progress=False, count_flops=False
    ) as evaluator:
        with evaluator.task("task 0", model):
            evaluator.step(model)
            text = check_readable(evaluator)
            assert "50 tasks, at step 1, training 'task 0'" in text
            assert f"current  {evaluator.live.current:.4f}" in text
            assert f"current  {evaluator.live.current:.4f}" in check_readable(evaluator.live)
        assert "at step 1, after 'task 0'" in check_readable(evaluator)
    assert "closed" in check_readable(evaluator)


def test_the_numbers_shown_are_those_of_the_object() -> None:
    summary = perdure.score(SEEDS, metrics=["acc", "bwt"])
    lines = str(summary).splitlines()
    assert lines[0] == "Mean over 4 runs of 2 tasks"
    low, high = summary.intervals["acc"]
    sd = np.std(SEEDS[:, -1].mean(1), ddof=1)
    assert lines[1].split() == [
        "acc", "↑", "0.6850", "SD", f"{sd:.4f}", f"{low:.4f}", "to", f"{high:.4f}", "average",
        "accuracy",
    ]  # fmt: skip
    assert lines[2].index("-0.3000") + len("-0.3000") == lines[1].index("0.6850") + len("0.6850")


def test_text_from_files_cannot_control_the_terminal() -> None:
    text = format_block("a\x1b[31m", [("b\nc", "\u202e1")], ["\x07"])
    assert len(text.splitlines()) == 3
    assert all(line.isprintable() for line in text.splitlines())
    assert list_some([]) == ""


class Frame:
    """As much of a pandas.DataFrame as is used."""

    def __init__(self, records: list[dict[str, object]], columns: list[str]) -> None:
        self.rows = [{name: record.get(name) for name in columns} for record in records]
        assert all(record.keys() <= set(columns) for record in records)

    def set_index(self, names: list[str]) -> dict[tuple[object, ...], dict[str, object]]:
        indexed = {tuple(row[name] for name in names): row for row in self.rows}
        assert len(indexed) == len(self.rows)
        return indexed


@pytest.fixture
def pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("pandas")
    module.DataFrame = Frame
    monkeypatch.setitem(sys.modules, "pandas", module)


@pytest.mark.usefixtures("pandas")
def test_tables_for_pandas() -> None:
    acc = float(SEEDS[0, -1].mean())
    one: Any = perdure.score(SEEDS[0]).to_pandas()
    assert one["acc",]["value"] == pytest.approx(acc)
    assert one["bwt",]["low"] is None
    several: Any = perdure.score(SEEDS).to_pandas()
    assert several["acc",]["sd"] == pytest.approx(np.std(SEEDS[:, -1].mean(1), ddof=1))
    groups: Any = perdure.score_groups({"er": SEEDS, "one": SEEDS[0]}).to_pandas()
    assert groups["one", "acc"]["mean"] == pytest.approx(acc)
    assert groups["one", "acc"]["runs"] == 1
    assert groups["er", "acc"]["mean"] == several["acc",]["mean"]
    methods: Any = perdure.compare(METHODS, metrics=["acc"]).to_pandas()
    assert methods["acc", "ewc"]["mean"] == pytest.approx(several["acc",]["mean"] - 0.2)
    assert methods["acc", "er"]["rank"] == 1


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_without_pandas_or_polars_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install {library}; to_dict\(\) works"):
        getattr(perdure.score(SEEDS), f"to_{library}")()


def test_tables_for_polars_have_the_rows_of_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("polars")
    module.DataFrame = dict
    monkeypatch.setitem(sys.modules, "polars", module)
    tables: list[Any] = [
        perdure.score(SEEDS[0]),
        perdure.score(SEEDS),
        perdure.score_groups({"er": SEEDS, "one": SEEDS[0]}),
        perdure.compare(METHODS, metrics=["acc"]),
    ]
    for table in tables:
        lines = "\n".join(json.dumps(row) for row in table.to_records())
        rows = [json.loads(line) for line in lines.splitlines()]
        columns = table.to_polars()
        assert {name for row in rows for name in row} <= set(columns)
        for name, values in columns.items():
            assert json.loads(json.dumps(values)) == [row.get(name) for row in rows]


@pytest.mark.parametrize("name", ["Summary", "RunsSummary", "GroupedScores", "ComparisonReport"])
def test_dictionaries_are_plain(name: str) -> None:
    value: Any = LIGHT[name]()
    json.dumps(value.to_dict(), allow_nan=False)


def test_a_note_is_wrapped_because_its_end_says_what_to_do() -> None:
    note = (
        "note: " + "the first step is counted before the weights have changed, " * 2 + "call step"
    )
    lines = format_block("Summary", [], [note]).splitlines()
    assert lines[-1].endswith("call step")
    assert max(map(len, lines)) <= MAX_WIDTH
    assert len(format_block("Summary", [], ["word " * 10_000]).splitlines()) == 4
