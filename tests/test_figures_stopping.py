"""Early stopping: what is recorded is what decided, also after a resume, and what is drawn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perdure.record import InputError, RunFolder
from perdure.report.figures import early_stopping
from perdure.report.load import open_methods
from perdure.training import make_config
from perdure.training import run as learn

from .cli_helpers import refused, run
from .matrix_figure_helpers import FIVE, real

if TYPE_CHECKING:
    from pathlib import Path


def stops_by_rule(accuracies: list[float], patience: int, epochs: int) -> bool:
    """Return whether a list of accuracies is exactly as long as the rule of patience makes it."""
    best, waited = -1.0, 0
    for k, accuracy in enumerate(accuracies, start=1):
        best, waited = (accuracy, 0) if accuracy > best else (best, waited + 1)
        if waited == patience or k == epochs:
            return k == len(accuracies)
    return False


def test_the_trace_is_recorded_and_drawn(tmp_path: Path) -> None:
    config = make_config(
        "split-digits", "naive", epochs=6, every=1000, patience=1, settings={"hidden": 8}
    )
    learn(config, tmp_path / config.folder)
    trace = RunFolder(tmp_path / config.folder).held_out_accuracy()
    assert list(trace) == ["0-1", "2-3", "4-5", "6-7", "8-9"]
    assert all(stops_by_rule(accuracies, 1, 6) for accuracies in trace.values())
    figure = early_stopping(open_methods([str(tmp_path)])[0])
    for axes, (task, accuracies) in zip(figure.axes, trace.items(), strict=False):
        assert axes.get_title() == task
        line, best, *stop = axes.lines
        assert np.asarray(line.get_xdata()).tolist() == list(range(1, len(accuracies) + 1))
        assert np.asarray(line.get_ydata()).tolist() == accuracies
        assert np.asarray(best.get_xdata()).tolist() == [accuracies.index(max(accuracies)) + 1]
        stopped = len(accuracies) < 6 or accuracies[-1] <= max(accuracies[:-1])
        assert len(stop) == stopped
        if stop:
            assert np.asarray(stop[0].get_xdata()).tolist() == [len(accuracies)]
    result = run("plot", "early-stopping", tmp_path, "-o", tmp_path / "x.pdf", "--tasks", "2")
    assert result.code == 0


def test_runs_without_early_stopping_say_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no accuracies on held-out examples.*`patience=5`"):
        early_stopping(real())
    message = refused("plot", "early-stopping", FIVE, "-o", tmp_path / "x.pdf")
    assert "--patience 5" in message


@pytest.mark.parametrize("accuracies", [[2.0], ["x"], [None], {"a": 1}])
def test_a_broken_trace_is_an_error_that_names_the_file(tmp_path: Path, accuracies: object) -> None:
    (tmp_path / "done.json").write_text(json.dumps({"held_out_accuracy": {"a": accuracies}}))
    with pytest.raises(InputError, match=r"done\.json"):
        RunFolder(tmp_path).held_out_accuracy()
