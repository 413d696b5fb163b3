"""Windowed drops and rises: the definition over all pairs, whole streams and growing ones."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.metrics import LiveWindow, drops, rises, windowed_drop, windowed_rise

from .stream_references import drop_by_pairs, law, rise_by_pairs

scores = st.floats(0, 1, width=32)
streams = st.lists(scores, max_size=30)
coarse = st.lists(st.sampled_from([0.0, 0.25, 0.5]), max_size=30)  # many ties
windows = st.none() | st.integers(1, 35)


def test_the_stream_on_which_the_papers_routine_fails() -> None:
    assert windowed_rise([0.9, 0.1, 0.8], 3) == pytest.approx(0.7)
    assert windowed_rise([0.9, 0.1, 0.8], None) == pytest.approx(0.7)
    assert windowed_drop([0.9, 0.1, 0.8], 3) == pytest.approx(0.8)


def test_a_window_counts_evaluations_the_current_one_included() -> None:
    slow = [0.9, 0.8, 0.6, 0.3]
    assert windowed_drop(slow, 2) == pytest.approx(0.3)
    assert windowed_drop(slow, 3) == pytest.approx(0.5)
    assert windowed_drop(slow, 4) == pytest.approx(0.6)
    assert windowed_drop(slow, 5) == windowed_drop(slow, None) == pytest.approx(0.6)
    assert windowed_rise(slow, None) == 0


@law
@given(streams | coarse, windows)
def test_drop_agrees_with_all_pairs(stream: list[float], window: int | None) -> None:
    assert windowed_drop(stream, window) == drop_by_pairs(stream, window)


@law
@given(streams | coarse, windows)
def test_rise_agrees_with_all_pairs(stream: list[float], window: int | None) -> None:
    assert windowed_rise(stream, window) == rise_by_pairs(stream, window)


@law
@given(streams | coarse, windows)
def test_each_evaluation_against_its_own_window(stream: list[float], window: int | None) -> None:
    width = window or len(stream)
    for n in range(len(stream)):
        mine = stream[max(0, n - width + 1) : n + 1]
        assert drops(stream, window)[n] == max(mine) - stream[n]
        assert rises(stream, window)[n] == stream[n] - min(mine)


@law
@given(streams)
def test_never_negative_and_a_larger_window_never_less(stream: list[float]) -> None:
    widths = [*range(1, len(stream) + 3), None]
    for change in (windowed_drop, windowed_rise):
        found = [change(stream, window) for window in widths]
        assert found == sorted(found)
        assert found[0] == 0
        assert not stream or (drops(stream, 1) == 0).all()


@law
@given(streams, windows)
def test_a_rise_is_a_drop_of_the_negated_stream(stream: list[float], window: int | None) -> None:
    assert windowed_rise(stream, window) == windowed_drop([-a for a in stream], window)


@law
@given(st.lists(scores, min_size=1, max_size=30), windows)
def test_writes_nothing(stream: list[float], window: int | None) -> None:
    given_array = np.array(stream)
    given_array.setflags(write=False)
    windowed_drop(given_array, window)
    windowed_rise(given_array, window)
    assert given_array.tolist() == stream


@law
@given(streams | coarse, windows)
def test_live_agrees_with_the_whole_after_every_evaluation(
    stream: list[float], window: int | None
) -> None:
    live = LiveWindow(window)
    assert (live.drop, live.rise) == (0, 0)
    for n, score in enumerate(stream):
        live.update(score)
        assert live.drop == drop_by_pairs(stream[: n + 1], window)
        assert live.rise == rise_by_pairs(stream[: n + 1], window)
        assert live.drop == windowed_drop(stream[: n + 1], window)


@pytest.mark.parametrize("shape", ["falling", "rising", "constant", "noise", "saw"])
@pytest.mark.parametrize("window", [1, 2, 10, 100])
def test_live_memory_is_bounded_by_the_window(shape: str, window: int) -> None:
    n = 5000
    stream = {
        "falling": np.linspace(1, 0, n),
        "rising": np.linspace(0, 1, n),
        "constant": np.full(n, 0.5),
        "noise": np.random.default_rng(0).random(n),
        "saw": np.arange(n) % 300 / 300,
    }[shape]
    live = LiveWindow(window)
    most = 0
    for score in stream.tolist():
        live.update(score)
        most = max(most, len(live._highs), len(live._lows))
    assert most <= window
    assert live.drop == windowed_drop(stream, window)
    assert live.rise == windowed_rise(stream, window)


def test_live_memory_without_a_limit_is_constant() -> None:
    stream = np.random.default_rng(1).random(5000)
    for ordered in (stream, np.sort(stream), np.sort(stream)[::-1]):
        live = LiveWindow(None)
        for score in ordered.tolist():
            live.update(score)
            assert len(live._highs) + len(live._lows) <= 2
        assert live.drop == windowed_drop(ordered, None)
        assert live.rise == windowed_rise(ordered, None)


def test_long_streams_are_linear() -> None:
    """A million evaluations in a window of 100,000: pairs would take hours."""
    stream = np.random.default_rng(2).random(1_000_000)
    assert 0.99 < windowed_drop(stream, 100_000) <= 1


@pytest.mark.parametrize("window", [0, -1, 1.5, True])
def test_refuses_what_is_no_number_of_evaluations(window: Any) -> None:
    message = re.escape(f"window must be a whole number of at least 1, or None, got {window!r}")
    for call in (LiveWindow, lambda w: windowed_drop([0.5], w), lambda w: windowed_rise([0.5], w)):
        with pytest.raises(ValueError, match=message):
            call(window)
