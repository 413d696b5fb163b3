"""A study's tables, and whether they say what a reader needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...metrics import find_metric
from ...stats import mean_over_seeds
from .scores import format_value
from .text_table import TextTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...record import RunSummary

__all__ = ["StudyRow", "guidelines", "study_grids"]

COLUMNS = ("acc", "acc.learning", "bwt", "forgetting.learned", "min_acc", "wc_acc")
COSTS = {"seconds_train": ("train s", 1.0), "peak_bytes": ("peak MB", 1e6)}


class StudyRow(NamedTuple):
    """One line of a study's tables: what was run, and the scores of its finished runs."""

    scenario: str
    setting: str
    model: str
    strategy: str
    variant: str
    wanted: int
    runs: Sequence[RunSummary]
    data: Sequence[str]  # what was learned from in each run, in words
    note: str = ""
    networks: Sequence[str] = ()  # of each run, in words


def study_grids(
    lines: Sequence[StudyRow], ids: Sequence[str] = (), *, together: bool = False
) -> list[TextTable]:
    """Return a table for every scenario, setting and model: mean and SD over seeds.

    Args:
        lines: of the study.
        ids: the metrics to show, the usual ones if there are none.
        together: all in one table, for forms that have no titles.
    """
    if together:
        return [_grid("", lines, ids)]
    groups: dict[tuple[str, str, str], list[StudyRow]] = {}
    for line in lines:
        groups.setdefault(line[:3], []).append(line)
    return [_grid(f"{s}, {i}-incremental, {m}", mine, ids) for (s, i, m), mine in groups.items()]


def _grid(title: str, lines: Sequence[StudyRow], ids: Sequence[str]) -> TextTable:
    shown = [id_ for id_ in ids or COLUMNS if ids or any(_has(line, id_) for line in lines)]
    apart = [f for f in StudyRow._fields[:3] if len({getattr(line, f) for line in lines}) > 1]
    variants = ["variant"] if any(line.variant for line in lines) else []
    costs = {key: said for key, said in COSTS.items() if any(_costs(line, key) for line in lines)}
    header = [
        *apart,
        "strategy",
        *variants,
        "seeds",
        *shown,
        *(title for title, _ in costs.values()),
    ]
    rows = []
    for line in lines:
        cells = [*(getattr(line, each) for each in apart), line.strategy]
        cells += [line.variant] if variants else []
        cells.append(f"{len(line.runs)} of {line.wanted}")
        cells += [_cell([run.metrics.get(id_) for run in line.runs], id_) for id_ in shown]
        for key, (_, unit) in costs.items():
            each = _costs(line, key)
            cells.append(f"{sum(each) / len(each) / unit:.3g}" if each else "")
        rows.append(cells)
    return TextTable(header, rows, title=title, right={*header} - {*StudyRow._fields})


def _cell(values: Sequence[float | None], id_: str) -> str:
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return ""
    unit = find_metric(id_).unit
    mean = format_value(sum(known) / len(known), unit, percent=False, digits=3)
    if len(known) < 2:
        return mean
    return f"{mean} ± {format_value(mean_over_seeds(known).sd, unit, percent=False, digits=3)}"


def _has(line: StudyRow, id_: str) -> bool:
    return any(id_ in run.metrics for run in line.runs)


def _costs(line: StudyRow, key: str) -> list[float]:
    return [run.costs[key] for run in line.runs if key in run.costs]


def _measured(line: StudyRow, key: str) -> bool:
    return 0 < len(_costs(line, key)) == len(line.runs)


def guidelines(lines: Sequence[StudyRow], chosen_on: str | None) -> list[tuple[bool, str]]:
    """Return for each reporting guideline whether a study meets it, and what is missing.

    Args:
        lines: of the study's tables.
        chosen_on: what hyperparameters were chosen on: `held-out`, `test`, or None.
    """
    names = {"acc": "AA", "bwt": "BWT", "acc.learning": "LA"}
    found = [
        _judged(
            "AA, BWT and LA are reported",
            [
                f"{_name(line)} has no {word}"
                for line in lines
                for id_, word in names.items()
                if not line.runs or not all(id_ in run.metrics for run in line.runs)
            ],
        )
    ]
    baselines, architectures, splits = [], [], []
    for key, mine in _by(lines, "scenario", "setting").items():
        have = {line.strategy for line in mine if line.runs}
        baselines += [
            f"{' '.join(key)} has no {each}" for each in ("naive", "joint") if each not in have
        ]
        for strategy in dict.fromkeys(line.strategy for line in mine):
            models = {line.model for line in mine if line.strategy == strategy}
            every = {line.model for line in mine}
            if models != every:
                architectures.append(f"{strategy} lacks {', '.join(sorted(every - models))}")
        for model, variant in dict.fromkeys((line.model, line.variant) for line in mine):
            alike = [line for line in mine if (line.model, line.variant) == (model, variant)]
            networks = {each for line in alike for each in line.networks}
            if len(networks) > 1:
                architectures.append(f"{' '.join(key)} has {'; '.join(sorted(networks))}")
        data = {each for line in mine for each in line.data}
        if len(data) > 1:
            splits.append(f"{' '.join(key)} has {len(data)} different: {'; '.join(sorted(data))}")
    few = [_name(line) for line in lines if len(line.runs) < 3]
    costs = [_name(line) for line in lines if not all(_measured(line, key) for key in COSTS)]
    found += [
        _judged("naive and joint training stand beside", baselines),
        _judged("all methods have the same architectures", architectures),
        _judged("all methods have the same data and task order", splits),
        _judged("training time and memory are reported", [f"{each} has none" for each in costs]),
        _judged("three seeds or more", [f"{each} has fewer" for each in few]),
    ]
    if chosen_on is not None:
        why = ["they were chosen on the test set, as the papers do"] if chosen_on == "test" else []
        found.append(_judged("hyperparameters are not chosen on the test set", why))
    return found


def _judged(what: str, missing: Sequence[str]) -> tuple[bool, str]:
    if not missing:
        return True, what
    more = f", and {len(missing) - 3} more" if len(missing) > 3 else ""
    return False, f"{what}: {'; '.join(missing[:3])}{more}"


def _name(line: StudyRow) -> str:
    return " ".join(part for part in line[:5] if part)


def _by(lines: Sequence[StudyRow], *keys: str) -> Mapping[tuple[str, ...], list[StudyRow]]:
    groups: dict[tuple[str, ...], list[StudyRow]] = {}
    for line in lines:
        groups.setdefault(tuple(getattr(line, key) for key in keys), []).append(line)
    return groups
