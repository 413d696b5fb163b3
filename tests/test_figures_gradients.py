"""Gradient norms: what is drawn is what gradients.csv says, computed here by hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perdure.record import InputError, Run
from perdure.record.formats.tables import read_gradients
from perdure.report.figures import gradients

from . import cli_helpers
from .figure_helpers import check_files, edges, ends, folders, parts, real, rows, spread
from .report_helpers import store

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("replay", "gem")


def norms(folder: Path, term: str) -> dict[int, float]:
    read = {int(row["step"]): float(row[term] or "nan") for row in rows(folder, "gradients.csv")}
    return {step: norm for step, norm in read.items() if not math.isnan(norm)}


def by_hand(text: str) -> Run:
    found, _ = read_gradients("step,trained,plasticity,stability\n" + text, "gradients.csv")
    return Run(gradients=found)


@pytest.mark.parametrize("term", ["stability", "plasticity"])
def test_whole_curves_are_those_of_the_files(term: str) -> None:
    figure = gradients(real(*NAMES), term=term)  # type: ignore[arg-type]
    [axes] = figure.axes
    drawn = parts(axes)
    assert drawn.upright == ends(folders("gem")[0])[:-1]
    for at, name in enumerate(NAMES):
        steps, mean, sd = spread([norms(each, term) for each in folders(name)])
        assert drawn.curves[at][:, 0].tolist() == steps
        np.testing.assert_allclose(drawn.curves[at][:, 1], mean, rtol=1e-12)
        below, above = edges(axes, at)
        np.testing.assert_allclose(below[:, 1], mean - sd, atol=1e-12)
        np.testing.assert_allclose(above[:, 1], mean + sd, atol=1e-12)
    assert figure.get_supylabel() == f"{term}\ngradient norm"
    assert axes.get_ylim()[0] == 0


def test_both_terms_stand_below_each_other() -> None:
    figure = gradients(real("gem"), term="both")
    for axes, term in zip(figure.axes, ("stability", "plasticity"), strict=True):
        _, mean, _ = spread([norms(each, term) for each in folders("gem")])
        np.testing.assert_allclose(parts(axes).curves[0][:, 1], mean, rtol=1e-12)


@pytest.mark.parametrize("term", ["stability", "plasticity", "both"])
def test_zoom_shows_the_first_iterations_of_each_task(term: str) -> None:
    most = 4
    figure = gradients(real(*NAMES), zoom=most, term=term)  # type: ignore[arg-type]
    panels = [axes for axes in figure.axes if axes.get_visible() and axes.get_title()]
    switch = [0, *ends(folders("gem")[0])]
    tasks = list(dict.fromkeys(row["trained"] for row in rows(folders("gem")[0], "gradients.csv")))
    wanted = [(each, k) for each in ("stability", "plasticity") for k in range(5)]
    wanted = [(each, k) for each, k in wanted if term in (each, "both")]
    wanted.remove(("stability", 0)) if term != "plasticity" else None  # nothing to hold on to yet
    assert [axes.get_title() for axes in panels] == [tasks[k] for _, k in wanted]
    for axes, (each, k) in zip(panels, wanted, strict=True):
        for at, name in enumerate(NAMES):
            steps, mean, _ = spread([norms(folder, each) for folder in folders(name)])
            inside = [i for i, t in enumerate(steps) if switch[k] < t <= switch[k] + most]
            drawn = parts(axes).curves[at]
            assert drawn[:, 0].tolist() == [steps[i] - switch[k] for i in inside] == [1, 2, 3, 4]
            np.testing.assert_allclose(drawn[:, 1], mean[inside], rtol=1e-12)
    whole = [axes for axes in figure.axes if axes.get_visible() and not axes.get_title()]
    shown = ["stability", "plasticity"] if term == "both" else [term]
    for axes, each in zip(whole, shown, strict=True):
        for at, name in enumerate(NAMES):
            steps, mean, _ = spread([norms(folder, each) for folder in folders(name)])
            assert parts(axes).curves[at][:, 0].tolist() == steps
            np.testing.assert_allclose(parts(axes).curves[at][:, 1], mean, rtol=1e-12)
        shaded = [(p.get_x(), p.get_width()) for p in axes.patches]  # type: ignore[attr-defined]
        assert shaded == [(switch[k], most) for one, k in wanted if one == each]


def test_steps_without_a_term_are_left_out_and_zoom_ends_with_the_task() -> None:
    run = by_hand("1,a,5,\n2,a,4,\n3,b,9,0.5\n4,b,inf,0.75\n5,b,7,0.25\n6,c,1,2\n")
    [axes] = gradients({"mine": [run]}).axes
    assert parts(axes).curves[0].tolist() == [[3, 0.5], [4, 0.75], [5, 0.25], [6, 2]]
    [axes] = gradients({"mine": [run]}, term="plasticity").axes
    assert parts(axes).curves[0].tolist() == [[1, 5], [2, 4], [3, 9], [5, 7], [6, 1]]
    zoomed = gradients({"mine": [run]}, zoom=10)
    *panels, whole = zoomed.axes
    shown = [parts(axes).curves[0].tolist() for axes in panels]
    assert shown == [[[1, 0.5], [2, 0.75], [3, 0.25]], [[1, 2]]]
    assert [axes.get_title() for axes in panels] == ["b", "c"]
    assert parts(whole).curves[0].tolist() == [[3, 0.5], [4, 0.75], [5, 0.25], [6, 2]]


def test_long_curves_keep_their_peak() -> None:
    values = np.random.default_rng(0).uniform(0, 1, 20_000)
    values[1234] = 7.5
    run = by_hand("".join(f"{k + 1},a,1,{value}\n" for k, value in enumerate(values)))
    drawn = parts(gradients({"mine": [run]}).axes[0]).curves[0]
    assert len(drawn) <= 1000
    assert [1235, 7.5] in drawn.tolist()
    assert drawn[:, 1].min() == values.min()


def test_files_and_refusals(tmp_path: Path) -> None:
    methods = real(*NAMES)
    check_files(lambda: gradients(methods, zoom=5), tmp_path)
    with pytest.raises(InputError, match=r"mine: no gradients\.csv.*`gradients=1`"):
        gradients({"mine": [Run()]})
    with pytest.raises(InputError, match="naive learning has none"):
        gradients(real("naive"))
    with pytest.raises(InputError, match="term is 'x'"):
        gradients(real("gem"), term="x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="zoom is 0"):
        gradients(real("gem"), zoom=0)
    points = tmp_path / "points.csv"
    points.write_text(cli_helpers.POINTS)
    answer = cli_helpers.run("plot", "gradients", points, "-o", tmp_path / "x.pdf")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "no gradients.csv" in answer.err
    gem = f"gem={store()}/*gem*"
    answer = cli_helpers.run(
        "plot", "gradients", gem, "-o", tmp_path / "x.svg", "--zoom", "5", "--term", "both"
    )
    assert (answer.code, answer.err.count("\n"), answer.err[:18]) == (0, 1, "perdure: caption: ")
