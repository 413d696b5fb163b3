"""The types of the options: how each is written, and the value that the parser makes of it."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from .._extras import install_hint, is_installed
from ..api.score_options import make_scale
from ..metrics import criteria_weights
from ..record import InputError, InputOptions, read_vector
from ..stats.schedules import parse_share
from ._output import STDIN
from .reference.names import MetricList, MetricText, parse_metric_id, parse_metric_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cyclopts import Token

MAX_SEEDS = 100_000

__all__ = [
    "DEFAULT_EXECUTION_OPTIONS",
    "DEFAULT_FILE_OPTIONS",
    "ExecutionOptions",
    "FileOptions",
    "Flag",
    "IntList",
    "IntOrAll",
    "IntPair",
    "MetricIds",
    "MetricName",
    "Names",
    "NonNegativeInt",
    "Order",
    "PositiveInt",
    "Range",
    "Seeds",
    "TableFormat",
    "TextFormat",
    "Values",
    "Weights",
    "Windows",
    "check_paths",
    "require_training",
]


def _parse_whole_number(text: str, option: str, minimum: int) -> int:
    """Return a whole number that is at least `minimum`."""
    # The parser alone would round 2.5 to 2.
    if not text.strip().isdecimal() or int(text) < minimum:
        raise InputError(f"{option} is {text!r:.40}, expected a whole number of at least {minimum}")
    return int(text)


def _parse_every(text: str, option: str) -> int | str:
    """Return a whole number, or a share of the time like 10%."""
    if not text.strip().endswith("%"):
        return _parse_whole_number(text, option, 1)
    try:
        parse_share(text)
    except ValueError:
        raise InputError(f"{option} is {text!r:.40}, expected above 0% and below 100%") from None
    return text.strip()


def _parse_schedules(text: str, option: str) -> tuple[int | str, ...]:
    """Return numbers of iterations and shares of the time from `1,10,10%`."""
    return tuple(_parse_every(part, option) for part in text.split(","))


def _parse_ints(text: str, option: str, minimum: int = 1) -> tuple[int, ...]:
    """Return whole numbers from `1,10,100`."""
    return tuple(_parse_whole_number(part, option, minimum) for part in text.split(","))


def _parse_seeds(text: str, option: str) -> int | list[int]:
    """Return how many seeds, or those listed."""
    if "," not in text:
        count = _parse_whole_number(text, option, 1)
        if count > MAX_SEEDS:
            raise InputError(f"{option} is {text:.40}, expected at most {MAX_SEEDS}")
        return count
    seeds = [_parse_whole_number(part, option, 0) for part in text.split(",") if part.strip()]
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"{option} is {text!r:.40}, expected each seed once")
    return seeds


def _parse_order(text: str, option: str) -> int | list[int]:
    if "," not in text:
        return _parse_whole_number(text, option, 0)
    if not text.replace(",", "").replace(" ", "").isdecimal():
        raise InputError(f"{option} is {text!r:.40}, expected numbers from 0, not names")
    return list(_parse_ints(text, option, 0))


def _parse_int_or_all(text: str, option: str) -> int | None:
    if text == "all":
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise InputError(f"{option} is {text!r:.40}, expected a whole number of at least 1, or all")
    return int(text)


def _parse_int_pair(text: str, option: str) -> tuple[int, int]:
    parts = _parse_ints(text, option)
    if len(parts) != 2:
        raise InputError(f"{option} is {text!r:.40}, expected two numbers like 20,100")
    return parts[0], parts[1]


def _parse_values(text: str, option: str) -> list[float]:
    """Return numbers from `0.1,0.2` or from the file of that name."""
    try:
        return [float(part) if part.strip() else math.nan for part in text.split(",")]
    except ValueError:
        if not os.path.lexists(text):
            raise InputError(
                f"{option} is {text!r:.60}, expected numbers like 0.1,0.2 or a file with them"
            ) from None
    try:
        return read_vector(text)
    except InputError as error:
        raise InputError(f"{option}: {error}") from None


def _parse_names(text: str, option: str) -> list[str]:
    """Return names from `mmlu,gsm8k`."""
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise InputError(f"{option} is {text!r:.60}, expected names like mmlu,gsm8k, each once")
    return names


def _parse_range(text: str, option: str) -> tuple[float, float]:
    try:
        ends = [float(end) for end in text.split(",")]
    except ValueError:
        ends = []
    if len(ends) != 2 or any(math.isnan(end) for end in ends):
        raise InputError(f"{option} is {text!r:.40}, expected LO,HI like 0,10 or 0,inf")
    return ends[0], ends[1]


def _parse_windows(text: str, option: str) -> tuple[int | None, ...]:
    windows: list[int | None] = []
    for part in text.split(","):
        if part.strip() == "all":
            windows.append(None)
        elif part.strip().isdecimal() and int(part) >= 1:
            windows.append(int(part))
        else:
            raise InputError(f"{option} has {part!r}, expected whole numbers of at least 1, or all")
    return tuple(dict.fromkeys(windows))


def _parse_weights(text: str, option: str) -> dict[str, float]:
    from fractions import Fraction  # imported here: it brings decimal

    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            weight = float(Fraction(value))
        except (ValueError, ZeroDivisionError):
            raise InputError(
                f"{option} has {part!r}, expected NAME=WEIGHT like A=.4 or A=1/6"
            ) from None
        if name.strip() in weights:
            raise InputError(f"{option} has {name.strip()!r} twice, expected each name once")
        weights[name.strip()] = weight
    try:
        criteria_weights(weights)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None
    return weights


def _parameter(parse: Callable[[str, str], object], metavar: str | None = None) -> Parameter:
    """Return a parameter whose one word `parse(text, option)` turns into a value."""

    def convert(_: type, tokens: Sequence[Token]) -> object:
        option = tokens[0].keyword or ""
        if len(tokens) > 1:
            raise InputError(f"{option} is given {len(tokens)} times, expected once")
        return parse(tokens[0].value, option)

    return Parameter(
        converter=convert, n_tokens=1, accepts_keys=False, metavar=metavar, negative="",
        allow_leading_hyphen=True, show_default=_show_default,
    )  # fmt: skip


def _show_default(value: object) -> str | None:
    """Return a default as it would be written on the command line."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return ",".join("all" if part is None else str(part) for part in value)
    return str(value)


Flag = Annotated[bool, Parameter(negative="", show_default=False)]
TextFormat = Annotated[Literal["text", "json"], Parameter("--format")]
TableFormat = Annotated[Literal["text", "json", "markdown", "latex", "csv"], Parameter("--format")]
PositiveInt = Annotated[int, _parameter(partial(_parse_whole_number, minimum=1))]
NonNegativeInt = Annotated[int, _parameter(partial(_parse_whole_number, minimum=0))]
Every = Annotated[int | str, _parameter(_parse_every, "INT|SHARE%")]
EveryList = Annotated[tuple[int | str, ...], _parameter(_parse_schedules, "INT|SHARE%,…")]
IntList = Annotated[tuple[int, ...], _parameter(_parse_ints, "INT,…")]
IntPair = Annotated[tuple[int, int], _parameter(_parse_int_pair, "INT,INT")]
IntOrAll = Annotated[int | None, _parameter(_parse_int_or_all, "INT|all")]
Values = Annotated[list[float], _parameter(_parse_values, "NUMBERS|FILE")]
Names = Annotated[list[str], _parameter(_parse_names, "NAME,…")]
Range = Annotated[tuple[float, float], _parameter(_parse_range, "LO,HI")]
Windows = Annotated[tuple[int | None, ...], _parameter(_parse_windows, "INT,…,all")]
Weights = Annotated[dict[str, float], _parameter(_parse_weights, "NAME=FLOAT,…")]
Seeds = Annotated[int | list[int], _parameter(_parse_seeds, "INT|INT,…")]
Order = Annotated[int | list[int], _parameter(_parse_order, "INT|INT,…")]
if TYPE_CHECKING:
    MetricIds: TypeAlias = MetricList
    MetricName: TypeAlias = str
else:
    MetricIds = Annotated[list[MetricText], _parameter(parse_metric_ids, "ID,…")]
    MetricName = Annotated[MetricText, _parameter(parse_metric_id, "ID")]


@Parameter(name="*", group="Scores in files")
@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How to read and show the scores in matrices and logs.

    Attributes:
        percent: Print tables in percent (JSON and CSV never are), and read matrices and logs as
            percent if any of their scores is above 1. A run states its own scale. By default,
            scores are read as percent only if nothing else is plausible, with a note.
        transposed: In matrices, rows are evaluated tasks and columns are trained tasks. By default,
            they are swapped only if no score is below the diagonal, with a note.
        upper: Set to `measured` if zeros that fill the upper triangle of a matrix are measured
            scores. They otherwise count as not measured.
        range_: Lowest and highest possible score in files whose scores are not accuracies; `inf`
            is allowed.
        lower_is_better: The scores in files are losses or errors.
    """

    percent: Flag = False
    transposed: Annotated[bool | None, Parameter(show_default=False)] = None
    upper: Literal["measured"] | None = None
    range_: Annotated[Range | None, Parameter("--range")] = None
    lower_is_better: Flag = False

    def make(self) -> InputOptions:
        """Return these options for `read_input`."""
        scale = make_scale(self.range_, lower_is_better=self.lower_is_better)
        return InputOptions(
            percent=self.percent or None, or_fractions=True, transposed=self.transposed,
            upper=self.upper, scale=scale,
        )  # fmt: skip


@Parameter(name="*", group="Execution")
@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """How to execute the runs of a study.

    Attributes:
        jobs: Number of runs in parallel. Defaults to what the CPU cores allow.
        serial: Run one after the other in this process.
        ray: Run on Ray: `auto` starts Ray on this machine, an address joins a cluster.
        gpus_per_run: GPUs per run on CUDA with --ray; .25 lets four runs share a GPU.
        retry_failed: Run failed runs again.
        restart: Start unfinished and failed runs from scratch. Finished runs are kept, unlike with
            `perdure run --restart`; to repeat one, delete its folder.
        force: Resume unfinished runs even if the data or software versions have changed. The
            results may then not be bit-identical.
    """

    jobs: PositiveInt | None = None
    serial: Flag = False
    ray: Annotated[str | None, Parameter(metavar="auto|ADDRESS")] = None
    gpus_per_run: float = 1.0
    retry_failed: Flag = False
    restart: Flag = False
    force: Flag = False


DEFAULT_FILE_OPTIONS = FileOptions()
DEFAULT_EXECUTION_OPTIONS = ExecutionOptions()


def require_training() -> None:
    """Raise unless everything that training needs is installed; nothing is imported."""
    for package in ("torch", "safetensors"):
        if not is_installed(package):
            raise InputError(f"training needs {package}: {install_hint('train')}")


def check_paths(sources: Sequence[str]) -> None:
    """Raise if one of the sources is standard input."""
    if any(source.endswith(STDIN) for source in sources):
        raise InputError("- is standard input, expected files or folders; write it to a file first")
