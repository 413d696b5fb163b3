"""Every matrix metric of the definitions as plain loops, and the matrices they are tried on.

Nothing here calls the package: a reference that shares code with what it judges judges nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

Array = NDArray[np.float64]
Known = tuple[float, list[float]]  # the value, and the part of each task

nan = float("nan")
inf = float("inf")

few = settings(max_examples=30)
some = settings(max_examples=60)

# The 5x5 matrix of the definitions, tried on every public tool.
R = [
    [0.80, 0.30, 0.08, 0.10, 0.11],
    [0.60, 0.70, 0.72, 0.09, 0.10],
    [0.86, 0.55, 0.65, 0.20, 0.12],
    [0.50, 0.78, 0.58, 0.90, 0.18],
    [0.64, 0.48, 0.75, 0.52, 0.92],
]
B = [0.10, 0.11, 0.09, 0.10, 0.10]


class Entries:
    """A matrix read entry by entry, which remembers what was read."""

    def __init__(self, values: Any) -> None:
        self.values = [[float(entry) for entry in row] for row in values]
        self.read: set[tuple[int, int]] = set()

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, at: tuple[int, int]) -> float:
        self.read.add(at)
        return self.values[at[0]][at[1]]


@dataclass(frozen=True)
class Case:
    """A matrix with everything that a metric may need."""

    matrix: Array
    initial: Sequence[float]
    joint: Sequence[float]
    single: Sequence[float]
    offline: Sequence[float]
    classes: Sequence[int]
    sizes: Sequence[int]
    setting: str = "class"
    r: Entries = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "r", Entries(self.matrix))

    def after(self, k: int) -> Self:
        """The same stream, stopped after task k."""
        n = k + 1
        return replace(
            self,
            matrix=self.matrix[:n, :n],
            initial=self.initial[:n],
            joint=self.joint[:n],
            single=self.single[:n],
            offline=self.offline[:n],
            classes=self.classes[:n],
            sizes=self.sizes[:n],
        )

    def arguments(self, needs: Iterable[str]) -> dict[str, Any]:
        """Those of the case's vectors that a metric's row asks for."""
        names = ("initial", "joint", "single", "offline", "classes", "sizes", "setting")
        return {name: getattr(self, name) for name in names if name in needs}


def words(text: str) -> list[str]:
    return text.split()


def mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def over_tasks(r: Entries, tasks: Iterable[int], term: Callable[[int], float]) -> Known:
    terms = {j: term(j) for j in tasks}
    return mean(terms.values()), [terms.get(j, nan) for j in range(len(r))]


def over_pairs(
    r: Entries, keep: Callable[[int, int], bool], term: Callable[[int, int], float]
) -> Known:
    columns = [[term(i, j) for i in range(len(r)) if keep(i, j)] for j in range(len(r))]
    value = mean(entry for column in columns for entry in column)
    return value, [mean(column) if column else nan for column in columns]


def aa(c: Case, k: int) -> float:
    return mean(c.r[k, j] for j in range(k + 1))


def forgotten(c: Case, k: int, j: int) -> float:
    return max(c.r[l, j] for l in range(j, k)) - c.r[k, j]


def af(c: Case, k: int) -> float:
    return mean(forgotten(c, k, j) for j in range(k))


def aa_rand(c: Case, k: int) -> float:
    if c.setting == "class":
        return 1 / sum(c.classes[: k + 1])
    return mean(1 / c.classes[j] for j in range(k + 1))


def af_rand(c: Case, k: int) -> float:
    return mean(1 / sum(c.classes[: j + 1]) - 1 / sum(c.classes[: k + 1]) for j in range(k))


def uraa_at(c: Case, k: int) -> float:
    return aa(c, k) / aa_rand(c, k)


def uraf_at(c: Case, k: int) -> float:
    return af(c, k) / af_rand(c, k)


def raa_at(c: Case, k: int) -> float:
    return uraa_at(c, k) / max(1 / aa_rand(c, l) for l in range(len(c.r)))


def raf_at(c: Case, k: int) -> float:
    return uraf_at(c, k) / max(1 / af_rand(c, l) for l in range(1, len(c.r)))


def acc_pooled(c: Case) -> Known:
    last, n = len(c.r) - 1, c.sizes
    value = sum(n[j] * c.r[last, j] for j in range(last + 1)) / sum(n)
    return value, [c.r[last, j] for j in range(last + 1)]


def bwt_all(c: Case) -> Known:
    return over_pairs(c.r, lambda i, j: i > j, lambda i, j: c.r[i, j] - c.r[j, j])


def rem(c: Case) -> Known:
    value, parts = bwt_all(c)
    return 1 - abs(min(value, 0)), [
        1 - abs(min(part, 0)) if part == part else nan for part in parts
    ]


def bwt_positive(c: Case) -> Known:
    value, parts = bwt_all(c)
    return max(value, 0), [max(part, 0) if part == part else nan for part in parts]


def forgetting_since(c: Case, steps: Callable[[int], Iterable[int]]) -> Known:
    last = len(c.r) - 1

    def lost(j: int) -> float:
        return max(c.r[l, j] for l in steps(j)) - c.r[last, j]

    return over_tasks(c.r, range(last), lost)


def memory_stability(c: Case) -> Known:
    def variance(j: int) -> float:
        column = [c.r[i, j] for i in range(j, len(c.r))]
        return mean((entry - mean(column)) ** 2 for entry in column)

    return over_tasks(c.r, range(len(c.r) - 1), variance)


def forgetting_ratio(c: Case) -> Known:
    last, b = len(c.r) - 1, c.initial
    return over_tasks(
        c.r, range(last + 1), lambda j: (c.r[last, j] - b[j]) / (c.joint[j] - b[j]) - 1
    )


def scaled_row(c: Case, scale: float) -> Known:
    last = len(c.r) - 1
    return over_tasks(c.r, range(last + 1), lambda j: c.r[last, j] * scale)


def scaled_forgetting(c: Case, scale: float) -> Known:
    last = len(c.r) - 1
    return over_tasks(c.r, range(last), lambda j: forgotten(c, last, j) * scale)


def raa(c: Case) -> Known:
    steps = range(len(c.r))
    return scaled_row(c, 1 / aa_rand(c, len(c.r) - 1) / max(1 / aa_rand(c, l) for l in steps))


def raf(c: Case) -> Known:
    steps = range(1, len(c.r))
    return scaled_forgetting(
        c, 1 / af_rand(c, len(c.r) - 1) / max(1 / af_rand(c, l) for l in steps)
    )


def tasks(c: Case) -> range:
    return range(len(c.r))


def later(c: Case) -> range:
    return range(1, len(c.r))


def older(c: Case) -> range:
    return range(len(c.r) - 1)


def end(c: Case) -> int:
    return len(c.r) - 1


# The part of a step stands where the part of a task would, for means over steps.
REFERENCES: dict[str, Callable[[Case], Known]] = {
    "acc": lambda c: over_tasks(c.r, tasks(c), lambda j: c.r[end(c), j]),
    "acc.pooled": acc_pooled,
    "acc.lower": lambda c: over_pairs(c.r, lambda i, j: i >= j, lambda i, j: c.r[i, j]),
    "acc.below": lambda c: over_pairs(c.r, lambda i, j: i > j, lambda i, j: c.r[i, j]),
    "acc.incremental": lambda c: over_tasks(c.r, tasks(c), lambda k: aa(c, k)),
    "acc.learning": lambda c: over_tasks(c.r, tasks(c), lambda i: c.r[i, i]),
    "acc.all": lambda c: over_pairs(c.r, lambda i, j: True, lambda i, j: c.r[i, j]),
    "bwt": lambda c: over_tasks(c.r, older(c), lambda j: c.r[end(c), j] - c.r[j, j]),
    "bwt.all": bwt_all,
    "bwt.consecutive": lambda c: over_pairs(
        c.r, lambda i, j: i > j, lambda i, j: c.r[i, j] - c.r[i - 1, j]
    ),
    "rem": rem,
    "bwt.positive": bwt_positive,
    "fwt.upper": lambda c: over_pairs(c.r, lambda i, j: i < j, lambda i, j: c.r[i, j]),
    "fwt.gem": lambda c: over_tasks(c.r, later(c), lambda j: c.r[j - 1, j] - c.initial[j]),
    "fwt.next": lambda c: over_tasks(c.r, later(c), lambda j: c.r[j - 1, j]),
    "fwt.learned": lambda c: over_tasks(c.r, later(c), lambda j: c.r[j, j] - c.initial[j]),
    "forgetting.best": lambda c: forgetting_since(c, lambda j: range(j, end(c))),
    "forgetting.learned": lambda c: over_tasks(c.r, older(c), lambda j: c.r[j, j] - c.r[end(c), j]),
    "forgetting.peak": lambda c: forgetting_since(c, lambda j: range(j, end(c) + 1)),
    "forgetting.any": lambda c: forgetting_since(c, lambda j: range(end(c))),
    "forgetting.ratio": forgetting_ratio,
    "memory_stability": memory_stability,
    "intransigence": lambda c: over_tasks(c.r, later(c), lambda j: c.joint[j] - c.r[j, j]),
    "intransigence.single": lambda c: over_tasks(c.r, later(c), lambda j: c.single[j] - c.r[j, j]),
    "omega.base": lambda c: over_tasks(c.r, later(c), lambda i: c.r[i, 0] / c.joint[0]),
    "omega.new": lambda c: over_tasks(c.r, later(c), lambda i: c.r[i, i]),
    "omega.all": lambda c: over_tasks(
        c.r, later(c), lambda i: aa(c, i) / mean(c.joint[j] for j in range(i + 1))
    ),
    "omega.offline": lambda c: over_tasks(c.r, range(len(c.r)), lambda i: aa(c, i) / c.offline[i]),
    "raa": raa,
    "raf": raf,
    "uraa": lambda c: scaled_row(c, 1 / aa_rand(c, end(c))),
    "uraf": lambda c: scaled_forgetting(c, 1 / af_rand(c, end(c))),
}

# Control tasks: `final` and `initial` scores by task.
CONTROL_REFERENCES: dict[str, Callable[[Sequence[float], Sequence[float]], Known]] = {
    "retention": lambda f, b: _over_control(mean, [f[c] - b[c] for c in range(len(f))]),
    "retention.worst": lambda f, b: _over_control(min, [f[c] - b[c] for c in range(len(f))]),
    "retention.relative": lambda f, b: _over_control(mean, [f[c] / b[c] for c in range(len(f))]),
}


def _over_control(total: Callable[[list[float]], float], terms: list[float]) -> Known:
    return total(terms), terms


CURVES: dict[str, Callable[[Case, int], float]] = {"raa": raa_at, "raf": raf_at}


def curve(id_: str, c: Case) -> list[float]:
    """The value after every task, NaN where the formula has no terms yet."""
    points = []
    for k in range(len(c.r)):
        try:
            whole = CURVES.get(id_)
            points.append(whole(c, k) if whole else REFERENCES[id_](c.after(k))[0])
        except (ZeroDivisionError, ValueError):  # a mean or a maximum of nothing
            points.append(nan)
    return points


unit = st.floats(0, 1, width=32)


def squares(elements: st.SearchStrategy[float] = unit) -> st.SearchStrategy[Array]:
    """Matrices of two to eight tasks, measured everywhere."""
    return st.integers(2, 8).flatmap(lambda t: arrays(np.float64, (t, t), elements=elements))


@st.composite
def cases(draw: st.DrawFn, setting: str = "class") -> Case:
    """Accuracies of two to eight tasks with all vectors; joint models beat untrained ones."""
    t = draw(st.integers(2, 8))
    block = draw(arrays(np.float64, (t + 4, t), elements=unit))
    classes = draw(st.lists(st.integers(1, 20), min_size=t, max_size=t))
    sizes = draw(st.lists(st.integers(1, 500), min_size=t, max_size=t))
    return Case(
        matrix=block[:t],
        initial=(0.4 * block[t]).tolist(),
        joint=(0.5 + 0.5 * block[t + 1]).tolist(),
        single=block[t + 2].tolist(),
        offline=(0.5 + 0.5 * block[t + 3]).tolist(),
        classes=classes,
        sizes=sizes,
        setting=setting,
    )
