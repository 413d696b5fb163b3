"""`perdure reproduce`: the list, a table from finished runs, what lacks, and a small result run."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from perdure import execution, reproduction
from perdure.reproduction import build_study, find_published_result, load_published_results
from perdure.studies import make_study

from .cli_helpers import Answer, run
from .reproduce_helpers import finished
from .run_helpers import real_data

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROTATED = ("rotated-mnist-10", "rotated-mnist-30", "rotated-mnist-60", "rotated-mnist-80")


@pytest.fixture
def no_data(tmp_path: Path) -> Iterator[None]:
    """Let no dataset be found."""
    places = {"PERDURE_DATA": str(tmp_path / "none"), "PERDURE_CACHE": str(tmp_path / "cache")}
    with patch.dict(os.environ, places):
        yield


@pytest.fixture
def all_data() -> Iterator[None]:
    """Pretend that every dataset is available, and let nothing be run."""

    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("something was run")

    with (
        patch.object(reproduce_module(), "find_missing_data", lambda _: {}),
        patch.object(execution, "run_serially", refuse),
        patch.object(execution, "run_in_processes", refuse),
    ):
        yield


def reproduce_module() -> Any:
    import sys

    return sys.modules[build_study.__module__]


def called(*arguments: str | Path) -> Answer:
    return run("reproduce", *arguments, "--device", "cpu")


def faked(name: str, store: Path, lows: dict[str, tuple[float, ...]]) -> None:
    """Write finished runs of every cell: the first task falls to `lows`, one per seed."""
    study = make_study(find_published_result(name).study_dict(), name)
    for cell in study.cells:
        for each in study.make_configs(cell, {}):
            low = lows[cell.scenario][each.seed]
            points = [
                (1, "a", "a", "probe", 0.9), (1, "a", "a", "full", 0.9),
                (2, "b", "a", "probe", low), (2, "b", "b", "probe", 0.5),
                (3, "b", "a", "probe", 0.8), (3, "b", "b", "probe", 0.9),
                (3, "b", "a", "full", 0.8), (3, "b", "b", "full", 0.9),
            ]  # fmt: skip
            finished(store / each.folder, points, setting=cell.setting, deviations=["by hand"])


def test_the_list_says_what_each_needs(no_data: None) -> None:
    answer = called()
    assert answer.code == 0, answer.err
    lines = {line.split()[0]: line for line in answer.out.splitlines() if line.strip()}
    assert set(load_published_results()) <= set(lines)
    assert lines["delange-rotated"].split()[-4:] == ["mnist", "all", "9", "min"]  # none at hand
    assert "Table 2, Figure 3" in lines["delange-rotated"]
    assert "9 min" in lines["delange-rotated"]
    plain = json.loads(called("--format", "json").out)
    assert {each["name"] for each in plain} == set(load_published_results())
    assert called("--format", "markdown").out.startswith("| name |")


@pytest.mark.usefixtures("all_data")
def test_finished_runs_are_compared_with_the_published_numbers(tmp_path: Path) -> None:
    store = tmp_path / "store"
    faked("delange-rotated", store, dict.fromkeys(ROTATED, (0.6, 0.62, 0.64, 0.66, 0.68)))
    answer = called("delange-rotated", "--store", store, "--format", "json")
    assert answer.code == 0, answer.err
    (plain,) = json.loads(answer.out)
    numbers = {(each["scenario"], each["id"]): each for each in plain["rows"]}
    assert len(numbers) == 4 * 8
    low = numbers["rotated-mnist-80", "min_acc"]
    printed = {row.scenario: row for row in find_published_result("delange-rotated").published}
    mean, sd = printed["rotated-mnist-80"].mean_and_sd("min_acc")
    assert (low["published"], low["published_sd"], low["sd_source"]) == (mean, sd, "paper")
    assert low["measured"] == pytest.approx(64.0)
    assert low["measured_sd"] == pytest.approx(3.16227766)
    assert low["difference_in_sds"] == pytest.approx((64.0 - mean) / (sd or 0))
    acc = numbers["rotated-mnist-10", "acc"]
    mean, sd = printed["rotated-mnist-10"].mean_and_sd("acc")
    assert acc["difference_in_sds"] == pytest.approx((85.0 - mean) / (sd or 0))
    assert "by hand" in plain["deviations"]
    assert [each["holds"] for each in plain["claims"]] == [False] * 5
    (figure,) = plain["figures"]
    assert figure == str(store / "tables" / "delange-rotated-figure-3.csv")
    kept = json.loads((store / "tables" / "delange-rotated.json").read_text())
    assert kept == plain


@pytest.mark.usefixtures("all_data")
def test_the_printed_table(tmp_path: Path) -> None:
    store = tmp_path / "store"
    faked("delange-rotated", store, dict.fromkeys(ROTATED, (0.6, 0.62, 0.64, 0.66, 0.68)))
    text = called("delange-rotated", "--store", store, "-o", tmp_path / "out").out
    line = next(line for line in text.splitlines() if "rotated-mnist-80  min_acc" in line)
    printed = find_published_result("delange-rotated").published[-1]
    mean, sd = printed.mean_and_sd("min_acc")
    assert sd is not None
    cells = [
        "2", "rotated-mnist-80", "min_acc", f"{mean:.1f} ± {sd:.1f}", "64.0 ± 3.2",
        f"{64 - mean:+.1f}", f"{(64 - mean) / sd:+.1f} (paper)", "64.0",
    ]  # fmt: skip
    assert line.split() == " ".join(cells).split()
    assert "NO     min-ACC falls more than twice as far" in text
    assert (tmp_path / "out" / "delange-rotated-figure-3.csv").exists()
    marked = called("delange-rotated", "--store", store, "--format", "markdown").out
    assert f"| {' | '.join(cells)} |" in marked


@pytest.mark.usefixtures("all_data")
def test_a_result_without_published_numbers_counts_none(tmp_path: Path) -> None:
    faked("michel-stream-small", tmp_path, {"split-m2i": (0.6, 0.62, 0.64, 0.66, 0.68)})
    text = called("michel-stream-small", "--store", tmp_path).out
    assert "forgetting.best" in text
    assert "within one SD" not in text


def test_missing_data_is_named_and_the_others_go_on(no_data: None, tmp_path: Path) -> None:
    answer = called("delange-speech", "diaz-icifar100", "--store", tmp_path)
    assert answer.code == 1
    said = answer.err.splitlines()
    assert said == [
        (
            "perdure: delange-speech: split-speech-commands not run: perdure data fetch "
            "synthetic-speech-commands-20"
        ),
        "perdure: diaz-icifar100: split-cifar100 not run: perdure data fetch cifar100",
    ]
    printed, _ = find_published_result("diaz-icifar100").published[1].mean_and_sd("acc.lower")
    assert f"{printed:.4f}" in answer.out  # what is published is shown nevertheless
    assert "not measured" in answer.out


def test_a_run_that_fails_is_named_and_ends_with_1(tmp_path: Path) -> None:
    with real_data():
        result = find_published_result("delange-speech")
        run_options: Any = result.quick["run"]
        broken = {**result.quick, "run": {**run_options, "lr": 1e30}}
        with patch.dict(load_published_results(), {"delange-speech": _with_quick(result, broken)}):
            answer = called("delange-speech", "--quick", "--store", tmp_path, "--serial")
    assert answer.code == 1
    assert "failed:" in answer.err


def _with_quick(result: Any, quick: dict[str, Any]) -> Any:
    import msgspec

    return msgspec.structs.replace(result, quick=quick)


def test_a_quick_version_runs_and_is_not_run_again(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with real_data():
        answer = called("delange-gem-mnist", "--quick", "--store", store, "--serial")
        assert answer.code == 0, answer.err
        again = called("delange-gem-mnist", "--quick", "--store", store, "--serial")
    assert " done" not in again.err  # nothing was run
    assert again.out == answer.out
    assert "not comparable with the paper" in answer.out
    assert "published" not in answer.out.replace("not as published", "")
    assert "in SDs" not in answer.out
    plain = json.loads((store / "tables" / "delange-gem-mnist-quick.json").read_text())
    assert {each["strategy"] for each in plain["rows"]} == {"gem", "replay"}
    assert not any("published" in each for each in plain["rows"])
    assert plain["claims"] == []
    norms = (store / "tables" / "delange-gem-mnist-quick-figure-4e-h-10.csv").read_text()
    assert len([line for line in norms.splitlines() if ",stability," in line]) >= 2 * 4 * 12


def test_quick_without_names_is_all_of_them(tmp_path: Path) -> None:
    asked: list[tuple[str, bool]] = []

    def note(result: Any, *, quick: bool, **_: Any) -> Any:
        asked.append((result.name, quick))
        return None, {}

    with patch.object(reproduction, "build_study", note):
        assert called("--quick", "--store", tmp_path).code == 0
    assert asked == [(name, True) for name in load_published_results()]


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    for arguments in (["delange-mnst"], ["delange-mnist", "--jobs", "0"]):
        answer = called(*arguments, "--store", tmp_path)
        assert answer.code == 2
        assert len(answer.err.splitlines()) == 1


@pytest.mark.slow
def test_quick_passes_through_every_entry(tmp_path: Path) -> None:
    with real_data():
        answer = called("--quick", "--store", tmp_path)
    assert answer.code == 0, answer.err
    for result in load_published_results().values():
        plain = json.loads((tmp_path / "tables" / f"{result.name}-quick.json").read_text())
        assert plain["rows"], result.name
        assert len(plain["figures"]) == len(result.figures), result.name
