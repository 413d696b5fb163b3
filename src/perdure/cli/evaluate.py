"""`perdure evaluate`: a record from saved models."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - the parser reads the annotation
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from cyclopts import Parameter

from .._devices import resolve_device
from .._extras import import_user_attribute
from ..record import InputError, open_run
from ..report.tables.text_table import TextTable
from ._options import Flag, Names, PositiveInt, require_training
from ._output import print_json, print_lines, print_stderr, print_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..evaluation import Score
    from ..record import Points

__all__ = ["evaluate"]

ModuleName = Annotated[str, Parameter(metavar="MODULE:NAME")]


def evaluate(
    *,
    checkpoints: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    model: ModuleName | None = None,
    tasks: ModuleName | None = None,
    output: Annotated[Path | None, Parameter(alias="-o")] = None,
    order: Literal["step", "name", "time", "given"] | None = None,
    trained: Annotated[str | None, Parameter(metavar="NAME,…|MODULE:NAME")] = None,
    initial: Annotated[str | None, Parameter(metavar="PATH|model")] = None,
    control: Names | None = None,
    score: ModuleName | None = None,
    prefix: Annotated[str, Parameter(show_default=False)] = "",
    allow_pickle: Flag = False,
    device: Annotated[str, Parameter(metavar="DEVICE")] = "auto",
    batch_size: PositiveInt | None = None,
    jobs: PositiveInt = 1,
    restart: Flag = False,
    format_: Annotated[Literal["text", "json"], Parameter("--format")] = "text",
) -> int:
    """Evaluate saved models on every task, and record it as a run.

    Every other command then reads the record: score, compare, plot, report. The same command
    continues after an interruption, and evaluates only checkpoints that were added since.

    Args:
        checkpoints: Checkpoints, or patterns such as 'ckpt-*': safetensors files, folders with
            model.safetensors (Hugging Face), and, with --allow-pickle, .ckpt, .pt and .bin files.
        model: Function that returns the model, as module:name. Weights are loaded into what it
            returns. If it has a parameter, it is called with the path of the checkpoint and loads
            the weights itself.
        tasks: Evaluation data by task, or a function that returns it, as module:name.
        output: Folder of the record.
        order: Order of training. Defaults to `step`, the step numbers in the names (ckpt-100,
            epoch=1-step=50); other names need `name`, `time` (of the last change) or `given`.
        trained: Task that each checkpoint was trained on last, as in a,b,c, or a function of the
            path, as module:name. Without it, the record is a stream without task boundaries.
        initial: Checkpoint before training, or `model` for the model as the function returns it.
            A checkpoint of step 0 is one, too. Retention needs it.
        control: Names of the tasks that are evaluated but never trained.
        score: Score function or `perdure.Score`, as module:name. Defaults to accuracy.
        prefix: Load only weights whose names begin with this, without it; `model.` fits many
            Lightning modules.
        allow_pickle: Also read pickles (.ckpt, .pt, .pth, .bin), with torch.load and
            weights_only=True: tensors and plain values are created, and no code is executed.
        device: Device to evaluate on: cpu, cuda, cuda:1, mps, or auto.
        batch_size: Examples per forward pass. Defaults to what suits the device.
        jobs: Number of processes that evaluate checkpoints.
        restart: Evaluate all checkpoints again.
        format_: Output format.
    """
    if checkpoints is None or model is None or tasks is None or output is None:
        raise InputError(
            "checkpoints, model, tasks and output are needed, as in --checkpoints 'ckpt-*' --model "
            "mine:make_model --tasks mine:make_tasks -o runs/mine"
        )
    require_training()
    from ..api.checkpoint_record import CheckpointLoader, evaluate_checkpoints

    loader = CheckpointLoader(
        _import_function(model, "model"), import_user_attribute(tasks, "tasks"),
        score=_import_score(score), prefix=prefix, allow_pickle=allow_pickle,
        device=resolve_device(device), batch_size=batch_size,
    )  # fmt: skip
    config = {"model": model, "tasks": tasks, "score": score, "prefix": prefix}
    steps = evaluate_checkpoints(
        checkpoints, output, loader, order=order, trained=_parse_trained(trained), initial=initial,
        control=control or (), jobs=jobs, restart=restart,
        config={name: value for name, value in config.items() if value},
    )  # fmt: skip
    try:
        for one in steps:
            shown = "was evaluated before"
            if one.result is not None:
                scores = one.result.scores.items()
                shown = ", ".join(f"{task} {value:.4f}" for task, value in scores)
            print_stderr(f"{one.number}/{one.total} {one.checkpoint.name}: {shown}")
    except KeyboardInterrupt:
        print_stderr("interrupted; the same command continues")
        return 130
    _print_record(output, format_)
    return 0


def _print_record(output: Path, format_: str) -> None:
    run = open_run(output, per_example=False)
    assert run.points is not None
    if format_ == "json":
        rows = [row._asdict() for row in _rows(run.points)]
        print_json({"record": str(output), "notes": run.notes, "checkpoints": rows})
        return
    print_tables([_make_table(run.points)], "text")
    print_lines("", *(f"note: {note}" for note in run.notes))
    print_lines(f"recorded in {output}; `perdure score {output}` prints every metric")


class _Row(NamedTuple):
    step: int
    trained: str | None
    scores: dict[str, float]


def _rows(points: Points) -> list[_Row]:
    rows: dict[int, _Row] = {}
    for k, step in enumerate(points.step.tolist()):
        trained = points.names[points.trained[k]] if points.trained[k] >= 0 else None
        row = rows.setdefault(step, _Row(step, trained, {}))
        row.scores[points.names[points.tested[k]]] = float(points.score[k])
    return list(rows.values())


def _make_table(points: Points) -> TextTable:
    titles = [f"{name} (control)" if name in points.control else name for name in points.names]
    rows = []
    for row in _rows(points):
        cells = [f"{row.scores[name]:.4f}" if name in row.scores else "" for name in points.names]
        rows.append([str(row.step), row.trained or "", *cells])
    return TextTable(["step", "trained", *titles], rows, right={"step", *titles})


def _import_function(name: str, kind: str) -> Callable[..., object]:
    function = import_user_attribute(name, kind)
    if not callable(function):
        raise InputError(f"{kind} {name!r} is {type(function).__name__}, expected a function")
    return function


def _import_score(name: str | None) -> Score | None:
    from ..evaluation import Score

    if name is None:
        return None
    score = import_user_attribute(name, "score")
    return score if isinstance(score, Score) else Score(score)  # type: ignore[arg-type]


def _parse_trained(text: str | None) -> list[str] | Callable[[Path], str] | None:
    """Return the tasks in `a,b,c`, or the function that module:name names."""
    if text is None:
        return None
    if ":" in text:
        return _import_function(text, "trained")  # type: ignore[return-value]
    return [name.strip() for name in text.split(",")]
