"""The vectors in conformance/ are current, complete, and agree with the package."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure.metrics import METRICS, as_tool
from perdure.metrics.registry import parse_id

from .conformance import FILES, FOLDER, dumps

if TYPE_CHECKING:
    from pathlib import Path


def load(name: str) -> dict[str, Any]:
    vectors: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return vectors


def summarize(case: dict[str, Any], ids: list[str]) -> perdure.Summary:
    if "spans" not in case:
        names = ("initial", "joint", "single", "offline", "classes", "sizes", "setting")
        known = {name: case[name] for name in names}
        return perdure.summary(perdure.ScoreMatrix(case["scores"], upper="measured", **known))
    tasks: dict[str, Any] = {
        name: tuple(zip(*rows, strict=True)) for name, rows in case["scores"].items()
    }
    stream = perdure.Stream(tasks, [tuple(s) for s in case["spans"]], before=case["before"])
    windows = [arg["window"] for id_ in ids if "window" in (arg := parse_id(id_).arguments)]
    return perdure.summary(
        stream=stream, options=perdure.SummaryOptions(windows=tuple(windows), beta=2)
    )


@pytest.mark.parametrize("name", FILES)
def test_files_are_what_the_references_give(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == dumps(FILES[name]())


@pytest.mark.parametrize("name", FILES)
def test_the_package_agrees(name: str) -> None:
    for case in load(name)["cases"]:
        expected = case["expected"]
        metrics = summarize(case, list(expected)).metrics
        for id_, value in expected.items():
            if value is None:
                assert id_ not in metrics, id_
            else:
                assert metrics[id_] == pytest.approx(value, abs=1e-9), id_


def test_every_metric_of_a_matrix_or_stream_has_a_vector() -> None:
    defined = {parse_id(id_).base for name in FILES for id_ in load(name)["definitions"]}
    wanted = {id_ for id_, row in METRICS.items() if row.input in ("matrix", "stream")}
    assert defined == wanted


def test_every_key_and_argument_is_explained() -> None:
    for name in FILES:
        vectors = load(name)
        for case in vectors["cases"]:
            assert list(case) == list(vectors["keys"])
            assert set(case["expected"]) == set(vectors["definitions"])
    assert load("stream.json")["definitions"]["wf3"]["arguments"] == {"window": 3}


def test_predictions_can_be_made_up_for_every_score() -> None:
    for case in load("matrix.json")["cases"]:
        for scores, correct in zip(case["scores"], case["correct"], strict=True):
            for score, right, size in zip(scores, correct, case["sizes"], strict=True):
                assert right == int(right)
                assert right / size == pytest.approx(score, abs=1e-12)


def test_the_cases_tell_any_two_definitions_apart() -> None:
    expected = [case["expected"] for case in load("matrix.json")["cases"]]
    for a, b in combinations(expected[0], 2):
        pairs = [(e[a], e[b]) for e in expected if e[a] is not None and e[b] is not None]
        assert not pairs or any(abs(x - y) > 1e-6 for x, y in pairs), (a, b)


# The runner.


def compare(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-S", FOLDER / "run.py", path], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("shift", "code"), [(0.0, 0), (1e-5, 1)])
def test_the_runner_finds_a_wrong_function(shift: float, code: int, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        f"METRICS = {{'acc': lambda c: sum(c['scores'][-1]) / len(c['scores']) + {shift}}}"
    )
    done = compare(path)
    assert done.returncode == code, done.stderr
    assert done.stdout.endswith(f"{0 if code else 8} of 8 values agree\n")


def test_the_runner_compares_values_of_any_language(tmp_path: Path) -> None:
    path = tmp_path / "values.json"
    given = {name: [case["expected"] for case in load(name)["cases"]] for name in FILES}
    path.write_text(json.dumps(given))
    assert compare(path).returncode == 0
    given["stream.json"][2] = {**given["stream.json"][2], "aaa": None}
    given["matrix.json"] = given["matrix.json"][:1]  # the others are not computed
    path.write_text(json.dumps(given))
    done = compare(path)
    assert done.returncode == 1
    assert done.stdout.startswith("stream.json, the first task returns: aaa is None, expected 0.")
    path.write_text("{}")
    assert compare(path).returncode == 1  # nothing was compared


# Other tools.

tools = runpy.run_path(str(FOLDER / "tools.py"))
RESULTS = sorted((FOLDER / "results").glob("*.json"))


def test_the_table_of_the_docs_is_that_of_the_recorded_results() -> None:
    table = tools["make_table"]()
    assert table in (FOLDER.parent / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert {path.stem for path in RESULTS} == {
        path.stem for path in (FOLDER / "adapters").glob("*.py")
    }


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_what_tools_compute_is_what_perdure_says_they_print(path: Path) -> None:
    """`perdure score --as TOOL` was written from the tools' code; here are their own numbers."""
    result = json.loads(path.read_text(encoding="utf-8"))
    cases = load("matrix.json")["cases"]
    clear = result["tool"] == "Avalanche"
    printed = 0
    for number, case in enumerate(cases):
        matrix = perdure.ScoreMatrix(
            case["scores"], upper="measured", initial=case["initial"], sizes=case["sizes"]
        )
        rows = as_tool(matrix, path.stem)
        rows += as_tool(matrix, "avalanche-clear") if clear else []
        ours = {normalize(row.name): row.value for row in rows}
        for metric in result["metrics"].values():
            if (name := normalize(metric["name"])) in ours:
                assert metric["values"][number] == pytest.approx(ours[name], abs=1e-6), name
                printed += 1
    assert printed >= 5 * len(cases)


def normalize(name: str) -> str:
    name = name.rpartition(": ")[2].replace(" ", "_").lower()
    return {"streamaccuracy": "top1_acc_stream"}.get(name, name)


@pytest.mark.parametrize("change", [None, 0.01])
def test_a_tool_that_disagrees_is_named_with_the_id_that_it_computes(change: float | None) -> None:
    cases = load("matrix.json")["cases"]
    values = [case["expected"]["forgetting.peak"] for case in cases]
    if change is None:
        answer = tools["compare"]("forgetting.best", {"values": values, "note": "its note"})
        assert answer == (
            "**no**", "equals `forgetting.peak`: its note; 0.225 instead of 0.2"
        )  # fmt: skip
    else:
        other = [value + change for value in values]
        answer = tools["compare"]("forgetting.peak", {"values": other, "note": "its note"})
        assert answer == ("**no**", "its note; 0.235 instead of 0.225")


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_an_installed_tool_still_computes_what_was_recorded(path: Path) -> None:
    pytest.importorskip(path.stem)
    result = json.loads(path.read_text(encoding="utf-8"))
    again = tools["record"](FOLDER / "adapters" / f"{path.stem}.py")
    for id_, metric in again["metrics"].items():
        assert metric["values"] == pytest.approx(result["metrics"][id_]["values"], abs=1e-6)
