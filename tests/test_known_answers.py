"""The numbers that the papers print, and one matrix worked through by hand."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

import perdure
from perdure.metrics import (
    CRITERIA,
    ScoreMatrix,
    ScoreScale,
    beta,
    clscore,
    clscore_of,
    criteria_weights,
    forgetting_matrix,
    gamma,
    random_aa,
    random_af,
    summary,
    uraa_curve,
    uraf_curve,
)

from .references import B, R, nan

# Michel et al. 2023, Tables 1 and 2: a guesser over five tasks of two classes, in percent.
GUESSER = [50, 25, 100 / 6, 12.5, 10]
GUESSER_FORGETS = [
    [nan, nan, nan, nan, nan],
    [25, nan, nan, nan, nan],
    [33.3, 8.33, nan, nan, nan],
    [37.5, 12.5, 4.16, nan, nan],
    [40, 15, 6.66, 2.5, nan],
]

# Tables 1 and 3 of Diaz-Rodriguez et al. 2018, read as TOML: tests of metrics need no PyTorch.
DIAZ = tomllib.loads(
    (Path(perdure.__file__).parent / "reproduction/tables/diaz-icifar100.toml").read_text("utf-8")
)
TABLE_1 = {
    row["strategy"]: {name: row["values"][id_] for name, id_ in CRITERIA.items()}
    for row in DIAZ["published"]
    if row["table"] == "1"
}
TABLE_3 = {
    (row["strategy"], row["weights"]): row["values"]["clscore"]
    for row in DIAZ["published"]
    if row["table"] == "3"
}
ROUNDING = 5.01e-5  # four digits are printed

# Evaluation Metrics for Continual Learning (tutorial): rows are evaluation tasks, columns trained
# ones, in percent.
TUTORIAL = [
    [98.5, 62.3, 55.1, 51.8, 49.2],
    [nan, 97.8, 58.6, 52.4, 50.1],
    [nan, nan, 98.2, 61.3, 53.7],
    [nan, nan, nan, 97.5, 58.9],
    [nan, nan, nan, nan, 98.1],
]


@pytest.mark.parametrize(
    ("id_", "value"),
    [
        ("bwt", -0.165),
        ("bwt.all", -0.124),
        ("bwt.consecutive", -0.066),
        ("acc.below", 0.626),
        ("forgetting.any", 0.2175),
        ("forgetting.best", 0.200),
        ("forgetting.peak", 0.225),
        ("forgetting.learned", 0.165),
        ("fwt.gem", 0.250),
        ("fwt.upper", 0.200),
        ("fwt.next", 0.350),
        ("acc", 0.662),
        ("acc.lower", 0.682),
        ("acc.learning", 0.794),
        ("acc.all", 0.4892),
    ],
)
def test_the_matrix_of_the_definitions(id_: str, value: float) -> None:
    found = summary(ScoreMatrix(R, initial=B))
    assert found.metrics[id_] == pytest.approx(value, abs=1e-9)


def test_the_incremental_accuracy_of_that_matrix() -> None:
    assert summary(R).metrics["acc.incremental"] == pytest.approx(0.6977, abs=5e-5)


@pytest.mark.parametrize("percent", [True, False])
def test_the_matrix_of_the_tutorial(percent: bool) -> None:
    unit = 1.0 if percent else 0.01
    scale = ScoreScale(0, 100 * unit)
    given = ScoreMatrix(unit * np.array(TUTORIAL), transposed=True, scale=scale)
    found = summary(given).metrics
    assert found["acc"] == pytest.approx(62.00 * unit)
    assert found["acc.learning"] == pytest.approx(98.02 * unit)
    assert found["bwt"] == pytest.approx(-45.025 * unit)
    assert found["forgetting.best"] == pytest.approx(45.025 * unit)
    assert found["forgetting.peak"] == pytest.approx(45.025 * unit)
    assert found["memory_stability"] == pytest.approx(363.051 * unit**2, rel=2e-6)


def test_a_guesser_in_the_class_incremental_setting() -> None:
    two_each = [2] * 5
    np.testing.assert_allclose(
        random_aa(two_each), [0.5, 0.25, 0.1667, 0.125, 0.1], atol=5e-5, rtol=0
    )
    np.testing.assert_allclose(
        random_af(two_each), [nan, 0.25, 0.2083, 0.1806, 0.1604], atol=5e-5, rtol=0
    )


def test_the_guesser_through_the_tables_of_michel_et_al() -> None:
    scores = np.tril(np.repeat(np.array(GUESSER)[:, None] / 100, 5, axis=1))
    found = summary(ScoreMatrix(scores, classes=[2] * 5, setting="class"))
    curve = np.array(found.curves["aa"], dtype=float)
    np.testing.assert_allclose(curve, [0.5, 0.25, 0.1667, 0.125, 0.1], atol=5e-5, rtol=0)
    curve = np.array(found.curves["af"], dtype=float)
    np.testing.assert_allclose(curve, [nan, 0.25, 0.2083, 0.1806, 0.1604], atol=5e-5, rtol=0)
    lost = 100 * forgetting_matrix(scores)
    np.testing.assert_allclose(lost, GUESSER_FORGETS, atol=0.05, rtol=0)
    np.testing.assert_allclose(uraa_curve(scores, [2] * 5), 1)
    np.testing.assert_allclose(uraf_curve(scores, [2] * 5)[1:], 1)


def test_beta_and_gamma_of_five_equal_tasks() -> None:
    expected = [nan, 0.641667, 0.77, 0.888462, 1]
    np.testing.assert_allclose(beta([2] * 5), expected, atol=5e-7, rtol=0)
    np.testing.assert_allclose(beta([7] * 5), expected, atol=5e-7, rtol=0)
    np.testing.assert_allclose(gamma([2] * 5), [0.2, 0.4, 0.6, 0.8, 1])


@pytest.mark.parametrize(("strategy", "name"), TABLE_3)
def test_clscores_as_printed(strategy: str, name: str) -> None:
    weights = DIAZ["weights"][name] or dict.fromkeys(CRITERIA, 1 / 7)
    expected = pytest.approx(TABLE_3[strategy, name], abs=ROUNDING)
    criteria = TABLE_1[strategy]
    assert clscore(criteria, weights) == expected
    by_id = {CRITERIA[name]: value for name, value in criteria.items()}
    assert clscore_of(by_id, criteria_weights(weights)) == expected


def test_equal_weights_are_the_default() -> None:
    assert clscore(TABLE_1["lwf"]) == pytest.approx(TABLE_3["lwf", "W1"], abs=ROUNDING)
    assert list(criteria_weights().values()) == pytest.approx([1 / 7] * 7)


def test_the_criteria_are_those_of_the_definitions() -> None:
    assert CRITERIA == {
        "A": "acc.lower",
        "REM": "rem",
        "BWT+": "bwt.positive",
        "FWT": "fwt.upper",
        "MS": "ms",
        "SSS": "sss",
        "CE": "ce",
    }
