"""The notebooks of docs/notebooks run from the start to the end and show what is stored in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from .notebooks import PATHS, execute, read

if TYPE_CHECKING:
    from pathlib import Path

NUMBER = re.compile(r"[-−]?\d+(?:\.\d+)?(?:e-?\d+)?|\bnan\b")


def words_of(output: dict[str, Any]) -> str:
    """Return the text of an output without its numbers, which depend on the processor."""
    text = output.get("text") or output["data"]["text/plain"]
    return " ".join(NUMBER.sub("#", "".join(text)).split())


def kinds_of(output: dict[str, Any]) -> set[str]:
    return set(output.get("data", ()))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_it_shows_what_is_stored(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = read(path)
    if path.stem != "score_and_compare":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    shown = execute(notebook)
    stored = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [[words_of(one) for one in cell] for cell in shown] == [
        [words_of(one) for one in cell] for cell in stored
    ]
    assert [[kinds_of(one) for one in cell] for cell in shown] == [
        [kinds_of(one) for one in cell] for cell in stored
    ]


def test_there_are_three_and_they_are_small() -> None:
    assert len(PATHS) == 3
    for path in PATHS:
        assert path.stat().st_size < 150_000
