"""`perdure completion`: bash itself is asked what it would complete; no program is started."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from perdure.cli import app, make_completion_script
from perdure.importers import READERS
from perdure.metrics import METRICS, TOOLS
from perdure.models import MODELS
from perdure.scenarios import SCENARIOS
from perdure.strategies import STRATEGIES

from .cli_helpers import refused, run, says

if TYPE_CHECKING:
    from pathlib import Path

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_perdure
printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(folder: Path, *words: str) -> set[str]:
    """Return what bash offers for the last word, without any program but its own."""
    script = folder / "perdure.bash"
    if not script.exists():
        script.write_text(make_completion_script(app, "bash"))
    done = subprocess.run(
        [shutil.which("bash") or "", "-c", ASK, "bash", str(script), "perdure", *words],
        capture_output=True, text=True, cwd=folder, env={"PATH": ""}, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return {line.rstrip() for line in done.stdout.splitlines() if line}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_names_and_paths(tmp_path: Path) -> None:
    commands = {name for name in app if not name.startswith("-")}
    assert commands <= complete(tmp_path, "")
    assert complete(tmp_path, "run", "") >= set(SCENARIOS)
    assert complete(tmp_path, "run", "split-digits", "") >= set(STRATEGIES)
    assert complete(tmp_path, "run", "split-digits", "agem", "--model", "") == set(MODELS)
    assert complete(tmp_path, "score", "x.csv", "--metrics", "forg") == {
        id_ for id_ in METRICS if id_.startswith("forg")
    }
    assert complete(tmp_path, "score", "x.csv", "--as", "") == set(TOOLS)
    assert complete(tmp_path, "import", "") >= {"auto", *READERS}
    assert complete(tmp_path, "compare", "--unp") == {"--unpaired"}
    (tmp_path / "runs" / "split-digits-ewc-s0-1234abcd").mkdir(parents=True)
    for command in ("score", "compare", "watch", "report"):
        assert complete(tmp_path, command, "runs/split") == {"runs/split-digits-ewc-s0-1234abcd"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script_with_all_names(shell: str) -> None:
    answer = run("completion", shell)
    assert (answer.code, answer.err) == (0, "")
    for name in (*SCENARIOS, *STRATEGIES, *MODELS, *METRICS, "compare", "checkpoint-every"):
        assert name in answer.out
    assert "__complete" not in answer.out  # names are in the script: nothing is started


def test_an_unknown_shell_is_refused() -> None:
    says(refused("completion", "tcsh"), "tcsh", "bash", "zsh", "fish")
