"""Accuracy and forgetting relative to a random guesser (Michel et al. 2023).

A class-incremental problem gets harder with every task: even a model that guesses "forgets".
The rescaled curves divide that effect out. All take `classes`, the number of classes of each task.
The u-variants are multiples of the guesser's value; the others are scaled to at most 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from .accuracy import aa_curve
from .common import (
    UndefinedMetricError,
    Value,
    average,
    check_unit_range,
    class_counts,
    read,
    read_final,
    square,
)
from .forgetting import af_curve, forgetting_matrix

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Setting",
    "beta",
    "gamma",
    "raa",
    "raa_curve",
    "raf",
    "raf_curve",
    "random_aa",
    "random_af",
    "uraa",
    "uraa_curve",
    "uraf",
    "uraf_curve",
]

Setting = Literal["class", "task", "domain"]


def random_aa(classes: ArrayLike, *, setting: Setting = "class") -> NDArray[np.float64]:
    r"""Return the mean accuracy of a random guesser after each task.

    It is $1/\mathrm{cum}_k$ over all classes seen. Where the model knows the task (`task`), or all
    tasks share their classes (`domain`), it is the mean of $1/C_j$ over the tasks seen.

    Example:
        >>> random_aa([2, 2])
        array([0.5 , 0.25])
    """
    if setting not in get_args(Setting):
        raise ValueError(f"setting is {setting!r}, expected class, task or domain")
    c = class_counts(classes, np.size(np.asarray(classes)))
    if setting == "class":
        return 1 / np.cumsum(c)
    mean: NDArray[np.float64] = np.cumsum(1 / c) / np.arange(1, len(c) + 1)
    return mean


def random_af(classes: ArrayLike, *, setting: Setting = "class") -> NDArray[np.float64]:
    r"""Return the forgetting of a random guesser after each task, NaN after the first.

    $$\frac{1}{k-1} \sum_{j<k} \left( \frac{1}{\mathrm{cum}_j} - \frac{1}{\mathrm{cum}_k} \right)$$

    Example:
        >>> random_af([2, 2])
        array([ nan, 0.25])
    """
    if setting != "class":
        raise UndefinedMetricError(
            f"a random guesser does not forget in the {setting}-incremental setting: "
            "rescaled forgetting is defined for class-incremental learning"
        )
    chance = random_aa(classes)
    k = np.arange(len(chance))
    before = np.cumsum(chance) - chance
    return np.where(k > 0, before / np.maximum(k, 1) - chance, np.nan)


def gamma(classes: ArrayLike, *, setting: Setting = "class") -> NDArray[np.float64]:
    r"""Return the factor from AA to RAA after each task: $C_k / C_K$ in the class setting.

    Example:
        >>> gamma([2, 2, 4])
        array([0.25, 0.5 , 1.  ])
    """
    chance = random_aa(classes, setting=setting)
    factor: NDArray[np.float64] = chance.min() / chance
    return factor


def beta(classes: ArrayLike, *, setting: Setting = "class") -> NDArray[np.float64]:
    r"""Return the factor from AF to RAF after each task, NaN after the first.

    For tasks of equal size it is $\frac{(H_K - 1)(k - 1)}{(H_k - 1)(K - 1)}$ with harmonic sums H.

    Example:
        >>> beta([2, 2, 2, 2, 2]).round(6)
        array([     nan, 0.641667, 0.77    , 0.888462, 1.      ])
    """
    chance = random_af(classes, setting=setting)
    if len(chance) < 2:
        raise UndefinedMetricError("needs at least 2 tasks, got 1")
    return np.nanmin(chance) / chance


def uraa_curve(
    matrix: ArrayLike, classes: ArrayLike, *, setting: Setting = "class"
) -> NDArray[np.float64]:
    r"""Return $AA_k$ as a multiple of the random guesser's, after each task.

    Example:
        >>> uraa_curve([[0.9, 0.1], [0.6, 0.8]], classes=[2, 2])
        array([1.8, 2.8])
    """
    return aa_curve(_lower(matrix, classes)) / random_aa(classes, setting=setting)


def uraf_curve(
    matrix: ArrayLike, classes: ArrayLike, *, setting: Setting = "class"
) -> NDArray[np.float64]:
    r"""Return $AF_k$ as a multiple of the random guesser's after each task, NaN after the first.

    Example:
        >>> uraf_curve([[0.9, 0.1], [0.6, 0.8]], classes=[2, 2])
        array([nan, 1.2])
    """
    return af_curve(_lower(matrix, classes)) / random_af(classes, setting=setting)


def raa_curve(
    matrix: ArrayLike, classes: ArrayLike, *, setting: Setting = "class"
) -> NDArray[np.float64]:
    r"""Return $\gamma_k AA_k$ after each task: 1 only for a perfect model at the hardest task.

    At the last task it equals $AA_K$ in the class-incremental setting.

    Example:
        >>> raa_curve([[0.9, 0.1], [0.6, 0.8]], classes=[2, 2])
        array([0.45, 0.7 ])
    """
    return aa_curve(_lower(matrix, classes)) * gamma(classes, setting=setting)


def raf_curve(
    matrix: ArrayLike, classes: ArrayLike, *, setting: Setting = "class"
) -> NDArray[np.float64]:
    r"""Return $\beta_k AF_k$ after each task, NaN after the first.

    At the last task it equals $AF_K$ where all tasks have the same number of classes.

    Example:
        >>> raf_curve([[0.9, 0.1], [0.6, 0.8]], classes=[2, 2])
        array([nan, 0.3])
    """
    return af_curve(_lower(matrix, classes)) * beta(classes, setting=setting)


def uraa(matrix: ArrayLike, classes: ArrayLike, *, setting: Setting = "class") -> Value:
    """Return the last value of `uraa_curve`, with the part of each task.

    Example:
        >>> round(uraa([[0.9, 0.1], [0.6, 0.8]], classes=[2, 2]), 6)
        2.8
    """
    final = check_unit_range(read_final(matrix))
    class_counts(classes, len(final))
    return average(final / random_aa(classes, setting=setting)[-1])


def raa(matrix: ArrayLike, classes: ArrayLike, *, setting: Setting = "class") -> Value:
    """Return the last value of `raa_curve`, with the part of each task.

    Example:
        >>> round(raa([[0.9, 0.1], [0.6, 0.8]], classes=[2, 2]), 6)
        0.7
    """
    final = check_unit_range(read_final(matrix))
    class_counts(classes, len(final))
    return average(final * gamma(classes, setting=setting)[-1])


def uraf(matrix: ArrayLike, classes: ArrayLike, *, setting: Setting = "class") -> Value:
    """Return the last value of `uraf_curve`, with the part of each task.

    Example:
        >>> round(uraf([[0.9, 0.1], [0.6, 0.8]], classes=[2, 2]), 6)
        1.2
    """
    forgetting = _final_forgetting(matrix, classes)
    return average(forgetting / random_af(classes, setting=setting)[-1])


def raf(matrix: ArrayLike, classes: ArrayLike, *, setting: Setting = "class") -> Value:
    """Return the last value of `raf_curve`, with the part of each task.

    Example:
        >>> round(raf([[0.9, 0.1], [0.6, 0.8]], classes=[2, 2]), 6)
        0.3
    """
    forgetting = _final_forgetting(matrix, classes)
    return average(forgetting * beta(classes, setting=setting)[-1])


def _lower(matrix: ArrayLike, classes: ArrayLike) -> NDArray[np.float64]:
    """Return the accuracies on tasks seen, checked together with the class counts."""
    r = np.tril(square(matrix))
    class_counts(classes, len(r))
    return check_unit_range(r)


def _final_forgetting(matrix: ArrayLike, classes: ArrayLike) -> NDArray[np.float64]:
    """Return the forgetting of each older task at the end, NaN for the last task."""
    r = check_unit_range(read(matrix, "lower", min_tasks=2, old=True))
    class_counts(classes, len(r))
    forgetting: NDArray[np.float64] = forgetting_matrix(r)[-1]
    return forgetting
