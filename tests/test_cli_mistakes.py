"""Mistakes on the command line: exit code 2, one line, the value in it, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perdure.cli import Command, app
from perdure.cli._output import render_options, running_command

from .cli_helpers import refused, says, table, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cyclopts import App


def leaves(program: App, *words: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command that has no subcommands."""
    names = [name for name in program if not name.startswith("-")]
    if not names:
        yield words
    for name in names:
        yield from leaves(program[name], *words, name)


COMMANDS = sorted(set(leaves(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_refuses_an_option_that_does_not_exist(words: tuple[str, ...]) -> None:
    line = refused(*words, "--no-such-option")
    says(line, "option --no-such-option is not known", f"`perdure {' '.join(words)} --help`")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_without_its_value_is_refused_by_name(words: tuple[str, ...]) -> None:
    command = Command(words, app)
    for argument in command.app.assemble_argument_collection():
        keyword = next((name for name in argument.names if name.startswith("--")), None)
        if keyword is not None and argument.parameter.show and argument.hint is not bool:
            says(refused(*words, keyword), keyword)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_misspelt_option_is_recognized(words: tuple[str, ...]) -> None:
    for option in sorted(Command(words, app).options):
        if len(option) > 7 and not option.startswith("--no-"):
            misspelt = option[:-2] + option[-1] + option[-2]  # the last two letters swapped
            if misspelt not in Command(words, app).options:
                says(refused(*words, misspelt), misspelt, f"did you mean {option[:-2]}")


@pytest.mark.parametrize("words", sorted({words[:-1] for words in COMMANDS}), ids=" ".join)
def test_every_misspelt_command_is_recognized(words: tuple[str, ...]) -> None:
    for name in Command(words, app).subcommands:
        line = refused(*words, name[:-1] + "x")
        says(line, f"command is '{name[:-1]}x'", name, " ".join(["`perdure", *words, "--help`"]))


MISTAKES: dict[str, tuple[str, ...]] = {
    "score m.csv --json": ("--json", "write --format json"),
    "score m.csv --metrics acc, bwt": ("--metrics is 'acc,'", "acc,bwt", "without spaces"),
    "score m.csv --format jsn": ("--format is 'jsn'", "expected text or json", "mean json?"),
    "score m.csv --interval 95": ("--interval is '95'", "expected t or bca"),
    "score m.csv --seeds 3": ("--seeds", "an option of `perdure run`", "`perdure score --help`"),
    "score m.csv --as": ("--as has no value",),
    "score m.csv --subsample 10": ("m.csv", "score matrix", "leave out --subsample 10"),
    "plan 500 5": ("'500' is one argument too many", "`perdure plan --help`"),
    "plan --iterations 9 --tasks 2 --accuracy 90": ("--accuracy is 90", "from 0 to 1"),
    "run replay split-digits": ("'replay'", "a strategy", "perdure run split-digits replay"),
    "run split-digits replay extra": ("'extra' is one argument too many",),
    "run split-digits replay --ray auto": ("--ray", "an option of `perdure study run`"),
    "run split-digits replay --validation-split 20": ("--validation-split is 20", "from 0"),
    "run split-digits replay --blur 5": ("--blur is 5", "from 0 to 1"),
    "run split-digits replay --device gpu": ("--device is 'gpu'", "expected cpu, cuda"),
    "run split-digits replay --image-size 16": ("image size", "leave out --image-size"),
    "run split-digits replay --store m.csv/x": ("--store is 'm.csv/x'", "m.csv is a file"),
    "run split-digits replay --store /proc/runs": ("--store is '/proc/runs'", "choose another"),
    "study run": ("FILE is missing", "`perdure study run --help`"),
    "study run study.toml --set lr=.1": ("--set", "the study file", "`perdure study run --help`"),
    "study run study.toml --device cpu": ("--device", "the study file"),
    "study run m.csv": ("m.csv", "TOML", "examples/study.toml"),
    "study rn study.toml": ("command is 'rn'", "did you mean run?"),
    "reproduce delange-mnist --set lr=.1": ("--set", "`perdure run`"),
    "reproduce delange-mnst": ("'delange-mnst'", "did you mean delange-mnist"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_a_newcomer(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "m.csv", table())
    says(refused(*mistake.split()), *MISTAKES[mistake])


ADVICE = "lower `settings={'lr': …}`, or `device='cpu'`, or use `force=True`"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run", "lower --set lr=…, or --device cpu, or use --force"),
        (
            "study run",
            "lower lr=… in the study file, or device = cpu in the study file, or use --force",
        ),
        (
            "reproduce",
            "lower --set lr=… of `perdure run`, or --device cpu, or use --force",
        ),
    ],
)
def test_advice_names_what_the_command_has(words: str, expected: str) -> None:
    with running_command(Command(words.split(), app)):
        assert render_options(ADVICE) == expected
    assert render_options(ADVICE).endswith("--force")


@pytest.mark.parametrize("command", ["score", "report"])
def test_a_matrix_that_lacks_its_diagonal_is_refused(command: str, tmp_path: Path) -> None:
    path = write(tmp_path, "upper.csv", "nan,2\nnan,nan\n")
    page = ["-o", f"{tmp_path}/page.html"] if command == "report" else []
    says(refused(command, path, *page), "upper.csv", "score on task 0 after task 0 is missing")
