"""Reporting guidelines: each one met and not met, by rows made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.record import RunSummary
from perdure.report.tables.study import study_tables
from perdure.studies import Cell, GuidelineCheck, StudyRow, check_guidelines

METRICS = {"acc": 0.5, "bwt": -0.1, "acc.learning": 0.6}
COSTS = {"seconds_train": 2.0, "peak_bytes": 3e6}
KINDS = ("AA, BWT", "naive and joint", "architectures", "data and task order", "time and memory",
         "three seeds", "test set")  # fmt: skip


def a_run(without: str = "", **costs: float) -> RunSummary:
    """Return the scores of a run, without one of its metrics."""
    metrics = {id_: value for id_, value in METRICS.items() if id_ != without}
    return RunSummary(metrics, {}, costs or COSTS)


def row(strategy: str, model: str = "mlp", **changes: Any) -> StudyRow:
    """Return a row with three good runs."""
    good = StudyRow(Cell("digits", "class", model, strategy), 3, [a_run()] * 3, ["order 0"] * 3)
    return changed(good, **changes)


def changed(before: StudyRow, **changes: Any) -> StudyRow:
    """Return a row with other fields, of its own or of its cell."""
    cell = {name: changes.pop(name) for name in Cell._fields if name in changes}
    return before._replace(cell=before.cell._replace(**cell), **changes)


GOOD = [row("naive"), row("joint"), row("ewc")]


def checked(
    rows: list[StudyRow], selected_on: str | None = "validation"
) -> dict[str, GuidelineCheck]:
    """Return the check of each guideline by a part of its text."""
    checks = check_guidelines(rows, selected_on)
    assert len(checks) == (len(KINDS) if selected_on else len(KINDS) - 1)
    found = {}
    for words in KINDS[: len(checks)]:
        (found[words],) = [check for check in checks if words in check.guideline]
    return found


def broken(rows: list[StudyRow], selected_on: str | None = "validation") -> dict[str, str]:
    """Return the guidelines that are not met, with their violations."""
    return {
        words: str(check).split(": ", 1)[1]
        for words, check in checked(rows, selected_on).items()
        if not check.met
    }


def test_a_study_that_meets_all() -> None:
    assert broken(GOOD) == {}
    assert broken(GOOD, None) == {}
    for check in check_guidelines(GOOD, "validation"):
        assert check.met
        assert ":" not in str(check)


@pytest.mark.parametrize(("id_", "word"), [("acc", "AA"), ("bwt", "BWT"), ("acc.learning", "LA")])
def test_a_metric_that_one_run_of_one_line_lacks(id_: str, word: str) -> None:
    rows = [*GOOD[:2], row("ewc", runs=[a_run(), a_run(id_), a_run()])]
    assert broken(rows) == {"AA, BWT": f"digits class mlp ewc has no {word}"}


def test_a_line_without_runs_reports_nothing() -> None:
    found = broken([*GOOD[:2], row("ewc", runs=[], data=[])])
    assert set(found) == {"AA, BWT", "time and memory", "three seeds"}
    name = "digits class mlp ewc"
    assert found["AA, BWT"] == f"{name} has no AA; {name} has no BWT; {name} has no LA"


@pytest.mark.parametrize("missing", ["naive", "joint"])
def test_a_baseline_that_is_missing(missing: str) -> None:
    rows = [each for each in GOOD if each.cell.strategy != missing]
    assert broken(rows) == {"naive and joint": f"digits class has no {missing}"}
    empty = row(missing, runs=[], data=[])
    assert broken([*rows, empty])["naive and joint"] == f"digits class has no {missing}"


def test_every_scenario_and_setting_has_its_own_baserows() -> None:
    task = [changed(each, setting="task") for each in GOOD if each.cell.strategy != "joint"]
    assert broken([*GOOD, *task]) == {"naive and joint": "digits task has no joint"}
    mnist = [changed(each, scenario="mnist") for each in GOOD if each.cell.strategy != "naive"]
    assert broken([*GOOD, *mnist]) == {"naive and joint": "mnist class has no naive"}


def test_a_method_without_one_of_the_architectures() -> None:
    both = [*GOOD, *(changed(each, model="conv") for each in GOOD)]
    assert broken(both) == {}
    assert broken(both[:-1]) == {"architectures": "ewc lacks conv"}
    # One model a setting is no difference between methods.
    other = [changed(each, setting="task", model="conv") for each in GOOD]
    assert broken([*GOOD, *other]) == {}


def test_one_name_for_two_networks() -> None:
    narrow = [changed(each, networks=["mlp hidden=16"] * 3) for each in GOOD]
    assert broken(narrow) == {}
    wide = [*narrow[:2], changed(narrow[2], networks=["mlp hidden=800"] * 3)]
    assert broken(wide) == {"architectures": "digits class has mlp hidden=16; mlp hidden=800"}
    # A variant may be about the network.
    assert broken([*narrow, *(changed(each, variant="wide") for each in wide[2:])]) == {}


def test_methods_with_other_data() -> None:
    rows = [*GOOD[:2], row("ewc", data=["order 0", "order 0", "order 7"])]
    found = broken(rows)
    assert set(found) == {"data and task order"}
    assert "digits class has 2 different: order 0; order 7" in found["data and task order"]
    # Another scenario has other data, of course.
    other = [changed(each, scenario="mnist", data=["order 7"] * 3) for each in GOOD]
    assert broken([*GOOD, *other]) == {}


@pytest.mark.parametrize("left", ["seconds_train", "peak_bytes"])
def test_costs_that_one_run_lacks(left: str) -> None:
    half = RunSummary(METRICS, {}, {name: value for name, value in COSTS.items() if name != left})
    every = broken([*GOOD[:2], row("ewc", runs=[half] * 3)])
    assert every == {"time and memory": "digits class mlp ewc has none"}
    assert broken([*GOOD[:2], row("ewc", runs=[a_run(), a_run(), half])]) == every


def test_two_seeds_are_too_few() -> None:
    rows = [*GOOD[:2], row("ewc", runs=[a_run()] * 2, data=["order 0"] * 2)]
    assert broken(rows) == {"three seeds": "digits class mlp ewc has fewer"}


def test_a_choice_on_the_test_set() -> None:
    assert set(broken(GOOD, "test")) == {"test set"}
    assert "test set" not in " ".join(map(str, check_guidelines(GOOD, None)))


def test_of_many_that_lack_something_three_are_named() -> None:
    rows = [row(name, variant="v", runs=[a_run()], data=["order 0"]) for name in "abcde"]
    said = broken([*GOOD, *rows])["three seeds"]
    assert said.startswith("digits class mlp a v has fewer; ")
    assert said.endswith("digits class mlp c v has fewer, and 2 more")


def test_grids_by_hand() -> None:
    runs = [RunSummary({"acc": acc, "bwt": -0.25}, {}, {}) for acc in (0.25, 0.5, 0.75)]
    rows = [
        row("naive", runs=runs), row("ewc", runs=runs[:1], data=["x"]),
        row("ewc", runs=[], data=[], model="conv"),
    ]  # fmt: skip
    first, second = study_tables(rows)
    assert (first.title, second.title) == (
        "digits, class-incremental, mlp", "digits, class-incremental, conv",
    )  # fmt: skip
    assert first.header == ["strategy", "seeds", "acc", "bwt"]  # nothing that nobody has
    assert first.rows == [
        ["naive", "3 of 3", "0.500 ± 0.250", "-0.250 ± 0.000"],
        ["ewc", "1 of 3", "0.250", "-0.250"],
    ]  # fmt: skip
    assert second.rows == [["ewc", "0 of 3"]]
    (whole,) = study_tables(rows, together=True)
    assert whole.header == ["model", "strategy", "seeds", "acc", "bwt"]
    assert [row[:3] for row in whole.rows] == [
        ["mlp", "naive", "3 of 3"], ["mlp", "ewc", "1 of 3"], ["conv", "ewc", "0 of 3"],
    ]  # fmt: skip
