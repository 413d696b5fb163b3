"""What other tools print, from running or reading them on the matrix of the definitions."""

import numpy as np
import pytest

from perdure.metrics import (
    METRICS,
    TOOLS,
    ScoreMatrix,
    ScoreScale,
    as_tool,
    find_metric,
    forgetting_peak,
    summary,
)

from .references import B, R, nan

SIZES = [100, 200, 100, 300, 100]
MATRIX = ScoreMatrix(R, initial=B, sizes=SIZES)

PRINTED: dict[str, dict[str, float]] = {
    "avalanche": {
        "Top1_Acc_Stream": 0.60375,
        "StreamForgetting": 0.165,
        "StreamBWT": -0.165,
        "StreamForwardTransfer": 0.25,
    },
    "avalanche-clear": {
        "in_domain": 0.794,
        "next_domain": 0.35,
        "accuracy": 0.682,
        "backward_transfer": 0.626,
        "forward_transfer": 0.20,
    },
    "mammoth": {
        "Accuracy": 0.662,
        "Backward Transfer": -0.165,
        "Forward Transfer": 0.25,
        "Forgetting": 0.225,
    },
    "continuum": {
        "accuracy": 0.60375,
        "average_incremental_accuracy": 0.697155,
        "accuracy_A": 0.682,
        "backward_transfer": -0.044,
        "positive_backward_transfer": 0,
        "remembering": 0.956,
        "forward_transfer": 0.626,
        "forgetting": 0.085,
    },
    "pycil": {"Average Accuracy (CNN)": 0.697155, "Forgetting (CNN)": 0.225},
    "pilot": {"Average Accuracy (CNN)": 0.697155, "Forgetting (CNN)": 0.225},
    "renate": {
        "Average Accuracy": 0.662,
        "Micro Average Accuracy": 0.60375,
        "Forgetting": 0.2175,
        "Forward Transfer": 0.25,
        "Backward Transfer": -0.165,
    },
    "facil": {"TAw Acc / TAg Acc, Avg.": 0.662, "TAw Forg / TAg Forg, Avg.": 0.20},
    "capymoa": {
        "accuracy_final": 0.662,
        "accuracy_all_avg": 0.4892,
        "accuracy_seen_avg": 0.697733,
        "backward_transfer": -0.124,
        "forward_transfer": 0.20,
    },
    "m2i": {"ACC": 0.682, "BWT": -0.066, "FWT": 0.20},
    "michel2023": {"AA_K": 0.662, "AF_K": 0.200},
    "diaz2018": {"A": 0.682, "REM": 0.876, "BWT+": 0, "FWT": 0.20},
    "delange2023": {"ACC": 0.662, "FORG": 0.165},
    "faber2023": {"ACC": 0.682, "BWT (tables)": -0.066, "BWT (eq. 2)": -0.124, "FWT": 0.20},
    "tutorial": {
        "AA": 0.662,
        "LA": 0.794,
        "BWT": -0.165,
        "FWT": 0.6925,
        "FM": 0.225,
        "MS": 0.0181189,
    },
}


def values(matrix: ScoreMatrix, tool: str) -> dict[str, float | None]:
    return {row.name: row.value for row in as_tool(matrix, tool)}


@pytest.mark.parametrize("tool", TOOLS)
def test_prints_what_the_tool_prints(tool: str) -> None:
    found = {name: value for name, value in values(MATRIX, tool).items() if value is not None}
    assert found == pytest.approx(PRINTED[tool], abs=5e-7)


@pytest.mark.parametrize("tool", TOOLS)
def test_rows_carry_an_id_or_say_why_not(tool: str) -> None:
    for row in as_tool(MATRIX, tool):
        if row.value is None:
            assert row.note
        if row.id is None:
            assert row.note
        else:
            assert find_metric(row.id).name
            if row.id in METRICS and row.value is not None:
                assert row.value == pytest.approx(summary(MATRIX).metrics[row.id])


def test_mammoth_counts_the_score_just_before_learning_as_a_peak() -> None:
    r = np.array(R)
    r[0, 1] = 0.99
    row = next(row for row in as_tool(ScoreMatrix(r), "mammoth") if row.name == "Forgetting")
    assert row.value == pytest.approx(0.2775)
    assert row.id is None
    assert forgetting_peak(r) == pytest.approx(0.225)
    usual = next(row for row in as_tool(MATRIX, "mammoth") if row.name == "Forgetting")
    assert usual.id == "forgetting.peak"


def test_mammoth_where_unseen_tasks_were_not_tested() -> None:
    lower = np.where(np.tri(5, dtype=bool), R, nan)
    found = values(ScoreMatrix(lower), "mammoth")
    assert found["Forgetting"] == pytest.approx(0.225)
    assert found["Forward Transfer"] is None


def test_equal_test_sets_are_assumed_and_said() -> None:
    rows = {row.name: row for row in as_tool(ScoreMatrix(R), "continuum")}
    assert rows["accuracy"].value == pytest.approx(0.662)
    assert "no sizes given" in rows["accuracy"].note
    incremental = rows["average_incremental_accuracy"]
    assert incremental.value == pytest.approx(0.697733, abs=5e-7)
    assert incremental.id == "acc.incremental"
    assert "no sizes given" in incremental.note
    assert "no sizes given" not in rows["accuracy_A"].note
    sized = {row.name: row for row in as_tool(MATRIX, "continuum")}
    assert "no sizes given" not in sized["accuracy"].note
    assert sized["average_incremental_accuracy"].id is None


def test_the_setting_does_not_stop_a_tool() -> None:
    stated = ScoreMatrix(R, initial=B, sizes=SIZES, setting="class")
    for tool in TOOLS:
        assert values(stated, tool) == values(MATRIX, tool)


def test_what_the_matrix_cannot_give_has_a_reason() -> None:
    rows = {row.name: row for row in as_tool(ScoreMatrix(R), "renate")}
    assert rows["Forward Transfer"].value is None
    assert "untrained model" in rows["Forward Transfer"].note
    missing = {row.name: row for row in as_tool(MATRIX, "delange2023")}
    assert missing["WF^10"].value is None
    assert "stream" in missing["WF^10"].note
    holes = np.array(R)
    holes[2, 0] = nan
    assert values(ScoreMatrix(holes), "continuum")["backward_transfer"] is None


def test_numbers_of_a_whole_run_are_taken_over() -> None:
    found = summary(MATRIX)
    found.metrics["wf10"] = 0.125
    rows = {row.name: row.value for row in as_tool(MATRIX, "delange2023", found)}
    assert rows["WF^10"] == 0.125


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("tool", TOOLS)
def test_short_streams(tool: str, tasks: int) -> None:
    short = ScoreMatrix(np.array(R)[:tasks, :tasks])
    for row in as_tool(short, tool):
        assert row.value is None or np.isfinite(row.value)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="no tool is named 'mamoth'; did you mean mammoth"):
        as_tool(MATRIX, "mamoth")
    losses = ScoreMatrix(R, scale=ScoreScale(0, 5, lower_is_better=True))
    with pytest.raises(ValueError, match="mammoth prints accuracies"):
        as_tool(losses, "mammoth")
