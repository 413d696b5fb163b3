"""A stray sklearn.py in the current directory is never executed; modules that are named are."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .cli_helpers import environment

STRAY = ("sklearn", "msgspec", "numpy", "torch", "rich", "safetensors", "json", "scipy", "ray")
MARK = "import pathlib\npathlib.Path('executed').open('a').write(__name__ + ' ')\n"
OWN = """
from perdure.strategies import Strategy
from perdure.strategies import Naive
import helper

class Mine(Naive):
    pass

def linear(shape, outputs):
    from torch import nn
    import math
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), outputs))
"""
RUN = ("run", "split-digits", "--iterations", "4", "--every", "2", "--store", "runs")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in STRAY:
        (tmp_path / f"{name}.py").write_text(MARK)
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "mine.toml").write_text(
        'scenarios = ["split-digits"]\nstrategies = ["naive"]\nseeds = 2\n'
        '[run]\niterations = 4\nevery = 2\nhidden = "8"\n'
    )
    return tmp_path


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command in `folder`."""
    perdure = Path(sys.executable).with_name("perdure")
    found = [str(perdure)] if perdure.exists() else [shutil.which("perdure") or "perdure"]
    return subprocess.run(
        [*found, *arguments], cwd=folder, env=environment(), capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        (*RUN[:2], "naive", *RUN[2:], "--seeds", "2", "--set", "hidden=8"),
        pytest.param(("study", "run", "mine.toml"), marks=pytest.mark.slow),
        (*RUN[:2], "mine:Mine", *RUN[2:], "--seeds", "1", "--model", "mine:linear"),
    ],
    ids=["run", "study", "own"],
)
def test_what_lies_in_the_directory_is_not_executed(folder: Path, arguments: Any) -> None:
    answer = command(folder, *arguments)
    assert answer.returncode == 0, answer.stderr
    assert not (folder / "executed").exists()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["naive", "mine:Mine"])
def test_nor_by_a_worker_of_ray(folder: Path, strategy: str) -> None:
    (folder / "mine.toml").write_text(
        (folder / "mine.toml").read_text().replace('"naive"', f'"{strategy}"')
    )
    (folder / "ray.py").unlink()
    answer = command(folder, "study", "run", "mine.toml", "--ray", "auto")
    assert answer.returncode == 0, answer.stderr
    assert not (folder / "executed").exists()


def test_an_installed_module_comes_first_and_the_message_says_so(folder: Path) -> None:
    (folder / "numpy.py").write_text("class Mine: pass\n")
    answer = command(folder, *RUN[:2], "numpy:Mine", *RUN[2:])
    assert answer.returncode == 2
    assert "numpy (" in answer.stderr
    assert "has no 'Mine'" in answer.stderr
    assert "site-packages" in answer.stderr
