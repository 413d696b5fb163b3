"""GEM's projection against every face of the cone, and against the KKT conditions."""

from __future__ import annotations

from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from perdure.strategies.gem import project_gradient

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    Reals = NDArray[np.float64]

ALLOWED = {torch.float32: 1e-6, torch.float64: 1e-9}  # of the size of what is added up


def unit(rows: Reals) -> Reals:
    """Return rows of length 1, those of zeros left out."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray((rows / np.where(lengths == 0, 1, lengths))[lengths[:, 0] > 0])


def nearest(start: Reals, rows: Reals) -> Reals:
    """Return the point of the cone {x: rows x >= 0} nearest to `start`, trying every face."""
    rows, size = unit(rows), np.linalg.norm(start)
    subsets = chain.from_iterable(combinations(range(len(rows)), k) for k in range(len(rows) + 1))
    best, distance = np.zeros_like(start), float(size)
    for subset in map(list, subsets):
        _, s, vt = np.linalg.svd(rows[subset], full_matrices=False)
        span = vt[s > 1e-9]
        x = start - span.T @ (span @ start)
        if (rows @ x >= -1e-10 * size).all() and np.linalg.norm(x - start) < distance:
            best, distance = x, float(np.linalg.norm(x - start))
    return best


def judge(g: Tensor, old: Tensor, strength: float, *, faces: bool) -> Tensor:
    """Return what `projected` gives, after comparing it with everything that it has to be."""
    found = project_gradient(g, old, strength)
    assert found.dtype is g.dtype
    assert found.shape == g.shape
    rows, plain, x = old.double().numpy(), g.double().numpy(), found.double().numpy()
    if (rows @ plain >= 0).all():
        assert found is g
        return found
    start = plain + strength * rows.sum(0)  # v >= strength is u >= 0 from here
    parts = [np.linalg.norm(plain), strength * np.linalg.norm(rows, axis=1).sum()]
    allowed = ALLOWED[g.dtype] * sum(parts)
    scaled = unit(rows)
    assert (scaled @ x >= -allowed).all()  # to first order no memory's loss rises
    u, off = nnls(scaled.T, x - start)  # some u will do: whoever finds it, it proves the rest
    assert u.min() >= 0
    assert off <= 20 * allowed  # stationary: x = start + rows^T u
    assert abs(x @ (x - start)) <= 20 * allowed * max(np.linalg.norm(start), np.linalg.norm(x))
    if faces:
        np.testing.assert_allclose(x, nearest(start, rows), rtol=0, atol=20 * allowed)
    return found


@st.composite
def problems(draw: st.DrawFn, most: int) -> tuple[Reals, Reals]:
    """Draw rows that may be copies, opposites, sums, zero, of any length; all sums are exact."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.integers(1, 12))
    rows: list[Reals] = []
    for kind in draw(st.lists(st.sampled_from("nnncosz"), min_size=1, max_size=most)):
        one, two = (rows[rng.integers(len(rows))] if rows else np.ones(size) for _ in range(2))
        fresh = rng.integers(-4, 5, size).astype(float)
        made = {"n": fresh, "c": one, "o": -one, "s": one + two, "z": np.zeros(size)}
        rows.append(made[kind])
    spread = draw(st.sampled_from([0, 3, 20]))
    lengths = 2.0 ** rng.integers(-spread, spread + 1, (len(rows), 1))
    g = rng.standard_normal(size)
    products = np.abs(unit(np.array(rows)) @ g)
    assume((products > 1e-3 * np.linalg.norm(g)).all())  # rounding decides nothing
    return g * 2.0 ** rng.integers(-spread, spread + 1), np.array(rows) * lengths


@settings(max_examples=150)
@given(problems(most=7), st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from(list(ALLOWED)))
def test_projection_is_that_of_brute_force(problem: Any, strength: float, kind: Any) -> None:
    g, rows = problem
    judge(torch.tensor(g, dtype=kind), torch.tensor(rows, dtype=kind), strength, faces=True)


@settings(max_examples=100)
@given(problems(most=20), st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from(list(ALLOWED)))
def test_projection_fulfils_the_kkt_conditions(problem: Any, strength: float, kind: Any) -> None:
    g, rows = problem
    judge(torch.tensor(g, dtype=kind), torch.tensor(rows, dtype=kind), strength, faces=False)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_rows_that_leave_next_to_nothing(kind: Any) -> None:
    """Copies and opposites among twenty rows, and a cone that is nearly a point."""
    g = [0.0419, 0.1243, -1.2295, -1.0614, 0.5039, -0.5706, -0.3682, 0.2881]
    rows = [
        *[[2, -2, -1, 1, -3, -4, -4, -3]] * 3,
        [-1, -2, 0, -3, 0, 0, 4, 3], [-3, -4, -1, 3, 3, 4, -2, 0], [-1, 2, 4, -4, 0, -4, -3, -2],
        [2, -2, -1, 1, -3, -4, -4, -3], [-1, -2, 0, -3, 0, 0, 4, 3], [-3, -2, 0, -2, -1, 2, 3, -1],
        [-2, -3, 1, 2, -3, 1, -4, 0], [-2, 2, 1, -1, 3, 4, 4, 3], [-3, -4, -1, 3, 3, 4, -2, 0],
        [-3, -3, 4, 0, 2, 1, 2, -3], [3, 2, -4, 4, 0, -1, -2, -1], [0, -3, -1, -2, 2, -2, -1, -3],
        [3, -4, 0, 4, 0, 1, -1, 4], [-2, 1, -4, 4, -3, 3, -2, 1], [-1, -3, 3, -2, -2, 3, -2, 3],
        [1, -2, 4, -4, -2, 0, -2, -4], [1, -2, 1, -2, 3, -4, -4, 1],
    ]  # fmt: skip
    judge(torch.tensor(g, dtype=kind), torch.tensor(rows, dtype=kind), 0.0, faces=False)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("strength", [0.0, 0.5])
@pytest.mark.parametrize(("tasks", "size"), [(1, 40), (10, 6), (10, 300), (20, 15), (20, 2000)])
def test_projection_of_drawn_gradients(tasks: int, size: int, strength: float, kind: Any) -> None:
    turned = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((tasks, size)) + rng.standard_normal(size)
        rows *= 10 ** rng.uniform(-2, 2, (tasks, 1))
        g = torch.tensor(rng.standard_normal(size) - 0.1 * unit(rows).sum(0), dtype=kind)
        old = torch.tensor(rows, dtype=kind)
        turned += judge(g, old, strength, faces=tasks == 10 and seed == 0) is not g
    assert turned >= 3


@pytest.mark.parametrize("tiny", [1e-3, 1e-6, 1e-9, 1e-12])
def test_a_short_row_counts_as_much_as_a_long_one(tiny: float) -> None:
    """A fault once: rows 1e-7 as long as the longest were taken for zero."""
    old = torch.tensor([[1.0, 0.0], [0.0, tiny]], dtype=torch.float64)
    found = project_gradient(torch.tensor([-1.0, -1.0], dtype=torch.float64), old)
    np.testing.assert_allclose(found.numpy(), 0, atol=1e-11)


WRITTEN: list[tuple[list[float], list[list[float]], float, list[float]]] = [
    ([1, -1], [[0, 1]], 0, [1, 0]),
    ([1, -1], [[0, 1]], 0.5, [1, 0]),  # v is 1 as it is
    ([1, -0.25], [[0, 1]], 0.5, [1, 0.25]),
    ([1, -1], [[0, 1], [1, 0]], 0.5, [1.5, 0]),
    ([1, 3], [[1, 0], [-1, 0]], 0, [0, 3]),
    ([1, 3], [[-1, 1], [1, -1], [1, 1]], 0, [2, 2]),
    ([-1, -1], [[1, 0], [0, 0]], 0, [0, -1]),  # a fault once: the zero row got a huge v
    ([-1, -2], [[1e-42, 0], [0, 1]], 0, [0, 0]),  # v itself is no float32
]


@pytest.mark.parametrize(("g", "rows", "strength", "wanted"), WRITTEN)
def test_projections_written_down(g: Any, rows: Any, strength: float, wanted: Any) -> None:
    numbers = (torch.tensor(each, dtype=torch.float32) for each in (g, rows, wanted))
    plain, old, expected = numbers
    torch.testing.assert_close(project_gradient(plain, old, strength), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e200])
def test_what_is_not_finite_is_handed_on(bad: float) -> None:
    """1e200: the product is a number, its own square is none."""
    g = torch.tensor([-1.0, -1e-9], dtype=torch.float64)
    assert project_gradient(g, torch.tensor([[bad, 0.0], [0.0, 1.0]], dtype=torch.float64)) is g
