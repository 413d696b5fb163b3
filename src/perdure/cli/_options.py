"""The types of the options: how each is written, and the value that the parser makes of it.

A shell completes names and paths. The parser accepts any text for them: which names are known,
aliases and a user's own `module:name` are the command's business.
"""

from __future__ import annotations

import math
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from .._extras import install_hint, is_installed
from ..data import DATASETS
from ..importers import READERS
from ..metrics import METRICS, TOOLS, criteria_weights, select_metric_ids
from ..models import MODELS
from ..record import InputError, read_vector
from ..scenarios import SCENARIOS
from ..stats.schedules import parse_share
from ..strategies import STRATEGIES
from ._output import STDIN, print_stderr

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from cyclopts import Token

__all__ = [
    "DatasetName",
    "Flag",
    "IntList",
    "IntOrAll",
    "IntPair",
    "MetricIds",
    "MetricName",
    "ModelName",
    "Names",
    "NonNegativeInt",
    "Order",
    "PathText",
    "PositiveInt",
    "Range",
    "ReaderName",
    "ScenarioName",
    "Seeds",
    "StrategyName",
    "TableFormat",
    "TermName",
    "TextFormat",
    "ToolName",
    "Values",
    "Weights",
    "Windows",
    "check_paths",
    "name_type",
    "parse_pairs",
    "require_training",
]


def name_type(*names: str) -> object:
    """Return the type of an argument that is any text, of which a shell completes these."""
    return Annotated[Literal[names] | str, Parameter(show_choices=False)]


if TYPE_CHECKING:
    DatasetName: TypeAlias = str
    MetricText: TypeAlias = str
    ModelName: TypeAlias = str
    PathText: TypeAlias = str
    ReaderName: TypeAlias = str
    ScenarioName: TypeAlias = str
    StrategyName: TypeAlias = str
    TermName: TypeAlias = str
    ToolName: TypeAlias = str
else:
    DatasetName = name_type(*DATASETS)
    MetricText = name_type(*METRICS)
    ModelName = name_type(*MODELS)
    ReaderName = name_type("auto", *READERS)
    ScenarioName = name_type(*SCENARIOS)
    StrategyName = name_type(*STRATEGIES)
    ToolName = name_type(*TOOLS)
    TermName = name_type(*METRICS, *STRATEGIES, *TOOLS, *SCENARIOS, *MODELS)
    PathText = str | Path  # the first that fits: always text


class MetricList(list[str]):
    """Ids of metrics. `named` are those named one by one, the others match a pattern."""

    named: tuple[str, ...] = ()

    def missing(self, defined: Collection[str]) -> list[str]:
        """Return the named ids that are not defined, or all ids if none of them is."""
        missing = [id_ for id_ in self.named if id_ not in defined]
        return missing if any(id_ in defined for id_ in self) else list(self)


def _parse_metric_ids(text: str, option: str) -> MetricList:
    """Return the ids of `aa,forgetting.*`; an alias is stated on standard error."""
    names = [part.strip() for part in text.split(",")] if text else []
    if not all(names):
        raise InputError(f"{option} is {text!r:.40}, expected ids like acc,bwt without spaces")
    try:
        selection = select_metric_ids(names)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None
    for note in selection.notes:
        print_stderr(f"note: {note}")
    ids = MetricList(selection.ids)
    ids.named = tuple(selection.named)
    return ids


def _parse_metric_id(text: str, option: str) -> str:
    ids = _parse_metric_ids(text, option)
    if len(ids) != 1:
        raise InputError(f"{option} is {text!r:.40}, expected one metric such as acc")
    return ids[0]


MAX_SEEDS = 100_000


def _parse_whole_number(text: str, option: str, minimum: int) -> int:
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
    MetricIds = Annotated[list[MetricText], _parameter(_parse_metric_ids, "ID,…")]
    MetricName = Annotated[MetricText, _parameter(_parse_metric_id, "ID")]


def require_training() -> None:
    """Raise unless everything that training needs is installed; nothing is imported."""
    for package in ("torch", "safetensors"):
        if not is_installed(package):
            raise InputError(f"training needs {package}: {install_hint('train')}")


def parse_pairs(pairs: Sequence[str], option: str, *, like: str = "") -> dict[str, str]:
    """Return the values of `NAME=VALUE` by name; `like` ends with an example."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals and value):
            raise InputError(f"{option} has {pair!r:.40}, expected NAME=VALUE{like}")
        if name in values:
            raise InputError(f"{option} has {name!r:.40} twice, expected each name once")
        values[name] = value
    return values


def check_paths(sources: Sequence[str]) -> None:
    """Raise if one of the sources is standard input."""
    if any(source.endswith(STDIN) for source in sources):
        raise InputError("- is standard input, expected files or folders; write it to a file first")
