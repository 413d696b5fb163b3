"""Captions state the ids of the metrics, and what means and bands are taken over."""

from __future__ import annotations

import numpy as np
import pytest

from perdure.metrics import ScoreMatrix, Stream
from perdure.record import ScoreInput
from perdure.report import figures

SCORES = [[0.9, 0.1], [0.6, 0.8]]


def make_run(shift: float) -> ScoreInput:
    """Return a run of two tasks whose older task drops by a third when the other one starts."""
    matrix = ScoreMatrix(np.array(SCORES) - shift, classes=[2, 2])
    first = ([1, 2, 3, 4], [0.9 - shift, 0.9 - shift, 0.3 - shift, 0.6 - shift])
    stream = Stream({"0": first, "1": ([4], [0.8 - shift])}, [("0", 2), ("1", 4)])
    return ScoreInput(matrix, stream)


METHODS = {"er": [make_run(0.0), make_run(0.05)], "naive": [make_run(0.02), make_run(0.08)]}


@pytest.mark.parametrize(
    ("kind", "stated"),
    [
        ("curves", "lines are means over 2 runs, bands one SD; min-ACC: the lowest since"),
        ("forgetting", "forgetting.learned against wf10"),
        ("forgetting", "light points single runs"),
        ("heatmaps", "cells are means over 2 runs"),
        ("changes", "change of the scores"),
        ("rescaled", "RAF: raf"),
        ("spider", "MS: model size efficiency (ms)"),
        ("fixed", "bands one SD"),
        ("ranks", "acc: average accuracy, rank 1 is best; methods that share a letter"),
    ],
)
def test_every_caption_says_what_is_drawn(kind: str, stated: str) -> None:
    assert stated in figures.get_caption(getattr(figures, kind)(METHODS))


def test_panels_name_the_forgetting_they_draw() -> None:
    caption = figures.get_caption(figures.panels({"er": METHODS["er"]}))
    assert "forgetting.learned" in caption
    assert "error bars one SD" in caption


def test_a_method_with_fewer_runs_is_counted() -> None:
    methods = {"er": METHODS["er"], "naive": METHODS["naive"][:1]}
    assert "means over 1 to 2 runs" in figures.get_caption(figures.heatmaps(methods))
    alone = {name: runs[:1] for name, runs in METHODS.items()}
    assert "one run per method" in figures.get_caption(figures.curves(alone))


def test_names_above_panels_are_whole_if_they_fit() -> None:
    methods = {f"replay epochs={k}0": METHODS["er"] for k in range(1, 8)}
    titles = [axes.get_title() for axes in figures.forgetting(methods).axes]
    assert titles[0].startswith("replay epochs=10\n")
