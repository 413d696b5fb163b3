"""Scores of many runs: grouped by method, with means over the seeds of each."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .._display import count_of, format_block, list_some, make_frame, make_polars
from ..metrics import RunsSummary, Summary, ToolRow, as_tool, summary_of_runs
from ..metrics.summary_types import PRINTED_IDS
from ..record import InputError, RunFolder, ScoreInput, detect_options, read_ref
from ..record.grouping import find_groups, seeds_note
from ..record.run_index import RunRef, list_matrices
from .options import make_options, resolve_metrics, select_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import BinaryIO

    import polars as pl
    from numpy.typing import ArrayLike
    from pandas import DataFrame

    from ..metrics import SummaryOptions
    from ..record import InputOptions
    from ..record.grouping import Groups, Scores
    from ..stats import IntervalMethod

__all__ = [
    "GroupedScores",
    "ScoreGroup",
    "combine_seeds",
    "score_group",
    "score_groups",
    "tool_rows",
]


MAX_PRINTED_IDS = 6
RECORD_COLUMNS = ("group", "id", "mean", "sd", "low", "high", "runs", "name")


class ScoreGroup(NamedTuple):
    """The runs or files of one method: what was read, the summary of each, and that of all."""

    refs: list[RunRef]
    inputs: list[ScoreInput]
    summaries: list[Summary]
    summary: Summary | RunsSummary

    def __repr__(self) -> str:
        title = format_block(f"ScoreGroup of {list_some([ref.name for ref in self.refs], 3)}", [])
        return f"{title}\n{self.summary!r}"

    def to_dict(self) -> dict[str, object]:
        """Return the summary as plain lists and numbers, ready for JSON."""
        return self.summary.to_dict()

    def to_pandas(self) -> DataFrame:
        """Return the summary as a pandas table with a row per metric."""
        return self.summary.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return the summary as a polars table with a row per metric."""
        return self.summary.to_polars()


class GroupedScores(NamedTuple):
    """Groups of runs by name, and notes on what was left out."""

    groups: dict[str, ScoreGroup]
    notes: list[str]

    def __repr__(self) -> str:
        present = dict.fromkeys(
            id_ for group in self.groups.values() for id_ in group.summary.metrics
        )
        ids = list(present)
        if len(ids) > MAX_PRINTED_IDS:
            ids = [id_ for id_ in PRINTED_IDS if id_ in present][:MAX_PRINTED_IDS]
        rows = [["", "runs", *ids]]
        for name, group in self.groups.items():
            metrics = group.summary.metrics
            values = (f"{metrics[id_]:.4f}" if id_ in metrics else "-" for id_ in ids)
            rows.append([name, str(len(group.summaries)), *values])
        footer = [f"note: {note}" for note in self.notes[:3]]
        return format_block(f"Scores of {count_of(len(self.groups), 'group')}", rows, footer)

    def to_dict(self) -> dict[str, object]:
        """Return the summaries by group as plain lists and numbers, ready for JSON."""
        plain = {name: group.summary.to_dict() for name, group in self.groups.items()}
        return {"groups": plain, "notes": self.notes}

    def to_records(self) -> list[dict[str, object]]:
        """Return a row per group and metric."""
        records: list[dict[str, object]] = []
        for name, group in self.groups.items():
            for row in group.summary.to_records():
                value = row.pop("value", row.get("mean"))
                records.append({"group": name, **row, "mean": value, "runs": len(group.summaries)})
        return records

    def to_pandas(self) -> DataFrame:
        """Return a pandas table with a row per group and metric."""
        return make_frame(self.to_records(), RECORD_COLUMNS, ["group", "id"])

    def to_polars(self) -> pl.DataFrame:
        """Return a polars table with a row per group and metric."""
        return make_polars(self.to_records(), RECORD_COLUMNS)


def score_groups(
    *sources: str | Path | Mapping[str, object] | ArrayLike,
    metrics: str | Sequence[str] | None = None,
    inputs: InputOptions | None = None,
    options: SummaryOptions | None = None,
    interval: IntervalMethod = "t",
    pool: bool = False,
    costs: Sequence[Path] = (),
    per_example: Sequence[Path] = (),
    stdin: BinaryIO | None = None,
) -> GroupedScores:
    r"""Return the scores of runs grouped by method, with means over the seeds of each.

    Matrices and logs are seeds of one method, unless a file names methods. Runs are grouped by
    their config: those that differ in the seed alone are seeds of one method.

    Args:
        sources: Paths or patterns, or NAME=PATH,PATH… to name a group; or scores: an array of shape
            (T, T) or (seeds, T, T), or a dict of such by method.
        metrics: Ids of the metrics to keep; all if None.
        inputs: How to read files that are not run folders.
        options: How to summarize, as a `perdure.SummaryOptions`.
        interval: Interval over seeds: Student's t, or the BCa bootstrap.
        pool: Average runs that differ in more than the seed.
        costs: A costs.csv per source.
        per_example: A folder of per-example results per source.
        stdin: What the source "-" reads.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for k, last in enumerate((0.6, 0.7)):
        ...     _ = (folder / f"{k}.csv").write_text(f"0.9,\n{last},0.8\n")
        >>> (group,) = score_groups(f"{folder}/*.csv").groups.values()
        >>> round(group.summary.metrics["acc"], 3), len(group.summaries)
        (0.725, 2)
        >>> seeds = [[[0.9], [0.6, 0.8]], [[0.9], [0.7, 0.8]]]  # two matrices, their lower halves
        >>> list(score_groups({"er": seeds, "ewc": seeds}).groups)
        ['er', 'ewc']
    """
    if not sources:
        raise InputError("nothing to score; name matrices, logs, runs or folders of runs")
    paths = [os.fspath(s) if isinstance(s, str | os.PathLike) else s for s in sources]
    metrics, aliases = resolve_metrics(metrics)
    options = make_options(metrics) if options is None else options
    extras = _extra_files(paths, costs, per_example)
    groups, notes = _find_groups(paths, pool=pool, stdin=stdin)
    scored: dict[str, ScoreGroup] = {}
    for name, refs in groups.items():
        try:
            scored[name] = score_group(refs, inputs, options, extras=extras, interval=interval)
        except InputError as error:
            if len(groups) == 1:
                raise
            together = f"all {len(refs)} runs of {name}: " if len(refs) > 1 else ""
            notes.append(f"left out: {together}{error}")
    if not scored:
        raise InputError(f"nothing to score; {notes[-1]}")
    if len(scored) == 1 < len(groups):
        notes.append(f"these are the scores of {next(iter(scored))} alone")
    for group in scored.values():
        select_metrics(group.summary, metrics or ())
    return GroupedScores(scored, [*notes, *aliases])


def tool_rows(group: ScoreGroup, tool: str) -> list[ToolRow]:
    """Return the metrics of a group as another tool would print them: means if it has several runs.

    Example:
        >>> from perdure import ScoreMatrix
        >>> matrix = ScoreMatrix([[0.9, 0.1], [0.6, 0.8]])
        >>> summary = ScoreInput(matrix).summary()
        >>> group = ScoreGroup([RunRef("m.csv")], [ScoreInput(matrix)], [summary], summary)
        >>> tool_rows(group, "facil")[0].value
        0.7
    """
    per_run = []
    for ref, source, summary in zip(group.refs, group.inputs, group.summaries, strict=True):
        if source.matrix is None:
            raise InputError(f"{ref.name}: {source.no_matrix}")
        per_run.append(as_tool(source.matrix, tool, summary))
    if len(per_run) == 1:
        return per_run[0]
    rows = []
    for same in zip(*per_run, strict=True):
        values = [row.value for row in same if row.value is not None]
        mean = math.fsum(values) / len(values) if len(values) == len(same) else None
        if mean is None and same[0].id in group.summary.metrics:
            mean = group.summary.metrics[same[0].id]  # defined over runs only: CLstability
        id_ = same[0].id if len({row.id for row in same}) == 1 else None
        note = same[0].note
        if mean is not None:
            note = f"mean of {len(same)} runs" + (f"; {note}" if note else "")
        rows.append(ToolRow(same[0].name, id_, mean, note))
    return rows


def _find_groups(
    sources: Sequence[str | Scores], *, pool: bool, stdin: BinaryIO | None
) -> tuple[Groups, list[str]]:
    """Return what is to be scored by group; files without a name are seeds of one method."""
    texts = [source for source in sources if isinstance(source, str)]
    if "-" in texts:
        if len(sources) > 1:
            raise InputError("- is standard input, expected it alone; write it to a file first")
        groups: Groups = {}
        for ref in list_matrices("-", stdin):
            groups.setdefault(ref.method or "-", []).append(ref)
        return groups, []
    named = any("=" in source for source in texts)
    return find_groups(
        ["pooled=", *sources] if pool and not named else sources,
        pool=pool,
        files_together=True,
        orders_together=not pool,
    )


def _extra_files(
    sources: Sequence[str | Scores], costs: Sequence[Path], per_example: Sequence[Path]
) -> dict[str, dict[str, Path]]:
    """Return the costs.csv and per-example folder given for each source, by its path."""
    extras: dict[str, dict[str, Path]] = {}
    for name, paths in (("costs", costs), ("per_example", per_example)):
        if paths and len(paths) != len(sources):
            raise InputError(
                f"`{name}=` is given {count_of(len(paths), 'time')}, expected {len(sources)}: one "
                "for each file"
            )
        for source, path in zip(sources, paths, strict=False):
            if not isinstance(source, str):
                raise InputError(f"`{name}=` has no effect on an array; score a file")
            file = Path(source)
            run = RunFolder(file.parent)
            if file == run.points_path and run.has_metadata():
                file = run.path  # as `find_runs` names the run
            extras.setdefault(str(file), {})[name] = path
    return extras


def score_group(
    refs: Sequence[RunRef],
    inputs: InputOptions | None,
    options: SummaryOptions | None,
    *,
    extras: Mapping[str, dict[str, Path]] | None = None,
    interval: IntervalMethod = "t",
) -> ScoreGroup:
    """Return the summary of a run, or the mean over several; unfinished runs are left out of it."""
    finished = [ref for ref in refs if ref.finished]
    used = list(finished if len(refs) > 1 and finished else refs)
    inputs = detect_options(used, inputs)
    extras = extras or {}
    sources = [read_ref(ref, inputs, **extras.get(ref.path, {})) for ref in used]
    summaries = [source.summary(options) for source in sources]
    note = f"mean over {seeds_note(used)}"
    summary = combine_seeds(used, summaries, options, interval=interval, note=note)
    if unfinished := [ref.path for ref in refs if ref not in used]:
        summary.notes.append(f"unfinished and left out of the mean: {', '.join(unfinished)}")
    return ScoreGroup(used, sources, summaries, summary)


def combine_seeds(
    refs: Sequence[RunRef],
    summaries: Sequence[Summary],
    options: SummaryOptions | None,
    *,
    interval: IntervalMethod,
    note: str,
) -> Summary | RunsSummary:
    """Return the only summary, or the means over several seeds with `note` first."""
    _check_alike(refs, summaries)
    if len(summaries) == 1:
        return summaries[0]
    weights = options.weights if options else None
    replicates = [(ref.order, ref.seed) for ref in refs]
    summary = summary_of_runs(summaries, weights=weights, method=interval, replicates=replicates)
    summary.notes.insert(0, note)
    seeds = [ref.seed for ref in refs if ref.seed is not None]
    summary.seeds = seeds if len(set(seeds)) == len(refs) else []
    return summary


def _check_alike(refs: Sequence[RunRef], summaries: Sequence[Summary]) -> None:
    """Raise unless all runs have as many tasks, and scores of one range and direction."""
    first = summaries[0]
    for ref, summary in zip(refs, summaries, strict=True):
        if len(summary.tasks) != len(first.tasks):
            raise InputError(
                f"{ref.name}: {count_of(len(summary.tasks), 'task')}, expected "
                f"{len(first.tasks)} as in {refs[0].name}"
            )
        if summary.scale != first.scale:
            raise InputError(
                f"{ref.name}: scores of another range or direction than in {refs[0].name}, "
                "expected seeds of one method; score them apart"
            )
