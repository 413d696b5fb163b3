"""Every figure of matrices, criteria and ranks, from real runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perdure.report.figures import changes, guessing, heatmaps, panels, ranks, rescaled, spider
from perdure.report.load import open_methods
from perdure.training import make_config
from perdure.training import run as learn

from .cli_helpers import refused, run
from .matrix_figure_helpers import image_of, line, real, scores_of
from .report_helpers import store

if TYPE_CHECKING:
    from pathlib import Path


def test_heatmaps_are_the_means_of_what_was_recorded() -> None:
    methods = real()
    for axes, (name, runs) in zip(heatmaps(methods).axes, methods.items(), strict=False):
        assert axes.get_title() == name
        assert image_of(axes) == pytest.approx(sum(scores_of(runs)) / len(runs), nan_ok=True)
        assert np.isfinite(image_of(axes)).sum() == 15


def test_changes_are_differences_of_rows() -> None:
    methods = real()
    gem = image_of(changes(methods).axes[list(methods).index("gem")])
    mean = scores_of(methods["gem"]).mean(axis=0)
    assert gem == pytest.approx(mean[1:] - mean[:-1], nan_ok=True)


def test_panels_show_what_was_forgotten() -> None:
    r = scores_of(real()["naive"])
    lost = r[:, range(4), range(4)] - r[:, -1, :4]
    bars = panels(real(), method="naive").axes[2].patches
    assert [bar.get_height() for bar in bars] == pytest.approx(lost.mean(axis=0))  # type: ignore[attr-defined]


def test_rescaled_ends_where_the_plain_curves_end() -> None:
    """At the last of equal tasks both factors are 1 (Michel et al. 2023)."""
    aa, raa, af, raf = rescaled(real()).axes
    for k, runs in enumerate(real().values()):
        final = scores_of(runs)[:, -1].mean()
        assert line(aa, k)[1][-1] == pytest.approx(final)
        assert line(raa, k)[1][-1] == pytest.approx(final)
        assert line(raa, k)[1][0] == pytest.approx(line(aa, k)[1][0] / 5)
        assert line(raf, k)[1][-1] == pytest.approx(line(af, k)[1][-1])
    (factors,) = guessing(real()).axes
    assert line(factors)[1] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_spiders_of_runs_with_costs_lack_only_what_was_not_tested() -> None:
    figure = spider(real())
    shown = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in shown] == ["gem", "replay"]
    own = next(each for each in shown[1].lines if each.get_label() == "replay")
    radii = np.asarray(own.get_ydata(), dtype=float)[:7]
    lower = scores_of(real()["replay"])
    assert radii[0] == pytest.approx(np.nanmean(lower.reshape(2, -1), axis=1).mean())
    assert np.isnan(radii).tolist() == [False, False, False, True, False, False, False]  # FWT


def without_letters(text: str) -> str:
    return re.sub(r" \([a-z]+\)", "", text).strip()


def test_ranks_pair_runs_by_their_seeds() -> None:
    figure = ranks(real())
    finals = {name: scores_of(runs)[:, -1].mean(axis=1) for name, runs in real().items()}
    order = np.array(list(finals.values())).argsort(axis=0).argsort(axis=0)
    mean = dict(zip(finals, (4 - order).mean(axis=1), strict=True))
    shown = {without_letters(text.get_text()) for text in figure.axes[0].texts}
    left, right = sorted(mean, key=mean.__getitem__)[:2], sorted(mean, key=mean.__getitem__)[2:]
    assert {f"{name}  {mean[name]:.2f}" for name in left} <= shown
    assert {f"{mean[name]:.2f}  {name}" for name in right} <= shown
    turned = {
        name: list(reversed(runs)) if name == "gem" else runs for name, runs in real().items()
    }
    again = {without_letters(text.get_text()) for text in ranks(turned).axes[0].texts}
    assert again == shown  # not by their order


def test_fixed_from_runs_that_test_unseen_tasks(tmp_path: Path) -> None:
    for strategy in ("naive", "replay"):
        what = make_config(
            "split-digits", strategy, epochs=1, every=1000, unseen=True, settings={"hidden": 8}
        )
        learn(what, tmp_path / what.folder)
    methods, _ = open_methods([str(tmp_path)])
    assert run("plot", "fixed", tmp_path, "-o", tmp_path / "fixed.pdf").code == 0
    from perdure.report.figures import fixed

    axes = fixed(methods).axes[0]
    for k, runs in enumerate(methods.values()):
        (r,) = scores_of(runs)
        assert line(axes, k)[1] == pytest.approx([sum(row) / 5 for row in r])
    refusal = refused("plot", "fixed", store(), "-o", tmp_path / "x.pdf")
    assert refusal.count("`perdure run`") == refusal.count("--unseen") == 1


@pytest.mark.parametrize("kind", ["heatmaps", "rescaled", "spider", "ranks"])
def test_the_command_draws_a_store(kind: str, tmp_path: Path) -> None:
    assert run("plot", kind, store(), "-o", tmp_path / "x.svg").code == 0
    assert (tmp_path / "x.svg").read_text().count("cumulative") >= 1
