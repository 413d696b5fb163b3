"""Score matrices of methods, checked and averaged for drawing, and matrices as coloured cells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.colors import Normalize, TwoSlopeNorm

from ....record import InputError
from ...filtering import drop_unusable
from ...labels import drop_modules, merge_names, merge_scales
from . import SIZES
from .panels import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from numpy.typing import NDArray

    from ....metrics import ScoreMatrix, ScoreScale
    from ....record import ScoreInput
    from ...load import RunsByMethod
    from . import Size

# Maximum length of a task's name on an axis.
MAX_TASK_LETTERS = {"column": 14, "page": 22, "slide": 10}


class MeanAndSD(NamedTuple):
    """Mean and sample SD over runs (zero for one run); NaN where any run has no value."""

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    runs: int


def average_runs(values: Sequence[NDArray[np.float64]]) -> MeanAndSD:
    """Return the mean and SD over runs of arrays of equal shape.

    Example:
        >>> average_runs([np.array([0.5, 0.7]), np.array([0.7, 0.7])]).mean
        array([0.6, 0.7])
    """
    stacked = np.stack(values)
    sd = stacked.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(stacked.shape[1:])
    return MeanAndSD(stacked.mean(axis=0), sd, len(values))


def get_matrices(
    methods: RunsByMethod,
    *,
    together: bool = False,
    find_problem: Callable[[ScoreMatrix], str] = lambda matrix: "",  # noqa: ARG005
) -> dict[str, list[ScoreMatrix]]:
    """Return the matrices of each method; runs that cannot be drawn are left out with a warning.

    Args:
        methods: runs by method.
        together: require equally many tasks of all methods, not only within each method.
        find_problem: returns why a matrix cannot be drawn, or an empty string.

    Example:
        >>> from perdure.record import ScoreInput
        >>> get_matrices({"er": [ScoreInput(no_matrix="tasks return")]})
        Traceback (most recent call last):
        perdure.record.io.files.InputError: er: no score matrix: tasks return
    """

    def find_run_problem(run: ScoreInput) -> str:
        if run.matrix is None:
            reason = run.no_matrix or "expected the score on every task after each task"
            return f"no score matrix: {reason}"
        return find_problem(run.matrix)

    usable = drop_unusable(methods, find_run_problem, together=together)
    matrices = {name: [run.matrix for run in runs if run.matrix] for name, runs in usable.items()}
    _check_one_scale(matrices)
    return matrices


def _check_one_scale(matrices: Mapping[str, Sequence[ScoreMatrix]]) -> None:
    first: tuple[str, ScoreScale] | None = None
    for name, several in matrices.items():
        for matrix in several:
            first = first or (name, matrix.scale)
            if matrix.scale != first[1]:
                raise InputError(
                    f"{name} has scores of another range or direction than {first[0]}, expected "
                    "the same kind of score everywhere"
                )


def merge_matrix_scales(matrices: Mapping[str, Sequence[ScoreMatrix]]) -> ScoreScale:
    """Return the scale that all scores share."""
    return merge_scales([matrix.scale for several in matrices.values() for matrix in several])


def short_task_names(matrices: Sequence[ScoreMatrix], size: Size = "page") -> tuple[str, ...]:
    """Return task names short enough for an axis; numbers where runs order tasks differently.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> a = ScoreMatrix([[0.9, 0.1], [0.6, 0.8]], tasks=["cats", "dogs and wolves"])
        >>> b = ScoreMatrix([[0.9, 0.1], [0.6, 0.8]], tasks=["dogs and wolves", "cats"])
        >>> short_task_names([a, a], "slide"), short_task_names([a, b])
        (('cats', 'dogs a…ves'), ('task no. 1', 'task no. 2'))
    """
    names = merge_names([matrix.tasks for matrix in matrices])
    return tuple(shorten(name, MAX_TASK_LETTERS.get(size, 22)) for name in names)


def wrap_name(name: str, letters: float) -> str:
    """Return a name wrapped into lines of at most `letters` letters, as a panel's title.

    Lines break between words and parts of words. A longer name loses the modules before its class,
    and a longer part its middle.

    Example:
        >>> print(wrap_name("my_package.replay:BalancedReservoirReplay experience-replay", 16))
        BalancedRe…eplay
        experience-
        replay
    """
    most = max(int(letters), 8)
    lines = [""]
    short = name if len(name) <= most else drop_modules(name)
    for part in re.findall(r"[^\s_/:,-]*[_/:,-]*\s*", short):
        if len(lines[-1]) + len(part.rstrip()) > most:
            lines.append("")
        lines[-1] += part
    return "\n".join(shorten(line.rstrip(), most) for line in lines if line.strip()) or "-"


def get_score_limits(scale: ScoreScale, *values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the limits of an axis or colour scale: 0 and 1 for accuracies, else those of `values`.

    Example:
        >>> from perdure.metrics import ACCURACY, ScoreScale
        >>> get_score_limits(ACCURACY, np.array([0.4]))
        (0.0, 1.0)
        >>> get_score_limits(ScoreScale(0, 9), np.array([2, 5]))
        (2.0, 5.0)
    """
    if scale.is_accuracy:
        return 0.0, 1.0
    low = min((float(np.nanmin(array)) for array in values), default=0.0)
    high = max((float(np.nanmax(array)) for array in values), default=1.0)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


# Colour-blind readers can distinguish both; cividis also works in black and white.
SCORE_COLOURMAP, CHANGE_COLOURMAP = "cividis", "PuOr"
MIN_LETTER_SIZE = 0.6  # relative to the font size; smaller numbers are not written
UNMEASURED = "#d4d4d4"  # a colour of neither map


def make_score_colours(scale: ScoreScale, low: float, high: float) -> tuple[str, Normalize]:
    """Return the colour map and its limits for scores; brighter is better."""
    return SCORE_COLOURMAP + ("_r" if scale.lower_is_better else ""), Normalize(low, high)


def make_change_colours(most: float) -> tuple[str, Normalize]:
    """Return the colour map and its symmetric limits for changes; no change is white."""
    most = most or 1.0
    return CHANGE_COLOURMAP, TwoSlopeNorm(0.0, -most, most)


def draw_cells(
    axes: Axes, values: NDArray[np.float64], colours: tuple[str, Normalize]
) -> AxesImage:
    """Return the image of a matrix, row 0 at the top; cells that were not measured are grey."""
    axes.set_facecolor(UNMEASURED)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    cmap, norm = colours
    return axes.imshow(np.ma.masked_invalid(values), cmap=cmap, norm=norm, aspect="auto")


def name_cells(axes: Axes, rows: Sequence[str], columns: Sequence[str], size: Size) -> None:
    """Write the names of rows and columns at an image's edges, rotated if they are long."""
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(range(len(columns)), columns)
    width, points = SIZES[size]
    spec = axes.get_subplotspec()
    inches = width / (spec.get_geometry()[1] if spec is not None else 1)
    letters = max(map(text_width, columns)) * len(columns) * (points - 1) / 72
    axes.tick_params(length=0)
    axes.tick_params(axis="x", rotation=0 if letters < 0.6 * inches else 90)


def write_numbers(
    figure: Figure,
    size: Size,
    *,
    signed: bool = False,
    percent: bool = False,
    skip_zeros: bool = False,
) -> None:
    """Write the value into each cell of the figure's images if there is room for it.

    All numbers have the same font size; names of rows and columns are fitted too. `skip_zeros`
    leaves out those that would be written as zero.
    """
    points = SIZES[size][1]
    images = [image for axes in figure.axes for image in axes.get_images()]
    figure.draw_without_rendering()  # computes the layout
    room = [_cell_points(image) for image in images]
    wide, high = min(width for width, _ in room), min(height for _, height in room)
    for image in images:
        _fit_names(image.axes, wide, high, points)
    factor = 100.0 if percent else 1.0
    values = factor * np.concatenate([_values(image).compressed() for image in images])
    for form in _forms(values, signed=signed, percent=percent):
        longest = max(text_width(_number(value, form)) for value in values)
        letters = min(points - 1, 0.8 * wide / longest, 0.75 * high)
        if letters >= MIN_LETTER_SIZE * points:
            for image in images:
                _write(image, form, letters, factor, skip_zeros=skip_zeros)
            return


def text_width(text: str) -> float:
    """Return the approximate width of a text in units of its font size."""
    narrow, broad = text.count("."), sum(map(text.count, "+mwMW…"))
    return 0.64 * len(text) - 0.32 * narrow + 0.25 * broad


def _forms(values: NDArray[np.float64], *, signed: bool, percent: bool) -> list[str]:
    """Return number formats, the most readable first; a leading . drops the zero."""
    sign = "+" if signed else ""
    if percent:
        return [f"{sign}.1f", f"{sign}.0f"]
    if np.abs(values).max(initial=0.0) < 10:
        return [f"{sign}.2f", f".{sign}.2f"]
    return [f"{sign}.1f" if np.abs(values).max() < 100 else f"{sign}.3g"]


def _number(value: float, form: str) -> str:
    """Return a number as text in one of our formats.

    Example:
        >>> _number(0.25, ".2f"), _number(-0.25, ".+.2f"), _number(-0.001, "+.2f")
        ('0.25', '-.25', '0.00')
    """
    if not float(f"{value:.2e}" if form.endswith("g") else f"{value:.2f}"):
        value, form = 0.0, form.replace("+", "")  # neither a gain nor a loss
    if form.startswith((".+", "..")):
        return f"{value:{form[1:]}}".replace("0.", ".", 1)
    return f"{value:{form}}"


def _values(image: AxesImage) -> np.ma.MaskedArray[tuple[int, int], np.dtype[np.float64]]:
    return np.ma.masked_invalid(np.ma.asarray(image.get_array()))


def _cell_points(image: AxesImage) -> tuple[float, float]:
    box, (rows, columns) = image.axes.get_window_extent(), _values(image).shape
    figure = image.axes.get_figure(root=True)
    assert figure is not None
    return box.width * 72 / figure.dpi / columns, box.height * 72 / figure.dpi / rows


def _fit_names(axes: Axes, wide: float, high: float, points: float) -> None:
    """Shrink the names of rows and columns if they would overlap, then drop some of them."""
    for axis, room in ((axes.yaxis, high), (axes.xaxis, wide)):
        labels = axis.get_ticklabels()
        if axis is axes.xaxis and any(label.get_rotation() != 90 for label in labels):
            continue  # short enough to fit next to each other
        fits = room >= 1.25 * MIN_LETTER_SIZE * points
        letters = min(points - 1, room / 1.25) if fits else points - 1
        every = 1 if fits else int(np.ceil(1.25 * letters / room))
        for text in [*labels, *(axes.texts if axis is axes.xaxis else [])]:
            text.set_fontsize(letters)
        if labels and every > 1:
            names = [label.get_text() for label in labels]
            axis.set_ticks(range(0, len(names), every), names[::every], fontsize=letters)


def _write(image: AxesImage, form: str, letters: float, factor: float, *, skip_zeros: bool) -> None:
    values = _values(image)
    bright = image.to_rgba(values)[..., :3] @ [0.2126, 0.7152, 0.0722]
    for i, j in np.argwhere(~np.ma.getmaskarray(values)):
        number = _number(factor * values[i, j], form)
        if skip_zeros and number == _number(0.0, form):
            continue
        text = image.axes.text(
            j, i, number, ha="center", va="center", fontsize=letters,
            color="black" if bright[i, j] > 0.5 else "white",
        )  # fmt: skip
        text.set_in_layout(False)
