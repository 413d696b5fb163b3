"""Empty environments, as pip and uv make them, and the commands that run in them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def call(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command of the environment that runs this; print it first, and stop if it fails."""
    print("$", *command, flush=True)
    subprocess.run(list(map(str, command)), cwd=cwd, check=True)


def make_environment(tool: str, folder: Path, *packages: str | Path) -> Path:
    """Install packages in a new environment with pip or uv, and return its folder of programs."""
    python = folder / "bin" / "python"
    if tool == "uv":
        call(sys.executable, "-m", "uv", "--quiet", "venv", "--python", sys.executable, folder)
        call(sys.executable, "-m", "uv", "--quiet", "pip", "install", "--python", python, *packages)
    else:
        call(sys.executable, "-m", "venv", folder)
        pip = (python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
        call(*pip, *packages)
    return python.parent


def output_of(programs: Path, command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of shell with an environment's programs first, and nothing of this checkout."""
    outside = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment = outside | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(programs.parent),
        "PERDURE_QUIET": "1",
    }
    return subprocess.run(
        ["sh", "-c", command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
