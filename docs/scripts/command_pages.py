"""The pages of the commands, from the help texts of the command line."""

from __future__ import annotations

import re
from pathlib import Path

from perdure.cli import app
from perdure.metrics import METRICS

__all__ = ["command_pages"]

DOCS = Path(__file__).parents[1]


def command_pages() -> dict[str, str]:
    """Return the pages by file name: one per command, with its subcommands, and an index."""
    whole = app.generate_docs(output_format="markdown")
    whole = re.sub(
        r"^(perdure[a-z ]*) -m \S+", r"\1", whole, flags=re.MULTILINE
    )  # how we were called
    _, *parts = re.split(r"^## (?=perdure )", whole, flags=re.MULTILINE)
    names = [part.partition("\n")[0].removeprefix("perdure ") for part in parts]
    pages = {f"{name}.md": _page(part) for name, part in zip(names, parts, strict=True)}
    return {"index.md": _index(names), **pages}


def _index(names: list[str]) -> str:
    about = (
        "Generated from `perdure COMMAND --help`. The exit code is 0 on success, 1 if a "
        "computation failed or a check says FAIL, 2 for invalid input, and 3 if a check "
        "is inconclusive."
    )
    rows = (f"| [`perdure {name}`]({name}.md) | {_about(name)} |" for name in names)
    lines = ["# Commands", "", about, "", "| command | |", "|---|---|", *rows]
    return "\n".join([*lines, ""])


def _about(name: str) -> str:
    return app[name].help.partition("\n\n")[0].replace("\n", " ")


def _page(part: str) -> str:
    text = re.sub(r"^#(?=#+ perdure )", "", f"# {part}", flags=re.MULTILINE)
    text = re.sub(r"(?s)\*\*Commands\*\*:\n.*?(?=^## )", "", text, flags=re.MULTILINE)
    text = re.sub(rf"choices: {re.escape(', '.join(METRICS))}\]\*", _any_metric(), text)
    text = text.replace("*[" + _any_metric(), _any_metric())
    return re.sub(r"\bdocs/(\w+\.md)\b", _link, text)


def _any_metric() -> str:
    return "Any id of [Metrics](../metrics/index.md)."


def _link(match: re.Match[str]) -> str:
    return f"[{match[0]}](../../{match[1]})" if (DOCS / match[1]).exists() else match[0]
