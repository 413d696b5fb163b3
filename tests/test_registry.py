"""The table of metrics and its readings, and the matrix that the metrics take."""

import re
from contextlib import suppress
from dataclasses import FrozenInstanceError
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perdure.metrics import (
    DIAGNOSIS,
    METRICS,
    NEEDS,
    ScoreMatrix,
    ScoreScale,
    UndefinedMetricError,
    find_metric,
    format_id,
    parse_id,
)

from .references import Array, Case, cases, inf, nan, some, unit, words

# Copied from the definitions, not from the table.
DEFINED = words("""
acc acc.pooled acc.lower acc.below acc.incremental acc.learning acc.all
bwt bwt.all bwt.consecutive rem bwt.positive fwt.upper fwt.gem fwt.next fwt.learned
forgetting.best forgetting.learned forgetting.peak forgetting.any forgetting.ratio
memory_stability intransigence intransigence.single omega.base omega.new omega.all
omega.offline
raa raf uraa uraf min_acc wc_acc wf wp current lca aaa gap.depth gap.area gap.recovery
ms sss ce clscore clstability retention retention.worst retention.relative
""")
SMALLER_IS_BETTER = words("""
forgetting.best forgetting.learned forgetting.peak forgetting.any memory_stability
intransigence intransigence.single raf uraf wf gap.depth gap.area gap.recovery
""")
NEGATIVE = words("""
bwt bwt.all bwt.consecutive fwt.gem fwt.learned forgetting.best forgetting.learned forgetting.any
forgetting.ratio intransigence intransigence.single raf uraf gap.depth retention retention.worst
""")
every_id = pytest.mark.parametrize("id_", METRICS)


def test_every_defined_id_has_a_row() -> None:
    assert set(DEFINED) <= set(METRICS)


@every_id
def test_a_row_is_filled_in(id_: str) -> None:
    metric = METRICS[id_]
    for text in (metric.name, metric.symbol, metric.formula, metric.source):
        assert isinstance(text, str)
        assert text.strip()
    assert metric.input in ("matrix", "stream", "control", "costs", "runs")
    assert metric.unit in ("score", "squared score", "none")
    assert callable(metric.function)
    assert metric.function.__doc__
    assert metric.low < metric.high
    assert metric.better == ("lower" if id_ in SMALLER_IS_BETTER else "higher")
    assert (metric.low < 0) == (id_ in NEGATIVE)


@every_id
def test_a_row_has_a_reading(id_: str) -> None:
    assert METRICS[id_].distinction.strip()
    assert METRICS[id_].interpretation.strip()


def test_there_are_no_other_readings_and_needs() -> None:
    assert {need for metric in METRICS.values() for need in metric.needs} == set(NEEDS)
    assert all(text.strip() for text in NEEDS.values())
    for id_ in ("acc.learning", "bwt", "acc"):
        assert id_ in DIAGNOSIS


@pytest.mark.parametrize("field", ["name", "symbol", "formula"])
def test_rows_are_told_apart(field: str) -> None:
    given_ = [getattr(metric, field) for metric in METRICS.values()]
    assert len(set(given_)) == len(given_)


@some
@given(cases(), arrays(np.float64, 16, elements=unit))
def test_ranges_hold_for_accuracies(case: Case, spare: Array) -> None:
    t = len(case.r)
    b, joint = spare[:t].tolist(), [max(float(x), 0.001) for x in spare[8 : 8 + t]]
    joint = [j + 1e-3 if j == low else j for j, low in zip(joint, b, strict=True)]
    joint = [min(j, 1.0) for j in joint]
    for id_, metric in METRICS.items():
        if metric.input != "matrix":
            continue
        arguments = case.arguments(metric.needs)
        arguments |= {
            name: x for name, x in (("initial", b), ("joint", joint)) if name in arguments
        }
        try:
            value = metric.function(case.matrix, **arguments)
        except UndefinedMetricError:
            assert id_ == "forgetting.ratio"
            continue
        assert metric.low - 1e-12 <= value <= metric.high + 1e-12, id_


@pytest.mark.parametrize(
    "id_", [id_ for id_, metric in METRICS.items() if metric.input == "matrix" and id_ in DEFINED]
)
def test_ranges_are_reached(id_: str) -> None:
    metric, found = METRICS[id_], []
    for bits in product((0.0, 1.0), repeat=5):
        matrix, reference = np.array(bits[:4]).reshape(2, 2), [bits[4]] * 2
        vectors = {"initial": reference, "joint": reference, "single": reference}
        vectors |= {"offline": reference}
        vectors |= {"classes": [2, 2], "sizes": [1, 1]}
        arguments = {name: vectors[name] for name in metric.needs if name in vectors}
        with suppress(UndefinedMetricError):
            found.append(float(metric.function(matrix, **arguments)))
    assert metric.low == -inf or (found and min(found) == pytest.approx(metric.low))
    assert metric.high == inf or (found and max(found) == pytest.approx(metric.high))


@every_id
def test_an_id_names_its_function(id_: str) -> None:
    expected = "current_accuracy" if id_ == "current" else id_.replace(".", "_")
    assert METRICS[id_].function.__name__ == expected


def test_ids_are_parsed_and_written() -> None:
    for base, value in (("wf", 10), ("wp", None), ("lca", 0)):
        parsed = parse_id(format_id(base, value))
        assert (parsed.base, *parsed.arguments.values()) == (base, value)
    assert parse_id("wf").arguments == parse_id("gap.depth").arguments == {}


def test_ids_with_a_number() -> None:
    assert find_metric("wf10") is find_metric("wfall") is METRICS["wf"]
    assert find_metric("wp100") is METRICS["wp"]
    assert find_metric("lca10") is METRICS["lca"]
    assert find_metric("bwt") is METRICS["bwt"]


@pytest.mark.parametrize(
    ("id_", "message"),
    [
        ("forgeting.best", "no metric has the id 'forgeting.best'; did you mean forgetting.best"),
        ("bwt.al", "did you mean bwt.all"),
        ("minacc", "did you mean min_acc"),
        ("lcaall", "no metric has the id 'lcaall'"),
        ("wf1.5", "no metric has the id 'wf1.5'"),
        ("wf-1", "no metric has the id 'wf-1'"),
        ("zzz", "no metric has the id 'zzz'; see `perdure list metrics`"),
        ("", "no metric has the id ''"),
    ],
)
def test_unknown_ids(id_: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        find_metric(id_)


# The matrix

FINE = [[0.9, 0.1], [0.6, 0.8]]
VECTORS = ("initial", "joint", "single", "offline", "classes", "sizes")


def test_a_matrix_is_frozen_and_its_arrays_read_only() -> None:
    vectors: dict[str, Any] = {name: np.array([1.0, 1.0]) for name in VECTORS}
    source = np.array(FINE)
    matrix = ScoreMatrix(source, **vectors)
    source[:] = 0
    np.testing.assert_array_equal(matrix.scores, FINE)
    with pytest.raises(FrozenInstanceError):
        matrix.setting = "task"  # type: ignore[misc]
    for name, given_ in vectors.items():
        given_[:] = 9
        kept = getattr(matrix, name)
        np.testing.assert_array_equal(kept, [1, 1])
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        matrix.scores[0, 0] = 0
    with pytest.raises(FrozenInstanceError):
        matrix.scale.low = 3  # type: ignore[misc]


def test_what_was_passed_in_stays_writable() -> None:
    source = np.array(FINE)
    ScoreMatrix(source)
    ScoreMatrix(source, transposed=True)
    source[0, 0] = 0.5


def test_transposed_input() -> None:
    r = [[0.9, nan, nan], [0.6, 0.8, nan], [0.5, 0.4, 0.7]]
    turned = ScoreMatrix(np.array(r).T, transposed=True)
    np.testing.assert_array_equal(turned.scores, r)
    assert turned.scores[2, 0] == 0.5


def test_names_and_notes() -> None:
    assert ScoreMatrix(FINE).tasks == ("task 0", "task 1")
    assert ScoreMatrix(FINE, ["x", "y"]).tasks == ("x", "y")
    assert tuple(ScoreMatrix(FINE, notes=["from a log"]).notes) == ("from a log",)


def test_scores_never_measured_may_be_missing_off_the_diagonal() -> None:
    matrix = ScoreMatrix([[0.9, nan], [nan, 0.8]], initial=[nan, 0.1])
    assert np.isnan(matrix.scores[1, 0])
    assert matrix.initial is not None
    assert np.isnan(matrix.initial[0])


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"scores": [[0.9, 0.1]]}, "must be square, got shape (1, 2)"),
        ({"scores": [0.9]}, "must be square, got shape (1,)"),
        ({"scores": np.empty((0, 0))}, "must be square, got shape (0, 0)"),
        ({"scores": [[0.9, 0.1], [0.6, nan]]}, "score on task 1 after task 1 is missing"),
        (
            {"scores": [[90, 10], [60, 80]]},
            "score on task 0 after task 0 is 90, expected 0 to 1; for percentages",
        ),
        ({"scores": [[0.9, 0.1], [6, 0.8]]}, "score on task 0 after task 1 is 6, expected 0 to 1"),
        (
            {"scores": [[0.9, 6], [0.1, 0.8]], "transposed": True},
            "score on task 0 after task 1 is 6, expected 0 to 1",
        ),
        (
            {"scores": [[0.9, -0.5], [0.6, 0.8]]},
            "score on task 1 after task 0 is -0.5, expected 0 to 1; other scores need",
        ),
        ({"scores": [[0.9, 0.1], [300, 0.8]]}, "is 300, expected 0 to 1; other scores need"),
        (
            {"scores": [[5, 1], [20, 8]], "scale": ScoreScale(0, 10)},
            "score on task 0 after task 1 is 20, expected 0 to 10",
        ),
        ({"scores": [[0.9, inf], [0.6, 0.8]]}, "score on task 1 after task 0 is inf"),
        ({"tasks": ["a"]}, "task names must be 2 unique names, got ['a']"),
        ({"tasks": ["a", "a"]}, "task names must be 2 unique names, got ['a', 'a']"),
        ({"setting": "online"}, "setting is 'online', expected class, task or domain"),
        ({"classes": [2]}, "for each of 2 tasks, got 1"),
        ({"classes": [2, 0]}, "class count of task 1 is 0, expected a whole number of at least 1"),
        ({"classes": [2, 2.5]}, "class count of task 1 is 2.5, expected a whole number"),
        ({"classes": [2, nan]}, "class count of task 1 is nan"),
        ({"sizes": [2, 2, 2]}, "for each of 2 tasks, got 3"),
        ({"sizes": [2, 0]}, "test-set size of task 1 is 0, expected a whole number of at least 1"),
        ({"sizes": [2, 1.5]}, "test-set size of task 1 is 1.5, expected a whole number"),
        ({"sizes": [2, inf]}, "test-set size of task 1 is inf"),
    ],
)
def test_says_what_is_wrong_with_a_matrix(given_: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        ScoreMatrix(**{"scores": FINE, **given_})


@pytest.mark.parametrize("name", ["initial", "joint", "single", "offline"])
def test_says_what_is_wrong_with_a_vector_of_scores(name: str) -> None:
    for wrong, message in (
        ([0.1], "for each of 2 tasks, got 1"),
        ([[0.1, 0.2]], "for each of 2 tasks, got shape (1, 2)"),
        (
            [0.1, 50],
            f"{name} score of task 1 is 50, expected 0 to 1; for percentages",
        ),
        ([0.1, inf], f"{name} score of task 1 is inf"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            ScoreMatrix(FINE, **{name: wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["initial", "joint", "single", "offline"])
def test_infinite_scores_are_refused_in_any_range(name: str) -> None:
    with pytest.raises(ValueError, match="inf"):
        ScoreMatrix(FINE, scale=ScoreScale(-inf, inf), **{name: [0.1, inf]})  # type: ignore[arg-type]


@pytest.mark.parametrize(("low", "high"), [(1, 0), (1, 1), (nan, 1)])
def test_a_range_runs_upwards(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="must go from lower to higher"):
        ScoreScale(low, high)


@some
@given(st.floats(-10, 10), st.floats(0.1, 10), st.booleans())
def test_which_scores_are_accuracies(low: float, width: float, lower: bool) -> None:
    scale = ScoreScale(low, low + width, lower_is_better=lower)
    assert scale.is_accuracy == (low >= 0 and low + width <= 1 and not lower)
