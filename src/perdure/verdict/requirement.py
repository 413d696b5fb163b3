"""Requirements in words: `acc >= base - .01`, `no task drops more than .02`; and TOML files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from ..metrics import resolve_metric
from ..record import InputError
from ..record.io.files import read_toml

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "FORMS",
    "MAX_REQUIREMENTS",
    "CheckSettings",
    "Requirement",
    "find_settings",
    "parse_requirement",
    "parse_requirements",
    "read_settings",
]

FORMS = (
    "METRIC <= NUMBER, METRIC >= NUMBER, METRIC >= base - NUMBER or no task drops more than NUMBER"
)
MAX_REQUIREMENTS = 100
MAX_LENGTH = 200  # characters
DROP = ("no", "task", "drops", "more", "than")
WORD = re.compile(r"[<>=!~≤≥]+|base(?=\s|[+-]|$)|[+-](?=\s|\d|\.)|[^\s<>=!~≤≥]+")
NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
TABLE = ("tool", "perdure", "check")
EXPECTED = 'requirements in TOML: require = ["acc >= .9"]'


@dataclass(frozen=True)
class Requirement:
    """What must hold for a run.

    Attributes:
        text: The requirement as it was written.
        metric: Id of the metric; None if no task may drop.
        sense: Whether the value must be at most or at least the limit.
        limit: The limit; with `relative`, that of the difference from the baseline.
        relative: Whether the limit is relative to the baseline.
    """

    text: str
    metric: str | None
    sense: Literal["<=", ">="]
    limit: float
    relative: bool = False


def parse_requirements(texts: Sequence[str]) -> list[Requirement]:
    """Return the requirements in some lines of text, or raise InputError."""
    if not texts:
        raise InputError(f"no requirement is given, expected one or more: {FORMS} (`require=`)")
    if len(texts) > MAX_REQUIREMENTS:
        raise InputError(
            f"{len(texts)} requirements are given, expected at most {MAX_REQUIREMENTS}"
        )
    requirements = [parse_requirement(text) for text in texts]
    repeated = next((r.text for k, r in enumerate(requirements) if r in requirements[:k]), None)
    if repeated is not None:
        raise InputError(f"requirement {repeated!r} is given twice, expected once")
    return requirements


def parse_requirement(text: str) -> Requirement:
    """Return what a requirement says, or raise InputError that names the word that is wrong.

    Example:
        >>> parse_requirement("acc >= base - .01").limit
        -0.01
        >>> parse_requirement("no task drops more than .02").metric is None
        True
        >>> parse_requirement("acc => .9")
        Traceback (most recent call last):
        ...
        perdure.record.io.files.InputError: requirement 'acc => .9': word 2 is '=>', expected <= \
or >=
    """
    if len(text) > MAX_LENGTH:
        raise InputError(f"requirement {text!r:.60}… is longer than {MAX_LENGTH} characters")
    words = WORD.findall(text)
    shown = " ".join(text.split())
    if not words:
        raise InputError(f"requirement {text!r} is empty, expected {FORMS}")
    if words[0].casefold() == "no":
        return _parse_drop(shown, words)
    try:
        metric = resolve_metric(words[0])
    except ValueError as error:
        raise _wrong(shown, words, 0, f"a metric, or {' '.join(DROP)} NUMBER: {error}") from None
    if len(words) < 2 or words[1] not in ("<=", ">="):
        raise _wrong(shown, words, 1, "<= or >=")
    sense: Literal["<=", ">="] = "<=" if words[1] == "<=" else ">="
    if len(words) < 3 or words[2].casefold() != "base":
        limit = _parse_number(shown, words, 2, signed=True, also=", or base, base - NUMBER")
        return Requirement(shown, metric, sense, limit)
    if len(words) > 3 and words[3] not in ("+", "-"):
        raise _wrong(shown, words, 3, "+ or - and a number, or nothing after base")
    limit = _parse_number(shown, words, 3, signed=True) if len(words) > 3 else 0.0
    return Requirement(shown, metric, sense, limit, relative=True)


def _parse_drop(shown: str, words: Sequence[str]) -> Requirement:
    for k, expected in enumerate(DROP):
        if k >= len(words) or words[k].casefold() != expected:
            raise _wrong(shown, words, k, f"{expected!r}, as in {' '.join(DROP)} .02")
    return Requirement(shown, None, "<=", _parse_number(shown, words, len(DROP)))


def _parse_number(
    shown: str, words: Sequence[str], k: int, *, signed: bool = False, also: str = ""
) -> float:
    """Return the number that ends a requirement, from word k on."""
    sign = 1.0
    if signed and k < len(words) and words[k] in ("+", "-"):
        sign = -1.0 if words[k] == "-" else 1.0
        k += 1
    if k >= len(words) or not NUMBER.fullmatch(words[k]):
        hint = "; percentages are written as fractions" if words[k:] and "%" in words[k] else ""
        raise _wrong(shown, words, k, f"a number such as .02{also}{hint}")
    if k + 1 < len(words):
        raise _wrong(shown, words, k + 1, "nothing after the number")
    value = sign * float(words[k])
    if abs(value) > 1e9:
        raise _wrong(shown, words, k, "a number below 1e9")
    return value


def _wrong(shown: str, words: Sequence[str], k: int, expected: str) -> InputError:
    what = f"word {k + 1} is {words[k]!r:.60}" if k < len(words) else f"word {k + 1} is missing"
    return InputError(f"requirement {shown!r}: {what}, expected {expected}")


class CheckSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a file may say about a check; None where it says nothing.

    Args:
        require: The requirements.
        baseline: Path of the baseline, relative to the file.
        level: Confidence level.
        inconclusive: What an inconclusive verdict counts as.
    """

    require: list[str] = []
    baseline: str | None = None
    level: Annotated[float, msgspec.Meta(gt=0.5, lt=1)] | None = None
    inconclusive: Literal["pass", "fail"] | None = None


def find_settings(folder: str | os.PathLike[str] = ".") -> CheckSettings | None:
    """Return the settings in the pyproject.toml of a folder, None if it has none."""
    path = Path(folder) / "pyproject.toml"
    if not path.exists():
        return None
    table = _find_table(read_toml(path, EXPECTED))
    return None if table is None else _convert(table, path, f"[{'.'.join(TABLE)}]")


def read_settings(path: str | os.PathLike[str]) -> CheckSettings:
    """Return the settings in a TOML file: at its top level, or in [tool.perdure.check]."""
    contents = read_toml(path, EXPECTED)
    table = _find_table(contents)
    if table is None:
        return _convert(contents, path, "the file")
    return _convert(table, path, f"[{'.'.join(TABLE)}]")


def _find_table(contents: dict[str, object]) -> dict[str, object] | None:
    table: object = contents
    for name in TABLE:
        table = table.get(name) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else None


def _convert(table: object, path: str | os.PathLike[str], where: str) -> CheckSettings:
    try:
        settings = msgspec.convert(table, CheckSettings)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{path}: {where}: {error}; expected require, baseline, level or inconclusive"
        ) from None
    for line in settings.require:
        try:
            parse_requirement(line)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    if settings.baseline is None:
        return settings
    baseline = os.fspath(Path(path).parent / settings.baseline)
    return msgspec.structs.replace(settings, baseline=baseline)
