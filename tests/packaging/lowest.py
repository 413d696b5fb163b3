"""The tests with the lowest versions that pyproject.toml allows: `make test-lowest`.

uv resolves the lowest version of every direct dependency of perdure and its extras; PyTorch stays
at the version of requirements.lock. A log is written to LOG, unless arguments are handed to pytest.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

from .environments import ROOT, call
from .suite import QUICK, one_thread, run_suite, where

if TYPE_CHECKING:
    from pathlib import Path

LOG = ROOT / "studies" / "packaging" / "lowest.txt"
FOLDER = ROOT / ".venv-lowest"
EXTRAS = ("train", "report", "ray")
# Old versions warn about the new ones of what they need, and Ray 2.40 leaves its log files open;
# one has a plugin for an older pytest.
QUIET = ("-W", "ignore::DeprecationWarning", "-W", "ignore::ResourceWarning", "-p", "no:anyio")
# The quick tests, and those of the long modules that call what the extras bring.
TESTS = ("execution_ray", "data_hub", "data_load", "report_page", "figures_curves", "examples")


def main() -> int:
    """Install the lowest versions, run the tests, and return 1 if one failed, else 0."""
    FOLDER.mkdir(exist_ok=True)
    constraints = FOLDER / "lowest.txt"
    constraints.write_text(resolve_lowest())
    python = install(constraints)
    outcome = run_suite(python, one_thread(), *QUICK, *QUIET, *sys.argv[1:])
    passed, failed, skipped, seconds = outcome
    if not sys.argv[1:]:
        long = [f"tests/test_{name}.py" for name in TESTS]
        more = run_suite(python, one_thread(), "-m", "not slow", "-q", *QUIET, *long)
        passed, failed = passed + more.passed, failed + more.failed
        skipped, seconds = skipped + more.skipped, seconds + more.seconds
    lines = [
        "# The quick tests and those of the extras with the lowest versions that pyproject.toml",
        "# allows (PyTorch: the locked one), written by `make test-lowest`.",
        f"# {where()}",
        " ".join(sorted(direct_versions(python))),
        f"passed {passed}, failed {len(failed)}, skipped {skipped}, seconds {seconds:.0f}",
        *(f"  failed: {name}" for name in failed),
    ]
    print("", *lines, sep="\n")
    if not sys.argv[1:]:
        LOG.write_text("\n".join(lines) + "\n")
    return int(bool(failed) or not passed)


def resolve_lowest() -> str:
    """Return a constraints file with the lowest versions of the direct dependencies."""
    override = FOLDER / "torch.txt"
    override.write_text(locked("torch")[0] + "\n")
    extras = [f"--extra={extra}" for extra in EXTRAS]
    uv = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--quiet", "--no-header"]
    rules = ["--resolution=lowest-direct", "--no-annotate", "--python-version=3.11"]
    command = [*uv, *extras, *rules, f"--override={override}"]
    return subprocess.check_output(command, cwd=ROOT, text=True)


def install(constraints: Path) -> Path:
    """Install perdure with these versions and the tools of the tests; return the Python."""
    python = FOLDER / "bin" / "python"
    call(sys.executable, "-m", "venv", FOLDER)
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
    # First and by its exact version, so that pip can use a smaller build if one is available.
    call(*pip, *locked("torch"))
    call(*pip, *locked("pytest", "pytest-xdist", "hypothesis", "hatchling", "editables"))
    call(*pip, "-c", constraints, "--no-build-isolation", "-e", f".[{','.join(EXTRAS)}]")
    return python


def locked(*names: str) -> list[str]:
    """Return the lines of requirements.lock for these packages."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return [line for line in lines if line.partition("==")[0] in names]


def direct_versions(python: Path) -> list[str]:
    """Return what is installed of the dependencies that pyproject.toml names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = project["dependencies"] + [line for extra in EXTRAS for line in extras[extra]]
    names = {plain(re.split("[<>=]", line)[0]) for line in named}
    command = [str(python), "-m", "pip", "list", "--format=freeze"]
    installed = subprocess.check_output(command, text=True).splitlines()
    return [line for line in installed if plain(line.partition("==")[0]) in names]


def plain(name: str) -> str:
    """Return the name of a package as indexes compare it."""
    return name.lower().replace("_", "-")


if __name__ == "__main__":
    sys.exit(main())
