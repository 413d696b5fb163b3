"""The tests that need no PyTorch, on every Python from 3.11 that is found: `make test-pythons`.

Pythons are looked for on PATH and among those of pyenv. A log is written to LOG, unless arguments
are handed to pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from .environments import ROOT, call
from .suite import QUICK, Outcome, one_thread, run_suite, where

LOG = ROOT / "studies" / "packaging" / "pythons.txt"
VERSIONS = [(3, minor) for minor in range(11, 16)]
COLUMNS = "{:8}  {:>6}  {:>6}  {:>7}  {:>7}"


def main() -> int:
    """Run the suite with each Python and return 1 if a test failed, else 0."""
    lines = [
        "# The quick tests that need no PyTorch, written by `make test-pythons`.",
        f"# {where()}, versions of requirements.lock",
        COLUMNS.format("Python", "passed", "failed", "skipped", "seconds"),
    ]
    pythons = {version: path for version in VERSIONS if (path := find_python(*version))}
    failed = not pythons
    for version, path in pythons.items():
        outcome = run_without_torch(path, *QUICK, *sys.argv[1:])
        counts = outcome.passed, len(outcome.failed), outcome.skipped, f"{outcome.seconds:.0f}"
        lines.append(COLUMNS.format("{}.{}".format(*version), *counts))
        lines += [f"  failed: {name}" for name in outcome.failed]
        failed |= bool(outcome.failed or not outcome.passed)
    missing = ["{}.{}".format(*version) for version in VERSIONS if version not in pythons]
    lines.append(f"not found, so not tested: {', '.join(missing) or 'none'}")
    print("", *lines, sep="\n")
    if not sys.argv[1:]:
        LOG.write_text("\n".join(lines) + "\n")
    return int(failed)


def run_without_torch(python: str, *arguments: str) -> Outcome:
    """Run what needs no PyTorch, in an environment of its own with the locked versions."""
    with tempfile.TemporaryDirectory() as folder:
        call(python, "-m", "venv", folder)
        own = Path(folder) / "bin" / "python"
        pip = (own, "-m", "pip", "--disable-pip-version-check", "-qq", "install")
        lock = (ROOT / "requirements.lock").read_text().splitlines()
        locked = Path(folder) / "requirements.txt"
        locked.write_text("\n".join(line for line in lock if not line.startswith("torch==")))
        extras = ("pytest", "pytest-xdist", "hypothesis", "hatchling", "editables")
        call(*pip, "-c", locked, *extras)
        call(*pip, "-c", locked, *requirements_but_torch("train"))
        call(*pip, "-c", locked, "--no-build-isolation", "-e", ".[report]")
        return run_suite(own, one_thread(), *arguments)


def requirements_but_torch(extra: str) -> list[str]:
    """Return what an extra requires besides PyTorch: datasets are read without it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [line for line in project["optional-dependencies"][extra] if line[:5] != "torch"]


def find_python(major: int, minor: int) -> str | None:
    """Return a Python of this version; None if there is none."""
    folders = [*os.get_exec_path(), *Path.home().glob(".pyenv/versions/*/bin")]
    candidates = (f"{folder}/python{major}.{minor}" for folder in folders)
    return next((path for path in candidates if is_python(path, (major, minor))), None)


def is_python(path: str, version: tuple[int, int]) -> bool:
    """Return whether a program runs as this Python; one that only names a missing one does not."""
    command = [path, "-c", f"import sys; sys.exit(sys.version_info[:2] != {version})"]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
